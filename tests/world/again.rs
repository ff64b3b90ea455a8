//! Calls that are called as one before, and calls that differ from those before in one thing only.

use crate::collective::cover::Random;
use crate::ranks;

use circulant::comm::Local;
use circulant::transport::sim;
use circulant::{Communicator, ErrorKind, InPlace, Options, Result, ops};

/// Ranks.
const P: usize = 4;

/// One call with its result checked; each time it has other elements, by `salt`.
type Call = fn(&Communicator, salt: u64) -> Result<()>;

/// Element `i` of `rank`.
fn value(rank: usize, i: usize, salt: u64) -> u64 {
    rank as u64 * 1000 + i as u64 + (salt << 20)
}

fn values(rank: usize, len: usize, salt: u64) -> Vec<u64> {
    (0..len).map(|i| value(rank, i, salt)).collect()
}

fn bcast(comm: &Communicator, len: usize, root: usize, salt: u64) -> Result<()> {
    let mut data = if comm.rank() == root { values(root, len, salt) } else { vec![7; len] };
    comm.bcast(&mut data, root)?;
    assert_eq!(data, values(root, len, salt));
    Ok(())
}

/// The sums, or greatest elements, of all ranks below `end`.
fn folded(len: usize, end: usize, greatest: bool, salt: u64) -> Vec<u64> {
    let of = |i| (0..end).map(move |r| value(r, i, salt));
    (0..len).map(|i| if greatest { of(i).max().unwrap_or(0) } else { of(i).sum() }).collect()
}

fn allreduce(comm: &Communicator, len: usize, greatest: bool, salt: u64) -> Result<()> {
    let (mine, mut all) = (values(comm.rank(), len, salt), vec![7; len]);
    match greatest {
        true => comm.allreduce(&mine, &mut all, ops::Max)?,
        false => comm.allreduce(&mine, &mut all, ops::Sum)?,
    }
    assert_eq!(all, folded(len, P, greatest, salt));
    Ok(())
}

fn reduce(comm: &Communicator, in_place: bool, root: usize, salt: u64) -> Result<()> {
    let mut all = values(comm.rank(), 5, salt);
    let mine = all.clone();
    match in_place && comm.rank() == root {
        true => comm.reduce(InPlace, &mut all, ops::Sum, root)?,
        false => comm.reduce(&mine, &mut all, ops::Sum, root)?,
    }
    assert!(comm.rank() != root || all == folded(5, P, false, salt));
    Ok(())
}

fn reduce_scatter(comm: &Communicator, counts: [usize; P], salt: u64) -> Result<()> {
    let (mine, mut part) = (values(comm.rank(), 6, salt), vec![7; counts[comm.rank()]]);
    comm.reduce_scatter(&mine, &mut part, &counts, ops::Sum)?;
    let begin: usize = counts[..comm.rank()].iter().sum();
    assert_eq!(part, folded(6, P, false, salt)[begin..][..part.len()]);
    Ok(())
}

/// Where each part begins if `gap` elements are ahead of each.
fn places(counts: &[usize], gap: usize) -> Vec<usize> {
    let next = |end: &mut usize, n: &usize| {
        let begin = *end + gap;
        *end = begin + n;
        Some(begin)
    };
    counts.iter().scan(0, next).collect()
}

/// The parts of all ranks, with 7 where none is.
fn parts(counts: &[usize], displs: &[usize], len: usize, salt: u64) -> Vec<u64> {
    let mut all = vec![7; len];
    for (rank, (count, displ)) in counts.iter().zip(displs).enumerate() {
        all[*displ..][..*count].copy_from_slice(&values(rank, *count, salt));
    }
    all
}

fn scatterv(comm: &Communicator, counts: [usize; P], gap: usize, root: usize, salt: u64) -> Result<()> {
    let displs = places(&counts, gap);
    let send = if comm.rank() == root { parts(&counts, &displs, 40, salt) } else { Vec::new() };
    let mut mine = vec![7; counts[comm.rank()]];
    match gap {
        0 => comm.scatterv(&send, &counts, &mut mine, root)?,
        _ => comm.scatterv(&send, (&counts, &displs), &mut mine, root)?,
    }
    assert_eq!(mine, values(comm.rank(), mine.len(), salt));
    Ok(())
}

fn gatherv(comm: &Communicator, counts: [usize; P], gap: usize, root: usize, salt: u64) -> Result<()> {
    let displs = places(&counts, gap);
    let (mine, mut all) = (values(comm.rank(), counts[comm.rank()], salt), vec![7; 40]);
    comm.gatherv(&mine, &mut all, (&counts, &displs), root)?;
    let expected = if comm.rank() == root { parts(&counts, &displs, 40, salt) } else { vec![7; 40] };
    assert_eq!(all, expected);
    Ok(())
}

