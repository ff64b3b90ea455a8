//! What carriers pass on within their nodes.

use crate::plan::{Place, Wait};

/// What a carrier has of the result for others of its node: the round of the plan among nodes, a range of the share, what
/// to wait for.
pub(super) struct Fan {
    pub(super) round: u32,
    pub(super) range: (u64, u64),
    pub(super) wait: Wait,
}

/// A part of that on its way to one of them.
pub(super) struct Pass {
    pub(super) round: u32,
    pub(super) to: u32,
    pub(super) source: Place,
    pub(super) target: Place,
    pub(super) len: u64,
}
