//! Alltoallw: bytes of any layout.

use crate::collective::cover::Random;
use crate::ranks;

use circulant::comm::Layout;
use circulant::transport::{Borrow, sim};
use circulant::{Communicator, ErrorKind, InPlace, Result};

/// What stands where nothing comes.
const OLD: u8 = 77;

/// A matrix of `rows` times `columns` elements of `size` bytes whose rows are the ranks', and shall be transposed: then its columns
/// are. Elements lie `stride` bytes apart, rows of the result as well.
#[derive(Clone, Copy, Debug)]
struct Matrix {
    rows: usize,
    columns: usize,
    size: usize,
    stride: usize,
}

impl Matrix {
    fn random(random: &mut Random) -> Self {
        let size = 1 + random.below(9);
        let (rows, columns) = (random.below(20), random.below(20));
        Self { rows, columns, size, stride: size + random.below(3) }
    }

    /// The rows, or columns, of a rank.
    fn share(total: usize, rank: usize, p: usize) -> std::ops::Range<usize> {
        total * rank / p..total * (rank + 1) / p
    }

    fn byte(row: usize, column: usize, i: usize) -> u8 {
        (row * 31 + column * 7 + i * 101) as u8
    }

    /// A buffer with the elements (row, column), one after the other.
    fn laid(&self, elements: impl Iterator<Item = (usize, usize)>) -> Vec<u8> {
        let mut all = Vec::new();
        for (row, column) in elements {
            all.extend((0..self.size).map(|i| Self::byte(row, column, i)));
            all.extend(vec![OLD; self.stride - self.size]);
        }
        all
    }

    fn element(&self, index: usize) -> (usize, usize) {
        (index * self.stride, self.size)
    }

    /// What a rank has before: its rows, by rows; and after: its columns, by columns.
    fn buffers(&self, rank: usize, p: usize) -> [Vec<u8>; 2] {
        let (rows, columns) = (Self::share(self.rows, rank, p), Self::share(self.columns, rank, p));
        [
            self.laid(rows.flat_map(|row| (0..self.columns).map(move |column| (row, column)))),
            self.laid(columns.flat_map(|column| (0..self.rows).map(move |row| (row, column)))),
        ]
    }

    /// To each peer the elements of our rows and its columns, by columns; of each peer those of its rows and our columns.
    fn layouts(&self, rank: usize, p: usize) -> Result<[Vec<Layout>; 2]> {
        let (rows, columns) = (Self::share(self.rows, rank, p), Self::share(self.columns, rank, p));
        let sent = |peer| {
            let at = |column| rows.clone().map(move |row| (row - rows.start) * self.columns + column);
            let all = Self::share(self.columns, peer, p).flat_map(at);
            Layout::new(all.map(|i| self.element(i)).collect::<Vec<_>>())
        };
        let received = |peer| {
            let theirs = Self::share(self.rows, peer, p);
            let at =
                |column: usize| theirs.clone().map(move |row| (column - columns.start) * self.rows + row);
            let all = columns.clone().flat_map(at);
            Layout::new(all.map(|i| self.element(i)).collect::<Vec<_>>())
        };
        Ok([(0..p).map(sent).collect::<Result<_>>()?, (0..p).map(received).collect::<Result<_>>()?])
    }
}

