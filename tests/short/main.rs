//! Short calls of ranks that share memory: threads on the real wire.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "tests may panic"
)]

mod ahead;
mod allocations;
mod bounds;
mod calls;
mod lent;
mod overlap;
mod two;

use calls::{Case, given};
use circulant::diagnostics::CountingAllocator;
use circulant::launch::threads;
use circulant::ops;
use circulant::{Communicator, Error, ErrorKind, InPlace, Options, Result, World};
use circulant_tests::collective::cover::Random;
use std::sync::Mutex;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// One at a time: others would allocate, and there are more threads than cores as it is.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs `body` at every rank of a world over our own shared memory.
fn run<R: Send>(
    nodes: Vec<u32>,
    settings: &[(&str, &str)],
    body: impl Fn(&World, &Communicator) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    std::thread::scope(|scope| {
        let ranks = threads::group_on(nodes).into_iter();
        let handles: Vec<_> = ranks
            .map(|launch| {
                let body = &body;
                scope.spawn(move || {
                    let mut builder = World::builder().launch(launch).set("provider", "shm");
                    for (name, value) in [("deadline", "20")].iter().chain(settings) {
                        builder = builder.set(name, value);
                    }
                    let world = builder.init()?;
                    let result = body(&world, &world.comm())?;
                    world.finalize()?;
                    Ok(result)
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    })
}

fn all<R: Send>(p: usize, body: impl Fn(&World, &Communicator) -> Result<R> + Sync) -> Vec<R> {
    run(vec![0; p], &[], body).into_iter().map(|r| r.unwrap_or_else(|e| panic!("{p} ranks: {e}"))).collect()
}

fn seed() -> u64 {
    let seed = std::env::var("COLLECTIVES_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("COLLECTIVES_SEED={seed}");
    seed
}

/// One call, drawn and checked.
fn one(comm: &Communicator, random: &mut Random, call: usize) -> Result<()> {
    let (p, r) = (comm.size(), comm.rank());
    // In elements of 8 bytes: none, one, odd, the most that a short call takes of some operation, more, much more.
    let len = [0, 1, 2, 31, 32, 33, 44, 45, 100, 512, 513, 1501, 2048, 2049, 40_000][random.below(15)];
    let case = Case { call, len, root: random.below(p), in_place: random.below(2) == 0 };
    if let Some((name, operation)) = calls::ALL.get(random.below(calls::ALL.len() + 1)) {
        print_if_failing(&format!("{name} at {r} of {p}: {case:?}"), || operation(comm, case))
    } else {
        // A request under way meanwhile.
        let mut data = comm.alloc(len)?;
        data.copy_from_slice(&given(call, if r == case.root { r } else { 99 }, len));
        let request = comm.ibcast(data, case.root)?;
        let mut sum = [r as u64];
        comm.allreduce(InPlace, &mut sum, ops::Sum)?;
        assert_eq!(sum[0], (p * (p - 1) / 2) as u64, "{case:?}");
        assert!(request.wait()?.recv[..] == given(call, case.root, len), "ibcast, {case:?}");
        Ok(())
    }
}

/// Says what was called where its result is wrong.
fn print_if_failing<R>(what: &str, call: impl FnOnce() -> R) -> R {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        eprintln!("wrong result: {what}");
        std::panic::resume_unwind(panic)
    })
}

#[test]
fn calls_of_all_kinds_and_lengths_on_several_communicators() {
    let seed = seed();
    for (p, calls) in
        [(1, 300), (2, 1500), (3, 700), (4, 500), (5, 300), (6, 300), (7, 200), (8, 200), (9, 200)]
    {
        all(p, |world, comm| {
            let half = comm.split(Some((comm.rank() % 2) as i64), -(comm.rank() as i64))?.unwrap();
            let comms = [comm.clone(), comm.dup()?, half];
            let mut random = Random(seed);
            for call in 0..calls {
                // Which one must not depend on the rank; those of one half are in step with each other only.
                let comm = &comms[random.below(3)];
                let mut own = Random(random.0);
                one(comm, &mut own, call)?;
                if world.size() == 3 && call % 50 == 0 {
                    // One is late.
                    if comm.rank() == 1 {
                        std::thread::sleep(std::time::Duration::from_millis(2));
                    }
                }
            }
            Ok(())
        });
    }
}

/// Communicators that come and go, more of them than there are places.
#[test]
fn slots_are_used_again() {
    all(3, |world, comm| {
        let mut kept = Vec::new();
        for round in 0..200u64 {
            let other = comm.dup()?;
            let before = world.stats().messages;
            let mut word = [if comm.rank() == 0 { round } else { 99 }];
            other.bcast(&mut word, 0)?;
            assert_eq!(word[0], round);
            other.allreduce(InPlace, &mut word, ops::Sum)?;
            assert_eq!(word[0], 3 * round);
            // A rank that gets none uses messages, and so do all.
            assert!(round > 20 || world.stats().messages == before, "no short call in round {round}");
            if round % 20 == 0 {
                kept.push(other);
            }
        }
        // More than there are, all alive.
        let many: Vec<_> = (0..40).map(|_| comm.dup()).collect::<Result<_>>()?;
        for (i, other) in many.iter().chain(&kept).enumerate() {
            let mut word = [i + comm.rank()];
            other.allreduce(InPlace, &mut word, ops::Max)?;
            assert_eq!(word[0], i + 2);
        }
        drop(many);
        // The places are there again.
        let other = comm.dup()?;
        let before = world.stats().messages;
        other.barrier()?;
        assert_eq!(world.stats().messages, before);
        Ok(())
    });
}

/// On a node of more ranks than a communicator with short calls can have a rank has not mapped the memory of all others: here none of its
/// part, whose ranks are multiples of 9 apart.
#[test]
fn parts_of_a_large_node_have_short_calls() {
    const RANKS: usize = 72;
    all(RANKS, |world, comm| {
        let part = comm.split(Some((comm.rank() % 9) as i64), 0)?.expect("each is in a part");
        let before = world.stats().messages;
        for call in 0..20 {
            let mut sum = [comm.rank() + call];
            part.allreduce(InPlace, &mut sum, ops::Sum)?;
            let first = comm.rank() % 9;
            assert_eq!(sum[0], (first..RANKS).step_by(9).map(|rank| rank + call).sum());
        }
        assert_eq!(world.stats().messages, before, "no short calls");
        comm.barrier()
    });
}

/// Elements of which a part could be longer than there is room for.
#[test]
fn large_elements_are_folded_whole() {
    all(3, |_, comm| {
        let sum = |a: [u64; 2048], b: [u64; 2048]| std::array::from_fn(|i| a[i] + b[i]);
        let mut word = vec![[comm.rank() as u64; 2048]];
        comm.allreduce(InPlace, &mut word, ops::user("sum", true, sum))?;
        assert!(word.iter().flatten().all(|x| *x == 3));
        Ok(())
    });
}

type Wrong = fn(&Communicator, bool) -> Result<()>;

/// Calls that are each right, but differ: short and short, short and long, and by name.
const DIFFERENT: &[(&str, Wrong)] = &[
    ("bcast", |c, odd| c.bcast(&mut vec![0u8; 4 + usize::from(odd)], 0)),
    ("bcast", |c, odd| c.bcast(&mut [0u8; 4], usize::from(odd))),
    ("bcast", |c, odd| c.bcast(&mut vec![0u8; if odd { 100_000 } else { 4 }], 0)),
    ("bcast", |c, odd| c.bcast(&mut vec![0u8; if odd { 4 } else { 100_000 }], 0)),
    ("bcast", |c, odd| c.bcast(&mut vec![0u8; if odd { 4 } else { 100_000 }], 1)),
    ("bcast", |c, odd| {
        let algorithm = odd.then_some("binomial");
        c.with(Options::new().algorithm(algorithm)).bcast(&mut [0u8; 4], 0)
    }),
    ("bcast", |c, odd| {
        let algorithm = odd.then_some("binomial");
        c.with(Options::new().algorithm(algorithm)).bcast(&mut [0u8; 4], 1)
    }),
    ("allgather", |c, odd| {
        c.allgather(&vec![1u8; 1 + usize::from(odd)], &mut vec![0; 3 + 3 * usize::from(odd)])
    }),
    ("allgatherv", |c, odd| c.allgatherv(&[1u8], &mut [0; 4], (&[1; 3], &[0, 1, 2 + usize::from(odd)]))),
    ("reduce", |c, odd| c.reduce(&vec![1u64; 1 + usize::from(odd)], &mut [0], ops::Sum, 0)),
    ("reduce", |c, odd| c.reduce(&[1u64], &mut [0], ops::Sum, usize::from(odd))),
    ("allreduce", |c, odd| c.allreduce(InPlace, &mut vec![1u64; 1 + usize::from(odd)], ops::Sum)),
    ("allreduce", |c, odd| c.allreduce(InPlace, &mut vec![1u64; if odd { 9000 } else { 1 }], ops::Sum)),
    ("allreduce", |c, odd| match odd {
        true => c.allreduce(InPlace, &mut [1u64], ops::Max),
        false => c.allreduce(InPlace, &mut [1u64], ops::Sum),
    }),
    ("allreduce", |c, odd| match odd {
        true => c.allreduce(InPlace, &mut [1i64], ops::Sum),
        false => c.allreduce(InPlace, &mut [1u64], ops::Sum),
    }),
    ("", |c, odd| if odd { c.barrier() } else { c.bcast(&mut [0u8; 4], 0) }),
    ("", |c, odd| if odd { c.bcast(&mut [0u8; 4], 0) } else { c.barrier() }),
    ("", |c, odd| if odd { c.bcast(&mut [0u8; 4], 1) } else { c.allreduce(InPlace, &mut [1u64], ops::Sum) }),
    ("", |c, odd| if odd { c.allgather(&[1u8], &mut [0; 3]) } else { c.bcast(&mut [0u8; 4], 0) }),
    ("", |c, odd| if odd { c.ibcast(c.alloc::<u8>(4)?, 0)?.wait().map(drop) } else { c.barrier() }),
    ("", |c, odd| if odd { c.scan(&[1u64], &mut [0], ops::Sum) } else { c.barrier() }),
];

fn mismatches(e: &[Error], what: &str, name: &str) {
    for (rank, e) in e.iter().enumerate() {
        let text = e.to_string();
        assert_eq!(e.kind(), ErrorKind::Mismatch, "{what}, at rank {rank}: {text}");
        assert!(text.contains(name) && text.contains("rank 1"), "{what}, at rank {rank}: {text}");
        assert!(e.peer().is_some() && e.operation().is_some(), "{what}, at rank {rank}: {text}");
    }
}

fn failing(p: usize, body: impl Fn(&World, &Communicator) -> Result<()> + Sync) -> Vec<Error> {
    let results = run(vec![0; p], &[], |world, comm| {
        body(world, comm)?;
        // A root may have gone on.
        comm.barrier()?;
        comm.barrier()
    });
    results.into_iter().map(|r| r.expect_err("no error")).collect()
}

#[test]
fn ranks_that_disagree_are_told_so() {
    for (i, (name, call)) in DIFFERENT.iter().enumerate() {
        for before in [0, 5] {
            let errors = failing(3, |_, comm| {
                (0..before).try_for_each(|_| comm.bcast(&mut [1u8], 2))?;
                call(comm, comm.rank() == 1)
            });
            mismatches(&errors, &format!("case {i}, {before} calls before"), name);
        }
    }
}

/// One makes a call more than the others.
#[test]
fn a_call_too_many_is_told() {
    let errors = failing(3, |_, comm| {
        if comm.rank() == 1 {
            comm.bcast(&mut [1u8], 1)?;
        }
        comm.allreduce(InPlace, &mut [1u64], ops::Sum)
    });
    mismatches(&errors, "one more", "");
}

#[test]
fn a_rank_that_leaves_or_stays_away_is_named() {
    // Its world is dropped in the midst.
    let results = run(vec![0; 4], &[], |_, comm| {
        for i in 0..1000 {
            if comm.rank() == 2 && i == 500 {
                return Err(Error::new(ErrorKind::Argument, "gone"));
            }
            comm.bcast(&mut [1u8; 8], i % 4)?;
            comm.barrier()?;
        }
        Ok(())
    });
    for (rank, e) in results.into_iter().enumerate().filter(|(rank, _)| *rank != 2) {
        let e = e.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::PeerLost, "rank {rank}: {e}");
        assert!(e.peer() == Some(2) && e.operation().is_some(), "rank {rank}: {e}");
    }
    let results = run(vec![0; 4], &[("deadline", "1")], |_, comm| {
        if comm.rank() == 2 {
            std::thread::sleep(std::time::Duration::from_secs(3));
        }
        comm.barrier()
    });
    for (rank, e) in results.into_iter().enumerate().filter(|(rank, _)| *rank != 2) {
        let e = e.unwrap_err();
        assert_eq!((e.kind(), e.peer()), (ErrorKind::Timeout, Some(2)), "rank {rank}: {e}");
        assert!(
            e.to_string().contains("barrier #") && e.to_string().contains("not answer"),
            "rank {rank}: {e}"
        );
    }
}

/// A panic of an operator is an error at all.
#[test]
fn an_operator_that_panics_is_told() {
    let errors = failing(3, |_, comm| {
        let bad = comm.rank() == 1;
        let sum = move |a: u64, b: u64| if bad { panic!("no {a}") } else { a + b };
        comm.allreduce(InPlace, &mut [1u64; 5], ops::user("mine", true, sum))
    });
    for e in errors {
        assert!(e.kind() == ErrorKind::Argument && e.to_string().contains("panicked: no 1"), "{e}");
    }
}

/// Two threads in calls of two communicators, in another order than on other ranks.
#[test]
fn threads_with_communicators_of_their_own() {
    all(3, |_, comm| {
        let comms = [comm.dup()?, comm.dup()?];
        std::thread::scope(|scope| {
            let threads: Vec<_> = comms
                .iter()
                .enumerate()
                .map(|(t, comm)| {
                    scope.spawn(move || -> Result<()> {
                        for i in 0..300u64 {
                            if comm.rank() == t && i % 100 == 0 {
                                std::thread::sleep(std::time::Duration::from_millis(3));
                            }
                            let mut sum = [i * (t as u64 + 1)];
                            comm.allreduce(InPlace, &mut sum, ops::Sum)?;
                            assert_eq!(sum[0], 3 * i * (t as u64 + 1));
                        }
                        Ok(())
                    })
                })
                .collect();
            threads.into_iter().try_for_each(|t| t.join().unwrap())
        })
    });
}

/// What the settings or the call name is what runs.
#[test]
fn named_algorithms_go_their_own_way() {
    let sends = |settings: &[(&str, &str)], options: Options| {
        let sent = run(vec![0; 3], settings, |world, comm| {
            let comm = comm.with(options.clone());
            let before = world.stats().messages + world.stats().puts;
            comm.bcast(&mut [1u8], 0)?;
            let after = world.stats().messages + world.stats().puts;
            world.comm().barrier()?;
            Ok((after - before, world.stats().rounds))
        });
        sent.into_iter().map(|r| r.unwrap().0).sum::<u64>()
    };
    // One post; or two messages.
    assert_eq!(sends(&[], Options::default()), 1);
    assert!(sends(&[("algorithm", "bcast=binomial")], Options::default()) >= 2);
    assert!(sends(&[], Options::new().algorithm("linear")) >= 2);
    assert!(sends(&[], Options::new().blocks(1)) >= 2);
    assert!(sends(&[("blocks", "2")], Options::default()) >= 2);
}
