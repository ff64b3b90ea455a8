//! How a line is written: what every line has, and then what it is restricted to, costs and folds like.

use super::cost::Formula;
use super::{Algorithm, Arguments, Build, Operation, Order, any};
use crate::error::Result;

/// A line without machine-checked restrictions, priced by its rounds and its volume. The texts are
/// [`Algorithm::restrictions`], [`Algorithm::rounds`], [`Algorithm::volume`] and [`Algorithm::source`].
pub(super) const fn line(
    operation: Operation,
    name: &'static str,
    [restrictions, rounds, volume, source]: [&'static str; 4],
    rounds_of: fn(&Arguments, u32) -> u32,
    build: Build,
) -> Algorithm {
    Algorithm {
        operation,
        name,
        restrictions,
        rounds,
        volume,
        source,
        fits: any,
        rounds_of,
        build,
        cost: None,
        order: None,
    }
}

impl Algorithm {
    /// The same line, only for what fits.
    pub(super) const fn only(self, fits: fn(&Arguments) -> Result<()>) -> Self {
        Self { fits, ..self }
    }

    /// The same line with this formula.
    pub(super) const fn costs(self, formula: Formula) -> Self {
        Self { cost: Some(formula), ..self }
    }

    /// The same line, which folds in this order.
    pub(super) const fn ordered(self, order: Order) -> Self {
        Self { order: Some(order), ..self }
    }
}
