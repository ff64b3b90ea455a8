//! What callers do wrong beside single arguments (`arguments.rs`): every rank gets an error that says what and where; nothing hangs, nothing dangles.

use crate::ranks;

use circulant::config::Launcher;
use circulant::ops::{self, Reducer};
use circulant::plan::registry::{Arguments, Operation, algorithms};
use circulant::transport::sim;
use circulant::{Communicator, Error, ErrorKind, InPlace, Options, Result, World};

/// Ranks of the tables' worlds.
const P: usize = 3;

/// What each of `p` ranks gets from `body`, then a barrier: a call may end before bad news come.
fn errors(p: usize, body: impl Fn(&World, &Communicator) -> Result<()> + Sync) -> Vec<Error> {
    // Some disagreements are found when ranks that wait ask around, shortly before the end.
    let settings = [("deadline", "5")];
    let results: Vec<Result<()>> = ranks::run(p, &sim::Faults::default(), &settings, |world, comm| {
        body(world, comm)?;
        world.comm().barrier()
    });
    results
        .into_iter()
        .enumerate()
        .map(|(r, e)| e.err().unwrap_or_else(|| panic!("no error at rank {r}")))
        .collect()
}

/// All are of this kind, say these words, and name the rank that it is about.
#[track_caller]
fn all_say(what: &str, errors: &[Error], kind: ErrorKind, culprit: Option<usize>, words: &[&str]) {
    for (rank, e) in errors.iter().enumerate() {
        let text = e.to_string();
        assert_eq!(e.kind(), kind, "{what}, at rank {rank}: {text}");
        for word in words {
            assert!(text.contains(word), "{what}, at rank {rank}: {word:?} is missing in {text:?}");
        }
        if let Some(culprit) = culprit {
            assert!(
                text.contains(&format!("rank {culprit}")),
                "{what}, at rank {rank}: no culprit in {text:?}"
            );
        }
    }
}

/// One reduction of any kind; `len` elements per rank.
fn reduction(comm: &Communicator, operation: Operation, op: &Reducer, len: usize) -> Result<()> {
    let p = comm.size();
    let (mine, mut out) = (vec![1u64; len], vec![0u64; len]);
    match operation {
        Operation::Reduce => comm.reduce(&mine, &mut out, op, 0),
        Operation::Allreduce => comm.allreduce(&mine, &mut out, op),
        Operation::ReduceScatter => comm.reduce_scatter(&vec![1u64; p * len], &mut out, &vec![len; p], op),
        Operation::ReduceScatterBlock => comm.reduce_scatter_block(&vec![1u64; p * len], &mut out, op),
        Operation::Scan => comm.scan(&mine, &mut out, op),
        Operation::Exscan => comm.exscan(&mine, &mut out, op),
        other => unreachable!("{other}"),
    }
}

fn reductions() -> impl Iterator<Item = Operation> {
    Operation::ALL.into_iter().filter(|o| o.reduces())
}

#[test]
fn an_operator_that_panics_is_an_error_everywhere() {
    for operation in reductions() {
        // Those that know nodes need a map of nodes, which these ranks do not have.
        let four = Arguments { size: 4, commutative: true, ..Arguments::default() };
        for algorithm in algorithms(operation).filter(|line| (line.fits)(&four).is_ok()) {
            let es = errors(4, |_, comm| {
                let boom = |_: u64, _: u64| -> u64 { panic!("boom") };
                let op = Reducer::new::<u64, _>(ops::user("explode", true, boom));
                let options = Options::new().algorithm(algorithm.name);
                reduction(&comm.with(options), operation, &op, 100)
            });
            let what = format!("{operation} by {}", algorithm.name);
            all_say(
                &what,
                &es,
                ErrorKind::Argument,
                None,
                &["the operator explode panicked: boom", operation.name()],
            );
        }
    }
}

#[test]
fn whose_operator_panics_is_named() {
    for rank in 0..4 {
        let es = errors(4, |_, comm| {
            let bad = comm.rank() == rank;
            let sum = move |a: u64, b: u64| if bad { panic!("no {a}") } else { a + b };
            // Every rank combines there. Prices may take a way by one rank, as the probe finds it.
            let comm = comm.with(Options::new().algorithm("doubling"));
            comm.allreduce(InPlace, &mut [1u64; 50], ops::user("mine", true, sum))
        });
        all_say("allreduce", &es, ErrorKind::Argument, Some(rank), &["the operator mine panicked: no 1"]);
    }
}

type Make = fn() -> Reducer;

