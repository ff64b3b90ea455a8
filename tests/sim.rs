//! The real engine on the simulated wire: ranks as threads, faults on request.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "tests may panic"
)]

#[path = "common/exercise.rs"]
mod exercise;

use circulant::launch::threads;
use circulant::transport::{Borrow, sim};
use circulant::{Communicator, Result, World};
use exercise::{exercise, value};
use std::sync::Arc;
use std::time::Duration;

/// Runs `body` at every rank of a world of `size` on a wire with `faults`; returns what each returned.
fn run<R: Send>(
    size: usize,
    faults: &sim::Faults,
    settings: &[(&str, &str)],
    body: impl Fn(&World, &Communicator, &sim::Net) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let wires = sim::group(size, faults);
    let launches = threads::group(size);
    std::thread::scope(|scope| {
        let handles: Vec<_> = wires
            .into_iter()
            .zip(launches)
            .map(|(wire, launch)| {
                let body = &body;
                scope.spawn(move || {
                    let net: Arc<sim::Net> = wire.net();
                    let mut builder =
                        World::builder()?.launch(launch).transport(Box::new(wire)).set("deadline", "20")?;
                    for (name, value) in settings {
                        builder = builder.set(name, value)?;
                    }
                    let world = builder.init()?;
                    let result = body(&world, &world.comm(), &net)?;
                    world.finalize()?;
                    Ok(result)
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    })
}

#[test]
fn a_good_wire() {
    for p in [1, 2, 3, 5, 8, 9, 17] {
        for r in run(p, &sim::Faults::default(), &[], |_, comm, _| exercise(comm, 1)) {
            r.unwrap();
        }
    }
}

#[test]
fn a_wire_that_refuses_delays_and_reorders() {
    for seed in 1..=4u64 {
        println!("seed {seed}");
        for (borrow, max_put, gather, light) in [
            (Borrow::Direct, 1 << 20, 1, "0"),
            (Borrow::Staged, 100, 4, "64"),
            (Borrow::Direct, 1000, 8, "4K"),
            (Borrow::Direct, 1000, 1, "200"),
        ] {
            let faults = sim::Faults {
                seed,
                refuse: 60,
                delay: 5,
                reorder: true,
                max_put,
                gather,
                borrow,
                deaths_show: true,
            };
            for p in [2, 5, 8] {
                for r in run(p, &faults, &[("light", light), ("window", "3000")], |_, comm, _| {
                    exercise(comm, seed)
                }) {
                    r.unwrap();
                }
            }
        }
    }
}

#[test]
fn persistent_operations_repeat() {
    let faults = sim::Faults { seed: 5, refuse: 30, delay: 3, reorder: true, ..sim::Faults::default() };
    for p in [1, 2, 3, 8] {
        let results = run(p, &faults, &[], |world, comm, _| {
            let (r, n) = (comm.rank(), 5000);
            let mut bcast = comm.bcast_init(comm.alloc::<u32>(n)?, p - 1)?;
            let counts: Vec<usize> = (0..p).map(|j| 100 * j).collect();
            let displs: Vec<usize> = (0..p).map(|j| 50 * j * j.saturating_sub(1)).collect();
            let total = counts.iter().sum();
            let mut gather = comm.allgatherv_init(
                comm.alloc::<u32>(counts[r])?,
                comm.alloc::<u32>(total)?,
                &counts,
                &displs,
            )?;
            let planned = bcast.planned();
            for round in 0..10usize {
                if r == p - 1 {
                    bcast.input()?.iter_mut().enumerate().for_each(|(i, x)| *x = value(round, i));
                }
                gather.input()?.fill(value(r, round));
                let before = world.stats();
                bcast.start()?;
                assert!(bcast.output().is_err(), "a running buffer must not be touched");
                bcast.wait()?;
                let puts = world.stats().puts - before.puts;
                assert_eq!(puts, planned.puts, "puts are those of the plan");
                assert!(bcast.output()?.iter().enumerate().all(|(i, x)| *x == value(round, i)));
                gather.start()?;
                bcast.start()?;
                gather.wait()?;
                bcast.wait()?;
                for j in 0..p {
                    assert!(gather.output()?[displs[j]..][..counts[j]].iter().all(|x| *x == value(j, round)));
                }
            }
            Ok(planned)
        });
        let planned: Vec<_> = results.into_iter().map(|r| r.unwrap()).collect();
        let sent: u64 = planned.iter().map(|p| p.put_bytes).sum();
        assert_eq!(sent, 20_000 * (p as u64 - 1), "every rank but the root gets every byte once");
    }
}

#[test]
fn disagreement_is_named_on_every_rank() {
    // Another root, another length, another operation: each is found before data moves.
    for case in 0..3 {
        let results = run(5, &sim::Faults::default(), &[], |_, comm, _| {
            let odd = comm.rank() == 3;
            let mut buf = vec![1u8; if odd && case == 1 { 999 } else { 1000 }];
            match case {
                0 => comm.bcast(&mut buf, if odd { 1 } else { 0 }),
                2 if odd => comm.barrier(),
                _ => comm.bcast(&mut buf, 0),
            }
        });
        for (rank, r) in results.into_iter().enumerate() {
            let e = r.unwrap_err();
            assert_eq!(e.kind(), circulant::ErrorKind::Mismatch, "case {case}, rank {rank}: {e}");
            assert!(e.to_string().contains("rank 3"), "case {case}, rank {rank}: {e}");
        }
    }
}

#[test]
fn bad_arguments_reach_every_rank() {
    let results = run(4, &sim::Faults::default(), &[], |_, comm, _| {
        let root = if comm.rank() == 2 { 9 } else { 0 };
        comm.bcast(&mut [0u8; 100], root)
    });
    for r in results {
        let e = r.unwrap_err();
        assert!(e.to_string().contains("root 9 is out of range"), "{e}");
        assert_eq!(e.kind(), circulant::ErrorKind::Argument);
    }
    let results = run(3, &sim::Faults::default(), &[], |_, comm, _| {
        let (counts, displs) = ([4, 4, 4], [0, 3, 8]);
        comm.allgatherv(&[0u8; 4], &mut [0u8; 12], &counts, &displs)
    });
    for r in results {
        assert!(r.unwrap_err().to_string().contains("overlap"));
    }
    let results = run(3, &sim::Faults::default(), &[], |_, comm, _| {
        comm.allgatherv(&[0u8; 4], &mut [0u8; 11], &[4, 4, 4], &[0, 4, 8])
    });
    for r in results {
        assert!(r.unwrap_err().to_string().contains("do not fit into recv"));
    }
}

#[test]
fn a_dead_rank_is_named() {
    for deaths_show in [true, false] {
        let faults = sim::Faults { deaths_show, ..sim::Faults::default() };
        let results = run(6, &faults, &[("deadline", "2")], |_, comm, net| {
            let mut buf = vec![0u8; 100_000];
            comm.bcast(&mut buf, 0)?;
            if comm.rank() == 4 {
                net.kill(4);
                // Keeps its thread: the launcher must not see it leave.
                std::thread::sleep(Duration::from_secs(4));
            }
            for _ in 0..3 {
                comm.bcast(&mut buf, 0)?;
                comm.barrier()?;
            }
            Ok(())
        });
        for (rank, r) in results.into_iter().enumerate() {
            let e = r.unwrap_err();
            if rank != 4 {
                assert_eq!(e.peer(), Some(4), "rank {rank}, deaths show: {deaths_show}: {e}");
                assert!(e.to_string().contains("rank 4"), "{e}");
            }
        }
    }
}

#[test]
fn a_rank_elsewhere_is_named_with_what_it_does() {
    let results = run(4, &sim::Faults::default(), &[("deadline", "2")], |_, comm, _| {
        if comm.rank() == 2 {
            // Computes for too long.
            std::thread::sleep(Duration::from_secs(3));
        }
        comm.barrier()
    });
    let texts: Vec<String> = results.into_iter().map(|r| r.unwrap_err().to_string()).collect();
    assert!(texts.iter().all(|t| t.contains("rank 2")), "{texts:#?}");
    assert!(texts.iter().all(|t| t.contains("barrier #")), "{texts:#?}");
}
