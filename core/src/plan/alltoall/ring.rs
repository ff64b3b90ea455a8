//! The alltoall on a ring (Grama et al., Introduction to Parallel Computing, section 4.5.1): every rank
//! sends all that is not for itself to the next, which takes its own and passes on the rest.
//!
//! p−1 rounds to one neighbour, of p−1, p−2, … 1 blocks: p(p−1)/2 blocks per rank and as much landing
//! memory. For comparison, and for wires that are rings.

use super::relay::{Builder, Group, Relay};
use crate::error::Result;

/// Blocks of `count` bytes among `size` ranks. Takes O(p²) time.
///
/// # Errors
/// If there are 0 or too many ranks, or the blocks are beyond 2^64 bytes.
pub fn alltoall(size: u32, count: u64) -> Result<Relay> {
    let mut builder = Builder::new("ring", size, count, Group::Cyclic)?;
    for i in 1..size {
        builder.round(1, i..size, |d| d == i);
    }
    builder.build()
}