/// With displacements that all ranks have, or other ones at each rank.
fn allgatherv(comm: &Communicator, counts: [usize; P], local: bool, salt: u64) -> Result<()> {
    let displs = places(&counts, if local { 1 + comm.rank() } else { 0 });
    let (mine, mut all) = (values(comm.rank(), counts[comm.rank()], salt), vec![7; 40]);
    match local {
        true => comm.allgatherv(&mine, &mut all, Local { counts: &counts, displs: &displs })?,
        false => comm.allgatherv(&mine, &mut all, &counts)?,
    }
    assert_eq!(all, parts(&counts, &displs, 40, salt));
    Ok(())
}

fn equal_parts(comm: &Communicator, len: usize, root: usize, salt: u64) -> Result<()> {
    let (rank, mine) = (comm.rank(), values(comm.rank(), len, salt));
    let everything: Vec<u64> = (0..P).flat_map(|r| values(r, len, salt)).collect();
    let mut all = vec![7; len * P];
    comm.allgather(&mine, &mut all)?;
    assert_eq!(all, everything);
    let mut all = vec![7; if rank == root { len * P } else { 0 }];
    comm.gather(&mine, &mut all, root)?;
    assert!(rank != root || all == everything);
    let mut part = vec![7; len];
    comm.scatter(&all, &mut part, root)?;
    assert_eq!(part, mine);
    let mut turned = vec![7; len * P];
    comm.alltoall(&everything, &mut turned)?;
    assert_eq!(turned, mine.repeat(P));
    comm.reduce_scatter_block(&everything, &mut part, ops::Sum)?;
    assert_eq!(part, mine.iter().map(|x| x * P as u64).collect::<Vec<_>>());
    comm.scan(&mine, &mut part, ops::Sum)?;
    assert_eq!(part, folded(len, rank + 1, false, salt));
    comm.exscan(&mine, &mut part, ops::Max)?;
    assert!(rank == 0 || part == folded(len, rank, true, salt));
    comm.barrier()
}

/// Each differs from another one in one thing.
const CALLS: &[Call] = &[
    |comm, salt| bcast(comm, 3, 0, salt),
    |comm, salt| bcast(comm, 3, 1, salt),
    |comm, salt| bcast(comm, 4, 0, salt),
    |comm, salt| bcast(&comm.with(Options::new().algorithm("binomial")), 3, 0, salt),
    |comm, salt| bcast(&comm.with(Options::new().blocks(3)), 3, 0, salt),
    |comm, salt| {
        let mut bytes = (salt + comm.rank() as u64).to_ne_bytes();
        // As many elements of another type.
        comm.bcast(&mut bytes[..3], 0)?;
        assert_eq!(bytes[..3], salt.to_ne_bytes()[..3]);
        Ok(())
    },
    |comm, salt| allreduce(comm, 5, false, salt),
    |comm, salt| allreduce(comm, 5, true, salt),
    |comm, salt| allreduce(comm, 6, true, salt),
    |comm, salt| allreduce(&comm.with(Options::new().reproducible(true)), 5, false, salt),
    |comm, salt| {
        let mut all = [value(comm.rank(), 0, salt) as f64; 5];
        comm.allreduce(InPlace, &mut all, ops::Sum)?;
        assert_eq!(all, [folded(1, P, false, salt)[0] as f64; 5]);
        Ok(())
    },
    |comm, salt| {
        let mut all = [value(comm.rank(), 0, salt) as i64; 5];
        comm.allreduce(InPlace, &mut all, ops::Sum)?;
        assert_eq!(all, [folded(1, P, false, salt)[0] as i64; 5]);
        Ok(())
    },
    |comm, salt| {
        // It does not commute.
        let (mine, mut all) = (values(comm.rank(), 5, salt), [7; 5]);
        comm.allreduce(&mine, &mut all, ops::user("left", false, |left: u64, _| left))?;
        assert_eq!(all[..], values(0, 5, salt));
        Ok(())
    },
    |comm, salt| reduce_scatter(comm, [2, 1, 1, 2], salt),
    |comm, salt| reduce_scatter(comm, [2, 1, 2, 1], salt),
    |comm, salt| reduce(comm, false, 0, salt),
    |comm, salt| reduce(comm, true, 0, salt),
    |comm, salt| reduce(comm, false, 3, salt),
    |comm, salt| scatterv(comm, [2, 0, 0, 0], 0, 1, salt),
    |comm, salt| scatterv(comm, [0, 0, 2, 0], 0, 1, salt),
    |comm, salt| scatterv(comm, [0, 0, 2, 0], 3, 1, salt),
    |comm, salt| scatterv(comm, [0, 0, 2, 0], 3, 2, salt),
    |comm, salt| gatherv(comm, [3, 1, 0, 2], 0, 0, salt),
    |comm, salt| gatherv(comm, [3, 1, 2, 0], 0, 0, salt),
    |comm, salt| gatherv(comm, [3, 1, 0, 2], 1, 0, salt),
    |comm, salt| gatherv(comm, [3, 1, 0, 2], 1, 3, salt),
    |comm, salt| allgatherv(comm, [3, 1, 0, 2], false, salt),
    |comm, salt| allgatherv(comm, [3, 1, 0, 2], true, salt),
    |comm, salt| {
        // In place, between calls that are not.
        let everything: Vec<u64> = (0..P).flat_map(|r| values(r, 2, salt)).collect();
        let mut all = vec![7; 2 * P];
        all[2 * comm.rank()..][..2].copy_from_slice(&values(comm.rank(), 2, salt));
        comm.allgather(InPlace, &mut all)?;
        assert_eq!(all, everything);
        comm.alltoall(InPlace, &mut all)?;
        assert_eq!(all, values(comm.rank(), 2, salt).repeat(P));
        Ok(())
    },
    |comm, salt| equal_parts(comm, 2, 0, salt),
    |comm, salt| equal_parts(comm, 2, 2, salt),
    |comm, salt| equal_parts(comm, 3, 0, salt),
];

