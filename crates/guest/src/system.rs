//! What a minimal system needs before anything can run: file systems, drivers, device nodes.

use std::{
    ffi::CString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use rustix::{
    io::Errno,
    mount::{MountFlags, mount},
};

use crate::clock::{self, Deadline};

/// The agent's own files: logs, scratch.
pub const RUN_DIR: &str = "/run/appease-lab";
/// Programs and clips that the host brought for this run.
pub const TOOLS: &str = "/run/tools";

/// After how long without an answer a device is announced again.
const ANNOUNCE_AGAIN_MS: u64 = 500;

/// Gives the process a name of its own. Until then it has its parent's, which may run this program, too: by the name one sees
/// that what was to come before has been done.
pub fn take_name(name: &str) -> Result<()> {
    let text = CString::new(name).context("take a name")?;
    rustix::thread::set_name(&text).with_context(|| format!("take the name {name}"))
}

/// CPU time of the task whose `schedstat` this is, ns.
pub fn ran_ns(schedstat: &Path) -> Result<u64> {
    let text = fs::read_to_string(schedstat).with_context(|| format!("read {}", schedstat.display()))?;
    let ran = text.split(' ').next().and_then(|word| word.parse().ok());
    ran.with_context(|| format!("{} says \"{}\"", schedstat.display(), text.trim()))
}

struct MountPoint {
    kind: &'static str,
    at: &'static str,
    options: &'static str,
}

const MOUNTS: &[MountPoint] = &[
    MountPoint { kind: "proc", at: "/proc", options: "" },
    MountPoint { kind: "sysfs", at: "/sys", options: "" },
    MountPoint { kind: "devtmpfs", at: "/dev", options: "" },
    MountPoint { kind: "devpts", at: "/dev/pts", options: "gid=5,mode=620,ptmxmode=666" },
    MountPoint { kind: "tmpfs", at: "/dev/shm", options: "mode=1777" },
    MountPoint { kind: "tmpfs", at: "/run", options: "mode=755" },
    MountPoint { kind: "tmpfs", at: "/tmp", options: "mode=1777" },
    MountPoint { kind: "cgroup2", at: "/sys/fs/cgroup", options: "" },
    MountPoint { kind: "tracefs", at: "/sys/kernel/tracing", options: "" },
    MountPoint { kind: "debugfs", at: "/sys/kernel/debug", options: "" },
    MountPoint { kind: "bpf", at: "/sys/fs/bpf", options: "" },
];

/// Mounts what the initramfs did not.
pub fn mount_all() -> Result<()> {
    let mounted = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let is_mounted = |at: &str| mounted.lines().any(|line| line.split(' ').nth(1) == Some(at));
    for point in MOUNTS {
        if is_mounted(point.at) {
            continue;
        }
        // /sys/fs/… exist already, and cannot be made.
        if !Path::new(point.at).is_dir() {
            fs::create_dir_all(point.at).with_context(|| format!("create {}", point.at))?;
        }
        let options = std::ffi::CString::new(point.options)?;
        match mount(point.kind, point.at, point.kind, MountFlags::empty(), options.as_c_str()) {
            Ok(()) | Err(Errno::BUSY) => {}
            Err(error) => bail!("mount {} on {}: {error}", point.kind, point.at),
        }
    }
    for dir in [RUN_DIR, "/run/udev", "/tmp/.X11-unix"] {
        fs::create_dir_all(dir).with_context(|| format!("create {dir}"))?;
    }
    Ok(())
}

/// Settings that keep measurements comparable.
pub fn tune() {
    // A kernel without autogroup has no such file, and nothing to switch off.
    let _ = fs::write("/proc/sys/kernel/sched_autogroup_enabled", "0");
    let _ = fs::write("/proc/sys/kernel/printk", "4");
}

/// Loads kernel modules, with one process for all of them.
pub fn load_modules(names: &[&str]) -> Result<()> {
    modprobe(&["-a"], names)
}

/// Loads a kernel module with parameters: its name, then `parameter=value`.
pub fn load_module(words: &[&str]) -> Result<()> {
    modprobe(&[], words)
}

fn modprobe(flags: &[&str], words: &[&str]) -> Result<()> {
    let out = Command::new("modprobe").args(flags).args(words).stdin(Stdio::null()).output();
    let out = out.context("start modprobe")?;
    if !out.status.success() {
        bail!("modprobe {}: {}", words.join(" "), String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(())
}

/// Starts udev, which the X server asks about devices. Nothing is coldplugged: see [`announce`].
pub fn start_udev() -> Result<()> {
    let daemon = ["/usr/lib/systemd/systemd-udevd", "/lib/systemd/systemd-udevd"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .context("no systemd-udevd in the image: the base image must have the package udev")?;
    Command::new(daemon)
        .args(["--resolve-names=never", "--children-max=2"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("start {daemon}"))?;
    let deadline = Deadline::after_s(20);
    while !Path::new("/run/udev/control").exists() {
        if deadline.has_passed() {
            bail!("{daemon} did not open /run/udev/control within 20 s");
        }
        clock::sleep_ms(5);
    }
    Ok(())
}

/// Has udev describe these devices (directories below /sys), and waits until it did.
///
/// Its control socket is there before it listens to the kernel, so what it is told at once may be lost: devices whose
/// description can be waited for go first, and are announced until it is there.
pub fn announce(devices: &[PathBuf]) -> Result<()> {
    let add = |device: &Path| {
        let file = device.join("uevent");
        fs::write(&file, "add").with_context(|| format!("write \"add\" to {}", file.display()))
    };
    let (described, others): (Vec<_>, Vec<_>) =
        devices.iter().map(|device| (device, database_entry(device))).partition(|(_, entry)| entry.is_some());
    for (device, entry) in described.iter().filter_map(|(device, entry)| Some((device, entry.as_deref()?))) {
        let deadline = Deadline::after_s(20);
        add(device)?;
        while !comes_within(entry, ANNOUNCE_AGAIN_MS) {
            if deadline.has_passed() {
                bail!("udev did not describe {} within 20 s", device.display());
            }
            add(device)?;
        }
    }
    others.iter().try_for_each(|(device, _)| add(device))
}

fn comes_within(path: &Path, ms: u64) -> bool {
    let end_ns = clock::now_ns() + ms * clock::MS;
    while !path.exists() {
        if clock::now_ns() > end_ns {
            return false;
        }
        clock::sleep_ms(5);
    }
    true
}

/// Where udev keeps what it knows about a device with a node.
fn database_entry(device: &Path) -> Option<PathBuf> {
    let numbers = fs::read_to_string(device.join("dev")).ok()?;
    Some(PathBuf::from(format!("/run/udev/data/c{}", numbers.trim())))
}

/// Waits until a file exists.
pub fn wait_for_path(path: &str, seconds: u64) -> Result<()> {
    let deadline = Deadline::after_s(seconds);
    while !Path::new(path).exists() {
        if deadline.has_passed() {
            bail!("{path} did not appear within {seconds} s");
        }
        clock::sleep_ms(5);
    }
    Ok(())
}

/// Version of the running kernel.
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// The last `lines` lines of a file as a terminal shows them: of a status line that a program writes over and over, its last
/// state. Empty if it cannot be read.
pub fn tail(path: &Path, lines: usize) -> String {
    last_lines(&String::from_utf8_lossy(&fs::read(path).unwrap_or_default()), lines)
}

fn last_lines(text: &str, lines: usize) -> String {
    let all: Vec<&str> =
        text.lines().filter_map(|line| line.split('\r').rfind(|state| !state.trim().is_empty())).collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// What the kernel logged that contains `word`, last `lines` lines.
pub fn kernel_log(word: &str, lines: usize) -> String {
    let Ok(out) = Command::new("dmesg").stdin(Stdio::null()).output() else { return String::new() };
    let text = String::from_utf8_lossy(&out.stdout);
    let all: Vec<&str> = text.lines().filter(|line| line.contains(word)).collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_told_as_a_terminal_shows_it() {
        let log = "VO: [x11]\r\n\nA: 0.1\rA: 0.2\r \r\nExiting\n";
        assert_eq!(last_lines(log, 2), "A: 0.2\nExiting");
        assert_eq!(last_lines(log, 9), "VO: [x11]\nA: 0.2\nExiting");
        assert_eq!(last_lines("", 9), "");
    }
}
