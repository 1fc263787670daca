//! CFS/RBPE, sections 5 and 6 of the paper: who reads something from a socket gets a better nice value for a while, by
//! Table 1, under an unchanged CFS.
//!
//! The paper looks at who is due for a worse value whenever some process polls; a busy machine polls all the time, so here a
//! level is lost each time the delay has passed.

use appease_policy::{
    ELEVATION_LOAD_1, ELEVATION_ROWS, elevation_delay_ns, elevation_left, elevation_lost, elevation_most_load,
    elevation_network, elevation_unix,
};

use super::{
    Scheduler, Why,
    cfs::{Cfs, Tunables},
};
use crate::{CpuId, Machine, Message, SECOND, Socket, TaskId, VisitId};

/// A row of Table 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// It holds up to this load, in the kernel's fixed point.
    pub load: u64,
    /// Levels for who reads a unix socket.
    pub unix: u32,
    /// Levels for who reads a network socket.
    pub network: u32,
    /// Time after which one of them is lost, ns.
    pub delay_ns: u64,
}

/// Table 1, as the daemon's policy `rbpe` has it.
#[must_use]
pub fn table() -> Vec<Row> {
    (0..ELEVATION_ROWS)
        .map(|row| Row {
            load: elevation_most_load(row),
            unix: elevation_unix(row),
            network: elevation_network(row),
            delay_ns: elevation_delay_ns(row),
        })
        .collect()
}

/// The kernel's fixed point of load averages: 1.0.
const FIXED_1: u64 = ELEVATION_LOAD_1 as u64;
/// Share of the old value that is kept each five seconds, of 2048: it falls to 1/e in a minute.
const EXP_1: u64 = 1884;
/// How often the load is taken.
const LOAD_EACH_NS: u64 = 5 * SECOND;

/// `avenrun[0]` for a load average.
#[must_use]
pub fn avenrun(load: f64) -> u64 {
    (load * FIXED_1 as f64) as u64
}

/// A process in the list of elevated ones.
#[derive(Debug, Clone, Copy, Default)]
struct Elevated {
    levels: u32,
    since_ns: u64,
}

/// The scheduler.
#[derive(Debug)]
pub struct Rbpe {
    cfs: Cfs,
    table: Vec<Row>,
    avenrun: u64,
    elevated: Vec<Elevated>,
}

impl Rbpe {
    /// With that table, of which the last row holds for any load, and that load.
    #[must_use]
    pub fn new(table: Vec<Row>, avenrun: u64, tunables: Tunables, cpus: u32, tasks: usize) -> Self {
        let elevated = vec![Elevated::default(); tasks];
        Self { cfs: Cfs::new(tunables, cpus, tasks), table, avenrun, elevated }
    }

    fn row(&self) -> Row {
        *self.table.iter().find(|row| self.avenrun <= row.load).unwrap_or(&self.table[self.table.len() - 1])
    }

    /// Takes the levels back that are due.
    fn decay(&mut self, machine: &Machine, task: TaskId) {
        let (now_ns, delay_ns) = (machine.now_ns(), self.row().delay_ns);
        let elevated = &mut self.elevated[task as usize];
        if elevated.levels == 0 {
            return;
        }
        let passed_ns = now_ns - elevated.since_ns;
        let left = elevation_left(elevated.levels, passed_ns, delay_ns);
        if left < elevated.levels {
            elevated.levels = left;
            elevated.since_ns += elevation_lost(passed_ns, delay_ns).saturating_mul(delay_ns).min(passed_ns);
            self.apply(machine, task, left);
        }
    }

    fn apply(&mut self, machine: &Machine, task: TaskId, levels: u32) {
        self.cfs.set_nice(machine, task, machine.task(task).nice.better_by(levels));
    }
}

impl Scheduler for Rbpe {
    fn add(&mut self, machine: &Machine, task: TaskId) {
        self.elevated[task as usize] = Elevated::default();
        self.cfs.add(machine, task);
    }

    fn enqueue(&mut self, machine: &Machine, task: TaskId, why: Why) -> Option<CpuId> {
        self.decay(machine, task);
        self.cfs.enqueue(machine, task, why)
    }

    fn pick(&mut self, machine: &Machine, cpu: CpuId) -> Option<TaskId> {
        self.cfs.pick(machine, cpu)
    }

    fn slice_ns(&mut self, machine: &Machine, cpu: CpuId, task: TaskId) -> u64 {
        self.decay(machine, task);
        self.cfs.slice_ns(machine, cpu, task)
    }

    fn charge(&mut self, machine: &Machine, cpu: CpuId, task: TaskId, ran_ns: u64) {
        self.cfs.charge(machine, cpu, task, ran_ns);
    }

    fn slept(&mut self, machine: &Machine, cpu: CpuId, task: TaskId) {
        self.cfs.slept(machine, cpu, task);
    }

    fn read(&mut self, machine: &Machine, task: TaskId, _visit: VisitId, message: Message) {
        let row = self.row();
        let levels = if message.socket == Socket::Unix { row.unix } else { row.network };
        if levels > 0 {
            self.elevated[task as usize] = Elevated { levels, since_ns: machine.now_ns() };
            self.apply(machine, task, levels);
        }
    }

    fn looks_each_ns(&self) -> Option<u64> {
        Some(LOAD_EACH_NS)
    }

    /// As the kernel's `calc_load()`.
    fn look(&mut self, machine: &Machine) {
        let active = u64::from(machine.active()) * FIXED_1;
        let mut load = self.avenrun * EXP_1 + active * (FIXED_1 - EXP_1);
        if active >= self.avenrun {
            load += FIXED_1 - 1;
        }
        self.avenrun = load / FIXED_1;
    }
}
