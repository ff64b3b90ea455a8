//! Slots of shared memory through which the ranks of one communicator on one node exchange short data, without puts.
//!
//! Each member has an [area](MemberArea) in its own shared memory, with a few slots that it uses in turn, by the number of the
//! call. It *posts*: it writes bytes and what the call is to a slot, then sets the slot's flag; one flag serves all readers.
//! The others *look* at the flag, and read. No rank writes to another's area.
//!
//! A call may have a second half: each member then *shares* a part of the result, in the same slot behind what it posted.
//!
//! Where a member has wide memory beside its area, longer posts lie there, each behind the one before, and the slot says where: a
//! slot's own bytes are in its readers' caches from the last time, and to write them again takes four times as long.
//!
//! A slot is written again only when all members have *passed* the call whose bytes it holds, as the counter in each member's
//! area says. The writer reads these counters when it has used all its slots, so mostly never: a member that enters
//! a call in which all wait for all has passed the calls before it.

use super::cores::{Cores, Mark};
use super::pauses::Pauses;
use crate::memory::words::{Area, AtomicU64, Ordering};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// The longest post that a slot holds, in bytes. Chosen: as much as a call copies through a slot sooner than a plan moves it
/// (docs/design.md, "Short calls on one node"); small under loom and Miri, which walk each byte.
pub(crate) const MAX_POST_BYTES: usize = match () {
    _ if cfg!(loom) => 16,
    _ if cfg!(miri) => 512,
    _ => 16 << 10,
};
/// The longest post that wide memory holds, in bytes (64 KiB), where ranks share cores. Chosen: as much as a call copies through a slot sooner there
/// (docs/design.md, the same place).
pub(crate) const MAX_WIDE_POST_BYTES: usize = 4 * MAX_POST_BYTES;
/// The longest part of a result that is [shared](CallSlots::share): half of the longest, as there are at least two members,
/// and what rounding up to whole elements adds.
const MAX_PART_BYTES: usize = MAX_POST_BYTES / 2 + 128;
/// Slots of an area: calls that a member can be ahead of another.
pub(crate) const SLOTS: usize = if cfg!(test) { 2 } else { USUAL_SLOTS };
/// The same outside of unit tests. Chosen: an area stays below 256 KiB; a member that is further ahead waits, which
/// unit tests reach with 2.
const USUAL_SLOTS: usize = 8;
/// Offset in an area, in bytes, of the number of its use. This word and the next lie on a cache line of their own, and
/// so do the others.
const GENERATION: usize = 0;
/// Offset of the member's core when it last shared one with another thread, as a [`Mark`].
const CORE: usize = 8;
/// Offset of the number of calls that the member has passed.
const PASSED: usize = 128;
/// Offset of the first slot.
const FIRST: usize = 256;
/// Offset in a slot, in bytes, of the flag: call and operation.
const FLAG: usize = 0;
/// Offset of the hash of the call.
const HASH: usize = 8;
/// Offset of the hash of all calls before.
const PAST: usize = 16;
/// Offset of the call whose part is there.
const SHARED_FLAG: usize = 24;
/// Offset of the bytes that are posted.
const BYTES: usize = 32;
/// Offset of the part of a result that is shared.
const PART_BYTES: usize = BYTES + MAX_POST_BYTES + 32;
/// Bytes of a slot: an odd number of cache lines, so that slots do not fall on the same sets of a cache.
const SLOT_BYTES: usize = PART_BYTES + MAX_PART_BYTES;
/// The longest post, in bytes, that lies in its slot where there is wide memory and each rank has a core of its own. Chosen: calls of 1000 and 3000 bytes took up to a third longer
/// with theirs there, calls of 8000 a fifth to a half less.
const MAX_NARROW_BYTES: usize = if cfg!(miri) { 64 } else { 4 << 10 };
/// Bytes of wide memory where each rank has a core of its own: twice what a core caches for itself (L2 of Zen 4: 1 MiB; docs/design.md, "Lines that another core has read").
pub(super) const WIDE_BYTES: usize = if cfg!(any(test, miri)) { 32 * MAX_POST_BYTES } else { 2 << 20 };
/// Bytes of it that have memory from the start, and are used where ranks share cores: room for all posts that a member may still read.
pub(super) const LEAST_WIDE_BYTES: usize = WIDE_BYTES / 2;
/// What lies there begins at multiples of this: a cache line.
const WIDE_ALIGN_BYTES: usize = 64;
/// Bytes of an area: whole pages.
pub(super) const AREA_BYTES: usize = area_bytes(SLOTS);
const fn area_bytes(slots: usize) -> usize {
    (FIRST + slots * SLOT_BYTES).next_multiple_of(4096)
}

