//! Flow control: which put may go next.
//!
//! The lowest round first; within a window on what the receivers have not acknowledged; and where the operation is
//! longer than the window, in order from the start.

use super::core::Core;
use super::task::Task;
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
    /// alltoall of 1 MB (16 ranks, 1 ms, 80 ns a byte) takes 138 ms then, in order 90.
    pub(crate) patience: Duration,
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
    let owed =
        task.peers.iter().any(|p| p.open.is_some() && u64::try_from(p.outstanding).unwrap_or(0) >= rest);
    let (mut best, mut held): (Option<(u32, usize)>, u32) = (None, u32::MAX);
    for (i, peer) in task.peers.iter().enumerate() {
        let Some(Reverse(op)) = peer.ready.peek() else { continue };
        if peer.stalled {
            continue;
        }
        let len = task.program.ops[*op as usize].len;
        if peer.open.is_none() && (len > task.eager || !core.credits.left(peer.world_rank)) {
            held = held.min(*op);
            continue;
        }
        let window = window.max(len.saturating_mul(PUTS).min(window.saturating_mul(2)));
        if owed && outstanding.saturating_add(len) > window {
            continue;
        }
        if best.is_none_or(|(b, _)| *op < b) {
            best = Some((*op, i));
        }
    }
    best.filter(|(op, _)| !ordered || *op < held).map(|(op, i)| (i, op))
}
