//! Where the bytes lie that go to one peer, or come from it: any number of pieces of a buffer.

use super::partition::overlap;
use super::shadow::Piece;
use crate::error::{Result, argument};

/// Pieces of a buffer of bytes, in the order in which they are sent or received: what [`Communicator::alltoallw`] exchanges with one
/// peer. It stands for MPI's derived types.
///
/// ```
/// use circulant::comm::Layout;
///
/// // The second of four columns of a matrix of three rows, of `f64`s.
/// let column = Layout::strided(8, 3, 8, 4 * 8)?;
/// assert_eq!(column.pieces(), [(8, 8), (40, 8), (72, 8)]);
/// assert_eq!(column.bytes(), 24);
/// // Neighbours are one piece.
/// assert_eq!(Layout::new(vec![(0, 4), (4, 4), (100, 0)])?, Layout::new([(0, 8)])?);
/// # Ok::<(), circulant::Error>(())
/// ```
///
/// [`Communicator::alltoallw`]: super::Communicator::alltoallw
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Layout {
    pieces: Vec<(usize, usize)>,
    bytes: usize,
}

impl Layout {
    /// Pieces of (offset, length) in bytes. Those of a receive buffer must not overlap, which the call checks.
    ///
    /// # Errors
    /// When a piece ends behind what a `usize` can count, or all have more bytes than that together.
    pub fn new(pieces: impl Into<Vec<(usize, usize)>>) -> Result<Self> {
        let (mut pieces, mut bytes) = (pieces.into(), 0usize);
        for (at, len) in &pieces {
            if at.checked_add(*len).is_none() {
                return Err(argument(format!("a piece of {len} bytes at {at} ends beyond what memory has")));
            }
            let more = bytes.checked_add(*len);
            bytes = more.ok_or_else(|| argument("the pieces have more bytes than memory"))?;
        }
        pieces.retain(|(_, len)| *len > 0);
        pieces.dedup_by(|(next, more), (at, len)| {
            let follows = *at + *len == *next;
            if follows {
                *len += *more;
            }
            follows
        });
        Ok(Self { pieces, bytes })
    }

    /// `count` pieces of `len` bytes, the first at `offset`, each `stride` bytes behind the beginning of the one before, as
    /// `MPI_Type_create_hvector` has them.
    ///
    /// # Errors
    /// As [`Layout::new`].
    pub fn strided(offset: usize, count: usize, len: usize, stride: usize) -> Result<Self> {
        let far = || argument(format!("{count} pieces {stride} bytes apart are more than memory"));
        let Some(last) = count.checked_sub(1).filter(|_| len > 0) else { return Self::new([]) };
        let end = stride.checked_mul(last).and_then(|at| at.checked_add(offset)?.checked_add(len));
        end.ok_or_else(far)?;
        if stride == len {
            // What is contiguous is one piece; its length is below `end`.
            return Self::new([(offset, len * count)]);
        }
        let mut pieces = Vec::new();
        pieces.try_reserve_exact(count).map_err(|_| far())?;
        // None is behind the last one.
        pieces.extend((0..count).map(|i| (offset + i * stride, len)));
        Self::new(pieces)
    }

    /// The pieces, as (offset, length) in bytes: none is empty, and none begins where the one before it ends.
    pub fn pieces(&self) -> &[(usize, usize)] {
        &self.pieces
    }

