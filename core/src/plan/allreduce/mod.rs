//! Allreduce: the reduction of all contributions at every rank.
//!
//! [`Region::Input`](super::Region::Input) is a rank's contribution (in place: it lies in `Output`),
//! [`Region::Output`](super::Region::Output) the result. The census is
//! [`Prefix::census`](super::scan::prefix::Prefix::census).

pub mod doubling;
pub mod scattered;
