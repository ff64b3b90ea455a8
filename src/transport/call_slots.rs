//! Slots of shared memory through which the ranks of one communicator on one node exchange short data, without puts.
//!
//! Each member has an [area](MemberArea) in its own shared memory, with a few slots that it uses in turn, by the number of the
//! call. It *posts*: it writes bytes and what the call is to a slot, then sets the slot's flag; one flag serves all readers.
//! The others *look* at the flag, and read. No rank writes to another's area.
//!
//! A call may have a second half: each member then *shares* a part of the result, in the same slot behind what it posted.
//!
//! A slot is written again only when all members have *passed* the call whose bytes it holds, as the counter in each member's
//! area says. The writer reads these counters when it has used all its slots, so mostly never: a member that enters
//! a call in which all wait for all has passed the calls before it.

use super::cores::{Cores, Mark};
use crate::memory::words::{Area, AtomicU64, Ordering};
use crate::memory::{Mapping, memfd};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// The longest post: as much as a call copies through a slot sooner than a plan moves it.
pub(crate) const MAX_POST_BYTES: usize = match () {
    _ if cfg!(loom) => 16,
    _ if cfg!(miri) => 512,
    _ => 16 << 10,
};
/// The longest part of a result that is [shared](CallSlots::share): half of the longest, as there are at least two members,
/// and what rounding up to whole elements adds.
const MAX_PART_BYTES: usize = MAX_POST_BYTES / 2 + 128;
/// Slots of an area: calls that a member can be ahead of another.
pub(crate) const SLOTS: usize = if cfg!(test) { 2 } else { USUAL_SLOTS };
/// The same outside of unit tests.
const USUAL_SLOTS: usize = 8;
/// Areas of one rank: communicators with slots that it can be a member of at a time.
pub(super) const MAX_CALL_SLOTS: usize = 32;

/// Offsets in an area, of words on cache lines of their own.
const GENERATION: usize = 0;
/// The member's core when it last shared one with another thread, as a [`Mark`].
const CORE: usize = 8;
const PASSED: usize = 128;
const FIRST: usize = 256;
/// Offsets in a slot: call and operation, hash, hash of all calls before, the call whose part is there; the bytes; the part.
const FLAG: usize = 0;
const HASH: usize = 8;
const PAST: usize = 16;
const SHARED_FLAG: usize = 24;
const BYTES: usize = 32;
const PART_BYTES: usize = BYTES + MAX_POST_BYTES + 32;
/// Bytes of a slot: an odd number of cache lines, so that slots do not fall on the same sets of a cache.
const SLOT_BYTES: usize = PART_BYTES + MAX_PART_BYTES;
/// Bytes of each slot whose pages are present before it is first used: one page.
const PRESENT_BYTES: usize = 4096;
/// Bytes of an area: whole pages.
pub(super) const AREA_BYTES: usize = area_bytes(SLOTS);
/// Bytes of all areas of a rank.
pub(super) const AREAS_BYTES: usize = MAX_CALL_SLOTS * AREA_BYTES;

const fn area_bytes(slots: usize) -> usize {
    (FIRST + slots * SLOT_BYTES).next_multiple_of(4096)
}

const _: () = assert!(
    cfg!(loom) || (SLOT_BYTES / 64) % 2 == 1 && SLOT_BYTES.is_multiple_of(64) && AREA_BYTES <= 256 << 10
);

/// Looks at a flag in a row before anything else is done, where each rank has a core of its own.
const LOOK_SPINS: u32 = 100;
/// Pauses before a rank yields its core, where no other thread wants it.
const IDLE_SPINS: u32 = 100;
/// A yield that takes longer than this let another thread run.
const CONTENDED: Duration = Duration::from_micros(1);

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

/// A rank's shared memory, and where its [`AREAS_BYTES`] begin.
pub(super) type Memory = (Arc<Mapping>, usize);

