//! What a channel is, as people write it: `read accept :22 --user alice`.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
};

use super::{
    CLASSES,
    address::{Address, Host, Inet, Unix},
};
use crate::{
    control::ChannelWords,
    customer::Weight,
    report::channel_name,
    seams::{Access, Channel, Side},
};

/// Longest path that the kernel takes, and longest name of a user or group that makes sense.
const PATH_MAX: usize = 4095;
const NAME_MAX: usize = 256;
/// Characters of a refusal.
const SHOWN_MAX: usize = 1000;
/// Kinds of channel, for whoever wrote none of them.
const KINDS: &str = "the path of a device or FIFO, accept [HOST]:PORT, connect HOST[:PORT], or class:NAME";

/// Why a channel is refused: names the thing, what is wrong, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

impl Refusal {
    /// What was given is a part of it: it commands no terminal, and a long one is cut.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let is_long = text.chars().nth(SHOWN_MAX).is_some();
        let shown = text.chars().take(SHOWN_MAX).map(|c| if c.is_control() { '?' } else { c });
        Self(shown.chain(is_long.then_some('…')).collect())
    }
}

/// A rule in words.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Spec {
    /// Operations that count.
    pub access: Access,
    /// Where.
    pub what: What,
    /// Whose.
    pub who: Who,
    /// How much its requests count.
    pub weight: Weight,
}

/// Where a customer reaches the machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// All devices of a class.
    Class(Channel),
    /// A device node or FIFO.
    File(PathBuf),
    /// A TCP or UDP socket.
    Inet(Side, Inet),
    /// A unix socket.
    Unix(Side, Unix),
}

/// Whose operations count: all of what is given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who {
    /// Name or number of a user.
    pub user: Option<String>,
    /// Name or number of a group.
    pub group: Option<String>,
    /// A directory of the cgroup v2 hierarchy, from its root on, as in `/proc/PID/cgroup`.
    pub cgroup: Option<PathBuf>,
}

impl Spec {
    /// Understands words.
    ///
    /// # Errors
    /// Names the first word that is wrong and what is allowed.
    pub fn parse(words: &ChannelWords) -> Result<Self, Refusal> {
        let access = access(&words.access)?;
        let words_of: Vec<&str> = words.what.iter().map(String::as_str).collect();
        let what = match words_of[..] {
            [path] if path.starts_with('/') => What::file(path)?,
            [word] if word.starts_with("class:") => What::class(&word["class:".len()..])?,
            ["accept", address] => What::socket(Side::Accept, address)?,
            ["connect", address] => What::socket(Side::Connect, address)?,
            _ => {
                let given: String = words.what.join(" ").chars().take(NAME_MAX).collect();
                return Err(Refusal::new(format!("\"{given}\" is no channel: write {KINDS}")));
            }
        };
        what.fits(access)?;
        let who = Who::parse(words.user.as_deref(), words.group.as_deref(), words.cgroup.as_deref())?;
        let weight = words.weight.as_deref().map(Weight::parse).transpose()?.unwrap_or_default();
        Ok(Self { access, what, who, weight })
    }

    /// A rule for everybody.
    pub(crate) fn of(access: Access, what: What) -> Self {
        Self { access, what, who: Who::default(), weight: Weight::default() }
    }

    /// The host name that has to be resolved.
    pub(crate) fn host_name(&self) -> Option<&str> {
        match &self.what {
            What::Inet(_, Inet { host: Some(Host::Name(name)), .. }) => Some(name),
            _ => None,
        }
    }

    /// Name of the operations that count.
    pub(crate) fn access_name(&self) -> &'static str {
        match self.access {
            Access { read: true, write: true } => "both",
            Access { write: true, .. } => "write",
            _ => "read",
        }
    }

    /// Whether writes to sockets count.
    pub(crate) fn writes_to_sockets(&self) -> bool {
        self.access.write && matches!(self.what, What::Inet(..) | What::Unix(..))
    }
}

