//! Slots of shared memory through which the ranks of one communicator on one node exchange short data, without puts.
//!
//! Each member has an [area](MemberArea) in its own shared memory, with [slots](layout) that it uses in turn, by the number of the
//! call. It *posts*: it writes bytes and what the call is to a slot, then sets the slot's flag; one flag serves all readers.
//! The others *look* at the flag, and read. No rank writes to another's area (but to its wide memory, see [`CallSlots::ended`]).
//!
//! A call may have a second half: a member then *shares* a part of the result, behind its post in the slot that this has taken.
//!
//! Where a member has wide memory beside its area, longer posts lie there, and the slot says where: a slot's own bytes are in its readers' caches from
//! the last time, and to write them again takes four times as long. Or a post is *lent*: the slot says where it lies in memory that all can map.
//!
//! A slot is written again only when all members have *passed* the call whose bytes it holds, as the counter in each member's
//! area says. The writer reads these counters when it has used all its slots, so mostly never: a member that enters
//! a call in which all wait for all has passed the calls before it.

mod layout;
mod post;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use super::cores::{Cores, Mark};
use super::pauses::Pauses;
use crate::memory::words::{Area, AtomicU64, Ordering};
use crate::memory::{Way, long_copy_bytes};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize};

pub(super) use layout::AREA_BYTES;
pub(crate) use layout::{LONG_SLOTS, MAX_POST_BYTES, MAX_SHORT_BYTES, SHORT_SLOTS};
use layout::{Layout, long_turn};
pub(crate) use post::Place;

/// The longest post that wide memory holds, in bytes (512 KiB). Chosen: as much as a call copies through it sooner than a plan moves it
/// (docs/design.md, the same place).
pub(crate) const MAX_WIDE_POST_BYTES: usize = 32 * MAX_POST_BYTES;
/// Offset in an area, in bytes, of the number of its use. This word and the next three lie on a cache line of their own,
/// and so do the others.
const GENERATION: usize = 0;
/// Offset of the member's core when it last shared one with another thread, as a [`Mark`].
const CORE: usize = 8;
/// Offsets of the two words that say what the member [wants](CallSlots::wanted) of the other one, of two.
const WANTED: [usize; 2] = [16, 24];
/// Offset of the number of calls that the member has passed.
const PASSED: usize = 128;
/// Offset in a slot, in bytes, of the flag: call and operation.
const FLAG: usize = 0;
/// In a flag the operation stands in the low byte, then [how](post::Place) the bytes are shown, and from this bit on the call.
const FLAG_CALL_SHIFT: u32 = 11;
/// Offset of the hash of the call.
const HASH: usize = 8;
/// Offset of the hash of all calls before.
const PAST: usize = 16;
/// Offset of the call whose part is there.
const SHARED_FLAG: usize = 24;
/// The longest post, in bytes, that lies in its slot where there is wide memory and each rank has a core of its own. Chosen: calls of 1000 and 3000 bytes took up to a third longer
/// with theirs there, calls of 8000 a fifth to a half less.
const MAX_NARROW_BYTES: usize = match () {
    _ if cfg!(loom) => 2,
    _ if cfg!(miri) => 64,
    _ => 4 << 10,
};
/// The most members of which that is so. Chosen: bcasts, scans and allgathers of 16 KiB a rank by 16 ranks out of plain memory took 1.2 to 1.6 times as long with their posts
/// in wide memory.
const MAX_NARROW_RANKS: usize = 8;
/// Bytes of wide memory: the longest posts of two calls, which is what ranks in step need.
pub(super) const WIDE_BYTES: usize = 2 * MAX_WIDE_POST_BYTES;
/// So many bytes of wide memory are made present at a time (256 KiB). Chosen: those of two posts of 128 KiB.
const PRESENT_BYTES: usize = WIDE_BYTES / 4;
/// What lies there begins at multiples of this: a cache line.
const WIDE_ALIGN_BYTES: usize = 64;
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
    /// So many bytes of wide memory, from the beginning on, were made present.
    present: AtomicUsize,
    /// The number that the area holds while the member uses it for these slots.
    generation: u64,
}

/// A post of ours in wide memory.
#[derive(Clone, Debug, Default)]
struct WidePost {
    /// Number + 1 of its call, until which other members may still read it; 0: none does.
    until: u64,
    bytes: Range<usize>,
    /// Whether it lies in the wide memory of the other member, of two.
    swapped: bool,
}

