//! Alltoall: a block from every rank to every rank, all of the same length or (alltoallv) each of its own.
//!
//! [`Region::Input`](super::Region::Input) holds the blocks that a rank sends and
//! [`Region::Output`](super::Region::Output) those that it gets, in the order of the other ranks.
//!
//! Blocks move in one of two ways. [`exchange`]: each by one put, right to where it belongs
//! ([`direct`], `pairwise`, along a graph [`neighbors`]): p−1 rounds and no byte more than needed. [`relay`]: collected and
//! forwarded ([`circulant`], [`bruck`], `hypercube`, `mesh`, [`ring`]): fewer and longer messages, more
//! bytes, copies. Direct is better when (p−1−q)·α < β·s·(V−(p−1)) for blocks of s bytes and V blocks put per
//! rank by the other.

pub mod bruck;
pub mod circulant;
pub mod direct;
pub mod exchange;
pub mod graph;
pub(crate) mod hypercube;
mod matrix;
pub(crate) mod mesh;
pub mod neighbors;
pub(crate) mod pairwise;
pub mod relay;
pub mod ring;

use crate::plan::node;
use crate::plan::registry::Algorithm;
pub use matrix::{Matrix, Row, exchange_targets};

/// The algorithms; the first is the default, and of equally cheap ones the first is taken.
pub(in crate::plan) const ALGORITHMS: &[Algorithm] = &[
    direct::LINE,
    pairwise::LINE,
    circulant::LINE,
    bruck::LINE,
    hypercube::LINE,
    mesh::LINE,
    ring::LINE,
    node::alltoall::LINE,
    direct::IRREGULAR,
    pairwise::IRREGULAR,
    neighbors::IRREGULAR,
];
