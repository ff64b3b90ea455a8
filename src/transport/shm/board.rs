//! A board: where the ranks of one communicator on one node show each other short data, without puts.
//!
//! Each member has a place in its own shared memory, with a few slots that it uses in turn by the number of the call. It
//! *posts*: bytes and what the call is go into a slot, then its flag is set; one flag serves all who read. The others
//! *look* at the flag, and read. Nobody else ever writes to a place.
//!
//! A call may have a second half: each member then *shares* a part of the result, in the same slot behind what it posted.
//!
//! A slot is written again only when all members have *passed* the call whose bytes stand there, as their counters say
//! that each keeps in its place. The writer looks at these when its slots are used up, so mostly never: who takes part in
//! a call in which all wait for all has passed the calls before it.

use super::cores::{Cores, Mark};
use super::mapping::Mapping;
use super::memfd;
use super::segment::Segment;
use super::words::{Area, AtomicU64, Ordering};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// The most bytes of one post.
pub(crate) const LONGEST: usize = match () {
    _ if cfg!(loom) => 16,
    _ if cfg!(miri) => 512,
    _ => 16 << 10,
};
/// The most bytes that are [shared](Board::share) after a post: a part of a result, and there are at least two members.
const PART: usize = LONGEST / 2 + 128;
/// Calls that a member can be ahead of another.
pub(crate) const SLOTS: usize = if cfg!(test) { 2 } else { USUAL_SLOTS };
/// The same outside of unit tests.
const USUAL_SLOTS: usize = 8;
/// Boards that one rank can take part in.
pub(super) const BOARDS: usize = 32;

/// Where things stand in a place, on cache lines of their own.
const GENERATION: usize = 0;
/// The core that the member was on when it last shared one, and 1.
const CORE: usize = 8;
const PASSED: usize = 128;
const FIRST: usize = 256;
/// In a slot: call and operation, hash, hash of all calls before, the call whose part is there; the bytes; the part.
const FLAG: usize = 0;
const HASH: usize = 8;
const PAST: usize = 16;
const SHARED_FLAG: usize = 24;
const BYTES: usize = 32;
const PART_BYTES: usize = BYTES + LONGEST + 32;
/// An odd number of cache lines, so that slots do not fall on the same sets of a cache.
const SLOT: usize = PART_BYTES + PART;
/// Of each slot so much is there before it is used.
const READY: usize = 4096;
/// Bytes of a place: whole pages.
pub(super) const PLACE: usize = place(SLOTS);

const fn place(slots: usize) -> usize {
    (FIRST + slots * SLOT).next_multiple_of(4096)
}

const _: () = assert!(cfg!(loom) || (SLOT / 64) % 2 == 1 && SLOT.is_multiple_of(64) && PLACE <= 256 << 10);

/// Looks at a flag in a row, before anything else is done.
const EAGER: u32 = 100;
/// Pauses before a rank gives its core away, where nobody else wants it.
const PAUSES: u32 = 100;
/// Who gets the core back later than this has given it to somebody.
const SHARED: Duration = Duration::from_micros(1);

/// What a rank does in a call, in few words: these must be the same at all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Post {
    /// The operation.
    pub(crate) code: u8,
    /// Of its arguments.
    pub(crate) hash: u64,
    /// Of all calls before it.
    pub(crate) past: u64,
}

/// What a look at a member's slot shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It has not come to this call.
    Nothing,
    /// Its post.
    Posted(Post),
    /// It used the slot for a later call.
    Later,
}

/// A rank's memory, and where its places begin.
type Memory = (Arc<Mapping>, usize);

/// The boards that one rank can take part in.
#[derive(Debug)]
pub struct Boards {
    /// The ranks of our node, and the memory of those that we have mapped, with where its places begin.
    mates: Vec<(u32, Option<Memory>)>,
    mine: usize,
    /// The file of our own, whose places get their memory when they are used.
    file: Arc<File>,
    /// Our places that are free, as bits.
    free: Arc<AtomicU32>,
    /// By place: the ticket for which no board was made yet, or 0.
    given: [u64; BOARDS],
    generation: u64,
    spins: bool,
}

