//! Round-optimal collectives over one-sided puts, without MPI.
//!
//! An algorithm is data and one engine runs it: [`schedule`] is arithmetic on (p, r), [`plan`] turns it
//! into steps, [`engine`] runs the steps, a [`transport`] touches the wire. Users need only [`comm`],
//! whose types are re-exported here.

pub mod comm;
pub mod config;
pub(crate) mod engine;
pub mod error;
pub mod launch;
pub mod ops;
pub mod plan;
pub mod schedule;
pub mod transport;

pub(crate) mod buffer;
pub(crate) mod select;

pub use comm::{Buf, Communicator, Options, World};
pub use error::{Error, ErrorKind, Result};

/// Counters for those who want to see rather than believe.
pub mod diagnostics {
    pub use crate::buffer::{CountingAllocator, allocations};
}