/// The slots of one communicator, for its calls; see the top of the file.
pub(crate) struct CallSlots {
    /// By rank in the communicator.
    areas: Vec<MemberArea>,
    mine: usize,
    layout: Layout,
    /// By slot: number + 1 of the call whose bytes of ours other members may still read.
    posted: [u64; SHORT_SLOTS],
    /// By long slot: the same of posts that the call's own slot does not hold. Each takes a long slot, also where it lies in wide memory: for a [part](CallSlots::share).
    in_long: [u64; LONG_SLOTS],
    /// All members have passed the calls below this.
    passed: u64,
    /// All members have wide memory.
    wide: bool,
    /// By slot: the last post of it that lay in wide memory.
    in_wide: [WidePost; SHORT_SLOTS],
    /// Number + 1 of the last call with such a post; 0: there was none.
    last_wide: u64,
    /// The longest post, in bytes, that does not lie in wide memory where there is some.
    narrow: usize,
    /// Of two members: whether each posts in the other's wide memory, as [`CallSlots::ended`] says. The same at both in each call.
    swapped: bool,
    /// Whether it was ever so.
    was_swapped: bool,
    /// Of two members: the other one posted nothing in wide memory in the last call in which we did.
    alone: bool,
    /// When this rank entered the call, as long posts and those that are lent tell.
    entered: u64,
    /// Where in wide memory the next post may begin: behind our last one, or where the other member's was that we have read.
    next: usize,
    /// From this footprint on, in bytes, what is read goes round the cache.
    long: usize,
    /// How long posts are written, where each rank has a core of its own.
    way: Way,
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
    pub(super) fn new(memory: Area, wide: Option<Area>, generation: u64) -> Self {
        Self { memory, wide, present: AtomicUsize::new(0), generation }
    }

    /// Makes the pages of its slots present: the first calls of 16 KB took five times as long without.
    pub(super) fn populate(&self) {
        self.memory.populate(0, AREA_BYTES);
    }

    /// Its wide memory, of which bytes up to `end` are to be used. Pages are made present when they are first used: 8 ranks on 2 cores start in 42 ms so, and in 62
    /// with 2 MiB present from the start.
    #[inline]
    fn wide(&self, end: usize) -> Option<&Area> {
        let wide = self.wide.as_ref()?;
        let present = self.present.load(Ordering::Relaxed);
        if present < end {
            let needed = end.next_multiple_of(PRESENT_BYTES).min(WIDE_BYTES);
            wide.populate(present, needed - present);
            self.present.store(needed, Ordering::Relaxed);
        }
        Some(wide)
    }

    /// Clears it for new slots. Other ranks see this when they have its ticket.
    pub(super) fn clear(&self) {
        [PASSED, CORE].iter().chain(&WANTED).for_each(|at| self.count(*at).store(0, Ordering::Relaxed));
        for at in layout::all().flat_map(|slot| [slot + FLAG, slot + SHARED_FLAG]) {
            self.count(at).store(0, Ordering::Relaxed);
        }
        self.count(GENERATION).store(self.generation, Ordering::Release);
    }

    fn count(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at < AREA_BYTES && at.is_multiple_of(8));
        // SAFETY: inside the area, which is AREA_BYTES of a mapping (`SlotPool::area`); all processes touch these words as
        // atomics only.
        unsafe { self.memory.word(at) }
    }
}

