//! Posting bytes, and reading what others have posted: in a slot, in wide memory (pipelined where they are long), or lent: by reference, without a copy.

use super::layout::{BYTES, long_slot, long_turn};
use super::{
    CallSlots, FLAG, HASH, MAX_NARROW_BYTES, MAX_POST_BYTES, MAX_WIDE_POST_BYTES, MemberArea, PAST, Post,
    WANTED, WIDE_ALIGN_BYTES, WIDE_BYTES, WidePost, flag,
};
use crate::memory::Stores;
use crate::memory::words::{AtomicU64, Ordering};
use crate::transport::Lent;
use crate::transport::pauses::Pauses;
use std::ops::Range;

/// Of a flag: the post lies in wide memory.
const IS_WIDE: u64 = 1 << 8;
/// Of a flag: the post is lent.
const IS_LENT: u64 = 1 << 9;
/// Of a flag: the post lies in a long slot, though the call's own is a short one.
const IS_IN_LONG: u64 = 1 << 10;
/// Of the word at [`WHERE`]: the post lies in the wide memory of the other member, of two.
const IS_SWAPPED: u64 = 1 << 63;
/// Offset in a slot, in bytes, of where a post begins that lies in wide memory, or of the file that lent bytes are in. The slot holds no bytes then.
const WHERE: usize = BYTES;
/// Offset of how many bytes of a post in wide memory are there, or of where lent bytes begin in their file.
const EXTENT: usize = BYTES + 8;
/// Offset of when the member entered the call that such a post is of.
const ENTERED: usize = BYTES + 16;
/// Bytes of a part of a long post, where each rank has a core of its own: readers copy one part while the next is written. Chosen: see docs/design.md,
/// "Wide posts".
const PIPELINE_BYTES: usize = match () {
    _ if cfg!(loom) => 8,
    _ if cfg!(any(test, miri)) => 1 << 10,
    _ => 16 << 10,
};
/// Shorter posts, in bytes, are not lent where each rank has a core of its own: to copy them takes less than to wait for all readers. Chosen: see there.
pub(super) const MIN_LENT_BYTES: usize = if cfg!(any(test, miri)) { 64 } else { 2 << 10 };
/// The same where ranks share cores, so that to wait for readers is one more turn for each. Chosen: see there.
pub(super) const MIN_CROWDED_LENT_BYTES: usize = if cfg!(any(test, miri)) { 1 << 10 } else { 32 << 10 };

/// Bytes of a post, at most, that are prefetched. Chosen: with 64, gathers of 8 to 16 ranks took up to 1.2 times as long.
const MAX_PREFETCH_BYTES: usize = 256;

/// Posts of the same length that two members' wide memory holds before its first bytes are used again, where both post. Chosen: with more the first calls of a length find memory that has left
/// the caches, and take 1.2 to 1.4 times as long; with 2, posts of up to 64 KiB do in all calls (docs/design.md, "Wide posts").
pub(super) const POSTS_PER_CYCLE: usize = 4;
/// The least memory for them, in bytes (128 KiB). Chosen: what was written lately is still in the L1 cache of its reader, and to write it again takes up to 1.1 times as long.
pub(super) const MIN_CYCLE_BYTES: usize = WIDE_BYTES / 8;

/// How a member shows its post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// So many bytes of it, or more, are in its area.
    Area(usize),
    /// By reference: its bytes stay in the member's shared memory until we have passed the call.
    Lent(Lent),
}

impl CallSlots {
    /// Whether a post of `len` bytes should be lent if they lie in memory that others can map.
    #[inline]
    pub(crate) fn lends(&self, len: usize) -> bool {
        let least = match self.pauses {
            Pauses { spins: true, .. } => MIN_LENT_BYTES,
            Pauses { crowded: true, .. } => MIN_CROWDED_LENT_BYTES,
            _ => return false,
        };
        self.wide && len >= least
    }

    /// Whether ranks spin, each on a core of its own, and have memory for long posts.
    pub(crate) fn is_apart(&self) -> bool {
        self.wide && self.pauses.spins
    }

    /// What `member` wants of the other member's posts; the bits mean what the callers make of them.
    #[inline]
    pub(crate) fn wanted(&self, member: usize) -> [u64; 2] {
        WANTED.map(|at| self.areas[member].count(at).load(Ordering::Relaxed))
    }

