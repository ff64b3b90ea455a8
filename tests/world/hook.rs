//! What a program has called while its calls wait.

use crate::ranks;

use circulant::comm::{Pending, wait_all, wait_any};
use circulant::{Communicator, ErrorKind, InPlace, Result, ops};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Only stops what hangs.
const LONG: Duration = Duration::from_secs(20);
const WIRES: [&str; 3] = ["sim", "shm", "tcp"];
const SETTINGS: [(&str, &str); 2] = [("deadline", "60"), ("progress", "thread")];

/// Until `done` says so, or for long; says whether it did.
fn until(done: impl Fn() -> bool) -> bool {
    let end = Instant::now() + LONG;
    while !done() && Instant::now() < end {
        std::thread::sleep(Duration::from_micros(200));
    }
    done()
}

/// How often a hook was called, and by which threads.
#[derive(Clone, Default)]
struct Calls {
    count: Arc<AtomicUsize>,
    threads: Arc<Mutex<HashSet<ThreadId>>>,
}

impl Calls {
    fn note(&self) {
        self.threads.lock().unwrap().insert(std::thread::current().id());
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }
}

/// A call in which rank 0 waits for rank 1.
type Waits = fn(&Communicator) -> Result<()>;

const WAITS: &[(&str, Waits)] = &[
    ("barrier", Communicator::barrier),
    ("a short call", |c| c.bcast(&mut [0u64; 10], 1)),
    ("a call by plan", |c| c.bcast(&mut vec![0u64; 20_000], 1)),
    ("a request", |c| c.ibarrier()?.wait().map(drop)),
    ("a request that is dropped", |c| c.ibarrier().map(drop)),
    ("wait_any", |c| {
        let mut barrier = c.ibarrier()?;
        let mut pending: Vec<&mut dyn Pending> = vec![&mut barrier];
        wait_any(&mut pending).map(drop)
    }),
    ("wait_all", |c| {
        let (mut barrier, mut word) = (c.ibarrier()?, c.ibcast(c.alloc::<u8>(1)?, 1)?);
        wait_all(&mut [&mut barrier, &mut word])
    }),
    ("a scope", |c| c.scope(|s| s.ibarrier()?.wait().map(drop))),
    ("the end of a scope", |c| c.scope(|s| s.ibarrier().map(drop))),
    ("wait_all in a scope", |c| c.scope(|s| wait_all(&mut [&mut s.ibarrier()?]))),
    ("binding", |c| c.allgather_init(c.alloc::<u8>(5)?, c.alloc(10)?).map(drop)),
    ("a persistent operation", |c| {
        let mut all = c.allgather_init(c.alloc::<u8>(5)?, c.alloc(10)?)?;
        all.start()?;
        all.wait()
    }),
    ("a split", |c| c.split(Some(0), 0).map(drop)),
];

/// Rank 1 comes to each call when rank 0's hook was called often enough while it waits there: each turn of a wait calls it, its
/// thread alone does.
#[test]
fn a_hook_is_called_while_a_call_waits() {
    for wire in WIRES {
        for (name, waits) in WAITS {
            let (calls, inside) = (Calls::default(), AtomicBool::new(false));
            let results = ranks::run_over(wire, 2, &SETTINGS, |world, comm| {
                if comm.rank() == 1 {
                    assert!(until(|| inside.load(Ordering::Acquire)), "rank 0 comes");
                    let before = calls.count();
                    let called = until(|| calls.count() >= before + 3);
                    waits(comm)?;
                    return Ok(called);
                }
                let noted = calls.clone();
                world.while_waiting(move || noted.note());
                inside.store(true, Ordering::Release);
                waits(comm)?;
                assert_eq!(*calls.threads.lock().unwrap(), HashSet::from([std::thread::current().id()]));
                Ok(true)
            });
            for called in results {
                assert!(called.unwrap(), "{name} over {wire} does not call it");
            }
        }
    }
}

#[test]
fn a_hook_is_called_in_finalize_and_goes_with_its_world() {
    for wire in WIRES {
        let calls = Calls::default();
        let results = ranks::run_over(wire, 2, &SETTINGS, |world, comm| {
            if comm.rank() == 0 {
                // It holds a communicator, which holds the world's memory.
                let (noted, kept) = (calls.clone(), comm.clone());
                world.while_waiting(move || {
                    assert_eq!(kept.size(), 2);
                    noted.note();
                });
                return Ok(true);
            }
            Ok(until(|| calls.count() > 0))
        });
        for called in results {
            assert!(called.unwrap(), "over {wire}");
        }
        assert_eq!(Arc::strong_count(&calls.count), 1, "the hook is dropped with its world");
    }
}

