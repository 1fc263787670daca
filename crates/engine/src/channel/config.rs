//! The configuration file: `[[channel]]` tables, and which built-in channels there are.

use std::{fs, io, path::Path};

use serde::Deserialize;
use toml::Spanned;

use super::{
    CLASSES,
    spec::{self, Refusal, Spec, What, Who},
};
use crate::{
    report::channel_name,
    seams::{Channel, Side},
};

/// Where the file is unless told otherwise; it may be missing there.
pub const DEFAULT: &str = "/etc/appease/config.toml";
/// Well above 10,000 channels with all that can be said about each.
const SIZE_MAX: u64 = 16 << 20;

/// What a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    /// Built-in channels that are wanted.
    pub built_in: Vec<BuiltIn>,
    /// Its channels, each with the number of its line.
    pub channels: Vec<(usize, Spec)>,
}

/// Channels that need no configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BuiltIn {
    /// All devices of a class.
    Class(Channel),
    /// The port of ssh, and those of an sshd that listens elsewhere.
    Ssh,
    /// Listening sockets of remote-desktop servers.
    RemoteDesktop,
}

impl BuiltIn {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        CLASSES.into_iter().map(Self::Class).chain([Self::Ssh, Self::RemoteDesktop]).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Class(class) => channel_name(class),
            Self::Ssh => "ssh",
            Self::RemoteDesktop => "remote-desktop",
        }
    }
}

impl Default for File {
    fn default() -> Self {
        Self { built_in: BuiltIn::all(), channels: Vec::new() }
    }
}

/// Reads the file at `path`, or the default one.
pub(crate) fn read(path: Option<&Path>) -> Result<File, Refusal> {
    let shown = path.unwrap_or(Path::new(DEFAULT));
    let failed = |error: io::Error| Refusal::new(format!("reading {}: {error}", shown.display()));
    let found = match fs::metadata(shown) {
        Ok(found) => found,
        Err(error) if path.is_none() && error.kind() == io::ErrorKind::NotFound => return Ok(File::default()),
        Err(error) => return Err(failed(error)),
    };
    if !found.is_file() || found.len() > SIZE_MAX {
        let wanted = format!("a regular file of at most {} MiB", SIZE_MAX >> 20);
        return Err(Refusal::new(format!("{} is no configuration: allowed is {wanted}", shown.display())));
    }
    parse(&fs::read_to_string(shown).map_err(failed)?).map_err(|wrong| wrong.in_file(shown))
}

/// What is wrong, and where.
#[derive(Debug, PartialEq, Eq)]
struct Wrong {
    line: usize,
    refusal: Refusal,
}

impl Wrong {
    fn in_file(self, file: &Path) -> Refusal {
        at(file, self.line, &self.refusal)
    }
}

