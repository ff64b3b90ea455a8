//! Who sends which block to whom in which round: the round-optimal n-block broadcast schedules on
//! circulant graphs (Träff, "(Poly)Logarithmic Time Construction of Round-optimal n-Block Broadcast
//! Schedules", 2022), each rank's share found in O(log p) time and space.
//!
//! (legend being written)
#![forbid(unsafe_code)]

mod base;
mod check;
pub mod classic;
mod recv;
mod rounds;
mod send;
mod skips;

pub use check::{Violation, check, check_rank};
pub use rounds::{Round, Rounds, block};
pub use skips::{Circulant, Entries, MAX_P, MAX_Q};
