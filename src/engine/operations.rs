//! Operations from entering to leaving, and persistent ones from binding on.

use super::core::Core;
use super::driver::Engine;
use super::task::{Meta, Task};
use super::waiting::Waiting;
use crate::buffer::Binding;
use crate::error::{Error, ErrorKind, Result};

impl Engine {
    /// Enters an operation: sends ready messages to the ranks that put to us and starts what can start. Returns its slot.
    ///
    /// # Errors
    /// When the world is broken or too many operations are in flight.
    pub(crate) fn start(&mut self, mut task: Box<Task>, meta: Meta, binding: Binding) -> Result<u8> {
        task.reset(meta, binding, &self.core.setup);
        self.limit_eager(&mut task);
        self.enter(task).map_err(|e| self.fail(e))
    }

    /// Enters and leaves an operation in which this rank neither sends nor receives nor moves anything, without a slot. False: it is to be
    /// [started](Engine::start), and nothing was done.
    pub(crate) fn passes(&mut self, task: &mut Task, meta: Meta) -> bool {
        // What another rank has sent for it is a mistake, which is found when it enters.
        if !task.program.is_idle()
            || self.core.unexpected.has_for(meta.call)
            || self.usable(meta.call.comm).is_err()
        {
            return false;
        }
        self.calls(meta.code, meta.call);
        self.core.status.hash = meta.hash;
        task.call(meta);
        self.core.pass(task);
        true
    }

    /// Connects to these ranks, unless that is done: for short calls, which have no task.
    ///
    /// # Errors
    /// When one cannot be connected to.
    pub(crate) fn connect_to(&mut self, ranks: &[u32]) -> Result<()> {
        ranks.iter().try_for_each(|rank| self.reach_rank(*rank)).map_err(|e| self.unreached(e))
    }

    /// The error of a rank that cannot be connected to. Where the world goes on without lost ranks, it is one of these from now on.
    fn unreached(&mut self, e: Error) -> Error {
        let lost = e.peer().filter(|_| e.kind() == ErrorKind::PeerLost && self.survives());
        if let Some(rank) = lost.and_then(|rank| u32::try_from(rank).ok()) {
            self.core.peer_gone(rank, e.message());
        }
        self.reason_of(e)
    }

    /// Makes the peers of a task reachable. Each of them does the same, for the same operation: of a persistent one when it is bound.
    fn reach(&mut self, task: &Task) -> Result<()> {
        task.peers.iter().try_for_each(|peer| self.reach_rank(peer.world_rank))
    }

    fn enter(&mut self, task: Box<Task>) -> Result<u8> {
        let _inside = self.heartbeat.enter();
        self.usable(task.meta.call.comm)?;
        if !task.persistent
            && let Err(e) = self.reach(&task)
        {
            let e = self.unreached(e);
            self.usable(task.meta.call.comm)?;
            return Err(e);
        }
        let mut task = task;
        let slot;
        (slot, task.base) = self.core.free_slot(task.counters.len())?;
        let Meta { call, code, hash, .. } = task.meta;
        self.calls(code, call);
        self.core.status.hash = hash;
        for i in 0..task.peers.len() {
            if task.program.peers[i].puts_to_us && !task.all_eager(i, false) {
                let (to, ready) = (task.peers[i].world_rank, task.ready_message(slot, i));
                self.send_for(slot, &mut task, to, &ready)?;
            }
        }
        self.core.enter(slot, task);
        self.post_first(slot)?;
        Ok(slot)
    }

    /// Begins to exchange addresses and keys, once for an operation to be started many times with this binding.
    /// Returns its slot.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub(crate) fn bind(&mut self, mut task: Box<Task>, meta: Meta, binding: Binding) -> Result<u8> {
        task.clear(meta, binding);
        task.peers.iter_mut().for_each(|peer| peer.eager_limit = 0);
        self.enter(task).map_err(|e| self.fail(e))
    }

    /// Goes on with what [`Engine::bind`] began: makes progress once; returns the task when all peers are known. A wait
    /// calls this again and again, and may release the engine in between.
    ///
    /// # Errors
    /// As [`Engine::turn`].
    pub(crate) fn bound(&mut self, slot: u8, waiting: &mut Waiting) -> Result<Option<Box<Task>>> {
        let ready = |core: &Core| core.task_ref(slot).is_none_or(Task::all_ready);
        if !self.once(waiting, true, ready)? {
            return Ok(None);
        }
        // This was no run of it.
        if let Some(task) = self.core.tasks[usize::from(slot)].as_mut() {
            task.begun = 0;
        }
        let mut task = self.leave(slot)?;
        for peer in &mut task.peers {
            peer.known = peer.ready.map(|(_, output, land)| (output, land));
        }
        task.persistent = true;
        Ok(Some(task))
    }

    /// Whether the operation in `slot` has finished here. Progresses once; `waiting` is kept from one
    /// question to the next, so that polling has a deadline, too: it starts again whenever an operation makes progress.
    ///
    /// # Errors
    /// As [`Engine::turn`].
    pub(crate) fn test(&mut self, slot: u8, waiting: &mut Waiting) -> Result<bool> {
        self.healthy()?;
        if !self.core.finished(slot) {
            waiting.begin_anew_if(self.core.counts.moves());
            self.step(waiting)?;
        }
        Ok(self.core.finished(slot))
    }

    /// Waits for the operation in `slot`: makes progress once; says whether it has finished here. A wait calls this
    /// again and again, and may release the engine in between.
    ///
    /// # Errors
    /// After the deadline, or when the world breaks meanwhile: the endpoint is then closed.
    pub(crate) fn turn(&mut self, slot: u8, waiting: &mut Waiting) -> Result<bool> {
        self.once(waiting, true, |core| core.finished(slot))
    }

    /// Takes the task of an operation that has finished out of its slot.
    ///
    /// # Errors
    /// When it has ended half way, as a rank is gone or the communicator is revoked; when there is none: the world has broken.
    pub(crate) fn leave(&mut self, slot: u8) -> Result<Box<Task>> {
        if let Some(e) = self.core.leave_half_way(slot) {
            return Err(e);
        }
        if self.core.task_ref(slot).is_none() {
            self.healthy()?;
        }
        self.core.leave(slot)
    }

    /// Progresses whatever is in flight, also messages of no operation that are queued; says whether more is to be done at once.
    ///
    /// # Errors
    /// When the world breaks.
    pub(crate) fn nudge(&mut self) -> Result<bool> {
        let nothing = self.core.idle() && self.core.outbox.is_empty();
        if nothing || self.core.failure.is_some() || self.core.has_parted() {
            return Ok(false);
        }
        let _inside = self.heartbeat.enter();
        let moved = self.progress().map_err(|e| self.fail(e))?;
        // A message that its target does not take is tried again later.
        Ok(moved > 0 || !self.core.idle())
    }

    /// As [`Engine::nudge`], and looks at the wire also where nothing is under way: what was sent may still lie in the provider, which moves
    /// when it is polled. Whether something moved, and whether nothing is under way.
    ///
    /// # Errors
    /// When the world breaks.
    pub(crate) fn nudge_or_poll(&mut self) -> Result<(bool, bool)> {
        if self.mark.forked() || self.core.failure.is_some() || self.core.has_parted() {
            // In a child the endpoint is the parent's.
            return Ok((false, true));
        }
        let _inside = self.heartbeat.enter();
        let moved = self.progress().map_err(|e| self.fail(e))?;
        Ok((moved > 0, self.core.idle() && self.core.outbox.is_empty()))
    }
}
