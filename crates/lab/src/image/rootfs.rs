//! The guest's root file system: one base for all, and an overlay for each set of packages that a scenario adds.

use std::{
    collections::BTreeSet,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{ext4, index::Index};
use crate::{
    debian::{RELEASE, source},
    host::{Layout, Program, Tool, am_root, free_space, progress::Step, require},
    store::{Store, remove},
};

/// Changes when the way of building does.
const RECIPE: &str = "rootfs 3";

/// Packages of the base image: X and xterm, sound, the two loads, and what the guest's program and peers link with.
const BASE: [&str; 18] = [
    "gcc",
    "iproute2",
    "kmod",
    "libasound2t64",
    "libc6-dev",
    "libelf1t64",
    "libseccomp2",
    "libzstd1",
    "make",
    "procps",
    "stress-ng",
    "udev",
    "xfonts-base",
    "xkb-data",
    "xserver-xorg-core",
    "xserver-xorg-input-libinput",
    "xterm",
    "zlib1g",
];

/// The base image's files, to which overlays add.
const ROOT: &str = "root.tar";

/// What nobody in the guest reads.
const LEFT_OUT: [&str; 6] = [
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/lintian/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
    "/usr/share/bug/*",
];

/// Disk space for building one, MiB: archive, unpacked tree and image; the largest overlay takes 1,928 at its peak.
const SPACE_MIB: u64 = 2560;

/// The directory with `base.ext4`.
///
/// # Errors
/// When it is not there and cannot be built.
pub fn base(layout: &Layout, store: &Store) -> Result<PathBuf> {
    store.get("base", &recipe(&[]), |part| {
        let step = store.steps().begin("base image");
        let (tar, index) = assemble(layout, &Contents::Base, part, &step)?;
        step.says("writing the image");
        let image = part.join("base.ext4");
        ext4::from_tar(&tar, None, &part.join("tree"), "base", &image, index.content(), Some(&step))?;
        fs::write(part.join("index.txt"), index.lines()).context("write the base image's index")?;
        step.done();
        Ok(())
    })
}

/// The directory with `overlay.ext4`, the files by which base and `packages` together differ from base.
///
/// # Errors
/// When it is not there and cannot be built.
pub fn overlay(layout: &Layout, store: &Store, packages: &[String]) -> Result<PathBuf> {
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect();
    let base = base(layout, store)?;
    store.get("overlay", &recipe(&packages), |part| {
        let step = store.steps().begin(&format!("packages {}", packages.join(" ")));
        let contents = Contents::More { base: base.join(ROOT), packages: &packages };
        let (tar, index) = assemble(layout, &contents, part, &step)?;
        step.says("comparing with the base image");
        let lines = fs::read_to_string(base.join("index.txt")).context("read the base image's index")?;
        let (paths, content) = index.beyond(&lines);
        let list = part.join("list.txt");
        // Empty when the base has all that is wanted.
        let wanted: String = paths.iter().map(|path| format!("{path}\n")).collect();
        fs::write(&list, wanted).context("write the overlay's list")?;
        step.says("writing the image");
        let image = part.join("overlay.ext4");
        ext4::from_tar(&tar, Some(&list), &part.join("tree"), "overlay", &image, content, Some(&step))?;
        fs::remove_file(&tar).context("remove the overlay's archive")?;
        step.done();
        Ok(())
    })
}

fn recipe(extra: &[&str]) -> String {
    let mut lines = vec![RECIPE, RELEASE];
    lines.extend(BASE);
    lines.extend(LEFT_OUT);
    lines.push("extra:");
    lines.extend(extra);
    lines.join("\n")
}

/// What a root file system is made of.
enum Contents<'a> {
    /// The packages of [`BASE`].
    Base,
    /// What that gave, by its archive, and more packages. (To install all of it anew took twice as long for each overlay.)
    More { base: PathBuf, packages: &'a [&'a str] },
}

impl Contents<'_> {
    /// Where their packages are kept. The base's are of no use to overlays, which would copy them to and fro.
    fn cache(&self) -> &'static str {
        match self {
            Self::Base => "cache/rootfs",
            Self::More { .. } => "cache/overlays",
        }
    }

    /// Arguments of mmdebstrap.
    fn arguments(&self) -> Vec<String> {
        match self {
            Self::Base => vec!["--variant=minbase".into(), format!("--include={}", BASE.join(","))],
            Self::More { base, packages } => vec![
                "--variant=custom".into(),
                format!("--setup-hook=tar-in {} /", quoted(base)),
                format!(
                    "--customize-hook=APT_CONFIG=\"$MMDEBSTRAP_APT_CONFIG\" \
                     apt-get --yes -oDPkg::Chroot-Directory=\"$1\" install {}",
                    packages.join(" ")
                ),
            ],
        }
    }
}

