//! The configuration file: `[[channel]]` and `[[customer]]` tables, `[requests]`, and which built-in channels there are.

use std::{fs, io, path::Path};

use serde::Deserialize;
use toml::Spanned;

use super::{
    CLASSES,
    spec::{self, Refusal, Spec, What, Who},
};
use crate::{
    customer::{self, Weight, Words},
    report::channel_name,
    seams::{Channel, CustomerIs, Side},
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
    /// What counts at the start alone.
    pub requests: Requests,
    /// Weights of customers, each with the number of its line.
    pub customers: Vec<(usize, customer::Rule)>,
}

/// What a request is, and for whom; the kernel's programs know it from the start to the end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Requests {
    /// What a customer is.
    pub customer: CustomerIs,
    /// What of its unhappiness a process keeps that waits for another, per mille (Customer Appeasement, eq. 1).
    pub alpha_pm: u32,
    /// Where they are said, if they are.
    pub customer_line: Option<usize>,
    pub alpha_line: Option<usize>,
}

impl Requests {
    /// Refuses what would be another one than was there at the start.
    pub(crate) fn is_still(&self, before: &Self, path: &Path) -> Result<(), Refusal> {
        const CURE: &str = "it counts from the start on: restart appease for it (systemctl restart appease)";
        let alpha = |requests: &Self| f64::from(requests.alpha_pm) / f64::from(ALPHA_PARTS);
        let (name, given, in_force, line) = if self.customer != before.customer {
            let name = |requests: &Self| format!("{:?}", customer::customer_name(requests.customer));
            ("customer", name(self), name(before), self.customer_line)
        } else if self.alpha_pm != before.alpha_pm {
            ("alpha", alpha(self).to_string(), alpha(before).to_string(), self.alpha_line)
        } else {
            return Ok(());
        };
        let refusal =
            Refusal::new(format!("{name} is {given}, and {in_force} is in force: {CURE}, or write that back"));
        Err(match line {
            Some(line) => at(path, line, &refusal),
            None => Refusal::new(format!("{}: {refusal}", path.display())),
        })
    }
}

/// α is given in so many parts; it is less than a half.
const ALPHA_PARTS: u32 = 1000;
const ALPHA_LIMIT: f64 = 0.5;

impl PartialEq for Requests {
    /// Wherever they are said.
    fn eq(&self, other: &Self) -> bool {
        (self.customer, self.alpha_pm) == (other.customer, other.alpha_pm)
    }
}

impl Eq for Requests {}

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
        Self { built_in: BuiltIn::all(), channels: Vec::new(), requests: Requests::default(), customers: Vec::new() }
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
pub(crate) struct Wrong {
    pub line: usize,
    pub refusal: Refusal,
}

impl Wrong {
    fn in_file(self, file: &Path) -> Refusal {
        at(file, self.line, &self.refusal)
    }
}

