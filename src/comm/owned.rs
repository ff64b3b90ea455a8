//! A collective that owns its buffers: what [`Request`](super::Request) and [`Persistent`](super::Persistent)
//! have in common.

use super::call::{Begun, Spec};
use super::communicator::Communicator;
use super::program::Prepared;
use crate::buffer::{Arena, Binding, Bound, Buf, Wire};
use crate::engine::{Meta, Waiting};
use crate::error::{Error, ErrorKind, Result, argument};
use crate::memory::copy_slice;
use crate::plan::registry::Operation;
use bytemuck::Pod;

/// Owned, so that nothing dangles when it is leaked.
pub(super) struct OwnedCollective<T: Pod> {
    pub(super) comm: Communicator,
    operation: Operation,
    /// Given back to the cache by a request that has ended.
    prepared: Option<Prepared>,
    binding: Binding,
    meta: Meta,
    pub(super) input: Option<Buf<T>>,
    /// Given back by a request that has ended.
    pub(super) output: Option<Buf<T>>,
    shadow: Option<Shadow<T>>,
    running: Option<u8>,
    waiting: Waiting,
}

/// The other buffer of an operation that is in place for its caller only.
enum Shadow<T: Pod> {
    /// What is sent, while the result overwrites it (alltoall).
    Sent(Buf<T>),
    /// The result, before it may overwrite the contribution (the root of a reduce).
    Result(Buf<T>),
}

impl<T: Pod> Shadow<T> {
    /// The shadow that an operation needs which is in place and has this buffer.
    fn of(comm: &Communicator, operation: Operation, buffer: &Buf<T>) -> Result<Option<Self>> {
        let kind = match operation {
            Operation::Alltoall | Operation::Alltoallv => Self::Sent,
            Operation::Reduce => Self::Result,
            _ => return Ok(None),
        };
        comm.alloc(buffer.len()).map(|shadow| Some(kind(shadow)))
    }
}

/// What an operation reads and what it writes, in memory of `arena`.
///
/// # Errors
/// When a buffer is of another world: its registration and its key say something else here, or nothing.
fn regions<T: Pod>(
    arena: &Arena,
    input: Option<&Buf<T>>,
    output: &Buf<T>,
    shadow: Option<&Shadow<T>>,
) -> Result<[Bound; 2]> {
    // Both are looked at also where only one takes part itself.
    let (from, to) = (input.map(|input| input.bound(arena)).transpose()?, output.bound(arena)?);
    Ok(match shadow {
        Some(Shadow::Sent(sent)) => [sent.bound(arena)?, to],
        Some(Shadow::Result(result)) => [to, result.bound(arena)?],
        None => [from.unwrap_or(Bound::NONE), to],
    })
}

impl<T: Pod> std::fmt::Debug for OwnedCollective<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnedCollective")
            .field("operation", &self.operation)
            .field("running", &self.running.is_some())
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

impl<T: Pod> OwnedCollective<T> {
    /// Plans it; `bind` also tells the peers where its memory is, once for all starts.
    pub(super) fn new(
        comm: &Communicator,
        operation: Operation,
        spec: Result<Spec>,
        (input, output): (Option<Buf<T>>, Buf<T>),
        bind: bool,
    ) -> Result<Self> {
        // Between neighbours what is sent in place is not overwritten.
        let disjoint = spec.as_ref().is_ok_and(|spec| spec.arguments.graph.multiplicity > 0);
        let shadow = match input {
            None if !disjoint => Shadow::of(comm, operation, &output),
            _ => Ok(None),
        };
        let (spec, shadow) = match shadow {
            Ok(shadow) => (spec, shadow),
            Err(e) => (Err(e), None),
        };
        let mut held = comm.hold()?;
        let regions = |spec| Ok((spec, regions(&held.arena, input.as_ref(), &output, shadow.as_ref())?));
        let (spec, [from, to]) = match spec.and_then(regions) {
            Ok((spec, regions)) => (Ok(spec), regions),
            Err(e) => (Err(e), [Bound::NONE; 2]),
        };
        let Begun { mut prepared, meta, reducer, deadline, .. } = comm.begin(&mut held, operation, spec)?;
        let binding = Binding { input: from, output: to, work: prepared.work(), land: prepared.land() };
        if let Some(mut task) = prepared.task.take() {
            task.reducer = reducer;
            if bind {
                let at = |e: Error| e.in_operation(operation.name(), u64::from(meta.call.sequence));
                let slot = held.engine.bind(task, meta, binding).map_err(|e| held.engine.fail(at(e)))?;
                let mut waiting = Waiting::new(meta, deadline);
                task = loop {
                    match held.engine.bound(slot, &mut waiting).map_err(|e| held.engine.fail(at(e)))? {
                        Some(task) => break task,
                        None => held.yield_lock(),
                    }
                };
            }
            prepared.task = Some(task);
        }
        drop(held);
        let waiting = Waiting::new(meta, deadline);
        let (comm, prepared, output) = (comm.clone(), Some(prepared), Some(output));
        Ok(Self { comm, operation, prepared, binding, meta, input, output, shadow, running: None, waiting })
    }

