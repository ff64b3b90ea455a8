//! The direct alltoall: in round i = 1 … p−1 rank r puts its block to r+i, right to its place.
//!
//! p−1 rounds and p−1 blocks, the least possible volume; any p and any counts. That every rank starts
//! with another partner keeps two from putting to one at the same time.

use super::exchange::{Exchange, Order, complete};
use super::matrix::{Matrix, Row};
use crate::error::Result;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{by_p, line};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use std::collections::BTreeMap;

pub(in crate::plan) const LINE: Algorithm =
    line(Operation::Alltoall, "direct", ["any p", "p-1", "(p-1)s", "one put per block"], by_p, |a, _| {
        Ok(Box::new(alltoall(a.size, a.bytes)?))
    })
    .costs(|a, path| cost(a, path.at_once(), path))
    .meets_all();

pub(in crate::plan) const IRREGULAR: Algorithm = line(
    Operation::Alltoallv,
    "direct",
    ["any p, counts", "p-1", "m_r", "one put per block"],
    by_p,
    |a, _| {
        complete(a)?;
        Ok(Box::new(alltoallv(a.size, a.rows.clone().into())?))
    },
)
.only(complete)
.costs(irregular_cost)
.meets_all();

/// One put per block, which take links `times` times as long as their bytes.
pub(super) fn cost(a: &Arguments, times: f64, path: &mut Path<'_>) {
    path.with_all(a.others().min(1.0), a.others(), times * a.others() * float(a.bytes));
}

/// Its bytes are not known alike on all ranks.
pub(super) fn irregular_cost(a: &Arguments, path: &mut Path<'_>) {
    path.with_all(a.others().min(1.0), a.others(), 0.0);
}

/// Blocks of `count` bytes among `size` ranks.
///
/// # Errors
/// If there are 0 or more than [`MAX_P`](crate::schedule::MAX_P) ranks, or the blocks of a rank are beyond 2^64 bytes.
pub fn alltoall(size: u32, count: u64) -> Result<Exchange> {
    Ok(Exchange::new(Matrix::equal(size, count)?, Order::Shift))
}

/// Blocks as these rows say; one row, a rank's own, is enough for that rank's steps.
///
/// # Errors
/// If a row has not one entry per rank, describes overlapping blocks in the output or any beyond 2^64 bytes, or contradicts itself or
/// another row.
pub fn alltoallv(size: u32, rows: BTreeMap<u32, Row>) -> Result<Exchange> {
    Ok(Exchange::new(Matrix::irregular(size, rows)?, Order::Shift))
}
