//! The direct alltoall: in round i = 1 … p−1 rank r puts its block to r+i, right to its place.
//!
//! p−1 rounds and p−1 blocks, the least possible volume; any p and any counts. That every rank starts
//! with another partner keeps two from putting to one at the same time.

use super::exchange::{Exchange, Order};
use super::{Matrix, Row};
use crate::error::Result;
use std::collections::BTreeMap;

/// Blocks of `count` bytes among `size` ranks.
///
/// # Errors
/// Those of [`Matrix::equal`].
pub fn alltoall(size: u32, count: u64) -> Result<Exchange> {
    Ok(Exchange::new(Matrix::equal(size, count)?, Order::Shift))
}

/// Blocks as these rows say; one row, a rank's own, is enough for that rank's steps.
///
/// # Errors
/// Those of [`Matrix::irregular`].
pub fn alltoallv(size: u32, rows: BTreeMap<u32, Row>) -> Result<Exchange> {
    Ok(Exchange::new(Matrix::irregular(size, rows)?, Order::Shift))
}
