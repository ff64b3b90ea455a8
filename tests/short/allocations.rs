//! That calls allocate nothing once they have run.

use crate::calls::given;
use crate::{all, run};
use circulant::comm::Local;
use circulant::diagnostics::allocations;
use circulant::{Communicator, ErrorKind, InPlace, Options, Request, Result, ops};

/// What is counted, and that nothing is sent or allocated.
#[test]
fn a_short_call_sends_nothing_and_allocates_nothing() {
    const CALLS: u64 = 200;
    const TIMES: usize = 10;
    let counted = all(4, |world, comm| {
        let (mut word, mut all, mut block) = ([1u64; 4], vec![0u64; 16], vec![0f32; 4096]);
        let sent = [5u64; 16];
        let (counts, displs) = ([4; 4], [0, 4, 8, 12]);
        let mut round = |n: u64| -> Result<()> {
            for i in 0..n {
                comm.bcast(&mut word, (i % 4) as usize)?;
                comm.allreduce(InPlace, &mut word, ops::Min)?;
                comm.reduce(&[1u64], &mut word[..1], ops::Sum, 2)?;
                comm.allreduce(InPlace, &mut block, ops::Sum)?;
                comm.allgather(&word, &mut all)?;
                comm.allgatherv(&word, &mut all, (&counts, &displs))?;
                comm.barrier()?;
                let blocks = (&counts, &displs);
                comm.gather(&word, &mut all, 2)?;
                comm.gatherv(&word, &mut all, blocks, 2)?;
                comm.gatherv_rooted(&word, &mut all, blocks, 2)?;
                comm.scatter(&sent, &mut word, 2)?;
                comm.scatterv(&sent, blocks, &mut word, 2)?;
                comm.scatterv_rooted(&sent, blocks, &mut word, 2)?;
                comm.alltoall(&sent, &mut all)?;
                comm.alltoallv(&sent, blocks, &mut all, blocks)?;
                comm.reduce_scatter(&sent, &mut word, blocks, ops::Max)?;
                comm.reduce_scatter_block(InPlace, &mut all, ops::Max)?;
                comm.scan(InPlace, &mut word, ops::Max)?;
                comm.exscan(InPlace, &mut word, ops::Max)?;
            }
            Ok(())
        };
        round(100)?;
        let mut counted = Vec::with_capacity(TIMES);
        for _ in 0..TIMES {
            comm.barrier()?;
            let (before, heap) = (world.stats(), allocations());
            comm.barrier()?;
            round(CALLS)?;
            comm.barrier()?;
            let (after, heap) = (world.stats(), allocations() - heap);
            comm.barrier()?;
            // With the barriers around.
            assert_eq!(after.operations - before.operations, 19 * CALLS + 2);
            assert_eq!(after.rounds - before.rounds, 19 * CALLS + 2);
            // Barriers; what all read of all; at the root of what one reads, or of what all read of one; bcasts of each root.
            let arrivals =
                2 * 3 + CALLS * (9 * 3) + CALLS * if comm.rank() == 2 { 4 * 3 } else { 3 } + CALLS * 3 / 4;
            // In a scan the posts of all ranks before ours, or of those behind one that has its result.
            let (rank, scans) = (comm.rank() as u64, 2 * CALLS);
            let scanned = after.arrivals - before.arrivals - arrivals;
            assert!((scans * rank.min(1)..=scans * rank).contains(&scanned), "{scanned} of {scans} scans");
            counted.push((after.messages - before.messages, heap));
        }
        Ok(counted)
    });
    // A rank that waits for long says so to the one that it waits for: on a busy machine now and then.
    for counted in counted {
        assert!(counted.contains(&(0, 0)), "messages and allocations: {counted:?}");
    }
}

