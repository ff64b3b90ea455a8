//! Persistent collectives: planned, bound and introduced to the neighbours once, started many times.

use super::call::{Asked, Prepared};
use super::communicator::Communicator;
use crate::buffer::{Binding, Buf, Wire};
use crate::engine::{CallId, Meta, Waiting};
use crate::error::{Error, ErrorKind, Result, argument};
use crate::plan::registry::{Arguments, Operation};
use bytemuck::Pod;

/// A collective initialised once and started many times. It owns its buffers, so that nothing dangles if it
/// is leaked; they can be touched whenever no start is under way.
pub struct Persistent<T: Pod> {
    comm: Communicator,
    prepared: Prepared,
    binding: Binding,
    input: Option<Buf<T>>,
    output: Buf<T>,
    running: Option<u8>,
    waiting: Waiting,
}

impl<T: Pod> std::fmt::Debug for Persistent<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Persistent")
            .field("operation", &self.prepared.meta.name)
            .field("running", &self.running.is_some())
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

impl Communicator {
    /// A broadcast of `buf` from `root`, to be started many times. Collective.
    ///
    /// # Errors
    /// As [`Communicator::bcast`].
    ///
    /// # Examples
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
    pub fn bcast_init<T: Pod>(&self, buf: Buf<T>, root: usize) -> Result<Persistent<T>> {
        let root = self.check_root(Operation::Bcast, root)?;
        let bytes = size_of_val(&*buf) as u64;
        let arguments = Arguments { root, bytes, ..Arguments::default() };
        Persistent::new(self, self.asked(Operation::Bcast, arguments)?, None, buf)
    }

    /// An allgatherv from `send` into `recv`, to be started many times. Collective.
    ///
    /// # Errors
    /// As [`Communicator::allgatherv`].
    pub fn allgatherv_init<T: Pod>(
        &self,
        send: Buf<T>,
        recv: Buf<T>,
        counts: &[usize],
        displs: &[usize],
    ) -> Result<Persistent<T>> {
        let arguments = self
            .gather_arguments::<T>(Some(send.len()), recv.len(), counts, displs)
            .map_err(|e| self.refuse(Operation::Allgatherv, e))?;
        Persistent::new(self, self.asked(Operation::Allgatherv, arguments)?, Some(send), recv)
    }
}

impl<T: Pod> Persistent<T> {
    fn new(comm: &Communicator, asked: Asked, input: Option<Buf<T>>, output: Buf<T>) -> Result<Self> {
        let mut guard = comm.lock();
        let shared = &mut *guard;
        shared.engine.healthy()?;
        let (rank, _) = comm.place();
        let sequence = shared.next_call();
        let operation = asked.operation;
        let name = operation.name();
        let at = |e: Error| e.in_operation(name, u64::from(sequence));
        let deadline = comm.deadline().unwrap_or(shared.deadline);
        let made = shared.make(rank, asked);
        let mut prepared = made.map_err(|e| shared.refuse_call(operation, sequence, e))?;
        let binding = Binding {
            input: input.as_ref().map_or(crate::buffer::Bound::NONE, Buf::bound),
            output: output.bound(),
            work: prepared.work(),
            land: prepared.land(),
        };
        let meta = Meta { call: CallId { comm: 0, sequence }, ..prepared.meta };
        if let Some(task) = prepared.task.take() {
            let task = shared.engine.bind(task, meta, binding, deadline);
            prepared.task = Some(task.map_err(|e| shared.engine.fail(at(e)))?);
        }
        drop(guard);
        let waiting = Waiting::new(meta, deadline);
        Ok(Self { comm: comm.clone(), prepared, binding, input, output, running: None, waiting })
    }

    /// Starts it: one word to each rank that puts to us, no address, key or count, and no allocation. All
    /// ranks must start it in the same order among their other calls.
    ///
    /// # Errors
    /// When it is running already, or the world is broken.
    pub fn start(&mut self) -> Result<()> {
        let mut shared = self.comm.lock();
        shared.engine.healthy()?;
        let Some(task) = self.prepared.task.take() else {
            return Err(argument("a persistent operation was started twice").help("wait for it first"));
        };
        let sequence = shared.next_call();
        let meta = Meta { call: CallId { comm: 0, sequence }, ..self.prepared.meta };
        let deadline = self.comm.deadline().unwrap_or(shared.deadline);
        self.running = Some(shared.engine.start(task, meta, self.binding)?);
        self.waiting = Waiting::new(meta, deadline);
        Ok(())
    }

    /// Waits until the started operation has finished here; does nothing when none was started.
    ///
    /// # Errors
    /// After the deadline, or when the world breaks meanwhile.
    pub fn wait(&mut self) -> Result<()> {
        let Some(slot) = self.running.take() else { return Ok(()) };
        let mut shared = self.comm.lock();
        let deadline = self.comm.deadline().unwrap_or(shared.deadline);
        self.prepared.task = Some(shared.engine.wait(slot, deadline)?);
        Ok(())
    }

    /// Whether the started operation has finished here; progresses everything once.
    ///
    /// # Errors
    /// When the world is broken, or nothing moved for the deadline.
    pub fn test(&mut self) -> Result<bool> {
        match self.running {
            None => Ok(true),
            Some(slot) => self.comm.lock().engine.test(slot, &mut self.waiting),
        }
    }

    /// What is sent (for broadcast: the buffer itself).
    ///
    /// # Errors
    /// While a start is under way.
    pub fn input(&mut self) -> Result<&mut [T]> {
        self.idle()?;
        Ok(self.input.as_mut().unwrap_or(&mut self.output))
    }

    /// Where the result is (for broadcast: the buffer itself).
    ///
    /// # Errors
    /// While a start is under way.
    pub fn output(&mut self) -> Result<&mut [T]> {
        self.idle()?;
        Ok(&mut self.output)
    }

    fn idle(&self) -> Result<()> {
        match self.running {
            None => Ok(()),
            Some(_) => {
                Err(Error::new(ErrorKind::Argument, "the buffers of a running operation cannot be touched")
                    .help("call wait() first"))
            }
        }
    }

    /// What the plan says one start does at this rank.
    pub fn planned(&self) -> Planned {
        let Some(task) = &self.prepared.task else { return Planned::default() };
        let puts = task.program.ops.iter().filter(|op| op.kind == crate::plan::lower::OpKind::Put);
        Planned {
            rounds: self.prepared.meta.rounds,
            puts: puts.clone().count() as u64,
            put_bytes: puts.map(|op| op.len).sum(),
            arrivals: task.program.arrivals,
        }
    }
}

/// What a plan says one rank does in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

impl<T: Pod> Drop for Persistent<T> {
    fn drop(&mut self) {
        // Peers may still write into our buffers: finish, or close the endpoint, before they are freed.
        if self.running.is_some() && self.wait().is_err() {
            self.comm.lock().engine.shut();
        }
    }
}
