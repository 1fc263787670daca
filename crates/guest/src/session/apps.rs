//! The scenario's applications: their command lines and their windows.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use appease_scenario::AppKind;

use super::{Session, Task, players::Player};
use crate::{
    app::{Launch, Program},
    clock::{self, Deadline},
    ending::stalled,
    meter::Window,
    screen::{Screen, Title},
};

/// How long an application may take to get ready, busy seconds.
const READY_LIMIT_S: u64 = 120;

impl Session<'_> {
    pub(super) fn start_apps(&mut self, tasks: &[Task]) -> Result<()> {
        let scenario = self.job.scenario.clone();
        let mut shown = Vec::new();
        for app in &scenario.apps {
            let id = app.id.as_str();
            let argv: Vec<String> = match &app.kind {
                AppKind::Xterm { run, x, y, columns, rows } => {
                    shown.push((id, Title::Is(id)));
                    xterm(id, run, &format!("{columns}x{rows}+{x}+{y}"))
                }
                kind @ (AppKind::Mplayer(_) | AppKind::Mpv(_) | AppKind::Capture(_)) => {
                    let Some((player, argv)) = Player::of(id, kind)? else { continue };
                    shown.push((id, Title::Is(id)));
                    self.players.insert(id.to_owned(), player);
                    argv
                }
                AppKind::Window { run, title } => {
                    shown.push((id, Title::Contains(title)));
                    shell(run)
                }
                // They log in when the scheduler is there.
                AppKind::Ssh(_) => continue,
                AppKind::Shell { .. } if tasks.iter().any(|task| task.id == id) => continue,
                AppKind::Shell { run, .. } | AppKind::WindowManager { run } => shell(run),
            };
            let ready = match &app.kind {
                AppKind::Shell { ready, .. } => ready.as_deref().map(Path::new),
                _ => None,
            };
            // An earlier round may have left it.
            if let Some(file) = ready.filter(|file| file.exists()) {
                fs::remove_file(file).with_context(|| format!("remove {}", file.display()))?;
            }
            let gated = self.is_loop(id);
            let mut program = Launch { gated, ..Launch::new(id, self.scopes, &argv) }.start()?;
            if let AppKind::WindowManager { .. } = &app.kind {
                Screen::connect()?.wait_for_manager(&mut program)?;
            }
            if let Some(file) = ready {
                wait_until_ready(&mut program, file)?;
            }
            self.apps.insert(id.to_owned(), program);
        }
        if shown.is_empty() {
            return Ok(());
        }
        let screen = Screen::connect()?;
        for (id, title) in shown {
            let Some(app) = self.apps.get_mut(id) else { continue };
            self.windows.insert(id.to_owned(), Window::new(screen.window(title, app)?));
        }
        self.host.phase("apps-ready");
        Ok(())
    }
}

fn wait_until_ready(program: &mut Program, file: &Path) -> Result<()> {
    let deadline = Deadline::after_s(READY_LIMIT_S);
    while !file.exists() {
        program.must_run()?;
        if deadline.has_passed() {
            let what = format!("did not make {} within {READY_LIMIT_S} s", file.display());
            return Err(stalled(program.complaint(&what).to_string()));
        }
        clock::sleep_ms(20);
    }
    Ok(())
}

fn shell(run: &str) -> Vec<String> {
    ["sh", "-c", run].map(str::to_owned).to_vec()
}

fn xterm(id: &str, run: &str, geometry: &str) -> Vec<String> {
    // The cursor looks the same with and without focus, so that a moving pointer redraws nothing.
    let words = [
        "xterm",
        "-title",
        id,
        "-geometry",
        geometry,
        "-ah",
        "-fn",
        "fixed",
        "-b",
        "2",
        "-xrm",
        "*pointerMode: 0",
        "-xrm",
        "*cursorBlink: false",
        "-xrm",
        "*allowTitleOps: false",
        "-e",
        "sh",
        "-c",
        run,
    ];
    words.iter().map(|&word| word.to_owned()).collect()
}
