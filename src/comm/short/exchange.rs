//! The allgather of two ranks out of long blocks: in each step a rank posts a piece of its own, then reads the other's. Both are in step, so that the memory of two pieces
//! is used in turn, and stays in the caches.

use super::data::keep;
use super::pieces::PIECE_BYTES;
use super::run::Run;
use crate::error::Result;
use std::ops::Range;

impl Run<'_, '_> {
    /// The allgather of two ranks, piece by piece: each posts one, then reads the other's. `ours` and `theirs` are the blocks in `recv`. Without `send` ours stands there.
    pub(super) fn exchange(
        &mut self,
        send: Option<&[u8]>,
        recv: &mut [u8],
        ours: &Range<usize>,
        theirs: &Range<usize>,
    ) -> Result<()> {
        let other = 1 - self.rank();
        let piece = |of: &Range<usize>, i| {
            let at = |i: usize| (of.start + i * PIECE_BYTES).min(of.end);
            at(i)..at(i + 1)
        };
        let pieces = ours.len().max(theirs.len()).div_ceil(PIECE_BYTES);
        self.reserve(pieces - 1);
        let whole = send.unwrap_or_else(|| &recv[ours.clone()]);
        let lends = self.lend_or_post(whole, [&whole[..whole.len().min(PIECE_BYTES)]])?;
        if lends {
            keep(self, send, &mut recv[ours.clone()]);
        }
        let (footprint, mut borrows) = (recv.len(), false);
        for i in 0..pieces {
            let (out, into) = (piece(ours, i), piece(theirs, i));
            if i > 0 {
                self.step()?;
            }
            if !lends {
                let send = send.map(|send| &send[out.start - ours.start..out.end - ours.start]);
                if i > 0 && !out.is_empty() {
                    self.post(send.unwrap_or_else(|| &recv[out.clone()]))?;
                }
                keep(self, send, &mut recv[out]);
            }
            if i == 0 || !borrows && !into.is_empty() {
                self.await_post(other)?;
                // It read our last piece before it posted this one.
                self.met();
                if i == 0 {
                    self.attach_began(other)?;
                }
                borrows = self.has_lent(other)?;
                let into = if borrows { theirs.clone() } else { into };
                self.read_part_of(footprint, other, 0, &mut recv[into])?;
            }
        }
        Ok(())
    }
}
