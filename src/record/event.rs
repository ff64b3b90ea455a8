//! The parts of a record.

use std::sync::Arc;

/// Stands for no peer, no round, no block.
pub const NONE: u32 = u32::MAX;

/// What an event was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum EventKind {
    /// A call began.
    #[default]
    Enter,
    /// A call ended.
    Leave,
    /// A peer's ready message came: it has entered, and may be put to.
    Ready,
    /// A put was posted.
    Put,
    /// A put went as a message, before its target was ready.
    Eager,
    /// A notify was sent.
    Notify,
    /// A put or a notify arrived.
    Arrive,
    /// Nothing moves, until the next event.
    Idle,
}

impl EventKind {
    /// All, with their words in a file.
    pub(super) const WORDS: [(Self, &'static str); 8] = [
        (Self::Enter, "enter"),
        (Self::Leave, "leave"),
        (Self::Ready, "ready"),
        (Self::Put, "put"),
        (Self::Eager, "eager"),
        (Self::Notify, "notify"),
        (Self::Arrive, "arrive"),
        (Self::Idle, "idle"),
    ];

    /// Its word in a file.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }
}

/// What a call under way misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// A peer has not come to this call.
    Call,
    /// A peer is not ready to receive.
    Entry,
    /// A peer has not acknowledged what was sent.
    Acknowledgement,
    /// Bytes of a round have not come.
    Bytes,
    /// Nothing of others.
    Nothing,
}

impl Missing {
    /// All, with their words in a file.
    pub(super) const WORDS: [(Self, &'static str); 5] = [
        (Self::Call, "call"),
        (Self::Entry, "entry"),
        (Self::Acknowledgement, "acknowledgement"),
        (Self::Bytes, "bytes"),
        (Self::Nothing, "nothing"),
    ];
}

/// One call of a collective, the same at all ranks of its communicator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// The communicator: 0 is that of all ranks, above 32 bits the world rank that gave the number.
    pub comm: u64,
    /// Which call on it, from 0.
    pub sequence: u32,
    /// The operation's name.
    pub operation: Arc<str>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in ticks ([`Record::unix_ns`](super::Record::unix_ns)).
    pub ticks: u64,
    /// What.
    pub kind: EventKind,
    /// In which call.
    pub call: Call,
    /// World rank to or from which something went, or [`NONE`].
    pub peer: u32,
    /// Its round, or [`NONE`].
    pub round: u32,
    /// The block: the counter that it counts at its receiver, or [`NONE`].
    pub block: u32,
}

/// A call under way, and the first thing that it misses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Which call.
    pub call: Call,
    /// What it misses.
    pub what: Missing,
    /// Of which world rank, or [`NONE`].
    pub peer: u32,
    /// In which round, or [`NONE`].
    pub round: u32,
    /// Which block, or [`NONE`].
    pub block: u32,
    /// How many bytes, where bytes are missing.
    pub bytes: u64,
}
