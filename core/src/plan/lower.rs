//! Lowering: one rank's steps as posted work, within the limits of a wire.
//!
//! A *message* is what one rank puts to one peer in one round. Lowering has three answers for its
//! pieces, taken in this order:
//!
//! 1. **Coalesce.** Pieces that follow each other, in the source and in the target, become one run of
//!    at most [`WireLimits::coalesce`] bytes, which waits for all that its pieces wait for. At n = 1 a window of
//!    owners is at most two runs.
//! 2. **Share.** Runs lighter than [`WireLimits::light`], if the message has at least [`WireLimits::few`], are gathered
//!    (at most [`WireLimits::gather`] to a put; with a gather limit of 1 they are packed first) into one
//!    put to a landing slot at the receiver, which unpacks them. A rank that forwards such a piece
//!    takes it from the slot, so that unpacking delays nobody.
//! 3. **Single.** Every other run is a put of its own, or several if it is longer than
//!    [`WireLimits::max_put`].
//!
//! Sender and receiver decide alike, each from its own side: a message's [`Put`](super::Kind::Put)s and
//! [`Expect`](super::Kind::Expect)s mirror each other in order, source, target and length. What travels as one put
//! bumps one counter, that of its first piece, as often as there are puts; waits for any of its
//! pieces become waits for that.
//!
//! Joins (copies of no bytes) are dissolved: whoever waits for one waits for what it waits for.

mod folds;
mod parcels;
mod rank;

pub(super) use parcels::coalesce;
pub use parcels::{COALESCE, light_bytes};

use super::{Place, Plan, Side};
use crate::error::{Error, ErrorKind, Result};
use crate::machine::LogGp;

/// What the wire allows and what pieces are worth; equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WireLimits {
    /// The longest single put in bytes (≥ 1).
    pub max_put: u64,
    /// Local segments per put (≥ 1).
    pub gather: usize,
    /// Pieces of fewer bytes than this, of one round and to one peer, share a put to a landing slot; 0 puts every piece by
    /// itself.
    pub light: u64,
    /// At least so many do, and never one alone: fewer puts are not worth a wait for the last piece.
    pub few: usize,
    /// Neighbouring pieces are made one put up to this many bytes.
    pub coalesce: u64,
}

impl WireLimits {
    /// Puts of any length from one segment, none shared.
    pub const PLAIN: Self = Self { max_put: u64::MAX, gather: 1, light: 0, few: 2, coalesce: COALESCE };

    /// What is worth joining on a wire like `model`, whose puts are of at most `max_put` bytes from at most `gather`
    /// segments; pieces below `light` bytes are light.
    ///
    /// To share a put, pieces wait for the last of them, which may be a latency behind the others: that is worth it
    /// from L/o pieces on. A run of neighbours keeps back what has arrived while the wire carries the rest of it: that
    /// may take ten overheads. (16 ranks, 100 KB, L = 1 ms, β = 80 ns/B, o = 30 us, simulated: allgatherv of seven
    /// distributions in 10.3 to 11.8 ms; with runs of 32 KiB 10.6 to 13.3, sharing from two pieces on 11.2 to 17.7.)
    pub fn new(max_put: u64, gather: usize, light: u64, model: &LogGp) -> Self {
        let overhead = model.overhead_ns.max(1);
        let few = usize::try_from(model.latency_ns.div_ceil(overhead)).unwrap_or(usize::MAX).max(2);
        Self { max_put, gather, light, few, coalesce: coalesce(model) }
    }
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
    /// The counter that it bumps (at the peer, or here for copies), or [`NO_COUNTER`](super::NO_COUNTER).
    pub bump: u32,
}

/// What is known of a counter that a peer bumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Index into [`Program::peers`], or [`NO_COUNTER`](super::NO_COUNTER) when the counter is bumped locally only.
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
    /// By counter: the op that combines what arrives with it into something else, if that is one put and nobody else
    /// reads it where it lands; else [`NO_OP`]. Empty where there is none.
    pub folds: Vec<u32>,
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
/// What `rank` has to do for `plan` on a wire with these limits.
///
/// # Errors
/// If the limits are impossible, or the plan breaks its own laws (see [`super`]) or is too large.
pub fn lower(plan: &dyn Plan, rank: u32, limits: &WireLimits) -> Result<Program> {
    if limits.max_put == 0 || limits.gather == 0 {
        return Err(broken("puts of at most 0 bytes or 0 segments"));
    }
    if rank >= plan.size() {
        return Err(broken(&format!("there is no rank {rank} of {}", plan.size())));
    }
    rank::lower(plan, rank, *limits)
}

