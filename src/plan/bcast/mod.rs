//! Broadcast: the root's bytes at every rank.
//!
//! [`Region::Output`](super::Region::Output) is the buffer at every rank, the source at the root.

pub mod circulant;
