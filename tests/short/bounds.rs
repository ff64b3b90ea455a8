//! All operations, of lengths about those at which calls are no longer short.

use crate::calls::{self, Case};
use crate::{all, print_if_failing, run, seed};
use circulant::{Communicator, InPlace, Options, Result, ops};
use circulant_tests::collective::cover::Random;

/// Elements of 8 bytes that the longest post has, of a scan, or where more than two ranks with a core each combine them.
const LONGEST: usize = 2048;
/// The same of other calls.
const WIDE: usize = 32 * LONGEST;
/// The pieces in which two ranks take long calls.
const PIECE: usize = 8 * LONGEST;

/// All roots, both kinds of buffers, the lengths around the bounds of each operation; with a call by plan and one on another
/// communicator in between.
#[test]
fn every_operation_at_every_root_about_the_bounds() {
    let seed = seed();
    for p in 1..=9 {
        all(p, |_, comm| {
            let (other, mut random, mut call) = (comm.dup()?, Random(seed), 0);
            let mut lengths = vec![0, 1, p, 8, 100];
            let bounds = [LONGEST / p, LONGEST, PIECE, WIDE / p, WIDE];
            lengths.extend(bounds.iter().flat_map(|bound| [bound - 1, *bound, bound + 1]));
            for (name, operation) in calls::ALL {
                for len in &lengths {
                    // Long calls at one root only, for the time of the test.
                    let roots = if *len < PIECE - 1 { 0..p } else { p - 1..p };
                    for root in roots {
                        call += 1;
                        let case = Case { call, len: *len, root, in_place: random.below(2) == 0 };
                        let what = format!("{name} at {} of {p}: {case:?}", comm.rank());
                        print_if_failing(&what, || operation(comm, case))?;
                        between(comm, &other, &mut random, case)?;
                    }
                }
            }
            Ok(())
        });
    }
}

/// Now and then what else uses slots, numbers of calls and the wire.
fn between(comm: &Communicator, other: &Communicator, random: &mut Random, case: Case) -> Result<()> {
    match random.below(12) {
        0 => calls::ALL[random.below(calls::ALL.len())].1(comm, Case { len: 5000, ..case }),
        1 => calls::ALL[random.below(calls::ALL.len())].1(other, case),
        2 => other.with(Options::new().algorithm("binomial")).bcast(&mut [0u8; 9], case.root),
        _ => Ok(()),
    }
}

/// Short, whichever operation: nothing is sent but what is posted. (A rank that waits for long says so to the one that it waits for, on a busy machine
/// now and then; by plan some rank would send a message in each call.)
#[test]
fn no_operation_sends_a_message_while_it_is_short() {
    for p in [2, 3, 5] {
        all(p, |world, comm| {
            for (name, operation) in calls::ALL {
                let case = Case { call: 1, len: 64, root: p - 1, in_place: false };
                operation(comm, case)?;
                comm.barrier()?;
                let before = world.stats();
                for _ in 0..20 {
                    operation(comm, case)?;
                }
                let after = world.stats();
                assert!(after.messages - before.messages < 20, "{name}");
                assert_eq!(after.operations - before.operations, 20, "{name}");
                comm.barrier()?;
            }
            Ok(())
        });
    }
}

