//! A shared chunk through which puts from memory of our own go, part by part: copied twice, but the first time for all
//! readers at once, and neither time page by page as the kernel does where a reader attaches to our memory.
//!
//! Where each rank has a core of its own, pieces go round the whole chunk, so that what is written was read a while ago: to write a line that
//! is in the reader's cache takes 7 ns, and 1.5 where it has left both cores' caches (docs/design.md, "Lines that another core has read").
//! Where ranks share cores, what was used last is in the cache of all.

use super::segment::is_paged;
use crate::memory::{Mapping, Stores, Way};
use std::collections::VecDeque;
use std::fs::File;

/// Bytes of the chunk, 1 MiB. Chosen: parts of several peers are under way, and as much as a core caches for itself (L2 of Zen 4). Round 4 MiB the first calls of a rank
/// took up to a sixth longer, and later ones as long.
const CHUNK_BYTES: usize = 16 * MAX_PART_BYTES;
/// The same where more than [`FEW_RANKS`](super::segment::FEW_RANKS) share a node, and cores: a quarter. Chosen: memory for it is made at once.
const CHUNK_OF_MANY_BYTES: usize = 4 * MAX_PART_BYTES;
/// The longest part of a put that goes through the chunk in one piece, in bytes. Chosen: a sixteenth of the chunk.
pub(super) const MAX_PART_BYTES: usize = if cfg!(miri) { 1 << 10 } else { 64 << 10 };
/// Pieces begin at multiples of this: a cache line.
const ALIGN_BYTES: usize = 64;
/// There are entries for the pieces of at least this many ranks. Chosen: as many as a large node has cores.
const MIN_RANKS: usize = if cfg!(test) { 1 } else { 64 };

/// A piece of the chunk, until its reader has read it.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Bytes of the chunk up to its end, padding included.
    len: usize,
    /// The reader, as an index among the node-local ranks, and where its record ends in the ring.
    local: usize,
    end: u64,
}

/// The chunk. Pieces are taken and given back in turn.
#[derive(Debug)]
pub(super) struct Bounce {
    map: Mapping,
    pub(super) file: File,
    /// Where the next piece begins, and how many bytes before it are in use.
    next: usize,
    used: usize,
    /// How pieces are written, where each rank has a core of its own.
    way: Option<Way>,
    /// One for each reader of a piece. Its capacity is enough for all ranks of the node to read as many of the longest
    /// pieces as the chunk holds.
    pieces: VecDeque<Piece>,
}

impl Bounce {
    /// Of the endpoint `owner`, for pieces that as many as `ranks` read, each on a core of its own (`apart`) or not.
    pub(super) fn new(owner: u64, ranks: usize, apart: bool) -> std::io::Result<Self> {
        let len = if !apart && is_paged(ranks) { CHUNK_OF_MANY_BYTES } else { CHUNK_BYTES };
        let (file, map) = Mapping::fresh("bounce", owner, len)?;
        let most = ranks.max(MIN_RANKS) * (len / MAX_PART_BYTES);
        let (way, pieces) = (apart.then(Way::default), VecDeque::with_capacity(most));
        Ok(Self { map, file, next: 0, used: 0, way, pieces })
    }

    /// Where a piece of `len` bytes would begin, if there is room for it and `readers` now.
    pub(super) fn room(&self, len: usize, readers: usize) -> Option<usize> {
        let (start, whole) = self.next_range(len)?;
        (self.used + whole <= self.map.len() && self.pieces.len() + readers <= self.pieces.capacity())
            .then_some(start)
    }

    /// Start of the piece, and its bytes with the padding before it.
    fn next_range(&self, len: usize) -> Option<(usize, usize)> {
        let size = len.checked_next_multiple_of(ALIGN_BYTES).filter(|n| *n <= MAX_PART_BYTES)?;
        let left = self.map.len() - self.next;
        Some(if size <= left { (self.next, size) } else { (0, left + size) })
    }

    /// Copies `len` bytes to `offset` of the chunk.
    ///
    /// # Safety
    /// The range lies in what [`Bounce::room`] just gave, and `from` can be read.
    pub(super) unsafe fn write(&mut self, offset: usize, from: *const u8, len: usize) {
        debug_assert!(offset + len <= self.map.len());
        let to = self.map.as_mut_ptr().wrapping_add(offset);
        let by = |stores: Stores| {
            // SAFETY: inside the mapping (the caller's promise); its readers read only what was described to them, and
            // a range is described and given back before it is taken again.
            unsafe { stores.copy(from, to, len) };
        };
        match &mut self.way {
            Some(way) => way.pass(len, by),
            None => by(Stores::Microcode),
        }
    }

