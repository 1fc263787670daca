//! The command as people run it, where it must refuse: one message that names thing and cure, non-zero exit,
//! nothing changed.

use std::{
    io::Write,
    os::{
        fd::OwnedFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    process::{Command, Output, Stdio},
};

fn appease(run_dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_appease"));
    command.arg("--run-dir").arg(run_dir).args(args);
    command.output().expect("start appease")
}

fn refusal(output: &Output) -> String {
    assert!(!output.status.success(), "it succeeded");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether this machine cannot run the scheduler anyway; the tests that need one which cannot are void elsewhere.
fn lacks_sched_ext() -> bool {
    !Path::new("/sys/kernel/sched_ext").exists()
}

#[test]
fn run_refuses_a_kernel_without_sched_ext() {
    if !lacks_sched_ext() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let run_dir = dir.path().join("run");
    let message = refusal(&appease(&run_dir, &["run", "--backend", "scx"]));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    assert!(message.contains(&format!("kernel {} has no sched_ext", kernel.trim())), "{message}");
    assert!(message.contains("boot Linux"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(!run_dir.exists(), "a refused daemon leaves nothing");
}

#[test]
fn run_refuses_a_wrong_configuration() {
    let dir = tempfile::tempdir().expect("a directory");
    let (run_dir, file) = (dir.path().join("run"), dir.path().join("config.toml"));
    let path = file.to_str().expect("a path");
    let message = refusal(&appease(&run_dir, &["run", "--config", path]));
    assert!(message.contains(&format!("reading {path}: No such file")), "{message}");
    std::fs::write(&file, "# mine\n[[channel]]\naccess = \"read\"\naccept = \":0\"\n").expect("written");
    let message = refusal(&appease(&run_dir, &["run", "--config", path]));
    assert!(message.contains(&format!("{path}, line 4: port \"0\" of :0 is none: allowed is 1 to 65535")), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(!run_dir.exists(), "a refused daemon leaves nothing");
}

#[test]
fn doctor_names_what_is_missing() {
    if !lacks_sched_ext() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let output = appease(dir.path(), &["doctor"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with("warn  sched_ext")).unwrap_or_default();
    assert!(line.contains("has no sched_ext") && line.contains("--backend nice"), "{text}");
    assert!(text.lines().any(|line| line.contains("nice is what \"appease run\" takes here")), "{text}");
}

#[test]
fn clients_say_that_no_daemon_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let add = ["channel", "add", "read", "accept", ":80"];
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["why", "1"],
        &["latency"],
        &["latency", "--json"],
        &["latency", "--openmetrics"],
        &["channel", "list"],
        &add,
        &["channel", "remove", "7"],
        &["reload"],
    ] {
        let output = appease(dir.path(), args);
        let message = refusal(&output);
        assert!(message.contains("appease is not running"), "{args:?}: {message}");
        assert!(message.contains("systemctl start appease"), "{args:?}: {message}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn host_names_are_looked_up_at_a_socket_alone() {
    let refused = |input: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_appease"));
        let message = refusal(&command.arg("hosts").stdin(input).output().expect("start appease"));
        assert!(message.contains("systemctl start appease-hosts.socket"), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    };
    refused(Stdio::null());
    let (stream, _other) = UnixStream::pair().expect("a pair");
    refused(OwnedFd::from(stream).into());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    refused(OwnedFd::from(listener).into());
}

/// As systemd starts it.
#[test]
fn host_names_are_looked_up_for_the_daemon() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("hosts");
    let listener = UnixListener::bind(&socket).expect("bound");
    let mut command = Command::new(env!("CARGO_BIN_EXE_appease"));
    let mut service =
        command.arg("hosts").stdin(OwnedFd::from(listener)).stderr(Stdio::null()).spawn().expect("start appease");
    let answer = |question: &str| {
        let mut stream = UnixStream::connect(&socket).expect("connected");
        stream.write_all(question.as_bytes()).expect("asked");
        std::io::read_to_string(stream).expect("an answer")
    };
    let known = answer("localhost\n");
    assert!(known.starts_with("127.0.0.1\n") && known.ends_with("end\n"), "{known}");
    let unknown = answer("no.such.name.invalid\n");
    assert!(unknown.starts_with("error ") && unknown.lines().count() == 1, "{unknown}");
    assert_eq!(answer("/etc/passwd\n"), "error that is no host name\n");
    service.kill().expect("ended");
    service.wait().expect("ended");
}

#[test]
fn x11_refuses_without_an_x_display() {
    for (variables, args, wanted) in [
        (&[][..], &[][..], "there is no X display: name one by --display"),
        (&[("WAYLAND_DISPLAY", "wayland-0")], &[], "wayland-0 is a display of Wayland"),
        (&[("DISPLAY", ":0")], &["--display", ":4095"], "display :4095 cannot be reached"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_appease"));
        command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").envs(variables.iter().copied());
        let message = refusal(&command.arg("x11").args(args).output().expect("start appease"));
        assert!(message.contains(wanted), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn nonsense_on_the_command_line_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    for (args, wanted) in [
        (&["run", "--policy", "cfs"][..], "[possible values: appease, rsio, rbpe, cas, steady]"),
        (&["run", "--backend", "magic"], "[possible values: auto, scx, nice, none]"),
        (
            &["run", "--policy", "rbpe", "--backend", "scx"],
            "--backend is scx: allowed is nice or auto with --policy rbpe, which is one of nice values",
        ),
        (&["run", "--slice-us", "7"], "--slice-us is 7: allowed is 100 to 100000"),
        (&["run", "--stats", "0"], "--stats is 0: allowed is 0.1 to 86400 seconds"),
        (&["run", "--max-conf", "101"], "--max-conf is 101: allowed is 1 to 100"),
        (&["run", "--co-conf", "5"], "--co-conf is 5: allowed is 0 to 4"),
        (&["channel", "add", "look", "accept", ":22"], "[possible values: read, write, both]"),
        (&["channel", "add", "read", "accept", ":70000"], "port \"70000\" of :70000 is none: allowed is 1 to 65535"),
        (&["channel", "add", "read", "listen", ":22"], "\"listen :22\" is no channel: write the path"),
        (&["channel", "remove", "read", "mice"], "\"mice\" is no channel: write the path"),
        (&["channel", "add", "read", "accept", ":80", "--weight", "0"], "weight is 0: allowed is 0.01 to 100"),
        (&["latency", "--json", "--openmetrics"], "cannot be used with"),
        (&["why", "me"], "invalid value 'me' for '<PID>'"),
        (&["fly"], "unrecognized subcommand 'fly'"),
    ] {
        let message = refusal(&appease(dir.path(), args));
        assert!(message.contains(wanted), "{args:?}: {message}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 0);
}
