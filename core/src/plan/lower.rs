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
//!    takes it from the slot, so that unpacking delays no rank.
//! 3. **Single.** Every other run is a put of its own, or several if it is longer than
//!    [`WireLimits::max_put`].
//!
//! Sender and receiver decide alike, each from its own side: a message's [`Put`](super::Kind::Put)s and
//! [`Expect`](super::Kind::Expect)s mirror each other in order, source, target and length. What travels as one put
//! bumps one counter as often as there are puts; waits for any of its pieces become waits for that. It is the counter of
//! the first piece, or of a slot that of the highest number.
//!
//! Copies that only bring pieces together for a put are left out where it can gather them itself.
//!
//! Joins (copies of no bytes) are dissolved: what waits for one waits for what it waits for.

mod drafts;
mod folds;
mod limits;
mod parcels;
mod program;
mod rank;

pub(super) use limits::coalesce;
pub use limits::{MAX_RUN_BYTES, WireLimits, light_bytes};
pub use program::{Expected, NO_OP, Op, OpKind, Peer, Program, Segment};

use super::Plan;
use crate::error::Result;
use program::broken;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::LogGp;
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