/// One member's place.
pub(super) struct Place {
    area: Area,
    /// What stands there; something else once the member needs this board no more.
    generation: u64,
}

/// The members' places: who posts, who reads, and when a slot is used again is told at the top of the file.
pub(crate) struct Board {
    /// By rank in the communicator.
    places: Vec<Place>,
    mine: usize,
    /// The calls whose bytes of ours others may still read, by slot: number + 1.
    posted: [u64; SLOTS],
    /// All members have passed the calls below this.
    passed: u64,
    index: usize,
    free: Arc<AtomicU32>,
    /// There is a core for each rank of the node.
    spins: bool,
    /// Pauses before the core is given away: none while somebody wants it, perhaps whom we wait for.
    patience: u32,
    cores: Cores,
}

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Board")
            .field("members", &self.places.len())
            .field("passed", &self.passed)
            .finish_non_exhaustive()
    }
}

/// A ticket: the place below, its generation above.
fn split(ticket: u64) -> (usize, u64) {
    (usize::from(ticket.to_le_bytes()[0]), ticket >> 8)
}

impl Boards {
    /// Of the rank `mine` of its node's, whose memory is `segment`. `spins`: there is a core for each.
    pub(super) fn new(mates: &[u32], mine: usize, segment: &Segment, file: Arc<File>, spins: bool) -> Self {
        let mates = mates.iter().map(|rank| (*rank, None)).collect();
        let free = Arc::new(AtomicU32::new(u32::MAX));
        let mut this = Self { mates, mine, file, free, given: [0; BOARDS], generation: 0, spins };
        this.add(mine, segment);
        this
    }

    /// The memory of the rank `index` of the node is mapped.
    pub(super) fn add(&mut self, index: usize, segment: &Segment) {
        self.mates[index].1 = Some(segment.places());
    }

    /// A place of ours for a new board, cleared: the number to tell its other members, never 0. The first is the same
    /// at all ranks. None when all are in use, or there is no memory for one more (never for the first).
    pub(crate) fn ticket(&mut self) -> Option<u64> {
        let index = self.free.load(Ordering::Acquire).trailing_zeros();
        let generation = self.generation + 1;
        let place = self.place(self.mine, index as usize, generation)?;
        let first = self.mates[self.mine].1.as_ref()?.1;
        if let Err(e) = memfd::allocate(&self.file, first + index as usize * PLACE, PLACE) {
            tracing::debug!("no memory for one more board: {e}");
            return None;
        }
        (0..SLOTS as u64).for_each(|i| place.area.populate(slot(i), READY));
        self.free.fetch_and(!(1 << index), Ordering::Relaxed);
        self.generation = generation;
        // Seen by others when they hear of the ticket.
        [PASSED, CORE].iter().for_each(|at| place.count(*at).store(0, Ordering::Relaxed));
        for (slot, word) in (0..SLOTS as u64).flat_map(|i| [(i, FLAG), (i, SHARED_FLAG)]) {
            place.slot(slot, word).store(0, Ordering::Relaxed);
        }
        place.count(GENERATION).store(generation, Ordering::Release);
        let ticket = generation << 8 | u64::from(index);
        self.given[index as usize] = ticket;
        Some(ticket)
    }

    /// Takes a ticket back for which no board was made.
    pub(crate) fn take_back(&mut self, ticket: u64) {
        // Who got none may say so, too.
        let (index, _) = split(ticket);
        if ticket != 0 && self.given.get(index) == Some(&ticket) {
            self.given[index] = 0;
            self.free.fetch_or(1 << index, Ordering::Relaxed);
        }
    }

