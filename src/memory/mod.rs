//! Memory that processes share: files without a name, their mappings, and words in them that all touch as atomics. And copies
//! where the system's own are slow.

#[cfg(loom)]
pub(crate) mod cells;
mod copy;
#[cfg(not(miri))]
mod mapping;
#[cfg(miri)]
#[path = "heap.rs"]
pub(crate) mod mapping;
#[cfg(not(miri))]
pub(crate) mod memfd;
mod trial;
mod way;
pub(crate) mod words;

pub(crate) use copy::{copy, copy_around_cache, copy_by_vectors, copy_slice, long_copy_bytes, prefetch};
#[cfg(miri)]
pub(crate) use mapping as memfd;
pub use mapping::Mapping;
pub(crate) use trial::Trial;
pub(crate) use way::{Stores, Way};
