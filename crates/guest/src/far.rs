//! The far side: another machine at the other end of a wire, from which users log in with ssh.
//!
//! It is a network namespace, joined to ours by a pair of virtual Ethernet devices. Its processes are the outside world:
//! they share the CPU with the machine under test, so they run at realtime priority, and what they cost (ssh's
//! cryptography, mostly) is the same under every scheduler. The near side's sshd and all that it starts are ordinary.
//!
//! The kernel keeps 50 ms of each second for ordinary tasks, before realtime ones, if those leave them waiting at the wrong moment:
//! its deadline servers. What held up the outside world for that long would be counted as the time of an answer. So they are off.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::{
    app::{Launch, Program},
    clock::{self, Deadline},
    ending::stalled,
    scope::Scopes,
    system::{self, RUN_DIR},
};

/// Addresses of the near and the far end; the network is set aside for examples (RFC 5737).
pub const NEAR: &str = "192.0.2.1";
pub const FAR: &str = "192.0.2.2";
pub const NAMESPACE: &str = "far";
const SCHED_DEBUG: &str = "/sys/kernel/debug/sched";
/// Below the visitors' hands, above all that is measured.
const PRIORITY: &str = "25";
/// First user id of the accounts.
const FIRST_UID: u32 = 2000;
const SERVER_LIMIT_S: u64 = 60;

/// The wire, the accounts and the near side's ssh server.
pub struct FarSide {
    server: Program,
    users: Vec<String>,
}

impl FarSide {
    /// Joins the two sides, makes accounts for `users`, and starts sshd.
    pub fn new(scopes: Scopes, users: Vec<String>) -> Result<Self> {
        system::load_modules(&["veth"])?;
        join()?;
        fs::create_dir_all(keys("")).context("create the directory of keys")?;
        for (user, uid) in users.iter().zip(FIRST_UID..) {
            make_account(user, uid).with_context(|| format!("make an account for {user}"))?;
        }
        make_key("host")?;
        make_key("user")?;
        let public = |name: &str| fs::read_to_string(keys(name)).with_context(|| format!("read key {name}"));
        fs::write(keys("known"), format!("{NEAR} {}", public("host.pub")?)).context("write the known host")?;
        fs::write(keys("authorized"), public("user.pub")?).context("write the authorized key")?;
        Ok(Self { server: start_server(scopes)?, users })
    }

    /// The near side's server.
    pub fn server_mut(&mut self) -> &mut Program {
        &mut self.server
    }

    /// The id of a user.
    pub fn uid(&self, user: &str) -> Result<u32> {
        let at = self.users.iter().position(|name| name == user).with_context(|| format!("{user} has no account"))?;
        Ok(FIRST_UID + u32::try_from(at)?)
    }

    /// An ssh client at the far side that logs `user` in and has `command` run in a pseudo-terminal. What is typed goes
    /// through [`Program::input`].
    pub fn client<'a>(&self, name: &'a str, user: &str, command: &str) -> Launch<'a> {
        // The outside world is in none of the machine's groups.
        Launch { typed_into: true, ..Launch::new(name, Scopes::none(), &client(user, command)) }
    }
}

/// Command line of an ssh client at the far side.
fn client(user: &str, command: &str) -> Vec<String> {
    let network = format!("--net=/run/netns/{NAMESPACE}");
    let known = format!("UserKnownHostsFile={}", keys("known").display());
    let key = keys("user").display().to_string();
    let near = format!("{user}@{NEAR}");
    let words = ["nsenter", &network, "chrt", "--fifo", PRIORITY, "ssh", "-tt", "-e", "none", "-F", "none", "-i", &key];
    // Typing would be sent in steps of 20 ms, with keys that nobody pressed in between; both would be in the figures.
    let options = ["ObscureKeystrokeTiming=no", "BatchMode=yes", "LogLevel=ERROR", &known];
    let options = options.iter().flat_map(|option| ["-o", option]);
    words.into_iter().chain(options).chain([near.as_str(), command]).map(str::to_owned).collect()
}

/// Takes away what an earlier run of this machine has joined.
pub fn part() -> Result<()> {
    if Path::new("/run/netns").join(NAMESPACE).exists() {
        ip(&format!("netns delete {NAMESPACE}"))?;
    }
    if Path::new("/sys/class/net/near").exists() {
        ip("link delete near")?;
    }
    Ok(())
}

