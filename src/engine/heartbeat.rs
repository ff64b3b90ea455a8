//! Heartbeat for a watchdog: whether the engine still returns from the transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Counts the entries into the engine, and the threads inside.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    entries: AtomicU64,
    inside: AtomicU32,
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
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::Relaxed);
    }
}
