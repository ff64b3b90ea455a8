//! Long calls of two ranks, and long allreduces and allgathers of more: piece by piece, where they are not lent. Each piece is posted under a number of its own, so that the memory for posts is used again
//! while the call goes on, and stays in the caches.

use super::levels::At;
use super::run::{Readers, Run};
use crate::error::Result;
use crate::transport::call_slots::{MAX_POST_BYTES, MAX_WIDE_POST_BYTES};

/// Bytes of a piece (128 KiB). Chosen: as much as stays in a core's own cache (L2 of Zen 4: 1 MiB) beside what is read and written.
pub(super) const PIECE_BYTES: usize = 8 * MAX_POST_BYTES;
/// The longest such bcast, in bytes (4 MiB). Measured (docs/design.md, "Wide posts"): up to there it takes less than by plan out of plain memory, and about as long out of arena memory.
pub(super) const MAX_BCAST_BYTES: usize = 32 * PIECE_BYTES;
/// The longest such allreduce, in bytes (32 MiB). Measured likewise: 2 to 16 MiB take 0.6 to 0.9 times as long as by plan out of plain memory and 0.9 out of arena memory, 64 MiB 1.0 to 1.2.
pub(super) const MAX_ALLREDUCE_BYTES: usize = 256 * PIECE_BYTES;

/// The longest block of such an allgather, in bytes (64 MiB). Measured likewise: out of plain memory such blocks take 0.7 to 0.8 times as long as by plan, and as long out of arena memory; of
/// longer ones of plain memory medians were up to 1.4 times as long. More ranks than two, where they share cores: 0.4 to 0.8 times, and out of arena memory 0.8 to 1.15.
pub(super) const MAX_ALLGATHER_BYTES: usize = 512 * PIECE_BYTES;

/// Bytes of a piece of vectors or blocks that no post holds, of more than two ranks (256 KiB). Chosen: wide memory holds four posts of them, so that one is read while the next is written.
const LONG_PIECE_BYTES: usize = MAX_WIDE_POST_BYTES / 2;
/// The longest vector of an allreduce of more than two ranks that is folded in such pieces, in bytes (8 MiB). Measured (docs/design.md, "Wide posts"): up to there it takes less than by plan out of plain memory, and as
/// long out of arena memory.
const MAX_LONG_BYTES: usize = 16 * MAX_WIDE_POST_BYTES;
/// The same where ranks share cores (256 MiB). Measured likewise: 16 to 256 MiB took 0.6 to 1.0 times as long so.
const MAX_CROWDED_BYTES: usize = 512 * MAX_WIDE_POST_BYTES;
/// The same where the node has a core for each rank, and the communicator [`MIN_APART_RANKS`] ranks or more (16 MiB). Measured likewise: 8 MiB out of plain memory took 0.72 to 0.89 times as long so, 16 MiB 0.77 to 1.04, and 8 MiB out of arena memory 0.92 to 1.05.
const MAX_APART_BYTES: usize = 2 * MAX_LONG_BYTES;
/// The fewest ranks of such a communicator. Measured: with 4 ranks a plan is as fast, as they took 0.93 to 1.07 times as long in pieces.
const MIN_APART_RANKS: usize = 5;

/// Bytes of a piece of vectors of `len` bytes that more than two ranks fold.
#[inline]
pub(super) fn long_piece_bytes(len: usize) -> usize {
    if len <= MAX_WIDE_POST_BYTES { len } else { LONG_PIECE_BYTES }
}

/// The longest post, in bytes, of a reduction of `len` bytes by `ranks` ranks, three or more: an allreduce if `to_all`, else a reduce. `crowded`: the node has more ranks than
/// cores.
#[inline]
pub(super) fn longest_part(len: usize, (ranks, crowded): (usize, bool), to_all: bool) -> usize {
    let most = match crowded {
        true => MAX_CROWDED_BYTES,
        false if ranks >= MIN_APART_RANKS => MAX_APART_BYTES,
        false => MAX_LONG_BYTES,
    };
    if to_all && len <= most { long_piece_bytes(len) } else { len }
}

/// The longest post of a call of `len` bytes by `ranks` ranks. Two ranks make calls of up to `most` bytes piece by piece.
#[inline]
pub(super) fn longest_piece(ranks: usize, len: usize, most: usize) -> usize {
    if ranks == 2 && len <= most { len.min(PIECE_BYTES) } else { len }
}

/// Bytes of a piece of blocks that `ranks` ranks [exchange](Run::exchange).
#[inline]
pub(super) fn block_piece_bytes(ranks: usize) -> usize {
    if ranks == 2 { PIECE_BYTES } else { LONG_PIECE_BYTES }
}