// What a member may still read is not overwritten: it is of one of `SLOTS` calls in a row, in which threads may post in any order, so that at most
// `2 * SLOTS - 2` posts came behind it; and what is left free at the end is shorter than one.
const _: () = assert!(
    cfg!(loom) || LEAST_WIDE_BYTES >= 2 * SLOTS * MAX_WIDE_POST_BYTES.next_multiple_of(WIDE_ALIGN_BYTES)
);
const _: () = assert!(
    cfg!(loom) || (SLOT_BYTES / 64) % 2 == 1 && SLOT_BYTES.is_multiple_of(64) && AREA_BYTES <= 256 << 10
);

/// Looks at a flag in a row before anything else is done, where each rank has a core of its own: 2.5 µs (a look takes
/// 25 ns by `ci/cost waits`).
const LOOK_SPINS: u32 = 100;

/// What a rank does in a call, which must be the same at all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Post {
    /// The operation.
    pub(crate) code: u8,
    /// Hash of its arguments.
    pub(crate) hash: u64,
    /// Hash of all calls before it.
    pub(crate) past: u64,
}

/// What a look at a member's slot shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The member has not posted in this call.
    Nothing,
    /// Its post.
    Posted(Post),
    /// It used the slot for a later call.
    Later,
}

/// One member's part of the slots.
pub(super) struct MemberArea {
    memory: Area,
    /// Wide memory beside it, where there is some.
    wide: Option<Area>,
    /// Bytes of it that are used.
    wide_bytes: usize,
    /// The pages of wide memory were made present.
    present: AtomicBool,
    /// The number that the area holds while the member uses it for these slots.
    generation: u64,
}

/// The slots of one communicator, for its calls; see the top of the file.
pub(crate) struct CallSlots {
    /// By rank in the communicator.
    areas: Vec<MemberArea>,
    mine: usize,
    /// By slot: number + 1 of the call whose bytes of ours other members may still read.
    posted: [u64; SLOTS],
    /// All members have passed the calls below this.
    passed: u64,
    /// All members have wide memory.
    wide: bool,
    /// Where the next post begins in our wide memory.
    next_wide: usize,
    index: usize,
    free: Arc<AtomicU32>,
    pauses: Pauses,
    cores: Cores,
}

impl std::fmt::Debug for CallSlots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallSlots")
            .field("members", &self.areas.len())
            .field("passed", &self.passed)
            .finish_non_exhaustive()
    }
}

impl MemberArea {
    /// Of `wide` memory `wide_bytes` bytes are used.
    pub(super) fn new(memory: Area, wide: Option<Area>, wide_bytes: usize, generation: u64) -> Self {
        Self { memory, wide, wide_bytes, present: AtomicBool::new(false), generation }
    }

    /// Makes the pages of its slots present: the first calls of 16 KB took five times as long without.
    pub(super) fn populate(&self) {
        self.memory.populate(0, AREA_BYTES);
    }

    /// Its wide memory, whose pages are made present when it is first used: 8 ranks on 2 cores start in 42 ms so, and in 62 with all pages from the
    /// start.
    #[inline]
    fn wide(&self) -> Option<&Area> {
        let wide = self.wide.as_ref()?;
        if !self.present.load(Ordering::Relaxed) {
            wide.populate(0, self.wide_bytes);
            self.present.store(true, Ordering::Relaxed);
        }
        Some(wide)
    }

