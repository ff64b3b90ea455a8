//! Runs any plan on any transport: data-driven, never in lock-step, every wait under a deadline.
//!
//! Entering an operation sends one *open word* to each rank that will put to us; it carries our slot, where
//! to put, and a hash of the arguments. From then on only data dependencies count: an arrival bumps a
//! counter, a counter that reaches its mark makes steps ready, and any ready step may go as soon as its
//! target has opened and the window on unacknowledged bytes allows; the lowest round goes first.
//!
//! Any error is final for the world: it is flooded along the neighbours with the culprit's name, the
//! endpoint is closed (so that nobody can touch borrowed memory any more), and every later call fails.

mod bank;

mod bank;
mod beat;
mod bootstrap;
mod closing;
mod core;
mod counts;
mod credits;
mod delivery;
mod description;
mod dispute;
mod driver;
mod eager;
mod failure;
mod flow;
mod history;
mod locations;
pub(crate) mod message;
mod operations;
mod pace;
mod pump;
mod raw;
mod setup;
mod short_log;
mod small;
mod taking;
mod task;
#[cfg(test)]
mod tests;
mod time;
mod waiting;

pub(crate) use beat::Beat;
pub(crate) use bootstrap::Identity;
pub(crate) use counts::Counts;
pub(crate) use description::{Describe, Description};
pub(crate) use driver::Engine;
pub(crate) use message::{CallId, FINALIZE};
pub(crate) use raw::Pair;
pub(crate) use setup::{Directory, Flow, Group, Liveness, ProcessState, Setup};
pub(crate) use short_log::Brief;
pub(crate) use task::{Meta, Task};
pub(crate) use waiting::Waiting;
