//! Broadcast: the root's bytes at every rank.
//!
//! [`Region::Output`](super::Region::Output) is the buffer at every rank, the source at the root.

pub(crate) mod bine;
pub mod binomial;
pub mod chain;
pub mod circulant;
pub(crate) mod hypercube;
pub(crate) mod linear;
pub(crate) mod mesh;
mod rooted;
pub mod round_robin;
pub mod scatter_allgather;
pub mod tree;
pub(crate) mod two_tree;
pub(crate) mod wide_trees;

use crate::plan::node::{bcast as nodes, levels};
use crate::plan::registry::Algorithm;

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
    wide_trees::LINE,
    nodes::LEADERS,
    nodes::LANES,
    bine::LINE,
    levels::BCAST,
];
