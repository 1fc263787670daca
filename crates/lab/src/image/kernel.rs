//! A kernel made ready for the emulator: unpacked, with the few modules wanted on a disk of their own.

use std::{
    collections::BTreeSet,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use ruzstd::decoding::StreamingDecoder;

use super::{
    ext4::{self, Content},
    initramfs::{self, Module},
};
use crate::{
    debian::{Archive, Kernel},
    host::{Layout, Program, Tool, exists, free_space, progress::Step, require},
    store::{Store, remove},
};

/// Changes when the way of building does.
const RECIPE: &str = "kernel 3";

/// Modules that the initramfs loads.
const EARLY: [&str; 3] = ["virtio_blk", "ext4", "overlay"];
/// Modules that the guest loads when it wants them, each with what it depends on.
const LATER: [&str; 20] = [
    "bochs",
    "brd",
    "bridge",
    "dm-crypt",
    "evdev",
    "hid-generic",
    "inet_diag",
    "joydev",
    "mousedev",
    "snd-hda-codec-generic",
    "snd-hda-intel",
    "tcp_diag",
    "uhid",
    "uinput",
    "unix_diag",
    "veth",
    "virtio_net",
    "virtio_rng",
    "vivid",
    "xts",
];
/// The same on a kernel that has [`KernelImages::draws_unseen`].
const OLDER: &str = "virtio-gpu";
/// The first kernel whose bochs gets its pictures by a call: major and minor version.
const SEES_PICTURES: (u32, u32) = (6, 13);
/// Files of depmod's and modprobe's that are copied along.
const TABLES: [&str; 3] = ["modules.order", "modules.builtin", "modules.builtin.modinfo"];
/// Ends a signed module.
const SIGNATURE_MARK: &[u8] = b"~Module signature appended~\n";
/// Disk space for building one, MiB.
const SPACE_MIB: u64 = 1536;

/// A kernel's files.
#[derive(Debug, Clone)]
pub struct KernelImages {
    /// As `uname -r` prints it.
    pub release: String,
    /// What QEMU loads.
    pub image: PathBuf,
    /// Its initramfs.
    pub initramfs: PathBuf,
    /// The disk mounted at /usr/lib/modules.
    pub modules: PathBuf,
}

impl KernelImages {
    /// Whether programs draw into the memory of the card bochs themselves, so that nobody sees when: its driver has no call
    /// to tell of a picture. The machine then has another card.
    #[must_use]
    pub fn draws_unseen(&self) -> bool {
        draws_unseen(&self.release)
    }
}

fn draws_unseen(release: &str) -> bool {
    let mut numbers = release.split('.').map(str::parse);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < SEES_PICTURES)
}

/// Modules that the guest loads on this kernel.
fn later(release: &str) -> Vec<&'static str> {
    LATER.into_iter().chain(draws_unseen(release).then_some(OLDER)).collect()
}

/// The files of a kernel.
///
/// # Errors
/// When they are not there and cannot be built.
pub fn kernel(layout: &Layout, store: &Store, kernel: &Kernel) -> Result<KernelImages> {
    let mut recipe = vec![RECIPE.to_owned(), serde_json::to_string(&kernel.packages)?, initramfs::recipe().to_owned()];
    recipe.extend(EARLY.into_iter().chain(later(&kernel.release)).map(str::to_owned));
    let dir = store.get("kernel", &recipe.join("\n"), |part| {
        require(&[Program::MKE2FS, Program::BUSYBOX, Program::DEPMOD, Program::XZ, Program::APT])?;
        free_space(part, SPACE_MIB, "unpacking a kernel")?;
        let debs = Archive::open(layout)?.download(&kernel.listed(), store.steps()).with_context(|| {
            let release = &kernel.release;
            format!(
                "kernel {release} was chosen earlier; if the archive has it no more, choose anew by `appease-lab build --update` \
                 with the same --kernel"
            )
        })?;
        let step = store.steps().begin(&format!("kernel {}", kernel.release));
        let tree = part.join("tree");
        fs::create_dir(&tree).context("create the kernel's tree")?;
        for deb in &debs {
            step.says(&deb.display().to_string());
            Tool::new("dpkg-deb", format!("unpack {}", deb.display()))
                .args(["-x".as_ref(), deb.as_os_str(), tree.as_os_str()])
                .run(Some(&step))?;
        }
        Unpacked { tree: tree.clone(), release: kernel.release.clone() }.build(part, &step)?;
        remove(&tree)?;
        fs::write(part.join("manifest.json"), serde_json::to_string_pretty(kernel)?).context("write the manifest")?;
        step.done();
        Ok(())
    })?;
    Ok(KernelImages {
        release: kernel.release.clone(),
        image: dir.join("vmlinux"),
        initramfs: dir.join("initramfs.cpio"),
        modules: dir.join("modules.ext4"),
    })
}

