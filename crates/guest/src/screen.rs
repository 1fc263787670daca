//! The X server, and where applications' windows are.

use std::{
    fs,
    io::{BufRead, BufReader},
};

use anyhow::{Context, Result, bail};
use x11rb::{
    connection::Connection,
    protocol::xproto::{AtomEnum, ConnectionExt, EventMask, MapState, Window as XWindow},
    rust_connection::RustConnection,
};

use crate::{
    app::{Launch, Program},
    clock::{self, Deadline},
    events::Rect,
    scope::Scopes,
    system::RUN_DIR,
};

/// Pixels: room for a 1280×720 player beside terminals.
pub const WIDTH: i32 = 1920;
/// Pixels.
pub const HEIGHT: i32 = 1080;

const DISPLAY: &str = ":0";
const WINDOW_LIMIT_S: u64 = 60;
/// Windows between the root and an application's own.
const FRAMES: u32 = 2;

/// A plain frame buffer without acceleration, and no input device but the typist's.
const CONFIGURATION: &str = r#"
Section "ServerFlags"
    Option "BlankTime" "0"
    Option "StandbyTime" "0"
    Option "SuspendTime" "0"
    Option "OffTime" "0"
    Option "AutoAddGPU" "false"
EndSection
Section "Module"
    Disable "glx"
    Disable "dri2"
EndSection
Section "Device"
    Identifier "card"
    Driver "modesetting"
    Option "kmsdev" "/dev/dri/card0"
    Option "AccelMethod" "none"
EndSection
Section "Screen"
    Identifier "screen"
    Device "card"
    DefaultDepth 24
    SubSection "Display"
        Depth 24
        Modes "1920x1080"
    EndSubSection
EndSection
Section "InputClass"
    Identifier "nobody but the typist"
    NoMatchProduct "appease typist"
    Option "Ignore" "true"
EndSection
"#;

/// Where the kernel lists devices of virtual machines, each with the number of its kind.
const VIRTIO: &str = "/sys/bus/virtio/devices";
const VIRTIO_GPU: &str = "0x0010";

/// The module of this machine's graphics card.
pub fn card_module() -> &'static str {
    let devices = fs::read_dir(VIRTIO).into_iter().flatten().flatten();
    let mut kinds = devices.filter_map(|device| fs::read_to_string(device.path().join("device")).ok());
    if kinds.any(|kind| kind.trim() == VIRTIO_GPU) { "virtio-gpu" } else { "bochs" }
}