    /// The board of these members, by rank and ticket, of which we are one. None if not all are on our node: then so it
    /// is for each of them; and none if our ticket is used up, as a place has one writer.
    pub(crate) fn board(&mut self, members: &[(u32, u64)]) -> Option<Board> {
        let (ours, _) = self.mates[self.mine];
        let mine = members.iter().position(|(rank, _)| *rank == ours)?;
        let (index, ticket) = (split(members[mine].1).0, members[mine].1);
        if ticket == 0 || self.given.get(index) != Some(&ticket) {
            return None;
        }
        let place = |(rank, ticket): &(u32, u64)| {
            let (index, generation) = split(*ticket);
            self.place(self.mates.binary_search_by_key(rank, |(r, _)| *r).ok()?, index, generation)
        };
        let places: Vec<Place> = members.iter().map(place).collect::<Option<_>>()?;
        self.given[index] = 0;
        let free = Arc::clone(&self.free);
        Some(Board::new(places, mine, index, free, self.spins))
    }

    fn place(&self, mate: usize, index: usize, generation: u64) -> Option<Place> {
        let (map, first) = self.mates.get(mate)?.1.as_ref()?;
        let area = Area::new(map, first + index * PLACE, PLACE)?;
        (index < BOARDS).then(|| Place::new(area, generation))
    }
}

impl Place {
    pub(super) fn new(area: Area, generation: u64) -> Self {
        Self { area, generation }
    }

    fn count(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at < PLACE && at.is_multiple_of(8));
        // SAFETY: inside the place, which is PLACE bytes of a mapping (`Boards::place`); all processes touch these words as
        // atomics only.
        unsafe { self.area.word(at) }
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
    FIRST + turn(sequence) * SLOT
}

/// What a flag says of a call: its number, never 0, and the operation.
fn flag(sequence: u64, code: u8) -> u64 {
    (sequence + 1) << 8 | u64::from(code)
}

impl Board {
    /// Of these places, of which `mine` is ours: the `index`-th of its rank, given back to `free`.
    pub(super) fn new(
        places: Vec<Place>,
        mine: usize,
        index: usize,
        free: Arc<AtomicU32>,
        spins: bool,
    ) -> Self {
        let cores = Cores::default();
        Self { places, mine, posted: [0; SLOTS], passed: 0, index, free, spins, patience: PAUSES, cores }
    }

    /// The number of members.
    pub(crate) fn size(&self) -> usize {
        self.places.len()
    }

    /// Whether our slot for call `sequence` can be written; else who may still read it.
    pub(crate) fn room(&mut self, sequence: u64) -> Result<(), usize> {
        let posted = self.posted[turn(sequence)];
        if posted <= self.passed {
            return Ok(());
        }
        let (mut least, mut who) = (u64::MAX, self.mine);
        for (member, place) in self.places.iter().enumerate().filter(|(m, _)| *m != self.mine) {
            // Acquire: it has read what stands there before it said so.
            let passed = place.count(PASSED).load(Ordering::Acquire);
            if passed < least {
                (least, who) = (passed, member);
            }
        }
        self.passed = self.passed.max(least);
        if posted <= self.passed { Ok(()) } else { Err(who) }
    }

    /// Shows `post`, and `bytes` if others are to read it at all, in call `sequence`, for which there is
    /// [room](Board::room).
    ///
    /// # Panics
    /// When there are more than [`LONGEST`] bytes.
    pub(crate) fn post(&mut self, sequence: u64, post: Post, bytes: Option<&[u8]>) {
        let place = &self.places[self.mine];
        if let Some(bytes) = bytes {
            assert!(bytes.len() <= LONGEST, "{} bytes on a board", bytes.len());
            // SAFETY: there is room for LONGEST bytes in the slot. Nobody reads them: all have passed the call that
            // they were of (`room`), and the flag does not name this one yet.
            unsafe { place.area.write(slot(sequence) + BYTES, bytes.as_ptr(), bytes.len()) };
        }
        place.slot(sequence, HASH).store(post.hash, Ordering::Relaxed);
        place.slot(sequence, PAST).store(post.past, Ordering::Relaxed);
        place.slot(sequence, FLAG).store(flag(sequence, post.code), Ordering::Release);
        self.posted[turn(sequence)] = if bytes.is_some() { sequence + 1 } else { 0 };
    }

