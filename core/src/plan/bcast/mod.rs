//! Broadcast: the root's bytes at every rank.
//!
//! [`Region::Output`](super::Region::Output) is the buffer at every rank, the source at the root.

pub mod binomial;
pub mod chain;
pub mod circulant;
pub mod hypercube;
pub mod linear;
pub mod mesh;
pub mod round_robin;
pub mod scatter_allgather;
pub mod tree;
pub mod two_tree;

use crate::error::{Result, argument};
use crate::plan::MAX_COUNTERS;
use crate::plan::registry::Algorithm;
use crate::schedule::MAX_P;

/// The algorithms; the first is the default, and of equally cheap ones the first is taken.
pub(in crate::plan) const ALGORITHMS: &[Algorithm] = &[
    circulant::LINE,
    binomial::LINE,
    scatter_allgather::LINE,
    chain::LINE,
    round_robin::LINE,
    mesh::LINE,
    hypercube::LINE,
    linear::LINE,
    two_tree::LINE,
];

/// Checks what every broadcast asks for.
fn check(size: u32, root: u32) -> Result<()> {
    if size == 0 || size > MAX_P {
        return Err(argument(format!("bcast among {size} ranks")));
    }
    if root >= size {
        return Err(argument(format!("root {root} is not one of the {size} ranks")));
    }
    Ok(())
}

/// Checks a number of blocks.
fn check_blocks(blocks: u32) -> Result<()> {
    if blocks == 0 || blocks > MAX_COUNTERS {
        return Err(argument(format!("bcast in {blocks} blocks"))
            .help(format!("the number of blocks must be 1 to {MAX_COUNTERS}")));
    }
    Ok(())
}

/// A rank's distance from the root: (rank − root) mod p.
const fn relative(rank: u32, root: u32, size: u32) -> u32 {
    if rank >= root { rank - root } else { rank + size - root }
}

/// The rank at a distance < p from the root.
const fn absolute(relative: u32, root: u32, size: u32) -> u32 {
    // Both are below 2^31.
    let rank = relative + root;
    if rank >= size { rank - size } else { rank }
}
