//! Reductions of more than two ranks out of long vectors: each rank folds one part for all (a reduce-scatter), then all, or the root, read the other
//! parts of the result (an allgather or a gather), as Rabenseifner's algorithm does (Thakur, Rabenseifner, Gropp 2005), but without a message: a rank reads
//! what it folds where the others have posted or lent it.

use super::fold::Order;
use super::levels::At;
use super::pieces::long_piece_bytes;
use super::run::{Readers, Run};
use crate::error::Result;
use crate::ops::Reducer;
use std::ops::Range;

/// The part of a vector of `len` bytes, of whole elements of `element` bytes, that rank `rank` of `size` folds.
fn part(len: usize, element: usize, (rank, size): (usize, usize)) -> Range<usize> {
    let elements = len / element;
    elements * rank / size * element..elements * (rank + 1) / size * element
}

impl Run<'_, '_> {
    /// Folds the vectors of all ranks for `root`, or for all, piece by piece. Without `send` ours is in `recv`.
    pub(super) fn fold_long(
        &mut self,
        root: Option<usize>,
        send: Option<&[u8]>,
        recv: &mut [u8],
        by: &Reducer,
    ) -> Result<()> {
        let (len, element) = (send.map_or(recv.len(), <[u8]>::len), by.element().max(1));
        let most = long_piece_bytes(len).max(element) / element * element;
        let pieces = len.div_ceil(most);
        // The parts of each result are posted in a second step.
        self.reserve(2 * pieces - 1);
        (0..pieces).try_for_each(|i| {
            if i > 0 {
                self.step()?;
            }
            self.fold_long_piece(root, send, recv, i * most..len.min((i + 1) * most), by)
        })
    }

    /// As [`Run::fold_long`], of these bytes.
    fn fold_long_piece(
        &mut self,
        root: Option<usize>,
        send: Option<&[u8]>,
        recv: &mut [u8],
        piece: Range<usize>,
        by: &Reducer,
    ) -> Result<()> {
        let (mine, size, element) = (self.rank(), self.size(), by.element().max(1));
        let part = |rank| {
            let part = part(piece.len(), element, (rank, size));
            piece.start + part.start..piece.start + part.end
        };
        let ours = part(mine);
        match send {
            Some(send) => {
                self.lend_or_post(send, &send[piece.clone()])?;
            }
            None => self.post(&recv[piece.clone()])?,
        }
        let own = send.map(|send| &send[ours.clone()]);
        let at = At { posted: ours.start - piece.start, lent: ours.start };
        if root.is_some_and(|root| root != mine) {
            let mut folded = std::mem::take(&mut self.held.short_calls.folded);
            folded.resize(ours.len(), 0);
            let done = self.fold_pieces(own, at, &mut folded, by);
            let done = done.and_then(|()| self.step()).and_then(|()| self.post(&folded));
            self.held.short_calls.folded = folded;
            return done;
        }
        self.fold_pieces(own, at, &mut recv[ours.clone()], by)?;
        self.step()?;
        match root {
            None => self.lend(&recv[ours], Readers::All)?,
            Some(_) => self.post_nothing()?,
        }
        self.all(|member| 0..part(member).len(), |run, member| run.read(member, 0, &mut recv[part(member)]))
    }

    /// As [`Run::fold_long`] for all, of vectors that a slot holds: the parts of the result are shared there, in the same step.
    pub(super) fn fold_parts(&mut self, recv: &mut [u8], by: &Reducer) -> Result<()> {
        let (mine, size) = (self.rank(), self.size());
        let (len, element) = (recv.len(), by.element());
        let part = |rank| part(len, element, (rank, size));
        let ours = part(mine);
        self.fold(Order::All, (None, At::same(ours.start)), &mut recv[ours.clone()], by)?;
        self.share(&recv[ours])?;
        (1..size)
            .map(|i| (mine + i) % size)
            .try_for_each(|member| self.read_part(member, &mut recv[part(member)]))
    }
}
