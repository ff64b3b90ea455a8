//! Communicators that their members make alone.

use crate::allgather::Exchanges;
use crate::collective::cover::Random;
use crate::ranks;

use circulant::transport::sim;
use circulant::{Communicator, Error, ErrorKind, InPlace, Result, World, ops};
use std::cell::Cell;

fn seed() -> u64 {
    let seed = std::env::var("COLLECTIVES_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("COLLECTIVES_SEED={seed}");
    seed
}

/// The communicator of `list`, whose members exchange by `exchanges`.
fn assembled(
    comm: &Communicator,
    exchanges: &Exchanges,
    list: &[usize],
    number: usize,
) -> Result<Communicator> {
    let position = list.iter().position(|rank| *rank == comm.rank()).unwrap();
    comm.assemble(list, |ours| exchanges.allgather((list, number), position, ours))
}

/// Calls of several kinds, by messages and by puts; the members are the world ranks `members`, in this order.
fn exercise(comm: &Communicator, members: &[usize], me: usize) -> Result<()> {
    let mut all = vec![usize::MAX; members.len()];
    comm.allgather(&[me], &mut all)?;
    assert_eq!(all, members);
    assert_eq!((members[comm.rank()], comm.size()), (me, members.len()));
    let mut sums = vec![me as u64; 20_000];
    comm.allreduce(InPlace, &mut sums, ops::Sum)?;
    let sum = members.iter().sum::<usize>() as u64;
    assert!(sums.iter().all(|x| *x == sum));
    let root = members.len() - 1;
    let mut data = vec![if comm.rank() == root { 7u8 } else { 0 }; 50_000];
    comm.bcast(&mut data, root)?;
    assert!(data.iter().all(|x| *x == 7));
    comm.barrier()
}

/// Disjoint lists at the same time, in any order; ranks in none make no call at all. Also of ranks of a part.
#[test]
fn members_alone_assemble_lists_of_ranks() {
    let seed = seed();
    for (provider, p) in [("sim", 1), ("sim", 7), ("shm", 6), ("tcp", 5)] {
        let exchanges = Exchanges::default();
        let results = ranks::run_over(provider, p, &[("deadline", "60")], |world, comm| {
            let (me, mut random) = (world.rank(), Random(seed));
            let turned = comm.split(Some(0), -(me as i64))?.unwrap();
            for number in 0..12 {
                let mut order: Vec<usize> = (0..p).collect();
                random.shuffle(&mut order);
                let cut = random.below(p + 1);
                let end = cut + random.below(p + 1 - cut);
                let list = [&order[..cut], &order[cut..end]].into_iter().find(|list| list.contains(&me));
                let Some(list) = list else { continue };
                exercise(&assembled(comm, &exchanges, list, number)?, list, me)?;
                // The same members, named by their ranks in another communicator.
                let there: Vec<usize> = list.iter().map(|rank| p - 1 - rank).collect();
                exercise(&assembled(&turned, &exchanges, &there, 100 + number)?, list, me)?;
                let position = list.iter().position(|rank| *rank == me).unwrap();
                let exchange = |ours: &[u8; 16]| exchanges.allgather((list, 200 + number), position, ours);
                exercise(&comm.assemble_for_requests(list, exchange)?, list, me)?;
            }
            Ok(())
        });
        results.into_iter().for_each(|result| result.unwrap());
    }
}

/// On a wire that reorders and delays, what members send to one that has not all answers yet is kept for it.
#[test]
fn a_member_may_be_the_last_to_hear() {
    let faults = sim::Faults { seed: 3, refuse: 60, delay: 9, reorder: true, ..sim::Faults::default() };
    let exchanges = Exchanges::default();
    for result in ranks::run(4, &faults, &[], |world, comm| {
        for number in 0..30 {
            let list: Vec<usize> = (0..4).map(|i| (i + number) % 4).collect();
            exercise(&assembled(comm, &exchanges, &list, number)?, &list, world.rank())?;
        }
        Ok(())
    }) {
        result.unwrap();
    }
}

/// What this rank has sent so far.
fn sent(world: &World) -> (u64, u64) {
    (world.stats().messages, world.stats().puts)
}

/// Errors that one rank sees by itself come before it sends anything, and the world goes on.
#[test]
fn a_wrong_list_is_an_error_of_its_rank_alone() {
    for provider in ["sim", "shm"] {
        for result in ranks::run_over(provider, 3, &[("deadline", "60")], |world, comm| {
            comm.barrier()?;
            let (me, others) = (comm.rank(), [(comm.rank() + 1) % 3, (comm.rank() + 2) % 3]);
            let (before, called) = (sent(world), Cell::new(0));
            for (list, words) in [
                (&[][..], "is not in it"),
                (&others[..], "is not in it"),
                (&[me, 3], "rank 3 is not in this communicator"),
                (&[me, usize::MAX], "is not in this communicator"),
                (&[others[0], me, others[0]], "is listed twice"),
                (&[me, me], "is listed twice"),
            ] {
                let made = comm.assemble(list, |_| {
                    called.set(called.get() + 1);
                    Ok(Vec::new())
                });
                let e = made.unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Argument, "{list:?}: {e}");
                assert!(e.to_string().contains(words), "{list:?}: {e}");
            }
            assert_eq!((called.get(), sent(world)), (0, before));
            // One by one, so that none has to answer.
            comm.barrier()?;
            answers_that_are_wrong(comm, me)?;
            comm.barrier()
        }) {
            result.unwrap();
        }
    }
}

