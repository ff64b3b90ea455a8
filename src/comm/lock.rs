//! The lock around a world's engine, and how a call that waits lets other threads use it meanwhile.

use super::hook::Hook;
use super::shared::Shared;
use crate::buffer::{ForkMark, Wire};
use crate::error::{Error, Result, argument};
use crate::transport::{Borrow, Transport};
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

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
    /// Called while calls wait.
    pub(super) hook: Hook,
    pub(super) quiet: Quiet,
}

/// In calls: so many calls of [`World::progress`](super::World::progress) with nothing to do lead to one that takes the lock and polls the
/// wire, as an empty poll of some providers is a system call; after each poll that finds nothing twice as many, up to the second number.
/// Chosen: with 16 alone a barrier of MPICH among 16 ranks on two cores took 15 % longer, as each of its polls calls this.
const IDLE_POLL_INTERVALS: [u32; 2] = [16, 256];

/// How many calls of [`World::progress`](super::World::progress) may pass by: nothing was under way at the last one, and no thread has had the
/// lock since.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    left: AtomicU32,
    /// As many may pass by behind the next poll that finds nothing.
    next: AtomicU32,
}

impl Quiet {
    /// Whether a call passes by. One that two threads make at a time may count once.
    #[inline]
    pub(super) fn passes_by(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }

    /// Runs `poll`, which takes the lock and says whether something moved, and whether nothing is under way then.
    pub(super) fn poll(&self, poll: impl FnOnce() -> (bool, bool)) {
        let [least, most] = IDLE_POLL_INTERVALS;
        let calls = self.next.load(Ordering::Relaxed).max(least);
        let (has_moved, is_idle) = poll();
        if is_idle {
            let calls = if has_moved { least } else { calls };
            self.left.store(calls - 1, Ordering::Relaxed);
            self.next.store((2 * calls).min(most), Ordering::Relaxed);
        }
    }

    /// How many calls may pass by; the next one here does not, as the caller counts them.
    pub(super) fn hand_over(&self) -> u32 {
        self.left.swap(0, Ordering::Relaxed)
    }

    /// A thread uses the engine.
    #[inline]
    fn end(&self) {
        self.left.store(0, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
    }
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
            hook: Hook::default(),
            quiet: Quiet::default(),
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
            // (It holds the lock.)
            Err(TryLockError::Poisoned(poisoned)) => Ok(self.held(self.recovered(poisoned))),
            Err(TryLockError::WouldBlock) => self.hold_slowly(),
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
            Err(TryLockError::Poisoned(poisoned)) => Some(self.held(self.recovered(poisoned))),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[inline]
    fn held<'a>(&'a self, guard: MutexGuard<'a, Shared>) -> Held<'a> {
        self.owner.store(this_thread(), Ordering::Relaxed);
        self.quiet.end();
        Held { lock: self, guard: Some(guard) }
    }

    fn guard(&self) -> MutexGuard<'_, Shared> {
        match self.shared.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return self.recovered(poisoned),
            Err(TryLockError::WouldBlock) => {}
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = self.shared.lock().unwrap_or_else(|poisoned| self.recovered(poisoned));
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// After a panic under the lock: the world ends.
    #[cold]
    fn recovered<'a>(&self, poisoned: PoisonError<MutexGuard<'a, Shared>>) -> MutexGuard<'a, Shared> {
        let mut shared = poisoned.into_inner();
        shared.engine.shut();
        self.shared.clear_poison();
        shared
    }

    /// Gives one of `others`, which wait for the lock, time to take it.
    fn yield_to(&self, others: usize) {
        for _ in 0..MAX_LOCK_YIELDS {
            std::thread::yield_now();
            if self.waiting.load(Ordering::Relaxed) != others {
                return;
            }
        }
    }
}

/// How often a thread yields its core for one that wants the lock: an unlocked mutex goes to the first thread that tries.
/// Yields that run nothing take 550 ns (`ci/cost waits`): 55 us in all, in which a sleeping thread wakes.
const MAX_LOCK_YIELDS: usize = 100;

impl Held<'_> {
    /// Between two turns of a wait: releases the lock for a moment if another thread waits for it, as two threads may be in calls
    /// of different communicators, in another order than those of another rank; and for as long as the world's hook takes, if it
    /// has one.
    ///
    /// # Panics
    /// When the hook does.
    pub(super) fn yield_lock(&mut self) {
        let others = self.lock.waiting.load(Ordering::Relaxed);
        let hooked = self.lock.hook.is_set();
        if others == 0 && !hooked {
            return;
        }
        self.lock.owner.store(0, Ordering::Relaxed);
        self.guard = None;
        // A panic goes on when the lock is held again: the call is lost half way then, as by any panic in it.
        let called = catch_unwind(AssertUnwindSafe(|| self.lock.hook.call()));
        if others > 0 {
            self.lock.yield_to(others);
        }
        self.guard = Some(self.lock.guard());
        self.lock.owner.store(this_thread(), Ordering::Relaxed);
        self.engine.crowded |= others > 0;
        if hooked {
            self.engine.rest_briefly();
        }
        if let Err(panic) = called {
            resume_unwind(panic);
        }
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

    fn borrow_mode(&self, len: usize) -> Borrow {
        self.engine.borrow_mode(len)
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

    fn goes_on(&self) -> bool {
        self.engine.goes_on()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_with_nothing_to_do_pass_by_until_the_engine_is_used() {
        let quiet = Quiet::default();
        // So many calls pass by until the next poll.
        let poll = |has_moved, is_idle| {
            assert!(!quiet.passes_by());
            quiet.poll(|| {
                // It takes the lock.
                quiet.end();
                (has_moved, is_idle)
            });
            (0..).take_while(|_| quiet.passes_by()).count()
        };
        assert_eq!(poll(false, false), 0, "something is under way");
        assert_eq!([false; 6].map(|has_moved| poll(has_moved, true)), [15, 31, 63, 127, 255, 255]);
        assert_eq!([true, false].map(|has_moved| poll(has_moved, true)), [15, 31], "something came");
        quiet.poll(|| (false, true));
        assert!(quiet.passes_by());
        quiet.end();
        assert_eq!(poll(false, true), 15, "the engine was used");
        quiet.poll(|| (false, true));
        assert_eq!((quiet.hand_over(), quiet.passes_by()), (31, false), "the caller counts them");
    }
}