/// The unpacked packages.
struct Unpacked {
    tree: PathBuf,
    release: String,
}

impl Unpacked {
    fn modules(&self) -> PathBuf {
        self.tree.join("usr/lib/modules").join(&self.release)
    }

    /// A file that is in the modules' directory, or in older kernels in /boot under a longer name.
    fn file(&self, name: &str) -> Result<Vec<u8>> {
        let places = [self.modules().join(name), self.tree.join(format!("boot/{name}-{}", self.release))];
        let Some(path) = places.iter().find(|path| path.is_file()) else {
            bail!("the packages of kernel {} hold no {name}", self.release);
        };
        fs::read(path).with_context(|| format!("read {}", path.display()))
    }

    fn build(&self, part: &Path, step: &Step) -> Result<()> {
        step.says("unpacking the kernel");
        fs::write(part.join("vmlinux"), unpack_image(self.file("vmlinuz")?)?).context("write the kernel")?;

        step.says("modules");
        if !self.tree.join("lib").exists() {
            std::os::unix::fs::symlink("usr/lib", self.tree.join("lib")).context("link lib to usr/lib")?;
        }
        Tool::new("depmod", format!("order the modules of {}", self.release))
            .args(["-b".as_ref(), self.tree.as_os_str(), self.release.as_ref()])
            .run(Some(step))?;

        let early = self.closure(&EARLY)?.iter().map(|path| unpack_module(path)).collect::<Result<Vec<Module>>>()?;
        let busybox = exists("busybox").context("busybox is not there")?;
        let busybox = fs::read(&busybox).with_context(|| format!("read {}", busybox.display()))?;
        let mut archive = Vec::new();
        initramfs::write(&mut archive, &busybox, &early).context("write the initramfs")?;
        fs::write(part.join("initramfs.cpio"), archive).context("write the initramfs")?;

        self.modules_disk(part, step)
    }

    fn modules_disk(&self, part: &Path, step: &Step) -> Result<()> {
        let root = part.join("modules");
        let there = root.join("lib/modules").join(&self.release);
        let mut content = Content::default();
        let mut write = |relative: &Path, bytes: &[u8]| -> Result<()> {
            let path = there.join(relative);
            fs::create_dir_all(path.parent().unwrap_or(&there)).context("create the modules' tree")?;
            fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
            content.add(bytes.len() as u64);
            Ok(())
        };
        for path in self.closure(&later(&self.release))? {
            let relative = path.strip_prefix(self.modules()).unwrap_or(&path);
            let directory = relative.parent().unwrap_or(Path::new(""));
            let (name, bytes) = unpack_module(&path)?;
            write(&directory.join(name), &bytes)?;
        }
        write(Path::new("config"), &self.file("config")?)?;
        for name in TABLES {
            write(Path::new(name), &fs::read(self.modules().join(name)).with_context(|| format!("read {name}"))?)?;
        }
        Tool::new("depmod", format!("order the chosen modules of {}", self.release))
            .args(["-b".as_ref(), root.as_os_str(), self.release.as_ref()])
            .run(None)?;
        // depmod's tables, and directories.
        content.add(4 << 20);
        content.entries += 128;
        ext4::from_tree(&root.join("lib/modules"), "modules", &part.join("modules.ext4"), content, Some(step))?;
        remove(&root)
    }

    /// The files of modules and of all that they depend on, in loading order. Built-in ones have none.
    fn closure(&self, names: &[&str]) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let mut seen = BTreeSet::new();
        let reached = self.tree.join("lib/modules").join(&self.release);
        for name in names {
            let text = Tool::new("modprobe", format!("find module {name} of kernel {}", self.release))
                .args(["-C", "/dev/null", "-S", &self.release, "-d"])
                .args([&self.tree])
                .args(["--show-depends", name])
                .output(None)?;
            let paths = text.lines().filter_map(|line| line.trim().strip_prefix("insmod "));
            for path in paths.filter_map(|rest| rest.split_whitespace().next()) {
                let relative = Path::new(path).strip_prefix(&reached).unwrap_or(Path::new(path));
                if seen.insert(relative.to_owned()) {
                    files.push(self.modules().join(relative));
                }
            }
        }
        Ok(files)
    }
}

