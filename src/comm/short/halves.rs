//! The allreduce of two ranks out of long vectors: each folds one half for both (a reduce-scatter), then reads the other half of the result (an
//! allgather), as Rabenseifner's algorithm does for two ranks (Thakur, Rabenseifner, Gropp 2005). As much is copied as if each folded everything, and
//! half as much is folded. What is posted goes piece by piece. Where both ranks lend their vectors, these are one piece: as nothing is copied for the other to read, no memory is used twice.

use super::pieces::PIECE_BYTES;
use super::run::{Readers, Run};
use crate::error::Result;
use crate::ops::Reducer;
use crate::transport::call_slots::MAX_POST_BYTES;
use std::ops::Range;

/// The shortest vector, in bytes, that is folded in halves. Measured: two ranks with a core each take as long for 32 KiB in plain memory either way, an
/// eighth more for 16, and an eighth less for 128.
const MIN_HALVES_BYTES: usize = 4 * MAX_POST_BYTES;

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
    /// Whether the vectors of two ranks are folded in halves. All ranks decide alike.
    pub(super) fn has_halves(&mut self, len: usize) -> Result<bool> {
        Ok(len >= MIN_HALVES_BYTES && self.slots()?.longest() >= PIECE_BYTES)
    }

    /// Folds the vectors of two ranks. Without `send` ours is in `recv`.
    pub(super) fn fold_halves(&mut self, send: Option<&[u8]>, recv: &mut [u8], by: &Reducer) -> Result<()> {
        let pieces = pieces(recv.len(), by.element().max(1), self.rank());
        // Each piece takes two steps, unless the first has done all.
        self.reserve(2 * pieces.len() - 1);
        for (i, piece) in pieces.enumerate() {
            if i > 0 {
                self.step()?;
            }
            if !self.fold_piece(send, recv, piece, by)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether there may be more to fold.
    fn fold_piece(
        &mut self,
        send: Option<&[u8]>,
        recv: &mut [u8],
        piece: Piece,
        by: &Reducer,
    ) -> Result<bool> {
        let other = 1 - self.rank();
        let vector = send.unwrap_or(recv);
        // In place the other rank has read what it folds before it shows its half of the result, which comes there.
        let lent = self.lend_or_post(vector, [&vector[piece.theirs.clone()]])?;
        self.await_post(other)?;
        self.attach_began(other)?;
        let is_whole = self.has_lent(other)?;
        let all = lent && is_whole;
        let Piece { ours, theirs } =
            if all { halves(0..recv.len(), by.element().max(1), self.rank()) } else { piece };
        let at = if is_whole { ours.start } else { 0 };
        self.fold_two(at, send.map(|send| &send[ours.clone()]), &mut recv[ours.clone()], by)?;
        self.step()?;
        self.lend(&recv[ours], Readers::All)?;
        self.await_post(other)?;
        // In place the caches still have what is overwritten: the other has read it.
        let footprint = send.map_or(0, <[u8]>::len);
        self.read_part_of(footprint, other, 0, &mut recv[theirs])?;
        self.met();
        Ok(!all)
    }
}
