//! An interactive machine.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use appease_scenario::Mode;

use crate::{
    cli::ShellArgs,
    fleet::Images,
    host::{Layout, Program, require},
    plan,
    scheduler::PEERS,
    store::Store,
    vm::{self, Accelerator, Console, Qemu, Spec},
};

/// How often the machine is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Opens a shell on our terminal and waits for the machine's end.
///
/// # Errors
/// When the machine cannot be built or started.
pub fn shell(layout: &Layout, store: &Store, args: &ShellArgs) -> Result<()> {
    let machine = plan::machine(&args.machine, Mode::Parallel)?;
    let scenario = args.scenario.as_deref().map(|name| plan::scenario(layout, name)).transpose()?;
    require(&[Program::SETPRIV])?;
    let tools = tools(layout, &args.with)?;
    let scenarios: Vec<_> = scenario.iter().collect();
    let images = Images::build(layout, store, &scenarios, std::slice::from_ref(&args.kernel), false)?;
    let kernel = images.kernel(&args.kernel)?;
    let kvm = machine.mode == Mode::Parallel && vm::kvm_works(images.emulator(), kernel)?;
    let spec = Spec {
        emulator: images.emulator().clone(),
        accelerator: Accelerator::of(machine.mode, kvm),
        machine,
        kernel: kernel.clone(),
        parameters: "appease.shell".into(),
        disks: images.disks(store, scenario.as_ref(), kernel, &tools)?,
        console: Console::Terminal,
        cable: None,
        sockets: None,
    };
    store.steps().note("starting the machine: Ctrl-A x ends it, Ctrl-A h helps");
    let mut qemu = Qemu::start_in_foreground(vm::command(&spec))?;
    let status = loop {
        // The terminal's Ctrl-C goes to the guest; a signal from elsewhere ends us both.
        store.interrupt().check()?;
        if let Some(status) = qemu.exited()? {
            break status;
        }
        std::thread::sleep(TICK);
    };
    if !status.success() {
        bail!("qemu-system-x86_64 ended with {status}");
    }
    Ok(())
}

/// All of our programs and the peers that are built, and files named by the user.
fn tools(layout: &Layout, with: &[PathBuf]) -> Result<BTreeMap<String, PathBuf>> {
    let ours = ["appease-guest", "appease"].map(|name| (name, layout.program(name)));
    let peers = PEERS.map(|name| (name, layout.peer(name)));
    let mut tools: BTreeMap<String, PathBuf> = ours
        .into_iter()
        .chain(peers)
        .filter(|(_, file)| file.is_file())
        .map(|(name, file)| (name.to_owned(), file))
        .collect();
    for file in with {
        let name = file.file_name().and_then(|name| name.to_str()).context("--with needs files")?;
        if !file.is_file() {
            bail!("--with {}: there is no such file", file.display());
        }
        tools.insert(name.to_owned(), file.clone());
    }
    Ok(tools)
}