/// The heap allocations of this process while all ranks make `calls` 20 times, eight times over, once they have made them as often.
fn counted(comm: &Communicator, calls: &mut dyn FnMut() -> Result<()>) -> Result<Vec<u64>> {
    const CALLS: usize = 20;
    const TIMES: usize = 8;
    (0..CALLS).try_for_each(|_| calls())?;
    comm.barrier()?;
    let mut counted = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let before = allocations();
        comm.barrier()?;
        (0..CALLS).try_for_each(|_| calls())?;
        comm.barrier()?;
        counted.push(allocations() - before);
        comm.barrier()?;
    }
    Ok(counted)
}

/// At every rank: one that waits for long on a busy machine allocates what it says of that.
fn none_at_one_time(ranks: Vec<Vec<u64>>) {
    for counted in ranks {
        assert!(counted.contains(&0), "allocations: {counted:?}");
    }
}

/// Lists that a call makes of counts, and in which it looks for overlaps.
#[test]
fn displacements_that_calls_make_allocate_nothing() {
    none_at_one_time(all(4, |_, comm| {
        let (word, counts) = ([comm.rank() as u64; 4], [4; 4]);
        let (mut all, mut one) = ([0u64; 16], [0u64; 4]);
        let sent: Vec<u64> = (0..16).collect();
        let turned = Local { counts: &counts, displs: &[12, 8, 4, 0] };
        let mut calls = || -> Result<()> {
            comm.allgatherv(&word, &mut all, &counts)?;
            comm.allgatherv(&word, &mut all, turned)?;
            comm.gatherv(&word, &mut all, &counts, 1)?;
            comm.gatherv_rooted(&word, &mut all, &counts, 1)?;
            comm.gatherv_rooted(&word, &mut all, turned, 1)?;
            comm.scatterv(&sent, &counts, &mut one, 1)?;
            comm.scatterv_rooted(&sent, &counts, &mut one, 1)?;
            comm.alltoallv(&sent, &counts, &mut all, &counts)?;
            comm.alltoallv(&sent, turned, &mut all, turned)?;
            comm.reduce_scatter(&sent, &mut one, &counts, ops::Max)?;
            Ok(())
        };
        counted(comm, &mut calls)
    }));
}

/// Calls by plan that are called as ones before are not checked and planned again, which would make lists of their counts. Two ranks have no part in some.
#[test]
fn calls_of_plans_that_come_again_allocate_nothing() {
    none_at_one_time(all(4, |_, comm| {
        let by = |algorithm| comm.with(Options::new().algorithm(algorithm));
        let (direct, circulant) = (by("direct"), by("circulant"));
        let (counts, few) = ([40, 30, 20, 10], [0, 7, 0, 0]);
        let (sent, mut all) = (comm.alloc::<u64>(100)?, comm.alloc::<u64>(100)?);
        let mut mine = comm.alloc::<u64>(counts[comm.rank()])?;
        let mut some = comm.alloc::<u64>(few[comm.rank()])?;
        let mut calls = || -> Result<()> {
            circulant.allgatherv(&mine, &mut all, &counts)?;
            direct.gatherv(&mine, &mut all, &counts, 1)?;
            direct.scatterv(&sent, &counts, &mut mine, 1)?;
            direct.scatterv(&sent, &few, &mut some, 2)?;
            circulant.reduce_scatter(&sent, &mut mine, &counts, ops::Max)?;
            circulant.bcast(&mut all, 3)?;
            Ok(())
        };
        counted(comm, &mut calls)
    }));
}

