//! Bruck's alltoall for blocks of middle size (Bruck, Ho, Kipnis, Upfal, Weathersby 1997, index operation) with the radix r = ⌈√p⌉: a
//! block's distance has two digits, and each is one hop.
//!
//! First the far hops: blocks for the ranks b·r … b·r + r − 1 further on go b·r ranks on, in one message, for every b; then for every a < r
//! all those a ranks on that are for the rank a further on. r + ⌈p/r⌉ − 2 rounds, of which those of a hop wait for nothing of each other;
//! each block is put at most twice, so less than 2p of them in all, where radix 2 puts (p/2)·q, and lands as many. For fewer
//! peers than [`direct`](super::direct) has, and fewer bytes than [`bruck`](super::bruck).

use super::relay::{Builder, Group, Relay};
use crate::error::Result;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Operation};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Alltoall,
    "two_hop",
    [
        "any p",
        "r+ceil(p/r)-2, r = ceil(sqrt p)",
        "s times the digits to base r of 1..p-1, < 2p",
        "Bruck et al. 1997",
    ],
    |a, _| (radix(a.size) + a.size.div_ceil(radix(a.size))).saturating_sub(2),
    |a, _| Ok(Box::new(alltoall(a.size, a.bytes)?)),
)
.receives(|a| a.bytes * (far(a.size) + near(a.size)))
.costs(cost);

/// ⌈√p⌉.
fn radix(size: u32) -> u32 {
    let root = size.isqrt();
    (root + u32::from(root * root < size)).max(1)
}

/// Blocks that a rank puts in the far hops, and in the near ones.
fn far(size: u32) -> u64 {
    u64::from(size.saturating_sub(radix(size)))
}

fn near(size: u32) -> u64 {
    u64::from(size - size.div_ceil(radix(size)))
}

/// Two hops, of messages that leave at once; packing for the second and unpacking.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    // Over links that a node's ranks share it is not priced well enough to be chosen.
    path.for_readers();
    let r = radix(a.size);
    let far_hops: Vec<u32> = (1..a.size.div_ceil(r)).map(|b| b * r).collect();
    let near_hops: Vec<u32> = (1..r.min(a.size)).collect();
    for (distances, blocks) in [(far_hops, far(a.size)), (near_hops, near(a.size))] {
        let puts = float(distances.len() as u64);
        if puts > 0.0 {
            path.over(&distances, 1.0, puts, float(blocks) * float(a.bytes));
        }
    }
    if a.size > 2 {
        path.copy(2.0 * f64::from(a.size) * float(a.bytes));
    }
}

/// Blocks of `count` bytes among `size` ranks.
///
/// # Errors
/// If there are 0 or too many ranks, or the blocks are beyond 2^64 bytes.
pub fn alltoall(size: u32, count: u64) -> Result<Relay> {
    let mut builder = Builder::new("two_hop", size, count, Group::Cyclic)?;
    let r = radix(size);
    for first in (r..size).step_by(r as usize) {
        builder.round(first, first..size.min(first.saturating_add(r)), |d| d == first);
    }
    for a in 1..r.min(size) {
        builder.round(a, (a..size).step_by(r as usize), |_| true);
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    /// Less than two blocks land for each of a rank's, and less than one and a half are packed.
    #[test]
    fn scratch_is_bounded_by_the_data() {
        for p in (1..300).chain([1000, 1024, 1025]) {
            let sizes = alltoall(p, 8).unwrap().sizes(0);
            assert!(sizes.land <= 2 * sizes.input, "{p} ranks: {sizes:?}");
            assert!(2 * sizes.work <= 3 * sizes.input, "{p} ranks: {sizes:?}");
        }
    }
}
