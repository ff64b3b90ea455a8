//! Scatter: the root's blocks, one to every rank, all of the same length or (scatterv) each of its own.
//!
//! [`Region::Input`] is the root's buffer, nothing elsewhere; [`Region::Output`] is where a rank's block
//! goes (in place: the root's own stays where it is).
//!
//! [`Region::Input`]: super::Region::Input
//! [`Region::Output`]: super::Region::Output

pub(in crate::plan) mod plan;

use crate::plan::node::scatter as nodes;
use crate::plan::registry::Algorithm;
use crate::plan::tree::{bine, binomial, size_aware, star};
pub use plan::Scatter;

/// The algorithms, each in the file of its tree; the first of an operation is its default, and of equally cheap ones the first is
/// taken.
pub(in crate::plan) const ALGORITHMS: &[Algorithm] = &[
    binomial::SCATTER,
    star::SCATTER,
    nodes::DIRECT,
    nodes::BINOMIAL,
    bine::SCATTER,
    size_aware::SCATTERV,
    binomial::SCATTERV,
    star::SCATTERV,
    nodes::DIRECT_IRREGULAR,
    nodes::SIZE_AWARE_IRREGULAR,
    bine::SCATTERV,
];
