//! Shared memory among the ranks of one node. No library, no system call, and one copy.
//!
//! Every rank shows the others one piece of memory (`segment`) with a ring for each of them to write records to
//! (`ring`): control messages, short puts with their bytes, and for longer puts *descriptions*. **The reader copies**
//! when it polls: from the peer's arena, whose chunks are shared files that it maps when it first reads from them
//! (`peer`); for memory that is the peer's alone, from a chunk into which the peer copies it part by part, once for all
//! its readers (`bounce`, `stream`). So a broadcast's copies spread over the
//! readers' cores, and a process alone writes to its memory outside the rings and two sets of words in its header (`segment`: contacts, `doorbell`).
//!
//! *A wrong put is an error.* The reader finds key and address in its own table (`registrations`) and checks every bound;
//! whatever else stands in a ring is checked likewise before it is used, and a ring that makes no sense is never
//! read again.
//!
//! *A process may do with its memory what it likes when [`Transport::close`] has returned.* No peer writes there. A peer may still
//! *read* there: it copies, and then looks at the `closed` flag, which the owner has set before it returned. The orders
//! are those of a sequence lock: the owner sets the flag, then a fence, then it changes memory; the reader reads, then
//! a fence, then the flag. If it read anything changed, it sees the flag, and the put does not count: no arrival, what
//! stands in the target is undefined as after any error.
//!
//! What a rank wrote to others' rings stays there when it ends, so that they hear its last words.
//!
//! The protocols of rings and call slots are kept by this crate alone, so users reach none of them:
//! ```compile_fail
//! fn slots(pool: &mut circulant::transport::SlotPool) {
//!     let _ = pool.ticket();
//! }
//! ```
//! ```compile_fail
//! use circulant::transport::call_slots::CallSlots;
//! ```
//! ```compile_fail
//! fn bytes(mapping: &circulant::transport::Mapping) -> *mut u8 {
//!     mapping.as_mut_ptr()
//! }
//! ```
//! ```compile_fail
//! use circulant::transport::shm::{Options, Shm};
//! ```
//! ```compile_fail
//! let _ = circulant::transport::shm::endpoint(0, &[0]);
//! ```

mod bounce;
mod doorbell;
mod endpoint;
#[cfg(any(fuzzing, all(test, not(loom))))]
mod fuzzing;
mod host;
mod inbound;
#[cfg(loom)]
mod models;
mod peer;
mod posted;
mod registrations;
mod ring;
#[cfg(loom)]
mod ring_cells;
mod segment;
mod stream;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub(crate) use endpoint::Shm;
#[cfg(any(fuzzing, all(test, not(loom))))]
pub use fuzzing::{fuzz_address, fuzz_ring};
pub use host::host;
pub(crate) use host::{Options, name};

use crate::error::Result;
use crate::transport::Transport;

/// Whether shared memory can be had here. That other processes can map it shows only when there are some.
///
/// # Errors
/// When the system has none for us, and what to do.
pub fn available() -> Result<()> {
    Shm::open(&Options { rank: 0, locals: &[0, 1], wait: None })?.close()
}

/// An endpoint of `rank`, whose node-local ranks are `locals`, sorted, this one included.
///
/// # Safety
/// Among processes that connect to each other's endpoints there is one for each rank, and all are of one
/// version of this library.
///
/// # Errors
/// When the system has no memory for it, or the rank is not among the node-local ones.
pub unsafe fn endpoint(rank: u32, locals: &[u32]) -> Result<Box<dyn Transport>> {
    Ok(Box::new(Shm::open(&Options { rank, locals, wait: None })?))
}
