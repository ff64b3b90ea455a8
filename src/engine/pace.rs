//! Pacing: how far a rank sends ahead of what it receives.

use super::setup::Flow;
use crate::plan::NO_COUNTER;
use crate::plan::lower::{OpKind, Program};

/// Rounds that any operation may send ahead of what it receives (measured: see [`Pace`]).
const ROUNDS_AHEAD: u64 = 8;

/// A reduce goes one round ahead if its puts are at least 1/32 as long as those [bound by bandwidth](Flow::bandwidth_bound), that is, take twice L + o. Chosen: among 16 ranks with L = 20 µs a reduce of 100 KB to
/// 1 MB in blocks of 2.5 to 7 KB takes 4 to 7 % less so than with 8 rounds; blocks of 9 KB with L = 1 ms are put 8 rounds ahead.
const FOLD_FRACTION: u64 = 32;

/// How far a rank sends ahead of what it receives, in an operation that reduces. There every rank has much that it may send from the start,
/// and data that no rank needs yet takes the link from data that others wait for: a reduce of 1 MB (16 ranks, 1 ms, 80 ns a byte, 116
/// blocks) takes 126 ms without this, 102 with 8 rounds ahead, 115 with 4. But the wire has to be filled, four times.
/// Where a put takes twice L + o or more, one round ahead is enough: the same reduce with 20 µs takes 82 ms so, and 85 with 8.
///
/// In an operation that does not reduce it is limited where each rank puts to one other rank in each round and blocks are bound by bandwidth: a rank then puts its next block when that of the
/// round has come. Otherwise several ranks put to one at the same time, and none to another: an alltoall of 1 MB (16 ranks, 20 µs, 80 ns a byte) takes 88 ms, and in step 77 (median of 8).
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
    /// Where each rank puts to one other in each round at most ([`Plan::in_step`](crate::plan::Plan::in_step)): in how many rounds this one does.
    in_step: Option<u64>,
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
        let in_step = program.in_step.then(|| rounds_of_puts(program));
        Self { left: due.clone(), due, in_step, low: 0, ahead: None, last: u32::MAX }
    }

    /// Starts again, with `puts` puts of `volume` bytes in all; without any limit unless the operation reduces or its ranks keep in step.
    pub(super) fn reset(&mut self, flow: &Flow, folds: bool, (puts, volume): (u64, u64)) {
        let is_long = |times: u64| {
            self.in_step.is_some_and(|rounds| (volume / rounds).saturating_mul(times) >= flow.bandwidth_bound)
        };
        self.ahead = match folds {
            true if is_long(FOLD_FRACTION) => Some(1),
            true => {
                let ahead = ROUNDS_AHEAD.max(flow.window / 10 / (volume / puts.max(1)).max(1));
                Some(u32::try_from(ahead).unwrap_or(u32::MAX))
            }
            false => is_long(1).then_some(0),
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

/// In how many rounds a rank puts; at least 1.
fn rounds_of_puts(program: &Program) -> u64 {
    let puts = program.ops.iter().filter(|op| op.kind == OpKind::Put);
    let mut rounds: Vec<u32> = puts.map(|op| op.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    rounds.len().max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::lower::{WireLimits, lower};
    use crate::plan::reduce::circulant::Reduce;
    use std::time::Duration;

    /// Blocks of 1000 bytes, one in each round.
    #[test]
    fn a_reduce_of_long_blocks_goes_one_round_ahead() {
        let plan = Reduce::new(4, 0, 12_000, 8, 12, false).unwrap();
        let program = lower(&plan, 1, &WireLimits::PLAIN).unwrap();
        let (puts, volume) = (12, 12_000);
        for (bandwidth_bound, ahead) in [(1000 * FOLD_FRACTION, 1), (1000 * FOLD_FRACTION + 1, ROUNDS_AHEAD)]
        {
            let flow = Flow {
                window: 1 << 10,
                acknowledged: 1 << 10,
                bandwidth_bound,
                order_timeout: Duration::ZERO,
            };
            let mut pace = Pace::new(&program);
            assert!(!pace.holds(u32::MAX), "it has not begun");
            pace.reset(&flow, true, (puts, volume));
            let first = (0..100).find(|round| pace.holds(*round)).map(u64::from);
            assert_eq!(first, Some(u64::from(pace.low) + ahead + 1), "{bandwidth_bound}");
        }
    }
}
