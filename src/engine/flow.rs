//! Flow control: which put may go next.
//!
//! The lowest round first; within a window on what the receivers have not acknowledged; where the operation is
//! longer than a quarter of the window, in order from the start; and where it folds, not far ahead of what comes.

use super::core::Core;
use super::task::{PeerState, Task};
use std::cmp::Reverse;

/// The window lets this many puts go if it can by growing to twice its size. On an emulated network (1 ms, 80 ns a byte, 16
/// ranks) a broadcast of 4 MB in 266 blocks was a tenth faster for it.
const WINDOW_PUTS: u64 = 16;

/// The peer whose first ready op has the lowest round of those that may go, and that op. With `ordered`, no op goes before
/// a lower one that waits for its target to enter.
pub(super) fn next(task: &Task, core: &Core, ordered: bool) -> Option<(usize, u32)> {
    let outstanding = u64::try_from(task.outstanding).unwrap_or(0);
    let folds = task.reducer.is_some();
    let (window, rest) = (core.setup.window(folds), core.setup.acknowledge_at(folds));
    // A peer that owes us an acknowledgement can be waited for. One that owes less than a portion may never send one, nor may one
    // that has not entered: if there are only such, more must go, however full the window, else all could wait for ever.
    let owes = |p: &PeerState| p.ready.is_some() && u64::try_from(p.outstanding).unwrap_or(0) >= rest;
    let (mut best, mut held): (Option<(u32, usize)>, u32) = (None, u32::MAX);
    for (i, peer) in task.peers.iter().enumerate() {
        let Some(Reverse(op)) = peer.postable.peek() else { continue };
        if peer.stalled {
            continue;
        }
        let len = task.program.ops[*op as usize].len;
        if task.pace.holds(task.program.ops[*op as usize].round) {
            continue;
        }
        // A put after a request for the ready message must not overtake it.
        let eager = || len <= task.eager_limit(i) && !peer.requested && core.has_credit(peer.world_rank);
        if peer.ready.is_none() && !eager() {
            held = held.min(*op);
            continue;
        }
        let window = window.max(len.saturating_mul(WINDOW_PUTS).min(window.saturating_mul(2)));
        if outstanding.saturating_add(len) > window && task.peers.iter().any(owes) {
            continue;
        }
        if best.is_none_or(|(b, _)| *op < b) {
            best = Some((*op, i));
        }
    }
    best.filter(|(op, _)| !ordered || *op < held).map(|(op, i)| (i, op))
}