/// The areas of this rank and of the other ranks of its node, from which [`CallSlots`] are made.
#[derive(Debug)]
pub struct SlotPool {
    /// The node-local ranks, and the memory of those that are mapped here, with where its areas begin.
    locals: Vec<(u32, Option<Memory>)>,
    mine: usize,
    /// The file of our own, whose areas get their memory when they are used.
    file: Arc<File>,
    /// Our areas that are free, as bits.
    free: Arc<AtomicU32>,
    /// By area: the ticket for which no slots were opened yet, or 0.
    given: [u64; MAX_CALL_SLOTS],
    generation: u64,
    spins: bool,
}

/// One member's part of the slots.
pub(super) struct MemberArea {
    memory: Area,
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
    index: usize,
    free: Arc<AtomicU32>,
    /// There is a core for each rank of the node.
    spins: bool,
    /// Pauses before the core is yielded: none while another thread wants it, perhaps the rank that we wait for.
    idle_spins: u32,
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

/// The parts of a ticket: the area in the low byte, its generation above.
fn split(ticket: u64) -> (usize, u64) {
    (usize::from(ticket.to_le_bytes()[0]), ticket >> 8)
}

impl SlotPool {
    /// Of the `mine`-th of the node-local ranks, whose memory this is, of `file`. `spins`: there is a core for each.
    pub(super) fn new(locals: &[u32], mine: usize, memory: Memory, file: Arc<File>, spins: bool) -> Self {
        let locals = locals.iter().map(|rank| (*rank, None)).collect();
        let free = Arc::new(AtomicU32::new(u32::MAX));
        let mut this = Self { locals, mine, file, free, given: [0; MAX_CALL_SLOTS], generation: 0, spins };
        this.add(mine, memory);
        this
    }

    /// The memory of the `index`-th of the node-local ranks is mapped.
    pub(super) fn add(&mut self, index: usize, memory: Memory) {
        self.locals[index].1 = Some(memory);
    }

    /// Reserves and clears an area of ours for a new communicator: the number to tell its other members, never 0. The first
    /// is the same at all ranks. None when all areas are in use, or there is no memory for one more (never for the first).
    pub(crate) fn ticket(&mut self) -> Option<u64> {
        let index = self.free.load(Ordering::Acquire).trailing_zeros();
        let generation = self.generation + 1;
        let area = self.area(self.mine, index as usize, generation)?;
        let first = self.locals[self.mine].1.as_ref()?.1;
        if let Err(e) = memfd::allocate(&self.file, first + index as usize * AREA_BYTES, AREA_BYTES) {
            tracing::debug!("no memory for the slots of one more communicator: {e}");
            return None;
        }
        (0..SLOTS as u64).for_each(|i| area.memory.populate(slot(i), PRESENT_BYTES));
        self.free.fetch_and(!(1 << index), Ordering::Relaxed);
        self.generation = generation;
        // Other ranks see this when they have the ticket.
        [PASSED, CORE].iter().for_each(|at| area.count(*at).store(0, Ordering::Relaxed));
        for (slot, word) in (0..SLOTS as u64).flat_map(|i| [(i, FLAG), (i, SHARED_FLAG)]) {
            area.slot(slot, word).store(0, Ordering::Relaxed);
        }
        area.count(GENERATION).store(generation, Ordering::Release);
        let ticket = generation << 8 | u64::from(index);
        self.given[index as usize] = ticket;
        Some(ticket)
    }

    /// Frees the area of a ticket for which no slots were opened.
    pub(crate) fn take_back(&mut self, ticket: u64) {
        // 0 is no ticket.
        let (index, _) = split(ticket);
        if ticket != 0 && self.given.get(index) == Some(&ticket) {
            self.given[index] = 0;
            self.free.fetch_or(1 << index, Ordering::Relaxed);
        }
    }

    /// The slots of these members, by rank and ticket, of which we are one. None if not all are on our node, which each of
    /// them finds alike; and none if our ticket was used before, as an area has one writer.
    pub(crate) fn open(&mut self, members: &[(u32, u64)]) -> Option<CallSlots> {
        let (ours, _) = self.locals[self.mine];
        let mine = members.iter().position(|(rank, _)| *rank == ours)?;
        let (index, ticket) = (split(members[mine].1).0, members[mine].1);
        if ticket == 0 || self.given.get(index) != Some(&ticket) {
            return None;
        }
        let area = |(rank, ticket): &(u32, u64)| {
            let (index, generation) = split(*ticket);
            self.area(self.locals.binary_search_by_key(rank, |(r, _)| *r).ok()?, index, generation)
        };
        let areas: Vec<MemberArea> = members.iter().map(area).collect::<Option<_>>()?;
        self.given[index] = 0;
        let free = Arc::clone(&self.free);
        Some(CallSlots::new(areas, mine, index, free, self.spins))
    }

