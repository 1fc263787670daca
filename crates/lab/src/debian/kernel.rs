//! Which kernel: the newest of a series that Debian's archive has today, written down once it is chosen.

use std::{collections::BTreeMap, fmt, fs, str::FromStr};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::archive::{Archive, Listed};
use crate::host::{Layout, Steps};

/// Suites by preference. A kernel that Debian built for its own release has sound type information; some that
/// trixie-backports rebuilt (7.2.12) have kfunc prototypes that no sched_ext program loads with. So backports come
/// after, for series that are nowhere else (6.18).
const PREFERENCE: [&str; 4] = ["sid", "forky", "trixie-backports", "trixie"];
/// The parts into which Debian splits a kernel: all from 6.19 on, only `image` in older ones.
const PARTS: [&str; 4] = [IMAGE, "linux-base-", BINARY, MODULES];
const IMAGE: &str = "linux-image-";
const BINARY: &str = "linux-binary-";
const MODULES: &str = "linux-modules-";
/// Ends a package name of the plain flavour.
const FLAVOUR: &str = "-amd64";

/// What `--kernel` asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// The newest that Debian's own suites have.
    Newest,
    /// The newest of a series (`6.18`), or one version (`6.18.15`).
    Series(Vec<u32>),
}

impl Wanted {
    /// Whether a kernel of `series` (`6.18`) can be what it asks for. Which one is the newest is the archive's to say: any can.
    #[must_use]
    pub fn may_be_of(&self, series: &str) -> bool {
        match self {
            Self::Newest => true,
            Self::Series(asked) => numbers(series).is_some_and(|numbers| asked.starts_with(&numbers)),
        }
    }
}

impl FromStr for Wanted {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "default" {
            return Ok(Self::Newest);
        }
        match numbers(text) {
            Some(numbers) if (2..=3).contains(&numbers.len()) => Ok(Self::Series(numbers)),
            _ => bail!("kernel \"{text}\" is not known: write default, a series like 6.18, or a version like 6.18.15"),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newest => f.write_str("default"),
            Self::Series(numbers) => {
                let parts: Vec<String> = numbers.iter().map(u32::to_string).collect();
                f.write_str(&parts.join("."))
            }
        }
    }
}

/// `6.18.15` as numbers.
fn numbers(text: &str) -> Option<Vec<u32>> {
    text.split('.').map(|part| part.parse().ok()).collect()
}

/// A kernel in the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// As `uname -r` prints it: `7.2.13+deb14-amd64`.
    pub release: String,
    /// The suite that has it.
    pub suite: String,
}

impl Candidate {
    /// `7.2.13` of `7.2.13+deb14-amd64`; nothing for what is no plain release (`7.3-rc7`, `6.18.5+deb13-rt-amd64`).
    fn version(&self) -> Option<Vec<u32>> {
        let plain = self.release.strip_suffix(FLAVOUR)?;
        let (version, build) = plain.split_once('+').unwrap_or((plain, ""));
        if build.contains('-') {
            return None;
        }
        numbers(version)
    }
}

/// Picks from what the archive has: the preferred suite that has the series, in it the newest.
#[must_use]
pub fn choose<'a>(candidates: &'a [Candidate], wanted: &Wanted) -> Option<&'a Candidate> {
    let fits = |version: &[u32]| match wanted {
        Wanted::Newest => true,
        Wanted::Series(numbers) => version.starts_with(numbers),
    };
    let rank = |suite: &str| PREFERENCE.iter().position(|s| *s == suite);
    candidates
        .iter()
        .filter_map(|candidate| Some((rank(&candidate.suite)?, candidate.version()?, candidate)))
        .filter(|(_, version, _)| fits(version))
        .min_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.cmp(&a.1)))
        .map(|(_, _, candidate)| candidate)
}

/// A chosen kernel with its packages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// As `uname -r` prints it.
    pub release: String,
    /// The suite it was found in.
    pub suite: String,
    /// Its packages and their versions.
    pub packages: BTreeMap<String, String>,
}

impl Kernel {
    /// The packages, for downloading.
    #[must_use]
    pub fn listed(&self) -> Vec<Listed> {
        let listed = |(package, version): (&String, &String)| Listed {
            package: package.clone(),
            version: version.clone(),
            suite: self.suite.clone(),
        };
        self.packages.iter().map(listed).collect()
    }
}

/// The kernel for `wanted`: the one that was used last time, or else (and with `renew`) today's choice, which is
/// then written down in `target/lab/kernels.json`.
///
/// # Errors
/// When the archive cannot be read or has no such kernel.
pub fn resolve(layout: &Layout, wanted: &Wanted, renew: bool, steps: &Steps) -> Result<Kernel> {
    let path = layout.lab("kernels.json");
    let mut used: BTreeMap<String, Kernel> = match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .with_context(|| format!("{} is damaged: remove it to choose kernels anew", path.display()))?,
        Err(_) => BTreeMap::new(),
    };
    if let (Some(kernel), false) = (used.get(&wanted.to_string()), renew) {
        return Ok(kernel.clone());
    }
    let archive = Archive::open(layout)?;
    archive.update(steps)?;
    let kernel = find(&archive, wanted)?;
    used.insert(wanted.to_string(), kernel.clone());
    let part = path.with_extension("part");
    fs::write(&part, serde_json::to_string_pretty(&used)?).with_context(|| format!("write {}", part.display()))?;
    fs::rename(&part, &path).with_context(|| format!("write {}", path.display()))?;
    Ok(kernel)
}

