//! Programs that stand between a user's ssh session and what the user looks at.

use std::{
    fs::{self, Permissions},
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::ChildStdin,
    rc::Rc,
};

use anyhow::{Context, Result};

use super::{START_IS_OVER_MS, Source, is_not_served, is_served, parent_of, pid_in};
use crate::{
    app, clock,
    far::FarSide,
    scope::Scopes,
    sense::{
        cases::{Case, case},
        stage::Stage,
    },
};

const USER: &str = "alice";
const FROM_FAR: Source = Source { channel: "inet", node: "192.0.2.2", reader: "sshd-session" };

/// Compiles again and again, and says so: somebody started it and went elsewhere.
const JOB: &str = "\
echo $$ > ~/job
echo 'int main(void) { return 0; }' > ~/job.c
while :; do gcc -o ~/job.out ~/job.c && echo built; sleep 2; done
";
/// Prints without end.
const FLOOD: &str = "echo $$ > ~/front; echo $$ > ~/job; exec yes nobody reads this";
/// What the user looks at.
const FRONT: &str = "echo $$ > ~/front; exec cat\n";
/// The first window has the front, the second the job; the first is looked at.
const SCREENRC: &str = "\
startup_message off
screen -t front 0 sh front.sh
screen -t job 1 sh job.sh
select 0
";

pub fn all() -> Vec<Case> {
    let home = Rc::new(std::cell::OnceCell::new());
    let at = |name: &str, steps: fn(&mut Stage, &Home) -> Result<()>| {
        let home = Rc::clone(&home);
        case(name, move |stage| {
            if home.get().is_none() {
                let _ = home.set(Home::new()?);
            }
            steps(stage, home.get().context("no home")?)
        })
    };
    vec![at("tmux", tmux), at("screen", screen), at("sudo", sudo), at("ssh", flood)]
}

/// The user's account, and where they come from.
struct Home {
    far: FarSide,
    dir: PathBuf,
}

impl Home {
    fn new() -> Result<Self> {
        let far = FarSide::new(Scopes::none(), vec![USER.to_owned()])?;
        let home = Self { far, dir: Path::new("/home").join(USER) };
        home.write("job.sh", JOB)?;
        home.write("front.sh", FRONT)?;
        home.write("screenrc", SCREENRC)?;
        let rule = "/etc/sudoers.d/checks";
        fs::write(rule, format!("{USER} ALL=(ALL) NOPASSWD: ALL\n")).with_context(|| format!("write {rule}"))?;
        fs::set_permissions(rule, Permissions::from_mode(0o440)).with_context(|| format!("set the mode of {rule}"))?;
        Ok(home)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.dir.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    /// The user logs in and has `command` run; waits until what came with the start is over.
    fn login(&self, name: &str, command: &str) -> Result<Login> {
        for left in ["front", "job"] {
            let _ = fs::remove_file(self.dir.join(left));
        }
        let mut client = self.far.client(name, USER, &format!("export TERM=vt100; {command}")).start()?;
        let keys = client.input().context("the ssh client has no input")?;
        let mut login = Login { client, keys, front: 0, job: 0 };
        login.front = self.told("front", &login)?;
        login.job = self.told("job", &login)?;
        clock::sleep_ms(START_IS_OVER_MS);
        Ok(login)
    }

    fn told(&self, name: &str, login: &Login) -> Result<u32> {
        pid_in(&self.dir.join(name)).with_context(|| login.client.log_tail(5))
    }
}

/// A session that lasts as long as this value.
struct Login {
    client: app::Program,
    keys: ChildStdin,
    front: u32,
    job: u32,
}

impl Login {
    fn types(&mut self, line: &str) -> Result<()> {
        self.keys.write_all(format!("{line}\r").as_bytes()).context("type into ssh")
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        self.client.kill();
    }
}

/// A server between two terminals: the user's, which it reads, and the front window's, which it writes.
fn multiplexer(stage: &mut Stage, mut login: Login) -> Result<()> {
    let server = parent_of(login.front)?;
    login.types("hello")?;
    stage.verdict("its server", is_served(server, &FROM_FAR, &[("pty", server)]));
    stage.verdict("the window in front", is_served(login.front, &FROM_FAR, &[("pty", server), ("pty", login.front)]));
    stage.verdict("a compile job in the other window", is_not_served(login.job));
    Ok(())
}

fn tmux(stage: &mut Stage, home: &Home) -> Result<()> {
    let windows = r"exec tmux -f /dev/null new-session 'sh front.sh' \; new-window -d 'sh job.sh'";
    multiplexer(stage, home.login("tmux", windows)?)
}

fn screen(stage: &mut Stage, home: &Home) -> Result<()> {
    let windows = "export SCREENDIR=$HOME/.screen; mkdir -m 700 $SCREENDIR; exec screen -c screenrc";
    multiplexer(stage, home.login("screen", windows)?)
}

/// It gives its command a terminal of its own, and carries what is typed into it.
fn sudo(stage: &mut Stage, home: &Home) -> Result<()> {
    let job = "setsid sudo HOME=$HOME sh job.sh < /dev/null > /dev/null 2>&1 &";
    let mut login = home.login("sudo", &format!("{job} exec sudo HOME=$HOME sh front.sh"))?;
    let monitor = parent_of(login.front)?;
    let sudo = parent_of(monitor)?;
    login.types("hello")?;
    stage.verdict("sudo", is_served(sudo, &FROM_FAR, &[("pty", sudo)]));
    stage.verdict("its command", is_served(login.front, &FROM_FAR, &[("pty", sudo), ("pty", login.front)]));
    stage.verdict("what its other process does in the background", is_not_served(login.job));
    Ok(())
}

/// While much is printed the client asks for more again and again, and beside a key stroke it sends some that nobody made: ssh
/// reads all that, but it is no request to who prints.
fn flood(stage: &mut Stage, home: &Home) -> Result<()> {
    let mut login = home.login("flood", FLOOD)?;
    let session = parent_of(login.front)?;
    stage.verdict("its session, which hears that there is room again", is_served(session, &FROM_FAR, &[]));
    stage.verdict("what prints without end", is_not_served(login.front));
    login.types("hello")?;
    clock::sleep_ms(500);
    stage.verdict("the same beside key strokes that it does not read", is_not_served(login.front));
    Ok(())
}