type Answer = fn(&[u8; 16]) -> Result<Vec<[u8; 16]>>;

const WRONG: [(Answer, ErrorKind, &str); 5] = [
    (|_| Ok(Vec::new()), ErrorKind::Mismatch, "0 answers for a list of 1 ranks"),
    (|ours| Ok(vec![*ours; 2]), ErrorKind::Mismatch, "2 answers for a list of 1 ranks"),
    (|_| Ok(vec![[0; 16]]), ErrorKind::Mismatch, "did not return what it was given at position 0"),
    (|ours| Ok(vec![ours.map(|b| b ^ 1)]), ErrorKind::Mismatch, "did not return what it was given"),
    (|_| Err(Error::new(ErrorKind::System, "no way")), ErrorKind::System, "no way"),
];

fn answers_that_are_wrong(comm: &Communicator, me: usize) -> Result<()> {
    // More often than there are slots for short calls.
    for _ in 0..20 {
        for (answer, kind, words) in WRONG {
            let e = comm.assemble(&[me], answer).unwrap_err();
            assert_eq!(e.kind(), kind, "{e}");
            assert!(e.to_string().contains(words), "{e}");
        }
    }
    let alone = comm.assemble(&[me], |ours| Ok(vec![*ours]))?;
    assert_eq!(alone.size(), 1);
    alone.barrier()
}

/// All find out, each by itself, and the world goes on, with short calls still short.
#[test]
fn members_that_pass_different_lists_find_out() {
    let exchanges = Exchanges::default();
    for result in ranks::run_shared(3, &[("deadline", "60")], |world, comm| {
        let me = comm.rank();
        for number in 0..40 {
            let list = if me == 2 { [1, 0, 2] } else { [0, 1, 2] };
            let position = list.iter().position(|rank| *rank == me).unwrap();
            // They exchange by their ranks, and in the order of their lists.
            let told = comm.assemble(&list, |ours| {
                let all = exchanges.allgather((&[0, 1, 2], number), me, ours)?;
                Ok(list.iter().map(|rank| all[*rank]).collect())
            });
            let e = told.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Mismatch, "position {position}: {e}");
            assert!(e.to_string().contains("passed another list of ranks"), "{e}");
        }
        let all = assembled(comm, &exchanges, &[2, 0, 1], 1000)?;
        all.barrier()?;
        let (before, barriers) = (sent(world).0, 100);
        (0..barriers).try_for_each(|_| all.barrier())?;
        // By plan each takes two. (A rank that has waited for long says so, in one.)
        let messages = sent(world).0 - before;
        assert!(messages < barriers, "{messages} messages for {barriers} barriers on shared memory");
        Ok(())
    }) {
        result.unwrap();
    }
}
