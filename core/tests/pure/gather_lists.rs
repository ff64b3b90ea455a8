//! What a message leaves as where a put gathers: pieces that lie anywhere at their sender and one behind the other at their
//! target are one request to where they belong; nothing is packed.

use crate::proof::{MODEL, Random, algorithms, programs, seed};
use circulant_core::plan::interpret::{Goal, check};
use circulant_core::plan::lower::{MAX_RUN_BYTES, Op, OpKind, Program, Segment, WireLimits};
use circulant_core::plan::registry::{Algorithm, Arguments, Operation};
use circulant_core::plan::{Kind, Place, Plan, Region, Step};

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

/// Copies that put pieces together.
fn packed(program: &Program) -> impl Iterator<Item = &Op> {
    program.ops.iter().filter(|op| op.kind == OpKind::Copy && op.target.region == Region::Work)
}

fn packing(program: &Program) -> usize {
    packed(program).count()
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

/// What an alltoall of these ranks by this line packs without gather lists, and with them; checked.
fn alltoall(line: &Algorithm, a: &Arguments, random: &mut Random) -> [(usize, u64); 2] {
    let plan = (line.build)(a, &MODEL).unwrap();
    let case = format!("alltoall {} {a:?}", line.name);
    [1, GATHER].map(|gather| {
        let limits = WireLimits { gather, ..WireLimits::PLAIN };
        let programs = programs(&*plan, &limits);
        let goal = Goal::alltoall(a.size, a.bytes);
        check(&*plan, &programs, &goal, random.below(1 << 60)).unwrap_or_else(|v| panic!("{case}: {v}"));
        let longest = programs.iter().flat_map(|program| &program.ops).map(|op| op.segments).max();
        assert!(longest.unwrap_or(0) as usize <= gather, "{case}");
        let copies = programs.iter().flat_map(packed);
        copies.fold((0, 0), |(count, bytes), op| (count + 1, bytes + op.len))
    })
}

/// What is packed for one put leaves as its gather list; where that is too long the shortest pieces are packed.
#[test]
fn an_alltoall_packs_what_no_gather_list_holds() {
    let seed = seed();
    println!("PLAN_PROOF_SEED={seed}");
    let mut random = Random(seed);
    for line in algorithms(Operation::Alltoall) {
        let (mut before, mut after) = ((0, 0), (0, 0));
        for size in (2..=RANKS).chain([64, 100, 128]) {
            let a = arguments(size, &mut random);
            if (line.fits)(&a).is_err() {
                continue;
            }
            let [without, with] = alltoall(line, &a, &mut random);
            assert!(with <= without, "{} of {size} ranks: {without:?} {with:?}", line.name);
            if size <= RANKS {
                assert_eq!(with, (0, 0), "{} of {size} ranks", line.name);
            } else if without.1 > 0 {
                assert!(with.1 < without.1, "{} of {size} ranks: {without:?} {with:?}", line.name);
            }
            (before, after) =
                ((before.0 + without.0, before.1 + without.1), (after.0 + with.0, after.1 + with.1));
        }
        println!("alltoall {}: copies and bytes packed: {before:?}, with gather lists {after:?}", line.name);
        if ["bruck", "circulant"].contains(&line.name) {
            assert!(before.0 > 0 && after.1 < before.1 / 4, "{before:?} {after:?}");
        }
    }
}

/// Where each byte of a gather list is read from: as a number of the whole input where that lies in pieces.
fn read(program: &Program, op: &Op, input: &[u64]) -> Vec<(Region, u64)> {
    let list = &program.segments[op.first_segment as usize..][..op.segments as usize];
    let bytes =
        list.iter().flat_map(|s| (s.place.offset..s.place.offset + s.len).map(|at| (s.place.region, at)));
    let known = |(region, at): (Region, u64)| match region {
        Region::Input => (region, input[usize::try_from(at).unwrap()]),
        _ => (region, at),
    };
    bytes.map(known).collect()
}

/// An input that lies in pieces is read there, each byte as before, and no put gathers more than it can.
#[test]
fn an_input_in_pieces_is_read_where_it_lies() {
    let seed = seed();
    println!("PLAN_PROOF_SEED={seed}");
    let mut random = Random(seed);
    for size in 2..=9u32 {
        let a = arguments(size, &mut random);
        let line = algorithms(Operation::Alltoall).next().unwrap();
        let plan = (line.build)(&a, &MODEL).unwrap();
        let limits = WireLimits { max_put: 1 + random.below(2 * a.bytes), ..WireLimits::PLAIN };
        let program = &programs(&*plan, &limits)[0];
        let whole = u64::from(size) * a.bytes;
        // In the reverse order, with holes.
        let (mut pieces, mut memory, mut at, mut begin) =
            (Vec::new(), vec![0; 4 * whole as usize], 3 * whole, 0);
        while begin < whole {
            let len = (1 + random.below(a.bytes)).min(whole - begin);
            at -= len + random.below(2);
            pieces.push(Segment { place: Place::new(Region::Input, at), len });
            (0..len).for_each(|i| memory[(at + i) as usize] = begin + i);
            begin += len;
        }
        let own: Vec<u64> = (0..whole).collect();
        let most = usize::try_from(whole).unwrap();
        let gathered = program.clone().with_input(&pieces, most).unwrap();
        for (before, after) in program.ops.iter().zip(&gathered.ops) {
            assert_eq!((before.kind, before.target, before.len), (after.kind, after.target, after.len));
            assert_eq!(read(program, before, &own), read(&gathered, after, &memory));
        }
        let longest = gathered.ops.iter().filter(|op| op.kind == OpKind::Put).map(|op| op.segments).max();
        let longest = longest.unwrap() as usize;
        program.clone().with_input(&pieces, longest).unwrap();
        program.clone().with_input(&pieces, longest - 1).unwrap_err();
        pieces.pop();
        program.clone().with_input(&pieces, most).unwrap_err();
    }
}
