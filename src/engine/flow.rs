//! Flow control: which put may go next.
//!
//! The lowest round first; within a window on what the receivers have not acknowledged; where the operation is
//! longer than a quarter of the window, in order from the start; and where it folds, not far ahead of what comes.

use super::core::Core;
use super::task::{PeerState, Task};
use crate::plan::NO_COUNTER;
use crate::plan::lower::Program;
use std::cmp::Reverse;
use std::time::Duration;

/// The window lets so many puts go if it can by growing to twice its size. On an emulated network (1 ms, 80 ns a byte, 16
/// ranks) a broadcast of 4 MB in 266 blocks was a tenth faster for it.
const PUTS: u64 = 16;

/// What a rank may have on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// Bytes that may be unacknowledged in one operation.
    pub(crate) window: u64,
    /// How long puts wait for those before them, whose targets have not entered the operation. Who posts to whom has entered
    /// posts in the order of entering, all ranks in the same one, and link after link becomes the only one in use: an
    /// alltoall of 1 MB (16 ranks, 1 ms, 80 ns a byte) takes 138 ms then, in order 86.
    pub(crate) patience: Duration,
}

/// So many rounds any operation may run ahead.
const AHEAD: u64 = 8;

/// How far a rank runs ahead of what it gets, in an operation that folds. There every rank has much that it may send from the start,
/// and what nobody needs yet takes the link from what others wait for: a reduce of 1 MB (16 ranks, 1 ms, 80 ns a byte, 116
/// blocks) takes 126 ms without this, 102 with 8 rounds ahead, 115 with 4. But the wire has to be filled, four times.
///
/// Nobody waits for ever: what is missing of a round was put in that round, and of all puts that wait one of the lowest
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
}

impl Pace {
    pub(super) fn new(program: &Program) -> Self {
        let awaited = || program.expected.iter().filter(|e| e.peer != NO_COUNTER);
        let rounds = awaited().map(|e| e.round as usize + 1).max().unwrap_or(0);
        let mut due = vec![0; rounds].into_boxed_slice();
        awaited().for_each(|e| due[e.round as usize] += e.arrivals);
        Self { left: due.clone(), due, low: 0, ahead: None }
    }

    /// From the start, with puts of `put` bytes; or without any limit.
    pub(super) fn reset(&mut self, flow: &Flow, folds: bool, put: u64) {
        let ahead = AHEAD.max(flow.window / 10 / put.max(1));
        self.ahead = folds.then(|| u32::try_from(ahead).unwrap_or(u32::MAX));
        self.left.copy_from_slice(&self.due);
        self.low = 0;
        self.advance();
    }

    /// Something of this round came.
    pub(super) fn came(&mut self, round: u32) {
        if let (Some(_), Some(left)) = (self.ahead, self.left.get_mut(round as usize)) {
            *left = left.saturating_sub(1);
            self.advance();
        }
    }

    fn advance(&mut self) {
        while self.left.get(self.low as usize) == Some(&0) {
            self.low += 1;
        }
    }

    fn holds(&self, round: u32) -> bool {
        let all = self.low as usize == self.left.len();
        self.ahead.is_some_and(|ahead| !all && round > self.low.saturating_add(ahead))
    }
}

impl super::Setup {
    /// q = ⌈log2 p⌉.
    fn q(&self) -> u64 {
        u64::from(self.size.next_power_of_two().trailing_zeros()).max(1)
    }

    /// The same at all ranks of an operation. What is folded on its way goes on only when all of it is there: of that less
    /// should be under way.
    fn window(&self, task: &Task) -> u64 {
        self.flow.window / if task.reducer.is_some() { 4 } else { 1 }
    }

    /// A receiver acknowledges a peer's bytes in portions of this size: a smaller rest it may keep for good.
    pub(super) fn acknowledge_at(&self, task: &Task) -> u64 {
        (self.window(task) / (2 * self.q())).max(1)
    }
}

/// The peer whose first ready op has the lowest round of those that may go, and that op. With `ordered`, no op goes before
/// a lower one that waits for its target to enter.
pub(super) fn next(task: &Task, core: &Core, ordered: bool) -> Option<(usize, u32)> {
    let outstanding = u64::try_from(task.outstanding).unwrap_or(0);
    let (window, rest) = (core.setup.window(task), core.setup.acknowledge_at(task));
    // Somebody who owes us an acknowledgement can be waited for. Who owes less may keep what it has, and who has not
    // entered all of it: if there are only such, more must go, however full the window, else all could wait for ever.
    let owes = |p: &PeerState| p.open.is_some() && u64::try_from(p.outstanding).unwrap_or(0) >= rest;
    let (mut best, mut held): (Option<(u32, usize)>, u32) = (None, u32::MAX);
    for (i, peer) in task.peers.iter().enumerate() {
        let Some(Reverse(op)) = peer.ready.peek() else { continue };
        if peer.stalled {
            continue;
        }
        let len = task.program.ops[*op as usize].len;
        if task.pace.holds(task.program.ops[*op as usize].round) {
            continue;
        }
        // What follows a request for the open word must not overtake it.
        let early = || len <= task.early(i) && !peer.wanted && core.has_credit(peer.world_rank);
        if peer.open.is_none() && !early() {
            held = held.min(*op);
            continue;
        }
        let window = window.max(len.saturating_mul(PUTS).min(window.saturating_mul(2)));
        if outstanding.saturating_add(len) > window && task.peers.iter().any(owes) {
            continue;
        }
        if best.is_none_or(|(b, _)| *op < b) {
            best = Some((*op, i));
        }
    }
    best.filter(|(op, _)| !ordered || *op < held).map(|(op, i)| (i, op))
}
