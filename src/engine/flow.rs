//! Flow control: which put may go next.
//!
//! The lowest round first; within a window on what the receivers have not acknowledged, and beyond it the rest of a message that was ready with a put of it; where the operation is
//! longer than a quarter of the window, in order from the start; and where it folds, not far ahead of what comes.

use super::core::Core;
use super::task::{PeerState, Task};
use crate::plan::lower::{NO_OP, Op};

/// The window lets this many puts go if it can by growing to twice its size. On an emulated network (1 ms, 80 ns a byte, 16
/// ranks) a broadcast of 4 MB in 266 blocks was a tenth faster for it.
const WINDOW_PUTS: u64 = 16;

/// The op that goes next: of the peers' first ready ops that may go that of the lowest round. With `ordered`, no op goes before
/// a lower one that waits for its target to enter.
#[inline(always)]
pub(super) fn next(task: &Task, core: &Core, ordered: bool) -> Option<u32> {
    let outstanding = u64::try_from(task.outstanding).unwrap_or(0);
    let (mut best, mut held) = (NO_OP, NO_OP);
    for (i, peer) in task.peers.iter().enumerate() {
        let Some(op) = peer.postable.first() else { continue };
        let &Op { len, round, .. } = &task.program.ops[op as usize];
        if peer.stalled || task.pace.holds(round) {
            continue;
        }
        if peer.ready.is_none() && !goes_eagerly(task, core, i, len) {
            held = held.min(op);
            continue;
        }
        if outstanding.saturating_add(len) > task.window
            && peer.rest != Some(op)
            && is_over(task, outstanding, len)
        {
            continue;
        }
        best = best.min(op);
    }
    // NO_OP is behind all others.
    let behind = if ordered { held } else { NO_OP };
    (best < behind).then_some(best)
}

/// Whether `len` bytes may go to a peer that is not ready. A put after a request for the ready message must not overtake it.
#[inline(never)]
fn goes_eagerly(task: &Task, core: &Core, i: usize, len: u64) -> bool {
    let peer = &task.peers[i];
    len <= peer.eager_limit && !peer.requested && core.has_credit(peer.world_rank)
}

/// Whether a put of `len` bytes has to wait for acknowledgements. The window grows for long puts. A peer that owes us an
/// acknowledgement can be waited for. One that owes less than a portion may never send one, nor may one that has not entered: if
/// there are only such, more must go, however full the window, else all could wait for ever.
#[inline(never)]
fn is_over(task: &Task, outstanding: u64, len: u64) -> bool {
    let window = task.window.max(len.saturating_mul(WINDOW_PUTS).min(task.window.saturating_mul(2)));
    let owes = |p: &PeerState| p.ready.is_some() && u64::try_from(p.outstanding).unwrap_or(0) >= task.portion;
    outstanding.saturating_add(len) > window && task.peers.iter().any(owes)
}
