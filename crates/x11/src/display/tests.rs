use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use x11rb::protocol::{xproto::MOTION_NOTIFY_EVENT, xtest::ConnectionExt as _};

use super::*;

/// How long the server may take for what is due.
const SOON: Duration = Duration::from_secs(10);

/// A real X server, whose screen nobody sees.
struct Xvfb {
    process: Child,
    name: String,
}

impl Xvfb {
    fn start() -> Self {
        // It writes the number of its display when it is ready.
        let mut process = Command::new("Xvfb")
            .args(["-displayfd", "1", "-nolisten", "tcp"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Xvfb is installed by `make deps`");
        let mut number = String::new();
        let out = process.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut number).expect("it tells its display");
        Self { process, name: format!(":{}", number.trim()) }
    }

    fn display(&self) -> Display {
        Display::connect(&self.name).expect("it is served")
    }
}

impl Drop for Xvfb {
    fn drop(&mut self) {
        let ended = self.process.kill().and_then(|()| self.process.wait());
        assert!(ended.is_ok() || thread::panicking(), "{ended:?}");
    }
}

/// What is told next of the user's activity, and after how long.
fn next_word(display: &Display, activity: &Activity) -> (bool, Duration) {
    let begin = Instant::now();
    while begin.elapsed() < SOON {
        match display.event().expect("it is there") {
            Some(event) => {
                if let Some(active) = activity.says(&event).expect("it is there") {
                    return (active, begin.elapsed());
                }
            }
            None => thread::sleep(Duration::from_millis(1)),
        }
    }
    panic!("nothing was told in {SOON:?}");
}

#[test]
fn input_after_each_pause_is_told_a_moment_later() {
    let server = Xvfb::start();
    let display = server.display();
    // As when no window manager tells the focus: the agent asks for events of all windows there are, its own included.
    let _focus = crate::focus::Focus::follow(&display).expect("it is there");
    let activity = display.watch_activity(&server.name).expect("it is there").expect("it counts idle time");
    for at in 1..4 {
        let (active, _) = next_word(&display, &activity);
        assert!(!active, "pause {at}");
        let input =
            display.connection().xtest_fake_input(MOTION_NOTIFY_EVENT, 0, CURRENT_TIME, display.root(), at, at, 0);
        input.expect("it is there").check().expect("a pointer moves");
        let (active, after) = next_word(&display, &activity);
        assert!(active, "input {at}");
        assert!(after >= Duration::from_millis(ASIDE_MS - 1), "told after {after:?}");
    }
}

#[test]
fn a_display_has_one_agent() {
    let server = Xvfb::start();
    let _first = server.display();
    let second = Display::connect(&server.name).map(drop).expect_err("it is served already");
    assert!(matches!(second, Error::AlreadyServed { .. }), "{second}");
}
