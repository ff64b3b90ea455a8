//! The table of operations that `bench` knows. A new one is an entry here.

use super::dist::Dist;
use crate::units::rounds;
use circulant::comm::{Buf, Persistent};
use circulant::{Communicator, Result};

/// One collective, as the benchmark sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// What the size of a point means, for --help.
    pub(crate) sizes: &'static str,
    /// Takes sizes.
    pub(crate) sized: bool,
    /// Takes distributions.
    pub(crate) irregular: bool,
    /// What each rank sends and receives.
    pub(crate) shape: fn(&Place) -> Shape,
    pub(crate) how: How,
}

/// Calls it with what is sent and where the result goes.
pub(crate) type Call = fn(&Communicator, &Shape, &[u8], &mut [u8]) -> Result<()>;
/// The same as a persistent operation, on arena memory.
pub(crate) type Init = fn(&Communicator, &Shape, Buf<u8>, Buf<u8>) -> Result<Persistent<u8>>;

/// How it is run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// By a call of the library.
    Collective {
        /// Blocking.
        call: Call,
        /// Persistent, where there is such a thing.
        init: Option<Init>,
    },
    /// The raw wire between ranks 0 and 1.
    Put,
}

/// Where a shape is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) p: usize,
    pub(crate) rank: usize,
    pub(crate) root: usize,
    pub(crate) bytes: u64,
    pub(crate) dist: Option<&'static Dist>,
}

/// What one rank sends and receives, in bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) root: usize,
    pub(crate) send: usize,
    pub(crate) recv: usize,
    pub(crate) counts: Vec<usize>,
    pub(crate) displs: Vec<usize>,
    /// The result: which bytes of `recv` come from whom, each from its contribution's beginning.
    pub(crate) pieces: Vec<Piece>,
    /// `recv` holds this rank's contribution from the start.
    pub(crate) in_place: bool,
    /// Bytes that the reference counts: C = β·volume + rounds·(L+o).
    pub(crate) volume: u64,
    pub(crate) rounds: u32,
}

/// Bytes of the result that come from one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) owner: usize,
}

/// All operations.
pub(crate) const OPERATIONS: [Operation; 5] = [
    Operation {
        name: "bcast",
        sizes: "the vector, exactly",
        sized: true,
        irregular: false,
        shape: bcast,
        how: How::Collective {
            call: |comm, shape, _, recv| comm.bcast(recv, shape.root),
            init: Some(|comm, shape, _, recv| comm.bcast_init(recv, shape.root)),
        },
    },
    Operation {
        name: "allgatherv",
        sizes: "the whole result, distributed in 4-byte units; a remainder goes to the rank that takes the rest",
        sized: true,
        irregular: true,
        shape: allgatherv,
        how: How::Collective {
            call: |comm, shape, send, recv| comm.allgatherv(send, recv, &shape.counts, &shape.displs),
            init: Some(|comm, shape, send, recv| {
                comm.allgatherv_init(send, recv, &shape.counts, &shape.displs)
            }),
        },
    },
    Operation {
        name: "allgather",
        sizes: "the whole result; each rank sends floor(SIZE/4/P) units of 4 bytes, at least one \
                (floor(SIZE/P) bytes when SIZE is no multiple of 4)",
        sized: true,
        irregular: false,
        shape: allgather,
        how: How::Collective { call: |comm, _, send, recv| comm.allgather(send, recv), init: None },
    },
    Operation {
        name: "barrier",
        sizes: "none",
        sized: false,
        irregular: false,
        shape: |place| Shape { rounds: rounds(place.p), ..Shape::default() },
        how: How::Collective { call: |comm, _, _, _| comm.barrier(), init: None },
    },
    Operation {
        name: "put",
        sizes: "one put; the time is half a round trip between ranks 0 and 1, the raw wire",
        sized: true,
        irregular: false,
        shape: |place| Shape { volume: place.bytes, rounds: 1, ..Shape::default() },
        how: How::Put,
    },
];

impl Operation {
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        OPERATIONS.iter().find(|o| o.name == name)
    }
}

/// Sizes are below 2^48 (refused otherwise) and this is a 64-bit program.
fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn bcast(place: &Place) -> Shape {
    let len = length(place.bytes);
    Shape {
        root: place.root,
        recv: len,
        pieces: vec![Piece { start: 0, len, owner: place.root }],
        in_place: place.rank == place.root,
        volume: place.bytes,
        rounds: rounds(place.p),
        ..Shape::default()
    }
}

fn allgatherv(place: &Place) -> Shape {
    let dist = place.dist.unwrap_or(&super::dist::DISTS[0]);
    gathered(place, dist.counts(place.bytes, place.p).into_iter().map(length).collect())
}

fn allgather(place: &Place) -> Shape {
    let p = place.p as u64;
    let block = match place.bytes {
        0 => 0,
        b if b % 4 == 0 => (b / 4 / p).max(1) * 4,
        b => (b / p).max(1),
    };
    gathered(place, vec![length(block); place.p])
}

fn gathered(place: &Place, counts: Vec<usize>) -> Shape {
    let (displs, recv) = crate::agree::starts(&counts);
    let smallest = counts.iter().min().copied().unwrap_or(0);
    let pieces = counts.iter().zip(&displs).enumerate();
    Shape {
        send: counts[place.rank],
        recv,
        pieces: pieces.map(|(owner, (&len, &start))| Piece { start, len, owner }).collect(),
        volume: (recv - smallest) as u64,
        rounds: rounds(place.p),
        counts,
        displs,
        ..Shape::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(op: &str, p: usize, rank: usize, bytes: u64, dist: Option<&str>) -> Shape {
        let dist = dist.and_then(Dist::find);
        (Operation::find(op).unwrap().shape)(&Place { p, rank, root: 1, bytes, dist })
    }

    #[test]
    fn sizes_mean_what_the_rivals_mean() {
        let s = shape("bcast", 4, 2, 1001, None);
        assert_eq!((s.send, s.recv, s.root, s.in_place, s.volume, s.rounds), (0, 1001, 1, false, 1001, 2));
        assert!(shape("bcast", 4, 1, 1001, None).in_place);
        // 250 ints among 4: 62 each.
        let s = shape("allgather", 4, 2, 1000, None);
        assert_eq!((s.send, s.recv, s.volume), (248, 992, 744));
        // Less than an int for each: one each.
        assert_eq!(shape("allgather", 4, 0, 8, None).recv, 16);
        assert_eq!(shape("allgather", 4, 0, 0, None).recv, 0);
        assert_eq!(shape("allgather", 4, 0, 1003, None).send, 250);
        let s = shape("allgatherv", 3, 2, 400, Some("irr3"));
        assert_eq!((s.counts, s.displs, s.send, s.volume), (vec![0, 132, 268], vec![0, 0, 132], 268, 400));
        assert_eq!(shape("barrier", 9, 0, 0, None).rounds, 4);
    }

    #[test]
    fn the_pieces_cover_the_result() {
        for (op, dist) in [("bcast", None), ("allgather", None), ("allgatherv", Some("geometric"))] {
            let s = shape(op, 7, 3, 10_001, dist);
            let mut end = 0;
            for piece in &s.pieces {
                assert_eq!(piece.start, end);
                end += piece.len;
            }
            assert_eq!(end, s.recv, "{op}");
        }
    }
}