    /// Takes the piece of `len` bytes that [`Bounce::room`] gave, for the reader at `local` whose record ends at `end`.
    pub(super) fn take(&mut self, len: usize, local: usize, end: u64) {
        let Some((start, whole)) = self.next_range(len) else { return };
        self.used += whole;
        self.next = start + len.next_multiple_of(ALIGN_BYTES);
        self.pieces.push_back(Piece { len: whole, local, end });
    }

    /// The newest piece has another reader.
    pub(super) fn also(&mut self, local: usize, end: u64) {
        if let Some(newest) = self.pieces.back_mut() {
            // They are given back in turn, so the last reader's entry stands for its bytes.
            let len = std::mem::take(&mut newest.len);
            self.pieces.push_back(Piece { len, local, end });
        }
    }

    /// Gives back the oldest pieces that were read: `read(local)` says up to where.
    pub(super) fn give_back(&mut self, mut read: impl FnMut(usize) -> Option<u64>) {
        while let Some(p) = self.pieces.front().copied() {
            if read(p.local).is_none_or(|tail| tail < p.end) {
                return;
            }
            self.used -= p.len;
            self.pieces.pop_front();
            if self.pieces.is_empty() && self.way.is_none() {
                self.next = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many ranks a node has, they can all read the same, and the next piece while they do.
    #[test]
    fn there_is_room_for_all_ranks_of_a_node() {
        let many = super::super::segment::MAX_RANKS;
        for ranks in
            [1, 2, 63, 64, 65, 1024, 1025, 1026, 2000, many].into_iter().filter(|n| *n < 70 || !cfg!(miri))
        {
            let mut bounce = Bounce::new(7, ranks, ranks % 2 == 0).unwrap();
            for turn in 0..bounce.map.len() / MAX_PART_BYTES {
                assert!(bounce.room(MAX_PART_BYTES, ranks).is_some(), "{ranks} ranks, piece {turn}");
                bounce.take(MAX_PART_BYTES, 0, 1);
                (1..ranks).for_each(|local| bounce.also(local, 1));
            }
            assert_eq!(bounce.room(1, ranks), None, "the chunk is full");
            bounce.give_back(|_| Some(1));
            assert_eq!((bounce.used, bounce.pieces.len()), (0, 0));
        }
    }

    #[test]
    fn pieces_never_overlap_and_all_come_back() {
        let mut bounce = Bounce::new(7, 5, true).unwrap();
        let mut live: VecDeque<(usize, usize, u64)> = VecDeque::new();
        let (mut seed, mut refused) = (12345u64, 0);
        for i in 1..if cfg!(miri) { 200 } else { 20_000u64 } {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let len = 1 + usize::try_from(seed >> 33).unwrap() % MAX_PART_BYTES;
            match bounce.room(len, 1) {
                Some(start) => {
                    assert!(start + len <= bounce.map.len());
                    for (s, n, _) in &live {
                        assert!(start + len <= *s || s + n <= start, "{i}: {start} {len} meets {s} {n}");
                    }
                    bounce.take(len, 3, i);
                    live.push_back((start, len, i));
                }
                None => {
                    refused += 1;
                    // Half of them were read.
                    let upto = live[live.len() / 2].2;
                    bounce.give_back(|local| (local == 3).then_some(upto));
                    live.retain(|(_, _, end)| *end > upto);
                }
            }
        }
        assert!(refused > 5);
        bounce.give_back(|_| Some(u64::MAX));
        assert_eq!((bounce.used, bounce.pieces.len()), (0, 0));
        // Two read the same copy: it stays until both have.
        let (_, whole) = bounce.next_range(MAX_PART_BYTES - 24).unwrap();
        assert!(whole >= MAX_PART_BYTES);
        bounce.take(MAX_PART_BYTES - 24, 3, 1);
        bounce.also(4, 1);
        bounce.give_back(|local| (local == 3).then_some(9));
        assert_eq!(bounce.used, whole);
        bounce.give_back(|_| Some(9));
        assert_eq!(bounce.used, 0);
        assert!(bounce.room(MAX_PART_BYTES + 1, 1).is_none() && bounce.room(usize::MAX, 1).is_none());
        // What was just read is used last.
        let begin = bounce.room(1, 1).unwrap();
        bounce.take(1, 3, 1);
        bounce.give_back(|_| Some(1));
        assert_eq!(bounce.room(1, 1), Some((begin + ALIGN_BYTES) % bounce.map.len()));
        let mut shared = Bounce::new(7, 5, false).unwrap();
        shared.take(1, 3, 1);
        assert_eq!(shared.room(1, 1), Some(ALIGN_BYTES));
        shared.give_back(|_| Some(1));
        assert_eq!(shared.room(1, 1), Some(0), "what was just read, where ranks share cores");
        let most = bounce.pieces.capacity();
        assert!(bounce.room(1, most).is_some() && bounce.room(1, most + 1).is_none());
    }
}