/// That `refusal` concerns a line of a file.
pub(super) fn at(file: &Path, line: usize, refusal: &Refusal) -> Refusal {
    Refusal::new(format!("{}, line {line}: {refusal}", file.display()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawFile {
    built_in: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    channel: Vec<Spanned<RawChannel>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChannel {
    access: Spanned<String>,
    file: Option<Spanned<String>>,
    accept: Option<Spanned<String>>,
    connect: Option<Spanned<String>>,
    class: Option<Spanned<String>>,
    user: Option<Spanned<String>>,
    group: Option<Spanned<String>>,
    cgroup: Option<Spanned<String>>,
}

fn parse(text: &str) -> Result<File, Wrong> {
    let lines = Lines::of(text);
    let raw: RawFile = toml::from_str(text).map_err(|error| Wrong {
        line: lines.number(error.span().map_or(0, |span| span.start)),
        refusal: Refusal::new(error.message().trim().replace('\n', ", ")),
    })?;
    let built_in = match raw.built_in {
        None => BuiltIn::all(),
        Some(names) => names
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let is_said_before = names[..at].iter().any(|earlier| earlier.get_ref() == name.get_ref());
                built_in(name.get_ref(), is_said_before).map_err(|refusal| lines.wrong(name, refusal))
            })
            .collect::<Result<_, _>>()?,
    };
    let channels = raw
        .channel
        .iter()
        .map(|channel| Ok((lines.number(channel.span().start), spec(channel, &lines)?)))
        .collect::<Result<_, _>>()?;
    Ok(File { built_in, channels })
}

fn built_in(name: &str, is_said_before: bool) -> Result<BuiltIn, Refusal> {
    if is_said_before {
        return Err(Refusal::new(format!("built-in channel {name:?} is named twice: name it once")));
    }
    BuiltIn::all().into_iter().find(|one| one.name() == name).ok_or_else(|| {
        let known: Vec<&str> = BuiltIn::all().into_iter().map(BuiltIn::name).collect();
        Refusal::new(format!("there is no built-in channel {name:?}: allowed is {}", known.join(", ")))
    })
}

/// Makes sense of a key's value.
type Understand = fn(&str) -> Result<What, Refusal>;

fn spec(channel: &Spanned<RawChannel>, lines: &Lines) -> Result<Spec, Wrong> {
    let raw = channel.get_ref();
    let access = spec::access(raw.access.get_ref()).map_err(|refusal| lines.wrong(&raw.access, refusal))?;
    let kinds: [(&Option<Spanned<String>>, Understand); 4] = [
        (&raw.file, What::file),
        (&raw.accept, |address| What::socket(Side::Accept, address)),
        (&raw.connect, |address| What::socket(Side::Connect, address)),
        (&raw.class, What::class),
    ];
    let mut given = kinds.iter().filter_map(|(value, understand)| Some((value.as_ref()?, understand)));
    let what = match (given.next(), given.next()) {
        (Some((value, understand)), None) => {
            let fits = |what: What| what.fits(access).map(|()| what);
            understand(value.get_ref()).and_then(fits).map_err(|refusal| lines.wrong(value, refusal))?
        }
        (one, _) => {
            let how_many = if one.is_none() { "none" } else { "more than one" };
            let refusal =
                Refusal::new(format!("a channel has one of file, accept, connect and class, and this has {how_many}"));
            return Err(lines.wrong(channel, refusal));
        }
    };
    let word = |value: &Option<Spanned<String>>| value.as_ref().map(|value| value.get_ref().clone());
    let (user, group, cgroup) = (word(&raw.user), word(&raw.group), word(&raw.cgroup));
    let who = Who::parse(user.as_deref(), group.as_deref(), cgroup.as_deref());
    Ok(Spec { access, what, who: who.map_err(|refusal| lines.wrong(channel, refusal))? })
}

/// Where lines begin.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at + 1).collect())
    }

    /// Number of the line that has the byte at this place, from 1 on.
    fn number(&self, at: usize) -> usize {
        self.0.partition_point(|start| *start <= at) + 1
    }

    fn wrong<T>(&self, value: &Spanned<T>, refusal: Refusal) -> Wrong {
        Wrong { line: self.number(value.span().start), refusal }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_have_their_lines() {
        let file = parse(
            "# mine\nbuilt-in = [\"evdev\", \"ssh\"]\n\n[[channel]]\naccess = \"read\"\nconnect = \"proxy.example:8080\"\n\
             user = \"alice\"\n\n[[channel]]\naccess = \"write\"\nfile = \"/dev/fb0\"\n",
        )
        .expect("right");
        let shown: Vec<(usize, String)> = file.channels.iter().map(|(line, spec)| (*line, spec.to_string())).collect();
        assert_eq!(shown, [(4, "read connect proxy.example:8080 --user alice".into()), (9, "write /dev/fb0".into())]);
        assert_eq!(file.built_in, [BuiltIn::Class(Channel::Evdev), BuiltIn::Ssh]);
    }

    #[test]
    fn without_a_word_all_built_in_channels_are_wanted() {
        assert_eq!(parse("").expect("right"), File::default());
        assert_eq!(parse("built-in = []").expect("right").built_in, []);
    }

    #[test]
    fn the_wrong_line_is_named_with_what_is_allowed() {
        let of = |text: &str| {
            let wrong = parse(text).expect_err(text);
            format!("{}: {}", wrong.line, wrong.refusal)
        };
        let channel = |lines: &str| format!("# one\n\n[[channel]]\n{lines}\n");
        let refusals = [
            of("built-in = [\n  \"evdev\",\n  \"fax\",\n]"),
            of("built-in = [\n  \"evdev\",\n  \"ssh\",\n  \"evdev\",\n]"),
            of("\nbuiltin = []"),
            of(&channel("access = \"read\"\naccept = \":70000\"")),
            of(&channel("access = \"look\"\naccept = \":22\"")),
            of(&channel("access = \"both\"\nclass = \"evdev\"")),
            of(&channel("access = \"read\"")),
            of(&channel("access = \"read\"\naccept = \":22\"\nfile = \"/dev/fb0\"")),
            of(&channel("accept = \":22\"")),
            of(&channel("access = \"read\"\nfile = \"fb0\"\nuser = \"alice\"")),
            of(&channel("access = \"read\"\nfile = \"/dev/fb0\"\ncgroup = \"system.slice\"")),
            of(&channel("access = \"read\"\nport = 22")),
            of(&channel("access = \"read\"\naccept = 22")),
            of(&channel("access = read")),
        ];
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        3: there is no built-in channel "fax": allowed is evdev, tty, mouse, joystick, hidraw, audio, ssh, remote-desktop
        4: built-in channel "evdev" is named twice: name it once
        2: unknown field `builtin`, expected `built-in` or `channel`
        5: port "70000" of :70000 is none: allowed is 1 to 65535
        4: access is "look": allowed is read, write or both
        5: devices of class:evdev are used in one way alone: write read class:evdev
        3: a channel has one of file, accept, connect and class, and this has none
        3: a channel has one of file, accept, connect and class, and this has more than one
        3: missing field `access`
        5: path "fb0" is not absolute: a device or FIFO is named by its path, /like/this
        3: path "system.slice" is not absolute: a cgroup is named from the root on, as in /proc/PID/cgroup, /like/this
        5: unknown field `port`, expected one of `access`, `file`, `accept`, `connect`, `class`, `user`, `group`, `cgroup`
        5: invalid type: integer `22`, expected a string
        4: string values must be quoted, expected literal string
        "#);
    }

    #[test]
    fn a_file_that_is_named_must_be_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config.toml");
        let refusal = read(Some(&path)).expect_err("missing").to_string();
        assert!(refusal.starts_with(&format!("reading {}: No such file", path.display())), "{refusal}");
        let refusal = read(Some(dir.path())).expect_err("a directory").to_string();
        assert!(refusal.ends_with("is no configuration: allowed is a regular file of at most 16 MiB"), "{refusal}");
        fs::write(&path, "[[channel]]\n").expect("written");
        let refusal = read(Some(&path)).expect_err("wrong").to_string();
        assert!(refusal.starts_with(&format!("{}, line 1: missing field `access`", path.display())), "{refusal}");
    }
}
