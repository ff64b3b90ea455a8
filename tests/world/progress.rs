//! What `World::progress` moves.

use crate::ranks;

use circulant::launch::threads;
use circulant::{InPlace, Result, World, ops};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// In seconds. Only stops what hangs: a rank that waits in vain for another one gets an error after it.
const DEADLINE: (&str, &str) = ("deadline", "10");
/// As long as rank 0 goes on at most.
const LONG: Duration = Duration::from_secs(20);

/// Rank 0 makes no call of its request before rank 1 has finished its own, which needs rank 0's part.
#[test]
fn a_request_moves_on_while_nothing_but_progress_is_called() {
    for wire in ["sim", "shm", "tcp"] {
        let finished = AtomicBool::new(false);
        let results = ranks::run_over(wire, 2, &[DEADLINE], |world, comm| {
            let mut mine = comm.alloc::<u64>(50_000)?;
            mine.fill(1 + comm.rank() as u64);
            let sum = comm.iallreduce(InPlace, mine, ops::Sum)?;
            if comm.rank() == 0 {
                let end = Instant::now() + LONG;
                while !finished.load(Ordering::Acquire) && Instant::now() < end {
                    world.progress();
                }
            }
            let sum = sum.wait();
            finished.store(true, Ordering::Release);
            assert!(sum?.recv.iter().all(|x| *x == 3));
            Ok(())
        });
        for result in results {
            result.unwrap_or_else(|e| panic!("{wire}: {e}"));
        }
    }
}

/// An operator works while its call has the engine: `progress` neither waits for that nor goes in again.
#[test]
fn inside_an_operator_it_returns_at_once() {
    let called = Arc::new(AtomicUsize::new(0));
    let rank = |launch| -> Result<()> {
        let world =
            World::builder().launch(launch).set("provider", "shm").set(DEADLINE.0, DEADLINE.1).init()?;
        let world = Arc::new(world);
        let (within, calls) = (Arc::downgrade(&world), Arc::clone(&called));
        let sum = move |a: u64, b: u64| {
            within.upgrade().unwrap().progress();
            calls.fetch_add(1, Ordering::Relaxed);
            a + b
        };
        let mut data = [1u64; 5];
        world.comm().allreduce(InPlace, &mut data, ops::user("nested", true, sum))?;
        assert_eq!(data, [2; 5]);
        Arc::into_inner(world).unwrap().finalize()
    };
    std::thread::scope(|scope| {
        let ranks: Vec<_> =
            threads::group_on(vec![0; 2]).into_iter().map(|launch| scope.spawn(|| rank(launch))).collect();
        ranks.into_iter().for_each(|rank| rank.join().unwrap().unwrap());
    });
    assert!(called.load(Ordering::Relaxed) > 0);
}
