//! What users see: [`World`], [`Communicator`], registered buffers and the collectives.

use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use bytemuck::Pod;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// What a call may choose; everything else comes from the settings.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How long the call may take before it fails on every rank.
    pub deadline: Option<Duration>,
    /// Blocks per message (`None`: by the rule).
    pub blocks: Option<u32>,
    /// Algorithm by its registry name (`None`: by selection).
    pub algorithm: Option<String>,
}

/// What one process has done on the wire since its world began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Puts posted.
    pub puts: u64,
    /// Bytes in them.
    pub put_bytes: u64,
    /// Puts that arrived here.
    pub arrivals: u64,
    /// Control messages sent (open words, notifies, acknowledgements).
    pub messages: u64,
    /// Bytes that our own code copied (staging, packing, own contribution).
    pub copied_bytes: u64,
    /// Rounds of the operations completed here, added up.
    pub rounds: u64,
    /// Operations completed here.
    pub operations: u64,
}

/// A wire's figures as measured between two ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wire {
    /// L: one-way latency of an empty put, in nanoseconds (overhead not included).
    pub latency_ns: f64,
    /// o: time per put that the sender is busy, in nanoseconds.
    pub overhead_ns: f64,
    /// β: time per byte in nanoseconds.
    pub byte_ns: f64,
}

/// All ranks of the job, connected.
#[derive(Debug)]
pub struct World {
    _p: (),
}

/// How to build a [`World`] otherwise than from the environment.
#[derive(Debug)]
pub struct Builder {
    config: Config,
}

impl World {
    /// Finds the launcher, connects to the neighbours and tests the wire.
    ///
    /// # Errors
    /// When the launcher cannot be reached, settings disagree, or no provider works.
    pub fn init() -> Result<Self> {
        Self::builder()?.init()
    }

    /// Settings from the environment, to be changed before [`Builder::init`].
    ///
    /// # Errors
    /// When a variable cannot be understood.
    pub fn builder() -> Result<Builder> {
        Ok(Builder { config: Config::from_env()? })
    }

    /// The communicator of all ranks.
    pub fn comm(&self) -> Communicator {
        Communicator { _p: () }
    }

    /// Our rank.
    pub fn rank(&self) -> usize {
        0
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        1
    }

    /// The provider in use, as libfabric prints it (`self` when there is one rank only).
    pub fn provider(&self) -> &str {
        "self"
    }

    /// How we were started.
    pub fn launcher(&self) -> &str {
        "single"
    }

    /// The node index of every rank.
    pub fn nodes(&self) -> &[u32] {
        &[0]
    }

    /// What this process has done so far.
    pub fn stats(&self) -> Stats {
        Stats::default()
    }

    /// Says goodbye: waits until all ranks came here and no data is left in sockets.
    ///
    /// # Errors
    /// When a rank does not come in time.
    pub fn finalize(self) -> Result<()> {
        Ok(())
    }

    /// Asks the launcher to end the whole job.
    pub fn abort(self, _code: i32, _message: &str) {}
}

impl Builder {
    /// Changes a setting by its name.
    ///
    /// # Errors
    /// When there is no such setting.
    pub fn set(mut self, name: &str, value: &str) -> Result<Self> {
        self.config.set(name, value)?;
        Ok(self)
    }

    /// Builds the world.
    ///
    /// # Errors
    /// As [`World::init`].
    pub fn init(self) -> Result<World> {
        Ok(World { _p: () })
    }
}

/// A group of ranks that call collectives together. Cheap to clone; clones are the same communicator.
#[derive(Clone, Debug)]
pub struct Communicator {
    _p: (),
}

fn unfinished<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Transport, "not built yet"))
}

impl Communicator {
    /// Our rank in it.
    pub fn rank(&self) -> usize {
        0
    }

    /// Its number of ranks.
    pub fn size(&self) -> usize {
        1
    }

    /// The same communicator with other options for the calls made through it.
    pub fn with(&self, _options: Options) -> Self {
        self.clone()
    }

    /// `len` zeroed elements of registered, pre-faulted memory: collectives move them without a copy and
    /// without registering anything.
    ///
    /// # Errors
    /// When memory cannot be had or registered.
    pub fn alloc<T: Pod>(&self, _len: usize) -> Result<Buf<T>> {
        unfinished()
    }

