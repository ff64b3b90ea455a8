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
    /// The others take this rank for gone, and go on.
    pub(super) cut_off: bool,
    /// World ranks, and how each ended.
    pub(super) gone: BTreeSet<u32>,
    pub(super) how: BTreeMap<u32, String>,
    /// Ranks that may be gone.
    pub(super) suspects: BTreeMap<u32, (Since, String)>,
    /// Since when the last of them is.
    pub(super) last: Option<Since>,
    /// A connection has ended, and the transport does not say to which rank.
    pub(super) unexplained: Option<(Since, String)>,
    /// Communicators on which no call can be made any more, and why.
    pub(super) ended: HashMap<u64, Error>,
    /// Those of them that the program has dropped, and since when; and when they were looked for last.
    pub(super) dropped: HashMap<u64, Since>,
    pub(super) swept: Since,
    /// Revocations that were passed on.
    pub(super) revoked: HashSet<u64>,
    /// By slot: why the operation there ended half way, and how many counters it has, until its call has ended.
    pub(super) retired: HashMap<u8, (Error, usize)>,
    /// By slot, once one has ended half way: the number of counter 0 of the next operation there in words. Puts for those before come
    /// late, and have lower ones.
    pub(super) bases: Vec<u32>,
    /// Ranks that the transport has yet to cut off.
    pub(super) to_cut: Vec<u32>,
    pub(super) agreements: HashMap<(u64, u32), Agreement>,
}

/// A communicator, and the number of an agreement there.
pub(crate) type AgreementId = (u64, u32);
