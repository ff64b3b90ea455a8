//! The alltoall on a ring (Grama et al., Introduction to Parallel Computing, section 4.5.1): every rank
//! sends all that is not for itself to the next, which takes its own and passes on the rest.
//!
//! p−1 rounds to one neighbour, of p−1, p−2, … 1 blocks: p(p−1)/2 blocks per rank and as much landing
//! memory. For comparison, and for wires that are rings.

use super::relay::{Builder, Group, Relay};
use crate::error::{Result, argument};
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{by_p, line};
use crate::plan::registry::{Algorithm, Arguments, Operation};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Alltoall,
    "ring",
    ["p up to 16384", "p-1", "sp(p-1)/2", "Grama et al., section 4.5.1"],
    by_p,
    |a, _| Ok(Box::new(alltoall(a.size, a.bytes)?)),
)
.only(|a| few(a.size))
.receives(|a| a.bytes * (u64::from(a.size) * u64::from(a.size.saturating_sub(1)) / 2))
.costs(cost);

fn cost(a: &Arguments, path: &mut Path<'_>) {
    let hops = a.others();
    path.over(&[1], hops, hops, hops * f64::from(a.size) / 2.0 * float(a.bytes));
}

/// The most ranks: a plan takes time for p²/2 blocks. Chosen: half a second.
const MAX_RANKS: u32 = 1 << 14;

fn few(size: u32) -> Result<()> {
    match size <= MAX_RANKS {
        true => Ok(()),
        false => Err(argument(format!("a ring alltoall passes each block on {} times", size / 2))
            .help("choose bruck or circulant")),
    }
}

/// Blocks of `count` bytes among `size` ranks. Takes O(p²) time.
///
/// # Errors
/// If there are 0 or more than 16384 ranks, or the blocks are beyond 2^64 bytes.
pub fn alltoall(size: u32, count: u64) -> Result<Relay> {
    few(size)?;
    let mut builder = Builder::new("ring", size, count, Group::Cyclic)?;
    for i in 1..size {
        builder.round(1, i..size, |d| d == i);
    }
    builder.build()
}