/// It copies; what is wrong is refused as ever.
#[test]
fn a_rank_alone_plans_nothing() {
    const CALLS: u64 = 100;
    const TIMES: usize = 8;
    let ended = run(vec![0], &[], |world, comm| {
        // The second one is longer than a post.
        for len in [4, 40_000] {
            let (given, mut got) = (given(7, 0, len), vec![0; len]);
            // Operators are made in the first ones, and the test's own threads allocate now and then.
            let mut allocated = Vec::with_capacity(TIMES);
            for _ in 0..TIMES {
                let before = (world.stats(), allocations());
                for _ in 0..CALLS {
                    comm.barrier()?;
                    comm.bcast(&mut got, 0)?;
                    comm.allgather(&given, &mut got)?;
                    comm.gather(&given, &mut got, 0)?;
                    comm.scatter(&given, &mut got, 0)?;
                    comm.alltoall(&given, &mut got)?;
                    comm.reduce(&given, &mut got, ops::Max, 0)?;
                    comm.allreduce(&given, &mut got, ops::Max)?;
                    comm.allreduce(InPlace, &mut got, ops::Max)?;
                    comm.reduce_scatter_block(&given, &mut got, ops::Max)?;
                    comm.scan(&given, &mut got, ops::Max)?;
                    comm.exscan(&given, &mut got, ops::Max)?;
                }
                let (after, heap) = (world.stats(), allocations());
                assert_eq!(after.operations - before.0.operations, 12 * CALLS);
                assert_eq!((after.rounds - before.0.rounds, after.puts - before.0.puts), (0, 0));
                allocated.push(heap - before.1);
            }
            assert!(got == given && allocated.contains(&0), "allocations: {allocated:?}");
        }
        comm.allgather(&[1u8; 3], &mut [0; 4])
    });
    assert_eq!(
        ended[0].as_ref().unwrap_err().kind(),
        ErrorKind::Argument,
        "three bytes where four are received"
    );
}

/// Events of every kind, of more calls than the ring has room for, and times of calls: all memory is there from the first call of its kind on.
#[test]
fn recording_and_timing_allocate_nothing() {
    const CALLS: usize = 200;
    let settings = [("record-events", "64"), ("stats", "yes")];
    let counted = run(vec![0; 3], &settings, |world, comm| {
        let planned = comm.with(Options::new().algorithm("circulant").blocks(5));
        let (mut word, mut block) = ([1u64; 1], vec![0u8; 40_000]);
        let mut kept = planned.bcast_init(comm.alloc::<u8>(40_000)?, 1)?;
        let mut round = |n: usize| -> Result<()> {
            for _ in 0..n {
                comm.barrier()?;
                comm.allreduce(InPlace, &mut word, ops::Min)?;
                planned.bcast(&mut block, 0)?;
                kept.start()?;
                kept.wait()?;
            }
            comm.barrier()
        };
        round(CALLS)?;
        let before = allocations();
        round(CALLS)?;
        let after = allocations();
        comm.barrier()?;
        let timed: u64 = world.latencies()?.iter().map(|class| class.calls).sum();
        assert!(timed > 8 * CALLS as u64, "only {timed} calls were timed");
        let record = world.record()?;
        assert!(record.lost > 0 && record.events.len() >= 64, "{} events", record.events.len());
        Ok(after - before)
    });
    assert_eq!(counted.into_iter().collect::<Result<Vec<_>>>().unwrap(), [0; 3]);
}

/// A request that is dropped gives its program back, as one that is waited for: the next call like it plans nothing.
#[test]
fn a_dropped_request_keeps_its_program() {
    const CALLS: u64 = 50;
    let counted = all(2, |_, comm| {
        let planned = comm.with(Options::new().algorithm("circulant").blocks(30));
        let calls = |end: fn(Request<u8>) -> Result<()>| -> Result<u64> {
            comm.barrier()?;
            let before = allocations();
            for _ in 0..CALLS {
                end(planned.ibcast(comm.alloc(100_000)?, 0)?)?;
            }
            comm.barrier()?;
            Ok(allocations() - before)
        };
        let waited: fn(Request<u8>) -> Result<()> = |request| request.wait().map(drop);
        // The first one plans.
        calls(waited)?;
        let waited = calls(waited)?;
        let dropped = calls(|mut request| request.test().map(drop))?;
        Ok((waited, dropped))
    });
    // Both ranks' are counted, and a program takes dozens.
    assert!(counted.iter().all(|(waited, dropped)| *dropped < waited + 2 * CALLS), "{counted:?}");
}