/// A module without compression and without its signature: checking one means hashing the module in emulation,
/// which took 1.5 s for ext4.
fn unpack_module(path: &Path) -> Result<Module> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (name, mut bytes) = if let Some(plain) = name.strip_suffix(".xz") {
        let output = std::process::Command::new("xz")
            .args(["-dc", "--"])
            .arg(path)
            .output()
            .with_context(|| format!("unpack {}", path.display()))?;
        if !output.status.success() {
            bail!("xz cannot unpack {}", path.display());
        }
        (plain.to_owned(), output.stdout)
    } else {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        match name.strip_suffix(".zst") {
            Some(plain) => {
                let unpacked = unpack_frame(&bytes).with_context(|| format!("unpack {}", path.display()))?;
                (plain.to_owned(), unpacked)
            }
            None => (name, bytes),
        }
    };
    bytes.truncate(unsigned_length(&bytes));
    Ok((name, bytes))
}

/// The first frame of what was packed by zstd; modules and kernels are one.
fn unpack_frame(packed: &[u8]) -> Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    StreamingDecoder::new(packed)?.read_to_end(&mut unpacked)?;
    Ok(unpacked)
}

/// Length of a module without its signature (Linux include/linux/module_signature.h: signature, 12 bytes whose
/// last four are the signature's length, mark).
fn unsigned_length(module: &[u8]) -> usize {
    const TRAILER: usize = 12;
    let unsigned = || {
        let rest = module.strip_suffix(SIGNATURE_MARK)?;
        let length = u32::from_be_bytes(*rest.last_chunk()?);
        rest.len().checked_sub(TRAILER)?.checked_sub(usize::try_from(length).ok()?)
    };
    unsigned().unwrap_or(module.len())
}

/// The kernel proper out of its self-unpacking image, so that it need not be unpacked in emulation: QEMU starts an
/// ELF file by its PVH entry. An image packed otherwise than Debian does is left as it is.
fn unpack_image(image: Vec<u8>) -> Result<Vec<u8>> {
    const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    match payload(&image) {
        Some(payload) if payload.starts_with(&ZSTD) => {
            // The payload is one frame; four bytes of size follow it.
            unpack_frame(payload).context("unpack the kernel")
        }
        _ => Ok(image),
    }
}

/// Linux Documentation/arch/x86/boot.rst: payload_offset and payload_length count from the protected-mode code.
fn payload(image: &[u8]) -> Option<&[u8]> {
    const SETUP_SECTORS: usize = 0x1f1;
    const PAYLOAD_OFFSET: usize = 0x248;
    const PAYLOAD_LENGTH: usize = 0x24c;
    let number = |at: usize| {
        let bytes = image.get(at..at + 4)?;
        usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok()
    };
    let code = (usize::from(*image.get(SETUP_SECTORS)?) + 1) * 512;
    let begin = code.checked_add(number(PAYLOAD_OFFSET)?)?;
    image.get(begin..begin.checked_add(number(PAYLOAD_LENGTH)?)?)
}

#[cfg(test)]
mod tests {
    use super::{SIGNATURE_MARK, payload, unsigned_length};

    #[test]
    fn a_signature_is_cut_off() {
        let mut module = b"module".to_vec();
        module.extend(b"signature");
        module.extend([0; 8]);
        module.extend(9u32.to_be_bytes());
        module.extend(SIGNATURE_MARK);
        assert_eq!(unsigned_length(&module), 6);
        assert_eq!(unsigned_length(b"module"), 6);
        assert_eq!(unsigned_length(SIGNATURE_MARK), SIGNATURE_MARK.len());
    }

    #[test]
    fn the_payload_of_a_boot_image() {
        let mut image = vec![0; 2048];
        image[0x1f1] = 1;
        image[0x248..0x24c].copy_from_slice(&16u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&4u32.to_le_bytes());
        image[1024 + 16..1024 + 20].copy_from_slice(b"load");
        assert_eq!(payload(&image), Some(b"load".as_slice()));
        assert_eq!(payload(&image[..1024]), None);
        assert_eq!(payload(b""), None);
    }
}
