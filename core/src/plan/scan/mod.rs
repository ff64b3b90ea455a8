//! Scans: rank r gets the reduction of ranks 0..=r (scan), or of those before r (exscan), in their order.
//!
//! [`Region::Input`](super::Region::Input) is a rank's contribution,
//! [`Region::Output`](super::Region::Output) the result; exscan leaves rank 0's alone.

pub(crate) mod hypercube;
pub mod pipeline;
pub mod prefix;

use crate::plan::node::scan as nodes;
use crate::plan::reduce::{linear, one_hop};
use crate::plan::registry::Algorithm;

/// The algorithms; the first of an operation is its default, and of equally cheap ones the first is taken.
pub(in crate::plan) const ALGORITHMS: &[Algorithm] = &[
    prefix::DOUBLING,
    pipeline::SCAN,
    hypercube::SCAN,
    nodes::SCAN,
    one_hop::SCAN,
    linear::SCAN,
    prefix::CIRCULANT,
    prefix::ONE_TWO_THREE,
    pipeline::EXSCAN,
    hypercube::EXSCAN,
    nodes::EXSCAN,
    one_hop::EXSCAN,
    linear::EXSCAN,
];
