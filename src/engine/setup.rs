//! What the owner gives to the engine: its setup, and traits by which the engine asks for what it cannot know.

use crate::error::{Error, Result};
use crate::record::Record;
use std::sync::Arc;
use std::time::Duration;

/// What an operation that reduces may have unacknowledged, at least, as far as the window is so wide. Measured: with it, among 16 ranks on a network of
/// 100 Mbit/s without latency, whose window is about as wide, an allreduce of 1 MB takes 169 ms in place of 197, a reduce_scatter_block 81 in place of 100 (before the rest of a message went beyond the window; not measured again).
const FOLD_WINDOW_MIN_BYTES: u64 = 128 << 10;

/// Tells the engine of ranks that ended, from outside the wire (launcher, process watch).
pub(crate) trait Liveness: Send + std::fmt::Debug {
    /// A rank that is gone, and how it ended. Never waits.
    fn gone(&mut self) -> Option<(u32, String)>;

    /// Whether the launcher has told it, and so to all ranks.
    fn is_told_to_all(&self) -> bool {
        false
    }

    /// The state of a rank's process, where that can be seen from here.
    fn state(&mut self, _rank: u32) -> Option<ProcessState> {
        None
    }

    /// This error ends our world. Never waits.
    fn report(&mut self, error: &Error) {
        let _ = error;
    }
}

/// The state of a process, as the system reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessState {
    /// It runs or sleeps.
    Lives,
    /// A signal or a debugger has stopped it.
    Stopped,
}

/// Keeps flight records, outside of the engine.
pub(crate) trait Keeper: Send + std::fmt::Debug {
    /// Whether one was asked for since the last call. Never waits.
    fn is_asked(&self) -> bool;

    /// Keeps this one.
    fn keep(&mut self, record: Record);
}

/// A communicator as the engine sees it.
pub(crate) trait Group: Send + Sync {
    /// The number of its next call here: all lower ones have begun.
    fn next_call(&self) -> u32;

    /// The world ranks of its members.
    fn world_ranks(&self) -> Vec<u32>;

    /// Whether this world rank is a member.
    fn has_member(&self, rank: u32) -> bool;
}

/// Finds the address of a rank that is no neighbour, when an operation needs it.
pub(crate) trait Directory: Send + std::fmt::Debug {
    /// The transport address of `rank`.
    ///
    /// # Errors
    /// When the launcher does not know it.
    fn address(&mut self, rank: u32) -> Result<Vec<u8>>;
}

/// Flow control: what a rank may have in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// Bytes that may be unacknowledged in one operation.
    pub(crate) window: u64,
    /// Bytes of which receivers acknowledge a part at a time, where the window is wider.
    pub(crate) acknowledged: u64,
    /// The shortest put, in bytes, that is bound by bandwidth: where a plan allows it, ranks put one such block at a time.
    pub(crate) bandwidth_bound: u64,
    /// How long puts wait for puts before them, whose targets have not entered the operation. Without that ranks post in the order
    /// in which their targets enter, which is the same at all ranks, and one link after the other is the only one in use: an
    /// alltoall of 1 MB (16 ranks, 1 ms, 80 ns a byte) takes 138 ms then, in order 86.
    pub(crate) order_timeout: Duration,
}

/// What the engine is made with.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// World ranks of the circulant neighbours, sorted, without us.
    pub(crate) neighbours: Vec<u32>,
    /// By world rank: the group of its node; nothing: the network is not divided.
    pub(crate) node_groups: Arc<[u32]>,
    pub(crate) flow: Flow,
    /// A wait that lasts longer warns for which ranks it waits, at this interval.
    pub(crate) warn_after: Duration,
    /// Names of operations by code, for messages about other ranks.
    pub(crate) names: fn(u8) -> &'static str,
    /// How many events the flight recorder keeps; `None`: as follows from the number of ranks.
    pub(crate) record_events: Option<u32>,
}

impl Setup {
    /// q = ⌈log2 p⌉.
    fn q(&self) -> u64 {
        u64::from(u64::from(self.size).next_power_of_two().trailing_zeros()).max(1)
    }

    /// The same at all ranks of an operation. Data to be reduced goes on only when all of it is there: of that less
    /// should be in flight.
    pub(super) fn window(&self, folds: bool) -> u64 {
        let whole = self.flow.window;
        if folds { (whole / 4).max(whole.min(FOLD_WINDOW_MIN_BYTES)) } else { whole }
    }

    /// A receiver acknowledges a peer's bytes in portions of this size: a smaller rest it may keep for good. Half the window can be such
    /// rests, of all the peers that a rank puts to: q, or as many as the plan says. Where all bytes of the operation fit into the window, nothing is acknowledged.
    pub(super) fn acknowledge_at(&self, folds: bool, fan_out: Option<u32>, bytes: u64) -> u64 {
        let window = self.window(folds);
        if (1..=window).contains(&bytes) {
            return u64::MAX;
        }
        let peers = fan_out.map_or(self.q(), |peers| u64::from(peers).clamp(1, self.q()));
        (window.min(self.flow.acknowledged) / (2 * peers)).max(1)
    }
}
