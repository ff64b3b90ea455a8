//! Broadcasts and gathers of many shapes, checked byte by byte. Shared by the tests of all wires.
#![allow(clippy::cast_possible_truncation, reason = "test patterns wrap")]

use circulant::{Communicator, Options, Result};

pub(crate) fn value(who: usize, i: usize) -> u32 {
    (who as u32 + 1).wrapping_mul(1_000_003).wrapping_add((i as u32).wrapping_mul(2_654_435_761))
}

/// Broadcasts and gathers of many shapes, checked byte by byte.
pub(crate) fn exercise(comm: &Communicator, seed: u64) -> Result<()> {
    let (r, p) = (comm.rank(), comm.size());
    for (i, len) in [0usize, 1, 5, 1000, 4097].into_iter().enumerate() {
        for blocks in [None, Some(1), Some(3), Some(9)] {
            let comm = comm.with(Options { blocks, ..Options::default() });
            let root = (i + seed as usize) % p;
            let mut buf: Vec<u32> = (0..len).map(|i| if r == root { value(root, i) } else { 7 }).collect();
            comm.bcast(&mut buf, root)?;
            assert!((0..len).all(|i| buf[i] == value(root, i)), "bcast at {r} of {p}, {len} elements");
            let mut buf = comm.alloc::<u32>(len)?;
            if r == root {
                (0..len).for_each(|i| buf[i] = value(root, i));
            }
            comm.bcast(&mut buf, root)?;
            assert!((0..len).all(|i| buf[i] == value(root, i)), "arena bcast at {r} of {p}");

            let counts: Vec<usize> = (0..p).map(|j| if (j + i) % 3 == 0 { 0 } else { len * j / p }).collect();
            let mut at = 2;
            let displs: Vec<usize> = counts
                .iter()
                .map(|c| {
                    let d = at;
                    at += c + 1;
                    d
                })
                .collect();
            let send: Vec<u32> = (0..counts[r]).map(|i| value(r, i)).collect();
            let mut recv = vec![99u32; at];
            comm.allgatherv(&send, &mut recv, &counts, &displs)?;
            let mut want = vec![99u32; at];
            for j in 0..p {
                (0..counts[j]).for_each(|i| want[displs[j] + i] = value(j, i));
            }
            assert_eq!(recv, want, "allgatherv at {r} of {p}");
            recv.fill(99);
            (0..counts[r]).for_each(|i| recv[displs[r] + i] = value(r, i));
            comm.allgatherv(circulant::InPlace, &mut recv, &counts, &displs)?;
            assert_eq!(recv, want, "allgatherv in place at {r} of {p}");
        }
        let send: Vec<u32> = (0..len).map(|i| value(r, i)).collect();
        let mut recv = vec![0u32; len * p];
        comm.allgather(&send, &mut recv)?;
        assert!((0..p * len).all(|k| recv[k] == value(k / len, k % len)), "allgather at {r} of {p}");
        comm.barrier()?;
    }
    Ok(())
}
