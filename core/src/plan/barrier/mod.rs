//! Barrier: no rank leaves before all ranks have entered.

pub mod dissemination;
pub mod linear;
pub mod n_way;

use crate::plan::node;
use crate::plan::registry::Algorithm;

/// The algorithms; the first is the default, and of equally cheap ones the first is taken.
pub(in crate::plan) const ALGORITHMS: &[Algorithm] =
    &[dissemination::LINE, node::barrier::LINE, n_way::LINE, linear::LINE];
