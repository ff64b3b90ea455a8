//! Broadcasts and gathers of many shapes, checked byte by byte. Shared by the tests of all wires.
#![allow(clippy::cast_possible_truncation, reason = "test patterns wrap")]

use circulant::comm::{Cartesian, Layout, Local};
use circulant::{Communicator, InPlace, Options, Result, ops};

pub fn value(who: usize, i: usize) -> u32 {
    (who as u32 + 1).wrapping_mul(1_000_003).wrapping_add((i as u32).wrapping_mul(2_654_435_761))
}

/// Broadcasts, gathers and exchanges of many shapes, checked byte by byte.
pub fn exercise(comm: &Communicator, seed: u64) -> Result<()> {
    let (r, p) = (comm.rank(), comm.size());
    for (i, len) in [0usize, 1, 5, 1000, 4097].into_iter().enumerate() {
        for blocks in [None, Some(1), Some(3), Some(9)] {
            let comm = comm.with(Options::new().blocks(blocks));
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
            comm.allgatherv(&send, &mut recv, (&counts, &displs))?;
            let mut want = vec![99u32; at];
            for j in 0..p {
                (0..counts[j]).for_each(|i| want[displs[j] + i] = value(j, i));
            }
            assert_eq!(recv, want, "allgatherv at {r} of {p}");
            recv.fill(99);
            (0..counts[r]).for_each(|i| recv[displs[r] + i] = value(r, i));
            comm.allgatherv(InPlace, &mut recv, (&counts, &displs))?;
            assert_eq!(recv, want, "allgatherv in place at {r} of {p}");
        }
        let send: Vec<u32> = (0..len).map(|i| value(r, i)).collect();
        let mut recv = vec![0u32; len * p];
        comm.allgather(&send, &mut recv)?;
        assert!((0..p * len).all(|k| recv[k] == value(k / len, k % len)), "allgather at {r} of {p}");
        near(comm, len)?;
        rooted(comm, len, (i + seed as usize) % p)?;
        own(comm, len)?;
        comm.barrier()?;
    }
    Ok(())
}

/// Blocks of `len` elements to both neighbours of a ring.
fn near(comm: &Communicator, len: usize) -> Result<()> {
    let (r, p) = (comm.rank(), comm.size());
    let ring = comm.cartesian(&Cartesian::new(&[p], &[true])?)?;
    let block = |rank: usize, way: usize| (0..len).map(move |i| value(rank, i * 2 + way));
    let send: Vec<u32> = block(r, 0).chain(block(r, 1)).collect();
    // What goes to the right comes from the left.
    let want: Vec<u32> = block((r + p - 1) % p, 1).chain(block((r + 1) % p, 0)).collect();
    let mut recv = vec![0; 2 * len];
    ring.neighbor_alltoall(&send, &mut recv)?;
    assert_eq!(recv, want, "neighbor_alltoall at {r} of {p}");
    let mut often = ring.neighbor_alltoall_init(comm.alloc_from(&send)?, comm.alloc(2 * len)?)?;
    for _ in 0..2 {
        often.start()?;
        often.wait()?;
        assert_eq!(often.output()?, want, "persistent neighbor_alltoall at {r} of {p}");
        often.output()?.fill(0);
    }
    Ok(())
}

/// From rank j as many of `len` elements as there are ranks before it, and back; only the root knows.
fn rooted(comm: &Communicator, len: usize, root: usize) -> Result<()> {
    let (r, p) = (comm.rank(), comm.size());
    let count = |j: usize| len * j / p;
    let mine: Vec<u32> = (0..count(r)).map(|i| value(r, i)).collect();
    let all: Vec<usize> = if r == root { (0..p).collect() } else { Vec::new() };
    let counts: Vec<usize> = all.iter().map(|j| count(*j)).collect();
    let displs: Vec<usize> = all.iter().map(|j| (0..*j).map(count).sum()).collect();
    let mut recv = vec![0; counts.iter().sum()];
    comm.gatherv_rooted(&mine, &mut recv, (&counts, &displs), root)?;
    let want: Vec<u32> = all.iter().flat_map(|j| (0..count(*j)).map(|i| value(*j, i))).collect();
    assert_eq!(recv, want, "gatherv_rooted at {r} of {p}");
    let mut back = vec![0; mine.len()];
    comm.scatterv_rooted(&recv, (&counts, &displs), &mut back, root)?;
    assert_eq!(back, mine, "scatterv_rooted at {r} of {p}");
    Ok(())
}

/// What each rank has as it likes: displacements, layouts, in place.
fn own(comm: &Communicator, len: usize) -> Result<()> {
    let (r, p) = (comm.rank(), comm.size());
    // Rank r has the parts from its own on, with gaps of r elements.
    let counts: Vec<usize> = (0..p).map(|j| len * j / p).collect();
    let (mut displs, mut at) = (vec![0; p], 0);
    for j in (r..p).chain(0..r) {
        displs[j] = at;
        at += counts[j] + r;
    }
    let send: Vec<u32> = (0..counts[r]).map(|i| value(r, i)).collect();
    let (mut recv, mut want) = (vec![99u32; at], vec![99u32; at]);
    comm.allgatherv(&send, &mut recv, Local { counts: &counts, displs: &displs })?;
    (0..p).for_each(|j| (0..counts[j]).for_each(|i| want[displs[j] + i] = value(j, i)));
    assert_eq!(recv, want, "allgatherv with displacements of its own at {r} of {p}");

    // Of each block the odd elements go first, and come last.
    let block = |j: usize| (j * len..(j + 1) * len).map(|i| (i * 4, 4));
    let layout = |j: usize, first: usize| {
        let [one, other] = [first, 1 - first].map(|odd| block(j).skip(odd).step_by(2));
        Layout::new(one.chain(other).collect::<Vec<_>>())
    };
    let layouts = |first| (0..p).map(|j| layout(j, first)).collect::<Result<Vec<_>>>();
    let (sent, received) = (layouts(1)?, layouts(0)?);
    let send: Vec<u32> = (0..p).flat_map(|j| (0..len).map(move |i| value(r * p + j, i))).collect();
    let mut recv = vec![0u32; p * len];
    comm.alltoallw(bytemuck::cast_slice(&send), &sent, bytemuck::cast_slice_mut(&mut recv), &received)?;
    let order: Vec<usize> = (1..len).step_by(2).chain((0..len).step_by(2)).collect();
    let place: Vec<usize> = (0..len).step_by(2).chain((1..len).step_by(2)).collect();
    for j in 0..p {
        for (from, to) in order.iter().zip(&place) {
            assert_eq!(recv[j * len + to], value(j * p + r, *from), "alltoallw at {r} of {p}");
        }
    }

    let ones = vec![1u32; len];
    let mut sum = ones.clone();
    match r % 2 {
        0 => comm.scan(&ones, &mut sum, ops::Sum)?,
        _ => comm.scan(InPlace, &mut sum, ops::Sum)?,
    }
    assert!(sum.iter().all(|x| *x == r as u32 + 1), "scan in place of some at {r} of {p}");
    Ok(())
}
