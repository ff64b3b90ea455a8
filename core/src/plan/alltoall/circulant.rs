//! The alltoall on circulant skips, for small blocks: the reduce-scatter pattern of Träff (2024, arXiv
//! 2410.14234) with collecting in the place of adding.
//!
//! Slot i of a rank holds what is for the rank i further on. In rounds k = q−1 … 0 it puts slots skips\[k\] ..
//! skips\[k+1\] to the rank skips\[k\] further on, where they join slots 0 … . So a block's distance is cut by
//! the greedy sum of skips. q rounds for any p; at most (p/2)·q blocks per rank, and never more than by
//! [`bruck`](super::bruck): up to a tenth less just above powers of two.

use super::relay;
use super::relay::{Builder, Group, Relay};
use crate::error::Result;
use crate::plan::registry::cost::Path;
use crate::plan::registry::line::{by_q, line};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::schedule::Circulant;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Alltoall,
    "circulant",
    ["any p", "q", "s times the hops of 1..p-1, at most (p/2)q", "Träff 2024, arXiv 2410.14234"],
    by_q,
    |a, _| Ok(Box::new(alltoall(a.size, a.bytes)?)),
)
.receives(|a| a.bytes * alltoall(a.size, a.bytes).map_or(0, |plan| plan.blocks()))
.costs(cost);

/// In round k as many blocks as have skip k in the greedy sum of their distance.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    let graph = Circulant::new(a.size.max(1));
    // Slots by how many blocks they hold: (end, blocks each), ascending. Folding cuts them at the skip.
    let mut slots = vec![(a.size.max(1), 1.0)];
    let mut rounds = Vec::new();
    for k in (0..graph.q()).rev() {
        let skip = graph.skip(k);
        let (mut low, mut high, mut begin) = (Vec::new(), Vec::new(), 0);
        for &(end, each) in &slots {
            if begin < skip {
                low.push((end.min(skip), each));
            }
            if end > skip {
                high.push((end - skip, each));
            }
            begin = end;
        }
        let mut begin = 0;
        let mut blocks = 0.0;
        for &(end, each) in &high {
            blocks += f64::from(end - begin) * each;
            begin = end;
        }
        rounds.push((skip, blocks));
        slots = merged(&low, &high);
    }
    relay::cost(a, rounds.into_iter(), path);
}

/// The sum of two step functions.
fn merged(low: &[(u32, f64)], high: &[(u32, f64)]) -> Vec<(u32, f64)> {
    let mut ends: Vec<u32> = low.iter().chain(high).map(|step| step.0).collect();
    ends.sort_unstable();
    ends.dedup();
    let at = |steps: &[(u32, f64)], end| steps.iter().find(|step| step.0 >= end).map_or(0.0, |step| step.1);
    ends.into_iter().map(|end| (end, at(low, end) + at(high, end))).collect()
}

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