#[test]
fn the_last_hook_that_is_set_counts() {
    let (first, second) = (Calls::default(), Calls::default());
    for result in ranks::run_over("shm", 2, &SETTINGS, |world, comm| {
        if comm.rank() == 1 {
            let called = until(|| second.count() > 0);
            comm.barrier()?;
            return Ok(called);
        }
        let (one, two) = (first.clone(), second.clone());
        world.while_waiting(move || one.note());
        world.while_waiting(move || two.note());
        assert_eq!(Arc::strong_count(&first.count), 1, "the first one is dropped");
        comm.barrier()?;
        assert_eq!(first.count(), 0);
        Ok(true)
    }) {
        assert!(result.unwrap());
    }
}

/// Runs `body`; if it hangs the test fails, and leaves it there.
fn must_end(what: &str, body: impl FnOnce() + Send + 'static) {
    let (told, ended) = mpsc::channel();
    std::thread::spawn(move || {
        body();
        let _ = told.send(());
    });
    ended.recv_timeout(LONG).unwrap_or_else(|e| panic!("{what}: {e}"));
}

/// The hook of a thread that waits wants a lock of the program's, which another thread has while it wants the engine.
#[test]
fn a_hook_is_called_without_the_engine() {
    must_end("the hook holds the engine", || {
        for wire in ["sim", "shm"] {
            let hooked = AtomicBool::new(false);
            let results = ranks::run_over(wire, 2, &[("deadline", "60")], |world, comm| {
                let other = comm.dup()?;
                if comm.rank() == 1 {
                    other.ibarrier()?.wait()?;
                    return comm.barrier();
                }
                let programs = Arc::new(Mutex::new(()));
                let (wanted, entered) = (Arc::clone(&programs), Arc::new(AtomicBool::new(false)));
                let enters = Arc::clone(&entered);
                world.while_waiting(move || {
                    enters.store(true, Ordering::Release);
                    drop(wanted.lock().unwrap());
                });
                let has = programs.lock().unwrap();
                std::thread::scope(|scope| {
                    let waits = scope.spawn(|| comm.barrier());
                    assert!(until(|| entered.load(Ordering::Acquire)));
                    // It is in the hook, or wants to be.
                    let memory = other.alloc::<u64>(1000)?;
                    let mut begun = other.ibarrier()?;
                    begun.test()?;
                    drop((has, memory));
                    begun.wait()?;
                    waits.join().unwrap()
                })?;
                hooked.store(entered.load(Ordering::Acquire), Ordering::Release);
                Ok(())
            });
            results.into_iter().for_each(|result| result.unwrap());
            assert!(hooked.load(Ordering::Acquire));
        }
    });
}

/// It has the whole library, also calls that wait; these do not call it again.
#[test]
fn a_hook_may_call_into_its_world() {
    must_end("a hook that calls into its world", || {
        for wire in ["sim", "shm"] {
            let results = ranks::run_over(wire, 2, &[("deadline", "60")], |world, comm| {
                let (inner, depth, done) = (comm.dup()?, AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
                let sums = |inner: &Communicator| {
                    let mut sum = vec![1u64; 2000];
                    inner.allreduce(InPlace, &mut sum, ops::Sum)?;
                    assert_eq!(sum, [2; 2000]);
                    inner.barrier()
                };
                if comm.rank() == 1 {
                    // Rank 0 waits for us in the other communicator's barrier.
                    (0..5).try_for_each(|_| sums(&inner))?;
                    return comm.barrier();
                }
                let counted = Arc::clone(&done);
                world.while_waiting(move || {
                    assert_eq!(depth.fetch_add(1, Ordering::AcqRel), 0, "a hook within a hook");
                    if counted.load(Ordering::Acquire) < 5 {
                        sums(&inner).unwrap();
                        counted.fetch_add(1, Ordering::AcqRel);
                    }
                    depth.fetch_sub(1, Ordering::AcqRel);
                });
                comm.barrier()?;
                assert_eq!(done.load(Ordering::Acquire), 5);
                Ok(())
            });
            results.into_iter().for_each(|result| result.unwrap());
        }
    });
}

/// As a panic of an operator, it ends the world, but it comes out of the call.
#[test]
fn a_hook_that_panics_ends_the_world() {
    for wire in ["sim", "shm"] {
        let results = ranks::run_over(wire, 2, &[("deadline", "20")], |world, comm| {
            if comm.rank() == 1 {
                std::thread::sleep(Duration::from_millis(300));
                comm.barrier()?;
                return comm.barrier();
            }
            world.while_waiting(|| std::panic::resume_unwind(Box::new("boom")));
            let mut data = vec![0u8; 100_000];
            let payload = catch_unwind(AssertUnwindSafe(|| comm.bcast(&mut data, 1))).unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&"boom"));
            data.fill(1);
            let e = comm.barrier().unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Aborted, "{e}");
            Err::<(), _>(e)
        });
        for (rank, result) in results.into_iter().enumerate() {
            assert!(result.is_err(), "rank {rank} over {wire}");
        }
    }
}
