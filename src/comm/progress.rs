//! Progress between calls: by the program, or by an optional thread.

use super::hook::Hook;
use super::lock::Lock;
use super::thread::OwnThread;
use super::world::World;
use crate::error::{Error, ErrorKind, Result};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long the thread leaves the engine alone when nothing is under way, or a call has it.
const IDLE_PAUSE: Duration = Duration::from_micros(100);

impl World {
    /// Moves on, once, what is under way and what is still to be sent, and returns at once: for programs that wait for something
    /// else meanwhile. The counterpart of [`World::while_waiting`]: where another communication library, or an event loop,
    /// lets functions be called while it waits, this is one to register, and the setting `progress = thread` is not needed.
    ///
    /// Any thread may call it at any time. It does nothing while another thread is in a call of this world, which makes progress itself;
    /// inside an operator, or a hook, whose wait makes progress itself; and after the end of the world. With nothing to do it tries a
    /// lock, looks at a few numbers, and at the wire in one of 16 calls. An error ends the world, and is returned by the next call that
    /// can return one.
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let barrier = comm.ibarrier()?;
    /// for _ in 0..1000 {
    ///     // … a piece of work …
    ///     world.progress();
    /// }
    /// barrier.wait()?;
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn progress(&self) {
        if Hook::is_inside() {
            return;
        }
        if let Some(mut held) = self.comm.lock.try_hold() {
            // It has ended the world, and the next call says why.
            _ = held.engine.nudge_often();
        }
    }
}

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
