//! Many rooted calls one after the other: a rank that need not wait completes calls before a late one enters them, at most as many as there are slots.

use crate::calls::{self, Case, given};
use crate::{all, print_if_failing, seed};
use circulant::{Result, World, ops};
use circulant_tests::collective::cover::Random;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// In elements of 8 bytes: none, one, the most that a short slot holds and one more, the most that lies in a slot where each of a few ranks has a core of its own, some
/// more, and the most that any slot holds.
const LENGTHS: [usize; 7] = [0, 1, 44, 45, 512, 1501, 2048];
/// Longest run of calls of the same root: more than there are slots.
const MAX_RUN: usize = 150;

/// This thread, and the ranks that it starts, may use two of its cores from now on.
fn share_two_cores() {
    let (all, mut two) = (sched_getaffinity(None).unwrap(), CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).take(2).for_each(|core| two.set(core));
    sched_setaffinity(None, &two).unwrap();
}

#[test]
fn what_ranks_post_far_ahead_is_there_when_a_late_one_reads_it() {
    // In a thread of its own: no other test runs on two cores.
    std::thread::spawn(run_ahead).join().unwrap();
}

fn run_ahead() {
    let seed = seed();
    let rooted: Vec<_> = calls::ALL
        .iter()
        .filter(|(name, _)| ["bcast", "reduce", "gather", "scatter"].contains(name))
        .collect();
    share_two_cores();
    for p in [2, 3, 5] {
        all(p, |_, comm| {
            let mut random = Random(seed ^ p as u64);
            let mut call = 0;
            for _ in 0..40 {
                // The same at all ranks.
                let [root, late] = [random.below(p), random.below(p)];
                let (name, operation) = rooted[random.below(rooted.len())];
                // Only short posts, or of all lengths.
                let most = if random.below(2) == 0 { 3 } else { LENGTHS.len() };
                for i in 0..1 + random.below(MAX_RUN) {
                    let case =
                        Case { call, len: LENGTHS[random.below(most)], root, in_place: random.below(2) == 0 };
                    if i % 70 == 3 && comm.rank() == late {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    print_if_failing(&format!("{name} at {} of {p}: {case:?}", comm.rank()), || {
                        operation(comm, case)
                    })?;
                    call += 1;
                }
            }
            Result::Ok(())
        });
    }
}

/// A rank that calls when the one before it has returned reads its result and no further post; by an inexact operator the posts of all before it.
#[test]
fn a_late_scan_reads_the_result_of_the_rank_before() {
    std::thread::spawn(scan_late).join().unwrap();
}

fn scan_late() {
    share_two_cores();
    const P: usize = 5;
    let returned: [AtomicUsize; P] = Default::default();
    let in_turn = |world: &World, call: &mut dyn FnMut() -> Result<()>| -> Result<(u64, u64)> {
        let comm = world.comm();
        comm.barrier()?;
        let (rank, before) = (comm.rank(), world.stats());
        let turn = returned[rank].load(Ordering::Acquire);
        while rank > 0 && returned[rank - 1].load(Ordering::Acquire) == turn {
            std::thread::yield_now();
        }
        call()?;
        returned[rank].fetch_add(1, Ordering::Release);
        let after = world.stats();
        Ok((after.arrivals - before.arrivals, after.copied_bytes - before.copied_bytes))
    };
    all(P, |world, comm| {
        let rank = comm.rank() as u64;
        // In elements of 8 bytes: one; the most that have room behind a post in a short slot; the least whose post does not lie in one; and more.
        for len in [1, 22, 45, 1000] {
            let (mine, mut out) = (given(0, comm.rank(), len), vec![0; len]);
            let bytes = 8 * len as u64;
            let scan = in_turn(world, &mut || comm.scan(&mine, &mut out, ops::Bxor))?;
            assert_eq!(scan, (rank.min(1), bytes * (1 + rank.min(1))), "scan of {len} by {rank}");
            let (arrivals, _) = in_turn(world, &mut || comm.exscan(&mine, &mut out, ops::Bxor))?;
            assert_eq!(arrivals, rank.min(1), "exscan of {len} by {rank}");
            let mine = vec![0.1 * rank as f64; len];
            let (arrivals, _) = in_turn(world, &mut || comm.scan(&mine, &mut vec![0.0; len], ops::Sum))?;
            assert_eq!(arrivals, rank, "inexact scan of {len} by {rank}");
        }
        Ok(())
    });
}
