//! Customers: how much each weighs.
//!
//! A [`Rule`] says what people wrote: whom a weight is for. [`Weights`] has the rules in force, tells the kernel what they stand
//! for at this moment, and follows cgroups that come and go.
//!
//! Invariants: no two rules are for the same customer; what is refused changes nothing.

mod rule;
mod weight;
mod weights;

pub(crate) use rule::{Rule, Words, customer_is, customer_name};
pub use weight::Weight;
pub(crate) use weight::shown;
pub(crate) use weights::Weights;
