//! The customer's hands: input devices made with uinput, one for each kind of channel.

use std::{
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use evdev::{
    AbsInfo, AbsoluteAxisCode, AttributeSet, EventType, InputEvent, KeyCode, RelativeAxisCode, UinputAbsSetup,
    uinput::VirtualDevice,
};

use crate::clock::{self, Deadline};

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A remote control: keys that the console does not know, so that nothing but a reader of its node gets them.
    Remote,
    /// A keyboard that types into the console.
    Keyboard,
    /// A mouse.
    Mouse,
    /// A joystick.
    Joystick,
}

/// A device, as long as this value lives.
pub struct Device {
    shape: Shape,
    device: VirtualDevice,
    pressed: bool,
    /// Its directory below /sys.
    sys: PathBuf,
}

impl Device {
    /// Makes it.
    pub fn new(shape: Shape) -> Result<Self> {
        let mut device = build(shape).with_context(|| format!("make a {shape:?} with /dev/uinput"))?;
        let sys = device.get_syspath().context("find an input device in /sys")?;
        Ok(Self { shape, device, pressed: false, sys })
    }

    /// Its device node whose name begins with `prefix`: `event`, `js`, `mouse`.
    pub fn node(&self, prefix: &str) -> Result<String> {
        wait_for_node(&format!("node {prefix}… of a {:?}", self.shape), || {
            let names = fs::read_dir(&self.sys).with_context(|| format!("list {}", self.sys.display()))?;
            let mut names = names.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
            Ok(names.find(|name| is_node_name(name, prefix)).map(|name| format!("/dev/input/{name}")))
        })
    }

    /// The customer does something with it, once.
    pub fn touch(&mut self) -> Result<()> {
        self.pressed = !self.pressed;
        let value = i32::from(self.pressed);
        match self.shape {
            Shape::Remote => self.emit(EventType::KEY, KeyCode::KEY_OK.code(), value),
            Shape::Mouse => self.emit(EventType::RELATIVE, RelativeAxisCode::REL_X.0, 3),
            Shape::Joystick => self.emit(EventType::KEY, KeyCode::BTN_TRIGGER.code(), value),
            // The console hands on whole lines.
            Shape::Keyboard => {
                for key in [KeyCode::KEY_A, KeyCode::KEY_ENTER] {
                    self.emit(EventType::KEY, key.code(), 1)?;
                    self.emit(EventType::KEY, key.code(), 0)?;
                }
                Ok(())
            }
        }
    }

    fn emit(&mut self, kind: EventType, code: u16, value: i32) -> Result<()> {
        self.device.emit(&[InputEvent::new(kind.0, code, value)]).with_context(|| format!("use the {:?}", self.shape))
    }
}

fn build(shape: Shape) -> std::io::Result<VirtualDevice> {
    let keys = |codes: &[KeyCode]| codes.iter().copied().collect::<AttributeSet<KeyCode>>();
    let builder = VirtualDevice::builder()?;
    match shape {
        Shape::Remote => builder.name("checks' remote control").with_keys(&keys(&[KeyCode::KEY_OK]))?.build(),
        Shape::Keyboard => {
            let all: AttributeSet<KeyCode> = (1..=127).map(KeyCode::new).collect();
            builder.name("checks' keyboard").with_keys(&all)?.build()
        }
        Shape::Mouse => {
            let axes: AttributeSet<RelativeAxisCode> =
                [RelativeAxisCode::REL_X, RelativeAxisCode::REL_Y].into_iter().collect();
            let buttons = keys(&[KeyCode::BTN_LEFT, KeyCode::BTN_RIGHT]);
            builder.name("checks' mouse").with_keys(&buttons)?.with_relative_axes(&axes)?.build()
        }
        Shape::Joystick => {
            let axis = |code| UinputAbsSetup::new(code, AbsInfo::new(0, -100, 100, 0, 0, 0));
            builder
                .name("checks' joystick")
                .with_keys(&keys(&[KeyCode::BTN_TRIGGER, KeyCode::BTN_THUMB]))?
                .with_absolute_axis(&axis(AbsoluteAxisCode::ABS_X))?
                .with_absolute_axis(&axis(AbsoluteAxisCode::ABS_Y))?
                .build()
        }
    }
}

fn is_node_name(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Waits until `find` finds the path of a device node that is there.
pub fn wait_for_node(what: &str, find: impl Fn() -> Result<Option<String>>) -> Result<String> {
    let deadline = Deadline::after_s(10);
    loop {
        if let Some(node) = find()?.filter(|node| is_device(Path::new(node))) {
            return Ok(node);
        }
        if deadline.has_passed() {
            bail!("no {what} appeared within 10 s");
        }
        clock::sleep_ms(5);
    }
}

/// Whether there is a character device.
fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.file_type().is_char_device())
}

/// The console that the keyboard types into.
pub fn console() -> Result<String> {
    let active = fs::read_to_string("/sys/class/tty/tty0/active").context("read which console is in front")?;
    Ok(format!("/dev/{}", active.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_by_kind() {
        assert!(is_node_name("event12", "event"));
        assert!(is_node_name("js0", "js"));
        assert!(!is_node_name("event", "event"));
        assert!(!is_node_name("inhibited", "in"));
    }
}
