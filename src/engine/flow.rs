//! Flow control: which put may go next.
//!
//! The lowest round first; within a window on what the receivers have not acknowledged; where the operation is
//! longer than a quarter of the window, in order from the start; and where it folds, not far ahead of what comes.

use super::core::Core;
use super::task::{PeerState, Task};
use std::cmp::Reverse;

/// The window lets so many puts go if it can by growing to twice its size. On an emulated network (1 ms, 80 ns a byte, 16
/// ranks) a broadcast of 4 MB in 266 blocks was a tenth faster for it.
const PUTS: u64 = 16;

/// The peer whose first ready op has the lowest round of those that may go, and that op. With `ordered`, no op goes before
/// a lower one that waits for its target to enter.
pub(super) fn next(task: &Task, core: &Core, ordered: bool) -> Option<(usize, u32)> {
    let outstanding = u64::try_from(task.outstanding).unwrap_or(0);
    let folds = task.reducer.is_some();
    let (window, rest) = (core.setup.window(folds), core.setup.acknowledge_at(folds));
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
