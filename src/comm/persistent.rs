//! Persistent collectives: planned, bound and introduced to the neighbours once, started many times.

use super::call::Spec;
use super::collective::Collective;
use super::communicator::Communicator;
use super::owned::{Done, OwnedCollective};
use crate::buffer::{Buf, HostMemory, MemoryPlace};
use crate::error::Result;
use bytemuck::Pod;

/// A collective initialised once and started many times. It owns its buffers, so that nothing dangles if it
/// is leaked; they can be touched whenever no start is under way, and what is sent can be read at any time
/// ([`Persistent::input_ref`]).
///
/// ```
/// let world = circulant::World::init()?;
/// let comm = world.comm();
/// let mut step = comm.bcast_init(comm.alloc::<u64>(100)?, 0)?;
/// for i in 0..10 {
///     if comm.rank() == 0 {
///         step.input()?.fill(i);
///     }
///     step.start()?;
///     step.wait()?;
///     assert_eq!(step.output()?[99], i);
/// }
/// # drop(step);
/// # world.finalize()?;
/// # Ok::<(), circulant::Error>(())
/// ```
#[derive(Debug)]
pub struct Persistent<T: Pod, M: MemoryPlace = HostMemory>(OwnedCollective<T, M>);

impl<T: Pod, M: MemoryPlace> Persistent<T, M> {
    pub(super) fn new(
        comm: &Communicator,
        operation: impl Into<Collective>,
        spec: Result<Spec>,
        buffers: (Option<Buf<T, M>>, Buf<T, M>),
    ) -> Result<Self> {
        OwnedCollective::new(comm, operation.into(), spec, buffers, true).map(Self)
    }

    pub(super) fn call_hook(&self) {
        self.0.call_hook();
    }

    /// Starts it: one word to each rank that puts to us, no address, key or count, and no allocation. All
    /// ranks must start it in the same order among their other calls.
    ///
    /// # Errors
    /// When it is running already, or the world is broken.
    pub fn start(&mut self) -> Result<()> {
        self.0.start(true)
    }

    /// Waits until the started operation has finished here; does nothing when none was started.
    ///
    /// # Errors
    /// After the deadline, or when the world breaks meanwhile; when a rank is gone, or the communicator revoked: then the buffers are
    /// lost, and [`Persistent::output`] and the like are empty.
    pub fn wait(&mut self) -> Result<()> {
        self.0.wait()
    }

    /// Whether the started operation has finished here; progresses everything once.
    ///
    /// # Errors
    /// When the world is broken, or nothing moved for the deadline.
    pub fn test(&mut self) -> Result<bool> {
        self.0.test()
    }

    /// What the plan says one start does at this rank.
    pub fn planned(&self) -> Planned {
        let Some((task, rounds)) = self.0.program() else { return Planned::default() };
        let puts = task.program.ops.iter().filter(|op| op.kind == crate::plan::lower::OpKind::Put);
        Planned {
            rounds,
            puts: puts.clone().count() as u64,
            put_bytes: puts.map(|op| op.len).sum(),
            arrivals: task.program.arrivals,
        }
    }

    /// Gives the buffers back: what is sent (none in place, and of a broadcast), and where the result is. A start that is under way
    /// is waited for.
    ///
    /// # Errors
    /// After the deadline, or when a run has failed: the buffers are lost then.
    pub fn into_buffers(mut self) -> Result<Done<T, M>> {
        self.0.wait()?;
        self.0.buffers()
    }
}

impl<T: Pod> Persistent<T> {
    /// What is sent (where the operation works in place, and for broadcast: the buffer itself).
    ///
    /// # Errors
    /// While a start is under way.
    pub fn input(&mut self) -> Result<&mut [T]> {
        self.0.idle()?;
        Ok(match (&mut self.0.input, &mut self.0.output) {
            (Some(input), _) => input,
            (None, Some(output)) => output,
            (None, None) => &mut [],
        })
    }

    /// Where the result is (for broadcast: the buffer itself).
    ///
    /// # Errors
    /// While a start is under way.
    pub fn output(&mut self) -> Result<&mut [T]> {
        self.0.idle()?;
        Ok(self.0.output.as_deref_mut().unwrap_or_default())
    }

    /// What is sent and where the result is, both to be written and read. Of an operation in place, and of a broadcast, what is
    /// sent stands in the second, and the first is empty.
    ///
    /// # Errors
    /// While a start is under way.
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let p = comm.size();
    /// let mut turn = comm.alltoall_init(comm.alloc_from(&vec![1u64; p])?, comm.alloc(p)?)?;
    /// for _ in 0..3 {
    ///     turn.start()?;
    ///     assert_eq!(turn.input_ref()?.len(), p); // what is sent can be read meanwhile
    ///     turn.wait()?;
    ///     let (send, recv) = turn.buffers()?;
    ///     send.iter_mut().zip(recv).for_each(|(next, got)| *next = *got + 1);
    /// }
    /// assert!(turn.input_ref()?.iter().all(|x| *x == 4));
    /// # drop(turn);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn buffers(&mut self) -> Result<(&mut [T], &mut [T])> {
        self.0.idle()?;
        let OwnedCollective { input, output, .. } = &mut self.0;
        Ok((input.as_deref_mut().unwrap_or_default(), output.as_deref_mut().unwrap_or_default()))
    }

    /// What is sent, to be read, also while a start is under way.
    ///
    /// # Errors
    /// While a start is under way of an operation whose result comes to where this stands: in place, and a broadcast.
    pub fn input_ref(&self) -> Result<&[T]> {
        match (&self.0.input, &self.0.output) {
            (Some(input), _) => Ok(input),
            (None, output) => self.0.idle().map(|()| output.as_deref().unwrap_or_default()),
        }
    }
}

/// What a plan says one rank does in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Planned {
    /// Rounds of the algorithm.
    pub rounds: u32,
    /// Puts that this rank posts.
    pub puts: u64,
    /// Bytes in them.
    pub put_bytes: u64,
    /// Puts and notifies that arrive here.
    pub arrivals: u64,
}
