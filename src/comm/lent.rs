//! A collective on memory that is lent to it: what the calls of a [`Scope`](super::Scope) and those of
//! [`Unscoped`](super::Unscoped) have in common.

use super::call::{Begun, Spec, shadowed};
use super::collective::Collective;
use super::communicator::Communicator;
use super::lock::Held;
use super::shadow::Shadow;
use super::tried::TriedRun;
use crate::buffer::{Arena, Bound, Lent, OnLoan, Wire};
use crate::error::{Error, Result};
use crate::plan::Region;

/// What a call sends and where it receives, as it was passed.
pub(super) type Slices<'a, T> = (Option<&'a [T]>, Option<&'a mut [T]>);

/// Leaves out the slice that the spec says is unused.
pub(super) fn used<'a, T>(spec: &Result<Spec>, (send, recv): Slices<'a, T>) -> Slices<'a, T> {
    match spec.as_ref().ok().and_then(|spec| spec.unused) {
        Some(Region::Input) => (None, recv),
        Some(Region::Output) => (send, None),
        _ => (send, recv),
    }
}

/// A call that has its number and its program, and no memory yet.
pub(super) struct LentCall<'a> {
    comm: &'a Communicator,
    operation: Collective,
    begun: Begun,
    shadow: Option<Shadow>,
    in_place: bool,
    pub(super) arena: Arena,
    /// What is in the receive buffer matters.
    pub(super) fill: bool,
}

impl<'a> LentCall<'a> {
    /// Begins it; `in_place`: what is sent stands in the receive buffer.
    ///
    /// # Errors
    /// When the arguments are wrong, which all ranks learn, or the world is broken.
    pub(super) fn begin(
        comm: &'a Communicator,
        operation: Collective,
        spec: Result<Spec>,
        in_place: bool,
    ) -> Result<(Held<'a>, Self)> {
        let (spec, shadow) = shadowed(comm, spec);
        let mut held = comm.hold()?;
        let begun = comm.begin(&mut held, operation, spec)?;
        let (arena, fill) = (held.arena.clone(), begun.fill || shadow.is_some());
        Ok((held, Self { comm, operation, begun, shadow, in_place, arena, fill }))
    }

    /// Says of errors where they come from.
    pub(super) fn at(&self) -> impl Fn(Error) -> Error + use<> {
        let (name, sequence) = (self.operation.name(), u64::from(self.begun.meta.call.sequence));
        move |e| e.in_operation(name, sequence)
    }

    /// Gives it its memory.
    ///
    /// # Errors
    /// When that is of another world.
    pub(super) fn bind(self, given: [Bound; 2]) -> Result<LentCollective> {
        let regions = self.shadow.as_ref().map_or(Ok(given), |shadow| shadow.regions(&self.arena, given))?;
        let [send, recv] = given;
        let memory = [if self.in_place { recv } else { send }, recv];
        Ok(LentCollective {
            comm: self.comm.clone(),
            run: TriedRun::new(self.operation, self.begun, regions),
            shadow: self.shadow.map(|shadow| Box::new((memory, shadow))),
            fill: self.fill,
            undelivered: false,
        })
    }
}

/// A collective on lent memory.
pub(super) struct LentCollective {
    comm: Communicator,
    run: TriedRun,
    /// Where that comes from which is sent and where that goes which has come, and what stands for them.
    shadow: Option<Box<([Bound; 2], Shadow)>>,
    fill: bool,
    /// A run was started whose result has not been brought to the memory.
    undelivered: bool,
}

impl std::fmt::Debug for LentCollective {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LentCollective").field("operation", &self.run.operation()).finish_non_exhaustive()
    }
}

impl LentCollective {
    /// Tells the peers where its memory is, once for all starts.
    pub(super) fn introduce(&mut self, held: &mut Held<'_>) -> Result<()> {
        self.run.bind(&self.comm, held)
    }

    /// Calls the world's hook, if it has one.
    pub(super) fn call_hook(&self) {
        self.comm.lock.hook.call();
    }

    /// Starts a run; all but the first take a number of their own (`again`).
    pub(super) fn start(&mut self, held: &mut Held<'_>, again: bool) -> Result<()> {
        if let (Some(of), false) = (&self.shadow, self.run.is_running()) {
            let (memory, shadow) = &**of;
            shadow.take(&held.arena, *memory)?;
            held.copied(shadow.bytes());
        }
        self.run.start(&self.comm, held, again)?;
        self.undelivered = true;
        Ok(())
    }

    /// Starts a further run, on what stands in `memory` now.
    pub(super) fn restart(&mut self, memory: &mut [Lent; 2]) -> Result<()> {
        let comm = self.comm.clone();
        let mut held = comm.hold()?;
        if !self.run.is_running() {
            let [input, output] = memory;
            input.collect(&mut held);
            if self.fill {
                output.collect(&mut held);
            }
        }
        self.start(&mut held, true)
    }

    /// Whether no run is under way; moves everything on, once.
    pub(super) fn test(&mut self) -> Result<bool> {
        let mut held = self.comm.hold()?;
        self.run.test(&self.comm, &mut held)
    }

    /// Waits for the run that is under way, and brings its result to `memory`.
    pub(super) fn finish(&mut self, memory: &[Lent; 2]) -> Result<()> {
        let mut held = self.comm.hold()?;
        let done = self.run.wait(&self.comm, &mut held);
        if std::mem::take(&mut self.undelivered) {
            done.and_then(|()| self.unshadow()).map_err(|e| held.fail(e))?;
            memory[1].deliver(&mut held);
            return Ok(());
        }
        done.map_err(|e| held.fail(e))
    }

    /// Moves what has come to the shadow to where it goes.
    fn unshadow(&self) -> Result<()> {
        self.shadow.as_deref().map_or(Ok(()), |([_, output], shadow)| shadow.deliver(*output))
    }
}

impl OnLoan for LentCollective {
    fn end(&mut self, memory: [Lent; 2]) -> Result<()> {
        if let Err(e) = self.finish(&memory) {
            if self.run.has_failed_alone() {
                // Puts may still come to its copies, which are leaked.
                std::mem::forget((memory, self.shadow.take()));
            }
            return Err(e);
        }
        let mut held = self.comm.hold()?;
        self.run.retire(&mut held);
        let ended = memory.into_iter().try_for_each(|lent| lent.release(&mut held));
        ended.map_err(|e| held.fail(e))
    }

    fn close(&mut self) {
        if self.run.has_failed_alone() {
            // What was lent is not reached: copies stand for it.
            return;
        }
        match self.comm.hold() {
            Ok(mut held) => held.engine.shut(),
            // A forked child whose parent had the lock: its memory must not come back as if nothing used it.
            Err(_) => std::process::abort(),
        }
    }
}
