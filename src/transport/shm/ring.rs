//! A ring of records with one writer and one reader, in memory that both have mapped.
//!
//! Head and tail count bytes since the beginning and never wrap. The writer alone stores the head, the reader alone
//! the tail; each on cache lines of its own. A record is contiguous: where it would wrap, padding is written first.
//! What the other side wrote is not trusted: every number is checked before it is used, on a copy of it.
//!
//! Where many ranks share a node a ring has memory for its first page only, and its writer [stays there](Writer::in_first_page): where a
//! record would pass the page's end, it waits until all is read, and voids the rest of the ring, so that the record begins at its start. What is
//! longer than the page needs the memory of all.

#[cfg(not(loom))]
use crate::memory::words::AtomicU64;
use crate::memory::words::Ordering;

/// Offset of the writer's place in a ring, in bytes. It, the reader's and the data lie 128 bytes and more apart: two
/// cache lines, as some processors fetch pairs.
const HEAD: usize = 0;
/// Offset of the reader's place.
const TAIL: usize = 128;
/// Offset of the records.
const DATA: usize = 256;

/// Bytes that a ring for `capacity` bytes of records takes.
pub(super) const fn footprint(capacity: usize) -> usize {
    DATA + capacity
}

/// Bytes of a page, to which rings are aligned: of x86-64; where pages are longer more memory is taken.
pub(super) const PAGE_BYTES: usize = 4096;
/// Where records in the first page end: before the page does, so that the rest can be said to be void.
const FIRST_PAGE_END: usize = PAGE_BYTES - DATA - UNIT;

/// Records are multiples of this, so their headers are aligned.
const UNIT: usize = 8;
/// The longest fixed part of a record.
pub(super) const FIXED: usize = 4 * UNIT;
/// That of a record that is no put.
const NOTE: usize = 2 * UNIT;

/// What a record is. The numbers are those in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// The rest up to the end of the memory is void.
    Pad = 1,
    /// The writer's address: its first record.
    Hello = 2,
    /// A control message.
    Message = 3,
    /// A put with its bytes.
    Inline = 4,
    /// A put whose bytes the reader fetches: segments follow.
    Fetch = 5,
    /// A part of a put, which the reader fetches: two segments follow, where it is, and [where it belongs](Part).
    Part = 6,
}

/// The second segment of a [`Kind::Part`]: its offset in the put, and the bytes of all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) offset: u64,
    pub(super) total: u64,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        [Self::Pad, Self::Hello, Self::Message, Self::Inline, Self::Fetch, Self::Part]
            .into_iter()
            .find(|k| *k as u8 == byte)
    }
}

/// The fixed part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: Kind,
    /// Segments that follow (of [`Kind::Fetch`] and [`Kind::Part`]).
    pub(super) segments: usize,
    /// Bytes that follow (of the others).
    pub(super) len: usize,
    pub(super) word: u32,
    pub(super) key: u64,
    pub(super) address: u64,
}

/// The other side wrote what makes no sense. Nothing of the ring is used after this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corrupt;

#[cfg(loom)]
pub(super) use super::ring_cells::RingMemory;

/// The memory of one ring.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
pub(super) struct RingMemory {
    base: *mut u8,
    capacity: usize,
}

#[cfg(not(loom))]
impl RingMemory {
    /// A ring at `base` for `capacity` bytes, a power of two.
    ///
    /// # Safety
    /// `footprint(capacity)` bytes at `base`, which is aligned to 64, are mapped for reading and writing as long as this
    /// or a copy is used. In this process they are touched by one [`Writer`] and one [`Reader`] only.
    pub(super) unsafe fn new(base: *mut u8, capacity: usize) -> Self {
        debug_assert!(capacity.is_power_of_two() && base.addr().is_multiple_of(64));
        Self { base, capacity }
    }

