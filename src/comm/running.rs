//! An operation that is planned, started and waited for, on memory that its owner keeps alive: what owned collectives and those of a
//! scope have in common.

use super::call::Begun;
use super::collective::Collective;
use super::communicator::Communicator;
use super::lock::Held;
use super::program::Prepared;
use super::run::Running;
use crate::buffer::{Binding, Bound};
use crate::engine::{Task, Waiting};
use crate::error::{Error, ErrorKind, Result, argument};
use crate::plan::registry::Arguments;
use crate::select::Way;

impl Running {
    pub(super) fn new(operation: Collective, begun: Begun, given: [Bound; 2]) -> Self {
        let Begun { mut prepared, meta, reducer, deadline, .. } = begun;
        let binding = Binding::new(given, [prepared.work(), prepared.land()]);
        if let Some(task) = &mut prepared.task {
            task.reducer = reducer;
            task.binding = binding;
        }
        let waiting = Waiting::new(meta, deadline);
        Self { operation, prepared: Some(prepared), meta, slot: None, waiting, failure: None }
    }

    pub(super) fn operation(&self) -> Collective {
        self.operation
    }

    /// Whether a run is under way.
    pub(super) fn is_running(&self) -> bool {
        self.slot.is_some()
    }

    /// Whether a run has ended half way, and the world has not: its memory must not be used again, and is leaked.
    pub(super) fn has_failed_alone(&self) -> bool {
        self.failure.is_some()
    }

    fn has_not_failed(&self) -> Result<()> {
        match &self.failure {
            None => Ok(()),
            Some(e) => Err(e.clone()),
        }
    }

    /// Sets the memory aside of a run that ended by `e`, if the world goes on.
    fn set_aside<T>(&mut self, held: &Held<'_>, ended: Result<T>) -> Result<T> {
        ended.inspect_err(|e| {
            if held.engine.goes_on_after(e) {
                self.failure = Some(e.clone());
                self.leak();
            }
        })
    }

    fn take_task(&mut self) -> Option<Box<Task>> {
        self.prepared.as_mut()?.task.take()
    }

    fn put_back(&mut self, task: Box<Task>) {
        if let Some(prepared) = &mut self.prepared {
            prepared.task = Some(task);
        }
    }

    /// Tells the peers where its memory is, once for all starts.
    pub(super) fn bind(&mut self, held: &mut Held<'_>) -> Result<()> {
        let (name, sequence) = (self.operation.name(), u64::from(self.meta.call.sequence));
        let bound = self.try_bind(held).map_err(|e| held.engine.fail(e.in_operation(name, sequence)));
        self.set_aside(held, bound)
    }

    fn try_bind(&mut self, held: &mut Held<'_>) -> Result<()> {
        let Some(task) = self.take_task() else { return Ok(()) };
        let binding = task.binding;
        let slot = held.engine.bind(task, self.meta, binding)?;
        loop {
            match held.engine.bound(slot, &mut self.waiting)? {
                Some(task) => break self.put_back(task),
                None => held.yield_lock(),
            }
        }
        Ok(())
    }

    /// Starts a run; all but the first take a number of their own (`again`).
    pub(super) fn start(&mut self, comm: &Communicator, held: &mut Held<'_>, again: bool) -> Result<()> {
        held.engine.usable(comm.context.id)?;
        self.has_not_failed()?;
        let Some(task) = self.take_task() else {
            return Err(argument("a persistent operation was started twice").help("wait for it first"));
        };
        if again {
            self.meta.call = comm.context.next_call();
        }
        let binding = task.binding;
        self.slot = Some(held.engine.start(task, self.meta, binding)?);
        self.waiting = Waiting::new(self.meta, comm.deadline().unwrap_or(held.deadline));
        Ok(())
    }

    /// Whether nothing is under way; progresses everything once.
    pub(super) fn test(&mut self, held: &mut Held<'_>) -> Result<bool> {
        let Some(slot) = self.slot else { return self.ended().map(|()| true) };
        if !held.engine.test(slot, &mut self.waiting)? {
            return Ok(false);
        }
        self.slot = None;
        let left = held.engine.leave(slot);
        let task = self.set_aside(held, left)?;
        self.put_back(task);
        Ok(true)
    }

    /// Waits until nothing is under way.
    pub(super) fn wait(&mut self, comm: &Communicator, held: &mut Held<'_>) -> Result<()> {
        let Some(slot) = self.slot.take() else { return self.ended() };
        let mut waiting = Waiting::new(self.meta, comm.deadline().unwrap_or(held.deadline));
        while !held.engine.turn(slot, &mut waiting)? {
            held.yield_lock();
        }
        let left = held.engine.leave(slot);
        let task = self.set_aside(held, left)?;
        self.put_back(task);
        Ok(())
    }

    /// Whether the last run, if there was one, has succeeded.
    pub(super) fn ended(&self) -> Result<()> {
        self.has_not_failed()?;
        match self.prepared.as_ref().is_some_and(|prepared| prepared.task.is_some()) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Aborted, "the operation has failed before")
                .in_operation(self.operation.name(), u64::from(self.meta.call.sequence))),
        }
    }

    /// Gives the program back, for others to use.
    pub(super) fn retire(&mut self, held: &mut Held<'_>) {
        if let Some(mut prepared) = self.prepared.take()
            && prepared.task.as_ref().is_some_and(|t| !t.persistent)
        {
            // It may have been away while other figures were taken.
            prepared.called = None;
            held.cache.keep(prepared);
        }
    }

    /// The program and its landing memory, which a run that cannot be ended goes on using.
    pub(super) fn leak(&mut self) {
        std::mem::forget(self.prepared.take());
    }

    /// What was asked for, and how it is done.
    pub(super) fn asked(&self) -> Option<(&Arguments, Way)> {
        self.prepared.as_deref().map(Prepared::asked)
    }

    /// What it was prepared for.
    pub(super) fn prepared(&self) -> Option<&Prepared> {
        self.prepared.as_deref()
    }

    /// What runs when it is started, and in how many rounds.
    pub(super) fn program(&self) -> Option<(&Task, u32)> {
        let prepared = self.prepared.as_ref()?;
        Some((prepared.task.as_deref()?, prepared.meta.rounds))
    }
}
