//! One rank's part of a plan, as posted work.

use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Place, Region, Side};

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
    /// Move the segments, one behind the other, to `target` here.
    Copy,
    /// Combine the one segment into `target` here.
    Reduce(Side),
}

impl OpKind {
    /// Whether it happens in our own memory: no peer, and our own counter is bumped.
    pub const fn is_local(self) -> bool {
        matches!(self, Self::Copy | Self::Reduce(_))
    }
}

/// One posted piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// What.
    pub kind: OpKind,
    /// Index into [`Program::peers`] (0 and unused for copies and reduces).
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
    /// The counter that it bumps (at the peer, or here for copies), or [`NO_COUNTER`](crate::plan::NO_COUNTER).
    pub bump: u32,
}

/// What is known of a counter that a peer bumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Index into [`Program::peers`], or [`NO_COUNTER`](crate::plan::NO_COUNTER) when the counter is bumped locally only.
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
    /// Whether it puts data into our memory: it needs our ready-to-receive message.
    pub puts_to_us: bool,
    /// Whether we put data into its memory: we need its ready-to-receive message.
    pub we_put: bool,
    /// Bytes that it puts to us, all together.
    pub bytes_in: u64,
    /// Bytes that we put to it, all together.
    pub bytes_out: u64,
}

/// No op at all.
pub const NO_OP: u32 = u32::MAX;

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
    /// By counter: the op that combines what arrives with it into something else, if that is one put and no other op
    /// reads it where it lands; else [`NO_OP`]. Empty where there is none.
    pub folds: Vec<u32>,
    /// Arrivals (puts and notifies) in all: the receiving side is finished when it counted these.
    pub arrivals: u64,
    /// Memory that the program needs beyond the caller's, after lowering.
    pub work: u64,
    /// Landing memory, likewise.
    pub land: u64,
    /// To how many ranks each rank of the plan puts at most, as [`Plan::fan_out`](crate::plan::Plan::fan_out) says it.
    pub fan_out: Option<u32>,
    /// Ranks may keep in step ([`Plan::in_step`](crate::plan::Plan::in_step)).
    pub in_step: bool,
}

impl Program {
    /// The same of a sender whose input lies in several places: what would be its input, one behind the other. A put of bytes of several
    /// pieces gathers them.
    ///
    /// # Errors
    /// If the pieces are shorter than the input that the program reads, or a put would gather more than `most`.
    pub fn with_input(mut self, pieces: &[Segment], most: usize) -> Result<Self> {
        let begins: Vec<u64> = pieces
            .iter()
            .scan(0u64, |end, piece| Some(std::mem::replace(end, end.saturating_add(piece.len))))
            .collect();
        let mut segments = Vec::with_capacity(self.segments.len().max(pieces.len()));
        for op in &mut self.ops {
            let own = &self.segments[op.first_segment as usize..][..op.segments as usize];
            let first = segments.len();
            for segment in own {
                if segment.place.region != Region::Input {
                    segments.push(*segment);
                    continue;
                }
                let (mut at, end) = (segment.place.offset, segment.place.offset.saturating_add(segment.len));
                let mut next = begins.partition_point(|begin| *begin <= at).saturating_sub(1);
                while at < end {
                    let (Some(piece), Some(begin)) = (pieces.get(next), begins.get(next)) else {
                        return Err(broken("an input that is longer than its pieces"));
                    };
                    let within = at - begin;
                    let len = (piece.len - within).min(end - at);
                    let place = Place::new(piece.place.region, piece.place.offset + within);
                    segments.push(Segment { place, len });
                    at += len;
                    next += 1;
                }
            }
            let count = segments.len() - first;
            if op.kind == OpKind::Put && count > most {
                return Err(broken(&format!("a put of {count} pieces on a wire that gathers {most}")));
            }
            (op.first_segment, op.segments) = (index(first)?, index(count)?);
        }
        self.segments = segments;
        Ok(self)
    }

    /// Whether the rank neither sends nor receives nor moves anything.
    pub fn is_idle(&self) -> bool {
        self.ops.is_empty() && self.peers.is_empty() && self.arrivals == 0
    }

    /// How many counters there are.
    pub fn counters(&self) -> usize {
        self.expected.len()
    }
}

pub(super) fn broken(what: &str) -> Error {
    Error::new(ErrorKind::Argument, format!("cannot lower the plan: {what}"))
}

/// A number of operations or segments, as they are kept.
pub(super) fn index(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| broken("more than 2^32 operations"))
}
