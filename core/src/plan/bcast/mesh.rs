//! The broadcast on an a×b mesh (Grama et al., Introduction to Parallel Computing, chapter 4): first along
//! the root's row, then along all columns at once, each by recursive doubling. ⌈log2 a⌉ + ⌈log2 b⌉ rounds, m
//! bytes to every rank; p = a·b.

use super::binomial::Binomial;
use super::tree::{Shape, build};
use crate::error::Result;
use crate::plan::registry::cost::{Path, float, floor_log, powers};
use crate::plan::registry::line::{composite, line, q};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::topology::sides;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Bcast,
    Mesh::NAME,
    ["p = a*b, not prime; any root; n = 1", "ceil(log2 a) + ceil(log2 b)", "m", "Grama et al., chapter 4"],
    |a, _| sides(a.size).map_or(0, |(a, b)| q(a) + q(b)),
    build::<Mesh>,
)
.only(composite)
.costs(cost);

/// A binomial tree along a row, then along all columns.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    let (rows, columns) = sides(a.size).unwrap_or((1, a.size));
    let bytes = float(a.bytes);
    let down = |path: &mut Path<'_>, size: u32, unit: u32| {
        let rounds = f64::from(q(size));
        let distances: Vec<u32> = powers(size).iter().map(|d| d * unit).collect();
        path.over(&distances, floor_log(size).into(), rounds, rounds * bytes);
    };
    path.alone(|path| down(path, columns, 1));
    down(path, rows, columns);
}

/// The spanning tree of a mesh: rank i·b + j lies in row i and column j.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mesh {
    /// Along the root's row.
    row: Binomial,
    /// Along every column.
    column: Binomial,
}

impl Mesh {
    fn split(&self, rank: u32) -> (u32, u32) {
        (rank / self.row.size, rank % self.row.size)
    }
}

impl Shape for Mesh {
    const NAME: &'static str = "mesh";

    fn new(size: u32, root: u32) -> Result<Self> {
        let (a, b) = sides(size)?;
        Ok(Self { row: Binomial::new(b, root % b)?, column: Binomial::new(a, root / b)? })
    }

    fn rounds(&self) -> u32 {
        self.row.rounds() + self.column.rounds()
    }

    fn parent(&self, rank: u32) -> Option<(u32, u32)> {
        let ((i, j), b) = (self.split(rank), self.row.size);
        let column = self.column.parent(i).map(|(i, round)| (i * b + j, self.row.rounds() + round));
        column.or_else(|| self.row.parent(j).map(|(j, round)| (i * b + j, round)))
    }

    fn children(&self, rank: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let ((i, j), b) = (self.split(rank), self.row.size);
        let row = (i == self.column.root).then(|| self.row.children(j)).into_iter().flatten();
        let column = self.column.children(i).map(move |(i, round)| (i * b + j, self.row.rounds() + round));
        row.map(move |(j, round)| (i * b + j, round)).chain(column)
    }
}
