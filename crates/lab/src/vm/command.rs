//! QEMU's command line.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use appease_scenario::{Machine, Mode};

use crate::image::{Emulator, KernelImages};

/// Memory of a machine, MiB.
pub const MEMORY_MIB: u64 = 2048;
/// Translated code that QEMU keeps: what does not fit is translated again and again.
const TRANSLATED_MIB: u32 = 512;
/// Kernel parameters of every machine. No mitigations: they cost what a scheduler cannot save. No randomness in the
/// addresses: runs repeat. No self-tests of ciphers: nobody encrypts. Random numbers seeded by the processor: until they
/// are seeded, the kernel hashes its whole pool for each one, and allocators ask for one with each slab.
const PARAMETERS: &str =
    "mitigations=off nokaslr tsc=reliable quiet console=ttyS0 panic=-1 cryptomgr.notests random.trust_cpu=1";
/// CPUs up to which the kernel's own way to start them takes seconds.
const FEW_CPUS: u32 = 64;
/// More parameters of a machine that has more. All of its CPUs would spin at once while they start, and each measure how fast it spins: of 240,
/// none was on after four minutes. Started one after another, and told, all were within two.
const PARAMETERS_OF_MANY: &str = "cpuhp.parallel=0 lpj=4000000";
/// Processor that is translated: QEMU's plain one, which lacks the random numbers that even small machines have.
const TRANSLATED_CPU: &str = "qemu64,+rdrand";
/// What the processor's random numbers begin with: runs repeat.
const SEED: u32 = 1;
/// The graphics card of a machine whose kernel does not see what is drawn on the plain one.
const OLDER_CARD: &str = "virtio-gpu-pci,xres=1920,yres=1080";
/// How long KVM may take to boot a kernel, when it is tried out.
const KVM_TRIAL: Duration = Duration::from_secs(10);

/// What executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// One thread; an instruction is a nanosecond.
    CountedInstructions,
    /// A thread for each CPU, in host time.
    Threads,
    /// The host's processor, in host time.
    Kvm,
}

impl Accelerator {
    /// What a mode runs on.
    #[must_use]
    pub fn of(mode: Mode, kvm: bool) -> Self {
        match mode {
            Mode::Exact => Self::CountedInstructions,
            Mode::Parallel if kvm => Self::Kvm,
            Mode::Parallel => Self::Threads,
        }
    }

    fn arguments(self) -> Vec<String> {
        let translate = |threads| {
            let accelerator = format!("tcg,thread={threads},tb-size={TRANSLATED_MIB}");
            vec!["-accel".into(), accelerator, "-cpu".into(), TRANSLATED_CPU.into(), "-seed".into(), SEED.to_string()]
        };
        match self {
            Self::CountedInstructions => {
                let count = ["-icount", "shift=0,sleep=off"].map(String::from);
                translate("single").into_iter().chain(count).collect()
            }
            Self::Threads => translate("multi"),
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"].map(String::from).to_vec(),
        }
    }
}

/// A read-only disk, known in the guest by its serial number.
#[derive(Debug, Clone)]
pub struct Disk {
    /// Serial number.
    pub serial: String,
    /// Image.
    pub image: PathBuf,
}

impl Disk {
    /// A disk.
    #[must_use]
    pub fn new(serial: &str, image: &Path) -> Self {
        Self { serial: serial.into(), image: image.into() }
    }
}

/// Where the guest's serial line goes.
#[derive(Debug, Clone)]
pub enum Console {
    /// Into a file.
    File(PathBuf),
    /// Our own terminal; Ctrl-A x ends the machine.
    Terminal,
}

/// A machine.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The program.
    pub emulator: Emulator,
    /// What executes it.
    pub accelerator: Accelerator,
    /// Its CPUs.
    pub machine: Machine,
    /// What it boots.
    pub kernel: KernelImages,
    /// More kernel parameters.
    pub parameters: String,
    /// Its disks.
    pub disks: Vec<Disk>,
    /// Its serial line.
    pub console: Console,
    /// A socket by which its second and third serial line are joined; none: it has but one.
    pub cable: Option<PathBuf>,
    /// Sockets on which we listen: the guest's events, and QEMU's control.
    pub sockets: Option<(PathBuf, PathBuf)>,
}

/// A comma in an option's value is written twice.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// The command that is the machine.
#[must_use]
pub fn command(spec: &Spec) -> Command {
    let mut command = spec.emulator.command();
    command.args(arguments(spec));
    command
}

/// CPUs, as many on each socket: those of a socket share their last-level cache.
fn processors(Machine { cpus, caches, threads, .. }: Machine) -> String {
    if (caches, threads) == (1, 1) {
        return cpus.to_string();
    }
    format!("{cpus},sockets={caches},cores={},threads={threads}", cpus / caches / threads)
}