/// Starts the X server and waits until it takes clients.
pub fn start_server(scopes: Scopes) -> Result<Program> {
    let configuration = format!("{RUN_DIR}/xorg.conf");
    fs::write(&configuration, CONFIGURATION).with_context(|| format!("write {configuration}"))?;
    let log = format!("{RUN_DIR}/Xorg.0.log");
    let argv = [
        "Xorg",
        DISPLAY,
        "vt7",
        "-config",
        &configuration,
        "-logfile",
        &log,
        "-nolisten",
        "tcp",
        "-noreset",
        "-displayfd",
        "1",
        "-keeptty",
    ];
    let mut launch = Launch::new("xorg", scopes, &argv);
    launch.piped = true;
    let mut server = launch.start()?;
    let output = server.output().context("Xorg has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).context("read what Xorg says")?;
    if line.trim() != DISPLAY.trim_start_matches(':') {
        clock::sleep_ms(200);
        return Err(server.complaint("did not become ready"));
    }
    Ok(server)
}

/// By what a window is known.
#[derive(Debug, Clone, Copy)]
pub enum Title<'a> {
    /// All of its title.
    Is(&'a str),
    /// A part of its title.
    Contains(&'a str),
}

impl Title<'_> {
    fn fits(self, name: &str) -> bool {
        match self {
            Self::Is(title) => name == title,
            Self::Contains(part) => name.contains(part),
        }
    }
}

/// A look at the display.
pub struct Screen {
    connection: RustConnection,
    root: XWindow,
}

impl Screen {
    /// Connects; drop it before measuring.
    pub fn connect() -> Result<Self> {
        let (connection, number) =
            x11rb::connect(Some(DISPLAY)).with_context(|| format!("connect to display {DISPLAY}"))?;
        let screen = connection.setup().roots.get(number).context("the display has no screen")?;
        let size = (i32::from(screen.width_in_pixels), i32::from(screen.height_in_pixels));
        if size != (WIDTH, HEIGHT) {
            bail!("the screen has {}x{} pixels instead of {WIDTH}x{HEIGHT}", size.0, size.1);
        }
        let root = screen.root;
        Ok(Self { connection, root })
    }

    /// Waits until a window manager is in charge, which it is as soon as it is asked before windows are shown.
    pub fn wait_for_manager(&self, manager: &mut Program) -> Result<()> {
        let deadline = Deadline::after_s(WINDOW_LIMIT_S);
        loop {
            let root = self.connection.get_window_attributes(self.root)?.reply().context("look at the root window")?;
            if root.all_event_masks.contains(EventMask::SUBSTRUCTURE_REDIRECT) {
                return Ok(());
            }
            manager.must_run()?;
            if deadline.has_passed() {
                return Err(manager.complaint(&format!("did not manage windows within {WINDOW_LIMIT_S} s")));
            }
            clock::sleep_ms(20);
        }
    }

    /// Waits until somebody owns a selection, as `owner` does once it is at work.
    pub fn wait_for_selection(&self, name: &str, owner: &mut Program) -> Result<()> {
        let deadline = Deadline::after_s(WINDOW_LIMIT_S);
        let atom = self.connection.intern_atom(false, name.as_bytes())?.reply().context("name a selection")?.atom;
        while self.connection.get_selection_owner(atom)?.reply().context("ask for a selection")?.owner == x11rb::NONE {
            owner.must_run()?;
            if deadline.has_passed() {
                return Err(owner.complaint(&format!("was not at work within {WINDOW_LIMIT_S} s")));
            }
            clock::sleep_ms(20);
        }
        Ok(())
    }

    /// Waits for the window with this title, and says where it is.
    pub fn window(&self, title: Title, owner: &mut Program) -> Result<Rect> {
        let deadline = Deadline::after_s(WINDOW_LIMIT_S);
        loop {
            if let Some(rect) = self.find(title)? {
                let screen = Rect { x1: 0, y1: 0, x2: WIDTH, y2: HEIGHT };
                if !screen.contains(rect) {
                    bail!("window of \"{}\" reaches beyond the screen of {WIDTH}x{HEIGHT}: {rect:?}", owner.name);
                }
                return Ok(rect);
            }
            owner.must_run()?;
            if deadline.has_passed() {
                return Err(owner.complaint(&format!("opened no window within {WINDOW_LIMIT_S} s")));
            }
            clock::sleep_ms(20);
        }
    }

    fn find(&self, title: Title) -> Result<Option<Rect>> {
        // A window manager puts a window of its own around each.
        let mut level = vec![self.root];
        for _ in 0..=FRAMES {
            let mut children = Vec::new();
            for window in level {
                // A window may go while we look at it.
                if let Ok(tree) = self.connection.query_tree(window)?.reply() {
                    children.extend(tree.children);
                }
            }
            for &window in &children {
                if self.has_title(window, title)?
                    && let Some(rect) = self.place(window)?
                {
                    return Ok(Some(rect));
                }
            }
            level = children;
        }
        Ok(None)
    }

    fn has_title(&self, window: XWindow, title: Title) -> Result<bool> {
        let name = self.connection.get_property(false, window, AtomEnum::WM_NAME, AtomEnum::ANY, 0, 64)?.reply();
        Ok(name.is_ok_and(|name| title.fits(&String::from_utf8_lossy(&name.value))))
    }

    /// Where a window is on the screen, its border included; `None` while it is not shown.
    fn place(&self, window: XWindow) -> Result<Option<Rect>> {
        let viewable = self
            .connection
            .get_window_attributes(window)?
            .reply()
            .is_ok_and(|found| found.map_state == MapState::VIEWABLE);
        let inner = self.connection.translate_coordinates(window, self.root, 0, 0)?.reply();
        let (true, Ok(inner), Ok(size)) = (viewable, inner, self.connection.get_geometry(window)?.reply()) else {
            return Ok(None);
        };
        let border = i32::from(size.border_width);
        let (x1, y1) = (i32::from(inner.dst_x) - border, i32::from(inner.dst_y) - border);
        let (width, height) = (i32::from(size.width) + 2 * border, i32::from(size.height) + 2 * border);
        Ok(Some(Rect { x1, y1, x2: x1 + width, y2: y1 + height }))
    }

    /// Waits until the X server has taken in the typist's device: until its pointer obeys.
    pub fn wait_for_pointer(&self, mut point: impl FnMut((i32, i32)) -> Result<()>) -> Result<()> {
        let deadline = Deadline::after_s(WINDOW_LIMIT_S);
        for round in 0.. {
            let goal = (WIDTH - 40 - round % 2 * 20, HEIGHT - 40);
            point(goal)?;
            clock::sleep_ms(20);
            let place = self.connection.query_pointer(self.root)?.reply().context("ask for the pointer")?;
            let off = (i32::from(place.root_x) - goal.0).abs() + (i32::from(place.root_y) - goal.1).abs();
            if off <= 4 {
                return Ok(());
            }
            if deadline.has_passed() {
                bail!(
                    "the X server does not follow the typist's pointer (it is at {},{}): {}",
                    place.root_x,
                    place.root_y,
                    crate::system::tail(std::path::Path::new(&format!("{RUN_DIR}/Xorg.0.log")), 25)
                );
            }
        }
        Ok(())
    }
}