fn transposed(comm: &Communicator, matrix: Matrix) -> Result<()> {
    let (me, p) = (comm.rank(), comm.size());
    let [send, want] = matrix.buffers(me, p);
    let [sent, received] = matrix.layouts(me, p)?;
    let (old, at) = (vec![OLD; want.len()], format!("{matrix:?} at {me} of {p}"));

    let mut recv = old.clone();
    comm.alltoallw(&send, &sent, &mut recv, &received)?;
    assert_eq!(recv, want, "{at}");
    let mut recv = comm.alloc_from(&old)?;
    comm.alltoallw(&comm.alloc_from(&send)?, &sent, &mut recv, &received)?;
    assert_eq!(recv[..], want, "{at}");
    let mut recv = old.clone();
    comm.scope(|s| {
        let request = s.ialltoallw(&send, &sent, &mut recv, &received)?;
        if me.is_multiple_of(2) { request.wait().map(drop) } else { Ok(()) }
    })?;
    assert_eq!(recv, want, "{at}");
    let mut recv = old.clone();
    // SAFETY: both slices outlive the request, which is waited for before they are touched, and are different ones.
    unsafe { comm.unscoped().ialltoallw(&send, &sent, &mut recv, &received)? }.wait()?;
    assert_eq!(recv, want, "{at}");
    let (from, to) = (comm.alloc_from(&send)?, comm.alloc_from(&old)?);
    let done = comm.ialltoallw(from, &sent, to, &received)?.wait()?;
    assert_eq!(done.recv[..], want, "{at}");
    let (from, to) = (done.send.unwrap(), done.recv);
    let mut often = comm.alltoallw_init(from, &sent, to, &received)?;
    for round in 0..3u8 {
        // What is sent is taken at each start.
        often.input()?.iter_mut().zip(&send).for_each(|(x, was)| *x = was.wrapping_add(round));
        often.output()?.copy_from_slice(&old);
        often.start()?;
        often.wait()?;
        let (got, mut now) = (often.output()?, old.clone());
        for (at, len) in received.iter().flat_map(Layout::pieces) {
            (*at..at + len).for_each(|i| now[i] = want[i].wrapping_add(round));
        }
        assert_eq!(got, now, "round {round}, {at}");
    }
    Ok(())
}

/// Pieces of the same number of bytes in each direction between two ranks, scattered in one buffer, change places.
fn exchanged_in_place(comm: &Communicator, random: &mut Random) -> Result<()> {
    let (me, p) = (comm.rank(), comm.size());
    let bytes: Vec<usize> = (0..p * p).map(|_| [0, 1, 6, 900][random.below(4)]).collect();
    let (mut own, mut at) = (Random(random.draw() ^ me as u64), 0);
    let mut cut = |len: usize| {
        let first = own.below(len + 1);
        let mut piece = |len| {
            at += own.below(3) + len;
            (at - len, len)
        };
        let (one, other) = (piece(first), piece(len - first));
        Layout::new([other, one])
    };
    let layouts =
        (0..p).map(|peer| cut(bytes[me.min(peer) * p + me.max(peer)])).collect::<Result<Vec<_>>>()?;
    let told = |from: usize, to: usize, i: usize| (from * 50 + to * 9 + i) as u8;
    let laid = |byte: &dyn Fn(usize, usize) -> u8| {
        let mut all = vec![OLD; at];
        for (peer, layout) in layouts.iter().enumerate() {
            let places = layout.pieces().iter().flat_map(|(at, len)| *at..at + len);
            places.enumerate().for_each(|(i, place)| all[place] = byte(peer, i));
        }
        all
    };
    let (before, after) = (laid(&|peer, i| told(me, peer, i)), laid(&|peer, i| told(peer, me, i)));
    let mut recv = before.clone();
    comm.alltoallw(InPlace, &[], &mut recv, &layouts)?;
    assert_eq!(recv, after, "at {me} of {p}");
    let done = comm.ialltoallw(InPlace, &[], comm.alloc_from(&before)?, &layouts)?.wait()?;
    assert_eq!(done.recv[..], after, "at {me} of {p}");
    recv.copy_from_slice(&before);
    comm.scope(|s| s.ialltoallw(InPlace, &[], &mut recv, &layouts)?.wait().map(drop))?;
    assert_eq!(recv, after, "at {me} of {p}");
    Ok(())
}

