//! Non-blocking collectives.

use super::call::Spec;
use super::collective::Collective;
use super::communicator::Communicator;
use super::owned::{Done, OwnedCollective};
use super::persistent::Persistent;
use crate::buffer::{Buf, HostMemory, MemoryPlace};
use crate::error::Result;
use bytemuck::Pod;

/// A collective under way. It owns its buffers and gives them back when it has finished, so that nothing dangles
/// if it is leaked. Dropping it waits for it.
///
/// # What progresses when
/// Data moves while *any* call of the world is made: one that waits, whatever for, or a
/// [`test`](Request::test) moves on everything that is in flight. Between calls nothing of it moves, unless the
/// setting `progress` is `thread`: then a thread moves everything on whenever no call does. Requests may be waited
/// for in any order; all ranks of a communicator must *begin* their calls in the same order.
///
/// ```
/// use circulant::{InPlace, World, ops};
///
/// let world = World::init()?;
/// let comm = world.comm();
/// let mut ones = comm.alloc::<u32>(1000)?;
/// ones.fill(1);
/// let sum = comm.iallreduce(InPlace, ones, ops::Sum)?;
/// let word = comm.ibcast(comm.alloc::<u32>(1)?, 0)?;
/// // … compute …
/// assert_eq!(sum.wait()?.recv[999], comm.size() as u32);
/// word.wait()?;
/// # world.finalize()?;
/// # Ok::<(), circulant::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping a request waits for it"]
pub struct Request<T: Pod, M: MemoryPlace = HostMemory>(OwnedCollective<T, M>);

impl<T: Pod, M: MemoryPlace> Request<T, M> {
    pub(super) fn new(
        comm: &Communicator,
        operation: impl Into<Collective>,
        spec: Result<Spec>,
        buffers: (Option<Buf<T, M>>, Buf<T, M>),
    ) -> Result<Self> {
        let mut collective = OwnedCollective::new(comm, operation.into(), spec, buffers, false)?;
        collective.start(false)?;
        Ok(Self(collective))
    }

    /// Whether it has finished here; moves on everything that is in flight, once.
    ///
    /// # Errors
    /// When the world is broken, or nothing moved for the deadline.
    pub fn test(&mut self) -> Result<bool> {
        self.0.test()
    }

    /// Waits until it has finished here, and gives the buffers back.
    ///
    /// # Errors
    /// After the deadline, or when the world breaks meanwhile; when a rank is gone, or the communicator revoked. The buffers are lost
    /// then.
    pub fn wait(mut self) -> Result<Done<T, M>> {
        self.0.wait()?;
        self.0.retire();
        self.0.buffers()
    }
}

/// Something that can be waited for together with others of other types: see [`wait_any`] and [`wait_all`].
/// Sealed: [`Request`], [`Persistent`] and [`ScopedRequest`](super::ScopedRequest) are it.
pub trait Pending: sealed::Sealed {
    /// Whether it has finished here; moves on everything that is in flight, once.
    ///
    /// # Errors
    /// When the world is broken, or nothing moved for the deadline.
    fn test(&mut self) -> Result<bool>;
}

pub(super) mod sealed {
    pub trait Sealed {
        /// Calls the world's hook, between two questions of a wait.
        fn call_hook(&mut self);
    }
    impl<T: super::Pod, M: super::MemoryPlace> Sealed for super::Request<T, M> {
        fn call_hook(&mut self) {
            self.0.call_hook();
        }
    }
    impl<T: super::Pod, M: super::MemoryPlace> Sealed for super::Persistent<T, M> {
        fn call_hook(&mut self) {
            super::Persistent::call_hook(self);
        }
    }
}

impl<T: Pod, M: MemoryPlace> Pending for Request<T, M> {
    fn test(&mut self) -> Result<bool> {
        self.0.test()
    }
}

impl<T: Pod, M: MemoryPlace> Pending for Persistent<T, M> {
    fn test(&mut self) -> Result<bool> {
        Persistent::test(self)
    }
}

/// Waits until one of `pending` has finished and returns its index; `None` when there is none. Among several the
/// first counts, so leave out those that were seen before. A request's buffers come from [`Request::wait`], which
/// returns at once then.
///
/// # Errors
/// When the world breaks, or the deadline of the first one that waits in vain passes.
///
/// ```
/// use circulant::comm::{Pending, wait_any};
///
/// let world = circulant::World::init()?;
/// let comm = world.comm();
/// let mut barrier = comm.ibarrier()?;
/// let mut word = comm.ibcast(comm.alloc::<u64>(1)?, 0)?;
/// let mut pending: Vec<&mut dyn Pending> = vec![&mut barrier, &mut word];
/// while let Some(i) = wait_any(&mut pending)? {
///     pending.remove(i);
/// }
/// # drop((barrier, word));
/// # world.finalize()?;
/// # Ok::<(), circulant::Error>(())
/// ```
pub fn wait_any(pending: &mut [&mut dyn Pending]) -> Result<Option<usize>> {
    if pending.is_empty() {
        return Ok(None);
    }
    loop {
        for (i, one) in pending.iter_mut().enumerate() {
            if one.test()? {
                return Ok(Some(i));
            }
        }
        // They may be of several worlds.
        pending.iter_mut().for_each(|one| one.call_hook());
        // Ranks may be more than cores.
        std::thread::yield_now();
    }
}

/// Waits until all of `pending` have finished.
///
/// # Errors
/// As [`wait_any`].
pub fn wait_all(pending: &mut [&mut dyn Pending]) -> Result<()> {
    for one in pending {
        while !one.test()? {
            one.call_hook();
            std::thread::yield_now();
        }
    }
    Ok(())
}