    /// Broadcasts `buf` of `root` to all. Arena memory and plain slices alike.
    ///
    /// # Errors
    /// See [`ErrorKind`].
    pub fn bcast<T: Pod>(&self, _buf: &mut [T], _root: usize) -> Result<()> {
        unfinished()
    }

    /// Gathers `send` of all, in rank order, into `recv` (`size() * send.len()` elements).
    ///
    /// # Errors
    /// See [`ErrorKind`].
    pub fn allgather<T: Pod>(&self, _send: &[T], _recv: &mut [T]) -> Result<()> {
        unfinished()
    }

    /// Gathers `counts[r]` elements of each rank r to `recv[displs[r]..]`.
    ///
    /// # Errors
    /// See [`ErrorKind`].
    pub fn allgatherv<T: Pod>(
        &self,
        _send: &[T],
        _recv: &mut [T],
        _counts: &[usize],
        _displs: &[usize],
    ) -> Result<()> {
        unfinished()
    }

    /// As [`Communicator::allgatherv`], our contribution standing in `recv[displs[rank]..]` already.
    ///
    /// # Errors
    /// See [`ErrorKind`].
    pub fn allgatherv_in_place<T: Pod>(
        &self,
        _recv: &mut [T],
        _counts: &[usize],
        _displs: &[usize],
    ) -> Result<()> {
        unfinished()
    }

    /// Returns when all ranks have entered.
    ///
    /// # Errors
    /// See [`ErrorKind`].
    pub fn barrier(&self) -> Result<()> {
        unfinished()
    }

    /// A broadcast to be started many times.
    ///
    /// # Errors
    /// See [`ErrorKind`].
    pub fn bcast_init<T: Pod>(&self, _buf: Buf<T>, _root: usize) -> Result<Persistent<T>> {
        unfinished()
    }

    /// An allgatherv to be started many times.
    ///
    /// # Errors
    /// See [`ErrorKind`].
    pub fn allgatherv_init<T: Pod>(
        &self,
        _send: Buf<T>,
        _recv: Buf<T>,
        _counts: &[usize],
        _displs: &[usize],
    ) -> Result<Persistent<T>> {
        unfinished()
    }

    /// Half round trips of a put of `bytes` between ranks 0 and 1, `reps` of them (at rank 0; empty
    /// elsewhere). Collective. The raw wire: no schedule, no flow control.
    ///
    /// # Errors
    /// See [`ErrorKind`].
    pub fn put_times(&self, _bytes: usize, _reps: usize) -> Result<Vec<Duration>> {
        unfinished()
    }

    /// Measures L, o and β between ranks 0 and 1 in well under a second; all ranks get the same figures.
    /// Collective. With one rank all are 0.
    ///
    /// # Errors
    /// See [`ErrorKind`].
    pub fn wire(&self) -> Result<Wire> {
        unfinished()
    }
}

/// A persistent collective: initialised once, started many times. It owns its buffers.
#[derive(Debug)]
pub struct Persistent<T: Pod> {
    _p: PhantomData<T>,
}

impl<T: Pod> Persistent<T> {
    /// Starts it; no address, key or count is exchanged and nothing is allocated.
    ///
    /// # Errors
    /// See [`ErrorKind`].
    pub fn start(&mut self) -> Result<()> {
        unfinished()
    }

    /// Waits until the started operation has finished here.
    ///
    /// # Errors
    /// See [`ErrorKind`].
    pub fn wait(&mut self) -> Result<()> {
        unfinished()
    }

    /// What is sent (for broadcast: the buffer).
    pub fn input(&mut self) -> &mut [T] {
        &mut []
    }

    /// Where the result is (for broadcast: the buffer).
    pub fn output(&mut self) -> &mut [T] {
        &mut []
    }

    /// How many rounds, puts and bytes the plan says this rank does: (rounds, puts, bytes).
    pub fn planned(&self) -> (u32, u64, u64) {
        (0, 0, 0)
    }
}

/// Registered memory of `T`s; see [`Communicator::alloc`].
#[derive(Debug)]
pub struct Buf<T: Pod> {
    v: Vec<T>,
}

impl<T: Pod> Deref for Buf<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.v
    }
}

impl<T: Pod> DerefMut for Buf<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.v
    }
}