/// A word of a shell's command.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Hooks of mmdebstrap that bring the packages of a directory in, and all that there are at the end out to it.
fn package_hooks(packages: &Path) -> [String; 2] {
    if am_root() {
        let outside = quoted(packages);
        let inside = r#""$1"/var/cache/apt/archives"#;
        let move_to = "-maxdepth 1 -name '*.deb' -exec mv -t";
        // The scratch directory is on the same file system: nothing is copied.
        return [
            format!("--setup-hook=find {outside} {move_to} {inside} {{}} +"),
            format!("--customize-hook=find {inside} {move_to} {outside} {{}} +"),
        ];
    }
    // Others' hooks run in a user namespace, which cannot write here: mmdebstrap's own processes hand the files over.
    let name = packages.file_name().unwrap_or_default().display();
    [
        format!("--setup-hook=sync-in {name} /var/cache/apt/archives"),
        format!("--customize-hook=sync-out /var/cache/apt/archives {name}"),
    ]
}

/// Runs mmdebstrap; the packages that it downloads are kept for the next time.
fn assemble(layout: &Layout, contents: &Contents, part: &Path, step: &Step) -> Result<(PathBuf, Index)> {
    require(&[Program::MMDEBSTRAP, Program::MKE2FS, Program::APT])?;
    if !am_root() {
        require(&[Program::FAKEROOT])?;
    }
    free_space(part, SPACE_MIB, "building a root file system")?;
    let cache = layout.lab(contents.cache());
    fs::create_dir_all(&cache).context("create the package cache")?;
    let packages = part.join("packages");
    link_packages(&cache, &packages)?;
    let tar = part.join(ROOT);
    let source = source(RELEASE)?;
    let scratch = part.join("scratch");
    fs::create_dir_all(&scratch).context("create a scratch directory")?;
    let [bring, keep] = package_hooks(&packages);
    let what = match contents {
        Contents::Base => "the base image",
        Contents::More { .. } => "the overlay",
    };
    Tool::contained("mmdebstrap", format!("assemble {what}"))
        .args(["--architectures=amd64"])
        .args(contents.arguments())
        .args(LEFT_OUT.map(|path| format!("--dpkgopt=path-exclude={path}")))
        .args([
            // What is lost with the host is built anew.
            "--dpkgopt=force-unsafe-io",
            "--aptopt=Apt::Install-Recommends \"false\"",
            "--aptopt=Acquire::Languages \"none\"",
            "--aptopt=Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\"",
            "--aptopt=Acquire::Retries \"3\"",
            "--aptopt=APT::Sandbox::User \"root\"",
            // The guest has its own devices, and not everybody may unpack such.
            "--skip=essential/unlink,download/empty,cleanup/apt,output/dev",
            "--setup-hook=mkdir -p \"$1/var/cache/apt/archives/partial\"",
            &bring,
            "--customize-hook=rm -f \"$1/var/cache/apt/archives/lock\"",
            &keep,
            "--customize-hook=rm -rf \"$1\"/var/cache/apt/* \"$1\"/var/lib/apt/lists/* \"$1\"/var/log/*",
        ])
        .args([RELEASE.as_ref(), tar.as_os_str(), source.as_ref()])
        .env("LC_ALL", "C.UTF-8")
        .env("TMPDIR", &scratch)
        .dir(part)
        .run(Some(step))?;
    remove(&scratch)?;
    link_packages(&packages, &cache)?;
    remove(&packages)?;
    step.says("indexing");
    let index = Index::of(&tar)?;
    Ok((tar, index))
}

/// Gives `to` the packages of `from` that it lacks, whole at once. Two images may be assembled at a time, and what is read into one must not
/// change meanwhile: each has a directory of its own, and the cache is what all of them left.
fn link_packages(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("list {}", from.display()))? {
        let package = entry.with_context(|| format!("list {}", from.display()))?.path();
        let Some(name) = package.file_name().filter(|_| package.extension() == Some("deb".as_ref())) else { continue };
        match fs::hard_link(&package, to.join(name)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("link {}", package.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_go_over_once() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let (cache, own) = (dir.path().join("cache"), dir.path().join("own"));
        fs::create_dir_all(&cache)?;
        fs::write(cache.join("old.deb"), "kept")?;
        link_packages(&cache, &own)?;
        // What an installation writes replaces its own link alone.
        fs::remove_file(own.join("old.deb"))?;
        fs::write(own.join("old.deb"), "again")?;
        fs::write(own.join("new.deb"), "new")?;
        fs::write(own.join("lock"), "")?;
        fs::create_dir_all(own.join("partial"))?;
        link_packages(&own, &cache)?;
        let mut names: Vec<_> = fs::read_dir(&cache)?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
        names.sort();
        assert_eq!(names, ["new.deb", "old.deb"]);
        assert_eq!(fs::read_to_string(cache.join("old.deb"))?, "kept");
        Ok(())
    }
}
