//! The allgather on an a×b mesh (Grama et al., Introduction to Parallel Computing, chapter 4,
//! `ALL_TO_ALL_BC_MESH`): a ring along every row, then a ring of whole rows along every column. a+b−2 rounds,
//! m−m_r bytes to rank r; p = a·b.

use super::ring::Ring;
use super::window::{self, Message, Pattern};
use crate::error::Result;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{composite, line};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::topology::sides;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Allgather,
    Mesh::NAME,
    ["p = a*b, not prime; n = 1", "a+b-2", "m - m/p", "Grama et al., chapter 4, ALL_TO_ALL_BC_MESH"],
    |a, _| sides(a.size).map_or(0, |(a, b)| a + b - 2),
    window::regular::<Mesh>,
)
.only(composite)
.costs(cost);

pub(in crate::plan) const IRREGULAR: Algorithm = line(
    Operation::Allgatherv,
    Mesh::NAME,
    ["p = a*b, not prime; n = 1", "a+b-2", "m - min m_i", "Grama et al., chapter 4, ALL_TO_ALL_BC_MESH"],
    |a, _| sides(a.size).map_or(0, |(a, b)| a + b - 2),
    window::irregular::<Mesh>,
)
.only(composite)
.costs(cost);

/// Rings along rows, then whole rows along columns, piece by piece.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    let (rows, columns) = sides(a.size).unwrap_or((1, a.size));
    let (down, across) = (f64::from(rows.saturating_sub(1)), f64::from(columns.saturating_sub(1)));
    let largest = float(a.largest());
    let volume = float(a.heaviest(columns)) * down + largest * across;
    let mean = volume / f64::from(a.size.saturating_sub(1).max(1));
    let runs = path.runs(f64::from(columns), mean);
    let run = mean * f64::from(columns) / runs;
    path.longer(
        |path| {
            path.over(&[1], across, across, across * largest);
            path.over(&[columns], down, down, down * run.max(largest));
            if down > 0.0 {
                path.over(&[columns], 0.0, runs - 1.0, (runs - 1.0) * run);
            }
        },
        |path| path.over(&[1, columns], 1.0, across + down * runs, volume * path.at_once()),
    );
    path.relayed(across + down);
}

/// The mesh with wrapped rows and columns: rank i·b + j lies in row i and column j.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mesh {
    row: Ring,
    column: Ring,
}

impl Pattern for Mesh {
    const NAME: &'static str = "mesh";
    const FAN_OUT: Option<u32> = Some(2);

    fn new(size: u32) -> Result<Self> {
        let (a, b) = sides(size)?;
        Ok(Self { row: Ring { size: b }, column: Ring { size: a } })
    }

    fn rounds(&self) -> u32 {
        self.row.rounds() + self.column.rounds()
    }

    fn message(&self, sender: u32, round: u32) -> Message {
        let b = self.row.size;
        let (i, j) = (sender / b, sender % b);
        match round.checked_sub(self.row.rounds()) {
            None => {
                let Message { to, first, owners } = self.row.message(j, round);
                Message { to: i * b + to, first: i * b + first, owners }
            }
            Some(round) => {
                let Message { to, first, .. } = self.column.message(i, round);
                Message { to: to * b + j, first: first * b, owners: b }
            }
        }
    }

    fn from(&self, receiver: u32, round: u32) -> u32 {
        let b = self.row.size;
        let (i, j) = (receiver / b, receiver % b);
        match round.checked_sub(self.row.rounds()) {
            None => i * b + self.row.from(j, round),
            Some(round) => self.column.from(i, round) * b + j,
        }
    }
}
