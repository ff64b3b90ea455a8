//! How a line is written: what every line has, and then what it is restricted to, costs, receives and folds like. It stands
//! in the algorithm's own file.

use super::algorithm::{Algorithm, Build, Messages};
use super::arguments::Arguments;
use super::cost::Formula;
use super::operation::Operation;
use super::order::Order;
use crate::error::{Result, argument};
use crate::machine::Machine;
pub(in crate::plan) use crate::plan::topology::log2_ceil as q;
use crate::plan::topology::{dimension, sides};

/// q rounds.
pub(in crate::plan) fn by_q(a: &Arguments, _: u32) -> u32 {
    q(a.size)
}

/// 2q rounds.
pub(in crate::plan) fn by_2q(a: &Arguments, _: u32) -> u32 {
    2 * q(a.size)
}

/// p−1 rounds.
pub(in crate::plan) fn by_p(a: &Arguments, _: u32) -> u32 {
    a.size.saturating_sub(1)
}

/// n−1+q rounds.
pub(in crate::plan) fn by_blocks(a: &Arguments, n: u32) -> u32 {
    if a.size <= 1 { 0 } else { n - 1 + q(a.size) }
}

/// A put for each block.
fn one(_: &Arguments) -> u32 {
    1
}

/// A put for each rank's.
pub(in crate::plan) fn of_all(a: &Arguments) -> u32 {
    a.size
}

/// Fits always.
pub(in crate::plan) fn any(_: &Arguments) -> Result<()> {
    Ok(())
}

/// Fits 2^d ranks.
pub(in crate::plan) fn power_of_two(a: &Arguments) -> Result<()> {
    dimension(a.size).map(|_| ())
}

/// Fits a·b ranks, a, b > 1.
pub(in crate::plan) fn composite(a: &Arguments) -> Result<()> {
    sides(a.size).map(|_| ())
}

/// Fits operators that commute.
pub(in crate::plan) fn commutative(a: &Arguments) -> Result<()> {
    if a.commutative {
        return Ok(());
    }
    Err(argument("the operator does not commute")
        .help("choose `ordered`, or declare the operator commutative"))
}

/// Fits 2^d ranks, and operators that commute.
pub(in crate::plan) fn power_of_two_commutative(a: &Arguments) -> Result<()> {
    commutative(a).and_then(|()| power_of_two(a))
}

/// A line without machine-checked restrictions, priced by its rounds and its volume. The texts are
/// [`Algorithm::restrictions`], [`Algorithm::rounds`], [`Algorithm::volume`] and [`Algorithm::source`].
pub(in crate::plan) const fn line(
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
        received: None,
        order: None,
        all_pairs: false,
        puts_per_block: one,
        messages: None,
    }
}

impl Algorithm {
    /// The same line, only for what fits.
    pub(in crate::plan) const fn only(self, fits: fn(&Arguments) -> Result<()>) -> Self {
        Self { fits, ..self }
    }

    /// The same line, only for operators that commute.
    pub(in crate::plan) const fn commutative(self) -> Self {
        self.only(commutative)
    }

    /// The same line with this formula.
    pub(in crate::plan) const fn costs(self, formula: Formula) -> Self {
        Self { cost: Some(formula), ..self }
    }

    /// The same line, in which the rank that receives most receives this many bytes.
    pub(in crate::plan) const fn receives(self, received: fn(&Arguments) -> u64) -> Self {
        Self { received: Some(received), ..self }
    }

    /// The same line, in which every rank has all others for peers.
    pub(in crate::plan) const fn meets_all(self) -> Self {
        Self { all_pairs: true, ..self }
    }

    /// The same line, in which a rank has this many puts for each block.
    pub(in crate::plan) const fn puts_blocks(self, puts_per_block: fn(&Arguments) -> u32) -> Self {
        Self { puts_per_block, ..self }
    }

    /// The same line, whose number of blocks is that of the messages of a rank in a hop: by default the `cheapest`, in `fewest_hops` hops or more.
    pub(in crate::plan) const fn in_messages(
        self,
        fewest_hops: u32,
        cheapest: fn(&Arguments, &Machine) -> u32,
    ) -> Self {
        Self { messages: Some(Messages { fewest_hops, cheapest }), ..self }
    }

    /// The same line, which folds in this order.
    pub(in crate::plan) const fn ordered(self, order: Order) -> Self {
        Self { order: Some(order), ..self }
    }
}