/// By name, by type of the same size, by the flag.
#[test]
fn operators_that_differ_are_found_out() {
    let sum = || Reducer::new::<u64, _>(ops::user("sum", true, |a: u64, b: u64| a + b));
    let odd: [(&str, Make); 3] = [
        ("max", || Reducer::new::<u64, _>(ops::Max)),
        ("built in", || Reducer::new::<u64, _>(ops::Sum)),
        ("ordered", || Reducer::new::<u64, _>(ops::user("sum", false, |a: u64, b: u64| a + b))),
    ];
    for operation in reductions() {
        for (name, other) in odd {
            let es = errors(4, |_, comm| {
                let op = if comm.rank() == 2 { other() } else { sum() };
                reduction(comm, operation, &op, 100)
            });
            all_say(name, &es, ErrorKind::Mismatch, Some(2), &[operation.name(), "other arguments"]);
        }
    }
    let es = errors(4, |_, comm| match comm.rank() {
        2 => comm.allreduce(InPlace, &mut [1f64; 10], ops::Sum),
        _ => comm.allreduce(InPlace, &mut [1u64; 10], ops::Sum),
    });
    all_say("types", &es, ErrorKind::Mismatch, Some(2), &["allreduce"]);
}

/// A call, wrong at the rank that is told so.
type Wrong = fn(&Communicator, bool) -> Result<()>;

fn by(comm: &Communicator, algorithm: &str) -> Communicator {
    comm.with(Options::new().algorithm(algorithm))
}

/// What no rank sees by itself: each call is right, but they differ.
const DIFFERENT: &[(&str, Wrong)] = &[
    ("bcast", |c, odd| c.bcast(&mut vec![0u8; 4 + odd as usize], 0)),
    ("bcast", |c, odd| c.bcast(&mut [0u8; 4], odd as usize)),
    ("gather", |c, odd| c.gather(&vec![1u8; 1 + odd as usize], &mut [0; P], 0)),
    ("gatherv", |c, odd| c.gatherv(&[1u8], &mut [0; P + 1], (&[1; P], &[0, 1, 2 + odd as usize]), 0)),
    ("scatter", |c, odd| c.scatter(&[1u8; P], &mut vec![0u8; 1 + odd as usize], 0)),
    ("scatterv", |c, odd| c.scatterv(&[1u8; P + 1], &[1, 1, 1 + odd as usize], &mut [0], 0)),
    ("allgather", |c, odd| c.allgather(&vec![1u8; 1 + odd as usize], &mut vec![0; P * (1 + odd as usize)])),
    ("allgatherv", |c, odd| c.allgatherv(&[1u8], &mut [0; P + 1], (&[1; P], &[0, 1, 2 + odd as usize]))),
    ("alltoall", |c, odd| {
        c.alltoall(&vec![1u8; P * (1 + odd as usize)], &mut vec![0; P * (1 + odd as usize)])
    }),
    ("alltoallv", |c, odd| {
        let (ones, counts) = ([1; P], [1, 1, 1 + odd as usize]);
        c.alltoallv(&[1u8; P + 1], (&counts, &[0, 1, 2]), &mut [0; P], (&ones, &[0, 1, 2]))
    }),
    ("reduce", |c, odd| c.reduce(&vec![1u64; 1 + odd as usize], &mut [0], ops::Sum, 0)),
    ("allreduce", |c, odd| c.allreduce(InPlace, &mut vec![1u64; 1 + odd as usize], ops::Sum)),
    ("reduce_scatter", |c, odd| {
        let counts = if odd { [2, 1, 0] } else { [1, 1, 1] };
        c.reduce_scatter(&[1u64; P], &mut [0], &counts, ops::Sum)
    }),
    ("reduce_scatter_block", |c, odd| {
        c.reduce_scatter_block(&vec![1u64; P * (1 + odd as usize)], &mut vec![0; 1 + odd as usize], ops::Sum)
    }),
    ("scan", |c, odd| c.scan(&vec![1u64; 1 + odd as usize], &mut vec![0; 1 + odd as usize], ops::Sum)),
    ("exscan", |c, odd| c.exscan(&vec![1u64; 1 + odd as usize], &mut vec![0; 1 + odd as usize], ops::Sum)),
    ("operations", |c, odd| {
        if odd { c.scan(&[1u64], &mut [0], ops::Sum) } else { c.allreduce(&[1u64], &mut [0], ops::Sum) }
    }),
    ("algorithms", |c, odd| {
        by(c, if odd { "ring" } else { "circulant" }).allreduce(InPlace, &mut [1u64; 9], ops::Sum)
    }),
];

