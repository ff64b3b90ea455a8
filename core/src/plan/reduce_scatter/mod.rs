//! Reduce-scatter: every rank gets its piece of the reduction, at the start of its output.
//!
//! [`Region::Input`](super::Region::Input) is a rank's whole contribution, the pieces of all ranks one
//! after another (in place: it lies in `Output`). Pieces may be equal (reduce_scatter_block), or have a
//! length each (reduce_scatter).

pub mod core;
pub mod direct;
pub mod plain;
pub(crate) mod reversed;

use crate::plan::node::{levels, reduce_scatter as nodes};
use crate::plan::reduce::{linear, tree};
use crate::plan::registry::Algorithm;

/// The algorithms; the first of an operation is its default, and of equally cheap ones the first is taken.
pub(in crate::plan) const ALGORITHMS: &[Algorithm] = &[
    plain::CIRCULANT,
    plain::RING,
    tree::REDUCE_SCATTER,
    reversed::LINE,
    nodes::LANES,
    direct::REDUCE_SCATTER,
    plain::BINE,
    levels::REDUCE_SCATTER,
    linear::REDUCE_SCATTER,
    plain::BLOCK_CIRCULANT,
    plain::BLOCK_RING,
    tree::REDUCE_SCATTER_BLOCK,
    nodes::BLOCK_LANES,
    direct::REDUCE_SCATTER_BLOCK,
    plain::BLOCK_BINE,
    levels::REDUCE_SCATTER_BLOCK,
    linear::REDUCE_SCATTER_BLOCK,
];
