//! Which bytes go from which rank to which.

use crate::error::{Result, argument};
use crate::plan::allgatherv::extent;
use crate::schedule::MAX_P;
use std::collections::BTreeMap;

/// What one rank sends and receives in an alltoallv. All lists have an entry per rank, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// How much goes to each rank.
    pub sendcounts: Vec<u64>,
    /// Where that lies in the input.
    pub sdispls: Vec<u64>,
    /// How much comes from each rank.
    pub recvcounts: Vec<u64>,
    /// Where that goes in the output.
    pub rdispls: Vec<u64>,
    /// Where in each *peer's* output our block goes: the peer's `rdispls` entry for us. The ranks tell
    /// each other by an alltoall of 8 bytes before.
    pub targets: Vec<u64>,
}

/// Tells every rank its `targets`, where the rows of all ranks are at hand (proofs, simulation).
pub fn exchange_targets(rows: &mut BTreeMap<u32, Row>) {
    let all: BTreeMap<u32, Vec<u64>> = rows.iter().map(|(&rank, row)| (rank, row.rdispls.clone())).collect();
    for (&rank, row) in rows.iter_mut() {
        let at = |displs: &Vec<u64>| displs.get(rank as usize).copied().unwrap_or_default();
        row.targets = (0..).zip(&row.sendcounts).map(|(peer, _)| all.get(&peer).map_or(0, at)).collect();
    }
}

/// Which bytes go from which rank to which.
#[derive(Clone, Debug)]
pub enum Matrix {
    /// Blocks of `count` bytes, in rank order in input and output.
    Equal {
        /// The number of ranks.
        size: u32,
        /// Bytes of a block.
        count: u64,
    },
    /// Blocks of any length: the rows of all ranks, or only of those whose steps are asked for. (A rank
    /// needs no row but its own; others then have no steps.)
    Irregular {
        /// The number of ranks.
        size: u32,
        /// By rank.
        rows: BTreeMap<u32, Row>,
    },
}

/// A block: where it lies at its sender, where it goes at its receiver, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) source: u64,
    pub(super) target: u64,
    pub(super) len: u64,
}

impl Matrix {
    /// Blocks of `count` bytes among `size` ranks.
    ///
    /// # Errors
    /// If there are 0 or more than [`MAX_P`] ranks, or the blocks of a rank are beyond 2^64 bytes.
    pub(crate) fn equal(size: u32, count: u64) -> Result<Self> {
        check_size(size)?;
        if count.checked_mul(size.into()).is_none() {
            return Err(argument(format!("{size} blocks of {count} bytes are beyond 2^64 bytes")));
        }
        Ok(Self::Equal { size, count })
    }

    /// Blocks as these rows say.
    ///
    /// # Errors
    /// If a row has not one entry per rank, describes overlapping blocks in the output or any beyond 2^64
    /// bytes, or contradicts itself or another row.
    pub(crate) fn irregular(size: u32, rows: BTreeMap<u32, Row>) -> Result<Self> {
        check_size(size)?;
        for (&rank, row) in &rows {
            check_row(size, rank, row)?;
            for (&peer, other) in rows.range(..=rank) {
                let sides = [(rank, row, peer, other), (peer, other, rank, row)];
                for (from, sender, to, receiver) in sides {
                    agree((from, sender), (to, receiver))?;
                }
            }
        }
        Ok(Self::Irregular { size, rows })
    }

    /// The number of ranks.
    pub(crate) fn size(&self) -> u32 {
        match *self {
            Self::Equal { size, .. } | Self::Irregular { size, .. } => size,
        }
    }

    /// The block from one rank to another, as far as their rows are known; none if it is empty. Where
    /// only the receiver's row is known the source is not, and is given as 0: a block is a message of its
    /// own, so nothing is derived from it.
    pub(super) fn block(&self, from: u32, to: u32) -> Option<Block> {
        let block = match self {
            Self::Equal { count, .. } => {
                Block { source: u64::from(to) * count, target: u64::from(from) * count, len: *count }
            }
            Self::Irregular { rows, .. } => match (rows.get(&from), rows.get(&to)) {
                (Some(row), receiver) => {
                    let target = receiver.map_or(row.targets[to as usize], |r| r.rdispls[from as usize]);
                    Block { source: row.sdispls[to as usize], target, len: row.sendcounts[to as usize] }
                }
                (None, Some(row)) => Block {
                    source: 0,
                    target: row.rdispls[from as usize],
                    len: row.recvcounts[from as usize],
                },
                (None, None) => return None,
            },
        };
        (block.len > 0).then_some(block)
    }

    /// The lengths of a rank's input and output; 0 if its row is not known.
    pub(super) fn extents(&self, rank: u32) -> (u64, u64) {
        match self {
            Self::Equal { size, count } => (u64::from(*size) * count, u64::from(*size) * count),
            Self::Irregular { rows, .. } => rows.get(&rank).map_or((0, 0), |row| {
                let ends = |counts: &[u64], displs: &[u64]| {
                    let used = counts.iter().zip(displs).filter(|(count, _)| **count > 0);
                    used.map(|(count, displ)| count + displ).max().unwrap_or(0)
                };
                (ends(&row.sendcounts, &row.sdispls), ends(&row.recvcounts, &row.rdispls))
            }),
        }
    }
}

pub(super) fn check_size(size: u32) -> Result<()> {
    if size == 0 || size > MAX_P {
        return Err(argument(format!("alltoall among {size} ranks")));
    }
    Ok(())
}

fn check_row(size: u32, rank: u32, row: &Row) -> Result<()> {
    let lists = [&row.sendcounts, &row.sdispls, &row.recvcounts, &row.rdispls, &row.targets];
    if rank >= size || lists.iter().any(|list| list.len() != size as usize) {
        return Err(argument(format!("the counts and displacements of rank {rank} are not one per rank"))
            .help(format!("give {size} of each")));
    }
    extent(&row.recvcounts, &row.rdispls)?;
    let ends = row.sendcounts.iter().zip(row.sdispls.iter().zip(&row.targets));
    for (to, (count, (displ, target))) in ends.enumerate() {
        if displ.checked_add(*count).is_none() || target.checked_add(*count).is_none() {
            return Err(argument(format!("the block from rank {rank} to rank {to} ends beyond 2^64 bytes")));
        }
    }
    Ok(())
}

/// Checks that what one rank sends is what the other expects.
fn agree((from, sender): (u32, &Row), (to, receiver): (u32, &Row)) -> Result<()> {
    let (sent, wanted) = (sender.sendcounts[to as usize], receiver.recvcounts[from as usize]);
    if sent != wanted {
        return Err(argument(format!("rank {from} sends {sent} bytes to rank {to}, which expects {wanted}")));
    }
    if sent > 0 && sender.targets[to as usize] != receiver.rdispls[from as usize] {
        return Err(argument(format!("rank {from} does not know where its block goes at rank {to}")));
    }
    Ok(())
}
