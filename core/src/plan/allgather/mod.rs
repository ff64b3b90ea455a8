//! Regular allgather: as [`super::allgatherv`], with the same number of bytes of every rank.

mod check;
pub mod circulant;
pub mod runs;

use crate::plan::allgatherv::{self, bine, bruck, direct, hypercube, linear, mesh, pipelined_ring, ring};
use crate::plan::node::{allgather as nodes, levels};
use crate::plan::registry::Algorithm;

/// The algorithms; the first is the default, and of equally cheap ones the first is taken.
pub(in crate::plan) const ALGORITHMS: &[Algorithm] = &[
    circulant::LINE,
    allgatherv::circulant::LINE,
    ring::LINE,
    pipelined_ring::LINE,
    bruck::LINE,
    mesh::LINE,
    hypercube::LINE,
    nodes::LEADERS,
    nodes::LANES,
    direct::LINE,
    bine::LINE,
    levels::ALLGATHER,
    linear::LINE,
];