fn broken(what: &str) -> Error {
    Error::new(ErrorKind::Argument, format!("cannot lower the plan: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::allgather::circulant::Allgather;
    use crate::plan::allgatherv::circulant::{Allgatherv, Blocks};
    use crate::plan::barrier::dissemination::Barrier;
    use crate::plan::bcast::circulant::Bcast;

    const PLAIN: WireLimits = WireLimits::PLAIN;

    #[test]
    fn a_barrier_is_q_notifies_and_nothing_else() {
        let plan = Barrier::new(20).unwrap();
        let program = lower(&plan, 7, &PLAIN).unwrap();
        assert!(program.ops.iter().all(|op| op.kind == OpKind::Notify));
        assert_eq!(program.ops.iter().map(|op| op.waits).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!((program.counters(), program.arrivals), (5, 5));
    }

    #[test]
    fn a_split_block_counts_its_parts() {
        let plan = Bcast::new(3, 1, 1000, 2).unwrap();
        let limits = WireLimits { max_put: 200, ..PLAIN };
        let program = lower(&plan, 2, &limits).unwrap();
        assert_eq!(
            program.expected.iter().map(|e| (e.arrivals, e.len)).collect::<Vec<_>>(),
            [(3, 512), (3, 488)]
        );
        assert!(program.waiters.iter().all(|&(count, _)| count == 3));
        assert_eq!(program.peers.iter().map(|p| p.bytes_in).sum::<u64>(), 1000);
    }

    #[test]
    fn one_block_per_owner_goes_in_two_runs_a_round() {
        for p in 2..70_u64 {
            let displs: Vec<u64> = (0..p).map(|j| 100 * j).collect();
            let counts = vec![100; displs.len()];
            let v = Allgatherv::new(&counts, &displs, &Blocks::Equal(1), true).unwrap();
            let a = Allgather::new(u32::try_from(p).unwrap(), 100, false).unwrap();
            for plan in [&v as &dyn Plan, &a] {
                let program = lower(plan, 1, &PLAIN).unwrap();
                for round in 0..plan.rounds() {
                    let puts = program.ops.iter().filter(|op| op.kind == OpKind::Put && op.round == round);
                    assert!((1..=2).contains(&puts.count()), "p = {p}, round {round}");
                }
            }
        }
    }

    #[test]
    fn what_only_a_reduce_reads_needs_not_land() {
        use crate::plan::reduce_scatter::direct::{Direct, Results};
        let plan = Direct::new(5, Results::Everywhere, 5000 * 8, 8, Some(3), false).unwrap();
        let program = lower(&plan, 2, &PLAIN).unwrap();
        // Of four contributions to each block the first lands where the sum shall be.
        let folds: Vec<u32> = program.folds.iter().copied().filter(|op| *op != NO_OP).collect();
        assert_eq!(folds.len(), 3 * 3);
        for (c, op) in program.folds.iter().enumerate().filter(|(_, op)| **op != NO_OP) {
            let op = program.ops[*op as usize];
            assert!(matches!(op.kind, OpKind::Reduce(_)) && op.len == program.expected[c].len);
        }
        // Split puts are not one; and what others read, too, must be there.
        let split = WireLimits { max_put: 100, ..PLAIN };
        assert!(lower(&plan, 2, &split).unwrap().folds.is_empty());
        let scattered = crate::plan::reduce_scatter::plain::ReduceScatter::block(
            8,
            80,
            8,
            false,
            crate::plan::reduce_scatter::core::Way::Ring,
        );
        assert!(lower(&scattered.unwrap(), 2, &PLAIN).unwrap().folds.is_empty());
        assert!(lower(&Barrier::new(20).unwrap(), 7, &PLAIN).unwrap().folds.is_empty());
    }

    #[test]
    fn light_pieces_share_puts() {
        let p = 16;
        let displs: Vec<u64> = (0..p).map(|j| 200 * j).collect();
        let counts = vec![100; displs.len()];
        let plan = Allgatherv::new(&counts, &displs, &Blocks::Equal(1), false).unwrap();
        let puts = |limits: &WireLimits| {
            let program = lower(&plan, 5, limits).unwrap();
            program.ops.iter().filter(|op| op.kind == OpKind::Put).count()
        };
        assert_eq!(puts(&PLAIN), 15);
        assert_eq!(puts(&WireLimits { light: 1000, ..PLAIN }), 4);
        assert_eq!(puts(&WireLimits { light: 1000, gather: 4, ..PLAIN }), 1 + 1 + 1 + 2);
        assert_eq!(puts(&WireLimits { light: 1000, gather: 8, ..PLAIN }), 4);
        // Messages of 1, 2, 4 and 8 pieces.
        assert_eq!(puts(&WireLimits { light: 1000, few: 3, ..PLAIN }), 1 + 2 + 1 + 1);
        assert_eq!(puts(&WireLimits { light: 1000, few: 9, ..PLAIN }), 15);
    }

    #[test]
    fn what_is_joined_follows_from_the_wire() {
        let wire = |latency_ns, overhead_ns, byte_ps| {
            let model = LogGp { latency_ns, overhead_ns, byte_ps, reduce_ps: 0 };
            let limits = WireLimits::new(1 << 30, 4, 100, &model);
            (limits.few, limits.coalesce)
        };
        assert_eq!(wire(1_000_000, 30_000, 80_000), (34, 3750));
        assert_eq!(wire(1500, 200, 80), (8, 25_000));
        assert_eq!(wire(0, 0, 0), (2, 10_000));
    }
}
