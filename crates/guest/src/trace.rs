//! What the CPUs did while keys were answered: wake-ups, kicks, switches and interrupts, by the kernel's own tracing. It costs
//! the machine some time, so figures of a traced run are not those of another.

use std::fmt::Write;

use anyhow::Result;

use crate::{clock::to_ms, recorder::Recorder};

/// For each CPU: some thousand events a second, of 60 to 100 bytes.
const BUFFER_KIB: &str = "8192";
/// Those that every supported kernel has; the others are left out where there are none.
const EVENTS: [&str; 5] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup",
    "ipi/ipi_send_cpu",
    "irq_vectors/reschedule_entry",
];
/// So many of the slowest keys are told, and as many of those in the middle.
const TOLD: usize = 4;
/// What is told before a key press, and after its character is there, ns.
const MARGIN_NS: u64 = 100_000;

/// Tracing that goes on.
pub struct Trace(Recorder);

impl Trace {
    /// Begins to trace.
    pub fn begin() -> Result<Self> {
        let recorder = Recorder::own("keys")?;
        recorder.set("trace_clock", "mono")?;
        recorder.set("buffer_size_kb", BUFFER_KIB)?;
        for event in EVENTS {
            let file = format!("events/{event}/enable");
            if recorder.has(&file) {
                recorder.set(&file, "1")?;
            }
        }
        recorder.set("tracing_on", "1")?;
        Ok(Self(recorder))
    }

    /// Ends it, and reads what was traced.
    pub fn end(self) -> Result<Traced> {
        self.0.set("tracing_on", "0")?;
        let text = self.0.text()?;
        self.0.set("trace", "")?;
        let lines = text.lines().filter_map(|line| Some((at_ns(line)?, line.trim().to_owned()))).collect();
        Ok(Traced { lines })
    }
}

/// The time of a line, ns: the word of digits with a point that ends with a colon.
fn at_ns(line: &str) -> Option<u64> {
    let word =
        line.split_whitespace().find(|word| word.ends_with(':') && word.starts_with(|c: char| c.is_ascii_digit()))?;
    let (seconds, micros) = word.strip_suffix(':')?.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1000)
}

/// What was traced.
pub struct Traced {
    lines: Vec<(u64, String)>,
}

impl Traced {
    /// The slowest of an application's keys and those in the middle, each from press to picture.
    pub fn told(&self, app: &str, spans: &[(u64, u64)]) -> String {
        let mut order: Vec<(u64, u64)> = spans.to_vec();
        order.sort_by_key(|(from, shown)| std::cmp::Reverse(shown - from));
        let middle = order.iter().skip(order.len() / 2).take(TOLD);
        let mut text = String::new();
        for (from, shown) in order.iter().take(TOLD).chain(middle) {
            let _ =
                writeln!(text, "== {app}: answered after {:.3} ms, microseconds since its press", to_ms(shown - from));
            let near = from.saturating_sub(MARGIN_NS)..shown + MARGIN_NS;
            for (at, line) in self.lines.iter().filter(|(at, _)| near.contains(at)) {
                let micros = (i128::from(*at) - i128::from(*from)) / 1000;
                let _ = writeln!(text, "{micros:8} {line}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowest_keys_are_told_with_what_happened_meanwhile() {
        let line = "  Xorg-211 [001] d..2.  12.000250: sched_waking: comm=xterm";
        assert_eq!(at_ns(line), Some(12_000_250_000));
        assert_eq!(at_ns("# tracer: nop"), None);
        let traced = Traced { lines: vec![(12_000_250_000, line.trim().into()), (14_000_000_000, "late".into())] };
        let told = traced.told("editor", &[(12_000_000_000, 12_001_000_000), (13_000_000_000, 13_000_100_000)]);
        assert!(told.starts_with("== editor: answered after 1.000 ms"), "{told}");
        assert!(told.contains("     250 Xorg-211 [001]") && !told.contains("late"), "{told}");
    }
}