/// Bytes of the longest block with which an allgather of `ranks` ranks is a short call. `crowded`: the node has more ranks than cores.
#[inline]
pub(super) fn most_block_bytes((ranks, crowded): (usize, bool)) -> usize {
    if ranks == 2 || crowded { MAX_ALLGATHER_BYTES } else { MAX_WIDE_POST_BYTES }
}

/// Bytes of the longest post of an allgather whose longest block has `longest` bytes: where one post does not hold that block, blocks are posted [piece by piece](Run::exchange).
#[inline]
pub(super) fn longest_block_post(ranks: (usize, bool), longest: usize) -> usize {
    let is_exchanged = longest > MAX_WIDE_POST_BYTES && longest <= most_block_bytes(ranks);
    if is_exchanged { block_piece_bytes(ranks.0) } else { longest }
}

impl Run<'_, '_> {
    /// Takes numbers for the pieces of `len` bytes, as [`Run::reserve`] does.
    #[inline]
    pub(super) fn reserve_pieces(&self, len: usize) {
        if len > PIECE_BYTES && !self.is_alone() {
            self.reserve(len.div_ceil(PIECE_BYTES) - 1);
        }
    }

    /// As [`Run::lend`] to all, of bytes that may be more than a post can be. Their [numbers](Run::reserve_pieces) are taken.
    #[inline]
    pub(super) fn lend_pieces(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() <= PIECE_BYTES || self.is_alone() {
            return self.lend(bytes, Readers::All);
        }
        let (first, others) = bytes.split_at(PIECE_BYTES);
        if self.lend_or_post(bytes, [first])? {
            return Ok(());
        }
        others.chunks(PIECE_BYTES).try_for_each(|piece| {
            self.step()?;
            self.post(piece)
        })
    }

    /// Reads what `member` [lends or posts](Run::lend_pieces).
    #[inline]
    pub(super) fn read_pieces(&mut self, member: usize, out: &mut [u8]) -> Result<()> {
        if out.len() <= PIECE_BYTES {
            return self.receive(member, At::same(0), out);
        }
        if self.await_lent(member)? {
            return self.read(member, 0, out);
        }
        let (first, others) = out.split_at_mut(PIECE_BYTES);
        self.read(member, 0, first)?;
        others.chunks_mut(PIECE_BYTES).try_for_each(|piece| {
            self.step()?;
            self.await_post(member)?;
            self.read(member, 0, piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_ranks_fold_what_one_post_holds_in_one_piece() {
        let few = (MIN_APART_RANKS - 1, false);
        for ranks in [few, (MIN_APART_RANKS, true), (MIN_APART_RANKS, false)] {
            for len in [0, 1, MAX_WIDE_POST_BYTES] {
                assert_eq!((longest_part(len, ranks, true), longest_part(len, ranks, false)), (len, len));
            }
            for len in [MAX_WIDE_POST_BYTES + 1, MAX_LONG_BYTES] {
                let longest = (longest_part(len, ranks, true), longest_part(len, ranks, false));
                assert_eq!(longest, (LONG_PIECE_BYTES, len));
            }
            let most = match ranks {
                (_, true) => MAX_CROWDED_BYTES,
                (MIN_APART_RANKS, _) => MAX_APART_BYTES,
                _ => MAX_LONG_BYTES,
            };
            assert_eq!(longest_part(most, ranks, true), LONG_PIECE_BYTES);
            assert_eq!(longest_part(most + 1, ranks, true), most + 1);
        }
    }

    #[test]
    fn blocks_that_one_post_does_not_hold_are_exchanged_in_pieces() {
        for (ranks, piece) in
            [((2, false), PIECE_BYTES), ((2, true), PIECE_BYTES), ((3, true), LONG_PIECE_BYTES)]
        {
            assert_eq!(longest_block_post(ranks, MAX_WIDE_POST_BYTES), MAX_WIDE_POST_BYTES);
            assert_eq!(longest_block_post(ranks, MAX_WIDE_POST_BYTES + 1), piece);
            assert_eq!(longest_block_post(ranks, MAX_ALLGATHER_BYTES), piece);
            assert_eq!(longest_block_post(ranks, MAX_ALLGATHER_BYTES + 1), MAX_ALLGATHER_BYTES + 1);
        }
        assert_eq!(longest_block_post((3, false), MAX_ALLGATHER_BYTES), MAX_ALLGATHER_BYTES);
    }

    #[test]
    fn pieces_are_posts_and_longer_calls_have_none() {
        for most in [MAX_BCAST_BYTES, MAX_ALLREDUCE_BYTES] {
            for len in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, most] {
                assert_eq!(longest_piece(2, len, most), len.min(PIECE_BYTES));
                assert_eq!(longest_piece(3, len, most), len);
            }
            assert_eq!(longest_piece(2, most + 1, most), most + 1);
        }
    }
}