    fn count(&self, at: usize) -> &AtomicU64 {
        // SAFETY: inside the mapping and aligned (`new`); both processes touch it as an atomic only.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }

    fn offset(&self, position: u64) -> usize {
        // Below the capacity, so it fits.
        usize::try_from(position & (self.capacity as u64 - 1)).unwrap_or(0)
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    /// # Safety
    /// `at + len` is at most the capacity.
    unsafe fn read(&self, at: usize, to: *mut u8, len: usize) {
        // SAFETY: inside the mapping (the caller's promise, `new`), `to` is the caller's. The writer leaves these bytes
        // alone until the tail has passed them; one that does not only makes us read numbers that we then check.
        unsafe { std::ptr::copy_nonoverlapping(self.base.add(DATA + at), to, len) };
    }

    /// # Safety
    /// `at + len` is at most the capacity, and `from` can be read.
    unsafe fn write(&self, at: usize, from: *const u8, len: usize) {
        // SAFETY: inside the mapping (the caller's promise, `new`); the reader does not read it before the head is moved.
        unsafe { std::ptr::copy_nonoverlapping(from, self.base.add(DATA + at), len) };
    }
}

/// The writing end.
#[derive(Debug)]
pub(super) struct Writer {
    memory: RingMemory,
    head: u64,
    /// The reader's tail as last seen.
    tail: u64,
    /// Only the first page has memory.
    in_first_page: bool,
}

// SAFETY: plain numbers and a pointer to shared memory that is used through `&mut` and atomics only.
unsafe impl Send for Writer {}

impl Writer {
    /// The writer of a ring that was never written.
    pub(super) fn new(memory: RingMemory) -> Self {
        Self { memory, head: 0, tail: 0, in_first_page: false }
    }

    /// The same of a ring that has memory for its first page, until there is [more](Self::has_all_memory).
    pub(super) fn in_first_page(memory: RingMemory) -> Self {
        Self { in_first_page: true, ..Self::new(memory) }
    }

    /// Whether a message of `len` bytes needs more memory than the ring has.
    pub(super) fn lacks_memory_for(&self, len: usize) -> bool {
        self.in_first_page && size(Kind::Message, len) > FIRST_PAGE_END
    }

    /// From now on the whole ring has memory.
    pub(super) fn has_all_memory(&mut self) {
        self.in_first_page = false;
    }

    /// Up to where everything has been read.
    pub(super) fn tail(&mut self) -> Result<u64, Corrupt> {
        let tail = self.memory.count(TAIL).load(Ordering::Acquire);
        if tail < self.tail || tail > self.head {
            return Err(Corrupt);
        }
        self.tail = tail;
        Ok(tail)
    }

    /// Up to where everything has been written.
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    #[inline(always)]
    fn has_room(&mut self, bytes: usize) -> Result<bool, Corrupt> {
        if self.in_first_page && !self.stays_in_first_page(bytes)? {
            return Ok(false);
        }
        let room = |w: &Self| w.memory.capacity() as u64 - (w.head - w.tail) >= bytes as u64;
        Ok(room(self) || {
            self.tail()?;
            room(self)
        })
    }

    /// Whether `bytes` end in the first page; if they do not and all was read, the rest of the ring becomes void.
    #[cold]
    fn stays_in_first_page(&mut self, bytes: usize) -> Result<bool, Corrupt> {
        let at = self.memory.offset(self.head);
        if at + bytes > FIRST_PAGE_END && at > 0 {
            if self.tail()? != self.head {
                return Ok(false);
            }
            self.void(at, self.memory.capacity() - at);
            self.memory.count(HEAD).store(self.head, Ordering::Release);
        }
        Ok(self.memory.offset(self.head) + bytes <= FIRST_PAGE_END)
    }

    /// Writes at `at`, where the head is, that `pad` bytes from there to the end are void.
    fn void(&mut self, at: usize, pad: usize) {
        let word = (pad as u64) << 32 | Kind::Pad as u64;
        // SAFETY: a multiple of 8 is left before the end, so 8 bytes are.
        unsafe { self.memory.write(at, word.to_ne_bytes().as_ptr(), UNIT) };
        self.head += pad as u64;
    }

    /// Whether a record of `bytes` would be taken now, wherever it falls.
    pub(super) fn has_room_for(&mut self, bytes: usize) -> Result<bool, Corrupt> {
        // Beside padding before it.
        self.has_room(if self.in_first_page { bytes } else { 2 * bytes })
    }

    /// Writes one record with what follows it; `false` when there is no room now. The pieces' lengths must be
    /// the record's, which a caller keeps within [`longest`].
    pub(super) fn push(&mut self, record: &Record, pieces: &[(*const u8, usize)]) -> Result<bool, Corrupt> {
        self.push_all(record, pieces.iter().copied())
    }

    /// As [`Writer::push`], of pieces that stand in no slice.
    pub(super) fn push_all(
        &mut self,
        record: &Record,
        pieces: impl Iterator<Item = (*const u8, usize)> + Clone,
    ) -> Result<bool, Corrupt> {
        let body: usize = pieces.clone().map(|p| p.1).sum();
        let Some(mut at) = self.begin(record, body)? else { return Ok(false) };
        for (from, len) in pieces {
            // SAFETY: `begin` found room for all pieces, one behind the other, from `at` on. They can be read: their put's
            // caller promises that.
            unsafe { self.memory.write(at, from, len) };
            at += len;
        }
        self.publish(record.kind, body);
        Ok(true)
    }

    /// As [`Writer::push`], followed by segments. Inlined where the kind is known, so that all lengths are.
    #[inline(always)]
    pub(super) fn push_segments(&mut self, record: &Record, segments: &[[u64; 3]]) -> Result<bool, Corrupt> {
        let body = size_of_val(segments);
        let Some(at) = self.begin(record, body)? else { return Ok(false) };
        // SAFETY: `begin` found room for as many bytes from `at` on.
        unsafe {
            match segments {
                // Mostly there is one: word by word, as a call to copy so little takes longer.
                [one] => {
                    for (i, word) in one.iter().enumerate() {
                        self.memory.write(at + i * UNIT, std::ptr::from_ref(word).cast(), UNIT);
                    }
                }
                all => self.memory.write(at, all.as_ptr().cast(), body),
            }
        }
        self.publish(record.kind, body);
        Ok(true)
    }

    /// Writes the fixed part of a record that `body` bytes follow, where all of it has room, and says where these go. Nothing is
    /// to be read before it is [published](Self::publish).
    #[inline(always)]
    fn begin(&mut self, record: &Record, body: usize) -> Result<Option<usize>, Corrupt> {
        let size = size(record.kind, body);
        let at = self.memory.offset(self.head);
        let rest = self.memory.capacity() - at;
        let pad = if size > rest { rest } else { 0 };
        if size > longest(self.memory.capacity()) || !self.has_room(pad + size)? {
            return Ok(None);
        }
        if pad > 0 {
            self.void(at, pad);
        }
        let at = self.memory.offset(self.head);
        let words = [
            (size as u64) << 32 | (record.segments as u64) << 8 | record.kind as u64,
            (record.len as u64) << 32 | u64::from(record.word),
            record.key,
            record.address,
        ];
        // SAFETY: `size` bytes are free from `at` on and do not wrap (above), and the fixed part is no longer.
        unsafe {
            // Each of a length that the compiler knows.
            match fixed(record.kind) {
                FIXED => self.memory.write(at, words.as_ptr().cast(), FIXED),
                NOTE => self.memory.write(at, words.as_ptr().cast(), NOTE),
                fixed => self.memory.write(at, words.as_ptr().cast(), fixed),
            }
        }
        Ok(Some(at + fixed(record.kind)))
    }

    /// Gives the record that was [begun](Self::begin) to the reader.
    #[inline(always)]
    fn publish(&mut self, kind: Kind, body: usize) {
        self.head += size(kind, body) as u64;
        self.memory.count(HEAD).store(self.head, Ordering::Release);
    }
}

/// The longest record that a ring takes: with the padding before it, there is room when the ring is empty.
pub(super) const fn longest(capacity: usize) -> usize {
    capacity / 2
}

/// Bytes of a record that `body` bytes follow.
const fn size(kind: Kind, body: usize) -> usize {
    (fixed(kind) + body).next_multiple_of(UNIT)
}

const fn fixed(kind: Kind) -> usize {
    match kind {
        Kind::Pad => UNIT,
        Kind::Hello | Kind::Message => NOTE,
        Kind::Inline | Kind::Fetch | Kind::Part => FIXED,
    }
}

/// The reading end.
#[derive(Debug)]
pub(super) struct Reader {
    memory: RingMemory,
    tail: u64,
    /// The writer's head as last seen.
    head: u64,
    /// The size of the record that [`Reader::next`] gave.
    size: usize,
}

// SAFETY: as for `Writer`.
unsafe impl Send for Reader {}

/// Bytes of one segment in memory.
pub(super) const SEGMENT: usize = 3 * UNIT;

impl Reader {
    /// The reader of a ring that was never read.
    pub(super) fn new(memory: RingMemory) -> Self {
        Self { memory, tail: 0, head: 0, size: 0 }
    }

    /// The oldest record that is not [taken](Reader::take) yet.
    pub(super) fn next(&mut self) -> Result<Option<Record>, Corrupt> {
        loop {
            if self.head == self.tail {
                let head = self.memory.count(HEAD).load(Ordering::Acquire);
                if head == self.tail {
                    return Ok(None);
                }
                if head.checked_sub(self.tail).is_none_or(|n| n > self.memory.capacity() as u64) {
                    return Err(Corrupt);
                }
                self.head = head;
            }
            match self.header()? {
                Some(record) => return Ok(Some(record)),
                None => self.take(),
            }
        }
    }

    /// The record at the tail; `None` for padding.
    fn header(&mut self) -> Result<Option<Record>, Corrupt> {
        let at = self.memory.offset(self.tail);
        let left = (self.memory.capacity() - at).min(usize::try_from(self.head - self.tail).unwrap_or(0));
        if left < UNIT {
            return Err(Corrupt);
        }
        let mut words = [0u64; FIXED / UNIT];
        // SAFETY: 8 bytes are left before the end (above).
        unsafe { self.memory.read(at, words.as_mut_ptr().cast(), UNIT) };
        let size = usize::try_from(words[0] >> 32).map_err(|_| Corrupt)?;
        let kind = Kind::of(words[0].to_le_bytes()[0]).ok_or(Corrupt)?;
        let segments = usize::from(words[0].to_le_bytes()[1]);
        let fixed = fixed(kind);
        if size < fixed || size > left || !size.is_multiple_of(UNIT) {
            return Err(Corrupt);
        }
        self.size = size;
        if kind == Kind::Pad {
            return Ok(None);
        }
        // SAFETY: the fixed part is at most `size`, which is at most what is left before the end.
        unsafe { self.memory.read(at, words.as_mut_ptr().cast(), fixed) };
        let len = usize::try_from(words[1] >> 32).map_err(|_| Corrupt)?;
        let body = match kind {
            Kind::Fetch | Kind::Part => segments * SEGMENT,
            _ => len,
        };
        if body > size - fixed {
            return Err(Corrupt);
        }
        let [a, b, c, d, ..] = words[1].to_le_bytes();
        let word = u32::from_le_bytes([a, b, c, d]);
        Ok(Some(Record { kind, segments, len, word, key: words[2], address: words[3] }))
    }

    /// Copies the part of what follows the fixed part of `record`, which [`Reader::next`] just gave, from `offset` on;
    /// nothing when it is not all there.
    ///
    /// # Safety
    /// `len` bytes at `to` can be written, and are not touched otherwise meanwhile.
    pub(super) unsafe fn body(
        &self,
        record: &Record,
        offset: usize,
        to: *mut u8,
        len: usize,
    ) -> Result<(), Corrupt> {
        let start = fixed(record.kind).checked_add(offset).ok_or(Corrupt)?;
        if start.checked_add(len).is_none_or(|end| end > self.size) {
            return Err(Corrupt);
        }
        // SAFETY: inside the record, which `header` found to lie inside the ring.
        unsafe { self.memory.read(self.memory.offset(self.tail) + start, to, len) };
        Ok(())
    }

    /// Segment `i` of `record`, which [`Reader::next`] just gave.
    pub(super) fn segment(&self, record: &Record, i: usize) -> Result<[u64; 3], Corrupt> {
        let mut words = [0u64; 3];
        // SAFETY: the words are ours.
        unsafe { self.body(record, i * SEGMENT, words.as_mut_ptr().cast(), SEGMENT)? };
        Ok(words)
    }

    /// Which part of its put `record` is, a [`Kind::Part`].
    pub(super) fn part(&self, record: &Record) -> Result<Part, Corrupt> {
        let [offset, total, _] = self.segment(record, 1)?;
        Ok(Part { offset, total })
    }

    /// Frees the record that [`Reader::next`] gave.
    pub(super) fn take(&mut self) {
        self.tail += self.size as u64;
        self.size = 0;
        self.memory.count(TAIL).store(self.tail, Ordering::Release);
    }
}
