//! Heartbeat for a watchdog: whether the engine still returns from the transport.

use super::message::NONE;
use crate::error::Error;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Counts the entries into the engine, and the threads inside; knows what it does there.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    entries: AtomicU64,
    inside: AtomicU32,
    /// The rank that the last call of the transport was for; [`NONE`]: a poll.
    towards: AtomicU32,
    /// The error that ends the world: nothing is waited for any more.
    error: OnceLock<String>,
}

impl Default for Heartbeat {
    fn default() -> Self {
        let towards = AtomicU32::new(NONE);
        Self { entries: AtomicU64::new(0), inside: AtomicU32::new(0), towards, error: OnceLock::new() }
    }
}

/// A thread is inside until this is dropped.
#[derive(Debug)]
pub(crate) struct Inside(Arc<Heartbeat>);

impl Heartbeat {
    pub(crate) fn enter(self: &Arc<Self>) -> Inside {
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.inside.fetch_add(1, Ordering::Relaxed);
        Inside(Arc::clone(self))
    }

    /// The number of entries so far, if a thread is inside.
    pub(crate) fn inside(&self) -> Option<u64> {
        (self.inside.load(Ordering::Relaxed) > 0).then(|| self.entries.load(Ordering::Relaxed))
    }

    /// The next call of the transport is for `rank`; [`NONE`]: for all.
    #[inline]
    pub(super) fn towards(&self, rank: u32) {
        self.towards.store(rank, Ordering::Relaxed);
    }

    /// The rank that the last call of the transport was for, if for one.
    pub(crate) fn peer(&self) -> Option<u32> {
        Some(self.towards.load(Ordering::Relaxed)).filter(|rank| *rank != NONE)
    }

    /// The world ends with this error: what is left takes a moment.
    pub(super) fn fails(&self, error: &Error) {
        let _ = self.error.set(error.to_string());
    }

    /// The error with which the world ends.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.get().map(String::as_str)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::Relaxed);
    }
}