/// What a flag says of a call: its number, never 0, and the operation.
fn flag(sequence: u64, code: u8) -> u64 {
    (sequence + 1) << FLAG_CALL_SHIFT | u64::from(code)
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
        let (posted, in_long, way) = ([0; SHORT_SLOTS], [0; LONG_SLOTS], Way::default());
        let (in_wide, long) = (std::array::from_fn(|_| WidePost::default()), long_copy_bytes(areas.len()));
        let layout = Layout::new(pauses.crowded);
        let few = pauses.spins && areas.len() <= MAX_NARROW_RANKS;
        let narrow = if few && areas[mine].wide.is_some() { MAX_NARROW_BYTES } else { MAX_POST_BYTES };
        Self {
            areas,
            mine,
            layout,
            posted,
            in_long,
            passed: 0,
            wide,
            in_wide,
            last_wide: 0,
            narrow,
            swapped: false,
            was_swapped: false,
            alone: false,
            entered: 0,
            next: 0,
            long,
            way,
            index,
            free,
            pauses,
            cores,
        }
    }

    /// Our rank among the members.
    pub(crate) fn rank(&self) -> usize {
        self.mine
    }

    /// The number of members.
    pub(crate) fn size(&self) -> usize {
        self.areas.len()
    }

    /// Whether there are more ranks on the node than cores. The same at all members: its ranks agree on it when they start, or take it that there are not.
    pub(crate) fn is_crowded(&self) -> bool {
        self.pauses.crowded
    }

    /// The longest post, in bytes, of a call that does not reduce (of one that reduces: see `ShortState::takes`). The same at all
    /// members: it depends on whose areas have wide memory, which all of them know.
    pub(crate) fn longest(&self) -> usize {
        if self.wide { MAX_WIDE_POST_BYTES } else { MAX_POST_BYTES }
    }

    /// Whether our slot for call `sequence` can be written, with a post of `len` bytes; else a member that may still read what is in the way.
    #[inline]
    pub(crate) fn room(&mut self, sequence: u64, len: usize) -> Result<(), usize> {
        if self.has_room(sequence, len) {
            return Ok(());
        }
        let slowest = self.ask();
        if self.has_room(sequence, len) { Ok(()) } else { Err(slowest) }
    }

    /// The same, by what is known of the calls that members have passed.
    #[inline]
    fn has_room(&self, sequence: u64, len: usize) -> bool {
        let passed = |call: u64| call <= self.passed;
        passed(self.posted[self.layout.turn(sequence)])
            && (len <= self.layout.holds() || passed(self.in_long[long_turn(sequence)]))
            && (!self.is_wide(len) || self.gap(len).is_some())
    }

    /// Looks which calls all members have passed; returns the member that has passed the fewest.
    fn ask(&mut self) -> usize {
        let (mut least, mut slowest) = (u64::MAX, self.mine);
        for (member, area) in self.areas.iter().enumerate().filter(|(m, _)| *m != self.mine) {
            // Acquire: it has read our bytes before it stored this.
            let passed = area.count(PASSED).load(Ordering::Acquire);
            if passed < least {
                (least, slowest) = (passed, member);
            }
        }
        self.passed = self.passed.max(least);
        slowest
    }

    /// What `member`'s slot shows of call `sequence`.
    #[inline]
    pub(crate) fn look(&self, member: usize, sequence: u64) -> Look {
        let Some(area) = self.areas.get(member) else { return Look::Nothing };
        let word = |word| area.count(self.layout.slot(sequence) + word);
        let seen = word(FLAG).load(Ordering::Acquire);
        match (seen >> FLAG_CALL_SHIFT).cmp(&(sequence + 1)) {
            std::cmp::Ordering::Less => Look::Nothing,
            std::cmp::Ordering::Greater => Look::Later,
            std::cmp::Ordering::Equal => Look::Posted(Post {
                code: seen.to_le_bytes()[0],
                hash: word(HASH).load(Ordering::Relaxed),
                past: word(PAST).load(Ordering::Relaxed),
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

    /// As [`CallSlots::has_passed`], with as many looks as [`CallSlots::watch`].
    #[inline]
    pub(crate) fn watch_passed(&self, member: usize, sequence: u64) -> bool {
        let looks = if self.pauses.spins && self.pauses.idle_spins > 0 { LOOK_SPINS } else { 0 };
        (0..=looks).any(|_| self.has_passed(member, sequence))
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

    /// Whether a part of `len` bytes of a result can be [shared](CallSlots::share) in a call in which each member posts `posted` bytes.
    #[inline]
    pub(crate) fn has_part(&self, posted: usize, len: usize) -> bool {
        self.layout.part(0, posted, len).is_some()
    }

    /// Shows `part`, our part of a result, in a call in which we have posted `posted` bytes, for members to read. (If `posted` is less than we have posted, the part overwrites the
    /// rest of the post.)
    ///
    /// # Panics
    /// When it has [no room](CallSlots::has_part), or we have not posted so.
    #[inline]
    pub(crate) fn share(&mut self, sequence: u64, posted: usize, part: &[u8]) {
        let Some(at) = self.layout.part(sequence, posted, part.len()) else {
            panic!("a part of {} bytes behind {posted}", part.len())
        };
        let taken = match posted > self.layout.holds() {
            true => self.in_long[long_turn(sequence)],
            false => self.posted[self.layout.turn(sequence)],
        };
        assert!(taken == sequence + 1, "a part without a post");
        let area = &self.areas[self.mine];
        // SAFETY: the slot has room for it (`Layout::part`), and our post of this call has taken the slot (asserted). No member needs these bytes, behind the post: all have passed the call
        // that they were of (`room`, before the post), and the flag does not name this one yet.
        unsafe { area.memory.write(at, part.as_ptr(), part.len()) };
        area.count(self.layout.slot(sequence) + SHARED_FLAG).store(sequence + 1, Ordering::Release);
    }

    /// Whether `member` shows its part in call `sequence`.
    #[inline]
    pub(crate) fn has_shared(&self, member: usize, sequence: u64) -> bool {
        let flag =
            |area: &MemberArea| area.count(self.layout.slot(sequence) + SHARED_FLAG).load(Ordering::Acquire);
        self.areas.get(member).is_some_and(|area| flag(area) == sequence + 1)
    }

    /// Copies the part that `member` shows in call `sequence`, in which it has posted `posted` bytes, to `out`.
    ///
    /// # Panics
    /// When this is longer than a part can be.
    #[inline]
    pub(crate) fn read_part(&self, member: usize, sequence: u64, posted: usize, out: &mut [u8]) {
        let Some(at) = self.layout.part(sequence, posted, out.len()) else {
            panic!("{} bytes of a part behind {posted}", out.len())
        };
        // SAFETY: the slot has room for it (`Layout::part`), and `out` is ours. As for what is posted, the member does not write them.
        unsafe { self.areas[member].memory.read(at, out.as_mut_ptr(), out.len()) };
    }

    /// Whether `member` has passed call `sequence`: it reads nothing more of it.
    #[inline]
    pub(crate) fn has_passed(&self, member: usize, sequence: u64) -> bool {
        // Acquire: it has read our bytes before it stored this.
        self.areas.get(member).is_some_and(|area| area.count(PASSED).load(Ordering::Acquire) > sequence)
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
        // Once swapped, the other member may still write to our wide memory after an error of which it has not heard: that area is not used again.
        if !self.was_swapped {
            self.free.fetch_or(1 << self.index, Ordering::Release);
        }
    }
}
