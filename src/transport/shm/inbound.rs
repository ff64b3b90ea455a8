//! What one peer writes to us: its records, put by put.

use super::peer::{Peer, Piece};
use super::registrations::Registrations;
use super::ring::{Corrupt, Kind, Part, Reader, Record};
use super::segment::{ADDRESS, Address};
use crate::transport::{Delivery, MESSAGE_MAX, Sink};

/// Bytes that are fetched in one poll. Chosen: other work comes to its turn after some 10 µs of copying.
pub(super) const FETCH_SHARE_BYTES: usize = 128 << 10;
/// The longest copy in one go, in bytes: deadlines are looked at between two. Chosen: some 100 µs.
const MAX_COPY_BYTES: usize = 1 << 20;
/// Bytes that are handed over at a time: they are read again at once, from a core's own cache, which has 32 KiB and
/// more of the first level.
const MAX_PIECE_BYTES: usize = 32 << 10;

/// Where pieces of a put, and messages, stand while they are handed over: no other process can write to what is handed over.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Scratch([u8; MAX_PIECE_BYTES]);

impl Scratch {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self([0; MAX_PIECE_BYTES]))
    }
}

/// What a ring is read with, for a turn.
pub(super) struct ReadContext<'a> {
    pub(super) registrations: &'a Registrations,
    pub(super) scratch: &'a mut Scratch,
    /// Bytes to be fetched before others get their turn.
    pub(super) left: usize,
    /// What cannot be taken yet is to land.
    pub(super) hurry: bool,
    pub(super) recency: &'a mut TargetRecency,
}

/// How much was written to memory since each target was last written to: while that is less than a cache holds, the
/// target is still in the cache.
#[derive(Debug)]
pub(super) struct TargetRecency {
    /// Bytes that have been written so far.
    total: u64,
    /// By a hash of the target: `total` when a put to it last came, and 1.
    last: Box<[u64; TARGETS]>,
}

/// Entries of [`TargetRecency`]: targets beyond share them. Chosen: 8 KiB;
/// `a_target_that_is_left_does_not_count_for_others` shows what it is for.
const TARGETS: usize = 1024;
/// Shorter puts, in bytes, are not tracked. Chosen: they stay in the cache anyhow.
const MIN_TRACKED_BYTES: u64 = 16 << 10;

impl Default for TargetRecency {
    fn default() -> Self {
        Self { total: 0, last: Box::new([0; TARGETS]) }
    }
}

impl TargetRecency {
    /// A put of `len` bytes to this target begins: the bytes that were written since one last came there, with its own.
    fn footprint(&mut self, (key, address): (u64, u64), len: u64) -> u64 {
        self.total = self.total.wrapping_add(len); // a peer may say anything
        if len < MIN_TRACKED_BYTES {
            return len;
        }
        let [.., high, higher] = (key ^ address).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
        let last = &mut self.last[usize::from(u16::from_le_bytes([high, higher])) % TARGETS];
        let before = std::mem::replace(last, self.total.wrapping_add(1));
        if before == 0 { len } else { self.total.wrapping_add(1).wrapping_sub(before) }
    }
}

/// The reading end of one peer's ring.
#[derive(Debug)]
pub(super) struct Inbound {
    reader: Reader,
    /// The put that is being fetched: segments done, bytes done of the next one, and of all.
    segment: usize,
    offset: u64,
    total: u64,
    /// What becomes of it, once that is known; and its [footprint](TargetRecency::footprint).
    delivery: Option<Delivery>,
    footprint: u64,
    /// Nothing of it is read any more.
    pub(super) broken: bool,
}

/// What one look at a ring came to.
#[derive(Debug)]
pub(super) enum Step {
    Empty,
    /// A record is done, or some bytes of it were fetched.
    Moved,
    /// Its bytes are wanted, but not yet.
    Later,
    /// The peer gave its address: the first record of a ring.
    Hello(Address),
    /// It cannot go on.
    Trouble(String),
}

impl From<Corrupt> for Step {
    fn from(_: Corrupt) -> Self {
        Self::Trouble("what it wrote to shared memory makes no sense".to_owned())
    }
}

impl Inbound {
    pub(super) fn new(reader: Reader) -> Self {
        Self { reader, segment: 0, offset: 0, total: 0, delivery: None, footprint: 0, broken: false }
    }