/// Memory of each NUMA node, MiB.
fn memory_of_node(nodes: u32) -> u64 {
    MEMORY_MIB / u64::from(nodes)
}

/// NUMA nodes, as many sockets and as much memory on each.
fn nodes(Machine { cpus, nodes, .. }: Machine) -> Vec<String> {
    let (each, mib) = (cpus / nodes, memory_of_node(nodes));
    let node = |node: u32| {
        let (first, last) = (node * each, (node + 1) * each - 1);
        [
            "-object".into(),
            format!("memory-backend-ram,id=node{node},size={mib}M"),
            "-numa".into(),
            format!("node,nodeid={node},memdev=node{node},cpus={first}-{last}"),
        ]
    };
    if nodes == 1 { Vec::new() } else { (0..nodes).flat_map(node).collect() }
}

/// The command line without the program's name.
fn arguments(spec: &Spec) -> Vec<OsString> {
    let mut line: Vec<OsString> = Vec::new();
    let takes_turns = spec.accelerator == Accelerator::CountedInstructions && spec.machine.cpus > 1;
    let mut add = |words: &[&str]| line.extend(words.iter().map(OsString::from));
    // Each node has as much, so nothing is left over.
    let mib = memory_of_node(spec.machine.nodes) * u64::from(spec.machine.nodes);
    add(&["-machine", "pc", "-m", &mib.to_string(), "-smp", &processors(spec.machine)]);
    nodes(spec.machine).iter().for_each(|word| add(&[word]));
    spec.accelerator.arguments().iter().for_each(|word| add(&[word]));
    if takes_turns {
        add(&["-plugin", &escaped(spec.emulator.turns())]);
    }
    add(&["-nodefaults", "-nographic", "-no-reboot"]);
    add(&[
        "-kernel",
        &spec.kernel.image.display().to_string(),
        "-initrd",
        &spec.kernel.initramfs.display().to_string(),
    ]);
    let of_many = if spec.machine.cpus > FEW_CPUS { PARAMETERS_OF_MANY } else { "" };
    let parameters = [PARAMETERS, of_many, &spec.parameters];
    add(&["-append", &parameters.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" ")]);
    let card = if spec.kernel.draws_unseen() { OLDER_CARD } else { "bochs-display" };
    add(&["-vga", "none", "-device", card]);
    add(&["-audiodev", "none,id=a0", "-device", "intel-hda", "-device", "hda-duplex,audiodev=a0"]);
    for Disk { serial, image } in &spec.disks {
        let image = escaped(image);
        add(&["-drive", &format!("if=none,id={serial},format=raw,readonly=on,file.locking=off,file={image}")]);
        add(&["-device", &format!("virtio-blk-pci,drive={serial},serial={serial}")]);
    }
    match &spec.console {
        Console::File(path) => {
            add(&["-chardev", &format!("file,id=console,path={}", escaped(path)), "-serial", "chardev:console"]);
        }
        Console::Terminal => add(&["-serial", "mon:stdio"]),
    }
    if let Some(cable) = &spec.cable {
        for (end, side) in [("near", "server=on,wait=off"), ("far", "server=off")] {
            add(&["-chardev", &format!("socket,id={end},{side},path={}", escaped(cable))]);
            add(&["-serial", &format!("chardev:{end}")]);
        }
    }
    if let Some((events, control)) = &spec.sockets {
        add(&["-device", "virtio-serial-pci", "-chardev", &format!("socket,id=events,path={}", escaped(events))]);
        add(&["-device", "virtserialport,chardev=events,name=appease.events"]);
        add(&[
            "-chardev",
            &format!("socket,id=control,path={}", escaped(control)),
            "-mon",
            "chardev=control,mode=control",
        ]);
    }
    line
}

