//! Reductions of more than two ranks out of long vectors: each rank folds one part for all (a reduce-scatter), then all, or the root, read the other
//! parts of the result (an allgather or a gather), as Rabenseifner's algorithm does (Thakur, Rabenseifner, Gropp 2005), but without a message: a rank reads
//! what it folds where the others have posted or lent it.

use super::fold::{Order, Own};
use super::levels::At;
use super::pieces::long_piece_bytes;
use super::run::{Readers, Run};
use crate::error::Result;
use crate::ops::Reducer;
use std::ops::Range;

/// The part of a vector of `len` bytes, of whole elements of `element` bytes, that rank `rank` of `size` folds. Those before one that is not empty are equally long.
fn part(len: usize, element: usize, (rank, size): (usize, usize)) -> Range<usize> {
    let bytes = (len / element).div_ceil(size) * element;
    let at = |rank: usize| len.min(rank * bytes);
    at(rank)..at(rank + 1)
}

impl Run<'_, '_> {
    /// Folds the vectors of all ranks for `root`, or for all, piece by piece, or at once if all ranks lend them. Without `send` ours is in `recv`.
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
        let piece = |i| i * most..len.min((i + 1) * most);
        // Of several pieces only by ranks that can lend the result, too.
        let lends = pieces == 1 || self.lent(recv)?.is_some();
        self.show(send.unwrap_or(recv), piece(0), element, lends)?;
        if pieces > 1 && lends && self.all_lend()? {
            return self.fold_long_piece(root, send, recv, 0..len, by);
        }
        for i in 0..pieces {
            if i > 0 {
                self.step()?;
                self.show(send.unwrap_or(recv), piece(i), element, lends)?;
            }
            self.fold_long_piece(root, send, recv, piece(i), by)?;
        }
        Ok(())
    }

    /// Posts this piece of our vector, all but the part that we fold; or lends all of the vector, if it `lends` and the vector can be lent.
    fn show(&mut self, vector: &[u8], piece: Range<usize>, element: usize, lends: bool) -> Result<()> {
        let piece = &vector[piece];
        let ours = part(piece.len(), element, (self.rank(), self.size()));
        let others = [&piece[..ours.start], &piece[ours.end..]];
        match lends {
            true => self.lend_or_post(vector, others).map(|_| ()),
            false => self.post_pieces(others.into_iter()),
        }
    }

    /// Whether all ranks have lent their vectors in this step. We have shown ours.
    fn all_lend(&mut self) -> Result<bool> {
        let (mine, size) = (self.rank(), self.size());
        let mut all = self.has_lent(mine)?;
        for member in (1..size).map(|i| (mine + i) % size) {
            if all {
                self.await_post(member)?;
                all = self.has_lent(member)?;
            }
        }
        Ok(all)
    }

    /// As [`Run::fold_long`], of these bytes, which each rank has shown.
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
        let at = At { posted: ours.start - piece.start, lent: ours.start, left_out: part(0).len() };
        let mut held = std::mem::take(&mut self.held.short_calls.part);
        let done = self.fold_ours((root, send), recv, (ours, at), (&mut held, by));
        self.held.short_calls.part = held;
        done?;
        if root.is_some_and(|root| root != mine) {
            return Ok(());
        }
        // What is lent in place is overwritten from here on: a rank that shows its part of the result has read all that it folds.
        // In place the caches still have what is overwritten: it was read for a post.
        let footprint = send.map_or(0, <[u8]>::len);
        self.all(
            |member| 0..part(member).len(),
            |run, member| run.read_part_of(footprint, member, 0, &mut recv[part(member)]),
        )
    }

    /// Folds our part of a piece, and shows it in a second step. `held` is memory for it.
    fn fold_ours(
        &mut self,
        (root, send): (Option<usize>, Option<&[u8]>),
        recv: &mut [u8],
        (ours, at): (Range<usize>, At),
        (held, by): (&mut Vec<u8>, &Reducer),
    ) -> Result<()> {
        let mine = self.rank();
        if root.is_some_and(|root| root != mine) {
            held.clear();
            held.resize(ours.len(), 0);
            // Only a root has its contribution in `recv`.
            let own = Own::At(send.map_or(&[], |send| &send[ours]));
            self.fold_pieces(own, at, held, by)?;
            self.step()?;
            return self.post(held);
        }
        let own = match send {
            Some(send) => Own::At(&send[ours.clone()]),
            None => Own::InPlace(held),
        };
        self.fold_pieces(own, at, &mut recv[ours.clone()], by)?;
        self.step()?;
        match root {
            None => self.lend(&recv[ours], Readers::All),
            Some(_) => self.post_nothing(),
        }
    }

    /// As [`Run::fold_long`] for all, of vectors that a slot holds: the parts of the result are shared there, in the same step.
    pub(super) fn fold_parts(&mut self, recv: &mut [u8], by: &Reducer) -> Result<()> {
        let (mine, size) = (self.rank(), self.size());
        let (len, element) = (recv.len(), by.element());
        let part = |rank| part(len, element, (rank, size));
        let ours = part(mine);
        self.fold(Order::All, (None, At::same(ours.start)), &mut recv[ours.clone()], by)?;
        self.share(len, &recv[ours])?;
        (1..size)
            .map(|i| (mine + i) % size)
            .try_for_each(|member| self.read_part(member, len, &mut recv[part(member)]))
    }
}
