//! A shared chunk through which short puts from memory of our own go: copied twice, which is cheaper than letting
//! the reader attach to our memory page by page.

use super::memfd;
use memmap2::{Advice, MmapOptions, MmapRaw};
use std::collections::VecDeque;
use std::fs::File;

/// Bytes of the chunk.
const SIZE: usize = 4 << 20;
/// Longer puts do not go through it: two of them must find room.
pub(super) const LONGEST: usize = SIZE / 4;
/// Pieces begin at multiples of this.
const ALIGN: usize = 64;
/// Pieces under way at once.
const PIECES: usize = 1024;

/// A piece of the chunk, until its reader has read it.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Bytes of the chunk up to its end, padding included.
    len: usize,
    /// Who reads it, and where its record ends in the ring.
    place: usize,
    end: u64,
}

/// The chunk. Pieces are taken and given back in turn.
#[derive(Debug)]
pub(super) struct Bounce {
    map: MmapRaw,
    pub(super) file: File,
    /// Where the next piece begins, and how many bytes before it are in use.
    next: usize,
    used: usize,
    pieces: VecDeque<Piece>,
}

impl Bounce {
    pub(super) fn new() -> std::io::Result<Self> {
        let file = memfd::create("circulant-bounce", SIZE)?;
        let map = MmapOptions::new().map_raw(&file)?;
        // Advice, as for the arena.
        let _ = map.advise(Advice::PopulateWrite);
        Ok(Self { map, file, next: 0, used: 0, pieces: VecDeque::with_capacity(PIECES) })
    }

    /// Where a piece of `len` bytes would begin, if there is room for it now.
    pub(super) fn room(&self, len: usize) -> Option<usize> {
        let (start, whole) = self.place(len)?;
        (self.used + whole <= SIZE && self.pieces.len() < PIECES).then_some(start)
    }

    /// Start of the piece, and its bytes with the padding before it.
    fn place(&self, len: usize) -> Option<(usize, usize)> {
        let size = len.checked_next_multiple_of(ALIGN).filter(|n| *n <= LONGEST)?;
        Some(if self.next + size <= SIZE { (self.next, size) } else { (0, SIZE - self.next + size) })
    }

    /// Copies `len` bytes to `offset` of the chunk.
    ///
    /// # Safety
    /// The range lies in what [`Bounce::room`] just gave, and `from` can be read.
    pub(super) unsafe fn write(&self, offset: usize, from: *const u8, len: usize) {
        debug_assert!(offset + len <= SIZE);
        // SAFETY: inside the mapping (the caller's promise); its readers read only what was described to them, and
        // a range is described and given back before it is taken again.
        unsafe { std::ptr::copy_nonoverlapping(from, self.map.as_mut_ptr().add(offset), len) };
    }

    /// Takes the piece of `len` bytes that [`Bounce::room`] gave, for the reader at `place` whose record ends at `end`.
    pub(super) fn take(&mut self, len: usize, place: usize, end: u64) {
        let Some((start, whole)) = self.place(len) else { return };
        self.used += whole;
        self.next = start + len.next_multiple_of(ALIGN);
        self.pieces.push_back(Piece { len: whole, place, end });
    }

    /// Gives back the oldest pieces that were read: `read(place)` says up to where.
    pub(super) fn give_back(&mut self, mut read: impl FnMut(usize) -> Option<u64>) {
        while let Some(p) = self.pieces.front().copied() {
            if read(p.place).is_none_or(|tail| tail < p.end) {
                return;
            }
            self.used -= p.len;
            self.pieces.pop_front();
            if self.pieces.is_empty() {
                // What was used last is in the cache.
                self.next = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_never_overlap_and_all_come_back() {
        let mut bounce = Bounce::new().unwrap();
        let mut live: VecDeque<(usize, usize, u64)> = VecDeque::new();
        let (mut seed, mut refused) = (12345u64, 0);
        for i in 1..20_000u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let len = 1 + usize::try_from(seed >> 33).unwrap() % (300 << 10);
            match bounce.room(len) {
                Some(start) => {
                    assert!(start + len <= SIZE);
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
                    bounce.give_back(|place| (place == 3).then_some(upto));
                    live.retain(|(_, _, end)| *end > upto);
                }
            }
        }
        assert!(refused > 100);
        bounce.give_back(|_| Some(u64::MAX));
        assert_eq!((bounce.used, bounce.pieces.len()), (0, 0));
        assert!(bounce.room(LONGEST + 1).is_none() && bounce.room(usize::MAX).is_none());
    }
}