    /// Deals with the oldest record, or with a piece of it.
    pub(super) fn step(
        &mut self,
        context: &mut ReadContext<'_>,
        peer: Option<&mut Peer>,
        sink: &mut dyn Sink,
    ) -> Step {
        let step = match self.reader.next() {
            Ok(None) => return Step::Empty,
            Ok(Some(record)) => match record.kind {
                Kind::Message => self.message(&record, context.scratch, sink),
                Kind::Inline => self.inline(&record, context.registrations, sink),
                Kind::Fetch | Kind::Part => match peer {
                    Some(peer) => self.put(&record, context, peer, sink),
                    None => Err(Corrupt.into()),
                },
                Kind::Hello => self.hello(&record),
                Kind::Pad => Err(Corrupt.into()),
            },
            Err(e) => Err(e.into()),
        };
        step.unwrap_or_else(|trouble| {
            self.broken = matches!(trouble, Step::Trouble(_));
            trouble
        })
    }

    fn hello(&mut self, record: &Record) -> Result<Step, Step> {
        let mut bytes = [0; ADDRESS];
        // SAFETY: the bytes are ours.
        unsafe { self.reader.body(record, 0, bytes.as_mut_ptr(), ADDRESS)? };
        let address = Address::decode(&bytes).ok_or(Corrupt)?;
        self.reader.take();
        Ok(Step::Hello(address))
    }

    fn message(&mut self, record: &Record, scratch: &mut Scratch, sink: &mut dyn Sink) -> Result<Step, Step> {
        let message = scratch.0[..MESSAGE_MAX].get_mut(..record.len).ok_or(Corrupt)?;
        // SAFETY: the slice is ours and has that length.
        unsafe { self.reader.body(record, 0, message.as_mut_ptr(), message.len())? };
        self.reader.take();
        sink.message(message);
        Ok(Step::Moved)
    }

    fn inline(
        &mut self,
        record: &Record,
        registrations: &Registrations,
        sink: &mut dyn Sink,
    ) -> Result<Step, Step> {
        if record.len > 0 {
            let Some(to) = registrations.target(record.key, record.address, record.len) else {
                return Err(stray(record.len as u64));
            };
            // SAFETY: the range is registered, so it can be written, and its owner does not touch it (`register`).
            unsafe { self.reader.body(record, 0, to, record.len)? };
        }
        self.reader.take();
        sink.arrival(record.word);
        Ok(Step::Moved)
    }

