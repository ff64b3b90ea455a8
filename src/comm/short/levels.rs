//! What a fold works on: contributions, and partial results, one per level of its tree.

use crate::error::Result;
use crate::ops::{Reducer, Side};
use crate::transport::call_slots::MAX_POST_BYTES;

/// Where in each contribution the bytes begin that are folded: in what is posted, and in what is lent.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) posted: usize,
    pub(super) lent: usize,
    /// Bytes that the posts of ranks before ours leave out ahead of these: what each of them combines itself, no other rank reads.
    pub(super) left_out: usize,
}

impl At {
    pub(super) fn same(at: usize) -> Self {
        Self { posted: at, lent: at, left_out: 0 }
    }

    /// The `i`-th block of `len` bytes, of members that may leave their own block out.
    pub(super) fn block(i: usize, len: usize) -> Self {
        Self { posted: i * len, lent: i * len, left_out: len }
    }

    /// Where the bytes begin in what `member` posts to rank `rank`.
    pub(super) fn in_post(self, member: usize, rank: usize) -> usize {
        if member < rank { self.posted.saturating_sub(self.left_out) } else { self.posted }
    }

    /// So many bytes behind it.
    pub(super) fn behind(self, bytes: usize) -> Self {
        Self { posted: self.posted + bytes, lent: self.lent + bytes, ..self }
    }
}

/// A fold under way: partial results, one for each level, of which `top` are in use.
pub(super) struct Fold<'a> {
    pub(super) levels: Levels<'a>,
    pub(super) top: usize,
    pub(super) by: &'a Reducer,
    /// What this rank contributes, where it need not be read from its post.
    pub(super) own: Option<&'a [u8]>,
    pub(super) at: At,
}

/// Partial results of one fold.
pub(super) struct Levels<'a> {
    pub(super) first: &'a mut [u8],
    pub(super) others: &'a mut [u8],
}

impl Levels<'_> {
    /// Bytes of each.
    pub(super) fn len(&self) -> usize {
        self.first.len()
    }

    pub(super) fn at(&mut self, level: usize) -> &mut [u8] {
        let len = self.first.len();
        match level {
            0 => self.first,
            _ => &mut self.others[(level - 1) * MAX_POST_BYTES..][..len],
        }
    }

    /// Takes the one at `level` into the one below.
    pub(super) fn join(&mut self, level: usize, by: &Reducer) -> Result<()> {
        let len = self.first.len();
        let (below, source) = self.others.split_at_mut((level - 1) * MAX_POST_BYTES);
        let target = match level {
            1 => &mut *self.first,
            _ => &mut below[(level - 2) * MAX_POST_BYTES..][..len],
        };
        by.reduce(target, &source[..len], Side::SourceRight)
    }
}
