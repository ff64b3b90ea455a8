//! Allgatherv with displacements of each rank's own.

use crate::collective::cover::Random;
use crate::ranks;

use circulant::comm::{Local, Parts};
use circulant::transport::{Borrow, sim};
use circulant::{Communicator, ErrorKind, InPlace, Result};

/// What stands in gaps.
const OLD: u64 = 77;

/// Element `i` of `rank`.
fn value(rank: usize, i: usize) -> u64 {
    (rank * 1_000_000 + i + 1) as u64
}

/// How a rank gives its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Counts alone.
    Counts,
    /// Displacements of its own, which are those of counts alone.
    Dense,
    /// Gaps before parts, in the order of ranks.
    Gaps,
    /// Another order, and gaps.
    Permuted,
}

const KINDS: [Kind; 4] = [Kind::Counts, Kind::Dense, Kind::Gaps, Kind::Permuted];

/// The counts of all ranks, and the displacements of one.
struct Shape {
    counts: Vec<usize>,
    displs: Vec<usize>,
    kind: Kind,
    extent: usize,
}

impl Shape {
    fn new(p: usize, rank: usize, unit: usize, seed: u64) -> Self {
        let mut alike = Random(seed);
        let counts: Vec<usize> =
            (0..p).map(|_| [0, 1, 2, 5][alike.below(4)] * unit + alike.below(2)).collect();
        let mut own = Random(seed ^ (rank as u64 + 1) << 32);
        let kind = KINDS[own.below(KINDS.len())];
        let (mut order, mut displs, mut extent): (Vec<usize>, _, _) = ((0..p).collect(), vec![0; p], 0);
        if kind == Kind::Permuted {
            own.shuffle(&mut order);
        }
        for part in order {
            extent += if kind == Kind::Gaps || kind == Kind::Permuted { own.below(3) } else { 0 };
            displs[part] = extent;
            extent += counts[part];
            // Where nothing is does not matter.
            if counts[part] == 0 && kind == Kind::Permuted {
                displs[part] = usize::MAX;
            }
        }
        Self { counts, displs, kind, extent: extent + own.below(2) }
    }

    fn laid(&self, parts: impl Iterator<Item = usize>) -> Vec<u64> {
        let mut all = vec![OLD; self.extent];
        for part in parts.filter(|part| self.counts[*part] > 0) {
            let place = &mut all[self.displs[part]..][..self.counts[part]];
            place.iter_mut().enumerate().for_each(|(i, x)| *x = value(part, i));
        }
        all
    }
}

/// All forms of the call.
fn forms(comm: &Communicator, shape: &Shape, in_place: bool, parts: impl Parts + Copy) -> Result<()> {
    let me = comm.rank();
    let mine: Vec<u64> = (0..shape.counts[me]).map(|i| value(me, i)).collect();
    let given = (!in_place).then_some(&mine[..]);
    let before = shape.laid(in_place.then_some(me).into_iter());
    let want = shape.laid(0..comm.size());
    let at = format!("at {me} of {}, in place {in_place}, {:?}", comm.size(), shape.kind);

    let mut recv = before.clone();
    comm.allgatherv(given, &mut recv, parts)?;
    assert_eq!(recv, want, "{at}");
    let mut recv = comm.alloc_from(&before)?;
    comm.allgatherv(given, &mut recv, parts)?;
    assert_eq!(recv[..], want, "{at}");
    let mut recv = before.clone();
    comm.scope(|s| {
        let request = s.iallgatherv(given, &mut recv, parts)?;
        // Some are left to the scope.
        if me.is_multiple_of(2) { request.wait().map(drop) } else { Ok(()) }
    })?;
    assert_eq!(recv, want, "{at}");
    let mut recv = before.clone();
    // SAFETY: both slices outlive the operation, which is waited for before they are touched, and are different ones.
    let mut often = unsafe { comm.unscoped().allgatherv_init(given, &mut recv, parts)? };
    for _ in 0..2 {
        often.start()?;
        often.wait()?;
    }
    drop(often);
    assert_eq!(recv, want, "{at}");
    let owned = || given.map(|given| comm.alloc_from(given)).transpose();
    let request = comm.iallgatherv(owned()?, comm.alloc_from(&before)?, parts)?;
    assert_eq!(request.wait()?.recv[..], want, "{at}");
    let mut often = comm.allgatherv_init(owned()?, comm.alloc_from(&before)?, parts)?;
    for _ in 0..3 {
        often.output()?.copy_from_slice(&before);
        often.start()?;
        often.wait()?;
        assert_eq!(often.output()?, want, "{at}");
    }
    Ok(())
}

