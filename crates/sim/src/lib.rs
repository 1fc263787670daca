//! Schedulers under simulated load, and what customers feel of it.
//!
//! [`Simulation`] runs a [`Scenario`] of tasks, customers and CPUs under one [`Scheduler`], event by event. The same scenario
//! and seed give the same run, and every scheduler is faced with the same arrivals and the same work.
//! Our own scheduler's arithmetic is not written down anew: it is called from `bpf/policy` through `appease-policy`.
//!
//! [`unhappiness`] keeps account of eq. 1 to 5 of Customer Appeasement Scheduling (TR-10-18, Carleton University, 2010),
//! for the simulation and as an oracle; [`formula`] has eq. 6 to 27, [`compare`] holds them against the simulation.
//!
//! What is left out: what caches hold, the cost of a switch, interrupts, memory and disks; and the cost of the scheduler
//! itself, but for the locks of its queues where a scenario asks for that. A turn ends
//! when its slice does, or at the next tick where the scenario has ticks.
#![forbid(unsafe_code)]

pub mod compare;
pub mod distribution;
mod events;
pub mod formula;
mod heap;
mod machine;
mod outcome;
mod parts;
mod plot;
pub mod report;
pub mod scale;
mod scenario;
pub mod schedulers;
mod set;
mod simulation;
mod topology;
pub mod unhappiness;
mod values;

pub use machine::{CpuId, GroupId, Machine, Message, MessageKind, NONE, Task, TaskId, VisitId};
pub use outcome::{Answer, Counts, CustomerFigures, Effort, Outcome, TaskFigures};
pub use scenario::{Arrivals, Call, CustomerGroup, Error, Hog, Interactive, Scenario, Server, Socket};
pub use schedulers::{Scheduler, SchedulerName};
pub use simulation::Simulation;
pub use topology::{FULL_CAPACITY, Topology};
pub use values::{Alpha, Nice, ValueError, Weight};

/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;
/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;
