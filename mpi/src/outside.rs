//! Calls whose operator is the MPI's, and the MPI's progress: where that has a lock, only one of them at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads in [`within`] whose MPI has a lock there.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// Calls under way that need [`within`] to do nothing.
static OUTSIDE: AtomicUsize = AtomicUsize::new(0);

/// While it lives nothing moves on inside the MPI's progress, where that has a lock: for calls whose operator is the MPI's.
#[derive(Debug)]
pub(crate) struct Outside(bool);

impl Outside {
    /// `may_reduce`: the operator may be called in there, so nothing has to stop.
    pub(crate) fn new(may_reduce: bool) -> Self {
        if !may_reduce {
            OUTSIDE.fetch_add(1, Ordering::SeqCst);
            // A thread that has found none before this leaves soon.
            while INSIDE.load(Ordering::SeqCst) > 0 {
                std::thread::yield_now();
            }
        }
        Self(!may_reduce)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        if self.0 {
            OUTSIDE.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Runs `f` in the MPI's progress, unless a call is under way that needs it to do nothing: then 0.
pub(crate) fn within(f: impl FnOnce() -> u32) -> u32 {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let result = if OUTSIDE.load(Ordering::SeqCst) == 0 { f() } else { 0 };
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    result
}
