//! Reduce-scatter: every rank gets its piece of the reduction, at the start of its output.
//!
//! [`Region::Input`](super::Region::Input) is a rank's whole contribution, the pieces of all ranks one
//! after another (in place: it lies in `Output`). Pieces may be equal (reduce_scatter_block), or have a
//! length each (reduce_scatter).

pub mod core;
pub mod direct;
pub mod plain;
pub mod reversed;
