//! Short reductions of two ranks, whose posts are copied as soon as they are there.

use crate::{all, failing, mismatches, run};
use circulant::ops::{self, Reducer};
use circulant::{Communicator, ErrorKind, InPlace, Result};
use std::alloc::Layout;

/// `a` as two digits, `b` behind it, of bytes: the order of operands shows in the result.
fn digits(a: u8, b: u8) -> u8 {
    a.wrapping_mul(3).wrapping_add(b.wrapping_mul(5)).wrapping_add(1)
}

/// What the ranks contribute, from an odd address on.
fn contribution(rank: usize, len: usize) -> Vec<u8> {
    (0..=len).map(|i| (7 * i + 101 * rank + len).to_le_bytes()[0]).collect()
}

/// An allreduce, a reduce, scans and reduce-scatters of `len` bytes, in place and not, with and without a rest of the ranks ahead of it.
fn check(
    comm: &Communicator,
    by: &Reducer,
    combine: impl Fn(&[u8], &[u8]) -> Vec<u8>,
    len: usize,
) -> Result<()> {
    let (sent, other) = (contribution(comm.rank(), len), contribution(1 - comm.rank(), len));
    let (mine, theirs) = (&sent[1..], &other[1..]);
    let wanted = if comm.rank() == 0 { combine(mine, theirs) } else { combine(theirs, mine) };
    for late in 0..3 {
        if late == comm.rank() {
            std::thread::sleep(std::time::Duration::from_micros(300));
        }
        let mut out = vec![0; len + 1];
        comm.allreduce(mine, &mut out[1..], by.on_bytes())?;
        assert_eq!(out[1..], wanted, "{by:?}, {len} bytes");
        let mut out = sent.clone();
        comm.allreduce(InPlace, &mut out[1..], by.on_bytes())?;
        assert_eq!(out[1..], wanted, "{by:?}, {len} bytes in place");
        for root in 0..2 {
            let mut out = vec![0; len + 1];
            comm.reduce(mine, &mut out[1..], by.on_bytes(), root)?;
            if comm.rank() == root {
                assert_eq!(out[1..], wanted, "{by:?}, {len} bytes to {root}");
            }
        }
        scans(comm, by, (&sent, theirs, &wanted))?;
        scattered(comm, by, (&sent, &wanted))?;
    }
    Ok(())
}

/// Rank 0 has what it contributes, and rank 1 all of it, or before an exscan what rank 0 contributes.
fn scans(comm: &Communicator, by: &Reducer, (sent, theirs, wanted): (&[u8], &[u8], &[u8])) -> Result<()> {
    let len = theirs.len();
    let first = comm.rank() == 0;
    for in_place in [false, true] {
        let mut out = if in_place { sent.to_vec() } else { vec![9; len + 1] };
        let before = out[1..].to_vec();
        match in_place {
            false => comm.scan(&sent[1..], &mut out[1..], by.on_bytes())?,
            true => comm.scan(InPlace, &mut out[1..], by.on_bytes())?,
        }
        assert!(
            out[1..] == *if first { &sent[1..] } else { wanted },
            "scan, {by:?}, {len} bytes, {in_place}"
        );
        out[1..].copy_from_slice(&before);
        match in_place {
            false => comm.exscan(&sent[1..], &mut out[1..], by.on_bytes())?,
            true => comm.exscan(InPlace, &mut out[1..], by.on_bytes())?,
        }
        assert!(
            out[1..] == *if first { &before[..] } else { theirs },
            "exscan, {by:?}, {len} bytes, {in_place}"
        );
    }
    Ok(())
}

/// Each rank has its part of the result: a half, or what is left of four bytes.
fn scattered(comm: &Communicator, by: &Reducer, (sent, wanted): (&[u8], &[u8])) -> Result<()> {
    let (r, len) = (comm.rank(), wanted.len());
    let arena = comm.alloc_from(sent)?;
    // Long ones so often that some of their posts go by address.
    let times = if len > 16_384 { 12 } else { 2 };
    for first in
        [len / 8 * 4, 4.min(len), len - 4.min(len), len].into_iter().flat_map(|first| vec![first; times])
    {
        let (counts, part) = ([first, len - first], [0..first, first..len][r].clone());
        for (in_place, sent) in [(false, sent), (false, &arena[..]), (true, sent)] {
            let mut out = if in_place { sent.to_vec() } else { vec![9; part.len() + 1] };
            match in_place {
                false => comm.reduce_scatter(&sent[1..], &mut out[1..], &counts, by.on_bytes())?,
                true => comm.reduce_scatter(InPlace, &mut out[1..], &counts, by.on_bytes())?,
            }
            assert!(out[1..=part.len()] == wanted[part.clone()], "{by:?}, {counts:?} bytes, {in_place}");
            if counts[0] == counts[1] {
                let mut out = if in_place { sent.to_vec() } else { vec![9; part.len() + 1] };
                match in_place {
                    false => comm.reduce_scatter_block(&sent[1..], &mut out[1..], by.on_bytes())?,
                    true => comm.reduce_scatter_block(InPlace, &mut out[1..], by.on_bytes())?,
                }
                assert!(
                    out[1..=part.len()] == wanted[part.clone()],
                    "{by:?}, {} bytes each, {in_place}",
                    part.len()
                );
            }
        }
    }
    Ok(())
}

