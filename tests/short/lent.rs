//! Calls whose bytes readers find where they lie: in memory of an arena, with plain memory at some of the ranks.

use crate::calls::given;
use crate::{run, seed};
use circulant::{Buf, Communicator, ErrorKind, InPlace, Result, ops};
use circulant_tests::collective::cover::Random;
use std::ops::{Deref, DerefMut};

/// Waits as if each rank had a core of its own, as ranks that share some lend long posts only.
const SPIN: (&str, &str) = ("wait", "spin");

/// Elements of memory of an arena or of a vector.
enum Memory {
    Arena(Buf<u64>),
    Plain(Vec<u64>),
}

impl Deref for Memory {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match self {
            Self::Arena(buffer) => buffer,
            Self::Plain(vector) => vector,
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u64] {
        match self {
            Self::Arena(buffer) => buffer,
            Self::Plain(vector) => vector,
        }
    }
}

fn memory(comm: &Communicator, arena: bool, content: &[u64]) -> Result<Memory> {
    if !arena {
        return Ok(Memory::Plain(content.to_vec()));
    }
    let mut buffer = comm.alloc(content.len())?;
    buffer.copy_from_slice(content);
    Ok(Memory::Arena(buffer))
}

/// Memory of one rank for one call after the other.
struct Rank<'a> {
    comm: &'a Communicator,
    arena: bool,
    call: usize,
    len: usize,
}

impl Rank<'_> {
    /// What a rank gives, in our kind of memory.
    fn given(&self) -> Result<Memory> {
        memory(self.comm, self.arena, &given(self.call, self.comm.rank(), self.len))
    }

    fn room(&self, len: usize) -> Result<Memory> {
        memory(self.comm, self.arena, &vec![7; len])
    }

    fn block(&self, rank: usize) -> Vec<u64> {
        given(self.call, rank, self.len)
    }

    /// The blocks of all, one behind the other.
    fn blocks(&self) -> Vec<u64> {
        (0..self.comm.size()).flat_map(|rank| self.block(rank)).collect()
    }

    fn folded(&self) -> Vec<u64> {
        let xor = |sum: Vec<u64>, one: Vec<u64>| sum.iter().zip(one).map(|(a, b)| a ^ b).collect();
        (0..self.comm.size()).map(|rank| self.block(rank)).reduce(xor).unwrap()
    }
}

/// Each operation with this memory. What was sent is overwritten as soon as the call has returned.
fn each_operation(rank: &Rank<'_>, root: usize) -> Result<()> {
    let (comm, p, r, len) = (rank.comm, rank.comm.size(), rank.comm.rank(), rank.len);
    let what = |name: &str| format!("{name} of {len} from {root} at {r} of {p}");
    let mut send = rank.given()?;
    comm.bcast(&mut send, root)?;
    assert!(*send == *rank.block(root), "{}", what("bcast"));
    send.fill(1);
    let (mut send, mut all) = (rank.given()?, rank.room(p * len)?);
    comm.allgather(&*send, &mut all)?;
    send.fill(2);
    assert!(*all == *rank.blocks(), "{}", what("allgather"));
    all.fill(3);
    all[r * len..][..len].copy_from_slice(&rank.block(r));
    comm.allgather(InPlace, &mut all)?;
    assert!(*all == *rank.blocks(), "{}", what("allgather in place"));
    all.fill(4);
    let mut send = rank.given()?;
    comm.gather(&*send, &mut all[..if r == root { p * len } else { 0 }], root)?;
    send.fill(5);
    assert!(r != root || *all == *rank.blocks(), "{}", what("gather"));
    let mut blocks = memory(comm, rank.arena, &rank.blocks())?;
    let mut recv = rank.room(len)?;
    comm.scatter(&blocks[..if r == root { p * len } else { 0 }], &mut *recv, root)?;
    blocks.fill(6);
    assert!(*recv == *rank.block(r), "{}", what("scatter"));
    let mut send = rank.given()?;
    let part = len / p;
    comm.alltoall(&send[..part * p], &mut recv[..part * p])?;
    send.fill(8);
    assert!(
        (0..p).all(|j| recv[j * part..][..part] == rank.block(j)[r * part..][..part]),
        "{}",
        what("alltoall")
    );
    let mut send = rank.given()?;
    comm.alltoall(InPlace, &mut send[..part * p])?;
    assert!(
        (0..p).all(|j| send[j * part..][..part] == rank.block(j)[r * part..][..part]),
        "{}",
        what("alltoall in place")
    );
    let mut send = rank.given()?;
    comm.allreduce(&*send, &mut recv, ops::user("xor", true, |a: u64, b: u64| a ^ b))?;
    send.fill(9);
    assert!(*recv == *rank.folded(), "{}", what("allreduce"));
    let (send, mut other) = (rank.given()?, memory(comm, !rank.arena, &vec![7; len])?);
    comm.allreduce(&*send, &mut other, ops::user("xor", true, |a: u64, b: u64| a ^ b))?;
    assert!(*other == *rank.folded(), "{}", what("allreduce to the other kind of memory"));
    let mut send = rank.given()?;
    comm.allreduce(InPlace, &mut send, ops::user("xor", true, |a: u64, b: u64| a ^ b))?;
    assert!(*send == *rank.folded(), "{}", what("allreduce in place"));
    recv.fill(10);
    let mut send = rank.given()?;
    comm.reduce(
        &*send,
        &mut recv[..if r == root { len } else { 0 }],
        ops::user("xor", true, |a: u64, b: u64| a ^ b),
        root,
    )?;
    send.fill(11);
    assert!(r != root || *recv == *rank.folded(), "{}", what("reduce"));
    scattered_sums(rank)
}

