//! A private apt: it reads the host's mirror and keys, and touches nothing of the host's own package state.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::host::{Layout, Steps, Tool};

/// Debian's release in the guest.
pub const RELEASE: &str = "trixie";
/// The suites whose packages are looked at.
const SUITES: [&str; 4] = ["trixie", "trixie-backports", "forky", "sid"];
/// Signs all of them.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Names another mirror than the host's.
const MIRROR_VARIABLE: &str = "APPEASE_LAB_MIRROR";

/// Debian's archive as the private apt sees it.
#[derive(Debug, Clone)]
pub struct Archive {
    dir: PathBuf,
    debs: PathBuf,
    mirror: String,
}

/// A line of `apt-cache madison`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Package name.
    pub package: String,
    /// Its version.
    pub version: String,
    /// The suite that has it.
    pub suite: String,
}

impl Archive {
    /// Writes the private configuration below `target/lab/apt`.
    ///
    /// # Errors
    /// When the host has no Debian mirror or no Debian keyring.
    pub fn open(layout: &Layout) -> Result<Self> {
        let archive = Self { dir: layout.lab("apt"), debs: layout.lab("cache/debs"), mirror: signed_mirror()? };
        archive.write_configuration().context("write the private apt configuration")?;
        Ok(archive)
    }

    fn write_configuration(&self) -> Result<()> {
        for sub in ["lists/partial", "etc"] {
            fs::create_dir_all(self.dir.join(sub))?;
        }
        fs::create_dir_all(self.debs.join("partial"))?;
        fs::write(self.dir.join("status"), "")?;
        let sources: String = SUITES.iter().map(|suite| line_of(&self.mirror, suite) + "\n").collect();
        fs::write(self.dir.join("etc/sources.list"), sources)?;
        let dir = self.dir.display();
        let configuration = format!(
            "Dir::State \"{dir}\";\n\
             Dir::State::status \"{dir}/status\";\n\
             Dir::State::lists \"{dir}/lists\";\n\
             Dir::Cache \"{dir}/cache\";\n\
             Dir::Cache::archives \"{}\";\n\
             Dir::Etc::sourcelist \"{dir}/etc/sources.list\";\n\
             Dir::Etc::sourceparts \"-\";\n\
             Dir::Etc::preferences \"-\";\n\
             Dir::Etc::preferencesparts \"-\";\n\
             Acquire::Languages \"none\";\n\
             Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
             Acquire::Retries \"3\";\n\
             APT::Architecture \"amd64\";\n\
             APT::Architectures \"amd64\";\n\
             APT::Sandbox::User \"\";\n",
            self.debs.display()
        );
        fs::create_dir_all(self.dir.join("cache"))?;
        fs::write(self.configuration(), configuration)?;
        Ok(())
    }

    fn configuration(&self) -> PathBuf {
        self.dir.join("apt.conf")
    }

    fn tool(&self, program: &str, purpose: &str) -> Tool {
        Tool::new(program, purpose).args(["-c".as_ref(), self.configuration().as_os_str()]).env("LC_ALL", "C.UTF-8")
    }

    /// Fetches the package lists anew. apt refuses to while another process does, so that is waited for.
    ///
    /// # Errors
    /// When the mirror cannot be reached.
    pub fn update(&self, steps: &Steps) -> Result<()> {
        let path = self.dir.join(".lock-update");
        let locked = File::create(&path).and_then(|file| file.lock().map(|()| file));
        let _lock = locked.with_context(|| format!("lock {}", path.display()))?;
        let step = steps.begin("package lists of Debian's archive");
        let fetched =
            self.tool("apt-get", "fetch the package lists").args(["update", "-q", "--error-on=any"]).run(Some(&step));
        fetched.with_context(|| {
            let mirror = &self.mirror;
            format!(
                "{mirror} gives no package lists: check the network, or name another mirror by {MIRROR_VARIABLE}=URL"
            )
        })?;
        step.done();
        Ok(())
    }

