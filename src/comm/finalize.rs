//! The last call of a world: a barrier of all ranks, after which none closes before no data of it is on its way.

use super::call::{Begun, Spec};
use super::launcher::lock;
use super::world::{Internal, World};
use crate::buffer::{Binding, Bound};
use crate::config::FOR_EVER;
use crate::engine::{FINALIZE, Meta, Waiting};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::registry::Operation;
use std::time::Duration;

impl World {
    /// Waits until all ranks came here, requests that were forgotten have ended too, and no data is left in sockets; then closes.
    /// It is a call of its own, which no other matches: a rank that waits for this one in a call that this one has not made gets
    /// an error that says so. No thread may begin a call after this.
    ///
    /// # Errors
    /// When a rank is gone, or does not come within CIRCULANT_DEADLINE, where that is set; when the provider or the launcher
    /// fails.
    pub fn finalize(self) -> Result<()> {
        let deadline = self.last_barrier()?;
        let mut held = self.comm.hold()?;
        held.engine.goodbye(deadline)?;
        if self.size() > 1 {
            let timeout = self.config.start_deadline.unwrap_or(FOR_EVER).min(deadline);
            self.fence(timeout, || held.engine.keep_going()).map_err(|e| held.engine.fail(e))?;
        }
        if let Err(e) = held.engine.close() {
            // Peers may still reach it.
            std::mem::forget(held.arena.clone());
            return Err(e);
        }
        drop(held);
        lock(&self.launch).finalize()
    }

    /// A barrier under the name of this call. Returns its deadline.
    fn last_barrier(&self) -> Result<Duration> {
        let comm = self.internal(Internal::Finalize)?;
        let mut held = comm.hold()?;
        held.engine.finalizing();
        let begun = comm.begin(&mut held, Operation::Barrier.into(), Ok(Spec::default()))?;
        let Begun { mut prepared, meta, deadline, .. } = begun;
        let meta = Meta { name: "finalize", code: FINALIZE, ..meta };
        let Some(task) = prepared.task.take() else { return Ok(deadline) };
        let binding =
            Binding { input: Bound::NONE, output: Bound::NONE, work: prepared.work(), land: prepared.land() };
        let slot = held.engine.start(task, meta, binding)?;
        let mut waiting = Waiting::new(meta, deadline);
        while !held.engine.turn(slot, &mut waiting)? {
            held.yield_lock();
        }
        held.engine.leave(slot)?;
        Ok(deadline)
    }

    /// No rank closes before all have read the last message. Ours may need progress to leave, so `keep_going` is called while
    /// a thread waits for the launcher.
    fn fence(&self, timeout: Duration, mut keep_going: impl FnMut()) -> Result<()> {
        std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().name("circulant-fence".to_owned());
            let fence = builder.spawn_scoped(scope, || lock(&self.launch).fence(timeout)).map_err(|e| {
                let what = format!("finalize needs a thread and cannot start one: {e}");
                Error::new(ErrorKind::System, what).help("raise the limit on processes (ulimit -u)")
            })?;
            while !fence.is_finished() {
                keep_going();
            }
            fence.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Launch, "the fence panicked")))
        })
    }
}
