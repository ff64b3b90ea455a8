//! Lowering: one rank's steps as posted work, within the limits of a wire.

use super::Place;
#[allow(unused_imports)]
use super::NO_COUNTER;

/// What the wire allows and what pieces are worth; equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WireLimits {
    /// The longest single put in bytes (≥ 1).
    pub max_put: u64,
    /// Local segments per put (≥ 1).
    pub gather: usize,
    /// Pieces of fewer bytes than this, of one round and to one peer, share a put to a landing slot
    /// when there are at least two; 0 puts every piece by itself.
    pub light: u64,
}

/// A contiguous run of local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where.
    pub place: Place,
    /// How many bytes.
    pub len: u64,
}

/// What the engine does for one operation of a [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Gather `segments` into one put to `target` at the peer.
    Put,
    /// Bump the peer's counter.
    Notify,
    /// Move the one segment to `target` here.
    Copy,
}

/// One posted piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// What.
    pub kind: OpKind,
    /// Index into [`Program::peers`] (0 and unused for copies).
    pub peer: u32,
    /// First of its segments in [`Program::segments`].
    pub first_segment: u32,
    /// How many segments it has.
    pub segments: u32,
    /// Where it goes.
    pub target: Place,
    /// Bytes in all its segments.
    pub len: u64,
    /// Its round: lower ones go first.
    pub round: u32,
    /// How many entries of the waiter table must fire before it may go.
    pub waits: u32,
    /// The counter that it bumps (at the peer, or here for copies), or [`NO_COUNTER`].
    pub bump: u32,
}

/// What is known of a counter that a peer bumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Index into [`Program::peers`], or [`NO_COUNTER`] when the counter is bumped locally only.
    pub peer: u32,
    /// How many times the peer bumps it (puts after splitting).
    pub arrivals: u32,
    /// Bytes that arrive with it, all together.
    pub len: u64,
    /// The round in which they come.
    pub round: u32,
}

/// A rank that this rank puts to, notifies, or expects something from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its rank in the communicator.
    pub rank: u32,
    /// Whether it puts data into our memory: it needs our open word.
    pub puts_to_us: bool,
    /// Whether we put data into its memory: we need its open word.
    pub we_put: bool,
    /// Bytes that it puts to us, all together.
    pub bytes_in: u64,
    /// Bytes that we put to it, all together.
    pub bytes_out: u64,
}

/// One rank's part of a plan, ready to run: everything the engine needs and nothing it must compute.
///
/// Ops are sorted by (round, order of the plan). Waiters of counter c are
/// `waiters[waiter_start[c]..waiter_start[c + 1]]`: pairs (count, op): when c reaches `count`, one of the
/// waits of `op` is over.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The ops.
    pub ops: Vec<Op>,
    /// Gather lists of the ops.
    pub segments: Vec<Segment>,
    /// The peers, each once, sorted by rank.
    pub peers: Vec<Peer>,
    /// By counter: what bumps it.
    pub expected: Vec<Expected>,
    /// Offsets into `waiters`; one more entry than there are counters.
    pub waiter_start: Vec<u32>,
    /// (count, op) pairs.
    pub waiters: Vec<(u32, u32)>,
    /// Arrivals (puts and notifies) in all: the receiving side is finished when it counted these.
    pub arrivals: u64,
    /// Memory that the program needs beyond the caller's, after lowering.
    pub work: u64,
    /// Landing memory, likewise.
    pub land: u64,
}

impl Program {
    /// How many counters there are.
    pub fn counters(&self) -> usize {
        self.expected.len()
    }
}