fn find(archive: &Archive, wanted: &Wanted) -> Result<Kernel> {
    let listed = archive.list(&PARTS, |name| name.ends_with(FLAVOUR) && !name.contains("-unsigned-"))?;
    let (whole, broken): (Vec<Candidate>, Vec<Candidate>) = candidates(&listed).partition(|one| is_whole(one, &listed));
    let Some(chosen) = choose(&whole, wanted) else {
        let has = series(&whole);
        match choose(&broken, wanted) {
            Some(Candidate { release, suite }) => bail!(
                "Debian's archive has kernel {release} in {suite}, but no longer its modules ({MODULES}{release}): take another; whole are \
                 {has}"
            ),
            None => bail!("Debian's archive has no kernel {wanted}; it has {has}"),
        }
    };
    let packages = listed
        .iter()
        .filter(|l| l.suite == chosen.suite)
        .filter(|l| PARTS.iter().any(|part| l.package.strip_prefix(part) == Some(&chosen.release)))
        .map(|l| (l.package.clone(), l.version.clone()))
        .collect();
    Ok(Kernel { release: chosen.release.clone(), suite: chosen.suite.clone(), packages })
}

fn candidates(listed: &[Listed]) -> impl Iterator<Item = Candidate> {
    listed.iter().filter_map(|l| {
        let release = l.package.strip_prefix(IMAGE)?.to_owned();
        Some(Candidate { release, suite: l.suite.clone() })
    })
}

/// Whether its modules are there. The parts of a kernel leave the archive one by one: those that are signed stay longer.
fn is_whole(candidate: &Candidate, listed: &[Listed]) -> bool {
    let has = |part: &str| {
        let is_it = |l: &Listed| l.suite == candidate.suite && l.package.strip_prefix(part) == Some(&candidate.release);
        listed.iter().any(is_it)
    };
    has(MODULES) || !has(BINARY)
}

/// The series that there are, for an error message.
fn series(candidates: &[Candidate]) -> String {
    let mut series: Vec<(u32, u32)> = candidates
        .iter()
        .filter_map(|c| c.version())
        .filter_map(|version| Some((*version.first()?, *version.get(1)?)))
        .collect();
    series.sort_unstable();
    series.dedup();
    let texts: Vec<String> = series.iter().map(|(major, minor)| format!("{major}.{minor}")).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use anyhow::Result;

    use super::{Candidate, Listed, Wanted, candidates, choose, is_whole};

    fn archive() -> Vec<Candidate> {
        [
            ("6.12.107+deb13-amd64", "trixie"),
            ("6.18.9+deb13-amd64", "trixie-backports"),
            ("6.18.15+deb13-amd64", "trixie-backports"),
            ("6.18.15+deb13-rt-amd64", "trixie-backports"),
            ("6.18.20+deb13-cloud-amd64", "trixie-backports"),
            ("7.2.12+deb13-amd64", "trixie-backports"),
            ("7.3.4+deb13-amd64", "trixie-backports"),
            ("7.2.12+deb14-amd64", "forky"),
            ("7.2.13+deb14-amd64", "sid"),
            ("7.3-rc7-amd64", "experimental"),
        ]
        .map(|(release, suite)| Candidate { release: release.into(), suite: suite.into() })
        .to_vec()
    }

    fn chosen(text: &str) -> Result<Option<String>> {
        let wanted: Wanted = text.parse()?;
        Ok(choose(&archive(), &wanted).map(|c| format!("{} from {}", c.release, c.suite)))
    }

    #[test]
    fn newest_of_the_preferred_suite() -> Result<()> {
        insta::assert_debug_snapshot!(
            [chosen("default")?, chosen("7.2")?, chosen("7.3")?, chosen("6.18")?, chosen("6.18.9")?, chosen("6.12")?, chosen("5.10")?],
            @r#"
        [
            Some(
                "7.2.13+deb14-amd64 from sid",
            ),
            Some(
                "7.2.13+deb14-amd64 from sid",
            ),
            Some(
                "7.3.4+deb13-amd64 from trixie-backports",
            ),
            Some(
                "6.18.15+deb13-amd64 from trixie-backports",
            ),
            Some(
                "6.18.9+deb13-amd64 from trixie-backports",
            ),
            Some(
                "6.12.107+deb13-amd64 from trixie",
            ),
            None,
        ]
        "#);
        Ok(())
    }

    #[test]
    fn a_kernel_without_its_modules_is_no_choice() {
        let of =
            |package: &str, suite: &str| Listed { package: package.into(), version: "1".into(), suite: suite.into() };
        let backports = "trixie-backports";
        let listed = [
            of("linux-image-6.18.15+deb13-amd64", backports),
            of("linux-image-6.19.14+deb13-amd64", backports),
            of("linux-binary-6.19.14+deb13-amd64", backports),
            of("linux-image-7.2.12+deb13-amd64", backports),
            of("linux-binary-7.2.12+deb13-amd64", backports),
            of("linux-modules-7.2.12+deb13-amd64", backports),
            of("linux-modules-6.19.14+deb13-amd64", "sid"),
        ];
        let whole: Vec<String> =
            candidates(&listed).filter(|one| is_whole(one, &listed)).map(|one| one.release).collect();
        assert_eq!(whole, ["6.18.15+deb13-amd64", "7.2.12+deb13-amd64"]);
    }

    #[test]
    fn what_is_no_kernel_is_told() {
        for text in ["7", "seven", "7.2.x", "7.2.3.4", ""] {
            assert!(text.parse::<Wanted>().is_err(), "{text} was accepted");
        }
    }
}