#[test]
fn rows_become_columns() {
    let seed = std::env::var("COLLECTIVES_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("COLLECTIVES_SEED={seed}");
    for p in [1, 2, 3, 5, 8] {
        let some = |comm: &Communicator| {
            let mut random = Random(seed + p as u64);
            for _ in 0..8 {
                transposed(comm, Matrix::random(&mut random))?;
                exchanged_in_place(comm, &mut random)?;
            }
            // Whole rows and columns are one piece.
            transposed(comm, Matrix { rows: 3 * p, columns: p, size: 1000, stride: 1000 })
        };
        let bad =
            sim::Faults { seed, refuse: 60, delay: 5, reorder: true, max_put: 1000, ..Default::default() };
        let staged = sim::Faults { borrow: Borrow::Staged, ..bad.clone() };
        for faults in [&bad, &staged] {
            ranks::run(p, faults, &[], |_, comm| some(comm)).into_iter().for_each(|result| result.unwrap());
        }
        for provider in ["shm", "tcp"] {
            let all = ranks::run_over(provider, p, &[("deadline", "20")], |_, comm| some(comm));
            all.into_iter().for_each(|result| result.unwrap_or_else(|e| panic!("{provider}: {e}")));
        }
    }
}

/// Rank 2 sends rank 0 in two pieces more, or less, than it expects: all learn both numbers, and nothing has come.
#[test]
fn ranks_that_disagree_learn_both_numbers() {
    for (there, here) in [(5, 6), (6, 5), (4000, 100_000)] {
        let all = ranks::run(3, &sim::Faults::default(), &[], |_, comm| {
            let (me, none) = (comm.rank(), vec![Layout::default(); 3]);
            let (mut sent, mut received) = (none.clone(), none);
            if me == 2 {
                sent[0] = Layout::new([(0, 1), (2, here - 1)])?;
            }
            if me == 0 {
                received[2] = Layout::new([(there + 1, there / 2), (0, there - there / 2)])?;
            }
            let mut recv = vec![OLD; 2 * there + 2];
            let result = comm.alltoallw(&vec![1; here + 2], &sent, &mut recv, &received);
            assert!(recv.iter().all(|x| *x == OLD));
            result.and_then(|()| comm.barrier())
        });
        for result in all {
            let e = result.unwrap_err();
            let text = e.to_string();
            let named = [(here, there), (there, here)]
                .map(|(a, b)| format!("elements from rank 2 to rank 0: {a} and {b}"));
            assert_eq!(e.kind(), ErrorKind::Mismatch, "{text}");
            assert!(text.contains("alltoallw #"), "{text}");
            assert!(named.iter().any(|named| text.contains(named)), "{there} and {here}: {text}");
        }
    }
}

#[test]
fn wrong_layouts() {
    type Call = fn(&Communicator, bool) -> Result<()>;
    let calls: [(Call, &str); 5] = [
        (
            |comm, bad| {
                let all = vec![Layout::new([(0, 1)])?; if bad { 1 } else { 2 }];
                let received = [Layout::new([(0, 1)])?, Layout::new([(1, 1)])?];
                comm.alltoallw(&[1], &all, &mut [0; 2], &received)
            },
            "1 layouts of send for 2 ranks",
        ),
        (
            |comm, bad| {
                let sent = vec![Layout::new([(0, 1), (if bad { 3 } else { 2 }, 1)])?; 2];
                let received = [Layout::new([(0, 2)])?, Layout::new([(2, 2)])?];
                comm.alltoallw(&[1; 3], &sent, &mut [0; 4], &received)
            },
            "1 bytes at 3 of the layout of rank 0 do not fit into send, which has 3",
        ),
        (
            |comm, bad| {
                let sent = vec![Layout::new([(0, 2)])?; 2];
                let received = [Layout::new([(0, 2)])?, Layout::new([(2, 2)])?];
                comm.alltoallw(&[1; 2], &sent, &mut vec![0; if bad { 3 } else { 4 }], &received)
            },
            "2 bytes at 2 of the layout of rank 1 do not fit into recv, which has 3",
        ),
        (
            |comm, bad| {
                let sent = vec![Layout::new([(0, 2)])?; 2];
                let received = [Layout::new([(0, 1), (2, 1)])?, Layout::new([(if bad { 2 } else { 3 }, 2)])?];
                comm.alltoallw(&[1; 2], &sent, &mut [0; 5], &received)
            },
            "received pieces overlap: bytes 2..3 and 2..4",
        ),
        (
            |comm, bad| {
                let received = [Layout::new([(0, 2)])?, Layout::new([(if bad { 1 } else { 2 }, 2)])?];
                comm.ialltoallw(InPlace, &[], comm.alloc(4)?, &received)?.wait().map(drop)
            },
            "received pieces overlap: bytes 0..2 and 1..3",
        ),
    ];
    for (call, words) in calls {
        for result in ranks::run(2, &sim::Faults::default(), &[], |_, comm| call(comm, false)) {
            result.unwrap_or_else(|e| panic!("{words}: {e}"));
        }
        let all = ranks::run(2, &sim::Faults::default(), &[], |_, comm| {
            call(comm, comm.rank() == 1).and_then(|()| comm.barrier())
        });
        for result in all {
            let e = result.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Argument, "{e}");
            assert!(e.to_string().contains(words), "{words}: {e}");
        }
    }
}
