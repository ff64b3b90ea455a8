//! Allgathers out of long blocks: in each step a rank posts a piece of its own, then reads the others'. All are in step, so that the memory of a few pieces
//! is used in turn, and stays in the caches.

use super::blocks::Blocks;
use super::data::keep;
use super::pieces::block_piece_bytes;
use super::run::Run;
use super::setup::MAX_MEMBERS;
use crate::error::Result;
use std::ops::Range;

const _: () = assert!(MAX_MEMBERS <= 64, "a bit for each member");

/// The `i`-th piece of `bytes` bytes of these.
fn piece(of: &Range<usize>, bytes: usize, i: usize) -> Range<usize> {
    let at = |i: usize| (of.start + i * bytes).min(of.end);
    at(i)..at(i + 1)
}

impl Run<'_, '_> {
    /// An allgather, piece by piece, of blocks of which the longest has `longest` bytes. Without `send` ours stands in `recv`.
    pub(super) fn exchange(
        &mut self,
        send: Option<&[u8]>,
        recv: &mut [u8],
        (blocks, longest): (&Blocks<'_>, usize),
    ) -> Result<()> {
        let (mine, size) = (self.rank(), self.size());
        let (ours, bytes) = (blocks.of(mine), block_piece_bytes(size));
        let pieces = longest.div_ceil(bytes);
        self.reserve(pieces - 1);
        let whole = send.unwrap_or_else(|| &recv[ours.clone()]);
        let lends = self.lend_or_post(whole, [&whole[..whole.len().min(bytes)]])?;
        if lends {
            keep(self, send, &mut recv[ours.clone()]);
        }
        // The members that lend their block, by bits.
        let mut lent = 0u64;
        for i in 0..pieces {
            if i > 0 {
                self.step()?;
            }
            if !lends {
                let out = piece(&ours, bytes, i);
                let send = send.map(|send| &send[out.start - ours.start..out.end - ours.start]);
                if i > 0 && !out.is_empty() {
                    self.post(send.unwrap_or_else(|| &recv[out.clone()]))?;
                }
                keep(self, send, &mut recv[out]);
            }
            let mut all_posted = true;
            for member in (1..size).map(|distance| (mine + distance) % size) {
                let theirs = blocks.of(member);
                let into = piece(&theirs, bytes, i);
                if i > 0 && (lent >> member & 1 != 0 || into.is_empty()) {
                    all_posted = false;
                    continue;
                }
                match i {
                    0 => lent |= u64::from(self.await_lent(member)?) << member,
                    _ => self.await_post(member)?,
                }
                let into = if lent >> member & 1 != 0 { theirs } else { into };
                self.read_part_of(recv.len(), member, 0, &mut recv[into])?;
            }
            if all_posted {
                // Each had passed all earlier steps when it posted in this one.
                self.met();
            }
        }
        Ok(())
    }
}
