//! The lock around a world's engine, and how a call that waits lets other threads use it meanwhile.

use super::shared::Shared;
use crate::buffer::{ForkMark, Wire};
use crate::error::{Error, Result, argument};
use crate::transport::{Borrow, Transport};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// What all handles of one world share, one thread at a time.
#[derive(Debug)]
pub(super) struct Lock {
    shared: Mutex<Shared>,
    /// Threads that want it and do not have it.
    waiting: AtomicUsize,
    /// The thread that has it; 0: none.
    owner: AtomicUsize,
    /// In a forked child a thread may have it for ever that is not there.
    mark: ForkMark,
}

/// A number of this thread: no other one has it while this thread lives.
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// The lock, held.
pub(super) struct Held<'a> {
    lock: &'a Lock,
    /// Absent only inside [`Held::yield_lock`].
    guard: Option<MutexGuard<'a, Shared>>,
}

impl Lock {
    pub(super) fn new(shared: Shared) -> Self {
        Self {
            shared: Mutex::new(shared),
            waiting: AtomicUsize::new(0),
            owner: AtomicUsize::new(0),
            mark: ForkMark::new(),
        }
    }

    /// Takes the engine. If a call panicked, its operation is lost half way: nothing more can be done then.
    ///
    /// # Errors
    /// When this thread has it already: an operator calls into the world that it works for; in a forked child.
    #[inline]
    pub(super) fn hold(&self) -> Result<Held<'_>> {
        match self.shared.try_lock() {
            Ok(guard) => Ok(self.held(guard)),
            Err(_) => self.hold_slowly(),
        }
    }

    #[cold]
    fn hold_slowly(&self) -> Result<Held<'_>> {
        if self.mark.forked() {
            return Err(ForkMark::refusal());
        }
        if self.owner.load(Ordering::Relaxed) == this_thread() {
            return Err(argument("an operator calls into the world whose reduction it works for")
                .help("call it before or after the reduction, or in another world"));
        }
        Ok(self.held(self.guard()))
    }

    /// Takes the engine if no thread has it.
    pub(super) fn try_hold(&self) -> Option<Held<'_>> {
        match self.shared.try_lock() {
            Ok(guard) => Some(self.held(guard)),
            Err(TryLockError::Poisoned(_)) => self.hold().ok(),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[inline]
    fn held<'a>(&'a self, guard: MutexGuard<'a, Shared>) -> Held<'a> {
        self.owner.store(this_thread(), Ordering::Relaxed);
        Held { lock: self, guard: Some(guard) }
    }

    fn guard(&self) -> MutexGuard<'_, Shared> {
        if let Ok(guard) = self.shared.try_lock() {
            return guard;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = self.shared.lock().unwrap_or_else(|poisoned| {
            let mut shared = poisoned.into_inner();
            shared.engine.shut();
            self.shared.clear_poison();
            shared
        });
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }
}

/// How often a thread yields its core for one that wants the lock: an unlocked mutex goes to the first thread that tries.
const MAX_LOCK_YIELDS: usize = 100;

impl Held<'_> {
    /// Releases the lock for a moment if another thread waits for it: two threads may be in calls of different communicators, in
    /// another order than those of another rank.
    pub(super) fn yield_lock(&mut self) {
        let others = self.lock.waiting.load(Ordering::Relaxed);
        if others == 0 {
            return;
        }
        self.lock.owner.store(0, Ordering::Relaxed);
        self.guard = None;
        for _ in 0..MAX_LOCK_YIELDS {
            std::thread::yield_now();
            if self.lock.waiting.load(Ordering::Relaxed) != others {
                break;
            }
        }
        self.guard = Some(self.lock.guard());
        self.lock.owner.store(this_thread(), Ordering::Relaxed);
        self.engine.crowded = true;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.lock.owner.store(0, Ordering::Relaxed);
    }
}

impl Deref for Held<'_> {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        let Some(shared) = &self.guard else { unreachable!("held, but while it is yielded") };
        shared
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Shared {
        let Some(shared) = &mut self.guard else { unreachable!("held, but while it is yielded") };
        shared
    }
}

impl Wire for Held<'_> {
    fn transport(&mut self) -> Option<&mut (dyn Transport + 'static)> {
        self.engine.transport()
    }

    fn borrow_mode(&self) -> Borrow {
        self.engine.borrow_mode()
    }

    fn fail(&mut self, error: Error) -> Error {
        Wire::fail(&mut self.engine, error)
    }

    fn shut(&mut self) {
        self.engine.shut();
    }

    fn copied(&mut self, bytes: usize) {
        self.engine.copied(bytes);
    }
}
