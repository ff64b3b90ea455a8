//! Gather: every rank's block at the root, all of the same length or (gatherv) each of its own.
//!
//! [`Region::Input`] is a rank's block (in place: the root's lies in its `Output` already);
//! [`Region::Output`] is the root's buffer, nothing elsewhere.
//!
//! [`Region::Input`]: super::Region::Input
//! [`Region::Output`]: super::Region::Output

pub(in crate::plan) mod plan;

use crate::plan::registry::Algorithm;
use crate::plan::tree::{bine, binomial, size_aware, star};
pub use plan::Gather;

/// The algorithms, each in the file of its tree; the first of an operation is its default, and of equally cheap ones the first is
/// taken.
pub(in crate::plan) const ALGORITHMS: &[Algorithm] = &[
    binomial::GATHER,
    star::GATHER,
    bine::GATHER,
    size_aware::GATHERV,
    binomial::GATHERV,
    star::GATHERV,
    bine::GATHERV,
];
