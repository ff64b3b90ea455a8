//! Many calls at the same time on the simulated wire: mixed traffic, threads, progress between calls.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "tests may panic"
)]

use circulant::diagnostics::{CountingAllocator, live_allocations};
use circulant::transport::{Borrow, sim};
use circulant::{Communicator, InPlace, Result, World, ops};
use circulant_tests::allgather::Exchanges;
use circulant_tests::collective::cover::Random;
use circulant_tests::ranks;
use circulant_tests::traffic::{check_some, draw, subset, traffic};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Tests measure the memory of the process, so one runs at a time.
static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn one() -> std::sync::MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Steps of a test: the whole of them in `ci/collectives`.
fn steps(some: usize, all: usize) -> usize {
    if std::env::var("COLLECTIVES").is_ok_and(|v| v == "full") { all } else { some }
}

fn seed() -> u64 {
    let seed = std::env::var("COLLECTIVES_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("COLLECTIVES_SEED={seed}");
    seed
}

#[test]
fn mixed_traffic() {
    let (_one, seed) = (one(), seed());
    for (p, many) in [(5, steps(4000, 10_000)), (2, steps(2000, 10_000)), (8, steps(2000, 10_000)), (1, 500)]
    {
        for r in ranks::run(p, &sim::Faults::default(), &[], |world, _| traffic(world, seed, many, false)) {
            r.unwrap();
        }
    }
}

/// What the setting `limits` takes, one part of a kind; of those in a row a wire has one.
const FORCED: &[&[&str]] =
    &[&["gather=1"], &["max_put=4096"], &["inject=0"], &["queue=2"], &["unordered"], &["word=16", "no-word"]];

/// Runs `body` on three ranks of a good wire with these limits.
fn limited(limits: &str, body: impl Fn(&World) -> Result<()> + Sync) {
    println!("limits {limits}");
    let settings = [("limits", limits), ("light", "200"), ("window", "30000")];
    for r in ranks::run(3, &sim::Faults::default(), &settings, |world, _| body(world)) {
        r.unwrap();
    }
}

#[test]
fn every_algorithm_under_each_forced_limit() {
    let (_one, seed) = (one(), seed());
    for limits in FORCED.iter().copied().flatten() {
        limited(limits, |world| subset(3, seed).iter().try_for_each(|case| check_some(&world.comm(), case)));
    }
}

#[test]
fn mixed_traffic_under_each_forced_limit_of_a_real_wire() {
    let (_one, seed) = (one(), seed());
    for provider in ["shm", "tcp"] {
        for limits in FORCED.iter().copied().flatten() {
            println!("{provider}, limits {limits}");
            let settings = [("limits", *limits), ("window", "30000")];
            for r in ranks::run_over(provider, 3, &settings, |world, _| {
                traffic(world, seed, steps(40, 400), false)
            }) {
                r.unwrap();
            }
        }
    }
}

#[test]
fn mixed_traffic_under_each_two_forced_limits() {
    let (_one, seed) = (one(), seed());
    for (i, kind) in FORCED.iter().enumerate() {
        for other in FORCED[..i].iter().copied().flatten() {
            for one in *kind {
                limited(&format!("{one},{other}"), |world| traffic(world, seed, steps(60, 1000), false));
            }
        }
    }
}

#[test]
fn mixed_traffic_on_a_bad_wire() {
    let (_one, seed) = (one(), seed());
    let faults = sim::Faults {
        seed,
        refuse: 60,
        delay: 5,
        reorder: true,
        max_put: 2000,
        borrow: Borrow::Staged,
        ..sim::Faults::default()
    };
    let settings = [("light", "200"), ("window", "3000")];
    for p in [3, 7] {
        for r in
            ranks::run(p, &faults, &settings, |world, _| traffic(world, seed, steps(1500, 10_000), false))
        {
            r.unwrap();
        }
    }
}

/// Calls on `comm` from a thread of its own.
fn calls(comm: &Communicator, seed: u64, many: usize) -> Result<()> {
    let mut random = Random(seed);
    (0..many).try_for_each(|_| check_some(comm, &draw(Random(random.draw()), comm.size())))
}

/// Odd ranks are in the call on the second communicator first, even ones in that on the first; no rank goes on before
/// the other call has finished, too.
#[test]
fn threads_call_in_opposite_orders() {
    let (_one, seed) = (one(), seed());
    let results = ranks::run(4, &sim::Faults::default(), &[], |_, comm| {
        let comms = [comm.dup()?, comm.split(Some(comm.rank() as i64 / 2), 0)?.unwrap(), comm.dup()?];
        let entered = AtomicUsize::new(0);
        for round in 0..30 {
            // Which one this rank calls first.
            let first = (comm.rank() + round) % 2;
            entered.store(0, Ordering::Release);
            std::thread::scope(|scope| {
                let call = |i: usize, late: bool| {
                    let (comm, entered) = (&comms[i], &entered);
                    scope.spawn(move || {
                        while late && entered.load(Ordering::Acquire) == 0 {
                            std::thread::yield_now();
                        }
                        entered.fetch_add(1, Ordering::Release);
                        let mut sum = vec![1u64; 1000];
                        comm.allreduce(circulant::InPlace, &mut sum, ops::Sum)?;
                        assert_eq!(sum[999], comm.size() as u64);
                        Ok::<(), circulant::Error>(())
                    })
                };
                // The third communicator's ranks take turns with the first's.
                let threads = [call([0, 2][first], false), call([2, 0][first], true)];
                threads.into_iter().try_for_each(|t| t.join().unwrap())
            })?;
        }
        // And three threads with anything, as they come.
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (i, comm) in comms.iter().enumerate() {
                threads.push(scope.spawn(move || calls(comm, seed + i as u64, 60)));
            }
            threads.into_iter().try_for_each(|t| t.join().unwrap())
        })
    });
    results.into_iter().for_each(|r| r.unwrap());
}

