//! The line of the reduce-scatter for pieces of very unequal length.

use super::cost::folds;
use super::line::line;
use super::reductions::commutes;
use super::{Algorithm, Operation, by_blocks, order};
use crate::plan::allgatherv::circulant::Blocks;
use crate::plan::reduce_scatter::reversed::Reversed;
use crate::plan::rules;

const NAME: &str = "reversed";

/// All of them.
pub(super) const LINES: &[Algorithm] = &[line(
    Operation::ReduceScatter,
    NAME,
    ["any p; commutative", "n-1+q", "<= (n-1+q) * sum of ceil(m_j/n)", "Träff 2022, Algorithm 9 reversed"],
    by_blocks,
    |a, model| {
        commutes(a, NAME)?;
        let blocks = a.blocks.map_or_else(|| rules::allgatherv_blocks(&a.counts, model), Blocks::Equal);
        Ok(Box::new(Reversed::new(&a.counts, a.element, &blocks, a.in_place)?))
    },
)
.only(|a| commutes(a, NAME))
.receives(|a| Reversed::most(&a.counts, a.element, a.blocks.unwrap_or(1)))
.costs(folds::scatter_reversed)
.ordered(order::PIECEWISE_BLOCKS)];
