//! What is to be called: of which form, on which memory, on how much of what.

use super::shapes::Shape;
use circulant::Communicator;
use circulant::comm::Options;
use circulant::ops::{Reducer, Type};

/// Which memory the operation works on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MemoryKind {
    /// Registered memory of the library's (Communicator::alloc)
    #[default]
    Arena,
    /// Ordinary slices
    Plain,
}

impl MemoryKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Arena => "arena",
            Self::Plain => "plain",
        }
    }
}

/// Which form of the operation is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// bcast, allreduce, …
    #[default]
    Blocking,
    /// ibcast, iallreduce, …, and waited for at once; arena memory
    Request,
    /// bcast_init, allreduce_init, … once per point, then started and waited for; arena memory
    Persistent,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Request => "request",
            Self::Persistent => "persistent",
        }
    }
}

/// What a job is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order<'a> {
    /// For agreeing whether there is memory.
    pub(crate) comm: &'a Communicator,
    /// Of the operation.
    pub(crate) options: &'a Options,
    pub(crate) shape: &'a Shape,
    pub(crate) kind: Type,
    pub(crate) reducer: &'a Reducer,
    pub(crate) mode: Mode,
    pub(crate) memory: MemoryKind,
    /// Elements before and behind each slice that nothing may touch (blocking).
    pub(crate) guard: usize,
}
