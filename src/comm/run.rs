//! What is kept of an operation that is started and waited for, on memory that its owner keeps alive. How it goes is in
//! [`running`](super::running).

use super::collective::Collective;
use super::program::Prepared;
use crate::engine::{Meta, Waiting};
use crate::error::Error;

/// Its program, whose task says where its memory is.
pub(super) struct Running {
    pub(super) operation: Collective,
    /// Given back to the cache by an operation that has ended. Its task is away while it runs, and lost if it fails.
    pub(super) prepared: Option<Box<Prepared>>,
    pub(super) meta: Meta,
    pub(super) slot: Option<u8>,
    pub(super) waiting: Waiting,
    /// A run ended half way, and the world goes on: puts may still come to its memory.
    pub(super) failure: Option<Error>,
}
