//! The allgather on an a×b mesh (Grama et al., Introduction to Parallel Computing, chapter 4,
//! `ALL_TO_ALL_BC_MESH`): a ring along every row, then a ring of whole rows along every column. a+b−2 rounds,
//! m−m_r bytes to rank r; p = a·b.

use super::ring::Ring;
use super::window::{Message, Pattern, Windows};
use crate::error::Result;
use crate::plan::topology::sides;

/// An allgatherv on a mesh.
pub type Allgatherv = Windows<Mesh>;

/// The mesh with wrapped rows and columns: rank i·b + j lies in row i and column j.
#[derive(Clone, Copy, Debug)]
pub struct Mesh {
    row: Ring,
    column: Ring,
}

impl Pattern for Mesh {
    const NAME: &'static str = "mesh";

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
