//! Runs any plan on any transport: data-driven, never in lock-step, every wait under a deadline.
//!
//! A rank that enters an operation sends a *ready message* (ready to receive) to each rank that will put to it; it carries the
//! slot, the target addresses and a hash of the arguments. From then on only data dependencies count: an arrival increments a
//! counter, a counter that reaches its threshold makes steps ready, and any ready step may be posted as soon as its
//! target is ready and the window on unacknowledged bytes allows; the lowest round goes first. Short puts go eagerly, as
//! messages, before the target is ready (`eager.rs`).
//!
//! Any error is final for the world: it is propagated along the neighbours with the culprit's rank, the
//! endpoint is closed (so that no peer can access borrowed memory any more), and every later call fails. Where the setting
//! `on-failure` says so, one error is not: that a rank is gone (`survivors.rs`).
//!
//! | file | what it holds |
//! |---|---|
//! | `setup.rs` | what the owner gives to the engine |
//! | `message.rs`, `status.rs` | the wire format |
//! | `task.rs`, `ready_ops.rs`, `pace.rs`, `combine_on_arrival.rs` | one operation in flight |
//! | `active.rs`, `credits.rs`, `history.rs`, `unexpected.rs`, `short_log.rs`, `description.rs`, `locations.rs`, `counts.rs`, `time.rs`, `recorder.rs`, `latencies.rs` | parts of the state |
//! | `core.rs`, `delivery.rs`, `mismatch.rs` | the protocol state, and what arrivals do to it: no clock, no transport |
//! | `driver.rs`, `waiting.rs`, `warning.rs`, `failure.rs`, `connections.rs`, `flight_record.rs` | transport, clock, waits, errors |
//! | `survivors.rs`, `gone.rs`, `agreement.rs` | ranks that are gone while the others go on, and what these agree on |
//! | `posting.rs`, `flow.rs`, `eager.rs` | which put goes next, and how |
//! | `operations.rs`, `short.rs`, `bootstrap.rs`, `closing.rs`, `raw.rs` | what callers start |

mod active;
mod agreement;
mod bootstrap;
mod closing;
mod combine_on_arrival;
mod connections;
mod core;
mod counts;
mod credits;
mod delivery;
mod description;
mod driver;
mod eager;
mod failure;
mod flight_record;
mod flow;
mod gone;
mod heartbeat;
mod history;
mod latencies;
mod locations;
pub(crate) mod message;
mod mismatch;
mod operations;
mod pace;
mod posting;
mod raw;
mod ready_ops;
mod recorder;
mod setup;
mod short;
mod short_log;
mod status;
mod survivors;
mod task;
#[cfg(test)]
mod tests;
mod time;
mod unexpected;
mod waiting;
mod warning;

pub(crate) use agreement::Agreed;
pub(crate) use bootstrap::Identity;
pub(crate) use counts::Counts;
pub(crate) use description::{Describe, Description, differences};
pub(crate) use driver::Engine;
pub(crate) use gone::AgreementId;
pub(crate) use heartbeat::Heartbeat;
pub(crate) use latencies::Measured;
pub(crate) use message::{CallId, FINALIZE};
pub(crate) use raw::Pair;
pub(crate) use setup::{Directory, Flow, Group, Keeper, Liveness, ProcessState, Setup};
pub(crate) use short_log::ShortArguments;
pub(crate) use task::{Meta, Task};
pub(crate) use waiting::{Waiting, longest_nap};