    /// What becomes of the put that `record` begins; `None`: not yet known.
    fn decide(
        &mut self,
        record: &Record,
        part: Option<Part>,
        context: &mut ReadContext<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Option<Delivery>, Corrupt> {
        let (mut len, mut first) = (0u64, 0);
        for i in 0..if part.is_some() { 1 } else { record.segments } {
            first = self.reader.segment(record, i)?[2];
            len = len.saturating_add(first);
        }
        len = part.map_or(len, |p| p.total);
        // An element must not end up in two segments, nor in two parts, which but for the last are alike.
        let whole = part.is_some() || record.segments == 1;
        let cut = |element: usize| first < len && !first.is_multiple_of(element as u64);
        match if whole { sink.delivery(record.word, len) } else { Delivery::Land } {
            Delivery::Later if !context.hurry => return Ok(None),
            Delivery::Pieces(element) if (1..=MAX_PIECE_BYTES).contains(&element) && !cut(element) => {
                self.delivery = Some(Delivery::Pieces(element));
            }
            _ => {
                self.footprint = context.recency.footprint((record.key, record.address), len);
                self.delivery = Some(Delivery::Land);
            }
        }
        Ok(self.delivery)
    }

    /// A piece of a put, or of a part of one, whose bytes we move.
    fn put(
        &mut self,
        record: &Record,
        context: &mut ReadContext<'_>,
        peer: &mut Peer,
        sink: &mut dyn Sink,
    ) -> Result<Step, Step> {
        let part = if record.kind == Kind::Part { Some(self.reader.part(record)?) } else { None };
        let segments = if part.is_some() { 1 } else { record.segments };
        let delivery = match self.delivery {
            Some(delivery) => delivery,
            None => match self.decide(record, part, context, sink)? {
                Some(delivery) => delivery,
                None => return Ok(Step::Later),
            },
        };
        // Of a peer that has closed nothing counts any more; what it said before it did comes behind.
        let mut closed = peer.segment.closed();
        let mut go_on = MAX_COPY_BYTES;
        while !closed && self.segment < segments {
            if go_on == 0 || context.left == 0 && delivery != Delivery::Land {
                return Ok(Step::Moved);
            }
            let most = match delivery {
                Delivery::Pieces(element) => MAX_PIECE_BYTES / element * element,
                _ => go_on,
            };
            let Some(next) = self.next_piece(record, part, context.registrations, most)? else { continue };
            let n = next.0.len;
            closed = !self.fetch(record, delivery, next, context, peer, sink)?;
            if closed {
                break;
            }
            self.offset += n as u64;
            self.total += n as u64;
            go_on = go_on.saturating_sub(n);
            context.left = context.left.saturating_sub(n);
        }
        closed = closed || !peer.valid();
        let more = part.is_some_and(|p| self.total < p.total) && !closed;
        (self.segment, self.offset) = (0, 0);
        if !more {
            (self.total, self.delivery) = (0, None);
        }
        self.reader.take();
        if !closed && !more {
            sink.arrival(record.word);
        }
        Ok(Step::Moved)
    }

    /// The next piece of the put, at most `most` bytes, and where it goes; `None` at the end of a segment.
    #[inline]
    fn next_piece(
        &mut self,
        record: &Record,
        part: Option<Part>,
        registrations: &Registrations,
        most: usize,
    ) -> Result<Option<(Piece, *mut u8)>, Step> {
        // All of it is checked, each time: the peer could change it under us.
        let [chunk, at, len] = self.reader.segment(record, self.segment)?;
        let rest = len.checked_sub(self.offset).ok_or(Corrupt)?;
        let next = |p: Part| p.offset.checked_add(self.offset) == Some(self.total);
        if part.is_some_and(|p| !next(p) || p.total.checked_sub(self.total).is_none_or(|n| n < rest)) {
            return Err(Corrupt.into());
        }
        if rest == 0 {
            (self.segment, self.offset) = (self.segment + 1, 0);
            return Ok(None);
        }
        let n = most.min(usize::try_from(rest).unwrap_or(usize::MAX));
        let address = record.address.wrapping_add(self.total);
        let to = registrations.target(record.key, address, n).ok_or_else(|| stray(len))?;
        let [a, b, c, d, e, f, g, h] = chunk.to_le_bytes();
        let piece = Piece {
            chunk: u32::from_le_bytes([e, f, g, h]),
            fd: u32::from_le_bytes([a, b, c, d]),
            at: at.checked_add(self.offset).ok_or(Corrupt)?,
            len: n,
            footprint: self.footprint,
        };
        Ok(Some((piece, to)))
    }

    /// Reads a piece, to its target or for the sink; whether its bytes are what the peer put: it had not closed.
    #[inline]
    fn fetch(
        &self,
        record: &Record,
        delivery: Delivery,
        (piece, to): (Piece, *mut u8),
        context: &mut ReadContext<'_>,
        peer: &mut Peer,
        sink: &mut dyn Sink,
    ) -> Result<bool, Step> {
        let read = if delivery == Delivery::Land {
            // SAFETY: the range is registered, so it can be written, and its owner does not touch it (`register`).
            unsafe { peer.fetch(piece, to) }
        } else {
            // SAFETY: `piece.len` is at most MAX_PIECE_BYTES, and the scratch is ours.
            unsafe { peer.fetch(Piece { footprint: 0, ..piece }, context.scratch.0.as_mut_ptr()) }
        };
        if let Err(e) = read {
            return match peer.segment.closed() {
                true => Ok(false),
                false => Err(Step::Trouble(format!("its put cannot be read: {e}"))),
            };
        }
        if delivery != Delivery::Land {
            if !peer.valid() {
                return Ok(false);
            }
            sink.consume(record.word, self.total, &context.scratch.0[..piece.len]);
        }
        Ok(true)
    }
}

fn stray(len: u64) -> Step {
    Step::Trouble(format!("its put of {len} bytes names memory that is not registered here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each target counts from its own last time: one that is never written again does not lengthen the others' footprints.
    #[test]
    fn a_target_that_is_left_does_not_count_for_others() {
        let mut recency = TargetRecency::default();
        assert_eq!(recency.footprint((1, 5 << 20), 1 << 20), 1 << 20);
        for round in 0..1000 {
            let footprints = [0u64, 1, 2].map(|i| recency.footprint((7, i << 20), 100_000));
            if round > 0 {
                assert_eq!(footprints, [300_000; 3], "round {round}");
            }
        }
        assert!(recency.footprint((1, 5 << 20), 1 << 20) > 300_000_000);
        // What is as long as a cache, in blocks, is far from the same block of the call before.
        let mut blocks = || (0..256).map(|i| recency.footprint((9, i << 18), 1 << 18)).min();
        blocks();
        assert!(blocks() > Some(48 << 20), "but for targets that share an entry");
    }
}