/// Reduce-scatters with this memory, of parts that are not all equal and of equal ones.
fn scattered_sums(rank: &Rank<'_>) -> Result<()> {
    let (comm, p, r, part) = (rank.comm, rank.comm.size(), rank.comm.rank(), rank.len / rank.comm.size());
    let by = || ops::user("xor", true, |a: u64, b: u64| a ^ b);
    let mut counts = vec![part; p];
    (counts[0], counts[p - 1]) = (part / 2, part + part - part / 2);
    let at: usize = counts[..r].iter().sum();
    let (mut send, mut recv) = (rank.given()?, rank.room(counts[r])?);
    comm.reduce_scatter(&send[..part * p], &mut recv, &counts, by())?;
    send.fill(12);
    assert!(*recv == rank.folded()[at..][..counts[r]], "reduce_scatter of {part} at {r} of {p}");
    let (mut send, mut recv) = (rank.given()?, rank.room(part)?);
    comm.reduce_scatter_block(&send[..part * p], &mut recv, by())?;
    send.fill(13);
    assert!(*recv == rank.folded()[r * part..][..part], "reduce_scatter_block of {part} at {r} of {p}");
    Ok(())
}

/// All kinds of memory at each rank, lengths about those at which posts are lent, parted, folded in halves, go piece by piece, and are no longer short.
#[test]
fn blocks_come_as_they_were_when_they_were_sent() {
    let seed = seed();
    let settings = [&[SPIN][..], &[SPIN, ("adapt", "off")], &[]];
    for (p, settings) in [2, 3].into_iter().flat_map(|p| settings.map(|s| (p, s))) {
        let results = run(vec![0; p], settings, |_, comm| {
            let mut random = Random(seed);
            let lengths =
                [1000, 1023, 1024, 1025, 2048, 2049, 4096, 5000, 8192, 8193, 16_383, 16_384, 16_385];
            let long: &[usize] = match p {
                2 => &[32_769, 49_153, 65_536, 65_537, 131_072, 131_073, 524_288, 524_289],
                _ => &[20_000, 49_153, 65_535, 65_536, 65_537],
            };
            let lengths =
                lengths.into_iter().cycle().take(52).chain(long.iter().copied().cycle().take(4 * long.len()));
            for (call, len) in lengths.enumerate() {
                let (kinds, root) = (random.below(1 << p), random.below(p));
                let rank = Rank { comm, arena: kinds >> comm.rank() & 1 == 1, call, len };
                each_operation(&rank, root)?;
            }
            Ok(())
        });
        results.into_iter().for_each(|result| result.unwrap());
    }
}

/// Two ranks with a core each post allreduces of 64 to 512 KiB out of an arena, and lend longer ones: what is lent is counted whole.
#[test]
fn allreduces_of_middle_length_are_posted() {
    let results = run(vec![0; 2], &[SPIN], |world, comm| {
        let mut counted = Vec::new();
        for len in [8192, 65_536, 65_537] {
            let (send, mut recv) = (comm.alloc::<u64>(len)?, comm.alloc::<u64>(len)?);
            let before = world.stats();
            comm.allreduce(&*send, &mut recv, ops::Sum)?;
            counted.push((world.stats().put_bytes - before.put_bytes) as usize - 8 * len);
        }
        // A half of each, but that its middle may be an element off.
        Ok((counted[..2] == [0, 0]) && counted[2].abs_diff(4 * 65_537) <= 8)
    });
    results.into_iter().for_each(|result| assert!(result.unwrap()));
}

