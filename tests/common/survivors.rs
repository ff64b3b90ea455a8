//! Operations of ranks of which some are lost meanwhile; those that are left make them again among themselves.

use circulant::{Communicator, Result, ops};
use std::ops::RangeInclusive;

/// The seeds that `FROM-TO` says, both ends among them.
pub fn parse_seeds(text: &str) -> Option<RangeInclusive<u64>> {
    let (from, to) = text.split_once('-')?;
    Some(from.parse().ok()?..=to.parse().ok()?)
}

/// One of several operations on `comm`, of the `call`-th kind, its result checked; `salt` changes what is sent.
pub fn operate(comm: &Communicator, call: usize, salt: usize) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let len = [1, 700, 5000, 40_000][salt % 4];
    let value = |rank: usize, i: usize| (rank * 1_000_003 + i * 31 + salt) as u64;
    match call % 9 {
        0 => {
            let root = salt % size;
            let mut data: Vec<u64> =
                (0..len).map(|i| if rank == root { value(root, i) } else { 0 }).collect();
            comm.bcast(&mut data, root)?;
            assert!(data.iter().enumerate().all(|(i, x)| *x == value(root, i)), "bcast of {len}");
        }
        1 => {
            let (send, mut recv) = (vec![rank as u64 + 1; len], vec![0; len]);
            comm.allreduce(&send, &mut recv, ops::Sum)?;
            let sum = (size * (size + 1) / 2) as u64;
            assert!(recv.iter().all(|x| *x == sum), "allreduce of {len}");
        }
        2 => {
            let counts: Vec<usize> = (0..size).map(|r| (r * 37 + salt) % 900).collect();
            let send: Vec<u64> = (0..counts[rank]).map(|i| value(rank, i)).collect();
            let mut recv = vec![0; counts.iter().sum()];
            comm.allgatherv(&send, &mut recv, &counts)?;
            let wanted = (0..size).flat_map(|r| (0..counts[r]).map(move |i| (r, i)));
            assert!(recv.iter().zip(wanted).all(|(x, (r, i))| *x == value(r, i)), "allgatherv");
        }
        3 => comm.barrier()?,
        4 => {
            let send: Vec<u64> = (0..size * 50).map(|i| value(rank, i)).collect();
            let mut recv = vec![0; size * 50];
            comm.alltoall(&send, &mut recv)?;
            let right = |(i, x): (usize, &u64)| *x == value(i / 50, rank * 50 + i % 50);
            assert!(recv.iter().enumerate().all(right), "alltoall");
        }
        5 => {
            let (send, mut recv) = (vec![rank as u64 + 1; len], vec![0; len]);
            comm.scan(&send, &mut recv, ops::Sum)?;
            let sum = ((rank + 1) * (rank + 2) / 2) as u64;
            assert!(recv.iter().all(|x| *x == sum), "scan of {len}");
        }
        6 => {
            // What some ranks send is too long for a post.
            let counts: Vec<usize> = (0..size).map(|r| (r * 997 + salt) % 4000).collect();
            let send: Vec<u64> = (0..counts[rank]).map(|i| value(rank, i)).collect();
            let root = salt % size;
            let mut recv = vec![0; if rank == root { counts.iter().sum() } else { 0 }];
            comm.gatherv_rooted(&send, &mut recv, &counts, root)?;
            let wanted = (0..size).flat_map(|r| (0..counts[r]).map(move |i| (r, i)));
            assert!(recv.iter().zip(wanted).all(|(x, (r, i))| *x == value(r, i)), "gatherv_rooted");
        }
        7 => {
            let count = |from: usize, to: usize| (from * 1301 + to * 17 + salt) % 1500;
            let (sent, received): (Vec<_>, Vec<_>) =
                (0..size).map(|r| (count(rank, r), count(r, rank))).unzip();
            let send = vec![value(rank, 0); sent.iter().sum()];
            let mut recv = vec![0; received.iter().sum()];
            comm.alltoallv(&send, &sent, &mut recv, &received)?;
            let wanted = (0..size).flat_map(|r| (0..received[r]).map(move |_| r));
            assert!(recv.iter().zip(wanted).all(|(x, r)| *x == value(r, 0)), "alltoallv");
        }
        _ => {
            let mut sum = comm.alloc::<u64>(len)?;
            sum.fill(3);
            let (sum, word) =
                (comm.iallreduce(circulant::InPlace, sum, ops::Sum)?, comm.alloc_from(&[salt as u64])?);
            let word = comm.ibcast(word, 0)?;
            let (sum, word) = (sum.wait()?, word.wait()?);
            assert!(
                sum.recv.iter().all(|x| *x == 3 * size as u64) && word.recv[0] == salt as u64,
                "requests"
            );
        }
    }
    Ok(())
}

/// Makes operations until `is_over` says so of the next one's number and the number of ranks, with a smaller communicator after
/// each loss. What has failed at one rank all make again.
pub fn go_on(
    comm: &Communicator,
    seed: usize,
    mut dies: impl FnMut(usize),
    is_over: impl Fn(usize, usize) -> bool,
) -> Result<usize> {
    let mut comm = comm.clone();
    let mut call = 0usize;
    while !is_over(call, comm.size()) {
        dies(call);
        let done = operate(&comm, call + seed, call * 7 + seed);
        // Whether all have come through; where one has not, all make it again among those that are left.
        if let Err(e) = &done
            && !e.is_survived()
        {
            return Err(e.clone());
        }
        if done.is_err() {
            // Those that have come through must not wait in a later call.
            comm.revoke()?;
        }
        let agreed = comm.agree(u64::from(done.is_ok()))?;
        if agreed.flags == 1 && agreed.gone.is_empty() {
            call += 1;
        } else {
            comm = comm.shrink()?;
        }
    }
    Ok(comm.size())
}
