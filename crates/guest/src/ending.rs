//! How a run can end other than well.

use appease_scenario::Outcome;

/// An error that knows under which outcome it is reported; every other error is [`Outcome::Failed`].
#[derive(Debug, Clone, thiserror::Error)]
#[error("{detail}")]
pub struct Ending {
    /// What the report says.
    pub outcome: Outcome,
    /// Why.
    pub detail: String,
}

/// A meter saw nothing, or a time limit passed.
pub fn stalled(detail: impl Into<String>) -> anyhow::Error {
    Ending { outcome: Outcome::Stalled, detail: detail.into() }.into()
}

/// The kernel ejected the scheduler.
pub fn evicted(detail: impl Into<String>) -> anyhow::Error {
    Ending { outcome: Outcome::Evicted, detail: detail.into() }.into()
}

/// Under which outcome an error is reported.
pub fn outcome_of(error: &anyhow::Error) -> Outcome {
    error.downcast_ref::<Ending>().map_or(Outcome::Failed, |ending| ending.outcome)
}