    /// How many bytes all pieces have together.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The layouts of one side of an exchange, checked: how many bytes go to each peer (or come from it), and where they lie, one behind
/// the other.
pub(super) struct Blocks {
    pub(super) counts: Vec<u64>,
    pub(super) displs: Vec<u64>,
    /// What is copied between the buffer and memory of the library, where `displs` are; `None`: they are places of the buffer.
    pub(super) pieces: Option<Vec<Piece>>,
}

/// Checks layouts against the ranks and a buffer of `room` bytes called `name`. They are copied if one has more than a piece, or if
/// `copied` says so.
pub(super) fn blocks(
    (name, room): (&str, usize),
    ranks: usize,
    layouts: &[Layout],
    copied: bool,
) -> Result<Blocks> {
    if layouts.len() != ranks {
        return Err(argument(format!("{} layouts of {name} for {ranks} ranks", layouts.len())));
    }
    let of = |(rank, layout): (usize, &'_ Layout)| -> Vec<_> {
        layout.pieces.iter().map(|(at, len)| (rank, *at, *len)).collect()
    };
    let all: Vec<(usize, usize, usize)> = layouts.iter().enumerate().flat_map(of).collect();
    if let Some((rank, at, len)) = all.iter().find(|(_, at, len)| at + len > room) {
        return Err(argument(format!(
            "{len} bytes at {at} of the layout of rank {rank} do not fit into {name}, which has {room}"
        )));
    }
    let counts = layouts.iter().map(|layout| layout.bytes as u64).collect();
    if !copied && layouts.iter().all(|layout| layout.pieces.len() < 2) {
        let place = |layout: &Layout| layout.pieces.first().map_or(0, |(at, _)| *at as u64);
        return Ok(Blocks { counts, displs: layouts.iter().map(place).collect(), pieces: None });
    }
    let behind = |end: &mut usize, len: usize| std::mem::replace(end, end.saturating_add(len));
    let displs = layouts.iter().scan(0, |end, layout| Some(behind(end, layout.bytes) as u64)).collect();
    let piece = |end: &mut usize, (_, at, len): (usize, usize, usize)| {
        Some(Piece { at, within: behind(end, len), len })
    };
    let pieces = Some(all.into_iter().scan(0, piece).collect());
    Ok(Blocks { counts, displs, pieces })
}

/// Checks that no two pieces of what is received overlap.
pub(super) fn apart(layouts: &[Layout]) -> Result<()> {
    match overlap(layouts.iter().flat_map(|layout| layout.pieces.iter().copied())) {
        None => Ok(()),
        Some([one, other]) => Err(argument(format!(
            "received pieces overlap: bytes {}..{} and {}..{}",
            one.start, one.end, other.start, other.end
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_piece() {
        let layout = Layout::new([(3, 0), (4, 2), (6, 1), (0, 4), (4, 4)]).unwrap();
        assert_eq!((layout.pieces(), layout.bytes()), (&[(4, 3), (0, 8)][..], 11));
        assert_eq!(Layout::strided(7, 3, 2, 2).unwrap().pieces(), [(7, 6)]);
        assert_eq!(Layout::strided(0, 2, 1, 0).unwrap().pieces(), [(0, 1), (0, 1)]);
        assert_eq!(Layout::strided(0, 0, 5, usize::MAX).unwrap(), Layout::default());
        Layout::new([(usize::MAX, 1)]).unwrap_err();
        Layout::new([(0, usize::MAX), (0, 1)]).unwrap_err();
        Layout::strided(1, 2, 1, usize::MAX).unwrap_err();
    }

    #[test]
    fn single_pieces_are_left_where_they_are() {
        let one = [Layout::new([(9, 1)]).unwrap(), Layout::default(), Layout::new([(2, 3)]).unwrap()];
        let found = blocks(("send", 10), 3, &one, false).unwrap();
        assert_eq!((found.counts, found.displs, found.pieces), (vec![1, 0, 3], vec![9, 0, 2], None));
        let found = blocks(("send", 10), 3, &one, true).unwrap();
        let pieces = vec![Piece { at: 9, within: 0, len: 1 }, Piece { at: 2, within: 1, len: 3 }];
        assert_eq!((found.displs, found.pieces), (vec![0, 1, 1], Some(pieces)));
        let two = [Layout::new([(9, 1), (0, 2)]).unwrap(), Layout::new([(4, 1)]).unwrap()];
        let found = blocks(("send", 10), 2, &two, false).unwrap();
        assert_eq!((found.counts, found.displs), (vec![3, 1], vec![0, 3]));
        for (room, ranks) in [(9, 3), (10, 2)] {
            assert!(blocks(("send", room), ranks, &one, false).is_err());
        }
    }
}