    /// Says what this rank wants.
    #[inline]
    pub(crate) fn want(&self, words: [u64; 2]) {
        for (at, bits) in WANTED.into_iter().zip(words) {
            let word = self.areas[self.mine].count(at);
            if word.load(Ordering::Relaxed) != bits {
                word.store(bits, Ordering::Relaxed);
            }
        }
    }

    /// This rank enters a call at this time, in nanoseconds of a clock that all members have.
    #[inline]
    pub(crate) fn enter(&mut self, time: u64) {
        self.entered = time;
    }

    /// When `member` entered call `sequence`, if its post is long or lent; else 0.
    pub(crate) fn entered(&self, member: usize, sequence: u64) -> u64 {
        let slot = |word| self.word(member, sequence, word).load(Ordering::Relaxed);
        if slot(FLAG) & (IS_WIDE | IS_LENT) == 0 { 0 } else { slot(ENTERED) }
    }

    /// As [`CallSlots::post`], of what lies in the call's own slot, if there is known to be room. Returns whether it has posted.
    #[inline]
    pub(crate) fn try_post<'p>(
        &mut self,
        sequence: u64,
        post: Post,
        pieces: impl Iterator<Item = &'p [u8]> + Clone,
        read: bool,
    ) -> bool {
        let len = pieces.clone().map(<[u8]>::len).sum::<usize>();
        let turn = self.layout.turn(sequence);
        if len > self.narrow.min(self.layout.holds()) || self.posted[turn] > self.passed {
            return false;
        }
        let own = self.layout.slot(sequence);
        self.write(own, pieces, len);
        self.show(own, sequence, post, 0);
        self.posted[turn] = if read { sequence + 1 } else { 0 };
        true
    }

    /// Posts `post` and the concatenated `pieces` in call `sequence`. The caller has found [room](CallSlots::room) for as many bytes. `read`: other
    /// members read the post, so the slot is not written again before they have passed the call.
    ///
    /// # Panics
    /// When there are more bytes than fit ([`CallSlots::longest`]), or there is no room.
    #[inline]
    pub(crate) fn post<'p>(
        &mut self,
        sequence: u64,
        post: Post,
        pieces: impl Iterator<Item = &'p [u8]> + Clone,
        read: bool,
    ) {
        let len = pieces.clone().map(<[u8]>::len).sum::<usize>();
        let turn = self.layout.turn(sequence);
        self.posted[turn] = 0;
        let until_passed = if read { sequence + 1 } else { 0 };
        if len > self.layout.holds() {
            self.in_long[long_turn(sequence)] = until_passed;
        }
        if self.is_wide(len) {
            self.post_wide(sequence, post, pieces, (len, until_passed));
        } else {
            self.post_narrow(sequence, post, pieces, len);
        }
        self.posted[turn] = until_passed;
    }

    /// As [`CallSlots::post`], of `len` bytes in the call's own slot, or in a long one.
    fn post_narrow<'p>(&self, sequence: u64, post: Post, pieces: impl Iterator<Item = &'p [u8]>, len: usize) {
        assert!(len <= MAX_POST_BYTES, "a post of {len} bytes");
        let own = self.layout.slot(sequence);
        let (slot, how) =
            if len > self.layout.holds() { (long_slot(sequence), IS_IN_LONG) } else { (own, 0) };
        self.write(slot, pieces, len);
        self.show(own, sequence, post, how);
    }

    /// Writes these pieces, of `len` bytes, to our slot at this offset, which can be written and holds as many.
    #[inline]
    fn write<'p>(&self, slot: usize, pieces: impl Iterator<Item = &'p [u8]>, len: usize) {
        let (area, mut at) = (&self.areas[self.mine], slot + BYTES);
        let end = at + len;
        for piece in pieces {
            assert!(piece.len() <= end - at, "more bytes than were counted");
            // SAFETY: the slot has room for `len` bytes (both callers compare), which the pieces are (asserted). No member reads these bytes: all have passed the call
            // that they were of (`room`, `try_post`), and the flag does not name this one yet.
            unsafe { area.memory.write(at, piece.as_ptr(), piece.len()) };
            at += piece.len();
        }
    }

    /// As [`CallSlots::post`], of `len` bytes in wide memory.
    fn post_wide<'p>(
        &mut self,
        sequence: u64,
        post: Post,
        pieces: impl Iterator<Item = &'p [u8]>,
        (len, until): (usize, u64),
    ) {
        assert!(len <= MAX_WIDE_POST_BYTES, "a post of {len} bytes");
        let Some(first) = self.gap(len) else { panic!("no room for a post of {len} bytes") };
        let (turn, swapped) = (self.layout.turn(sequence), self.swapped);
        self.in_wide[turn] = WidePost { until, bytes: first..first + len, swapped };
        self.last_wide = sequence + 1;
        let target = if swapped { 1 - self.mine } else { self.mine };
        let told = first as u64 | if swapped { IS_SWAPPED } else { 0 };
        self.next = (first + len).next_multiple_of(WIDE_ALIGN_BYTES);
        let spins = self.pauses.spins;
        let own = self.layout.slot(sequence);
        self.word(self.mine, sequence, WHERE).store(told, Ordering::Relaxed);
        self.word(self.mine, sequence, ENTERED).store(self.entered, Ordering::Relaxed);
        // Readers that wait on a core of their own copy one part while we write the next; others would be woken up for each.
        let most = if spins { PIPELINE_BYTES } else { usize::MAX };
        let (mut done, mut shown) = (0, false);
        for part in pieces.flat_map(|piece| piece.chunks(most)) {
            let Some(wide) = self.areas[target].wide(first + len) else { return };
            assert!(done + part.len() <= len, "more bytes than were counted");
            let write = |stores: Stores| {
                // SAFETY: the gap has room for `len` bytes, which the parts are (asserted). No member reads these: all have passed the calls
                // whose posts lay there, and neither the flag nor EXTENT names them yet. No other member writes there: of two the other one
                // writes to the other memory as soon as it has ended the call that swapped them (`ended`), and before that it makes no further wide post.
                unsafe { wide.write_by(stores, first + done, part.as_ptr(), part.len()) };
            };
            match spins && len > PIPELINE_BYTES {
                true => self.way.pass(part.len(), write),
                false => write(Stores::Microcode),
            }
            done += part.len();
            let extent = self.word(self.mine, sequence, EXTENT);
            extent.store(done as u64, Ordering::Release);
            if !shown && spins {
                self.show(own, sequence, post, IS_WIDE);
                shown = true;
            }
        }
        if !shown {
            self.show(own, sequence, post, IS_WIDE);
        }
    }

    /// Whether a post of `len` bytes lies in wide memory.
    #[inline]
    pub(crate) fn is_wide(&self, len: usize) -> bool {
        len > self.narrow && self.areas[self.mine].wide.is_some()
    }

    /// A place in wide memory for `len` bytes, of which no member may still read some: where each rank has a core of its own the next one behind the last post, as in a ring
    /// buffer, else the first one. Two members that both post use no more of it than they need; one that posts alone uses all of it, so that its reader's caches no longer have what it
    /// writes over.
    pub(super) fn gap(&self, len: usize) -> Option<usize> {
        let from = if self.pauses.spins { self.next } else { 0 };
        let posts = POSTS_PER_CYCLE * len.next_multiple_of(WIDE_ALIGN_BYTES);
        let both = self.areas.len() == 2 && !self.alone;
        let cycle = if both { posts.clamp(MIN_CYCLE_BYTES, WIDE_BYTES) } else { WIDE_BYTES };
        let gap = self.gap_between(from, cycle, len).or_else(|| self.gap_between(0, cycle, len));
        gap.or_else(|| self.gap_between(0, WIDE_BYTES, len))
    }

    /// The first such place from `first` on that ends by `end`.
    fn gap_between(&self, mut first: usize, end: usize, len: usize) -> Option<usize> {
        while first + len <= end {
            let taken = self.in_wide[..self.layout.slots()].iter().find(|post| {
                let at = &post.bytes;
                post.until > self.passed
                    && post.swapped == self.swapped
                    && at.start < first + len
                    && first < at.end
            });
            let Some(post) = taken else { return Some(first) };
            first = post.bytes.end.next_multiple_of(WIDE_ALIGN_BYTES);
        }
        None
    }

    /// Posts in call `sequence`, as [`CallSlots::post`] does: `post`, and that its bytes are lent. They stay as they are until all members that
    /// read them [have passed](CallSlots::has_passed) the call.
    pub(crate) fn lend(&mut self, sequence: u64, post: Post, lent: Lent) {
        let word = |word| self.word(self.mine, sequence, word);
        word(WHERE).store(u64::from(lent.chunk) << 32 | u64::from(lent.fd), Ordering::Relaxed);
        word(EXTENT).store(lent.at, Ordering::Relaxed);
        word(ENTERED).store(self.entered, Ordering::Relaxed);
        self.show(self.layout.slot(sequence), sequence, post, IS_LENT);
        self.posted[self.layout.turn(sequence)] = sequence + 1;
    }

    /// Prefetches the flag of `member` in call `sequence`, and the first bytes of `part` of its post, while others are read. Nothing where ranks share
    /// cores: the member posts when it runs next.
    #[inline]
    pub(crate) fn prefetch(&self, member: usize, sequence: u64, part: Range<usize>) {
        if !self.pauses.spins {
            return;
        }
        let (memory, slot) = (&self.areas[member].memory, self.layout.slot(sequence));
        memory.prefetch(slot, BYTES);
        // Longer posts lie elsewhere.
        if !part.is_empty() && part.end <= MAX_NARROW_BYTES.min(self.layout.holds()) {
            memory.prefetch(slot + BYTES + part.start, part.len().min(MAX_PREFETCH_BYTES));
        }
    }

    /// Sets the flag of call `sequence`, whose slot this is.
    #[inline]
    fn show(&self, slot: usize, sequence: u64, post: Post, how: u64) {
        let area = &self.areas[self.mine];
        let word = |word| area.count(slot + word);
        word(HASH).store(post.hash, Ordering::Relaxed);
        word(PAST).store(post.past, Ordering::Relaxed);
        word(FLAG).store(flag(sequence, post.code) | how, Ordering::Release);
    }

    /// A word of `member`'s slot for call `sequence`.
    #[inline]
    pub(super) fn word(&self, member: usize, sequence: u64, word: usize) -> &AtomicU64 {
        self.areas[member].count(self.layout.slot(sequence) + word)
    }

    /// Where the bytes are that `member` has posted in call `sequence`, as a look showed.
    #[inline]
    pub(crate) fn place(&self, member: usize, sequence: u64) -> Place {
        let word = |word| self.word(member, sequence, word);
        match word(FLAG).load(Ordering::Relaxed) & (IS_WIDE | IS_LENT) {
            0 => Place::Area(MAX_POST_BYTES),
            IS_WIDE => {
                // Acquire: the bytes were written before.
                let ready = word(EXTENT).load(Ordering::Acquire);
                // Any number may stand there.
                Place::Area(usize::try_from(ready).unwrap_or(0).min(MAX_WIDE_POST_BYTES))
            }
            _ => {
                let [a, b, c, d, e, f, g, h] = word(WHERE).load(Ordering::Relaxed).to_le_bytes();
                Place::Lent(Lent {
                    chunk: u32::from_le_bytes([e, f, g, h]),
                    fd: u32::from_le_bytes([a, b, c, d]),
                    at: word(EXTENT).load(Ordering::Relaxed),
                })
            }
        }
    }

    /// Copies what `member` has posted in call `sequence` from byte `at` on to `out`, where that is there, is `post` and lies in its slot; else returns false.
    #[inline]
    pub(crate) fn take(&self, member: usize, sequence: u64, post: Post, at: usize, out: &mut [u8]) -> bool {
        let (area, own) = (&self.areas[member], self.layout.slot(sequence));
        // Acquire: the bytes were written before.
        let seen = area.count(own + FLAG).load(Ordering::Acquire);
        if seen & !IS_IN_LONG != flag(sequence, post.code) || !self.is_of(area, own, post) {
            return false;
        }
        let (slot, holds) = self.bytes_of((own, sequence), seen);
        if at > holds || out.len() > holds - at {
            return false;
        }
        // SAFETY: what is read ends within the bytes of the slot (above), and `out` is ours. The member does not write these bytes until we
        // have passed this call; should it, we read other ones.
        unsafe { area.memory.read(slot + BYTES + at, out.as_mut_ptr(), out.len()) };
        true
    }

    /// Whether `member` has posted this in call `sequence`.
    #[inline]
    pub(crate) fn has_posted(&self, member: usize, sequence: u64, post: Post) -> bool {
        let (area, own) = (&self.areas[member], self.layout.slot(sequence));
        // Acquire: the bytes were written before.
        let seen = area.count(own + FLAG).load(Ordering::Acquire);
        seen & !(IS_IN_LONG | IS_WIDE | IS_LENT) == flag(sequence, post.code) && self.is_of(area, own, post)
    }

    /// Whether the slot at `own` has the hashes of `post`.
    #[inline]
    fn is_of(&self, area: &MemberArea, own: usize, post: Post) -> bool {
        let is = |word, value| area.count(own + word).load(Ordering::Relaxed) == value;
        is(HASH, post.hash) && is(PAST, post.past)
    }

    /// Which slot holds the bytes of a post with this flag in call `sequence`, whose own slot is `own`, and how many it holds.
    #[inline]
    fn bytes_of(&self, (own, sequence): (usize, u64), flag: u64) -> (usize, usize) {
        match flag & IS_IN_LONG {
            0 => (own, self.layout.holds()),
            _ => (long_slot(sequence), MAX_POST_BYTES),
        }
    }

    /// Where `member` says that its post in wide memory begins, and whether that memory is the other member's. (Any number may stand there.)
    fn told(&self, member: usize, sequence: u64) -> (usize, bool) {
        let told = self.word(member, sequence, WHERE).load(Ordering::Relaxed);
        (usize::try_from(told & !IS_SWAPPED).unwrap_or(0), told & IS_SWAPPED != 0)
    }

    /// This rank has ended call `sequence`, or a step of it: it reads nothing more of it. Where both of two members have posted in wide memory, each has read all of the other's post then,
    /// and posts where that lies from the next call on: what a core has read lately it writes sooner than what another core has (docs/design.md, "Wide posts"). Both see the same two
    /// posts, so both swap after the same call. A wide post waits until its member has ended all earlier calls (`ShortState::has_turn`), so what it overwrites has been read.
    #[inline]
    pub(crate) fn ended(&mut self, sequence: u64) {
        if self.last_wide == sequence + 1 && self.wide && self.areas.len() == 2 {
            self.swap_if_both_posted(sequence);
        }
    }

    fn swap_if_both_posted(&mut self, sequence: u64) {
        let other = 1 - self.mine;
        // Acquire: its post was written before. It is there if it is a wide one of the same call, as this rank has read it then. (In different calls, as of two ranks that both take
        // themselves for the root, neither reads.)
        let [ours, theirs] = [self.mine, other].map(|member| {
            [FLAG, HASH, PAST].map(|word| self.word(member, sequence, word).load(Ordering::Acquire))
        });
        self.alone = ours != theirs;
        if !self.alone {
            (self.swapped, self.was_swapped) = (!self.swapped, true);
            self.next = self.told(other, sequence).0.min(WIDE_BYTES);
        }
    }

    #[cfg(loom)]
    pub(crate) fn is_swapped(&self) -> bool {
        self.swapped
    }

    /// Copies what `member` has posted in call `sequence` from byte `at` on to `out`: bytes that are [in its area](Place::Area). `footprint`: bytes that the call
    /// writes at this rank, with these. Returns false where there are none: the member has made no such post, and what it tells makes no sense.
    ///
    /// # Panics
    /// When this ends behind [`MAX_WIDE_POST_BYTES`] bytes.
    #[must_use]
    pub(crate) fn read(
        &self,
        member: usize,
        sequence: u64,
        at: usize,
        out: &mut [u8],
        footprint: usize,
    ) -> bool {
        let ends = |most: usize| at <= most && out.len() <= most - at;
        assert!(ends(MAX_WIDE_POST_BYTES), "{} bytes of a post from {at} on", out.len());
        let area = &self.areas[member];
        let seen = self.word(member, sequence, FLAG).load(Ordering::Relaxed);
        let (first, swapped) = self.told(member, sequence);
        let first = first.min(WIDE_BYTES - at - out.len());
        let owner = if swapped && self.areas.len() == 2 { 1 - member } else { member };
        let wide = if seen & IS_WIDE != 0 { self.areas[owner].wide(first + at + out.len()) } else { None };
        let (slot, holds) = self.bytes_of((self.layout.slot(sequence), sequence), seen);
        let (memory, first) = match wide {
            Some(wide) => (wide, first),
            None if ends(holds) => (&area.memory, slot + BYTES),
            // A slot holds none of this length.
            None => return false,
        };
        let stores = if footprint >= self.long { Stores::AroundCache } else { Stores::Microcode };
        // SAFETY: what is read ends within the bytes of the slot or within wide memory (above), and `out` is ours. The member does not
        // write these bytes until we have passed this call; should it, we read other ones.
        unsafe { memory.read_by(stores, first + at, out.as_mut_ptr(), out.len()) };
        true
    }
}