/// The bits are those of the algorithms that `reproducible` takes.
#[test]
fn folds_have_the_bits_of_reproducible_calls() {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    for p in 2..=9 {
        // Long reductions are short calls where up to 8 ranks of a node share cores.
        let long = if (3..=8).contains(&p) && p > cores { 50_021 } else { 2999 };
        all(p, |_, comm| {
            let r = comm.rank();
            let with = |name: &str| comm.with(Options::new().algorithm(name));
            for call in 0..20 {
                // Folded whole by each, in parts, and in parts that take several pieces.
                let len = [77, 2999, long][call / 2 % 3];
                let mine: Vec<f32> =
                    calls::given(call, r, len).iter().map(|v| (*v >> 20) as f32 * 1e-3).collect();
                let (mut a, mut b) = (vec![0f32; len], vec![0f32; len]);
                comm.allreduce(&mine, &mut a, ops::Sum)?;
                with("ordered").allreduce(&mine, &mut b, ops::Sum)?;
                assert!(a == b, "allreduce, call {call} at {r} of {p}");
                let root = call % p;
                comm.reduce(&mine, &mut a, ops::Sum, root)?;
                with("ordered").reduce(&mine, &mut b, ops::Sum, root)?;
                assert!(a == b, "reduce, call {call} at {r} of {p}");
                // Long scans are no short calls.
                let n = len.min(2999);
                comm.scan(&mine[..n], &mut a[..n], ops::Sum)?;
                with("doubling").scan(&mine[..n], &mut b[..n], ops::Sum)?;
                assert!(a[..n] == b[..n], "scan, call {call} at {r} of {p}");
                comm.exscan(&mine[..n], &mut a[..n], ops::Sum)?;
                with("circulant").exscan(&mine[..n], &mut b[..n], ops::Sum)?;
                assert!(a[..n] == b[..n], "exscan, call {call} at {r} of {p}");
                let part = len / p;
                comm.reduce_scatter_block(&mine[..part * p], &mut a[..part], ops::Sum)?;
                with("ordered").reduce_scatter_block(&mine[..part * p], &mut b[..part], ops::Sum)?;
                assert!(a == b, "reduce_scatter_block, call {call} at {r} of {p}");
                let mut counts = vec![part; p];
                counts[root] += len - part * p;
                let n = counts[r];
                comm.reduce_scatter(&mine, &mut a[..n], &counts, ops::Sum)?;
                with("ordered").reduce_scatter(&mine, &mut b[..n], &counts, ops::Sum)?;
                assert!(a == b, "reduce_scatter, call {call} at {r} of {p}");
            }
            Ok(())
        });
    }
}

/// Also where its counts are known at the root only, and so no other rank reads what one of them posts.
#[test]
fn a_root_that_is_no_rank_is_refused() {
    const P: usize = 3;
    for operation in
        ["gatherv_rooted", "scatterv_rooted", "bcast", "gather", "gatherv", "scatter", "scatterv"]
    {
        let said = std::sync::Mutex::new(String::new());
        run(vec![0; P], &[], |_, comm| {
            comm.barrier()?;
            let root = if comm.rank() == 1 { P } else { 0 };
            let (mut all, counts) = ([0u64; P], [1; P]);
            let own = match operation {
                "gatherv_rooted" => comm.gatherv_rooted(&[1], &mut all, &counts, root),
                "scatterv_rooted" => comm.scatterv_rooted(&all, &counts, &mut [1], root),
                "bcast" => comm.bcast(&mut all, root),
                "gather" => comm.gather(&[1], &mut all, root),
                "gatherv" => comm.gatherv(&[1], &mut all, &counts, root),
                "scatter" => comm.scatter(&all, &mut [1], root),
                _ => comm.scatterv(&all, &counts, &mut [1], root),
            };
            if comm.rank() == 1 {
                *said.lock().unwrap() = own.map_or_else(|e| e.to_string(), |()| "no error".to_owned());
            }
            Ok(())
        });
        let text = said.into_inner().unwrap();
        assert!(text.contains("root 3 is out of range: there are ranks 0 to 2"), "{operation}: {text}");
    }
}

