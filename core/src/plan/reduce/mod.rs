//! Reduce: the reduction of all contributions at the root.
//!
//! [`Region::Input`](super::Region::Input) is a rank's contribution (in place: the root's lies in
//! `Output`), [`Region::Output`](super::Region::Output) the root's result; others have none.

pub mod circulant;
pub mod gathered;
pub mod linear;
pub mod one_hop;
pub mod tree;

use crate::plan::node::{levels, reduce as nodes};
use crate::plan::reduce_scatter::direct;
use crate::plan::registry::Algorithm;

/// The algorithms; the first is the default, and of equally cheap ones the first is taken.
pub(in crate::plan) const ALGORITHMS: &[Algorithm] = &[
    circulant::LINE,
    tree::BINOMIAL,
    gathered::LINE,
    tree::ORDERED,
    nodes::LEADERS,
    nodes::LANES,
    direct::REDUCE,
    tree::BINE,
    gathered::BINE,
    levels::REDUCE,
    one_hop::REDUCE,
];