    /// Clears it for new slots. Other ranks see this when they have its ticket.
    pub(super) fn clear(&self) {
        [PASSED, CORE].iter().for_each(|at| self.count(*at).store(0, Ordering::Relaxed));
        for (slot, word) in (0..SLOTS as u64).flat_map(|i| [(i, FLAG), (i, SHARED_FLAG)]) {
            self.slot(slot, word).store(0, Ordering::Relaxed);
        }
        self.count(GENERATION).store(self.generation, Ordering::Release);
    }

    fn count(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at < AREA_BYTES && at.is_multiple_of(8));
        // SAFETY: inside the area, which is AREA_BYTES of a mapping (`SlotPool::area`); all processes touch these words as
        // atomics only.
        unsafe { self.memory.word(at) }
    }

    fn slot(&self, sequence: u64, word: usize) -> &AtomicU64 {
        self.count(slot(sequence) + word)
    }
}

/// Which slot a call uses.
#[allow(clippy::cast_possible_truncation, reason = "below SLOTS")]
fn turn(sequence: u64) -> usize {
    (sequence % SLOTS as u64) as usize
}

fn slot(sequence: u64) -> usize {
    FIRST + turn(sequence) * SLOT_BYTES
}

/// Of a flag: the post lies in wide memory, and the slot holds where.
const IS_WIDE: u64 = 1 << 8;

/// What a flag says of a call: its number, never 0, and the operation.
fn flag(sequence: u64, code: u8) -> u64 {
    (sequence + 1) << 9 | u64::from(code)
}

impl CallSlots {
    /// Of these areas, of which `mine` is ours: the `index`-th of this rank, given back to `free`.
    pub(super) fn new(
        areas: Vec<MemberArea>,
        mine: usize,
        index: usize,
        free: Arc<AtomicU32>,
        pauses: Pauses,
    ) -> Self {
        let (cores, wide) = (Cores::default(), areas.iter().all(|area| area.wide.is_some()));
        Self { areas, mine, posted: [0; SLOTS], passed: 0, wide, next_wide: 0, index, free, pauses, cores }
    }

    /// The number of members.
    pub(crate) fn size(&self) -> usize {
        self.areas.len()
    }

    /// The longest post, in bytes, of a call that does not reduce (of one that reduces: [`MAX_POST_BYTES`]). The same at all members: it depends on
    /// the ranks and cores of the node, and on whose areas have wide memory, which all of them know.
    pub(crate) fn longest(&self) -> usize {
        if self.wide && self.pauses.crowded { MAX_WIDE_POST_BYTES } else { MAX_POST_BYTES }
    }

    /// Whether our slot for call `sequence` can be written; else a member that may still read it.
    pub(crate) fn room(&mut self, sequence: u64) -> Result<(), usize> {
        let posted = self.posted[turn(sequence)];
        if posted <= self.passed {
            return Ok(());
        }
        let (mut least, mut slowest) = (u64::MAX, self.mine);
        for (member, area) in self.areas.iter().enumerate().filter(|(m, _)| *m != self.mine) {
            // Acquire: it has read our bytes before it stored this.
            let passed = area.count(PASSED).load(Ordering::Acquire);
            if passed < least {
                (least, slowest) = (passed, member);
            }
        }
        self.passed = self.passed.max(least);
        if posted <= self.passed { Ok(()) } else { Err(slowest) }
    }