/// Ranks exchange blocks that differ in length piece by piece, in any kind of memory, also in place: two, and more where they share cores.
#[test]
fn blocks_of_any_length_are_exchanged_without_a_message() {
    /// Bytes of a post, at most: longer blocks go in pieces of 128 KiB, or of more ranks than two in twice as long ones.
    const POST: usize = 512 << 10;
    const PIECE: usize = 128 << 10;
    let seed = seed();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let more = (cores + 1).clamp(5, 16);
    for (p, settings) in [(2, &[SPIN][..]), (2, &[]), (3, &[SPIN]), (more, &[])] {
        let results = run(vec![0; p], settings, |world, comm| {
            let (mut random, r) = (Random(seed), comm.rank());
            // Results of the last one go round the cache.
            let lengths = [POST, POST + 8, POST + PIECE, 2 * POST - 8, 16 * POST + 8, 50 * POST];
            let other = |random: &mut Random| [0, 8, PIECE, 2 * PIECE + 8, POST, 9 * PIECE][random.below(6)];
            for (call, long) in lengths.into_iter().cycle().take(20).enumerate() {
                let mut counts: Vec<_> = (1..p).map(|_| other(&mut random) / 8).collect();
                counts.insert(random.below(p), long / 8);
                let kinds = random.below(1 << (2 * p));
                let is_arena = |i: usize| kinds >> (2 * r + i) & 1 == 1;
                let expected: Vec<_> = (0..p).flat_map(|rank| given(call, rank, counts[rank])).collect();
                let mut send = memory(comm, is_arena(0), &given(call, r, counts[r]))?;
                let mut recv = memory(comm, is_arena(1), &vec![7; expected.len()])?;
                let before = world.stats();
                comm.allgatherv(&*send, &mut recv, &counts)?;
                send.fill(1);
                assert!(*recv == *expected, "call {call}: {counts:?} at {r}");
                let at: usize = counts[..r].iter().sum();
                recv.fill(2);
                recv[at..][..counts[r]].copy_from_slice(&expected[at..][..counts[r]]);
                comm.allgatherv(InPlace, &mut recv, &counts)?;
                assert!(*recv == *expected, "call {call}: {counts:?} at {r} in place");
                let (after, short) = (world.stats(), p == 2 || p > cores);
                let rounds = after.rounds - before.rounds;
                assert!(
                    !short || rounds == 2,
                    "call {call}: {counts:?} took {rounds} rounds, one each if short"
                );
                // A rank that waits for long tells the other; by plan it would for each piece.
                let messages = after.messages - before.messages;
                assert!(p > 2 || messages < 4, "call {call}: {counts:?} took {messages} messages");
            }
            Ok(())
        });
        results.into_iter().for_each(|result| result.unwrap());
    }
}

/// Two ranks with plain memory try to read each other's by address: within the first 11 calls of a kind and length, and then again now and then. What was sent
/// is overwritten as soon as a call has returned.
#[test]
fn plain_memory_comes_as_it_was_while_both_ways_are_tried() {
    let seed = seed();
    let results = run(vec![0; 2], &[SPIN], |_, comm| {
        let (mut random, r, other) = (Random(seed), comm.rank(), comm.dup()?);
        for len in [2048, 16_384, 16_385, 70_000, 140_000] {
            for call in 0..40 {
                let comm = if random.below(4) == 0 { &other } else { comm };
                let (root, short) = (random.below(2), random.below(2048));
                let mut data = given(call, r, len);
                comm.bcast(&mut data, root)?;
                assert!(data == given(call, root, len), "bcast {call} of {len} from {root} at {r}");
                data.fill(1);
                let (mut send, mut all) = (given(call, r, len), vec![7; 2 * len]);
                comm.allgather(&send, &mut all)?;
                send.fill(2);
                assert!(
                    all == [given(call, 0, len), given(call, 1, len)].concat(),
                    "allgather {call} of {len} at {r}"
                );
                let mut counts = [len, short];
                counts.rotate_left(random.below(2));
                let mut send = given(call, r, counts[r]);
                let mut all = vec![7; len + short];
                comm.allgatherv(&send, &mut all, &counts)?;
                send.fill(3);
                let expected = [given(call, 0, counts[0]), given(call, 1, counts[1])].concat();
                assert!(all == expected, "allgatherv {call} of {counts:?} at {r}");
                let (mut data, mut all) = (given(call, r, 2 * len), vec![7; 2 * len]);
                if r == root {
                    comm.alltoall(&data, &mut all)?;
                } else {
                    comm.alltoall(InPlace, &mut data)?;
                    all.copy_from_slice(&data);
                }
                let expected = [0, 1].map(|from| given(call, from, 2 * len)[r * len..][..len].to_vec());
                assert!(all == expected.concat(), "alltoall {call} of {len}, in place but at {root}, at {r}");
                each_operation(&Rank { comm, arena: false, call, len: 2 * len }, root)?;
            }
        }
        Ok(())
    });
    results.into_iter().for_each(|result| result.unwrap());
}

