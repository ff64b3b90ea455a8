//! The allreduce of two ranks out of long vectors: each folds one half for both (a reduce-scatter), then reads the other half of the result (an
//! allgather), as Rabenseifner's algorithm does for two ranks (Thakur, Rabenseifner, Gropp 2005). As much is copied as if each folded everything, and
//! half as much is folded. What is posted goes piece by piece. Where both ranks lend their vectors, as they do long ones, these are one piece: as nothing is copied for the other to read, no memory is used twice.

use super::cross_memory::Kind;
use super::levels::At;
use super::pieces::PIECE_BYTES;
use super::run::{Readers, Run};
use crate::error::Result;
use crate::ops::Reducer;
use crate::transport::Lent;
use crate::transport::call_slots::MAX_POST_BYTES;
use std::ops::Range;

/// The shortest vector, in bytes, that is folded in halves (64 KiB). Measured (docs/design.md, "Wide posts"): two ranks with a core each that fold all of a shorter one take 0.5 to 0.8 times as long while nothing writes
/// the vectors in between, and 1.2 to 1.4 times out of arena memory, 0.9 to 1.05 times out of plain memory, where something does.
const MIN_HALVES_BYTES: usize = 4 * MAX_POST_BYTES;

/// The longest vector, in bytes, that is posted piece by piece where it could be lent, by two ranks with a core each (512 KiB). Measured (there, too): of 64 to 512 KiB that takes 0.4 to 0.86 times as long as to
/// lend it, and 0.5 to 0.76 times where the program writes it in between; plain memory of 1 MiB, which is posted, 1.3 times.
const MAX_POSTED_BYTES: usize = 8 * MIN_HALVES_BYTES;

/// A piece of both vectors, and the half of it that each rank folds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    ours: Range<usize>,
    theirs: Range<usize>,
}

/// The pieces of `len` bytes, of whole elements of `element` bytes, as rank `rank` of two has them.
fn pieces(len: usize, element: usize, rank: usize) -> impl ExactSizeIterator<Item = Piece> {
    let most = PIECE_BYTES.max(element) / element * element;
    (0..len.div_ceil(most)).map(move |i| halves(i * most..len.min((i + 1) * most), element, rank))
}

/// The halves of `all`, of whole elements, as rank `rank` has them.
fn halves(all: Range<usize>, element: usize, rank: usize) -> Piece {
    let middle = all.start + all.len() / element / 2 * element;
    let (first, second) = (all.start..middle, middle..all.end);
    let (ours, theirs) = if rank == 0 { (first, second) } else { (second, first) };
    Piece { ours, theirs }
}

impl Run<'_, '_> {
    /// The allreduce of two ranks. Without `send` our vector is in `recv`.
    pub(super) fn fold_for_both(&mut self, send: Option<&[u8]>, recv: &mut [u8], by: &Reducer) -> Result<()> {
        self.may_attach(1, Kind::Allreduce, recv.len())?;
        if recv.len() >= MIN_HALVES_BYTES && self.slots()?.longest() >= PIECE_BYTES {
            self.fold_halves(send, recv, by)?;
        } else {
            match send {
                Some(send) => self.lend(send, Readers::All)?,
                None => self.post(recv)?,
            }
            self.fold_other(At::same(0), send, recv, by)?;
            self.met();
        }
        self.attach_ended()
    }

    fn fold_halves(&mut self, send: Option<&[u8]>, recv: &mut [u8], by: &Reducer) -> Result<()> {
        let element = by.element().max(1);
        let pieces = pieces(recv.len(), element, self.rank());
        // Each piece takes two steps, unless the first has done all.
        self.reserve(2 * pieces.len() - 1);
        // Posts go to memory that the writer has just read (`CallSlots::ended`). A vector that is lent stays in the other rank's cache, so that the program's next write to it is slow.
        let posts = recv.len() <= MAX_POSTED_BYTES && self.slots()?.is_apart();
        // Half of a result that cannot be lent may be more than a post can be.
        let lends = match posts {
            // By address, where that is tried.
            true => self.lent(send.unwrap_or(recv))?.is_some_and(Lent::is_unmapped),
            false => pieces.len() == 1 || self.lent(recv)?.is_some(),
        };
        for (i, piece) in pieces.enumerate() {
            if i > 0 {
                self.step()?;
            }
            let vector = send.unwrap_or(recv);
            let theirs = [&vector[piece.theirs.clone()]];
            let lent = match lends {
                true => self.lend_or_post(vector, theirs)?,
                false => self.post_pieces(theirs.into_iter()).map(|()| false)?,
            };
            let is_whole = self.await_lent(1 - self.rank())?;
            if lent && is_whole {
                let whole = halves(0..recv.len(), element, self.rank());
                return self.fold_piece(send, recv, (whole, true, lends), by);
            }
            self.fold_piece(send, recv, (piece, is_whole, lends), by)?;
        }
        Ok(())
    }

    /// Folds our half of a piece, whose bytes are all that the other has posted unless that `is_whole`, and reads the other half of the result. In place the other rank has read what it folds before it shows
    /// its half of the result, which comes there; and it reads nothing of our half before we show it.
    fn fold_piece(
        &mut self,
        send: Option<&[u8]>,
        recv: &mut [u8],
        (Piece { ours, theirs }, is_whole, lends): (Piece, bool, bool),
        by: &Reducer,
    ) -> Result<()> {
        let other = 1 - self.rank();
        let at = if is_whole { ours.start } else { 0 };
        self.fold_two(at, send.map(|send| &send[ours.clone()]), &mut recv[ours.clone()], by)?;
        self.step()?;
        match lends {
            true => self.lend(&recv[ours], Readers::All)?,
            false => self.post(&recv[ours])?,
        }
        self.await_post(other)?;
        // In place the caches still have what is overwritten: the other has read it.
        let footprint = send.map_or(0, <[u8]>::len);
        self.read_part_of(footprint, other, 0, &mut recv[theirs])?;
        self.met();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_whole_elements_and_make_up_the_vector() {
        for (len, element) in [(0, 8), (8, 8), (24, 8), (1 << 20, 8), ((1 << 20) + 8, 8), (300_000, 100_000)]
        {
            let mut end = 0;
            for (first, second) in pieces(len, element, 0).zip(pieces(len, element, 1)) {
                let Piece { ours, theirs } = first.clone();
                assert_eq!(second, Piece { ours: theirs.clone(), theirs: ours.clone() });
                assert_eq!((ours.start, ours.len() % element), (end, 0), "{len} bytes of {element}");
                assert_eq!((theirs.start, theirs.len() % element), (ours.end, 0), "{len} bytes of {element}");
                end = theirs.end;
            }
            assert_eq!(end, len);
        }
    }
}
