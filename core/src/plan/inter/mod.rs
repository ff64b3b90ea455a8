//! Between two groups: every rank gets what the ranks of the other group contribute, and nothing of its own
//! group's (MPI's intercommunicators).
//!
//! Both groups are numbered together: A is ranks 0 .. first, B is first .. p. [`Region::Input`] is a rank's
//! contribution and [`Region::Output`] is where those of the other group go.
//!
//! After Kang, Träff, Al-Bahrani, Agrawal, Choudhary and Liao, Scalable Algorithms for MPI Intergroup
//! Allgather and Allgatherv, Parallel Computing 85 (2019): [`exchange`] is their Algorithms 1 and 2,
//! [`root_gathering`] what they compare them with.
//!
//! [`Region::Input`]: super::Region::Input
//! [`Region::Output`]: super::Region::Output

pub(crate) mod among;
pub mod exchange;
mod groups;
mod line;
pub mod root_gathering;

use crate::plan::registry::Algorithm;
pub use groups::Groups;

/// The algorithms; the first of an operation is its default, and of equally cheap ones the first is taken.
pub(in crate::plan) const ALGORITHMS: &[Algorithm] = &[
    exchange::SEGMENTED,
    exchange::BALANCED,
    root_gathering::SEQUENTIAL,
    root_gathering::CONCURRENT,
    exchange::BALANCED_IRREGULAR,
    root_gathering::SEQUENTIAL_IRREGULAR,
    root_gathering::CONCURRENT_IRREGULAR,
    among::CIRCULANT,
    among::BINOMIAL,
    among::BARRIER,
];