/// That `refusal` concerns a line of a file.
pub(crate) fn at(file: &Path, line: usize, refusal: &Refusal) -> Refusal {
    Refusal::new(format!("{}, line {line}: {refusal}", file.display()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawFile {
    built_in: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    requests: RawRequests,
    #[serde(default)]
    channel: Vec<Spanned<RawChannel>>,
    #[serde(default)]
    customer: Vec<Spanned<RawCustomer>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawRequests {
    customer: Option<Spanned<String>>,
    alpha: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCustomer {
    address: Option<Spanned<String>>,
    prefix: Option<Spanned<String>>,
    user: Option<Spanned<String>>,
    cgroup: Option<Spanned<String>>,
    seat: Option<Spanned<bool>>,
    weight: Spanned<f64>,
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
    weight: Option<Spanned<f64>>,
}

pub(crate) fn parse(text: &str) -> Result<File, Wrong> {
    let lines = Lines::of(text);
    let raw: RawFile = toml::from_str(text).map_err(|error| Wrong {
        line: lines.number(error.span().map_or(0, |span| span.start)),
        refusal: Refusal::new(error.message().trim().replace('\n', ", ").replace("expected f64", "expected a number")),
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
    let requests = requests(&raw.requests, &lines)?;
    let customers = raw
        .customer
        .iter()
        .map(|customer| Ok((lines.number(customer.span().start), customer_rule(customer, requests.customer, &lines)?)))
        .collect::<Result<_, _>>()?;
    Ok(File { built_in, channels, requests, customers })
}

fn requests(raw: &RawRequests, lines: &Lines) -> Result<Requests, Wrong> {
    let mut requests = Requests::default();
    if let Some(customer) = &raw.customer {
        requests.customer =
            customer::customer_is(customer.get_ref()).map_err(|refusal| lines.wrong(customer, refusal))?;
        requests.customer_line = Some(lines.number(customer.span().start));
    }
    if let Some(alpha) = &raw.alpha {
        let given = *alpha.get_ref();
        // Not a number is in no range.
        if !(0.0..ALPHA_LIMIT).contains(&given) {
            let shown = customer::shown(given);
            let refusal = format!("alpha is {shown}: allowed is 0 and more, but less than {ALPHA_LIMIT}");
            return Err(lines.wrong(alpha, Refusal::new(refusal)));
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let parts = (given * f64::from(ALPHA_PARTS)).round() as u32;
        // What is less than a half stays so.
        requests.alpha_pm = parts.min(ALPHA_PARTS / 2 - 1);
        requests.alpha_line = Some(lines.number(alpha.span().start));
    }
    Ok(requests)
}

fn customer_rule(
    customer: &Spanned<RawCustomer>,
    customer_is: CustomerIs,
    lines: &Lines,
) -> Result<customer::Rule, Wrong> {
    type Understand = fn(&str) -> Result<Words, Refusal>;
    let raw = customer.get_ref();
    let kinds: [(&Option<Spanned<String>>, Understand); 4] = [
        (&raw.address, Words::address),
        (&raw.prefix, Words::prefix),
        (&raw.user, Words::user),
        (&raw.cgroup, Words::cgroup),
    ];
    let named = kinds.iter().filter_map(|(value, understand)| {
        let value = value.as_ref()?;
        Some((lines.number(value.span().start), understand(value.get_ref())))
    });
    let seat = raw.seat.as_ref().map(|seat| {
        let words =
            if *seat.get_ref() { Ok(Words::Seat) } else { Err(Refusal::new("seat is false: allowed is true alone")) };
        (lines.number(seat.span().start), words)
    });
    let given: Vec<(usize, Result<Words, Refusal>)> = named.chain(seat).collect();
    let how_many = if given.is_empty() { "none" } else { "more than one" };
    let Ok([(line, words)]) = <[_; 1]>::try_from(given) else {
        let refusal = format!("a customer has one of address, prefix, user, cgroup and seat, and this has {how_many}");
        return Err(lines.wrong(customer, Refusal::new(refusal)));
    };
    let words = words.and_then(|words| words.fits(customer_is).map(|()| words));
    let words = words.map_err(|refusal| Wrong { line, refusal })?;
    Ok(customer::Rule { words, weight: weight(&raw.weight, lines)? })
}

fn weight(given: &Spanned<f64>, lines: &Lines) -> Result<Weight, Wrong> {
    Weight::new(*given.get_ref()).map_err(|refusal| lines.wrong(given, refusal))
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
    let weight = raw.weight.as_ref().map(|given| weight(given, lines)).transpose()?.unwrap_or_default();
    Ok(Spec { access, what, who: who.map_err(|refusal| lines.wrong(channel, refusal))?, weight })
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
        2: unknown field `builtin`, expected one of `built-in`, `requests`, `channel`, `customer`
        5: port "70000" of :70000 is none: allowed is 1 to 65535
        4: access is "look": allowed is read, write or both
        5: devices of class:evdev are used in one way alone: write read class:evdev
        3: a channel has one of file, accept, connect and class, and this has none
        3: a channel has one of file, accept, connect and class, and this has more than one
        3: missing field `access`
        5: path "fb0" is not absolute: a device or FIFO is named by its path, /like/this
        3: path "system.slice" is not absolute: a cgroup is named from the root on, as in /proc/PID/cgroup, /like/this
        5: unknown field `port`, expected one of `access`, `file`, `accept`, `connect`, `class`, `user`, `group`, `cgroup`, `weight`
        5: invalid type: integer `22`, expected a string
        4: string values must be quoted, expected literal string
        "#);
    }

    #[test]
    fn customers_and_requests_are_understood() {
        let file = parse(
            "[requests]\ncustomer = \"auto\"\nalpha = 0.25\n\n[[customer]]\naddress = \"192.0.2.4\"\nweight = 4\n\n\
             [[customer]]\nseat = true\nweight = 0.5\n\n[[channel]]\naccess = \"read\"\naccept = \":80\"\nweight = 2\n",
        )
        .expect("right");
        let shown = |(line, rule): &(usize, customer::Rule)| format!("{line}: {} {}", rule.words, rule.weight);
        let customers: Vec<String> = file.customers.iter().map(shown).collect();
        assert_eq!(customers, ["5: address 192.0.2.4 4", "9: seat 0.5"]);
        assert_eq!((file.requests.customer, file.requests.alpha_pm), (CustomerIs::Auto, 250));
        assert_eq!(file.channels[0].1.to_string(), "read accept :80 --weight 2");
        let alpha = |text: &str| parse(&format!("[requests]\nalpha = {text}")).expect(text).requests.alpha_pm;
        assert_eq!((alpha("0"), alpha("0.3"), alpha("0.49999")), (0, 300, 499));
    }

    #[test]
    fn wrong_customers_and_requests_are_named_with_what_is_allowed() {
        let of = |text: &str| {
            let wrong = parse(text).expect_err(text);
            format!("{}: {}", wrong.line, wrong.refusal)
        };
        let requests = |line: &str| of(&format!("# one\n[requests]\n{line}\n"));
        let customer = |lines: &str| of(&format!("[[customer]]\n{lines}\n"));
        let channel =
            |weight: &str| of(&format!("[[channel]]\naccess = \"read\"\naccept = \":80\"\nweight = {weight}\n"));
        let under = |kind: &str, line: &str| {
            of(&format!("[requests]\ncustomer = \"{kind}\"\n[[customer]]\n{line}\nweight = 2\n"))
        };
        let refusals = [
            requests("customer = \"group\""),
            requests("alpha = 0.5"),
            requests("alpha = -0.1"),
            requests("alpha = nan"),
            requests("alpha = inf"),
            requests("alpha = \"0.1\""),
            requests("beta = 1"),
            customer("seat = true\nweight = 0"),
            customer("seat = true\nweight = -4"),
            customer("seat = true\nweight = nan"),
            customer("seat = true\nweight = -inf"),
            customer("seat = true\nweight = 1e300"),
            customer("seat = true\nweight = 9223372036854775807"),
            customer("seat = true"),
            customer("seat = false\nweight = 1"),
            customer("weight = 1"),
            customer("seat = true\nuser = \"alice\"\nweight = 1"),
            customer("group = \"wheel\"\nweight = 1"),
            customer("prefix = \"192.0.2.4/24\"\nweight = 1"),
            customer("user = \"\"\nweight = 1"),
            customer("cgroup = \"a.slice\"\nweight = 1"),
            channel("0"),
            channel("101"),
            channel("\"2\""),
            under("auto", "cgroup = \"/a.slice\""),
            under("user", "address = \"192.0.2.4\""),
            under("cgroup", "seat = true"),
        ];
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        3: customer is "group": allowed is auto, user or cgroup
        3: alpha is 0.5: allowed is 0 and more, but less than 0.5
        3: alpha is -0.1: allowed is 0 and more, but less than 0.5
        3: alpha is NaN: allowed is 0 and more, but less than 0.5
        3: alpha is inf: allowed is 0 and more, but less than 0.5
        3: invalid type: string "0.1", expected a number
        3: unknown field `beta`, expected `customer` or `alpha`
        3: weight is 0: allowed is 0.01 to 100, and 1 is what all others have
        3: weight is -4: allowed is 0.01 to 100, and 1 is what all others have
        3: weight is NaN: allowed is 0.01 to 100, and 1 is what all others have
        3: weight is -inf: allowed is 0.01 to 100, and 1 is what all others have
        3: weight is 1e300: allowed is 0.01 to 100, and 1 is what all others have
        3: weight is 9.223372036854776e18: allowed is 0.01 to 100, and 1 is what all others have
        1: missing field `weight`
        2: seat is false: allowed is true alone
        1: a customer has one of address, prefix, user, cgroup and seat, and this has none
        1: a customer has one of address, prefix, user, cgroup and seat, and this has more than one
        2: unknown field `group`, expected one of `address`, `prefix`, `user`, `cgroup`, `seat`, `weight`
        2: prefix 192.0.2.4/24 has bits beyond its length: write 192.0.2.0/24, or address = "192.0.2.4" for that one alone
        2: user has no sensible name: ""
        2: path "a.slice" is not absolute: a cgroup is named from the root on, as in /proc/PID/cgroup, /like/this
        4: weight is 0: allowed is 0.01 to 100, and 1 is what all others have
        4: weight is 101: allowed is 0.01 to 100, and 1 is what all others have
        4: invalid type: string "2", expected a number
        4: cgroup /a.slice is no customer: customers are seats, lines, addresses and users while customer is "auto"; allowed is address, prefix, user and seat
        4: address 192.0.2.4 is no customer: customers are seats and users while customer is "user"; allowed is user and seat
        4: seat is no customer: customers are cgroups while customer is "cgroup"; allowed is cgroup
        "#);
    }

    #[test]
    fn what_counts_at_the_start_stays() {
        let of = |text: &str| parse(text).expect(text).requests;
        let path = Path::new("config.toml");
        let (none, both) = (of(""), of("[requests]\ncustomer = \"user\"\nalpha = 0.2"));
        assert_eq!(of("[requests]\ncustomer = \"auto\"").is_still(&none, path), Ok(()));
        let refusals = [
            both.is_still(&none, path),
            none.is_still(&both, path),
            of("\n[requests]\nalpha = 0.1").is_still(&none, path),
        ]
        .map(|refused| refused.expect_err("another").to_string());
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        config.toml, line 2: customer is "user", and "auto" is in force: it counts from the start on: restart appease for it (systemctl restart appease), or write that back
        config.toml: customer is "auto", and "user" is in force: it counts from the start on: restart appease for it (systemctl restart appease), or write that back
        config.toml, line 3: alpha is 0.1, and 0 is in force: it counts from the start on: restart appease for it (systemctl restart appease), or write that back
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