/// Up to the length to which posts are copied at once (256 bytes), and longer ones; operators that keep the order of ranks; at odd addresses.
#[test]
fn vectors_of_any_length_are_folded_in_the_order_of_ranks() {
    all(2, |_, comm| {
        let bytes = Reducer::new::<u8, _>(ops::user("digits", false, digits));
        let words = Reducer::new::<u32, _>(ops::Sum);
        let pair = Layout::from_size_align(2, 2).unwrap();
        let raw = Reducer::raw("digits of pairs", pair, false, |left, right| {
            right.iter_mut().zip(left).for_each(|(b, a)| *b = digits(*a, *b));
        })?;
        let each = |a: &[u8], b: &[u8]| a.iter().zip(b).map(|(a, b)| digits(*a, *b)).collect();
        let sums = |a: &[u8], b: &[u8]| {
            let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
            let sum = |(a, b): (&[u8], &[u8])| word(a).wrapping_add(word(b)).to_le_bytes();
            a.chunks(4).zip(b.chunks(4)).flat_map(sum).collect()
        };
        for len in [0, 4, 8, 28, 32, 36, 252, 256, 260, 16_384, 16_388, 70_000] {
            check(comm, &bytes, each, len)?;
            check(comm, &raw, each, len)?;
            check(comm, &words, sums, len)?;
        }
        Ok(())
    });
}

#[test]
fn two_ranks_that_disagree_are_told_so() {
    type Call = fn(&Communicator, bool) -> Result<()>;
    let different: [Call; 4] = [
        |c, odd| {
            if odd {
                c.allreduce(InPlace, &mut [1u64], ops::Max)
            } else {
                c.allreduce(InPlace, &mut [1u64], ops::Sum)
            }
        },
        |c, odd| {
            if odd {
                c.allreduce(InPlace, &mut [1u64; 2], ops::Sum)
            } else {
                c.allreduce(InPlace, &mut [1u64], ops::Sum)
            }
        },
        |c, odd| {
            if odd {
                c.allreduce(InPlace, &mut [1u64; 99], ops::Sum)
            } else {
                c.allreduce(InPlace, &mut [1u64], ops::Sum)
            }
        },
        |c, odd| if odd { c.barrier() } else { c.allreduce(&[1u64], &mut [1], ops::Sum) },
    ];
    for (i, call) in different.iter().enumerate() {
        for before in [0, 5] {
            // In the call itself: each waits for the other in it.
            let results = run(vec![0; 2], &[], |_, comm| {
                (0..before).try_for_each(|_| comm.bcast(&mut [1u8], 1))?;
                call(comm, comm.rank() == 1)
            });
            let errors: Vec<_> = results.into_iter().map(|r| r.expect_err("no error")).collect();
            mismatches(&errors, &format!("case {i}, {before} calls before"), "");
        }
    }
}

/// A panic of an operator at one of two ranks is an error at both.
#[test]
fn an_operator_that_panics_at_one_of_two_is_told() {
    for in_place in [false, true] {
        let errors = failing(2, |_, comm| {
            let bad = comm.rank() == 1;
            let sum =
                ops::user("mine", true, move |a: u64, b: u64| if bad { panic!("no {a}") } else { a + b });
            let mut out = [1u64; 5];
            if in_place {
                comm.allreduce(InPlace, &mut out, sum)
            } else {
                comm.allreduce(&[1; 5], &mut out, sum)
            }
        });
        for e in errors {
            assert!(e.kind() == ErrorKind::Argument && e.to_string().contains("panicked: no 1"), "{e}");
        }
    }
}

/// What is counted does not depend on which rank comes first.
#[test]
fn what_comes_is_counted_once() {
    const CALLS: u64 = 100;
    all(2, |world, comm| {
        let (mut word, mut both) = ([1u64], [0u64; 2]);
        comm.barrier()?;
        let before = world.stats();
        for i in 0..CALLS {
            if i % 10 == 5 * comm.rank() as u64 {
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
            comm.allreduce(InPlace, &mut word, ops::Min)?;
            comm.allreduce(&[2], &mut word, ops::Min)?;
            comm.allgather(&word, &mut both)?;
            comm.alltoall(&[3, 4], &mut both)?;
            comm.bcast(&mut word, 0)?;
            comm.scan(&[5], &mut word, ops::Sum)?;
            comm.reduce_scatter_block(&[6, 7], &mut word, ops::Sum)?;
        }
        let after = world.stats();
        // Rank 0 has nothing to wait for in a bcast and in a scan.
        let at_1 = if comm.rank() == 0 { 0 } else { CALLS };
        assert_eq!(after.arrivals - before.arrivals, 5 * CALLS + 2 * at_1);
        assert_eq!(after.reduced_bytes - before.reduced_bytes, 8 * (3 * CALLS + at_1));
        // Of an allgather and an alltoall also our own block, and of a scan what rank 0 contributes.
        assert_eq!(after.copied_bytes - before.copied_bytes, 8 * ((2 + 2 + 2 + 1 + 1) * CALLS + at_1));
        // A scan is no post of rank 1, nor a bcast.
        assert_eq!(after.puts - before.puts, 7 * CALLS - 2 * at_1);
        Ok(())
    });
}
