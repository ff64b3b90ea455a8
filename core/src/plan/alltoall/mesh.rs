//! The alltoall on an a × b mesh with wrap-around (Grama et al., Introduction to Parallel Computing, section
//! 4.5.2): a ring alltoall in each row, of all blocks for a column at once, and then one in each column.
//!
//! (a−1) + (b−1) rounds to the next rank of the row or column; p(a−1)/2 + p(b−1)/2 blocks per rank and as
//! much landing memory: on a square mesh (2·t_s + t_w·m·p)(√p − 1). Ranks are numbered row by row.

use super::relay::{Builder, Group, Relay};
use crate::error::{Result, argument};
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{composite, line};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::topology::sides;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Alltoall,
    "mesh",
    ["p = ab, not prime", "a+b-2", "sp(a+b-2)/2", "Grama et al., section 4.5.2"],
    rounds_of,
    |a, _| Ok(Box::new(alltoall(a.size, a.bytes)?)),
)
.only(composite)
.receives(|a| a.bytes * (u64::from(a.size) * u64::from(rounds_of(a, 1)) / 2))
.costs(cost);

fn rounds_of(a: &Arguments, _: u32) -> u32 {
    let rows = rows(a.size);
    rows + a.size / rows - 2
}

/// Rings of rows and of columns.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    let (rows, columns) = sides(a.size).unwrap_or((1, a.size));
    let half = f64::from(a.size) / 2.0;
    let (down, across) = (f64::from(rows.saturating_sub(1)), f64::from(columns.saturating_sub(1)));
    path.over(&[1], across, across, half * across * float(a.bytes));
    path.over(&[columns], down, down, half * down * float(a.bytes));
    path.copy(f64::from(a.size) * float(a.bytes));
}

/// Blocks of `count` bytes among `size` ranks on the mesh nearest to a square.
///
/// # Errors
/// If `size` is a prime number, 0 or too large, or the blocks are beyond 2^64 bytes.
pub(crate) fn alltoall(size: u32, count: u64) -> Result<Relay> {
    let rows = rows(size);
    if rows == 1 && size > 1 {
        return Err(argument(format!("the mesh alltoall among {size} ranks")).help(format!(
            "it needs a rows and b columns, a·b = p, and {size} is a prime number; use ring"
        )));
    }
    let columns = size / rows.max(1);
    let mut builder = Builder::new("mesh", size, count, Group::Torus(columns))?;
    for i in 1..columns {
        // Column by column, so that what is passed on is the end of what came.
        let labels = (i..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column));
        builder.round(1, labels, |d| d == i);
    }
    for i in 1..rows {
        builder.round(columns, i * columns..size, |d| d / columns == i);
    }
    builder.build()
}

/// The rows of the mesh nearest to a square: the largest divisor of `size` up to its root.
pub(crate) fn rows(size: u32) -> u32 {
    (1..=size.isqrt()).rev().find(|a| size.is_multiple_of(*a)).unwrap_or(1)
}
