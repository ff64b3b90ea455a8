//! A collective that owns its buffers: what [`Request`](super::Request) and [`Persistent`](super::Persistent)
//! have in common.

use super::call::{Spec, shadowed};
use super::collective::Collective;
use super::communicator::Communicator;
use super::shadow::Shadow;
use super::tried::TriedRun;
use crate::buffer::{Arena, Bound, Buf, HostMemory, MemoryPlace, Wire};
use crate::engine::Task;
use crate::error::{Error, ErrorKind, Result, argument};
use crate::plan::Region;
use crate::transport::Memory;
use bytemuck::Pod;

/// The buffers of a request, or of a persistent operation, that has finished.
#[derive(Debug)]
#[non_exhaustive]
pub struct Done<T: Pod, M: MemoryPlace = HostMemory> {
    /// What was sent; `None` where the call worked in place.
    pub send: Option<Buf<T, M>>,
    /// What was received (of a broadcast: the buffer itself).
    pub recv: Buf<T, M>,
}

/// Owned, so that nothing dangles when it is leaked.
pub(super) struct OwnedCollective<T: Pod, M: MemoryPlace> {
    pub(super) comm: Communicator,
    run: TriedRun,
    pub(super) input: Option<Buf<T, M>>,
    /// Given back by a request that has ended.
    pub(super) output: Option<Buf<T, M>>,
    /// Where that stands which is sent and where that goes which has come, and the memory that stands for them.
    shadow: Option<Box<([Bound; 2], Shadow)>>,
}

/// The buffers, in memory of `arena`.
///
/// # Errors
/// When a buffer is of another world: its registration and its key say something else here, or nothing.
fn given<T: Pod, M: MemoryPlace>(
    arena: &Arena,
    input: Option<&Buf<T, M>>,
    output: &Buf<T, M>,
) -> Result<(Option<Bound>, Bound)> {
    Ok((input.map(|input| input.bound(arena)).transpose()?, output.bound(arena)?))
}

/// Refuses to reduce memory that the processor cannot touch.
fn reducible<T: Pod, M: MemoryPlace>(
    operation: Collective,
    spec: Spec,
    [input, output]: [Option<&Buf<T, M>>; 2],
) -> Result<Spec> {
    let parts = [(input, Region::Input), (output, Region::Output)];
    let taking_part = parts.map(|(buffer, region)| buffer.filter(|_| spec.unused != Some(region)));
    let device = taking_part.into_iter().flatten().map(Buf::memory).find(|memory| *memory != Memory::Host);
    match (&spec.reducer, device) {
        (Some(_), Some(memory)) => {
            let what = format!(
                "{} of {memory}: reductions are done by the processor, which cannot touch it",
                operation.name()
            );
            Err(argument(what).help(
                "copy to host memory and reduce there, or reduce on the device by its own library; all that moves bytes only \
                 works where they are",
            ))
        }
        _ => Ok(spec),
    }
}

impl<T: Pod, M: MemoryPlace> std::fmt::Debug for OwnedCollective<T, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnedCollective")
            .field("operation", &self.run.operation())
            .field("running", &self.run.is_running())
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

impl<T: Pod, M: MemoryPlace> OwnedCollective<T, M> {
    /// Plans it; `bind` also tells the peers where its memory is, once for all starts.
    pub(super) fn new(
        comm: &Communicator,
        operation: Collective,
        spec: Result<Spec>,
        (input, output): (Option<Buf<T, M>>, Buf<T, M>),
        bind: bool,
    ) -> Result<Self> {
        let spec = spec.and_then(|spec| reducible(operation, spec, [input.as_ref(), Some(&output)]));
        let (spec, shadow) = shadowed(comm, spec);
        let mut held = comm.hold()?;
        // Both are looked at also where only one takes part itself.
        let bound = given(&held.arena, input.as_ref(), &output).and_then(|(from, to)| {
            let regions = [from.unwrap_or(Bound::NONE), to];
            let regions =
                shadow.as_ref().map_or(Ok(regions), |shadow| shadow.regions(&held.arena, regions))?;
            Ok((regions, [from.unwrap_or(to), to]))
        });
        let (spec, (regions, memory)) = match (spec, bound) {
            (Ok(spec), Ok(bound)) => (Ok(spec), bound),
            (Err(e), _) | (_, Err(e)) => (Err(e), ([Bound::NONE; 2], [Bound::NONE; 2])),
        };
        let begun = comm.begin(&mut held, operation, spec)?;
        let mut run = TriedRun::new(operation, begun, regions);
        if bind && let Err(e) = run.bind(comm, &mut held) {
            if run.has_failed_alone() {
                // Peers know where they are: not used again, as the memory of the run.
                std::mem::forget((input, output, shadow));
            }
            return Err(e);
        }
        drop(held);
        let shadow = shadow.map(|shadow| Box::new((memory, shadow)));
        Ok(Self { comm: comm.clone(), run, input, output: Some(output), shadow })
    }

    /// Starts a run; all but the first take a number of their own (`again`).
    pub(super) fn start(&mut self, again: bool) -> Result<()> {
        let mut held = self.comm.hold()?;
        if let (Some(of), false) = (&self.shadow, self.run.is_running()) {
            let (memory, shadow) = &**of;
            shadow.take(&held.arena, *memory)?;
            held.copied(shadow.bytes());
        }
        self.run.start(&self.comm, &mut held, again)
    }

    /// Whether nothing is under way; progresses everything once.
    pub(super) fn test(&mut self) -> Result<bool> {
        if !self.run.is_running() {
            return self.run.ended().map(|()| true);
        }
        let mut held = self.comm.hold()?;
        let ended = self.run.test(&self.comm, &mut held);
        drop(held);
        let ended = ended.inspect_err(|_| self.set_aside())?;
        if ended {
            self.take_result()?;
        }
        Ok(ended)
    }

    /// The buffers of a run that ended half way are not used again, as puts may still come to them.
    fn set_aside(&mut self) {
        if self.run.has_failed_alone() {
            std::mem::forget((self.input.take(), self.output.take(), self.shadow.take()));
        }
    }

    pub(super) fn wait(&mut self) -> Result<()> {
        if !self.run.is_running() {
            return self.run.ended();
        }
        let mut held = self.comm.hold()?;
        let ended = self.run.wait(&self.comm, &mut held);
        drop(held);
        ended.inspect_err(|_| self.set_aside())?;
        self.take_result()
    }

    /// Calls the world's hook, if it has one.
    pub(super) fn call_hook(&self) {
        self.comm.lock.hook.call();
    }

    fn take_result(&self) -> Result<()> {
        self.shadow.as_deref().map_or(Ok(()), |([_, output], shadow)| shadow.deliver(*output))
    }

    /// The buffers of one that has ended.
    ///
    /// # Errors
    /// When they were given back before.
    pub(super) fn buffers(&mut self) -> Result<Done<T, M>> {
        let output = self.output.take().ok_or_else(|| argument("the buffers were given back before"))?;
        Ok(Done { send: self.input.take(), recv: output })
    }

    /// Gives the program back, for others to use, unless that was done.
    pub(super) fn retire(&mut self) {
        if self.run.program().is_some()
            && let Ok(mut held) = self.comm.hold()
        {
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

impl<T: Pod, M: MemoryPlace> Drop for OwnedCollective<T, M> {
    fn drop(&mut self) {
        // Peers may still write into our buffers: finish, or close the endpoint, before they are freed.
        if !self.run.is_running() || self.wait().is_ok() {
            return self.retire();
        }
        if self.run.has_failed_alone() {
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
