//! What is checked, and what comes of it.

use crate::transport::Limits;
use std::time::Duration;

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Check {
    /// The bytes of a put are there when its word arrives, nothing beside them changes, and its source is free when it is done.
    Bytes,
    /// Each word arrives once, all its 32 bits as they were. The order is not relied on; it is told.
    Words,
    /// A put gathers as many pieces as the limits say.
    Gather,
    /// A put may be as long as the limits say; at most 8 MiB are tried.
    Longest,
    /// Messages arrive once, whole, of all lengths.
    Messages,
    /// A queue that is full refuses for now, and nothing is lost.
    Queue,
    /// Half the round trip of a put of 8 bytes.
    Times,
    /// A put under a wrong key writes nothing, where the library lends slices of programs to this wire.
    WrongKey,
    /// A put to memory that was given back writes nothing, there.
    GivenBack,
    /// The endpoint closes while a put to a peer that is gone is under way. How soon that peer is noticed is told.
    PeerGone,
}

impl Check {
    /// All, in the order in which they are made.
    pub const ALL: [Self; 10] = [
        Self::Bytes,
        Self::Words,
        Self::Gather,
        Self::Longest,
        Self::Messages,
        Self::Queue,
        Self::Times,
        Self::WrongKey,
        Self::GivenBack,
        Self::PeerGone,
    ];

    /// In a few words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes at arrival",
            Self::Words => "words",
            Self::Gather => "gather list",
            Self::Longest => "longest put",
            Self::Messages => "messages",
            Self::Queue => "full queue",
            Self::Times => "half round trip",
            Self::WrongKey => "wrong key",
            Self::GivenBack => "memory given back",
            Self::PeerGone => "peer that is gone",
        }
    }

    /// Whether the connection can be used afterwards.
    pub(super) fn keeps_the_wire(self) -> bool {
        !matches!(self, Self::WrongKey | Self::GivenBack | Self::PeerGone)
    }

    pub(super) fn number(self) -> u8 {
        self as u8
    }

    pub(super) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// What a check between two ranks came to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// What was checked.
    pub check: Check,
    /// The world rank that puts.
    pub from: usize,
    /// The one that is put to.
    pub to: usize,
    /// What is wrong; `None`: the promise is kept.
    pub broken: Option<String>,
    /// What was seen, by names, with the unit in the name where there is one.
    pub figures: Vec<(&'static str, f64)>,
    /// What else is to be told; empty: nothing.
    pub remark: String,
    /// How long it took.
    pub time: Duration,
}

impl Finding {
    pub(super) fn new(
        check: Check,
        (from, to): (u32, u32),
        outcome: Result<Vec<(&'static str, f64)>, String>,
        time: Duration,
    ) -> Self {
        let (broken, figures) = match outcome {
            Ok(figures) => (None, figures),
            Err(why) => (Some(why), Vec::new()),
        };
        let (from, to) = (from as usize, to as usize);
        Self { check, from, to, broken, figures, remark: String::new(), time }
    }
}

/// What one rank has found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Findings {
    /// What its endpoint can do, as it says; `None` of one rank, which has none.
    pub limits: Option<Limits>,
    /// The neighbours to which it is connected.
    pub neighbours: Vec<usize>,
    /// What its own checks came to, and those of others that only it can judge.
    pub findings: Vec<Finding>,
}