    /// Posts in call `sequence`, for which there is [room](CallSlots::room): `post`, and these pieces one behind the other. `read`: other
    /// members look at it, so that the slot is not written again before they have passed the call.
    ///
    /// # Panics
    /// When there are more bytes than fit ([`CallSlots::longest`]).
    #[inline]
    pub(crate) fn post<'p>(
        &mut self,
        sequence: u64,
        post: Post,
        pieces: impl Iterator<Item = &'p [u8]> + Clone,
        read: bool,
    ) {
        let area = &self.areas[self.mine];
        let len = pieces.clone().map(<[u8]>::len).sum::<usize>();
        let narrow = if self.pauses.spins { MAX_NARROW_BYTES } else { MAX_POST_BYTES };
        let most = if area.wide.is_some() { MAX_WIDE_POST_BYTES } else { MAX_POST_BYTES };
        assert!(len <= most, "a post of {len} bytes");
        let wide = if len > narrow { area.wide() } else { None };
        let (memory, first, wide) = match wide {
            Some(wide) => {
                let at = if self.next_wide + len <= area.wide_bytes { self.next_wide } else { 0 };
                self.next_wide = (at + len).next_multiple_of(WIDE_ALIGN_BYTES);
                let word = (at as u64).to_le_bytes();
                // SAFETY: the slot has room for 8 bytes; no member reads them (below).
                unsafe { area.memory.write(slot(sequence) + BYTES, word.as_ptr(), word.len()) };
                (wide, at, IS_WIDE)
            }
            None => (&area.memory, slot(sequence) + BYTES, 0),
        };
        let mut at = first;
        for piece in pieces {
            // SAFETY: there is room for all pieces in the slot, or in wide memory. No member reads these bytes: all have passed the call
            // that they were of (`room`; the length of wide memory), and the flag does not name this one yet.
            unsafe { memory.write(at, piece.as_ptr(), piece.len()) };
            at += piece.len();
        }
        area.slot(sequence, HASH).store(post.hash, Ordering::Relaxed);
        area.slot(sequence, PAST).store(post.past, Ordering::Relaxed);
        area.slot(sequence, FLAG).store(flag(sequence, post.code) | wide, Ordering::Release);
        self.posted[turn(sequence)] = if read { sequence + 1 } else { 0 };
    }

    /// What `member`'s slot shows of call `sequence`.
    #[inline]
    pub(crate) fn look(&self, member: usize, sequence: u64) -> Look {
        let Some(area) = self.areas.get(member) else { return Look::Nothing };
        let seen = area.slot(sequence, FLAG).load(Ordering::Acquire);
        match (seen >> 9).cmp(&(sequence + 1)) {
            std::cmp::Ordering::Less => Look::Nothing,
            std::cmp::Ordering::Greater => Look::Later,
            std::cmp::Ordering::Equal => Look::Posted(Post {
                code: seen.to_le_bytes()[0],
                hash: area.slot(sequence, HASH).load(Ordering::Relaxed),
                past: area.slot(sequence, PAST).load(Ordering::Relaxed),
            }),
        }
    }

    /// Looks a few times in a row, where ranks have cores of their own.
    #[inline]
    pub(crate) fn watch(&self, member: usize, sequence: u64) -> Look {
        let mut seen = self.look(member, sequence);
        if self.pauses.spins && self.pauses.idle_spins > 0 {
            for _ in 0..LOOK_SPINS {
                if seen != Look::Nothing {
                    break;
                }
                seen = self.look(member, sequence);
            }
        }
        seen
    }

    /// Waits a moment, for the `turn`-th time in a row.
    #[inline]
    pub(crate) fn idle(&mut self, turn: u32) {
        if self.pauses.next(turn) && self.pauses.spins {
            self.leave_core();
        }
    }

    /// The core is shared, perhaps with a member though there is another for it: then one of the two moves.
    #[cold]
    fn leave_core(&mut self) {
        let Some(mark) = Mark::new() else { return };
        self.areas[self.mine].count(CORE).store(mark.word(), Ordering::Relaxed);
        let words = self.areas.iter().map(|area| area.count(CORE).load(Ordering::Relaxed));
        self.cores.separate(mark, self.mine, words);
    }

    /// Copies what `member` has posted in call `sequence`, as a look showed, from byte `at` on to `out`.
    ///
    /// # Panics
    /// When this ends behind [`MAX_WIDE_POST_BYTES`] bytes.
    pub(crate) fn read(&self, member: usize, sequence: u64, at: usize, out: &mut [u8]) {
        let ends = |most: usize| at <= most && out.len() <= most - at;
        assert!(ends(MAX_WIDE_POST_BYTES), "{} bytes of a post from {at} on", out.len());
        let (area, fits) = (&self.areas[member], ends(MAX_POST_BYTES));
        let (mut memory, mut first) = (&area.memory, slot(sequence) + BYTES);
        if area.slot(sequence, FLAG).load(Ordering::Relaxed) & IS_WIDE != 0
            && let Some(wide) = area.wide()
        {
            let mut word = [0; 8];
            // SAFETY: inside the slot, and `word` is ours.
            unsafe { area.memory.read(first, word.as_mut_ptr(), word.len()) };
            // Any number may stand there.
            let place = usize::try_from(u64::from_le_bytes(word)).unwrap_or(0);
            (memory, first) = (wide, place.min(WIDE_BYTES - at - out.len()));
        } else if !fits {
            // The member has made no such post: a slot holds none of this length.
            return;
        }
        // SAFETY: what is read ends within the MAX_POST_BYTES of the slot (`fits`) or within wide memory (above), and `out` is ours. The member does not
        // write these bytes until we have passed this call; should it, we read other ones.
        unsafe { memory.read(first + at, out.as_mut_ptr(), out.len()) };
    }

    /// Shows `part`, our part of a result, in a call in which we have posted.
    ///
    /// # Panics
    /// When it is longer than a member's share of [`MAX_POST_BYTES`] bytes can be.
    pub(crate) fn share(&mut self, sequence: u64, part: &[u8]) {
        assert!(part.len() <= MAX_PART_BYTES, "a part of {} bytes", part.len());
        let area = &self.areas[self.mine];
        // SAFETY: the slot has MAX_PART_BYTES for it. No member reads them: all have passed the call that they were of (`room`,
        // before the post), and the flag does not name this one yet.
        unsafe { area.memory.write(slot(sequence) + PART_BYTES, part.as_ptr(), part.len()) };
        area.slot(sequence, SHARED_FLAG).store(sequence + 1, Ordering::Release);
    }

    /// Whether `member` shows its part in call `sequence`.
    #[inline]
    pub(crate) fn has_shared(&self, member: usize, sequence: u64) -> bool {
        let flag = |area: &MemberArea| area.slot(sequence, SHARED_FLAG).load(Ordering::Acquire);
        self.areas.get(member).is_some_and(|area| flag(area) == sequence + 1)
    }

    /// Copies the part that `member` shows in call `sequence` to `out`.
    ///
    /// # Panics
    /// When this is longer than a part can be.
    pub(crate) fn read_part(&self, member: usize, sequence: u64, out: &mut [u8]) {
        assert!(out.len() <= MAX_PART_BYTES, "{} bytes of a part", out.len());
        let area = &self.areas[member];
        // SAFETY: the slot has MAX_PART_BYTES, and `out` is ours. As for what is posted, the member does not write them.
        unsafe { area.memory.read(slot(sequence) + PART_BYTES, out.as_mut_ptr(), out.len()) };
    }

    /// All members are known to have entered call `sequence`.
    pub(crate) fn all_entered(&mut self, sequence: u64) {
        self.passed = self.passed.max(sequence);
    }

    /// We will read nothing more of the calls below `next`.
    #[inline]
    pub(crate) fn pass(&mut self, next: u64) {
        // Release: what we read was read before.
        self.areas[self.mine].count(PASSED).store(next, Ordering::Release);
    }

    /// Whether no member will read our area again, if we make no more calls: all have passed what we have passed, or
    /// use their areas for other slots.
    pub(crate) fn is_quiet(&self) -> bool {
        let ours = self.areas[self.mine].count(PASSED).load(Ordering::Relaxed);
        self.areas.iter().all(|area| {
            let passed = area.count(PASSED).load(Ordering::Acquire);
            passed >= ours || area.count(GENERATION).load(Ordering::Acquire) != area.generation
        })
    }
}

