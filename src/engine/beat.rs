//! Whether the engine still comes back from the transport: a pulse for a watchdog.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Beats with every entry into the engine, and knows whether somebody is inside.
#[derive(Debug, Default)]
pub(crate) struct Beat {
    beats: AtomicU64,
    inside: AtomicU32,
}

/// Somebody is inside until this is dropped.
#[derive(Debug)]
pub(crate) struct Inside(Arc<Beat>);

impl Beat {
    pub(crate) fn enter(self: &Arc<Self>) -> Inside {
        self.beats.fetch_add(1, Ordering::Relaxed);
        self.inside.fetch_add(1, Ordering::Relaxed);
        Inside(Arc::clone(self))
    }

    /// The number of entries so far, if somebody is inside.
    pub(crate) fn inside(&self) -> Option<u64> {
        (self.inside.load(Ordering::Relaxed) > 0).then(|| self.beats.load(Ordering::Relaxed))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::Relaxed);
    }
}
