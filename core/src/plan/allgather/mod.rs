//! Regular allgather: as [`allgatherv`](super::allgatherv), with the same number of bytes of every rank.

pub mod circulant;
pub mod runs;

use crate::error::{Result, argument};
use crate::plan::allgatherv::{bruck, hypercube, mesh, pipelined_ring, ring};
use crate::plan::registry::Algorithm;
use crate::schedule::MAX_P;

/// The algorithms; the first is the default, and of equally cheap ones the first is taken.
pub(in crate::plan) const ALGORITHMS: &[Algorithm] = &[
    circulant::LINE,
    runs::LINE,
    ring::LINE,
    pipelined_ring::LINE,
    bruck::LINE,
    mesh::LINE,
    hypercube::LINE,
];

/// Whether so many ranks can gather `count` bytes of each.
fn check(size: u32, count: u64) -> Result<()> {
    if size == 0 || size > MAX_P {
        return Err(argument(format!("allgather among {size} ranks")));
    }
    match count.checked_mul(u64::from(size)) {
        Some(_) => Ok(()),
        None => Err(argument(format!("{size} contributions of {count} bytes are beyond 2^64 bytes"))),
    }
}
