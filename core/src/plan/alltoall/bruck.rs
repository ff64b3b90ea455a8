//! Bruck's alltoall for small blocks (Bruck, Ho, Kipnis, Upfal, Weathersby 1997, index operation, radix 2).
//!
//! Round k moves every block whose distance has bit k set by 2^k. q rounds for any p; a rank puts as many
//! blocks as the numbers 1 … p−1 have bits, at most (p/2)·q. The far hops come first: the order is free,
//! and so neighbouring blocks stay together for longer, which saves copies.

use super::relay;
use super::relay::{Builder, Group, Relay};
use crate::error::Result;
use crate::plan::registry::cost::{Path, float, powers};
use crate::plan::registry::line::{by_q, line};
use crate::plan::registry::{Algorithm, Arguments, Operation};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Alltoall,
    "bruck",
    ["any p", "q", "s times the bits of 1..p-1, at most (p/2)q", "Bruck et al. 1997"],
    by_q,
    |a, _| Ok(Box::new(alltoall(a.size, a.bytes)?)),
)
.receives(|a| a.bytes * (1..u64::from(a.size)).map(|d| u64::from(d.count_ones())).sum::<u64>())
.costs(cost);

/// In round k as many blocks as numbers below p have bit k.
pub(super) fn cost(a: &Arguments, path: &mut Path<'_>) {
    let with_bit = |d: u32| {
        let (whole, rest) = (u64::from(a.size) / (2 * u64::from(d)), a.size % (2 * d).max(1));
        float(whole * u64::from(d) + u64::from(rest.saturating_sub(d)))
    };
    relay::cost(a, powers(a.size).into_iter().map(|d| (d, with_bit(d))), path);
}

/// Blocks of `count` bytes among `size` ranks.
///
/// # Errors
/// If there are 0 or too many ranks, or the blocks are beyond 2^64 bytes.
pub fn alltoall(size: u32, count: u64) -> Result<Relay> {
    by_bits("bruck", size, count, Group::Cyclic)
}

/// One round per bit of the label, the highest first.
pub(super) fn by_bits(name: &'static str, size: u32, count: u64, group: Group) -> Result<Relay> {
    let mut builder = Builder::new(name, size, count, group)?;
    for k in (0..size.next_power_of_two().ilog2()).rev() {
        builder.round(1 << k, (0..size).filter(|d| d >> k & 1 == 1), |d| d.trailing_zeros() == k);
    }
    builder.build()
}
