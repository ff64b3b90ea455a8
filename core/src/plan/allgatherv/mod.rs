//! Irregular allgather: every rank's contribution, each of its own length, at every rank.
//!
//! [`Region::Input`](super::Region::Input) is a rank's contribution (in place: it lies in `Output`
//! already), [`Region::Output`](super::Region::Output) is where all contributions go, each at its
//! owner's displacement, the same at every rank.

pub(crate) mod bine;
pub(crate) mod bruck;
pub mod circulant;
mod contributions;
pub(crate) mod direct;
pub(crate) mod hypercube;
pub(crate) mod linear;
pub(crate) mod mesh;
pub mod pipelined_ring;
pub(crate) mod ring;
pub mod window;

use crate::plan::node::{allgather as nodes, levels};
use crate::plan::registry::Algorithm;
pub use contributions::{Blocks, Contributions, extent};

/// The algorithms; the first is the default, and of equally cheap ones the first is taken.
pub(in crate::plan) const ALGORITHMS: &[Algorithm] = &[
    circulant::IRREGULAR,
    ring::IRREGULAR,
    pipelined_ring::IRREGULAR,
    bruck::IRREGULAR,
    mesh::IRREGULAR,
    hypercube::IRREGULAR,
    nodes::LEADERS_IRREGULAR,
    nodes::LANES_IRREGULAR,
    direct::IRREGULAR,
    bine::IRREGULAR,
    levels::ALLGATHERV,
    linear::IRREGULAR,
];
