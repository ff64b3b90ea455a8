//! Scans: rank r gets the fold of ranks 0..=r (scan), or of those before r (exscan), in their order.
//!
//! [`Region::Input`](super::Region::Input) is a rank's contribution (in place: it lies in `Output`),
//! [`Region::Output`](super::Region::Output) the result; exscan leaves rank 0's alone.

pub mod hypercube;
pub mod pipeline;
pub mod prefix;
