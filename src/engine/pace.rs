//! Pacing: how far a rank sends ahead of what it receives.

use super::setup::Flow;
use crate::plan::NO_COUNTER;
use crate::plan::lower::Program;

/// Rounds that any operation may send ahead of what it receives (measured: see [`Pace`]).
const ROUNDS_AHEAD: u64 = 8;

/// How far a rank sends ahead of what it receives, in an operation that reduces. There every rank has much that it may send from the start,
/// and data that no rank needs yet takes the link from data that others wait for: a reduce of 1 MB (16 ranks, 1 ms, 80 ns a byte, 116
/// blocks) takes 126 ms without this, 102 with 8 rounds ahead, 115 with 4. But the wire has to be filled, four times.
///
/// Or in one whose ranks keep in step: each puts its next block when the one of the round has come. Else several blocks are on their way to one rank, and few to another: an alltoall of 1 MB
/// (16 ranks, 20 µs, 80 ns a byte) takes 88 ms, and in step 77 (median of 8).
///
/// No rank waits for ever: what is missing of a round was put in that round, and of all puts that wait one of the lowest
/// round has everything before it.
#[derive(Debug)]
pub(super) struct Pace {
    /// By round: arrivals; and how many of them have yet to come.
    due: Box<[u32]>,
    left: Box<[u32]>,
    /// The first round of which some have yet to come.
    low: u32,
    /// Rounds; `None`: as far as it can.
    ahead: Option<u32>,
    /// The last round of which puts may go now.
    last: u32,
}

impl Pace {
    pub(super) fn new(program: &Program) -> Self {
        let awaited = || program.expected.iter().filter(|e| e.peer != NO_COUNTER);
        let rounds = awaited().map(|e| e.round as usize + 1).max().unwrap_or(0);
        let mut due = vec![0; rounds].into_boxed_slice();
        awaited().for_each(|e| due[e.round as usize] += e.arrivals);
        Self { left: due.clone(), due, low: 0, ahead: None, last: u32::MAX }
    }

    /// Starts again, with puts of `put` bytes on average; without any limit unless the operation reduces or keeps in step.
    pub(super) fn reset(&mut self, flow: &Flow, (folds, in_step): (bool, bool), put: u64) {
        let ahead = ROUNDS_AHEAD.max(flow.window / 10 / put.max(1));
        self.ahead = match in_step {
            true => Some(0),
            false => folds.then(|| u32::try_from(ahead).unwrap_or(u32::MAX)),
        };
        self.left.copy_from_slice(&self.due);
        self.low = 0;
        self.advance();
    }

    /// Something of this round came.
    pub(super) fn came(&mut self, round: u32) {
        if self.ahead.is_some()
            && let Some(left) = self.left.get_mut(round as usize)
        {
            *left = left.saturating_sub(1);
            self.advance();
        }
    }

    fn advance(&mut self) {
        while self.left.get(self.low as usize) == Some(&0) {
            self.low += 1;
        }
        let all = self.low as usize == self.left.len();
        self.last = self.ahead.filter(|_| !all).map_or(u32::MAX, |ahead| self.low.saturating_add(ahead));
    }

    /// Whether puts of `round` have to wait.
    pub(super) fn holds(&self, round: u32) -> bool {
        round > self.last
    }
}
