//! The schedulers that a run can name.

use std::{fmt, path::PathBuf, str::FromStr};

use anyhow::{Result, bail};
use appease_scenario::{Grouping, scheduler_and_mix};

use crate::host::Layout;

/// The peers that `appease-lab peers` builds.
pub const PEERS: [&str; 9] = [
    "scx_bpfland",
    "scx_lavd",
    "scx_flash",
    "scx_cosmos",
    "scx_pandemonium",
    "scx_cake",
    "scx_mlfq",
    "scx_beerland",
    "scx_p2dq",
];
/// Our policies; a new one is a line here.
const POLICIES: [&str; 5] = ["appease", "rsio", "rbpe", "cas", "steady"];
/// Its backends, likewise: sched_ext, and the same with the watchdog that most peers have; one that acts by nice values, and one that only
/// watches, to tell what watching costs.
const BACKENDS: [&str; 4] = ["scx", "scx-5s", "nice", "none"];
/// What can be written without building a peer.
pub const OURS: [&str; 5] = ["eevdf", "eevdf-autogroup", "eevdf-scopes", "eevdf-nice", "appease"];
/// Schedulers that are the kernel's own.
const KERNEL: [&str; 4] = [FLAT, "eevdf-autogroup", "eevdf-scopes", RAISED];
/// The one that says itself at which nice value everybody runs.
const RAISED: &str = "eevdf-nice";
/// The one that asks nothing of the machine.
const FLAT: &str = "eevdf";

/// A scheduler, and the mix of a scenario's that programs have beneath it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduler {
    kind: Kind,
    mix: Option<String>,
}

/// A scheduler by name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// The kernel's: flat, with a group for each session or a cgroup for each application, or with everybody at nice -10.
    Kernel(&'static str),
    /// A sched_ext scheduler of others.
    Peer(String),
    /// Ours, with a policy and a backend.
    Appease(String),
}

impl FromStr for Scheduler {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, mix) = scheduler_and_mix(text);
        let kind: Kind = name.parse()?;
        match mix {
            Some("") => bail!("scheduler \"{text}\": there is no mix after the \"+\""),
            Some(mix) if kind == Kind::Kernel(RAISED) => {
                bail!(
                    "scheduler \"{text}\": {RAISED} has everybody at one nice value, and mix \"{mix}\" others: write eevdf+{mix}"
                )
            }
            _ => Ok(Self { kind, mix: mix.map(str::to_owned) }),
        }
    }
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(name) = KERNEL.iter().find(|name| **name == text) {
            return Ok(Self::Kernel(name));
        }
        let words = text.strip_prefix("appease").filter(|words| words.starts_with([':', '@']));
        if let Some(words) = words {
            let (policy, backend) = words.split_once('@').unwrap_or((words, BACKENDS[0]));
            let policy = policy.strip_prefix(':').unwrap_or(POLICIES[0]);
            if !POLICIES.contains(&policy) {
                bail!("policy \"{policy}\" is not known: there is {}", POLICIES.join(", "));
            }
            if !BACKENDS.contains(&backend) {
                bail!("backend \"{backend}\" is not known: there is {}", BACKENDS.join(", "));
            }
            return Ok(Self::Appease(text.into()));
        }
        match text {
            "appease" => Ok(Self::Appease(text.into())),
            peer if peer.len() > 4
                && peer.starts_with("scx_")
                && peer.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') =>
            {
                Ok(Self::Peer(peer.into()))
            }
            _ => bail!(
                "scheduler \"{text}\" is not known: there is {}, appease[:POLICY][@BACKEND], and peers like {}; each may have a mix \
                 of the scenario's (+MIX)",
                KERNEL.join(", "),
                PEERS.join(", ")
            ),
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Kernel(name) => f.write_str(name)?,
            Kind::Peer(name) | Kind::Appease(name) => f.write_str(name)?,
        }
        self.mix.as_ref().map_or(Ok(()), |mix| write!(f, "+{mix}"))
    }
}

impl Scheduler {
    /// Whether it can follow another one in a machine: cgroups and nice values cannot be had for one and not for the other.
    #[must_use]
    pub fn shares_boot(&self) -> bool {
        !matches!(self.kind, Kind::Kernel(name) if name != FLAT)
    }

    /// Whether it is one of its own in a layout: where each program has a cgroup, the kernel's that group or raise programs themselves are
    /// [`FLAT`] once more.
    #[must_use]
    pub fn may_be_in(&self, layout: Grouping) -> bool {
        layout.is_flat() || !matches!(self.kind, Kind::Kernel(name) if name != FLAT)
    }

    /// The mix that programs shall have.
    #[must_use]
    pub fn mix(&self) -> Option<&str> {
        self.mix.as_deref()
    }

    /// The program that the guest needs for it: name and file.
    ///
    /// # Errors
    /// When it is not built; the message says how to build it.
    pub fn program(&self, layout: &Layout) -> Result<Option<(String, PathBuf)>> {
        let (name, file, cure) = match &self.kind {
            Kind::Kernel(_) => return Ok(None),
            Kind::Peer(name) => (name.as_str(), layout.peer(name), format!("appease-lab peers {name}")),
            Kind::Appease(_) => ("appease", layout.program("appease"), "make build".into()),
        };
        if !file.is_file() {
            bail!("scheduler {self} is not built ({} is not there): run `{cure}`", file.display());
        }
        Ok(Some((name.into(), file)))
    }
}

#[cfg(test)]
mod tests {
    use super::Scheduler;

    #[test]
    fn names_are_kept() {
        for name in [
            "eevdf",
            "eevdf-autogroup",
            "eevdf-scopes",
            "eevdf-nice",
            "scx_lavd",
            "appease",
            "appease@nice",
            "appease@scx-5s",
            "appease:appease",
            "appease:cas",
            "appease:rbpe@nice",
            "appease:rsio@none",
            "eevdf+fifo-video",
            "scx_lavd+batch-compute",
            "appease:rsio@none+nice-video",
        ] {
            assert_eq!(name.parse::<Scheduler>().map(|s| s.to_string()).ok().as_deref(), Some(name));
        }
    }

    #[test]
    fn what_is_not_known_is_told() {
        let told = |text: &str| text.parse::<Scheduler>().err().map(|e| e.to_string()).unwrap_or_default();
        insta::assert_snapshot!(told("cfs"), @r#"scheduler "cfs" is not known: there is eevdf, eevdf-autogroup, eevdf-scopes, eevdf-nice, appease[:POLICY][@BACKEND], and peers like scx_bpfland, scx_lavd, scx_flash, scx_cosmos, scx_pandemonium, scx_cake, scx_mlfq, scx_beerland, scx_p2dq; each may have a mix of the scenario's (+MIX)"#);
        insta::assert_snapshot!(told("appease:magic"), @r#"policy "magic" is not known: there is appease, rsio, rbpe, cas, steady"#);
        insta::assert_snapshot!(told("appease:rsio@magic"), @r#"backend "magic" is not known: there is scx, scx-5s, nice, none"#);
        insta::assert_snapshot!(told("eevdf-nice+batch"), @r#"scheduler "eevdf-nice+batch": eevdf-nice has everybody at one nice value, and mix "batch" others: write eevdf+batch"#);
        insta::assert_snapshot!(told("appease+"), @r#"scheduler "appease+": there is no mix after the "+""#);
        assert!(told("appeased").contains("is not known"));
        assert!(!told("scx_../../bin/sh").is_empty());
    }
}