    fn area(&self, local: usize, index: usize, generation: u64) -> Option<MemberArea> {
        let (map, first) = self.locals.get(local)?.1.as_ref()?;
        let memory = Area::new(map, first + index * AREA_BYTES, AREA_BYTES)?;
        (index < MAX_CALL_SLOTS).then(|| MemberArea::new(memory, generation))
    }
}

impl MemberArea {
    pub(super) fn new(memory: Area, generation: u64) -> Self {
        Self { memory, generation }
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

/// What a flag says of a call: its number, never 0, and the operation.
fn flag(sequence: u64, code: u8) -> u64 {
    (sequence + 1) << 8 | u64::from(code)
}

impl CallSlots {
    /// Of these areas, of which `mine` is ours: the `index`-th of this rank, given back to `free`.
    pub(super) fn new(
        areas: Vec<MemberArea>,
        mine: usize,
        index: usize,
        free: Arc<AtomicU32>,
        spins: bool,
    ) -> Self {
        let cores = Cores::default();
        Self { areas, mine, posted: [0; SLOTS], passed: 0, index, free, spins, idle_spins: IDLE_SPINS, cores }
    }

    /// The number of members.
    pub(crate) fn size(&self) -> usize {
        self.areas.len()
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

    /// Posts in call `sequence`, for which there is [room](CallSlots::room): `post`, and `bytes` if any member reads it at all.
    ///
    /// # Panics
    /// When there are more than [`MAX_POST_BYTES`] bytes.
    pub(crate) fn post(&mut self, sequence: u64, post: Post, bytes: Option<&[u8]>) {
        let area = &self.areas[self.mine];
        if let Some(bytes) = bytes {
            assert!(bytes.len() <= MAX_POST_BYTES, "a post of {} bytes", bytes.len());
            // SAFETY: the slot has MAX_POST_BYTES. No member reads them: all have passed the call that they were of (`room`),
            // and the flag does not name this one yet.
            unsafe { area.memory.write(slot(sequence) + BYTES, bytes.as_ptr(), bytes.len()) };
        }
        area.slot(sequence, HASH).store(post.hash, Ordering::Relaxed);
        area.slot(sequence, PAST).store(post.past, Ordering::Relaxed);
        area.slot(sequence, FLAG).store(flag(sequence, post.code), Ordering::Release);
        self.posted[turn(sequence)] = if bytes.is_some() { sequence + 1 } else { 0 };
    }

    /// What `member`'s slot shows of call `sequence`.
    #[inline]
    pub(crate) fn look(&self, member: usize, sequence: u64) -> Look {
        let Some(area) = self.areas.get(member) else { return Look::Nothing };
        let seen = area.slot(sequence, FLAG).load(Ordering::Acquire);
        match (seen >> 8).cmp(&(sequence + 1)) {
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
        if self.spins && self.idle_spins > 0 {
            for _ in 0..LOOK_SPINS {
                if seen != Look::Nothing {
                    break;
                }
                seen = self.look(member, sequence);
            }
        }
        seen
    }

    /// Waits a moment, for the `turn`-th time: pauses at first, if there are cores enough, then yields the core.
    #[inline]
    pub(crate) fn idle(&mut self, turn: u32) {
        if self.spins && turn < self.idle_spins {
            return std::hint::spin_loop();
        }
        let start = Instant::now();
        std::thread::yield_now();
        self.idle_spins = if start.elapsed() > CONTENDED { 0 } else { IDLE_SPINS };
        if self.spins && self.idle_spins == 0 {
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
    /// When this ends behind [`MAX_POST_BYTES`] bytes.
    pub(crate) fn read(&self, member: usize, sequence: u64, at: usize, out: &mut [u8]) {
        assert!(
            at <= MAX_POST_BYTES && out.len() <= MAX_POST_BYTES - at,
            "{} bytes of a post from {at} on",
            out.len()
        );
        // SAFETY: the slot has MAX_POST_BYTES, and `out` is ours. The member does not write them until we have passed this call;
        // should it, we read other bytes.
        unsafe { self.areas[member].area.read(slot(sequence) + BYTES + at, out.as_mut_ptr(), out.len()) };
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
pub(super) mod tests {
    use super::*;
    use std::os::fd::AsFd;

    /// Two ranks of one node, in one process.
    pub(in super::super) fn two() -> [SlotPool; 2] {
        let memories = [5, 6].map(|owner| {
            let file = memfd::create("test", owner, AREAS_BYTES).unwrap();
            let map = Mapping::new(file.as_fd(), AREAS_BYTES, true).unwrap();
            ((Arc::new(map), 0), Arc::new(file))
        });
        let mut pools = [0, 1].map(|i| {
            let (memory, file) = memories[i].clone();
            SlotPool::new(&[3, 7], i, memory, file, false)
        });
        pools[0].add(1, memories[1].0.clone());
        pools[1].add(0, memories[0].0.clone());
        pools
    }

    pub(in super::super) fn open(pools: &mut [SlotPool; 2]) -> [CallSlots; 2] {
        let tickets = pools.each_mut().map(|b| b.ticket().unwrap());
        // The second rank first.
        pools.each_mut().map(|b| b.open(&[(7, tickets[1]), (3, tickets[0])]).unwrap())
    }

    const POST: Post = Post { code: 3, hash: 99, past: 98 };

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
            writer.post(sequence, POST, Some(&bytes));
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
            writer.post(sequence, POST, if sequence < 120 { None } else { Some(&[1]) });
            if sequence >= 120 {
                writer.all_entered(sequence);
            }
        }
    }

    /// A ticket opens slots once: two values would write to the same slots while others read them.
    #[test]
    fn a_ticket_opens_slots_once() {
        let mut pools = two();
        let tickets = pools.each_mut().map(|b| b.ticket().unwrap());
        let members = [(3, tickets[0]), (7, tickets[1])];
        let first = pools[0].open(&members).unwrap();
        assert!(pools[0].open(&members).is_none(), "a second time");
        drop(first);
        assert!(pools[0].open(&members).is_none(), "the ticket of slots that were dropped");
        pools[1].take_back(tickets[1]);
        assert!(pools[1].open(&members).is_none(), "a ticket that was taken back");
        assert!(pools[0].open(&[(3, 1 << 8 | 5), (7, tickets[1])]).is_none(), "a ticket never given");
    }

    /// A ticket that is out of use frees no area that other slots have now.
    #[test]
    fn an_old_ticket_frees_nothing() {
        let mut pools = two();
        let old = pools[0].ticket().unwrap();
        pools[0].take_back(old);
        let new = pools[0].ticket().unwrap();
        let free = pools[0].free.load(Ordering::Relaxed);
        pools[0].take_back(old);
        assert_eq!(pools[0].free.load(Ordering::Relaxed), free);
        let theirs = pools[1].ticket().unwrap();
        let _slots = pools[0].open(&[(3, new), (7, theirs)]).unwrap();
        pools[0].take_back(new);
        assert_eq!(pools[0].free.load(Ordering::Relaxed), free, "its slots are in use");
    }

    #[test]
    fn areas_come_back_when_no_member_reads_them() {
        let mut pools = two();
        let mut kept: Vec<_> = (0..MAX_CALL_SLOTS).map(|_| open(&mut pools)).collect();
        assert_eq!(pools[0].ticket(), None);
        let [mut a, mut b] = kept.swap_remove(4);
        b.post(0, POST, Some(&[1]));
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
        let free = pools[0].free.load(Ordering::Relaxed);
        pools[0].take_back(0);
        assert_eq!(pools[0].free.load(Ordering::Relaxed), free, "no ticket frees nothing");
        assert!(pools[0].open(&[(3, again), (8, ticket)]).is_none(), "rank 8 is elsewhere");
        assert!(pools[0].open(&[(3, again), (7, 0xFF)]).is_none(), "there is no such area");
    }
}
