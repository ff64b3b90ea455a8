//! Memory of the library that stands for a buffer of the caller: what is sent is copied there before a run, what has come is copied
//! from there after it.

use super::communicator::Communicator;
use crate::buffer::{Arena, Binding, Bound, Buf, copy, write};
use crate::error::Result;
use crate::memory::copy_slice;
use crate::plan::lower::Segment;
use crate::plan::{Place, Region};

/// Bytes of the caller's buffer, and where they are in the memory that stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Offset in the caller's buffer.
    pub(super) at: usize,
    /// Offset in the memory that stands for it.
    pub(super) within: usize,
    pub(super) len: usize,
}

impl Piece {
    /// Where it is, for a put that gathers it.
    pub(super) fn input(&self) -> Segment {
        Segment { place: Place::new(Region::Input, self.at as u64), len: self.len as u64 }
    }
}

/// What a call copies. Pieces lie in the caller's buffers, which the call's arguments were checked against.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// What is sent, before a run: of the send buffer, in place of the receive buffer.
    pub(super) sent: Option<Vec<Piece>>,
    /// What has come, after a run. Pieces do not overlap.
    pub(super) received: Option<Vec<Piece>>,
    /// What of the receive buffer belongs to `received` before a run: a contribution in place.
    pub(super) kept: Option<Piece>,
}

impl Copies {
    /// The first `len` bytes, which are sent while the result overwrites them.
    pub(super) fn of_sent(len: usize) -> Box<Self> {
        Box::new(Self { sent: Some(vec![Piece { at: 0, within: 0, len }]), ..Self::default() })
    }
}

/// The memory of one side of a call, and the pieces that are copied.
#[derive(Debug)]
struct Side {
    memory: Buf<u8>,
    pieces: Vec<Piece>,
}

impl Side {
    fn new(comm: &Communicator, pieces: Vec<Piece>) -> Result<Self> {
        let len = pieces.iter().map(|piece| piece.within + piece.len).max().unwrap_or(0);
        Ok(Self { memory: comm.alloc(len)?, pieces })
    }

    /// Copies pieces of memory that is bound.
    fn take(&self, arena: &Arena, from: Bound, pieces: &[Piece]) -> Result<()> {
        let binding = Binding::new([from, self.memory.bound(arena)?], [Bound::NONE; 2]);
        pieces.iter().try_for_each(|piece| {
            let from = Place { region: Region::Input, offset: piece.at as u64 };
            let to = Place { region: Region::Output, offset: piece.within as u64 };
            copy(&binding, from, to, piece.len as u64)
        })
    }
}

/// The memory that [`Copies`] need.
#[derive(Debug)]
pub(super) struct Shadow {
    sent: Option<Side>,
    received: Option<Side>,
    kept: Option<Piece>,
}

impl Shadow {
    /// # Errors
    /// As [`Communicator::alloc`].
    pub(super) fn new(comm: &Communicator, copies: Copies) -> Result<Self> {
        let side = |pieces: Option<Vec<Piece>>| pieces.map(|pieces| Side::new(comm, pieces)).transpose();
        Ok(Self { sent: side(copies.sent)?, received: side(copies.received)?, kept: copies.kept })
    }

    /// The bytes that a run copies, before it and after it.
    pub(super) fn bytes(&self) -> usize {
        let pieces = self.sent.iter().chain(&self.received).flat_map(|side| &side.pieces).chain(&self.kept);
        pieces.map(|piece| piece.len).sum()
    }

    /// Takes what is sent, before a run; without `send` out of `recv`.
    pub(super) fn before(&mut self, send: Option<&[u8]>, recv: &[u8]) {
        let from = send.unwrap_or(recv);
        if let Some(Side { memory, pieces }) = &mut self.sent {
            for Piece { at, within, len } in pieces {
                copy_slice(&from[*at..][..*len], &mut memory[*within..][..*len]);
            }
        }
        if let (Some(side), Some(Piece { at, within, len })) = (&mut self.received, self.kept) {
            copy_slice(&recv[at..][..len], &mut side.memory[within..][..len]);
        }
    }

    /// As [`Shadow::before`], of memory that is bound: where that stands which is sent, and the receive buffer.
    ///
    /// # Errors
    /// When pieces lie outside it.
    pub(super) fn take(&self, arena: &Arena, [send, recv]: [Bound; 2]) -> Result<()> {
        if let Some(side) = &self.sent {
            side.take(arena, send, &side.pieces)?;
        }
        match (&self.received, &self.kept) {
            (Some(side), Some(kept)) => side.take(arena, recv, std::slice::from_ref(kept)),
            _ => Ok(()),
        }
    }

    /// What has come and where it goes in the caller's buffer, after a run.
    fn results(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.received
            .iter()
            .flat_map(|side| side.pieces.iter().map(|p| (p.at, &side.memory[p.within..][..p.len])))
    }

    /// Gives what has come to memory that is bound, after a run.
    ///
    /// # Errors
    /// When pieces lie outside it.
    pub(super) fn deliver(&self, recv: Bound) -> Result<()> {
        let binding = Binding::of_output(recv);
        self.results().try_for_each(|(at, bytes)| {
            write(&binding, Place { region: Region::Output, offset: at as u64 }, bytes)
        })
    }

    /// Gives what has come, after a run.
    pub(super) fn after(&self, recv: &mut [u8]) {
        for (at, bytes) in self.results() {
            copy_slice(bytes, &mut recv[at..][..bytes.len()]);
        }
    }

    /// The memory that stands for what is sent, and for what is received.
    pub(super) fn buffers(&mut self) -> (Option<&[u8]>, Option<&mut [u8]>) {
        let sent = self.sent.as_ref().map(|side| &*side.memory);
        (sent, self.received.as_mut().map(|side| &mut *side.memory))
    }

    /// What an operation reads and what it writes, in place of the caller's buffers where memory stands for them.
    ///
    /// # Errors
    /// When the memory is of another world.
    pub(super) fn regions(&self, arena: &Arena, [input, output]: [Bound; 2]) -> Result<[Bound; 2]> {
        let bound =
            |side: &Option<Side>, given| side.as_ref().map_or(Ok(given), |side| side.memory.bound(arena));
        Ok([bound(&self.sent, input)?, bound(&self.received, output)?])
    }
}