impl Drop for CallSlots {
    fn drop(&mut self) {
        self.free.fetch_or(1 << self.index, Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::transport::slot_pool::MAX_CALL_SLOTS;
    use crate::transport::slot_pool::tests::{open, two};

    const POST: Post = Post { code: 3, hash: 99, past: 98 };

    fn once(bytes: &[u8]) -> std::iter::Once<&[u8]> {
        std::iter::once(bytes)
    }

    #[test]
    #[cfg_attr(miri, ignore = "areas are smaller there")]
    fn the_document_says_how_long_an_area_is() {
        let document = include_str!("../../docs/design.md");
        let said = format!(
            "{} KiB for each communicator, at most {MAX_CALL_SLOTS} at once",
            area_bytes(USUAL_SLOTS) >> 10
        );
        assert!(document.contains(&said), "docs/design.md does not say: {said}");
    }

    #[test]
    fn what_is_posted_is_read_and_slots_wait_for_readers() {
        let mut pools = two();
        let [mut reader, mut writer] = open(&mut pools);
        for sequence in 0..100u64 {
            let bytes: Vec<u8> =
                (0..MAX_POST_BYTES).map(|i| (i as u64 * 7 + sequence).to_le_bytes()[0]).collect();
            assert_eq!(reader.look(0, sequence), Look::Nothing);
            assert_eq!(writer.room(sequence), Ok(()));
            let (first, second) = bytes.split_at(usize::try_from(sequence).unwrap());
            writer.post(sequence, POST, [first, second].into_iter(), true);
            assert_eq!(reader.look(0, sequence), Look::Posted(POST));
            let mut out = vec![0; MAX_POST_BYTES];
            reader.read(0, sequence, 0, &mut out);
            assert!(out == bytes);
            reader.read(0, sequence, MAX_POST_BYTES - 5, &mut out[..5]);
            assert_eq!(out[..5], bytes[MAX_POST_BYTES - 5..]);
            assert!(!reader.has_shared(0, sequence));
            writer.share(sequence, &bytes[3..MAX_PART_BYTES]);
            assert!(reader.has_shared(0, sequence) && !reader.has_shared(0, sequence + SLOTS as u64));
            reader.read_part(0, sequence, &mut out[..MAX_PART_BYTES - 3]);
            assert_eq!(
                out[..MAX_PART_BYTES - 3],
                bytes[3..MAX_PART_BYTES],
                "a part has room beside what is posted"
            );
            reader.read(0, sequence, 0, &mut out);
            assert!(out == bytes);
            if sequence >= SLOTS as u64 {
                assert_eq!(reader.look(0, sequence - SLOTS as u64), Look::Later);
            }
            // All slots are full; a member that reads them is named, until it has passed the oldest.
            if sequence % SLOTS as u64 == SLOTS as u64 - 1 {
                assert_eq!(writer.room(sequence + 1), Err(1));
                reader.pass(sequence + 1 - SLOTS as u64);
                assert_eq!(writer.room(sequence + 1), Err(1));
                reader.pass(sequence + 2 - SLOTS as u64);
                assert_eq!(writer.room(sequence + 1), Ok(()));
                assert_eq!(writer.room(sequence + 2), Err(1));
                reader.pass(sequence + 1);
            }
        }
        reader.pass(100);
        // What no member reads need not wait, nor does a call that all have entered.
        for sequence in 100..150 {
            assert_eq!(writer.room(sequence), Ok(()));
            writer.post(sequence, POST, once(&[1]), sequence >= 120);
            if sequence >= 120 {
                writer.all_entered(sequence);
            }
        }
    }

    /// Posts of any lengths, in wide memory and without, are there until their reader has passed them.
    #[test]
    fn posts_stay_until_they_are_passed() {
        let mut pools = two();
        // The first area has wide memory, and others have none.
        let mut both = [open(&mut pools), open(&mut pools)];
        let longest = |crowded: bool, both: &mut [[CallSlots; 2]; 2]| {
            both.each_mut().map(|[_, writer]| {
                writer.pauses.crowded = crowded;
                writer.longest()
            })
        };
        assert_eq!(longest(false, &mut both), [MAX_POST_BYTES; 2]);
        assert_eq!(longest(true, &mut both), [MAX_WIDE_POST_BYTES, MAX_POST_BYTES]);
        for [reader, writer] in &mut both {
            let most = writer.longest();
            let len = |sequence: u64| {
                let mixed = (sequence + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
                usize::try_from(mixed).unwrap() % (most + 1)
            };
            let bytes = |sequence: u64| -> Vec<u8> {
                (0..len(sequence) as u64).map(|i| (i * 7 + sequence).to_le_bytes()[0]).collect()
            };
            for sequence in 0..if cfg!(miri) { 50 } else { 1000u64 } {
                if let Some(oldest) = sequence.checked_sub(SLOTS as u64) {
                    let mut out = vec![0; len(oldest)];
                    assert_eq!(reader.look(0, oldest), Look::Posted(POST));
                    reader.read(0, oldest, 0, &mut out);
                    assert!(out == bytes(oldest), "call {oldest}");
                    reader.pass(oldest + 1);
                }
                assert_eq!(writer.room(sequence), Ok(()));
                writer.post(sequence, POST, once(&bytes(sequence)), true);
            }
        }
        // A slot that names no place in wide memory has its reader read some of it.
        let [reader, writer] = &mut both[0];
        reader.pass(2000);
        assert_eq!(writer.room(2000), Ok(()));
        writer.post(2000, POST, once(&[1; MAX_POST_BYTES]), true);
        let area = &writer.areas[writer.mine].memory;
        // SAFETY: inside the slot, which no thread reads meanwhile.
        unsafe { area.write(slot(2000) + BYTES, [0xFF; 8].as_ptr(), 8) };
        reader.read(0, 2000, 5, &mut vec![0; MAX_POST_BYTES - 5]);
        reader.read(0, 2000, 5, &mut vec![0; MAX_WIDE_POST_BYTES - 5]);
        // Of one in a slot nothing is read behind its end.
        assert_eq!(writer.room(2001), Ok(()));
        writer.post(2001, POST, once(&[1]), true);
        let mut out = vec![7; MAX_WIDE_POST_BYTES];
        reader.read(0, 2001, 0, &mut out);
        assert!(out.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn areas_come_back_when_no_member_reads_them() {
        let mut pools = two();
        let mut kept: Vec<_> = (0..MAX_CALL_SLOTS).map(|_| open(&mut pools)).collect();
        assert_eq!(pools[0].ticket(), None);
        let [mut a, mut b] = kept.swap_remove(4);
        b.post(0, POST, once(&[1]), true);
        b.pass(1);
        assert!(a.is_quiet() && !b.is_quiet());
        a.pass(1);
        assert!(a.is_quiet() && b.is_quiet());
        // A member that uses its area for other slots need not be asked.
        b.pass(2);
        assert!(!b.is_quiet());
        drop(a);
        let again = pools[0].ticket().unwrap();
        assert!(b.is_quiet());
        drop(b);
        let ticket = pools[1].ticket().unwrap();
        // What stood there is gone.
        let [a, _b] = pools.each_mut().map(|b| b.open(&[(3, again), (7, ticket)]).unwrap());
        assert_eq!([0, 1].map(|m| a.look(m, 0)), [Look::Nothing; 2]);
        pools[0].take_back(again);
        assert!(pools[0].open(&[(3, again), (8, ticket)]).is_none(), "rank 8 is elsewhere");
        assert!(pools[0].open(&[(3, again), (7, 0xFF)]).is_none(), "there is no such area");
    }
}
