//! The pairwise alltoall: in round i = 1 … p−1 ranks r and r⊕i exchange their blocks (Grama et al.,
//! Introduction to Parallel Computing, section 4.5.3, "An Optimal Algorithm": free of congestion on a hypercube).
//!
//! p−1 rounds and p−1 blocks, the least possible volume; p a power of two, any counts. Both directions
//! of a link between two ranks are busy in the same round.

use super::direct;
use super::exchange::{Exchange, Order, complete};
use super::matrix::{Matrix, Row};
use crate::error::{Result, argument};
use crate::machine::{Groups, Machine};
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{by_p, line, power_of_two as powers_only};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use std::collections::BTreeMap;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Alltoall,
    "pairwise",
    ["p a power of two", "p-1", "(p-1)s", "Grama et al., section 4.5.3, optimal"],
    by_p,
    |a, _| Ok(Box::new(alltoall(a.size, a.bytes)?)),
)
.only(powers_only)
.costs(cost)
.meets_all();

pub(in crate::plan) const IRREGULAR: Algorithm = line(
    Operation::Alltoallv,
    "pairwise",
    ["p a power of two", "p-1", "m_r", "Grama et al., section 4.5.3, optimal"],
    by_p,
    |a, _| {
        complete(a)?;
        Ok(Box::new(alltoallv(a.size, a.rows.clone().into())?))
    },
)
.only(|a| complete(a).and_then(|()| powers_only(a)))
.costs(direct::irregular_cost)
.meets_all();

/// Two ranks at a time have each other's links to themselves. Where a group of nodes has a power of two of ranks, these meet each other first, and then all at once
/// those of other groups. The links between groups, which take the longest, are idle until then.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    let machine = *path.machine();
    let group = machine.group_ranks();
    if !group.is_power_of_two() || group >= a.size {
        return direct::cost(a, 1.0, path);
    }
    let blocks = |others: u32| (f64::from(others), f64::from(others) * float(a.bytes));
    let (puts, bytes) = blocks(group - 1);
    path.on(&Machine { groups: Groups::NONE, ..machine }, group, |path| path.with_all(0.0, puts, bytes));
    let (puts, bytes) = blocks(a.size - group);
    path.over(&[group], 1.0, puts, bytes);
}

/// Blocks of `count` bytes among `size` ranks.
///
/// # Errors
/// Those of [`Matrix::equal`]; if `size` is not a power of two.
pub(crate) fn alltoall(size: u32, count: u64) -> Result<Exchange> {
    power_of_two("pairwise", size)?;
    Ok(Exchange::new(Matrix::equal(size, count)?, Order::Xor))
}

/// Blocks as these rows say; one row, a rank's own, is enough for that rank's steps.
///
/// # Errors
/// Those of [`Matrix::irregular`]; if `size` is not a power of two.
pub(crate) fn alltoallv(size: u32, rows: BTreeMap<u32, Row>) -> Result<Exchange> {
    power_of_two("pairwise", size)?;
    Ok(Exchange::new(Matrix::irregular(size, rows)?, Order::Xor))
}

pub(super) fn power_of_two(algorithm: &str, size: u32) -> Result<()> {
    if size.is_power_of_two() {
        return Ok(());
    }
    Err(argument(format!("the {algorithm} alltoall among {size} ranks"))
        .help("it needs a power of two; direct and circulant take any number of ranks"))
}