    /// Every version of every package whose name begins with one of `prefixes` and which `wanted` likes.
    ///
    /// # Errors
    /// When apt fails.
    pub fn list(&self, prefixes: &[&str], wanted: impl Fn(&str) -> bool) -> Result<Vec<Listed>> {
        let mut names = Vec::new();
        for prefix in prefixes {
            let text = self.tool("apt-cache", "list packages").args(["pkgnames", prefix]).output(None)?;
            names.extend(text.lines().filter(|name| wanted(name)).map(str::to_owned));
        }
        if names.is_empty() {
            return Ok(Vec::new());
        }
        names.sort();
        let text = self.tool("apt-cache", "list package versions").args(["madison"]).args(&names).output(None)?;
        Ok(text.lines().filter_map(parse_madison).collect())
    }

    /// A package of `suite` and all that it depends on there, down to the C library.
    ///
    /// # Errors
    /// When apt fails: the lists were not fetched yet, or the suite has no such package.
    pub fn closure(&self, suite: &str, package: &str) -> Result<Vec<Listed>> {
        let text = self
            .tool("apt-get", &format!("see what {package} depends on"))
            .args(["install", "--simulate", "--no-install-recommends", "--target-release", suite, package])
            .output(None)?;
        Ok(text.lines().filter_map(|line| parse_simulated(line, suite)).collect())
    }

    /// Downloads packages, unless they are kept already, and returns their files.
    ///
    /// # Errors
    /// When one is neither kept nor in the archive.
    pub fn download(&self, packages: &[Listed], steps: &Steps) -> Result<Vec<PathBuf>> {
        let missing: Vec<&Listed> = packages.iter().filter(|p| kept(&self.debs, p).is_none()).collect();
        if !missing.is_empty() {
            let names: Vec<String> = missing.iter().map(|p| format!("{}={}", p.package, p.version)).collect();
            let step = steps.begin(&format!("download {}", summary(&names)));
            // Into `partial` first: a file in the cache is whole.
            let partial = self.debs.join("partial");
            self.tool("apt-get", &format!("download {}", names.join(", ")))
                .args(["download", "-q"])
                .args(&names)
                .dir(&partial)
                .run(Some(&step))?;
            for package in missing {
                let file =
                    kept(&partial, package).with_context(|| format!("{} was not downloaded", package.package))?;
                let to = self.debs.join(file.file_name().unwrap_or_default());
                fs::rename(&file, &to).with_context(|| format!("keep the downloaded {}", to.display()))?;
            }
            step.done();
        }
        packages.iter().map(|p| kept(&self.debs, p).with_context(|| format!("{} is not kept", p.package))).collect()
    }
}

/// The first few of many packages.
fn summary(names: &[String]) -> String {
    const SHOWN: usize = 6;
    match names.get(..SHOWN) {
        Some(first) if names.len() > SHOWN => format!("{} and {} more", first.join(" "), names.len() - SHOWN),
        _ => names.join(" "),
    }
}

/// The file of a package in `dir`, if it is there.
fn kept(dir: &Path, listed: &Listed) -> Option<PathBuf> {
    file_names(listed).map(|name| dir.join(name)).into_iter().find(|file| file.is_file())
}

/// The names under which apt may store a package.
fn file_names(listed: &Listed) -> [String; 2] {
    ["amd64", "all"]
        .map(|architecture| format!("{}_{}_{architecture}.deb", listed.package, listed.version.replace(':', "%3a")))
}

/// `Inst libc6 (2.41-12 Debian:13.2/stable [amd64])` of `apt-get --simulate`.
fn parse_simulated(line: &str, suite: &str) -> Option<Listed> {
    let (package, rest) = line.strip_prefix("Inst ")?.split_once(" (")?;
    let version = rest.split_whitespace().next()?;
    Some(Listed { package: package.into(), version: version.into(), suite: suite.into() })
}

