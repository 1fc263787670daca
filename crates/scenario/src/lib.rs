//! The language that the laboratory, its guest and the simulator share: scenario files
//! ([`Scenario`]), what one virtual machine is asked to do ([`Job`]), what it tells while it does
//! it ([`Event`]), and the result document ([`Report`]).
#![forbid(unsafe_code)]

mod job;
mod keys;
mod load;
mod mix;
mod part;
mod report;
mod scenario;
mod visit;

pub use job::{Event, Grouping, Job, Machine, Mode, Outcome};
pub use load::{Load, ParseLoadError};
pub use mix::{Class, Mix, ParseClassError, scheduler_and_mix};
pub use part::Part;
pub use report::{Metric, Report, Run, Summary, WATCHDOG};
pub use scenario::{
    App, AppKind, Capture, Clip, LONGEST_SETTLE_S, Meter, MeterKind, PAGE_PORT, Player, Scenario, ScenarioError, Short,
    Typist,
};
pub use visit::{Line, Visit};
