//! A collective that owns its buffers: what [`Request`](super::Request) and [`Persistent`](super::Persistent)
//! have in common.

use super::call::{Spec, shadowed};
use super::collective::Collective;
use super::communicator::Communicator;
use super::running::Running;
use super::shadow::Shadow;
use crate::buffer::{Arena, Bound, Buf, Wire};
use crate::engine::Task;
use crate::error::{Error, ErrorKind, Result};
use bytemuck::Pod;

/// Owned, so that nothing dangles when it is leaked.
pub(super) struct OwnedCollective<T: Pod> {
    pub(super) comm: Communicator,
    run: Running,
    pub(super) input: Option<Buf<T>>,
    /// Given back by a request that has ended.
    pub(super) output: Option<Buf<T>>,
    shadow: Option<Shadow>,
}

/// What an operation reads and what it writes, in memory of `arena`.
///
/// # Errors
/// When a buffer is of another world: its registration and its key say something else here, or nothing.
fn regions<T: Pod>(
    arena: &Arena,
    input: Option<&Buf<T>>,
    output: &Buf<T>,
    shadow: Option<&Shadow>,
) -> Result<[Bound; 2]> {
    // Both are looked at also where only one takes part itself.
    let (from, to) = (input.map(|input| input.bound(arena)).transpose()?, output.bound(arena)?);
    let given = [from.unwrap_or(Bound::NONE), to];
    shadow.map_or(Ok(given), |shadow| shadow.regions(arena, given))
}

impl<T: Pod> std::fmt::Debug for OwnedCollective<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnedCollective")
            .field("operation", &self.run.operation())
            .field("running", &self.run.is_running())
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

impl<T: Pod> OwnedCollective<T> {
    /// Plans it; `bind` also tells the peers where its memory is, once for all starts.
    pub(super) fn new(
        comm: &Communicator,
        operation: Collective,
        spec: Result<Spec>,
        (input, output): (Option<Buf<T>>, Buf<T>),
        bind: bool,
    ) -> Result<Self> {
        let (spec, shadow) = shadowed(comm, spec);
        let mut held = comm.hold()?;
        let regions = regions(&held.arena, input.as_ref(), &output, shadow.as_ref());
        let (spec, regions) = match (spec, regions) {
            (Ok(spec), Ok(regions)) => (Ok(spec), regions),
            (Err(e), _) | (_, Err(e)) => (Err(e), [Bound::NONE; 2]),
        };
        let begun = comm.begin(&mut held, operation, spec)?;
        let mut run = Running::new(operation, begun, regions);
        if bind {
            run.bind(&mut held)?;
        }
        drop(held);
        Ok(Self { comm: comm.clone(), run, input, output: Some(output), shadow })
    }

    /// Starts a run; all but the first take a number of their own (`again`).
    pub(super) fn start(&mut self, again: bool) -> Result<()> {
        let mut held = self.comm.hold()?;
        if let (Some(output), Some(shadow), false) = (&self.output, &mut self.shadow, self.run.is_running()) {
            shadow.before(self.input.as_deref().map(bytemuck::cast_slice), bytemuck::cast_slice(output));
        }
        self.run.start(&self.comm, &mut held, again)
    }

    /// Whether nothing is under way; progresses everything once.
    pub(super) fn test(&mut self) -> Result<bool> {
        if !self.run.is_running() {
            return self.run.ended().map(|()| true);
        }
        let mut held = self.comm.hold()?;
        let ended = self.run.test(&mut held)?;
        drop(held);
        if ended {
            self.take_result();
        }
        Ok(ended)
    }

    pub(super) fn wait(&mut self) -> Result<()> {
        if !self.run.is_running() {
            return self.run.ended();
        }
        let mut held = self.comm.hold()?;
        self.run.wait(&self.comm, &mut held)?;
        drop(held);
        self.take_result();
        Ok(())
    }

    /// Calls the world's hook, if it has one.
    pub(super) fn call_hook(&self) {
        self.comm.lock.hook.call();
    }

    fn take_result(&mut self) {
        if let (Some(output), Some(shadow)) = (&mut self.output, &self.shadow) {
            shadow.after(bytemuck::cast_slice_mut(output));
        }
    }

    /// Gives the program back, for others to use.
    pub(super) fn retire(&mut self) {
        if let Ok(mut held) = self.comm.hold() {
            self.run.retire(&mut held);
        }
    }

    /// Refuses access to buffers in use.
    pub(super) fn idle(&self) -> Result<()> {
        match self.run.is_running() {
            false => Ok(()),
            true => {
                Err(Error::new(ErrorKind::Argument, "the buffers of a running operation cannot be touched")
                    .help("call wait() first"))
            }
        }
    }

    pub(super) fn program(&self) -> Option<(&Task, u32)> {
        self.run.program()
    }
}

impl<T: Pod> Drop for OwnedCollective<T> {
    fn drop(&mut self) {
        // Peers may still write into our buffers: finish, or close the endpoint, before they are freed.
        if !self.run.is_running() || self.wait().is_ok() {
            return;
        }
        match self.comm.hold() {
            Ok(mut held) => held.engine.shut(),
            // Inside an operator: the operation goes on, so its memory stays.
            Err(_) => {
                self.run.leak();
                std::mem::forget((self.input.take(), self.output.take(), self.shadow.take()));
            }
        }
    }
}