/// ` linux-image-6.18.15+deb13-amd64 | 6.18.15-1~bpo13+1 | http://… trixie-backports/main amd64 Packages`.
fn parse_madison(line: &str) -> Option<Listed> {
    let mut fields = line.split(" | ").map(str::trim);
    let (package, version, source) = (fields.next()?, fields.next()?, fields.next()?);
    let suite = source.split_whitespace().nth(1)?.split('/').next()?;
    source.ends_with("Packages").then(|| Listed {
        package: package.into(),
        version: version.into(),
        suite: suite.into(),
    })
}

/// One `sources.list` line for a suite of the archive. For who needs no apt of ours: this writes nothing that another one may be reading.
///
/// # Errors
/// When the host has no Debian mirror or no Debian keyring.
pub fn source(suite: &str) -> Result<String> {
    Ok(line_of(&signed_mirror()?, suite))
}

fn line_of(mirror: &str, suite: &str) -> String {
    format!("deb [signed-by={KEYRING}] {mirror} {suite} main")
}

/// [`debian_mirror`], whose keys are there.
fn signed_mirror() -> Result<String> {
    if !Path::new(KEYRING).is_file() {
        bail!("{KEYRING} is not there: run `make deps`, or as root `apt-get install debian-archive-keyring`");
    }
    debian_mirror()
}

/// The host's Debian mirror, or the one that `APPEASE_LAB_MIRROR` names.
///
/// # Errors
/// When there is neither.
pub fn debian_mirror() -> Result<String> {
    if let Ok(mirror) = std::env::var(MIRROR_VARIABLE) {
        return Ok(mirror);
    }
    let text = Tool::new("apt-get", "ask apt for the host's mirror")
        .args(["indextargets", "--format", "$(LABEL)|$(COMPONENT)|$(CREATED_BY)|$(REPO_URI)"])
        .output(None)?;
    text.lines().find_map(|line| line.strip_prefix("Debian|main|Packages|")).map(str::to_owned).with_context(|| {
        format!("this host's apt knows no Debian mirror: name one, as {MIRROR_VARIABLE}=http://…/debian")
    })
}

#[cfg(test)]
mod tests {
    use super::{Listed, file_names, parse_madison, parse_simulated, summary};

    #[test]
    fn madison_lines() {
        let line = "linux-image-6.18.15+deb13-amd64 | 6.18.15-1~bpo13+1 | http://mirror.example/debian trixie-backports/main amd64 Packages";
        let listed = parse_madison(line);
        assert_eq!(
            listed,
            Some(Listed {
                package: "linux-image-6.18.15+deb13-amd64".into(),
                version: "6.18.15-1~bpo13+1".into(),
                suite: "trixie-backports".into(),
            })
        );
        assert_eq!(parse_madison("linux | 7.2.13-1 | http://mirror.example/debian sid/main Sources"), None);
        assert_eq!(parse_madison("nonsense"), None);
    }

    #[test]
    fn an_epoch_is_escaped_as_apt_does() {
        let listed = Listed { package: "xterm".into(), version: "2:398-1".into(), suite: "sid".into() };
        assert_eq!(file_names(&listed), ["xterm_2%3a398-1_amd64.deb", "xterm_2%3a398-1_all.deb"]);
    }

    #[test]
    fn simulated_installations() {
        let listed = parse_simulated("Inst libc6 (2.41-12+deb13u4 Debian:13.7/stable [amd64]) []", "trixie");
        assert_eq!(
            listed,
            Some(Listed { package: "libc6".into(), version: "2.41-12+deb13u4".into(), suite: "trixie".into() })
        );
        assert_eq!(parse_simulated("Conf libc6 (2.41-12+deb13u4 Debian:13.7/stable [amd64])", "trixie"), None);
    }

    #[test]
    fn many_packages_are_summed_up() {
        let names: Vec<String> = (0..8).map(|n| n.to_string()).collect();
        assert_eq!(summary(&names), "0 1 2 3 4 5 and 2 more");
        assert_eq!(summary(&names[..6]), "0 1 2 3 4 5");
    }
}
