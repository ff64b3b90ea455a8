//! What a message leaves as where a put gathers: pieces that lie anywhere at their sender and one behind the other at their
//! target are one request to where they belong; nothing is packed.

use crate::proof::{MODEL, Random, algorithms, programs, seed};
use circulant_core::plan::interpret::{Goal, check};
use circulant_core::plan::lower::{MAX_RUN_BYTES, Op, OpKind, Program, WireLimits};
use circulant_core::plan::registry::{Arguments, Operation};
use circulant_core::plan::{Kind, Plan, Region, Step};

/// The longest gather list of a common device of verbs.
const GATHER: usize = 30;
/// For any p up to this.
const RANKS: u32 = 24;

/// All pieces are light.
fn limits(gather: usize) -> WireLimits {
    WireLimits { gather, light: MAX_RUN_BYTES, ..WireLimits::PLAIN }
}

/// A message of a plan: what one rank puts to another in a round.
struct Message {
    round: u32,
    to: u32,
    /// Contiguous parts of its sources, and of its targets.
    pieces: usize,
    targets: usize,
}

fn messages(plan: &dyn Plan, rank: u32) -> Vec<Message> {
    let puts: Vec<Step> = plan.steps(rank).filter(|step| step.kind == Kind::Put).collect();
    let source =
        |a: &Step, b: &Step| a.source.region == b.source.region && a.source.offset + a.len == b.source.offset;
    let target =
        |a: &Step, b: &Step| a.target.region == b.target.region && a.target.offset + a.len == b.target.offset;
    puts.chunk_by(|a, b| (a.round, a.peer) == (b.round, b.peer))
        .map(|steps| Message {
            round: steps[0].round,
            to: steps[0].peer,
            pieces: steps.chunk_by(source).count(),
            targets: steps.chunk_by(target).count(),
        })
        .collect()
}

fn puts_of<'a>(program: &'a Program, message: &Message) -> Vec<&'a Op> {
    let is_of = |op: &&Op| {
        op.kind == OpKind::Put
            && op.round == message.round
            && program.peers[op.peer as usize].rank == message.to
    };
    program.ops.iter().filter(is_of).collect()
}

/// Operations of this kind that put pieces together.
fn packing(program: &Program) -> usize {
    program.ops.iter().filter(|op| op.kind == OpKind::Copy && op.target.region == Region::Work).count()
}

fn arguments(size: u32, random: &mut Random) -> Arguments {
    let counts: Vec<u64> = (0..size).map(|_| 8 * (1 + random.below(20))).collect();
    let displs = counts.iter().scan(0, |at, count| Some(std::mem::replace(at, *at + count))).collect();
    let nodes = random.nodes(size);
    Arguments {
        size,
        bytes: 64,
        counts,
        displs,
        element: 8,
        commutative: true,
        exact: true,
        blocks: Some(1),
        nodes,
        ..Arguments::default()
    }
}

/// Requests of all ranks: gathered, packed, and each run by itself.
#[derive(Debug, Default)]
struct Sums {
    gathered: usize,
    alone: usize,
    /// Messages with several sources and one target.
    joined: usize,
    /// Copies to pack, where puts gather nothing.
    packed: usize,
}

fn counted(plan: &dyn Plan, case: &str) -> Sums {
    let [gathered, packed, alone] =
        [limits(GATHER), limits(1), WireLimits::PLAIN].map(|limits| programs(plan, &limits));
    let mut sums = Sums::default();
    for rank in 0..plan.size() {
        let at = rank as usize;
        let own = plan.steps(rank).filter(|s| s.kind == Kind::Copy && s.target.region == Region::Work);
        assert!(packing(&gathered[at]) <= own.count(), "{case}: rank {rank} packs");
        sums.packed += packing(&packed[at]) - packing(&gathered[at]);
        for message in messages(plan, rank) {
            let puts = puts_of(&gathered[at], &message);
            sums.gathered += puts.len();
            sums.alone += puts_of(&alone[at], &message).len();
            if message.pieces > GATHER {
                continue;
            }
            assert_eq!(puts.len(), 1, "{case}: from {rank} to {} in round {}", message.to, message.round);
            if message.targets == 1 && message.pieces > 1 {
                sums.joined += 1;
                // Not to a landing slot, from which it would be copied.
                let land = plan.sizes(message.to).land;
                let target = puts[0].target;
                assert!(target.region != Region::Land || target.offset + puts[0].len <= land, "{case}");
                assert!(puts[0].segments > 1, "{case}: {} pieces", puts[0].segments);
            }
        }
    }
    sums
}

#[test]
fn irregular_pieces_leave_in_one_request_and_nothing_is_packed() {
    let seed = seed();
    println!("PLAN_PROOF_SEED={seed}");
    let mut random = Random(seed);
    for operation in [Operation::Allgatherv, Operation::ReduceScatter] {
        for line in algorithms(operation) {
            let mut sums = Sums::default();
            for size in 2..=RANKS {
                let a = arguments(size, &mut random);
                if (line.fits)(&a).is_err() {
                    continue;
                }
                let plan = (line.build)(&a, &MODEL).unwrap();
                let case = format!("{operation} {} {a:?}", line.name);
                let one = counted(&*plan, &case);
                assert!(one.gathered <= one.alone, "{case}: {one:?}");
                if operation == Operation::Allgatherv {
                    let goal = Goal::allgatherv(&a.counts, &a.displs, false);
                    let programs = programs(&*plan, &limits(GATHER));
                    check(&*plan, &programs, &goal, random.below(1 << 60))
                        .unwrap_or_else(|v| panic!("{case}: {v}"));
                }
                sums.gathered += one.gathered;
                sums.alone += one.alone;
                sums.joined += one.joined;
                sums.packed += one.packed;
            }
            println!("{operation} {}: {sums:?}", line.name);
            if (operation, line.name) == (Operation::Allgatherv, "circulant") {
                assert!(sums.gathered < sums.alone && sums.joined > 0 && sums.packed > 0, "{sums:?}");
            }
        }
    }
}
