//! Progress between calls: an optional thread that makes progress on what is under way.

use super::lock::Lock;
use super::thread::OwnThread;
use crate::error::{Error, ErrorKind, Result};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long the thread leaves the engine alone when nothing is under way, or a call has it. Chosen: twice what the
/// kernel adds to a sleep (timer slack of 50 µs), so that it takes little of a core; `ci/cost waits` shows what a nap
/// takes.
const IDLE_PAUSE: Duration = Duration::from_micros(100);

/// The thread. It ends when the world does.
#[derive(Debug)]
pub(super) struct Progress {
    /// Goes first: the thread ends when it is gone.
    _alive: Arc<()>,
    _thread: OwnThread,
}

impl Progress {
    pub(super) fn start(lock: &Arc<Lock>) -> Result<Self> {
        let (lock, alive) = (Arc::downgrade(lock), Arc::new(()));
        let life = Arc::downgrade(&alive);
        let thread = std::thread::Builder::new().name("circulant-progress".to_owned());
        let spawned = thread.spawn(move || run(&lock, &life));
        let handle = spawned
            .map_err(|e| Error::new(ErrorKind::System, format!("the progress thread cannot start: {e}")))?;
        Ok(Self { _alive: alive, _thread: OwnThread::new(handle) })
    }
}

fn run(lock: &Weak<Lock>, life: &Weak<()>) {
    while life.strong_count() > 0 {
        let Some(lock) = lock.upgrade() else { return };
        // An error ends the world; the calls that wait return it.
        let busy = lock.try_hold().is_some_and(|mut held| held.engine.nudge().unwrap_or(false));
        drop(lock);
        if busy {
            std::thread::yield_now();
        } else {
            std::thread::sleep(IDLE_PAUSE);
        }
    }
}