    /// What `member` shows in call `sequence`.
    #[inline]
    pub(crate) fn look(&self, member: usize, sequence: u64) -> Look {
        let Some(place) = self.places.get(member) else { return Look::Nothing };
        let seen = place.slot(sequence, FLAG).load(Ordering::Acquire);
        match (seen >> 8).cmp(&(sequence + 1)) {
            std::cmp::Ordering::Less => Look::Nothing,
            std::cmp::Ordering::Greater => Look::Later,
            std::cmp::Ordering::Equal => Look::Posted(Post {
                code: seen.to_le_bytes()[0],
                hash: place.slot(sequence, HASH).load(Ordering::Relaxed),
                past: place.slot(sequence, PAST).load(Ordering::Relaxed),
            }),
        }
    }

    /// Looks a few times in a row, where ranks have cores of their own.
    #[inline]
    pub(crate) fn watch(&self, member: usize, sequence: u64) -> Look {
        let mut seen = self.look(member, sequence);
        if self.spins && self.patience > 0 {
            for _ in 0..EAGER {
                if seen != Look::Nothing {
                    break;
                }
                seen = self.look(member, sequence);
            }
        }
        seen
    }

    /// Waits a moment, for the `turn`-th time: pauses at first, if there are cores enough, then gives the core away.
    #[inline]
    pub(crate) fn idle(&mut self, turn: u32) {
        if self.spins && turn < self.patience {
            return std::hint::spin_loop();
        }
        let start = Instant::now();
        std::thread::yield_now();
        self.patience = if start.elapsed() > SHARED { 0 } else { PAUSES };
        if self.spins && self.patience == 0 {
            self.part();
        }
    }

    /// The core is shared, perhaps with a member though there is another for it: then one of the two leaves.
    #[cold]
    fn part(&mut self) {
        let Some(mark) = Mark::new() else { return };
        self.places[self.mine].count(CORE).store(mark.word(), Ordering::Relaxed);
        let words = self.places.iter().map(|place| place.count(CORE).load(Ordering::Relaxed));
        self.cores.part(mark, self.mine, words);
    }

    /// Copies what `member` has posted in call `sequence`, as a look showed, to `out`: from byte `at` on.
    ///
    /// # Panics
    /// When this ends behind [`LONGEST`] bytes.
    pub(crate) fn read(&self, member: usize, sequence: u64, at: usize, out: &mut [u8]) {
        assert!(at <= LONGEST && out.len() <= LONGEST - at, "{} bytes from a board at {at}", out.len());
        // SAFETY: LONGEST bytes are in the slot, and `out` is ours. The member leaves them alone until we have passed
        // this call; should it not, we read other bytes.
        unsafe { self.places[member].area.read(slot(sequence) + BYTES + at, out.as_mut_ptr(), out.len()) };
    }

    /// Shows `part`, our part of a result, in a call in which we have posted.
    ///
    /// # Panics
    /// When it is longer than a member's share of [`LONGEST`] bytes can be.
    pub(crate) fn share(&mut self, sequence: u64, part: &[u8]) {
        assert!(part.len() <= PART, "{} bytes of a part on a board", part.len());
        let place = &self.places[self.mine];
        // SAFETY: there is room for PART bytes in the slot. Nobody reads them: all have passed the call that they were of
        // (`room`, before the post), and the flag does not name this one yet.
        unsafe { place.area.write(slot(sequence) + PART_BYTES, part.as_ptr(), part.len()) };
        place.slot(sequence, SHARED_FLAG).store(sequence + 1, Ordering::Release);
    }

    /// Whether `member` shows its part in call `sequence`.
    #[inline]
    pub(crate) fn has_shared(&self, member: usize, sequence: u64) -> bool {
        let flag = |place: &Place| place.slot(sequence, SHARED_FLAG).load(Ordering::Acquire);
        self.places.get(member).is_some_and(|place| flag(place) == sequence + 1)
    }