fn one(comm: &Communicator, unit: usize, seed: u64, in_place: bool) -> Result<()> {
    let shape = Shape::new(comm.size(), comm.rank(), unit, seed);
    match shape.kind {
        Kind::Counts => forms(comm, &shape, in_place, &shape.counts),
        _ => forms(comm, &shape, in_place, Local { counts: &shape.counts, displs: &shape.displs }),
    }
}

fn some(comm: &Communicator, seed: u64) -> Result<()> {
    let mut random = Random(seed);
    // Short calls, and those that are too long for one.
    for unit in [1, 30, 3000] {
        for _ in 0..6 {
            let seed = random.draw();
            one(comm, unit, seed, seed.is_multiple_of(2))?;
        }
    }
    Ok(())
}

fn seed() -> u64 {
    let seed = std::env::var("COLLECTIVES_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("COLLECTIVES_SEED={seed}");
    seed
}

#[test]
fn every_rank_places_parts_as_it_likes() {
    let seed = seed();
    let bad = sim::Faults { seed, refuse: 60, delay: 5, reorder: true, max_put: 1000, ..Default::default() };
    let staged = sim::Faults { borrow: Borrow::Staged, ..bad.clone() };
    for p in [1, 2, 3, 5, 8] {
        for faults in [&bad, &staged] {
            let all = ranks::run(p, faults, &[], |_, comm| some(comm, seed + p as u64));
            all.into_iter().for_each(|result| result.unwrap());
        }
        for provider in ["shm", "tcp"] {
            let settings = [("deadline", "20")];
            let all = ranks::run_over(provider, p, &settings, |_, comm| some(comm, seed + p as u64));
            all.into_iter().for_each(|result| result.unwrap_or_else(|e| panic!("{provider}: {e}")));
        }
    }
}

/// Between groups each rank places what it gets as it likes, too.
#[test]
fn between_groups() {
    let seed = seed();
    let all = ranks::run(7, &sim::Faults::default(), &[], |_, comm| {
        let world = comm.group();
        let first = world.include(&[0, 1, 2])?;
        let inter = comm.create_inter(&first, &world.difference(&first))?.unwrap();
        for round in 0..8 {
            let (ours, theirs) = if comm.rank() < 3 { (0, 1) } else { (1, 0) };
            let group =
                |group: usize, ranks| Shape::new(ranks, comm.rank(), 40, seed + 2 * round + group as u64);
            let (sent, shape) = (group(ours, inter.size()), group(theirs, inter.remote_size()));
            let mine: Vec<u64> = (0..sent.counts[inter.rank()]).map(|i| value(inter.rank(), i)).collect();
            let parts = Local { counts: &shape.counts, displs: &shape.displs };
            // Where the others have ours is not for us to know.
            let unknown = Local { counts: &sent.counts, displs: &sent.displs };
            let (want, mut recv) = (shape.laid(0..inter.remote_size()), vec![OLD; shape.extent]);
            inter.allgatherv(&mine, &sent.counts, &mut recv, parts)?;
            assert_eq!(recv, want);
            let buffers = (comm.alloc_from(&mine)?, comm.alloc_from(&vec![OLD; shape.extent])?);
            let done = inter.iallgatherv(buffers.0, unknown, buffers.1, parts)?.wait()?;
            assert_eq!(done.recv[..], want);
            recv.fill(OLD);
            inter.scope(|s| s.iallgatherv(&mine, unknown, &mut recv, parts)?.wait().map(drop))?;
            assert_eq!(recv, want);
        }
        Ok(())
    });
    all.into_iter().for_each(|result| result.unwrap());
}

/// A rank whose own parts overlap or do not fit is refused, and the others learn of it, whatever way the call takes.
#[test]
fn wrong_displacements() {
    for unit in [2, 5000] {
        for (displs, room, words) in [
            ([0, 1, 2], 3, "overlap"),
            ([2, 0, 0], 3, "overlap"),
            ([3, 0, 1], 3, "do not fit into recv"),
            ([1, 0, usize::MAX / 8], 3, "do not fit into recv"),
        ] {
            let body = |comm: &Communicator| {
                let (counts, mine) = ([2 * unit, unit, unit], vec![1u8; [2, 1, 1][comm.rank()] * unit]);
                let (bad, good) = (displs.map(|d: usize| d.saturating_mul(unit)), [2 * unit, 0, unit]);
                let wrong = comm.rank() == 1;
                let displs = if wrong { &bad } else { &good };
                let mut recv = vec![0; (room + 1) * unit];
                comm.allgatherv(&mine, &mut recv, Local { counts: &counts, displs })?;
                comm.barrier()
            };
            let simulated = ranks::run(3, &sim::Faults::default(), &[], |_, comm| body(comm));
            let shared = ranks::run_shared(3, &[("deadline", "20")], |_, comm| body(comm));
            for result in simulated.into_iter().chain(shared) {
                let e = result.unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Argument, "{displs:?}: {e}");
                assert!(e.to_string().contains(words), "{displs:?}: {e}");
            }
        }
    }
    let all = ranks::run(2, &sim::Faults::default(), &[], |_, comm| {
        let displs: &[usize] = if comm.rank() == 0 { &[0] } else { &[1, 0] };
        comm.allgatherv(&[1u8], &mut [0; 2], Local { counts: &[1, 1], displs }).and_then(|()| comm.barrier())
    });
    for result in all {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("2 counts and 1 displacements for 2 ranks"), "{text}");
    }
}