    /// Starts a run; all but the first take a number of their own (`again`).
    pub(super) fn start(&mut self, again: bool) -> Result<()> {
        let mut held = self.comm.hold()?;
        held.engine.healthy()?;
        let Some(task) = self.prepared.as_mut().and_then(|p| p.task.take()) else {
            return Err(argument("a persistent operation was started twice").help("wait for it first"));
        };
        if let (Some(output), Some(Shadow::Sent(sent))) = (&self.output, &mut self.shadow) {
            copy_slice(output, sent);
        }
        if again {
            self.meta.call = self.comm.context.next_call();
        }
        self.running = Some(held.engine.start(task, self.meta, self.binding)?);
        self.waiting = Waiting::new(self.meta, self.comm.deadline().unwrap_or(held.deadline));
        Ok(())
    }

    /// Whether nothing is under way; progresses everything once.
    pub(super) fn test(&mut self) -> Result<bool> {
        let Some(slot) = self.running else { return Ok(true) };
        let mut held = self.comm.hold()?;
        if !held.engine.test(slot, &mut self.waiting)? {
            return Ok(false);
        }
        let task = held.engine.leave(slot);
        drop(held);
        self.running = None;
        self.rest(task?);
        Ok(true)
    }

    pub(super) fn wait(&mut self) -> Result<()> {
        let Some(slot) = self.running else { return Ok(()) };
        let mut held = self.comm.hold()?;
        self.running = None;
        let deadline = self.comm.deadline().unwrap_or(held.deadline);
        let mut waiting = Waiting::new(self.meta, deadline);
        while !held.engine.turn(slot, &mut waiting)? {
            held.yield_lock();
        }
        let task = held.engine.leave(slot)?;
        drop(held);
        self.rest(task);
        Ok(())
    }

    fn rest(&mut self, task: Box<crate::engine::Task>) {
        if let Some(prepared) = &mut self.prepared {
            prepared.task = Some(task);
        }
        if let (Some(output), Some(Shadow::Result(result))) = (&mut self.output, &self.shadow) {
            copy_slice(result, output);
        }
    }

    /// Gives the program back, for others to use.
    pub(super) fn retire(&mut self) {
        if let Some(prepared) = self.prepared.take()
            && prepared.task.as_ref().is_some_and(|t| !t.persistent)
            && let Ok(mut held) = self.comm.hold()
        {
            held.cache.keep(prepared);
        }
    }

    /// Refuses access to buffers in use.
    pub(super) fn idle(&self) -> Result<()> {
        match self.running {
            None => Ok(()),
            Some(_) => {
                Err(Error::new(ErrorKind::Argument, "the buffers of a running operation cannot be touched")
                    .help("call wait() first"))
            }
        }
    }

    pub(super) fn program(&self) -> Option<(&crate::engine::Task, u32)> {
        let prepared = self.prepared.as_ref()?;
        Some((prepared.task.as_deref()?, prepared.meta.rounds))
    }
}

impl<T: Pod> Drop for OwnedCollective<T> {
    fn drop(&mut self) {
        // Peers may still write into our buffers: finish, or close the endpoint, before they are freed.
        if self.running.is_none() || self.wait().is_ok() {
            return;
        }
        match self.comm.hold() {
            Ok(mut held) => held.engine.shut(),
            // Inside an operator: the operation goes on, so its memory stays.
            Err(_) => std::mem::forget((
                self.prepared.take(),
                self.input.take(),
                self.output.take(),
                self.shadow.take(),
            )),
        }
    }
}
