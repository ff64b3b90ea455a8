//! Communicators: handles to a group of ranks and its calls.

use super::context::Context;
use super::lock::{Held, Lock};
use super::options::Options;
use crate::buffer::{Buf, MAX_ALIGN_BYTES, Wire};
use crate::engine::Group;
use crate::error::{Error, Result, argument};
use bytemuck::Pod;
use std::sync::Arc;
use std::time::Duration;

/// A group of ranks that call collectives together, in the same order on all of them. Cheap to clone; clones are
/// the same communicator. Calls on different communicators never mix, whatever their order: see
/// [`Communicator::dup`] and [`Communicator::split`].
#[derive(Clone, Debug)]
pub struct Communicator {
    pub(super) lock: Arc<Lock>,
    pub(super) context: Arc<Context>,
    pub(super) options: Options,
}

impl Communicator {
    /// Makes it known to the engine.
    ///
    /// # Errors
    /// When an operator makes it.
    pub(super) fn new(lock: Arc<Lock>, context: Context, options: Options) -> Result<Self> {
        let context = Arc::new(context);
        let known: Arc<dyn Group> = Arc::clone(&context) as _;
        lock.hold()?.engine.register(context.id, Arc::downgrade(&known));
        Ok(Self { lock, context, options })
    }

    /// An error of this rank's own, before anything is sent.
    pub(super) fn own(&self, e: Error) -> Error {
        e.at_rank(self.context.members.world_rank(self.context.rank) as usize)
    }

    /// Our rank in it.
    pub fn rank(&self) -> usize {
        self.context.rank as usize
    }

    /// Its number of ranks.
    pub fn size(&self) -> usize {
        self.context.size as usize
    }

    /// The same communicator with other options for the calls made through the result.
    pub fn with(&self, options: Options) -> Self {
        Self { options, ..self.clone() }
    }

    /// `len` zeroed elements of registered, pre-faulted memory: collectives move them without a copy and
    /// without registering anything. Not collective. It is used as a slice, and goes back to the arena when it
    /// is dropped.
    ///
    /// # Errors
    /// When memory cannot be had or registered, or `T` is aligned to more than 4096 bytes. Such an error is
    /// this rank's alone: the world goes on.
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let mut grid = world.comm().alloc::<f64>(1000)?;
    /// assert!(grid.iter().all(|x| *x == 0.0));
    /// grid[7] = 1.5;
    /// # drop(grid);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn alloc<T: Pod>(&self, len: usize) -> Result<Buf<T>> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .ok_or_else(|| argument(format!("{len} elements do not fit into memory")))?;
        if align_of::<T>() > MAX_ALIGN_BYTES {
            return Err(argument(format!(
                "elements aligned to {} bytes: buffers are to {MAX_ALIGN_BYTES}",
                align_of::<T>()
            )));
        }
        let mut held = self.hold()?;
        let shared = &mut *held;
        let block = shared.arena.alloc(bytes, shared.engine.transport())?;
        Ok(Buf::new(block, len))
    }

    /// As [`Communicator::alloc`] with these elements in it: registered memory from a slice, an array or a `Vec`.
    ///
    /// # Errors
    /// As [`Communicator::alloc`].
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let request = comm.ibcast(comm.alloc_from(&[1.5, 2.5])?, 0)?;
    /// assert_eq!(request.wait()?.recv[1], 2.5);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn alloc_from<T: Pod>(&self, elements: &[T]) -> Result<Buf<T>> {
        let mut buf = self.alloc(elements.len())?;
        buf.copy_from_slice(elements);
        Ok(buf)
    }

    #[inline]
    pub(super) fn hold(&self) -> Result<Held<'_>> {
        self.lock.hold()
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.options.deadline
    }
}