/// Vectors so long that the result goes round the cache are folded piece by piece, or at once where all lend theirs, in any kind of memory, also in place.
#[test]
fn long_vectors_are_folded_without_a_message() {
    const P: usize = 5;
    /// Elements of a vector of 10 MiB: from 48 MiB / P on they go round the cache.
    const LEN: usize = (10 << 17) + 1;
    let seed = seed();
    let results = run(vec![0; P], &[], |world, comm| {
        let mut random = Random(seed);
        for call in 0..4 {
            let kinds = if call == 3 { usize::MAX } else { random.below(1 << (2 * P)) };
            let is_arena = |i: usize| kinds >> (2 * comm.rank() + i) & 1 == 1;
            let rank = Rank { comm, arena: is_arena(0), call, len: LEN };
            let (mut send, expected) = (rank.given()?, rank.folded());
            let mut recv = memory(comm, is_arena(1), &vec![7; LEN])?;
            let before = world.stats().messages;
            comm.allreduce(&*send, &mut recv, ops::user("xor", true, |a: u64, b: u64| a ^ b))?;
            assert!(*recv == *expected, "call {call} at {}", comm.rank());
            comm.allreduce(InPlace, &mut send, ops::user("xor", true, |a: u64, b: u64| a ^ b))?;
            assert!(*send == *expected, "call {call} at {} in place", comm.rank());
            // A rank that waits for long tells others; by plan each would send some for each block.
            assert!(world.stats().messages - before < 20, "call {call} goes by posts");
        }
        Ok(())
    });
    results.into_iter().for_each(|result| result.unwrap());
}

/// A rank that never comes to read what is lent to it is waited for, as long as the deadline says, and missed when it is gone.
#[test]
fn readers_that_stay_away_or_leave_are_named() {
    for leaves in [false, true] {
        let results = run(vec![0; 3], &[SPIN, ("deadline", if leaves { "20" } else { "1" })], |_, comm| {
            let mut data = comm.alloc::<u64>(4096)?;
            comm.bcast(&mut data, 0)?;
            comm.barrier()?;
            if comm.rank() == 2 {
                if leaves {
                    return Err(circulant::Error::new(ErrorKind::Argument, "gone"));
                }
                std::thread::sleep(std::time::Duration::from_secs(3));
            }
            let sent = comm.bcast(&mut data, 0);
            assert!(comm.rank() != 0 || sent.is_err(), "the root has not waited for its readers");
            sent
        });
        let e = results[0].as_ref().unwrap_err();
        let kind = if leaves { ErrorKind::PeerLost } else { ErrorKind::Timeout };
        assert_eq!((e.kind(), e.peer()), (kind, Some(2)), "{e}");
        // That a rank is gone another may have noticed first, in its next call.
        assert!(leaves || e.to_string().contains("bcast"), "{e}");
    }
}

/// A root whose long posts have no room next to each other waits for their readers, as long as the deadline says, and names the one that has not read.
#[test]
fn a_post_without_room_waits_for_its_readers() {
    /// Bytes of a block. The root posts two of them at once: wide memory (1 MiB) holds three such posts.
    const LEN: usize = 170_000;
    let results = run(vec![0; 3], &[("deadline", "1")], |_, comm| {
        let (send, mut recv) = (vec![7u8; 3 * LEN], vec![0; LEN]);
        for call in 0..4 {
            if comm.rank() == 2 {
                std::thread::sleep(std::time::Duration::from_secs(3));
            }
            let all = if comm.rank() == 0 { &send[..] } else { &[] };
            let sent = comm.scatter(all, &mut recv, 0);
            assert!(
                comm.rank() != 0 || call < 3 || sent.is_err(),
                "the root has written over what is unread"
            );
            sent?;
        }
        Ok(())
    });
    let e = results[0].as_ref().unwrap_err();
    assert_eq!((e.kind(), e.peer()), (ErrorKind::Timeout, Some(2)), "{e}");
    assert!(e.to_string().contains("scatter"), "{e}");
}

