//! The allreduce of two ranks out of long vectors: each folds one half for both (a reduce-scatter), then reads the other half of the result (an
//! allgather), as Rabenseifner's algorithm does for two ranks (Thakur, Rabenseifner, Gropp 2005). As much is copied as if each folded everything, and
//! half as much is folded. Where both lend their vectors nothing is copied but into the fold: then each folds everything, and no result is awaited.

use super::pieces::PIECE_BYTES;
use super::run::{Readers, Run};
use crate::error::Result;
use crate::ops::Reducer;
use crate::transport::call_slots::MAX_POST_BYTES;
use std::ops::Range;

/// The shortest vector, in bytes, that is folded in halves. Measured: two ranks with a core each take as long for 32 KiB in plain memory either way, an
/// eighth more for 16, and an eighth less for 128.
const MIN_HALVES_BYTES: usize = 2 * MAX_POST_BYTES;

/// A piece of both vectors, and the half of it that each rank folds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    ours: Range<usize>,
    theirs: Range<usize>,
}

/// The pieces of `len` bytes, of whole elements of `element` bytes, as rank `rank` of two has them.
fn pieces(len: usize, element: usize, rank: usize) -> impl ExactSizeIterator<Item = Piece> {
    let most = PIECE_BYTES.max(element) / element * element;
    (0..len.div_ceil(most)).map(move |i| {
        let all = i * most..len.min((i + 1) * most);
        let middle = all.start + all.len() / element / 2 * element;
        let (first, second) = (all.start..middle, middle..all.end);
        let (ours, theirs) = if rank == 0 { (first, second) } else { (second, first) };
        Piece { ours, theirs }
    })
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
        let (other, Piece { ours, theirs }) = (1 - self.rank(), piece);
        let lent = match send {
            Some(send) => self.lend_or_post(send, [&send[theirs.clone()]])?,
            // The other rank has read these before it shows its half of the result, which comes there.
            None => {
                self.lend(&recv[theirs.clone()], Readers::All)?;
                false
            }
        };
        self.await_post(other)?;
        let whole = send.is_some() && self.has_lent(other)?;
        if lent && whole {
            self.fold_two(0, send, recv, by)?;
            self.met();
            return Ok(false);
        }
        let at = if whole { ours.start } else { 0 };
        self.fold_two(at, send.map(|send| &send[ours.clone()]), &mut recv[ours.clone()], by)?;
        self.step()?;
        self.lend(&recv[ours], Readers::All)?;
        self.await_post(other)?;
        self.read(other, 0, &mut recv[theirs])?;
        self.met();
        Ok(true)
    }
}
