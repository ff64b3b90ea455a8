//! The ranks of a communicator as ranks of the world, in 32 bits.

use crate::error::{Error, ErrorKind, Result};

/// A rank, or a number of ranks.
pub(super) fn to_u32(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::new(ErrorKind::Launch, format!("{n} ranks are too many")))
}

/// The ranks of a communicator as ranks of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Members {
    /// All of them.
    World(u32),
    /// These, in this order.
    List(Vec<u32>),
}

impl Members {
    pub(super) fn size(&self) -> u32 {
        match self {
            Self::World(size) => *size,
            // A list is never longer than the world.
            Self::List(list) => u32::try_from(list.len()).unwrap_or(u32::MAX),
        }
    }

    /// The world rank of rank `rank`.
    pub(super) fn world_rank(&self, rank: u32) -> u32 {
        match self {
            Self::World(_) => rank,
            Self::List(list) => list.get(rank as usize).copied().unwrap_or(u32::MAX),
        }
    }
}