/// Operations by name.
pub(super) fn access(text: &str) -> Result<Access, Refusal> {
    match text {
        "read" => Ok(Access { read: true, write: false }),
        "write" => Ok(Access { read: false, write: true }),
        "both" => Ok(Access { read: true, write: true }),
        _ => Err(Refusal::new(format!("access is {text:?}: allowed is read, write or both"))),
    }
}

impl What {
    pub(super) fn file(text: &str) -> Result<Self, Refusal> {
        path(text, "a device or FIFO is named by its path").map(Self::File)
    }

    pub(super) fn socket(side: Side, address: &str) -> Result<Self, Refusal> {
        Ok(match Address::parse(side, address)? {
            Address::Inet(inet) => Self::Inet(side, inet),
            Address::Unix(unix) => Self::Unix(side, unix),
        })
    }

    /// Refuses operations that nobody would see.
    pub(super) fn fits(&self, access: Access) -> Result<(), Refusal> {
        match self {
            Self::Class(class) if access != class_access(*class) => {
                let right = Spec::of(class_access(*class), self.clone());
                Err(Refusal::new(format!("devices of {self} are used in one way alone: write {right}")))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn class(name: &str) -> Result<Self, Refusal> {
        match CLASSES.into_iter().find(|known| channel_name(*known) == name) {
            Some(class) => Ok(Self::Class(class)),
            None => {
                let known = CLASSES.map(channel_name).join(", ");
                Err(Refusal::new(format!("there is no class {name:?}: allowed is {known}")))
            }
        }
    }
}

/// The one operation that hooks of a class see.
pub(super) fn class_access(class: Channel) -> Access {
    let write = class == Channel::Audio;
    Access { read: !write, write }
}

impl Who {
    pub(crate) fn parse(user: Option<&str>, group: Option<&str>, cgroup: Option<&str>) -> Result<Self, Refusal> {
        let name = |kind: &str, text: Option<&str>| match text {
            Some(text) if text.is_empty() || text.len() > NAME_MAX || text.contains(char::is_control) => Err(
                Refusal::new(format!("{kind} has no sensible name: {:?}", text.chars().take(40).collect::<String>())),
            ),
            text => Ok(text.map(str::to_owned)),
        };
        let cgroup =
            cgroup.map(|text| path(text, "a cgroup is named from the root on, as in /proc/PID/cgroup")).transpose()?;
        Ok(Self { user: name("user", user)?, group: name("group", group)?, cgroup })
    }
}

/// An absolute path without detours; `rule` says what it should have been.
pub(super) fn path(text: &str, rule: &str) -> Result<PathBuf, Refusal> {
    let shown: String = text.chars().take(NAME_MAX).collect();
    let path = Path::new(text);
    let wrong = if !path.is_absolute() {
        "is not absolute"
    } else if text.len() > PATH_MAX {
        "is too long"
    } else if text.contains(char::is_control) {
        "has control characters in it"
    } else if path.components().any(|part| part == Component::ParentDir) {
        "has .. in it"
    } else {
        // Equal paths are equal: no doubled or last slash, no ".".
        return Ok(path.components().collect());
    };
    Err(Refusal::new(format!("path {shown:?} {wrong}: {rule}, /like/this")))
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |side: &Side| match side {
            Side::Accept => "accept",
            Side::Connect => "connect",
        };
        match self {
            Self::Class(class) => write!(f, "class:{}", channel_name(*class)),
            Self::File(path) => path.display().fmt(f),
            Self::Inet(at, inet) => write!(f, "{} {inet}", side(at)),
            Self::Unix(at, unix) => write!(f, "{} {unix}", side(at)),
        }
    }
}

/// As it is written on the command line.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.access_name(), self.what)?;
        if let Some(user) = &self.who.user {
            write!(f, " --user {user}")?;
        }
        if let Some(group) = &self.who.group {
            write!(f, " --group {group}")?;
        }
        if let Some(cgroup) = &self.who.cgroup {
            write!(f, " --cgroup {}", cgroup.display())?;
        }
        match self.weight {
            weight if weight == Weight::default() => Ok(()),
            weight => write!(f, " --weight {weight}"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Words as the command takes them apart; options have one word each.
    pub(crate) fn words(line: &str) -> ChannelWords {
        let mut parts = line.split_whitespace().map(str::to_owned);
        let mut words = ChannelWords { access: parts.next().unwrap_or_default(), ..ChannelWords::default() };
        while let Some(part) = parts.next() {
            match part.as_str() {
                "--user" => words.user = parts.next(),
                "--group" => words.group = parts.next(),
                "--cgroup" => words.cgroup = parts.next(),
                "--weight" => words.weight = parts.next(),
                _ => words.what.push(part),
            }
        }
        words
    }

    pub(crate) fn spec(line: &str) -> Spec {
        Spec::parse(&words(line)).unwrap_or_else(|refusal| panic!("{line}: {refusal}"))
    }

    #[test]
    fn a_rule_is_shown_as_it_is_written() {
        for line in [
            "read /dev/input/mice",
            "write /dev/snd/pcmC0D0p",
            "read accept :22",
            "both accept udp:[2001:db8::1]:5000",
            "read connect proxy.example:8080 --user alice",
            "read accept unix:/run/x.sock --group audio --cgroup /system.slice/x.service",
            "read connect unix:@name",
            "read class:evdev --user 1000",
            "read accept :80 --weight 2.5",
        ] {
            assert_eq!(spec(line).to_string(), line);
        }
    }

    #[test]
    fn nonsense_is_named_with_what_is_allowed() {
        let refusals = [
            "look /dev/input/mice",
            "read",
            "read dev/input/mice",
            "read /dev/../etc/passwd",
            "read accept",
            "read listen :22",
            "read class:fax",
            "both class:tty",
            "read class:audio",
            "read accept :22 --cgroup system.slice",
            "read accept :22 --weight 0",
            "read accept :22 --weight heavy",
        ]
        .map(|line| Spec::parse(&words(line)).expect_err(line).to_string());
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        access is "look": allowed is read, write or both
        "" is no channel: write the path of a device or FIFO, accept [HOST]:PORT, connect HOST[:PORT], or class:NAME
        "dev/input/mice" is no channel: write the path of a device or FIFO, accept [HOST]:PORT, connect HOST[:PORT], or class:NAME
        path "/dev/../etc/passwd" has .. in it: a device or FIFO is named by its path, /like/this
        "accept" is no channel: write the path of a device or FIFO, accept [HOST]:PORT, connect HOST[:PORT], or class:NAME
        "listen :22" is no channel: write the path of a device or FIFO, accept [HOST]:PORT, connect HOST[:PORT], or class:NAME
        there is no class "fax": allowed is evdev, tty, mouse, joystick, hidraw, audio
        devices of class:tty are used in one way alone: write read class:tty
        devices of class:audio are used in one way alone: write write class:audio
        path "system.slice" is not absolute: a cgroup is named from the root on, as in /proc/PID/cgroup, /like/this
        weight is 0: allowed is 0.01 to 100, and 1 is what all others have
        weight is "heavy": allowed is 0.01 to 100, and 1 is what all others have
        "#);
        let too_long =
            Spec::parse(&words(&format!("read /{}", "x".repeat(PATH_MAX)))).expect_err("too long").to_string();
        assert!(too_long.contains("is too long") && too_long.len() < 500, "{too_long}");
        let no_name = ChannelWords { user: Some("a\u{1b}b".into()), ..words("read accept :22") };
        assert!(
            Spec::parse(&no_name).expect_err("control character").to_string().contains("user has no sensible name")
        );
    }
}
