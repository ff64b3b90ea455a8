//! Regular allgather: as [`allgatherv`](super::allgatherv), with the same number of bytes of every rank.

pub mod circulant;
pub mod runs;
