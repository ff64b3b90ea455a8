//! What one peer writes to us: its records, put by put.

use super::memory::Memory;
use super::peer::{Peer, Piece};
use super::ring::{Corrupt, Kind, Part, Reader, Record};
use super::segment::{ADDRESS, Address};
use crate::transport::{MESSAGE_MAX, Sink, Taking};

/// So many bytes are fetched before others get their turn.
pub(super) const SHARE: usize = 128 << 10;
/// The longest copy in one go: deadlines are looked at between two.
const PIECE: usize = 1 << 20;
/// Bytes that are handed over at a time: they are read again at once, from a core's own cache.
const TAKEN: usize = 32 << 10;

/// Where pieces of a put stand while they are handed over.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Scratch([u8; TAKEN]);

impl Scratch {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self([0; TAKEN]))
    }
}

/// What a ring is read with.
pub(super) struct Desk<'a> {
    pub(super) memory: &'a Memory,
    pub(super) scratch: &'a mut Scratch,
    /// Bytes to be fetched before others get their turn.
    pub(super) left: usize,
    /// What cannot be taken yet is to land.
    pub(super) hurry: bool,
    pub(super) flood: &'a mut Flood,
}

/// What landed since bytes last came to the same place: as long as a cache holds it, it stays there.
#[derive(Debug)]
pub(super) struct Flood {
    /// Bytes that have landed.
    total: u64,
    /// By place, a few of which share an entry: what had landed when a put to it last came, and 1.
    last: Box<[u64; PLACES]>,
}

/// Places that are told apart.
const PLACES: usize = 1024;
/// Shorter puts stay in the cache anyhow.
const LONG: u64 = 16 << 10;

impl Default for Flood {
    fn default() -> Self {
        Self { total: 0, last: Box::new([0; PLACES]) }
    }
}

impl Flood {
    /// A put of `len` bytes begins to land; gives how many came with it and since one last came there.
    fn rises(&mut self, (key, address): (u64, u64), len: u64) -> u64 {
        self.total = self.total.wrapping_add(len); // a peer may say anything
        if len < LONG {
            return len;
        }
        let [.., high, higher] = (key ^ address).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
        let last = &mut self.last[usize::from(u16::from_le_bytes([high, higher])) % PLACES];
        let before = std::mem::replace(last, self.total.wrapping_add(1));
        if before == 0 { len } else { self.total.wrapping_add(1).wrapping_sub(before) }
    }
}