/// Whether KVM boots a kernel here. A device node alone says nothing: some hosts have one that never enters a guest.
///
/// # Errors
/// When QEMU cannot be started.
pub fn kvm_works(emulator: &Emulator, kernel: &KernelImages) -> Result<bool> {
    if std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_err() {
        return Ok(false);
    }
    let dir = tempfile::tempdir().context("create a directory for trying KVM")?;
    let log = dir.path().join("console");
    let spec = Spec {
        emulator: emulator.clone(),
        accelerator: Accelerator::Kvm,
        machine: Machine::plain(Mode::Exact, 1),
        kernel: kernel.clone(),
        parameters: "appease.probe".into(),
        disks: Vec::new(),
        console: Console::File(log.clone()),
        cable: None,
        sockets: None,
    };
    let mut command = command(&spec);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut qemu = super::Qemu::start(command)?;
    let end = Instant::now() + KVM_TRIAL;
    while Instant::now() < end && qemu.exited()?.is_none() {
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(qemu);
    Ok(std::fs::read_to_string(log).is_ok_and(|text| text.contains("this machine boots")))
}

#[cfg(test)]
mod tests {
    use appease_scenario::{Machine, Mode};

    use super::{Accelerator, Console, Disk, Spec, arguments};
    use crate::image::{Emulator, KernelImages};

    fn spec(accelerator: Accelerator, cpus: u32) -> Spec {
        Spec {
            emulator: Emulator::at("emulator", "/project/libturns.so"),
            accelerator,
            machine: Machine::plain(Mode::Exact, cpus),
            kernel: KernelImages {
                release: "7.2.13".into(),
                image: "vmlinux".into(),
                initramfs: "initramfs".into(),
                modules: "modules".into(),
            },
            parameters: String::new(),
            disks: vec![Disk::new("base", "a,b.ext4".as_ref())],
            console: Console::File("console".into()),
            cable: None,
            sockets: Some(("events".into(), "control".into())),
        }
    }

    fn text(spec: &Spec) -> String {
        arguments(spec)
            .iter()
            .map(|word| word.to_string_lossy().replace(" -", "\n-"))
            .collect::<Vec<_>>()
            .join(" ")
            .replace(" -", "\n-")
    }

    #[test]
    fn exact_mode() {
        insta::assert_snapshot!(text(&spec(Accelerator::of(Mode::Exact, true), 1)), @r"
        -machine pc
        -m 2048
        -smp 1
        -accel tcg,thread=single,tb-size=512
        -cpu qemu64,+rdrand
        -seed 1
        -icount shift=0,sleep=off
        -nodefaults
        -nographic
        -no-reboot
        -kernel vmlinux
        -initrd initramfs
        -append mitigations=off nokaslr tsc=reliable quiet console=ttyS0 panic=-1 cryptomgr.notests random.trust_cpu=1
        -vga none
        -device bochs-display
        -audiodev none,id=a0
        -device intel-hda
        -device hda-duplex,audiodev=a0
        -drive if=none,id=base,format=raw,readonly=on,file.locking=off,file=a,,b.ext4
        -device virtio-blk-pci,drive=base,serial=base
        -chardev file,id=console,path=console
        -serial chardev:console
        -device virtio-serial-pci
        -chardev socket,id=events,path=events
        -device virtserialport,chardev=events,name=appease.events
        -chardev socket,id=control,path=control
        -mon chardev=control,mode=control
        ");
    }

    #[test]
    fn cpus_of_a_socket_share_a_cache() {
        let mut spec = spec(Accelerator::CountedInstructions, 8);
        spec.machine.caches = 2;
        assert!(text(&spec).contains("-smp 8,sockets=2,cores=4,threads=1\n"));
    }

    #[test]
    fn many_cpus_start_one_after_another() {
        let text = |cpus| text(&spec(Accelerator::Threads, cpus));
        assert!(!text(64).contains("lpj=") && text(65).contains("cpuhp.parallel=0 lpj=4000000"));
    }

    #[test]
    fn exact_cpus_take_turns() {
        let mut spec = spec(Accelerator::CountedInstructions, 4);
        spec.parameters = "appease.shell".into();
        let text = text(&spec);
        let one_thread = text.contains("thread=single") && text.contains("-smp 4");
        assert!(
            one_thread && text.contains("seed 1\n-icount shift=0,sleep=off\n-plugin /project/libturns.so\n"),
            "{text}"
        );
    }

    #[test]
    fn parallel_mode() {
        let text = text(&spec(Accelerator::of(Mode::Parallel, false), 4));
        assert!(text.contains("-smp 4") && text.contains("thread=multi") && !text.contains("icount"), "{text}");
        let text = self::text(&spec(Accelerator::of(Mode::Parallel, true), 2));
        assert!(text.contains("-accel kvm"), "{text}");
    }

    #[test]
    fn an_older_kernel_has_a_card_whose_pictures_are_seen() {
        let mut spec = spec(Accelerator::CountedInstructions, 1);
        for (release, card) in [
            ("6.12.107+deb13-amd64", "virtio-gpu-pci,xres=1920,yres=1080"),
            ("6.18.15+deb13-amd64", "bochs-display"),
            ("7.2.13+deb14-amd64", "bochs-display"),
        ] {
            spec.kernel.release = release.into();
            assert!(text(&spec).contains(&format!("-vga none\n-device {card}\n")), "{release}");
        }
    }

    #[test]
    fn a_cable_has_two_ends() {
        let spec = Spec { cable: Some("cable".into()), ..spec(Accelerator::CountedInstructions, 1) };
        let text = text(&spec);
        let (_, after) = text.split_once("-serial chardev:console\n").expect("a console");
        let cable: Vec<&str> = after.lines().take(4).collect();
        insta::assert_snapshot!(cable.join("\n"), @r"
        -chardev socket,id=near,server=on,wait=off,path=cable
        -serial chardev:near
        -chardev socket,id=far,server=off,path=cable
        -serial chardev:far
        ");
    }
}
