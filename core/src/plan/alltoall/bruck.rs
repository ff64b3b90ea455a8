//! Bruck's alltoall for small blocks (Bruck, Ho, Kipnis, Upfal, Weathersby 1997, index operation, radix 2).
//!
//! Round k moves every block whose distance has bit k set by 2^k. q rounds for any p; a rank puts as many
//! blocks as the numbers 1 … p−1 have bits, at most (p/2)·q. The far hops come first: the order is free,
//! and so neighbouring blocks stay together for longer, which saves copies.

use super::relay::{Builder, Group, Relay};
use crate::error::Result;

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
