//! The alltoall on circulant skips, for small blocks: the reduce-scatter pattern of Träff (2024, arXiv
//! 2410.14234) with collecting in the place of adding.
//!
//! Slot i of a rank holds what is for the rank i further on. In rounds k = q−1 … 0 it puts slots skips\[k\] ..
//! skips\[k+1\] to the rank skips\[k\] further on, where they join slots 0 … . So a block's distance is cut by
//! the greedy sum of skips. q rounds for any p; at most (p/2)·q blocks per rank, and never more than by
//! [`bruck`](super::bruck): up to a tenth less just above powers of two.

use super::relay::{Builder, Group, Relay};
use crate::error::Result;
use crate::schedule::Circulant;

/// Blocks of `count` bytes among `size` ranks.
///
/// # Errors
/// If there are 0 or too many ranks, or the blocks are beyond 2^64 bytes.
pub fn alltoall(size: u32, count: u64) -> Result<Relay> {
    let mut builder = Builder::new("circulant", size, count, Group::Cyclic)?;
    let graph = Circulant::new(size);
    // By label: its slot.
    let mut slots: Vec<u32> = (0..size).collect();
    for k in (0..graph.q()).rev() {
        let skip = graph.skip(k);
        builder.round(skip, (0..size).filter(|&d| slots[d as usize] >= skip), |d| slots[d as usize] == skip);
        slots.iter_mut().filter(|slot| **slot >= skip).for_each(|slot| *slot -= skip);
    }
    builder.build()
}
