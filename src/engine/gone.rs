//! What is known of ranks that are gone, where the others go on without them.

use super::agreement::Agreement;
use super::time::Since;
use crate::error::Error;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What is known of ranks that are gone, and of what ended with them.
#[derive(Debug, Default)]
pub(super) struct Survivors {
    /// The world goes on when a rank is gone.
    pub(super) enabled: bool,
    /// World ranks, and how each ended.
    pub(super) gone: BTreeSet<u32>,
    pub(super) how: BTreeMap<u32, String>,
    /// Ranks that may be gone.
    pub(super) suspects: BTreeMap<u32, (Since, String)>,
    /// Communicators on which no call can be made any more, and why.
    pub(super) ended: HashMap<u64, Error>,
    /// Revocations that were passed on.
    pub(super) revoked: HashSet<u64>,
    /// By slot: why the operation there ended half way. Such a slot is not used again, as puts to it may come late.
    pub(super) retired: HashMap<u8, Error>,
    /// Ranks that the transport has yet to cut off.
    pub(super) to_cut: Vec<u32>,
    pub(super) agreements: HashMap<(u64, u32), Agreement>,
}

/// A communicator, and the number of an agreement there.
pub(crate) type AgreementId = (u64, u32);