/// Lengths that only two ranks know: both are named, and nothing has come, whether the block is short or follows by plan.
#[test]
fn both_lengths_are_named_where_two_ranks_disagree() {
    for (there, here) in [(5, 6), (0, 4), (4, 0), (3000, 6), (6, 3000), (3000, 3001), (0, 3000)] {
        for operation in ["gatherv_rooted", "scatterv_rooted", "alltoallv"] {
            let results = run(vec![0; 3], &[], |_, comm| {
                let r = comm.rank();
                let counts = [1, 1, if r == 0 { there } else { here }];
                let mine = vec![8u64; counts[r].max(1)];
                let mut big = vec![7u64; 1 + 1 + there];
                let done = match operation {
                    "gatherv_rooted" if r == 0 => comm.gatherv_rooted(&[1], &mut big, &counts, 0),
                    "gatherv_rooted" => comm.gatherv_rooted(&mine[..counts[r]], &mut [], &[], 0),
                    "scatterv_rooted" if r == 0 => comm.scatterv_rooted(&big, &counts, &mut [1], 0),
                    "scatterv_rooted" => comm.scatterv_rooted(&[], &[], &mut mine.clone()[..counts[r]], 0),
                    // Rank 2 sends `here` elements to rank 0, which expects `there`.
                    _ => {
                        let out = [if r == 2 { here } else { 1 }, 1, 1];
                        let into = [1, 1, if r == 0 { there } else { 1 }];
                        let mut recv = vec![7; into.iter().sum()];
                        comm.alltoallv(&vec![8; out.iter().sum()], &out, &mut recv, &into)
                    }
                };
                assert!(operation != "gatherv_rooted" || big[2..].iter().all(|x| *x == 7), "nothing came");
                done.and_then(|()| comm.barrier()).and_then(|()| comm.barrier())
            });
            let (from, to) = if operation == "scatterv_rooted" { (0, 2) } else { (2, 0) };
            for (rank, result) in results.into_iter().enumerate() {
                let e = result.expect_err("no error");
                let (text, pair) = (e.to_string(), format!("elements from rank {from} to rank {to}:"));
                let named = [(here, there), (there, here)].map(|(a, b)| format!("{pair} {a} and {b}"));
                assert_eq!(e.kind(), circulant::ErrorKind::Mismatch, "{operation} at {rank}: {text}");
                assert!(text.contains(operation), "{operation} at {rank}: {text}");
                assert!(
                    named.iter().any(|named| text.contains(named)),
                    "{operation} at {rank}, {there} and {here}: {text}"
                );
            }
        }
    }
}

/// A rank in place whose blocks follow by plan sends what stood there before, whatever has come meanwhile.
#[test]
fn what_follows_by_plan_in_place_is_what_stood_there() {
    all(4, |_, comm| {
        let r = comm.rank();
        // Between the ranks 1 and 2 much, so that both have long posts; between all others little.
        let counts: Vec<usize> =
            (0..4).map(|j| if (r, j) == (1, 2) || (r, j) == (2, 1) { 9000 } else { 2 }).collect();
        for _ in 0..50 {
            let mut recv: Vec<u16> = counts.iter().flat_map(|n| vec![r as u16; *n]).collect();
            comm.alltoallv(InPlace, &[], &mut recv, &counts)?;
            let expected: Vec<u16> = (0..4).flat_map(|j| vec![j as u16; counts[j]]).collect();
            assert!(recv == expected, "at {r}");
        }
        Ok(())
    });
}

/// A raw operator's function meets no more elements than a call has, however many ranks' are folded at once; and in the order of ranks.
#[test]
fn a_raw_operator_meets_no_more_than_a_call_has() {
    const ELEMENTS: usize = 5;
    for p in 3..=8 {
        all(p, |_, comm| {
            // Not commutative: digits of ranks, one behind the other.
            let append = |left: &[u8], right: &mut [u8]| {
                assert!(left.len() <= ELEMENTS * 16, "{} bytes", left.len());
                for (left, right) in left.chunks(16).zip(right.chunks_mut(16)) {
                    let digits = |bytes: &[u8]| bytes.iter().take_while(|b| **b != 0).count();
                    let (before, own) = (digits(left), digits(right));
                    right.copy_within(..own, before);
                    right[..before].copy_from_slice(&left[..before]);
                }
            };
            let layout = std::alloc::Layout::new::<[u8; 16]>();
            let append = ops::Reducer::raw("append", layout, false, append)?.on_bytes();
            let mut mine = [[0; 16]; ELEMENTS];
            mine.iter_mut().for_each(|element| element[0] = b'0' + comm.rank() as u8);
            let mut all = [0; 16 * ELEMENTS];
            comm.allreduce(mine.as_flattened(), &mut all, &append)?;
            let mut digits = [0; 16];
            (0..p).for_each(|rank| digits[rank] = b'0' + rank as u8);
            assert!(all.chunks(16).all(|element| element == digits), "{all:?}");
            Ok(())
        });
    }
}
