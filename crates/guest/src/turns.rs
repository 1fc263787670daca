//! Turns of an exact machine's CPUs.
//!
//! Problem: the emulator executes the CPUs of an exact machine one after another, each up to the next timer of the machine.
//! Ticks are 4 ms apart, so a message to a busy CPU came up to 4 ms late, which no real machine does.
//!
//! Rule: a timer that interrupts nobody is due each 122 microseconds, and the CPUs share that time among them. It is the
//! periodic one of the clock chip (MC146818), at its highest rate. The kernel has no driver of the chip (a parameter of the
//! kernel sees to that), and its interrupt is masked, so the guest executes no instruction for it.
//!
//! Limit: a message to another busy CPU takes effect up to 122 microseconds late; to an idle one at once.

use std::{fs::OpenOptions, os::unix::fs::FileExt};

use anyhow::{Context, Result};
use appease_scenario::{Machine, Mode};

/// The machine's I/O ports, a byte each.
const PORTS: &str = "/dev/port";
/// The chip's two: which register is meant, and its value.
const INDEX: u64 = 0x70;
const VALUE: u64 = 0x71;
/// Register A with the divider of a running chip, and the rate of 8,192 in a second.
const RATE: [u8; 2] = [0x0a, 0x23];
/// Register B with hours up to 24, and the periodic timer on.
const PERIODIC: [u8; 2] = [0x0b, 0x42];

/// Bounds the turns of `machine`'s CPUs, where they take turns.
pub fn bound(machine: Machine) -> Result<()> {
    if machine.mode != Mode::Exact || machine.cpus == 1 {
        return Ok(());
    }
    let ports = OpenOptions::new().write(true).open(PORTS).with_context(|| format!("open {PORTS}"))?;
    for [register, value] in [RATE, PERIODIC] {
        for (port, byte) in [(INDEX, register), (VALUE, value)] {
            ports.write_all_at(&[byte], port).with_context(|| format!("write to {PORTS} at {port:#x}"))?;
        }
    }
    Ok(())
}