    /// Copies the part that `member` shows in call `sequence` to `out`.
    ///
    /// # Panics
    /// When this is longer than a part can be.
    pub(crate) fn read_part(&self, member: usize, sequence: u64, out: &mut [u8]) {
        assert!(out.len() <= PART, "{} bytes of a part from a board", out.len());
        let place = &self.places[member];
        // SAFETY: PART bytes are in the slot, and `out` is ours. As for what is posted, the member leaves them alone.
        unsafe { place.area.read(slot(sequence) + PART_BYTES, out.as_mut_ptr(), out.len()) };
    }

    /// All members have come to call `sequence`.
    pub(crate) fn met(&mut self, sequence: u64) {
        self.passed = self.passed.max(sequence);
    }

    /// We will read nothing more of the calls below `next`.
    #[inline]
    pub(crate) fn pass(&mut self, next: u64) {
        // Release: what we read was read before.
        self.places[self.mine].count(PASSED).store(next, Ordering::Release);
    }

    /// Whether no member will read our place again, if we make no more calls: all have passed what we have passed, or
    /// need this board no more themselves.
    pub(crate) fn is_quiet(&self) -> bool {
        let ours = self.places[self.mine].count(PASSED).load(Ordering::Relaxed);
        self.places.iter().all(|place| {
            let passed = place.count(PASSED).load(Ordering::Acquire);
            passed >= ours || place.count(GENERATION).load(Ordering::Acquire) != place.generation
        })
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.free.fetch_or(1 << self.index, Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
pub(super) mod tests {
    use super::*;

    /// Two ranks of one node, in one process.
    pub(in super::super) fn two() -> [Boards; 2] {
        let segments = [5, 6].map(|nonce| Segment::create(2, nonce).unwrap());
        let mut boards = [0, 1].map(|i| {
            let (segment, file) = &segments[i];
            Boards::new(&[3, 7], i, segment, Arc::clone(file), false)
        });
        boards[0].add(1, &segments[1].0);
        boards[1].add(0, &segments[0].0);
        boards
    }

    pub(in super::super) fn board(boards: &mut [Boards; 2]) -> [Board; 2] {
        let tickets = boards.each_mut().map(|b| b.ticket().unwrap());
        // The second rank first.
        boards.each_mut().map(|b| b.board(&[(7, tickets[1]), (3, tickets[0])]).unwrap())
    }

    const POST: Post = Post { code: 3, hash: 99, past: 98 };

    #[test]
    #[cfg_attr(miri, ignore = "places are smaller there")]
    fn the_document_says_how_long_a_place_is() {
        let document = include_str!("../../../docs/design.md");
        let said =
            format!("{} KiB for each communicator, at most {BOARDS} at once", place(USUAL_SLOTS) >> 10);
        assert!(document.contains(&said), "docs/design.md does not say: {said}");
    }

    #[test]
    fn what_is_posted_is_read_and_slots_wait_for_readers() {
        let mut boards = two();
        let [mut reader, mut writer] = board(&mut boards);
        for sequence in 0..100u64 {
            let bytes: Vec<u8> = (0..LONGEST).map(|i| (i as u64 * 7 + sequence).to_le_bytes()[0]).collect();
            assert_eq!(reader.look(0, sequence), Look::Nothing);
            assert_eq!(writer.room(sequence), Ok(()));
            writer.post(sequence, POST, Some(&bytes));
            assert_eq!(reader.look(0, sequence), Look::Posted(POST));
            let mut out = vec![0; LONGEST];
            reader.read(0, sequence, 0, &mut out);
            assert!(out == bytes);
            reader.read(0, sequence, LONGEST - 5, &mut out[..5]);
            assert_eq!(out[..5], bytes[LONGEST - 5..]);
            assert!(!reader.has_shared(0, sequence));
            writer.share(sequence, &bytes[3..PART]);
            assert!(reader.has_shared(0, sequence) && !reader.has_shared(0, sequence + SLOTS as u64));
            reader.read_part(0, sequence, &mut out[..PART - 3]);
            assert_eq!(out[..PART - 3], bytes[3..PART], "a part has room beside what is posted");
            reader.read(0, sequence, 0, &mut out);
            assert!(out == bytes);
            if sequence >= SLOTS as u64 {
                assert_eq!(reader.look(0, sequence - SLOTS as u64), Look::Later);
            }
            // All slots are full; whoever reads them is named, until it has passed the oldest.
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
        // What nobody reads needs nobody's leave, nor does a call that all have come to.
        for sequence in 100..150 {
            assert_eq!(writer.room(sequence), Ok(()));
            writer.post(sequence, POST, if sequence < 120 { None } else { Some(&[1]) });
            if sequence >= 120 {
                writer.met(sequence);
            }
        }
    }

    /// Of one ticket there is one board: two would write to the same slots while others read them.
    #[test]
    fn a_ticket_is_good_for_one_board() {
        let mut boards = two();
        let tickets = boards.each_mut().map(|b| b.ticket().unwrap());
        let members = [(3, tickets[0]), (7, tickets[1])];
        let first = boards[0].board(&members).unwrap();
        assert!(boards[0].board(&members).is_none(), "a second board for one ticket");
        drop(first);
        assert!(boards[0].board(&members).is_none(), "the ticket of a board that is gone");
        boards[1].take_back(tickets[1]);
        assert!(boards[1].board(&members).is_none(), "a ticket that was taken back");
        assert!(boards[0].board(&[(3, 1 << 8 | 5), (7, tickets[1])]).is_none(), "a ticket never given");
    }

    /// A ticket that is out of use takes no place from the board that has it now.
    #[test]
    fn an_old_ticket_frees_nothing() {
        let mut boards = two();
        let old = boards[0].ticket().unwrap();
        boards[0].take_back(old);
        let new = boards[0].ticket().unwrap();
        let free = boards[0].free.load(Ordering::Relaxed);
        boards[0].take_back(old);
        assert_eq!(boards[0].free.load(Ordering::Relaxed), free);
        let theirs = boards[1].ticket().unwrap();
        let _board = boards[0].board(&[(3, new), (7, theirs)]).unwrap();
        boards[0].take_back(new);
        assert_eq!(boards[0].free.load(Ordering::Relaxed), free, "its board is in use");
    }

    #[test]
    fn places_come_back_when_nobody_looks_at_them() {
        let mut boards = two();
        let mut kept: Vec<_> = (0..BOARDS).map(|_| board(&mut boards)).collect();
        assert_eq!(boards[0].ticket(), None);
        let [mut a, mut b] = kept.swap_remove(4);
        b.post(0, POST, Some(&[1]));
        b.pass(1);
        assert!(a.is_quiet() && !b.is_quiet());
        a.pass(1);
        assert!(a.is_quiet() && b.is_quiet());
        // One that has its place for something else need not be asked.
        b.pass(2);
        assert!(!b.is_quiet());
        drop(a);
        let again = boards[0].ticket().unwrap();
        assert!(b.is_quiet());
        drop(b);
        let ticket = boards[1].ticket().unwrap();
        // What stood there is gone.
        let [a, _b] = boards.each_mut().map(|b| b.board(&[(3, again), (7, ticket)]).unwrap());
        assert_eq!([0, 1].map(|m| a.look(m, 0)), [Look::Nothing; 2]);
        boards[0].take_back(again);
        let free = boards[0].free.load(Ordering::Relaxed);
        boards[0].take_back(0);
        assert_eq!(boards[0].free.load(Ordering::Relaxed), free, "no ticket frees nothing");
        assert!(boards[0].board(&[(3, again), (8, ticket)]).is_none(), "rank 8 is elsewhere");
        assert!(boards[0].board(&[(3, again), (7, 0xFF)]).is_none(), "there is no such place");
    }
}
