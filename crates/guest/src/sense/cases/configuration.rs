//! Channels that come and go by themselves: with the configuration file, and with a server that listens.

use std::{
    fs,
    os::{fd::OwnedFd, unix::fs::symlink},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::{
    Case, case,
    sockets::{OTHER_PORT, PORT, READ, opens, opens_nothing},
};
use crate::{
    far::NEAR,
    sense::{answer, network::listen, program::Program, rule, stage::Stage},
};

const FILE: &str = "/etc/appease/config.toml";
/// A server of remote desktops, by its name.
const SERVER: &str = "x11vnc";

pub fn all() -> Vec<Case> {
    vec![case("configuration read anew", read_anew), case("remote desktop", remote_desktop)]
}

/// The file, as long as a check needs it.
struct Configuration;

impl Configuration {
    fn names(port: u32) -> Result<Self> {
        fs::create_dir_all(Path::new(FILE).parent().unwrap_or(Path::new("/"))).context("create its directory")?;
        let file = Self;
        file.now_names(port)?;
        Ok(file)
    }

    fn now_names(&self, port: u32) -> Result<()> {
        let text = format!("# by a check\n[[channel]]\naccess = \"read\"\naccept = \":{port}\"\n");
        fs::write(FILE, text).with_context(|| format!("write {FILE}"))
    }
}

impl Drop for Configuration {
    fn drop(&mut self) {
        let gone = fs::remove_file(FILE).map_err(anyhow::Error::from);
        if let Err(error) = gone.and_then(|()| answer::command(&["reload"])) {
            println!("# {FILE}: {error:#}");
        }
    }
}

/// At SIGHUP, and when it is told to. A wrong file changes nothing.
fn read_anew(stage: &mut Stage) -> Result<()> {
    let elsewhere = stage.elsewhere()?;
    let of_file = format!("accept :{PORT}");
    let (before, _) = elsewhere.calls(NEAR, PORT)?;
    opens_nothing(stage, "before", &before)?;
    let file = Configuration::names(PORT.into())?;
    hang_up()?;
    rule::lists(&of_file, true)?;
    let (link, peer) = elsewhere.calls(NEAR, PORT)?;
    opens(stage, "a channel of the file, after SIGHUP", &link, &READ, peer)?;
    file.now_names(70000)?;
    let refused = answer::command(&["reload"]).err().map(|error| format!("{error:#}")).unwrap_or_default();
    let told = refused.contains(&format!("{FILE}, line 4: port \"70000\""));
    stage.verdict("a wrong line is named", if told { Ok(()) } else { Err(anyhow::anyhow!("it said {refused:?}")) });
    hang_up()?;
    let (link, peer) = elsewhere.calls(NEAR, PORT)?;
    opens(stage, "a wrong file changes nothing", &link, &READ, peer)?;
    drop(file);
    stage.verdict("gone with the file", rule::lists(&of_file, false));
    let (after, _) = elsewhere.calls(NEAR, PORT)?;
    opens_nothing(stage, "after", &after)
}

/// Sends SIGHUP to the daemon.
fn hang_up() -> Result<()> {
    for entry in fs::read_dir("/proc").context("list processes")?.flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = command.split(|&byte| byte == 0);
        let is_daemon = words.next().is_some_and(|program| program.ends_with(b"/appease"));
        if is_daemon && words.any(|word| word == b"run") {
            let pid = entry.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
            return kill_process(pid.context("the daemon has no number")?, Signal::HUP).context("send SIGHUP");
        }
    }
    bail!("no daemon runs")
}

/// Where it listens is a channel for as long, though no rule ever named the port.
fn remote_desktop(stage: &mut Stage) -> Result<()> {
    let elsewhere = stage.elsewhere()?;
    let what = format!("accept :{OTHER_PORT}");
    let program = stage.dir.join(SERVER);
    symlink("/usr/bin/sleep", &program).context("name a server")?;
    let listener = listen(NEAR, OTHER_PORT)?;
    let (before, _) = elsewhere.calls_at(&listener)?;
    opens_nothing(stage, "somebody else's port", &before)?;
    drop(listener);
    let listener = listen(NEAR, OTHER_PORT)?;
    let end = OwnedFd::from(listener.try_clone()?);
    let server = Program::start(Command::new(&program).arg("1000"), Some(&end), stage.dir.join("server.out"))?;
    drop(end);
    rule::lists(&what, true)?;
    let (link, peer) = elsewhere.calls_at(&listener)?;
    opens(stage, "while its server listens", &link, &READ, peer)?;
    drop((server, listener));
    stage.verdict("it goes with its server", rule::lists(&what, false));
    let (after, _) = elsewhere.calls(NEAR, OTHER_PORT)?;
    opens_nothing(stage, "afterwards", &after)?;
    fs::remove_file(&program).context("take the server's name back")
}
