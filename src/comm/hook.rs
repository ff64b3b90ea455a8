//! What a program wants called while its calls wait: see [`World::while_waiting`](super::World::while_waiting).

use super::launcher::lock;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

type Body = Arc<dyn Fn() + Send + Sync>;

/// The hook of one world, if it has one.
#[derive(Default)]
pub(super) struct Hook {
    is_set: AtomicBool,
    body: Mutex<Option<Body>>,
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hook").field("is_set", &self.is_set).finish_non_exhaustive()
    }
}

thread_local! {
    /// This thread is in a hook: calls that the hook makes wait without one.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A thread is in a hook until this is dropped, also by a panic.
struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

impl Hook {
    /// In place of the one before. A thread that is in that one leaves it in its own time.
    pub(super) fn set(&self, body: Option<Body>) {
        let is_set = body.is_some();
        // Dropped when the lock is free again: what it holds may do anything then.
        let _before = std::mem::replace(&mut *lock(&self.body), body);
        self.is_set.store(is_set, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// Whether this thread is in a hook.
    pub(super) fn is_inside() -> bool {
        INSIDE.get()
    }

    /// Calls it, if there is one, and this thread is in none. No lock is held meanwhile.
    pub(super) fn call(&self) {
        if !self.is_set() || INSIDE.replace(true) {
            return;
        }
        let _inside = Inside;
        let body = lock(&self.body).clone();
        if let Some(body) = body {
            body();
        }
    }
}