/// Requests move on while no rank calls, if a thread is asked for. No rank is in any call until all arrived.
#[test]
fn a_thread_moves_requests_on() {
    let _one = one();
    let p = 5;
    let (begun, arrived) = (Barrier::new(p), Barrier::new(p));
    let results = ranks::run(p, &sim::Faults::default(), &[("progress", "thread")], |world, comm| {
        let mut data = comm.alloc::<u64>(50_000)?;
        if comm.rank() == 2 {
            data.fill(7);
        }
        // By a chain, so that all but the last pass it on.
        let options = circulant::Options::new().algorithm("chain");
        let before = world.stats();
        let mut request = comm.with(options).ibcast(data, 2)?;
        begun.wait();
        let give_up = Instant::now() + Duration::from_secs(15);
        let expected = 400_000 * (p as u64 - 1);
        let sent = || world.stats().put_bytes - before.put_bytes;
        let mine = if (comm.rank() + p - 2) % p == p - 1 { 0 } else { 400_000 };
        while sent() < mine && Instant::now() < give_up {
            // Looking moves nothing.
            std::thread::sleep(Duration::from_millis(1));
        }
        let moved = sent();
        arrived.wait();
        assert_eq!(moved, mine, "of {expected} in all, this rank passed on");
        assert!(request.test()?);
        assert!(request.wait()?.recv.iter().all(|x| *x == 7));
        Ok(())
    });
    results.into_iter().for_each(|r| r.unwrap());
}

/// Makes communicators by its members alone, uses each for a call by plan and a short one, and drops it.
fn assembles(comm: &Communicator, exchanges: &Exchanges, numbers: std::ops::Range<usize>) -> Result<()> {
    let p = comm.size();
    for number in numbers {
        let list: Vec<usize> = (0..p).map(|i| (i + number) % p).collect();
        let position = (comm.rank() + p - number % p) % p;
        let made = comm.assemble(&list, |ours| exchanges.allgather((&list, number), position, ours))?;
        assert_eq!(made.rank(), position);
        let mut sum = [1u64; 100];
        made.allreduce(InPlace, &mut sum, ops::Sum)?;
        assert_eq!(sum, [p as u64; 100]);
        made.ibcast(made.alloc_from(&sum)?, number % p)?.wait()?;
    }
    Ok(())
}

/// From three threads at once, each with lists of its own; what they took is given back.
#[test]
fn communicators_are_made_by_the_thousand() {
    let _one = one();
    let (p, threads, some) = (2, 3, steps(350, 2000));
    for provider in ["sim", "shm"] {
        let (exchanges, barrier) = (Exchanges::default(), Barrier::new(p));
        let in_use = |world: &World| {
            barrier.wait();
            let used = (live_allocations(), world.stats().buffers);
            barrier.wait();
            used
        };
        let results = ranks::run_over(provider, p, &[("deadline", "60")], |world, comm| {
            let comms: Vec<_> = (0..threads).map(|_| comm.dup()).collect::<Result<_>>()?;
            let go = |part: usize| {
                std::thread::scope(|scope| {
                    let begin = |(thread, comm)| {
                        let first = (thread * 2 + part) * some;
                        scope.spawn({
                            let exchanges = &exchanges;
                            move || assembles(comm, exchanges, first..first + some)
                        })
                    };
                    let all: Vec<_> = comms.iter().enumerate().map(begin).collect();
                    all.into_iter().try_for_each(|thread| thread.join().unwrap())
                })
            };
            go(0)?;
            let before = in_use(world);
            go(1)?;
            let after = in_use(world);
            // One piece for each that was made would be a thousand.
            let made = (threads * some) as i64;
            assert!(after.0 - before.0 < made / 4, "{before:?} pieces of memory, then {after:?}");
            assert!(after.1 <= before.1 + 64, "{before:?} pieces of memory, then {after:?}");
            Ok(())
        });
        results.into_iter().for_each(|r| r.unwrap());
    }
}