/// In any order, most of them again and again, beside trials, checks and a second communicator, on which all ranks have other numbers.
#[test]
fn calls_that_differ_in_one_thing_differ() {
    for (seed, settings) in [
        &[("adapt", "off")][..],
        &[("adapt", "auto")],
        &[("adapt", "on")],
        &[("check", "1")],
        &[("log", "info")],
    ]
    .into_iter()
    .enumerate()
    {
        let results = ranks::run(P, &sim::Faults::default(), settings, |_, comm| {
            // The same ranks in another order.
            let Some(other) = comm.split(Some(0), -(comm.rank() as i64))? else { return Ok(()) };
            let mut random = Random(seed as u64 + 1);
            for salt in 0..40 {
                let mut order: Vec<usize> = (0..CALLS.len()).collect();
                random.shuffle(&mut order);
                // Some twice, one after the other.
                for at in order {
                    for _ in 0..=random.below(2) {
                        let comm = if random.below(8) == 0 { &other } else { comm };
                        CALLS[at](comm, salt)?;
                    }
                }
            }
            Ok(())
        });
        results.into_iter().for_each(|r| r.unwrap_or_else(|e| panic!("seed {seed}, {settings:?}: {e}")));
    }
}

/// A rank that has nothing to do in a call leaves it at once, and still finds that another one has called with other counts: whether it is there
/// ahead of what that one sends, or has kept that as unexpected, at the first call and at one that was called so before.
#[test]
fn a_rank_without_a_part_finds_other_counts() {
    for (keeps, before) in [(false, 0), (true, 0), (false, 3), (true, 3)] {
        let results = ranks::run(P, &sim::Faults::default(), &[("deadline", "30")], |_, comm| {
            let call = |at_2: usize| {
                let counts = [1, 0, at_2, 0];
                let send = if comm.rank() == 0 { vec![5u64; 2] } else { Vec::new() };
                comm.scatterv(&send, &counts, &mut vec![0; counts[comm.rank()]], 0)
            };
            (0..before).try_for_each(|_| call(0))?;
            let other = comm.dup()?;
            // Only rank 2 has no part. It hears of the others' call in another one, which they make behind it.
            if comm.rank() == 2 && keeps {
                other.barrier()?;
                call(0)?;
            } else {
                call(usize::from(comm.rank() != 2))?;
                other.barrier()?;
            }
            comm.barrier()
        });
        for (rank, result) in results.into_iter().enumerate() {
            let e = result.expect_err("rank 2 has called with other counts");
            assert_eq!(e.kind(), ErrorKind::Mismatch, "kept: {keeps}, rank {rank}: {e}");
            assert!(e.to_string().contains("count of rank 2"), "kept: {keeps}, rank {rank}: {e}");
        }
    }
}

/// Ranks that call alike but for the type find it, also when each kind of call was made before.
#[test]
fn types_are_compared_in_calls_that_were_made_before() {
    let results = ranks::run(P, &sim::Faults::default(), &[("deadline", "30")], |_, comm| {
        let words = || comm.bcast(&mut [5u64; 3], 0);
        let floats = || comm.bcast(&mut [5f64; 3], 0);
        for _ in 0..3 {
            words()?;
            floats()?;
        }
        if comm.rank() == 2 {
            floats()?
        } else {
            words()?
        }
        comm.barrier()
    });
    for (rank, result) in results.into_iter().enumerate() {
        let e = result.expect_err("rank 2 has called with another type");
        assert_eq!(e.kind(), ErrorKind::Mismatch, "rank {rank}: {e}");
        assert!(e.to_string().contains("type"), "rank {rank}: {e}");
    }
}

/// The next call after progress has heard of an error says that error, as it was.
#[test]
fn an_error_that_progress_hears_of_is_that_of_the_next_call() {
    let results = ranks::run(2, &sim::Faults::default(), &[("deadline", "30")], |world, comm| {
        (0..3).try_for_each(|_| comm.bcast(&mut [0u64; 3], 0))?;
        if comm.rank() == 1 {
            return comm.bcast(&mut [0u64; 3], 2);
        }
        let begun = std::time::Instant::now();
        while begun.elapsed() < std::time::Duration::from_millis(300) {
            world.progress();
        }
        comm.bcast(&mut [0u64; 3], 0)
    });
    for (rank, result) in results.into_iter().enumerate() {
        let e = result.expect_err("rank 1 names a root that is none");
        assert_eq!(e.kind(), ErrorKind::Argument, "rank {rank}: {e}");
    }
}
