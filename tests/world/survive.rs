//! Ranks that are gone while the others go on: revoke, agree, shrink.

use crate::ranks;
use crate::survivors::{go_on, operate, parse_seeds};

use circulant::comm::Agreed;
use circulant::launch::{Launch, threads};
use circulant::transport::sim;
use circulant::{Communicator, Error, ErrorKind, Result, World};
use circulant_tests::collective::cover::Random;
use ranks::{run, run_shared};
use std::collections::BTreeSet;

const CONTINUE: (&str, &str) = ("on-failure", "continue");

/// What a rank of a job that loses ranks came to: it died, or has finished among so many.
#[derive(Debug, PartialEq)]
enum End {
    Died,
    Left(usize),
}

/// When a rank dies: when it has posted so many puts and messages since this call.
#[derive(Clone, Copy, Debug)]
struct Death {
    call: usize,
    posts: u32,
}

/// Ranks on the simulated wire make operations; those of `dead` die at random moments.
fn lose_on_sim(
    size: usize,
    dead: &BTreeSet<usize>,
    calls: usize,
    seed: u64,
    faults: &sim::Faults,
) -> Vec<Result<End>> {
    let mut random = Random(seed);
    let deaths: Vec<Option<Death>> = (0..size)
        .map(|rank| {
            let death = Death { call: random.below(calls), posts: random.below(60) as u32 };
            dead.contains(&rank).then_some(death)
        })
        .collect();
    let wires = sim::group(size, faults);
    std::thread::scope(|scope| {
        let ranks: Vec<_> = wires
            .into_iter()
            .zip(threads::group(size))
            .zip(&deaths)
            .map(|((wire, launch), death)| {
                scope.spawn(move || -> Result<End> {
                    let (net, rank) = (wire.net(), launch.rank());
                    let world = World::builder()
                        .launch(launch)
                        .transport(Box::new(wire))
                        .set("deadline", "60")
                        .set(CONTINUE.0, CONTINUE.1)
                        .init()?;
                    // As a program should that goes on from the first call: no rank dies while others are in start-up, which would end the world.
                    world.comm().agree(0)?;
                    let dies = |call| {
                        if let Some(Death { call: at, posts }) = death
                            && call == *at
                        {
                            net.kill_after(rank, *posts);
                        }
                    };
                    let ended = go_on(&world.comm(), seed as usize, dies, |call, _| call >= calls);
                    match (ended, death) {
                        (Err(_), Some(_)) => Ok(End::Died),
                        (Ok(left), _) => match (world.finalize(), death) {
                            (Err(_), Some(_)) => Ok(End::Died),
                            (done, _) => done.map(|()| End::Left(left)),
                        },
                        (Err(e), None) => Err(e),
                    }
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn check(results: Vec<Result<End>>, dead: &BTreeSet<usize>, seed: u64) {
    for (rank, result) in results.into_iter().enumerate() {
        match result {
            Ok(End::Left(n)) => assert!(n >= 16 - dead.len(), "seed {seed}: rank {rank} ends among {n}"),
            Ok(End::Died) => assert!(dead.contains(&rank), "seed {seed}: rank {rank} has died"),
            Err(e) => panic!("seed {seed}: rank {rank}: {e}"),
        }
    }
}

fn some(random: &mut Random, count: usize, of: usize) -> BTreeSet<usize> {
    let mut chosen = BTreeSet::new();
    while chosen.len() < count {
        chosen.insert(random.below(of));
    }
    chosen
}

#[test]
fn sixteen_ranks_lose_one_three_and_seven() {
    // Others by hand, SURVIVE_SEEDS=20-39: some dozens at a time, as a rank that dies here leaves its memory.
    let seeds = std::env::var("SURVIVE_SEEDS").ok().and_then(|seeds| parse_seeds(&seeds)).unwrap_or(0..=1);
    for (first, lost) in [(0, 1), (1 << 20, 3), (2 << 20, 7)] {
        for seed in seeds.clone().map(|seed| first + seed) {
            println!("seed {seed}");
            let faults = sim::Faults {
                seed,
                refuse: 20,
                delay: 3,
                reorder: true,
                virtual_time: true,
                ..sim::Faults::default()
            };
            let dead = some(&mut Random(seed), lost, 16);
            check(lose_on_sim(16, &dead, 12, seed, &faults), &dead, seed);
        }
    }
}

#[test]
fn agreement_without_failures_is_that_of_all() {
    for p in [1, 2, 5, 16] {
        for settings in [&[CONTINUE][..], &[]] {
            let results = run(p, &sim::Faults::default(), settings, |_, comm| {
                let first = comm.agree(!(1 << comm.rank()))?;
                let second = comm.dup()?.agree(7)?;
                Ok((first, second, comm.agree(u64::MAX)?.flags))
            });
            for r in results {
                let (first, second, third) = r.unwrap();
                let Agreed { flags, gone, .. } = first;
                assert_eq!((flags, gone.len()), (!((1 << p) - 1), 0));
                assert_eq!((second.flags, third), (7, u64::MAX));
            }
        }
    }
}

#[test]
fn a_revoked_communicator_fails_at_all_ranks_and_others_go_on() {
    for shared in [false, true] {
        let body = |_: &World, comm: &Communicator| {
            let copy = comm.dup()?;
            let mut data = vec![1u64; 5000];
            // All but one wait in a call that it never makes.
            if comm.rank() == 2 {
                copy.revoke()?;
            }
            let e: Error = copy.bcast(&mut data, 2).unwrap_err();
            assert_eq!((e.kind(), e.peer(), e.is_survived()), (ErrorKind::Revoked, Some(2), true), "{e}");
            let again = copy.barrier().unwrap_err();
            assert_eq!(again.kind(), ErrorKind::Revoked, "{again}");
            comm.barrier()?;
            let left = copy.shrink()?;
            assert_eq!(left.size(), comm.size());
            for call in 0..6 {
                operate(&left, call, call)?;
                operate(comm, call, call)?;
            }
            Ok(())
        };
        let results = match shared {
            true => run_shared(5, &[CONTINUE], body),
            false => run(5, &sim::Faults::default(), &[CONTINUE], body),
        };
        results.into_iter().for_each(|r| r.unwrap());
    }
}

/// More operations end half way than there are slots: what puts of one leave behind is not counted for the next.
#[test]
fn operations_that_end_half_way_use_nothing_up() {
    let faults = sim::Faults {
        seed: 5,
        refuse: 20,
        delay: 3,
        reorder: true,
        virtual_time: true,
        ..sim::Faults::default()
    };
    let body = |_: &World, comm: &Communicator| {
        for round in 0..300 {
            let copy = comm.dup()?;
            let (mut a, mut b) = (comm.alloc::<u64>(9000)?, comm.alloc::<u64>(700)?);
            a.fill(round);
            b.fill(round);
            if comm.rank() == 2 {
                copy.revoke()?;
            }
            let long = copy.iallreduce(circulant::InPlace, a, circulant::ops::Sum);
            let short = copy.ibcast(b, 0);
            assert!(
                [long.and_then(|r| r.wait().map(drop)), short.and_then(|r| r.wait().map(drop))]
                    .iter()
                    .any(Result::is_err)
            );
            operate(comm, round as usize, round as usize)?;
        }
        Ok(())
    };
    run(3, &faults, &[CONTINUE], body).into_iter().for_each(|r| r.unwrap());
    run_shared(3, &[CONTINUE], body).into_iter().for_each(|r| r.unwrap());
}

#[test]
fn a_world_that_ends_by_its_first_error_has_nothing_to_revoke() {
    for r in run(3, &sim::Faults::default(), &[], |_, comm| {
        let e = comm.revoke().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Argument, "{e}");
        assert!(e.to_string().contains("CIRCULANT_ON_FAILURE=continue"), "{e}");
        comm.barrier()
    }) {
        r.unwrap();
    }
}

/// A connection between two ranks that live does not come about, and no deadline is set: one of the two is taken for gone, or the world ends by an
/// error that names one. No call waits for ever.
#[test]
fn a_connection_that_does_not_come_about_ends_the_wait() {
    for goes_on in [true, false] {
        let size = 5;
        let faults = sim::Faults { virtual_time: true, ..sim::Faults::default() };
        let wires = sim::group(size, &faults);
        let results: Vec<Result<Vec<usize>>> = std::thread::scope(|scope| {
            let rank = |(wire, launch): (sim::Sim, Box<dyn Launch>)| -> Result<Vec<usize>> {
                let net = wire.net();
                let setting = if goes_on { "continue" } else { "end" };
                let builder = World::builder().launch(launch).transport(Box::new(wire));
                let world = builder.set("on-failure", setting).set("warn-after", "off").init()?;
                let comm = world.comm();
                comm.barrier()?;
                if comm.rank() == 0 {
                    net.disconnect(1, 2);
                }
                comm.agree(0)?;
                let mut all = vec![0; size];
                let done = comm.allgather(&[comm.rank()], &mut all);
                if !goes_on {
                    return done.and_then(|()| comm.barrier()).map(|()| Vec::new());
                }
                let left = comm.shrink()?;
                left.barrier()?;
                let gone = comm.gone()?;
                world.finalize()?;
                Ok(gone)
            };
            let all: Vec<_> = wires
                .into_iter()
                .zip(threads::group(size))
                .map(|one| scope.spawn(move || rank(one)))
                .collect();
            all.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        let failed: Vec<&Error> = results.iter().filter_map(|result| result.as_ref().err()).collect();
        if goes_on {
            // The lower of the two waits for less long, and goes on.
            assert_eq!(failed.len(), 1, "{failed:?}");
            for gone in results.iter().flatten() {
                assert_eq!(*gone, [2]);
            }
            let e = results[2].as_ref().expect_err("it was taken for gone");
            assert!(e.to_string().contains("take this one for gone"), "{e}");
        } else {
            assert_eq!(failed.len(), size, "{failed:?}");
            for e in failed {
                assert_eq!((e.kind(), e.peer()), (ErrorKind::PeerLost, Some(2)), "{e}");
                assert!(e.to_string().contains("no connection to it has come about"), "{e}");
            }
        }
    }
}