/// What all ranks must agree on are counts: they are compared, displacements of one's own are not.
#[test]
fn counts_are_compared() {
    for unit in [1, 3000] {
        let body = |comm: &Communicator| {
            let (me, last) = (comm.rank(), if comm.rank() == 1 { 2 } else { 1 });
            let (counts, displs) = ([unit, unit, last * unit], [(me + 3) * unit, me * unit, (me + 1) * unit]);
            let mine = vec![1u8; counts[me]];
            comm.allgatherv(&mine, &mut vec![0; 10 * unit], Local { counts: &counts, displs: &displs })?;
            comm.barrier()
        };
        let settings = [("deadline", "20")];
        let simulated = ranks::run(3, &sim::Faults::default(), &[], |_, comm| body(comm));
        let shared = ranks::run_shared(3, &settings, |_, comm| body(comm));
        for result in simulated.into_iter().chain(shared) {
            let text = result.unwrap_err().to_string();
            assert!(text.contains("count of rank 2") && !text.contains("displacement"), "{text}");
        }
    }
}

/// In place of some ranks only is refused as ever.
#[test]
fn in_place_is_everybodys() {
    let all = ranks::run(3, &sim::Faults::default(), &[], |_, comm| {
        let parts = Local { counts: &[1; 3], displs: &[2, 1, 0] };
        let done = match comm.rank() {
            0 => comm.allgatherv(InPlace, &mut [1u64; 3], parts),
            _ => comm.allgatherv(&[1u64], &mut [0; 3], parts),
        };
        done.and_then(|()| comm.barrier())
    });
    for result in all {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("in place"), "{text}");
    }
}