/// Lays the wire between the two sides; module veth must be there.
pub fn join() -> Result<()> {
    let_realtime_run()?;
    let steps = [
        format!("netns add {NAMESPACE}"),
        format!("link add near type veth peer name far netns {NAMESPACE}"),
        format!("address add {NEAR}/24 dev near"),
        "link set near up".to_owned(),
        format!("-n {NAMESPACE} address add {FAR}/24 dev far"),
        format!("-n {NAMESPACE} link set far up"),
    ];
    steps.iter().try_for_each(|step| ip(step))
}

/// Turns the kernel's deadline servers off, as far as it has them: that of the fair class came with 6.12, that of sched_ext later.
fn let_realtime_run() -> Result<()> {
    for server in ["fair_server", "ext_server"] {
        let Ok(cpus) = Path::new(SCHED_DEBUG).join(server).read_dir() else { continue };
        for cpu in cpus {
            let runtime = cpu.with_context(|| format!("list the CPUs of {server}"))?.path().join("runtime");
            fs::write(&runtime, "0").with_context(|| format!("write {}", runtime.display()))?;
        }
    }
    Ok(())
}

/// Runs `ip` with these words.
pub fn ip(words: &str) -> Result<()> {
    run("ip", &words.split(' ').collect::<Vec<_>>())
}

/// A line in each of the account files: useradd would take a second of an emulated CPU for each.
fn make_account(user: &str, uid: u32) -> Result<()> {
    let home = PathBuf::from(format!("/home/{user}"));
    let known = fs::read_to_string("/etc/passwd").context("read /etc/passwd")?;
    if known.lines().any(|line| line.split(':').next() == Some(user)) {
        bail!("the system has a user of this name: choose another one in the scenario");
    }
    for (file, line) in [
        ("/etc/passwd", format!("{user}:x:{uid}:{uid}::{}:/bin/bash\n", home.display())),
        ("/etc/group", format!("{user}:x:{uid}:\n")),
        // No password, but an account that is open.
        ("/etc/shadow", format!("{user}:*:20000:0:99999:7:::\n")),
    ] {
        let mut text = fs::read_to_string(file).with_context(|| format!("read {file}"))?;
        text.push_str(&line);
        fs::write(file, text).with_context(|| format!("write {file}"))?;
    }
    fs::create_dir_all(&home).with_context(|| format!("create {}", home.display()))?;
    chown(&home, Some(uid), Some(uid)).with_context(|| format!("give {} to its user", home.display()))
}

fn start_server(scopes: Scopes) -> Result<Program> {
    let empty = Path::new("/run/sshd");
    fs::create_dir_all(empty).context("create /run/sshd")?;
    fs::set_permissions(empty, fs::Permissions::from_mode(0o755)).context("set the mode of /run/sshd")?;
    let host = format!("HostKey={}", keys("host").display());
    let authorized = format!("AuthorizedKeysFile={}", keys("authorized").display());
    let listen = format!("ListenAddress={NEAR}");
    let words = ["/usr/sbin/sshd", "-D", "-e"];
    let options = [host.as_str(), &authorized, &listen].into_iter().flat_map(|option| ["-o", option]);
    let argv: Vec<&str> = words.into_iter().chain(options).collect();
    let mut server = Launch::new("sshd", scopes, &argv).start()?;
    let deadline = Deadline::after_s(SERVER_LIMIT_S);
    while !server.log_text().contains("Server listening") {
        server.must_run()?;
        if deadline.has_passed() {
            return Err(stalled(server.complaint(&format!("did not listen within {SERVER_LIMIT_S} s")).to_string()));
        }
        clock::sleep_ms(20);
    }
    Ok(server)
}

fn make_key(name: &str) -> Result<()> {
    let file = keys(name).display().to_string();
    run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", &file])
}

fn keys(name: &str) -> PathBuf {
    Path::new(RUN_DIR).join("ssh").join(name)
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let shown = || format!("{program} {}", arguments.join(" "));
    let out = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let out = out.with_context(|| format!("start {program}: is its package in the scenario's packages?"))?;
    if !out.status.success() {
        bail!("{}: {}", shown(), String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::client;

    #[test]
    fn a_client_is_outside_and_first() {
        insta::assert_snapshot!(client("alice", "exec bash").join(" "), @"nsenter --net=/run/netns/far chrt --fifo 25 ssh -tt -e none -F none -i /run/appease-lab/ssh/user -o ObscureKeystrokeTiming=no -o BatchMode=yes -o LogLevel=ERROR -o UserKnownHostsFile=/run/appease-lab/ssh/known alice@192.0.2.1 exec bash");
    }
}