/// The reading end of one peer's ring.
#[derive(Debug)]
pub(super) struct Inbound {
    reader: Reader,
    /// A message, before it is passed on: nobody else may write to what is passed on.
    message: Box<[u8; MESSAGE_MAX]>,
    /// The put that is being fetched: segments done, bytes done of the next one, and of all.
    segment: usize,
    offset: u64,
    total: u64,
    /// What becomes of it, once that is known; and how many bytes land with it.
    taking: Option<Taking>,
    flood: u64,
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
    /// The peer said who it is.
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
        Self {
            reader,
            message: Box::new([0; MESSAGE_MAX]),
            segment: 0,
            offset: 0,
            total: 0,
            taking: None,
            flood: 0,
            broken: false,
        }
    }

    /// Deals with the oldest record, or with a piece of it.
    pub(super) fn step(&mut self, desk: &mut Desk<'_>, peer: Option<&mut Peer>, sink: &mut dyn Sink) -> Step {
        let step = match self.reader.next() {
            Ok(None) => return Step::Empty,
            Ok(Some(record)) => match record.kind {
                Kind::Message => self.message(&record, sink),
                Kind::Inline => self.inline(&record, desk.memory, sink),
                Kind::Fetch | Kind::Part => match peer {
                    Some(peer) => self.put(&record, desk, peer, sink),
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

    fn message(&mut self, record: &Record, sink: &mut dyn Sink) -> Result<Step, Step> {
        let message = self.message.get_mut(..record.len).ok_or(Corrupt)?;
        // SAFETY: the slice is ours and has that length.
        unsafe { self.reader.body(record, 0, message.as_mut_ptr(), message.len())? };
        self.reader.take();
        sink.message(message);
        Ok(Step::Moved)
    }

    fn inline(&mut self, record: &Record, memory: &Memory, sink: &mut dyn Sink) -> Result<Step, Step> {
        if record.len > 0 {
            let Some(to) = memory.target(record.key, record.address, record.len) else {
                return Err(stray(record.len as u64));
            };
            // SAFETY: the range is registered, so it can be written, and its owner keeps its hands off (`register`).
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
        desk: &mut Desk<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Option<Taking>, Corrupt> {
        let (mut len, mut first) = (0u64, 0);
        for i in 0..if part.is_some() { 1 } else { record.segments } {
            first = self.reader.segment(record, i)?[2];
            len = len.saturating_add(first);
        }
        len = part.map_or(len, |p| p.total);
        // An element must not end up in two segments, nor in two parts, which but for the last are alike.
        let whole = part.is_some() || record.segments == 1;
        let cut = |element: usize| first < len && !first.is_multiple_of(element as u64);
        match if whole { sink.taking(record.word, len) } else { Taking::Land } {
            Taking::Later if !desk.hurry => return Ok(None),
            Taking::Pieces(element) if (1..=TAKEN).contains(&element) && !cut(element) => {
                self.taking = Some(Taking::Pieces(element));
            }
            _ => {
                self.flood = desk.flood.rises((record.key, record.address), len);
                self.taking = Some(Taking::Land);
            }
        }
        Ok(self.taking)
    }

    /// A piece of a put, or of a part of one, whose bytes we move.
    fn put(
        &mut self,
        record: &Record,
        desk: &mut Desk<'_>,
        peer: &mut Peer,
        sink: &mut dyn Sink,
    ) -> Result<Step, Step> {
        let part = if record.kind == Kind::Part { Some(self.reader.part(record)?) } else { None };
        let segments = if part.is_some() { 1 } else { record.segments };
        let taking = match self.taking {
            Some(taking) => taking,
            None => match self.decide(record, part, desk, sink)? {
                Some(taking) => taking,
                None => return Ok(Step::Later),
            },
        };
        // Of a peer that has closed nothing counts any more; what it said before it did comes behind.
        let mut closed = peer.segment.closed();
        let mut go_on = PIECE;
        while !closed && self.segment < segments {
            if go_on == 0 || desk.left == 0 && taking != Taking::Land {
                return Ok(Step::Moved);
            }
            // All of it is checked, each time: the peer could change it under us.
            let [chunk, at, len] = self.reader.segment(record, self.segment)?;
            let rest = len.checked_sub(self.offset).ok_or(Corrupt)?;
            let next = |p: Part| p.offset.checked_add(self.offset) == Some(self.total);
            if part.is_some_and(|p| !next(p) || p.total.checked_sub(self.total).is_none_or(|n| n < rest)) {
                return Err(Corrupt.into());
            }
            if rest == 0 {
                (self.segment, self.offset) = (self.segment + 1, 0);
                continue;
            }
            let most = if let Taking::Pieces(element) = taking { TAKEN / element * element } else { go_on };
            let n = most.min(usize::try_from(rest).unwrap_or(usize::MAX));
            let address = record.address.wrapping_add(self.total);
            let to = desk.memory.target(record.key, address, n).ok_or_else(|| stray(len))?;
            let [a, b, c, d, e, f, g, h] = chunk.to_le_bytes();
            let piece = Piece {
                chunk: u32::from_le_bytes([e, f, g, h]),
                fd: u32::from_le_bytes([a, b, c, d]),
                at: at.checked_add(self.offset).ok_or(Corrupt)?,
                len: n,
                of: self.flood,
            };
            let read = if taking == Taking::Land {
                // SAFETY: the range is registered, so it can be written, and its owner keeps its hands off (`register`).
                unsafe { peer.fetch(piece, to) }
            } else {
                // SAFETY: `n` is at most TAKEN, and the scratch is ours.
                unsafe { peer.fetch(Piece { of: 0, ..piece }, desk.scratch.0.as_mut_ptr()) }
            };
            if let Err(e) = read {
                if !peer.segment.closed() {
                    return Err(Step::Trouble(format!("its put cannot be read: {e}")));
                }
                closed = true;
                break;
            }
            if taking != Taking::Land {
                if !peer.valid() {
                    closed = true;
                    break;
                }
                sink.take(record.word, self.total, &desk.scratch.0[..n]);
            }
            self.offset += n as u64;
            self.total += n as u64;
            go_on = go_on.saturating_sub(n);
            desk.left = desk.left.saturating_sub(n);
        }
        closed = closed || !peer.valid();
        let more = part.is_some_and(|p| self.total < p.total) && !closed;
        (self.segment, self.offset) = (0, 0);
        if !more {
            (self.total, self.taking) = (0, None);
        }
        self.reader.take();
        if !closed && !more {
            sink.arrival(record.word);
        }
        Ok(Step::Moved)
    }
}

fn stray(len: u64) -> Step {
    Step::Trouble(format!("its put of {len} bytes names memory that is not registered here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each place counts from its own last time: one that never comes again makes no flood of what follows.
    #[test]
    fn a_place_that_is_left_makes_no_flood() {
        let mut flood = Flood::default();
        assert_eq!(flood.rises((1, 5 << 20), 1 << 20), 1 << 20);
        for round in 0..1000 {
            let floods = [0u64, 1, 2].map(|i| flood.rises((7, i << 20), 100_000));
            if round > 0 {
                assert_eq!(floods, [300_000; 3], "round {round}");
            }
        }
        assert!(flood.rises((1, 5 << 20), 1 << 20) > 300_000_000);
        // What is as long as a cache, in blocks, is far from the same block of the call before.
        let mut blocks = || (0..256).map(|i| flood.rises((9, i << 18), 1 << 18)).min();
        blocks();
        assert!(blocks() > Some(48 << 20), "but for places that share an entry");
    }
}
