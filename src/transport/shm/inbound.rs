//! What one peer writes to us: its records, put by put.

use super::memory::Memory;
use super::peer::{Peer, Piece};
use super::ring::{Corrupt, Kind, Reader, Record};
use super::segment::{ADDRESS, Address};
use crate::transport::{MESSAGE_MAX, Sink};

/// So many bytes are fetched before others get their turn.
pub(super) const SHARE: usize = 128 << 10;
/// The longest copy in one go: deadlines are looked at between two.
const PIECE: usize = 1 << 20;

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
    private: bool,
    /// Nothing of it is read any more.
    pub(super) broken: bool,
}

/// What one look at a ring came to.
#[derive(Debug)]
pub(super) enum Step {
    Empty,
    /// A record is done, or some bytes of it were fetched.
    Moved,
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
            private: false,
            broken: false,
        }
    }

    /// Deals with the oldest record, or with a piece of it. `left` is lessened by the bytes that were fetched.
    pub(super) fn step(
        &mut self,
        memory: &Memory,
        peer: Option<&mut Peer>,
        left: &mut usize,
        sink: &mut dyn Sink,
    ) -> Step {
        let step = match self.reader.next() {
            Ok(None) => return Step::Empty,
            Ok(Some(record)) => match record.kind {
                Kind::Message => self.message(&record, sink),
                Kind::Inline => self.inline(&record, memory, sink),
                Kind::Fetch => match peer {
                    Some(peer) => self.fetch(&record, memory, peer, left, sink),
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

    fn fetch(
        &mut self,
        record: &Record,
        memory: &Memory,
        peer: &mut Peer,
        left: &mut usize,
        sink: &mut dyn Sink,
    ) -> Result<Step, Step> {
        // Of a peer that has closed nothing counts any more; what it said before it did comes behind.
        let mut closed = peer.segment.closed();
        let mut piece_left = PIECE;
        while !closed && self.segment < record.segments {
            // All of it is checked, each time: the peer could change it under us.
            let [chunk, at, len] = self.reader.segment(record, self.segment)?;
            let rest = len.checked_sub(self.offset).ok_or(Corrupt)?;
            if rest == 0 {
                (self.segment, self.offset) = (self.segment + 1, 0);
                continue;
            }
            if piece_left == 0 {
                return Ok(Step::Moved);
            }
            let n = piece_left.min(usize::try_from(rest).unwrap_or(usize::MAX));
            let address = record.address.wrapping_add(self.total);
            let to = memory.target(record.key, address, n).ok_or_else(|| stray(len))?;
            let [a, b, c, d, e, f, g, h] = chunk.to_le_bytes();
            let piece = Piece {
                chunk: u32::from_le_bytes([e, f, g, h]),
                fd: u32::from_le_bytes([a, b, c, d]),
                at: at.checked_add(self.offset).ok_or(Corrupt)?,
                len: n,
                of: len,
            };
            self.private |= piece.chunk == super::memory::PRIVATE;
            // SAFETY: the range is registered, so it can be written, and its owner keeps its hands off (`register`).
            let read = unsafe { peer.fetch(piece, to) };
            if let Err(e) = read {
                if !peer.segment.closed() {
                    return Err(Step::Trouble(format!("its put cannot be read: {e}")));
                }
                closed = true;
                break;
            }
            self.offset += n as u64;
            self.total += n as u64;
            piece_left -= n;
            *left = left.saturating_sub(n);
        }
        closed = closed || !peer.valid(self.private);
        (self.segment, self.offset, self.total, self.private) = (0, 0, 0, false);
        self.reader.take();
        if !closed {
            sink.arrival(record.word);
        }
        Ok(Step::Moved)
    }
}

fn stray(len: u64) -> Step {
    Step::Trouble(format!("its put of {len} bytes names memory that is not registered here"))
}
