//! The alltoall on a hypercube (Grama et al., Introduction to Parallel Computing, section 4.5.3): in each
//! dimension a rank exchanges half of all blocks with its neighbour.
//!
//! log p rounds of p/2 blocks; p a power of two: (t_s + t_w·m·p/2)·log p. The dimensions come in
//! descending order, which keeps neighbouring blocks together for longer.

use super::bruck::by_digits;
use super::pairwise::power_of_two;
use super::relay;
use super::relay::{Group, Relay};
use crate::error::Result;
use crate::plan::registry::cost::{Path, powers};
use crate::plan::registry::line::{by_q, line, power_of_two as powers_only, q};
use crate::plan::registry::{Algorithm, Arguments, Operation};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Alltoall,
    "hypercube",
    ["p a power of two", "q", "s(p/2)q", "Grama et al., section 4.5.3"],
    by_q,
    |a, _| Ok(Box::new(alltoall(a.size, a.bytes)?)),
)
.only(powers_only)
.receives(|a| a.bytes * (u64::from(a.size) / 2 * u64::from(q(a.size))))
.costs(cost);

/// In each of q rounds half of all blocks.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    relay::cost(a, powers(a.size).into_iter().map(|d| (d, f64::from(a.size) / 2.0)), path);
}

/// Blocks of `count` bytes among `size` ranks.
///
/// # Errors
/// If `size` is not a power of two, or too large, or the blocks are beyond 2^64 bytes.
pub(crate) fn alltoall(size: u32, count: u64) -> Result<Relay> {
    power_of_two("hypercube", size)?;
    by_digits("hypercube", size, count, Group::Xor, 1)
}
