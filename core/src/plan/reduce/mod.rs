//! Reduce: the reduction of all contributions at the root.
//!
//! [`Region::Input`](super::Region::Input) is a rank's contribution (in place: the root's lies in
//! `Output`), [`Region::Output`](super::Region::Output) the root's result; others have none.

pub mod circulant;
pub mod gathered;
pub mod tree;
