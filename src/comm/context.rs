//! What makes a communicator: its number, its ranks, our rank in it, and how many calls it has seen.

use super::members::Members;
use super::places::Places;
use super::short::ShortHandle;
use super::trials::Trials;
use crate::engine::{CallId, Group};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// What all clones of one communicator share.
#[derive(Debug)]
pub(super) struct Context {
    /// Unlike that of any other communicator of the world, without a search for a free number: the world rank of
    /// its rank 0, and a number that this rank has never named before (the world: 0).
    pub(super) id: u64,
    pub(super) members: Members,
    pub(super) rank: u32,
    pub(super) size: u32,
    /// Of a communicator between two groups: the ranks below this are the first group's. Else 0.
    pub(super) first: u32,
    calls: AtomicU32,
    agreements: AtomicU32,
    /// Where its ranks are, once asked for.
    places: OnceLock<Places>,
    /// Its short calls, if all its ranks share memory.
    short: Option<ShortHandle>,
    /// Of its calls. Used under the world's lock only.
    trials: Mutex<Trials>,
}

impl Context {
    pub(super) fn new(id: u64, members: Members, rank: u32) -> Self {
        let size = members.size();
        Self {
            id,
            members,
            rank,
            size,
            first: 0,
            calls: AtomicU32::new(0),
            agreements: AtomicU32::new(0),
            places: OnceLock::new(),
            short: None,
            trials: Mutex::default(),
        }
    }

    /// The same with short calls.
    pub(super) fn with_short_calls(self, short: Option<ShortHandle>) -> Self {
        Self { short, ..self }
    }

    pub(super) fn short_calls(&self) -> Option<&ShortHandle> {
        self.short.as_ref()
    }

    /// The same between two groups, of which the first has `first` ranks.
    pub(super) fn between(self, first: u32) -> Self {
        Self { first, ..self }
    }

    /// Where its ranks are, found out once.
    pub(super) fn places(&self, find: impl FnOnce() -> Places) -> &Places {
        self.places.get_or_init(find)
    }

    /// The trials of its calls.
    pub(super) fn trials(&self) -> MutexGuard<'_, Trials> {
        self.trials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the call that begins now. Taken under the world's lock.
    pub(super) fn next_call(&self) -> CallId {
        // No other thread writes meanwhile, so it need not be one step.
        let sequence = self.calls.load(Ordering::Relaxed);
        self.calls.store(sequence.wrapping_add(1), Ordering::Relaxed);
        CallId { comm: self.id, sequence }
    }

    /// The number of the agreement that begins now. Taken under the world's lock.
    pub(super) fn next_agreement(&self) -> u32 {
        self.agreements.fetch_add(1, Ordering::Relaxed)
    }
}

impl Group for Context {
    fn next_call(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    fn world_ranks(&self) -> Vec<u32> {
        match &self.members {
            Members::World(size) => (0..*size).collect(),
            Members::List(list) => list.clone(),
        }
    }

    fn has_member(&self, rank: u32) -> bool {
        match &self.members {
            Members::World(size) => rank < *size,
            Members::List(list) => list.contains(&rank),
        }
    }
}