/// Elements without bytes are folded, too.
#[test]
fn two_ranks_fold_nothing() {
    let results = run(vec![0; 2], &[], |_, comm| {
        comm.allreduce(InPlace, &mut [(); 3], ops::user("first", true, |a: (), _: ()| a))?;
        comm.allreduce(&[(); 3], &mut [(); 3], ops::user("first", true, |a: (), _: ()| a))
    });
    results.into_iter().for_each(|result| result.unwrap());
}

/// Two ranks fold long vectors piece by piece, in the order of ranks, also of elements that are no power of two.
#[test]
fn two_ranks_fold_long_vectors_in_order() {
    type Wide = [u32; 3];
    let last = |a: Wide, b: Wide| [a[0].wrapping_mul(3).wrapping_add(b[0]), b[1], a[2]];
    for settings in [&[SPIN][..], &[]] {
        let results = run(vec![0; 2], settings, |world, comm| {
            for len in [1366, 2731, 5000, 10_900, 10_923, 40_001, 87_381] {
                let of = |rank: usize| -> Vec<Wide> {
                    (0..len).map(|i| [i as u32 * 7, rank as u32, 9 - rank as u32]).collect()
                };
                let expected: Vec<Wide> = of(0).into_iter().zip(of(1)).map(|(a, b)| last(a, b)).collect();
                let before = world.stats().messages;
                let (mine, mut sum) = (of(comm.rank()), vec![[0; 3]; len]);
                comm.allreduce(&mine, &mut sum, ops::user("last", false, last))?;
                assert!(sum == expected, "{len}");
                let mut sum = mine;
                comm.allreduce(InPlace, &mut sum, ops::user("last", false, last))?;
                assert!(sum == expected, "{len} in place");
                // More than a core for each: nothing but posts. (A rank that waits for long tells the other.)
                let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
                assert!(cores < 2 || world.stats().messages - before < 2, "{len}");
            }
            Ok(())
        });
        results.into_iter().for_each(|result| result.unwrap());
    }
}

/// Vectors that no post holds are folded piece by piece, also where some ranks lend theirs and others post them.
#[test]
fn several_ranks_fold_long_vectors_in_order() {
    // Of functions x → ax + b one after the other: the order counts, and brackets do not.
    type Affine = [u32; 2];
    let after = |f: Affine, g: Affine| [f[0].wrapping_mul(g[0]), f[0].wrapping_mul(g[1]).wrapping_add(f[1])];
    for (p, settings) in [(3, &[SPIN][..]), (3, &[]), (5, &[])] {
        let results = run(vec![0; p], settings, |world, comm| {
            // In 8 bytes: the most that goes in one piece, more, the most that is short where ranks share cores, more.
            let lengths = [65_536, 65_537, 98_305, 400_001, 1_048_576, 1_048_577];
            // The ranks whose memory is an arena's: all, every second one, one, none.
            for (len, one_in) in lengths.into_iter().flat_map(|len| [1, 2, p, p + 1].map(|i| (len, i))) {
                let of = |rank: usize| -> Vec<Affine> {
                    (0..len as u32).map(|i| [2 * i + 3 + rank as u32, i * 7 + rank as u32]).collect()
                };
                let expected = (1..p)
                    .fold(of(0), |f, rank| f.into_iter().zip(of(rank)).map(|(f, g)| after(f, g)).collect());
                let (mut mine, mut sum) = (comm.alloc(len)?, comm.alloc(len)?);
                let (mut plain, mut plain_sum) = (of(comm.rank()), vec![[0; 2]; len]);
                mine.copy_from_slice(&plain);
                let before = world.stats().messages;
                let by = || ops::user("after", false, after);
                let what = format!("{len}, arena memory at one in {one_in}");
                let (mine, sum) = match (comm.rank() + 1) % one_in {
                    0 => (&mut mine[..], &mut sum[..]),
                    // What is sent or what is received is an arena's, at the last ranks.
                    1 if one_in == p => (&mut plain[..], &mut sum[..]),
                    2 if one_in == p => (&mut mine[..], &mut plain_sum[..]),
                    _ => (&mut plain[..], &mut plain_sum[..]),
                };
                comm.allreduce(&*mine, sum, by())?;
                assert!(*sum == *expected, "{what}");
                comm.allreduce(InPlace, mine, by())?;
                assert!(*mine == *expected, "{what}, in place");
                // A rank that waits for long tells the others.
                assert!(len > 1_048_576 || world.stats().messages - before < 2 * p as u64, "{what}");
            }
            Ok(())
        });
        results.into_iter().for_each(|result| result.unwrap());
    }
}