#[test]
fn disagreement() {
    for (name, call) in DIFFERENT {
        for r in ranks::run(P, &sim::Faults::default(), &[], |_, comm| call(comm, false)) {
            r.unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        let es = errors(P, |_, comm| call(comm, comm.rank() == 1));
        all_say(name, &es, ErrorKind::Mismatch, Some(1), &["called"]);
    }
}

#[test]
fn an_error_of_a_part_reaches_all() {
    let es = errors(5, |_, comm| {
        let part = comm.split(Some(comm.rank() as i64 % 2), 0)?.unwrap();
        // Rank 1 is the first of ranks 1 and 3.
        part.bcast(&mut [0u8; 4], if comm.rank() == 1 { 2 } else { 0 })
    });
    all_say("part", &es, ErrorKind::Argument, Some(1), &["root 2 is out of range: there are ranks 0 to 1"]);
    let es = errors(4, |_, comm| {
        let all = comm.group();
        let group = if comm.rank() == 1 { all.include(&[1, 0])? } else { all.include(&[0, 1])? };
        comm.create(&group).map(drop)
    });
    all_say("groups", &es, ErrorKind::Mismatch, None, &["must pass the same group"]);
}

#[test]
fn too_many_in_flight() {
    let es = errors(2, |_, comm| {
        let all: Result<Vec<_>> = (0..241).map(|_| comm.ibcast(comm.alloc::<u8>(1)?, 0)).collect();
        all?.into_iter().try_for_each(|r| r.wait().map(drop))
    });
    all_say("241 broadcasts", &es, ErrorKind::Argument, None, &["240 operations are in flight"]);
}

#[test]
fn dropping_a_request_waits() {
    for r in ranks::run(4, &sim::Faults { delay: 20, ..sim::Faults::default() }, &[], |world, comm| {
        let before = world.stats();
        let mut data = comm.alloc::<u64>(10_000)?;
        data.fill(comm.rank() as u64);
        drop(comm.iallreduce(InPlace, data, ops::Sum)?);
        assert_eq!(world.stats().operations, before.operations + 1);
        let mut often = comm.bcast_init(comm.alloc::<u64>(10_000)?, 1)?;
        let planned = often.planned();
        let before = world.stats();
        often.start()?;
        assert!(often.start().unwrap_err().to_string().contains("started twice"));
        assert!(often.output().is_err());
        drop(often);
        let after = world.stats();
        assert_eq!(
            (after.operations, after.arrivals),
            (before.operations + 1, before.arrivals + planned.arrivals)
        );
        Ok(())
    }) {
        r.unwrap();
    }
}

/// A forgotten request leaks its buffers; peers that still put into them do no harm, and the world goes on.
#[test]
fn a_forgotten_request_does_not_dangle() {
    for r in ranks::run(4, &sim::Faults { delay: 20, ..sim::Faults::default() }, &[], |_, comm| {
        for round in 0..20u64 {
            let mut data = comm.alloc::<u64>(10_000)?;
            data.fill(1);
            let request = comm.iallreduce(InPlace, data, ops::Sum)?;
            let mut often = comm.bcast_init(comm.alloc::<u64>(1000)?, 0)?;
            often.start()?;
            if (comm.rank() as u64 + round).is_multiple_of(2) {
                std::mem::forget((request, often));
            } else {
                assert_eq!(request.wait()?.recv[9999], 4);
                drop(often);
            }
            // New memory of the arena belongs to no operation: nothing that comes late changes it.
            let mut fresh = comm.alloc::<u64>(20_000)?;
            fresh.fill(round);
            comm.barrier()?;
            assert!(fresh.iter().all(|x| *x == round));
            let mut sum = [1u64; 100];
            comm.allreduce(InPlace, &mut sum, ops::Sum)?;
            assert_eq!(sum, [4; 100]);
        }
        Ok(())
    }) {
        r.unwrap();
    }
}

/// Loading a library runs its code, so a safe call does not name one.
#[test]
fn libraries_are_not_set_like_other_settings() {
    for (name, variable) in [
        ("libfabric", "CIRCULANT_LIBFABRIC"),
        ("libpmix", "CIRCULANT_LIBPMIX"),
        ("libpmi", "CIRCULANT_LIBPMI"),
    ] {
        let builder = World::builder().set(name, "/tmp/anything.so");
        let e = builder.launcher(Launcher::Single).init().expect_err(name);
        assert_eq!(e.kind(), ErrorKind::Config);
        for word in [variable, &format!("Builder::{name}")] {
            assert!(e.to_string().contains(word), "{word:?} is missing in {e}");
        }
    }
}
