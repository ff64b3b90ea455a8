//! Allreduce: the reduction of all contributions at every rank.
//!
//! [`Region::Input`](super::Region::Input) is a rank's contribution (in place: it lies in `Output`),
//! [`Region::Output`](super::Region::Output) the result. The census is
//! [`Prefix::census`](super::scan::prefix::Prefix::census).

pub mod doubling;
pub mod multiplying;
pub mod scattered;

use crate::plan::node::{allreduce as nodes, levels};
use crate::plan::reduce::{linear, one_hop, tree};
use crate::plan::reduce_scatter::direct;
use crate::plan::registry::Algorithm;
use crate::plan::scan::prefix;

/// The algorithms; the first is the default, and of equally cheap ones the first is taken.
pub(in crate::plan) const ALGORITHMS: &[Algorithm] = &[
    scattered::CIRCULANT,
    prefix::CENSUS,
    doubling::LINE,
    multiplying::LINE,
    scattered::RING,
    tree::ALLREDUCE,
    nodes::LEADERS,
    nodes::LANES,
    nodes::DOUBLING,
    direct::ALLREDUCE,
    scattered::HALVING,
    levels::ALLREDUCE,
    one_hop::ALLREDUCE,
    linear::ALLREDUCE,
];
