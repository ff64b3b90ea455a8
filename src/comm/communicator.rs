//! The collectives, as users call them.

use super::call::Asked;
use super::world::{Shared, lock_shared};
use crate::buffer::{ALIGN, Buf, Loan, Wire};
use crate::error::{Error, Result, argument};
use crate::plan::registry::{Arguments, Operation};
use bytemuck::Pod;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// What a call may choose; everything else comes from the settings.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How long the call may take before it fails on every rank.
    pub deadline: Option<Duration>,
    /// Blocks per message (`None`: by the rule). Must be equal on all ranks.
    pub blocks: Option<u32>,
    /// Algorithm by its registry name (`None`: by selection). Must be equal on all ranks.
    pub algorithm: Option<String>,
    /// Fold in the one order of the operation, whatever size, blocks and nodes: the same bits from every such call
    /// on the same ranks. So does the setting CIRCULANT_REPRODUCIBLE. Must be equal on all ranks.
    pub reproducible: bool,
}

/// A group of ranks that call collectives together, one after the other. Cheap to clone; clones are the same
/// communicator. One call at a time: a second thread waits for the first one's call.
#[derive(Clone, Debug)]
pub struct Communicator {
    pub(super) shared: Arc<Mutex<Shared>>,
    rank: usize,
    size: usize,
    options: Options,
}

impl Communicator {
    pub(super) fn new(shared: Arc<Mutex<Shared>>, rank: usize, size: usize) -> Self {
        Self { shared, rank, size, options: Options::default() }
    }

    /// Our rank in it.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Its number of ranks.
    pub fn size(&self) -> usize {
        self.size
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
        if align_of::<T>() > ALIGN {
            return Err(argument(format!(
                "elements aligned to {} bytes: buffers are to {ALIGN}",
                align_of::<T>()
            )));
        }
        let mut shared = self.lock();
        let shared = &mut *shared;
        let block = shared.arena.alloc(bytes, shared.engine.transport())?;
        Ok(Buf::new(block, len))
    }

    /// Broadcasts `buf` of rank `root` to all: n blocks in n−1+⌈log2 p⌉ rounds, for any p, n and root
    /// (Träff 2022, Algorithm 6; each rank gets each block exactly once). `buf` has the same length at all
    /// ranks; the root's is sent, the others' are overwritten.
    ///
    /// # Errors
    /// When `root` is out of range, ranks disagree on root or length, the deadline passes, or a rank is lost.
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let mut data = comm.alloc::<f64>(1000)?;
    /// if comm.rank() == 0 {
    ///     data.fill(1.0);
    /// }
    /// comm.bcast(&mut data, 0)?;
    /// assert!(data.iter().all(|x| *x == 1.0));
    ///
    /// // A plain slice will do, too; there is no rank `size()`.
    /// let mut word = [0u8; 4];
    /// comm.bcast(&mut word, 0)?;
    /// let error = comm.bcast(&mut word, comm.size()).unwrap_err();
    /// assert_eq!(error.kind(), circulant::ErrorKind::Argument);
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn bcast<T: Pod>(&self, buf: &mut [T], root: usize) -> Result<()> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(buf);
        let root = self.check_root(Operation::Bcast, root)?;
        let arguments = Arguments { root, bytes: bytes.len() as u64, ..Arguments::default() };
        let asked = self.asked(Operation::Bcast, arguments)?;
        let fill = self.rank == root as usize;
        self.run(&asked, None, Some(Loan::Unique { bytes, fill }))
    }

    /// Gathers `send` of all, in rank order, into `recv` (`size() * send.len()` elements) in ⌈log2 p⌉ rounds
    /// (Träff 2022, Algorithm 7, without its rotation).
    ///
    /// # Errors
    /// As [`Communicator::bcast`]; and when `recv` has another length.
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let mut all = vec![0; comm.size()];
    /// comm.allgather(&[comm.rank() as u64 * 10], &mut all)?;
    /// assert!(all.iter().enumerate().all(|(r, x)| *x == r as u64 * 10));
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn allgather<T: Pod>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        if Some(recv.len()) != send.len().checked_mul(self.size) {
            let e = argument(format!(
                "recv has {} elements, which are not {} from each of {} ranks",
                recv.len(),
                send.len(),
                self.size
            ));
            return Err(self.refuse(Operation::Allgather, e));
        }
        let arguments = Arguments { bytes: size_of_val(send) as u64, ..Arguments::default() };
        let asked = self.asked(Operation::Allgather, arguments)?;
        let bytes = bytemuck::cast_slice_mut(recv);
        let output = Loan::Unique { bytes, fill: false };
        self.run(&asked, Some(Loan::Shared(bytemuck::cast_slice(send))), Some(output))
    }

    /// Gathers `counts[r]` elements of each rank r to `recv[displs[r]..]` at all ranks, by p simultaneous
    /// broadcasts in n−1+⌈log2 p⌉ rounds (Träff 2022, Algorithm 9). Elements of `recv` that no rank
    /// contributes to stay as they are.
    ///
    /// `counts` and `displs` (in elements) must be equal on all ranks; `send.len()` is our own count.
    ///
    /// # Errors
    /// As [`Communicator::bcast`]; and when counts and displacements do not fit the buffers or overlap.
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// // Rank r contributes r + 1 numbers, each equal to r, one behind the other.
    /// let counts: Vec<usize> = (1..=comm.size()).collect();
    /// let displs: Vec<usize> = (0..comm.size()).map(|r| r * (r + 1) / 2).collect();
    /// let send = vec![comm.rank() as u32; counts[comm.rank()]];
    /// let mut recv = comm.alloc::<u32>(counts.iter().sum())?;
    /// comm.allgatherv(&send, &mut recv, &counts, &displs)?;
    /// assert_eq!(recv[displs[comm.size() - 1]], comm.size() as u32 - 1);
    /// # drop(recv);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn allgatherv<T: Pod>(
        &self,
        send: &[T],
        recv: &mut [T],
        counts: &[usize],
        displs: &[usize],
    ) -> Result<()> {
        self.gather(Some(send), recv, counts, displs)
    }

    /// As [`Communicator::allgatherv`], our contribution standing in `recv[displs[rank]..]` already.
    ///
    /// # Errors
    /// As [`Communicator::allgatherv`].
    pub fn allgatherv_in_place<T: Pod>(
        &self,
        recv: &mut [T],
        counts: &[usize],
        displs: &[usize],
    ) -> Result<()> {
        self.gather(None, recv, counts, displs)
    }

    fn gather<T: Pod>(
        &self,
        send: Option<&[T]>,
        recv: &mut [T],
        counts: &[usize],
        displs: &[usize],
    ) -> Result<()> {
        let arguments = self
            .gather_arguments::<T>(send.map(<[T]>::len), recv.len(), counts, displs)
            .map_err(|e| self.refuse(Operation::Allgatherv, e))?;
        let asked = self.asked(Operation::Allgatherv, arguments)?;
        // Gaps between contributions keep their contents, so a staged copy must know them.
        let output = Loan::Unique { bytes: bytemuck::cast_slice_mut(recv), fill: true };
        self.run(&asked, send.map(|s| Loan::Shared(bytemuck::cast_slice(s))), Some(output))
    }

    pub(super) fn gather_arguments<T: Pod>(
        &self,
        send: Option<usize>,
        recv: usize,
        counts: &[usize],
        displs: &[usize],
    ) -> Result<Arguments> {
        let p = self.size;
        if counts.len() != p || displs.len() != p {
            return Err(argument(format!(
                "{} counts and {} displacements for {p} ranks",
                counts.len(),
                displs.len()
            )));
        }
        if let Some(len) = send
            && len != counts[self.rank]
        {
            return Err(argument(format!(
                "send has {len} elements, counts[{}] says {}",
                self.rank, counts[self.rank]
            )));
        }
        for (r, (count, displ)) in counts.iter().zip(displs).enumerate() {
            if displ.checked_add(*count).is_none_or(|end| end > recv) && *count > 0 {
                return Err(argument(format!(
                    "rank {r}'s {count} elements at {displ} do not fit into recv, which has {recv}"
                )));
            }
        }
        // Where nothing goes does not matter, and need not be a place. All else lies in `recv`: no overflow.
        let bytes = |n: usize| n as u64 * size_of::<T>() as u64;
        let place = |(displ, count): (&usize, &usize)| if *count == 0 { 0 } else { bytes(*displ) };
        Ok(Arguments {
            counts: counts.iter().map(|n| bytes(*n)).collect(),
            displs: displs.iter().zip(counts).map(place).collect(),
            in_place: send.is_none(),
            ..Arguments::default()
        })
    }

    /// Returns when all ranks have entered: ⌈log2 p⌉ rounds of notifications on the circulant graph.
    ///
    /// # Errors
    /// As [`Communicator::bcast`].
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let world = circulant::World::init()?;
    /// world.comm().barrier()?;
    /// // A deadline of its own for one call, in place of CIRCULANT_DEADLINE:
    /// let options = circulant::Options { deadline: Some(Duration::from_secs(5)), ..Default::default() };
    /// world.comm().with(options).barrier()?;
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn barrier(&self) -> Result<()> {
        self.run(&self.asked(Operation::Barrier, Arguments::default())?, None, None)
    }

    /// Completes the arguments of a call by what the communicator knows and its options choose.
    pub(super) fn asked(&self, operation: Operation, arguments: Arguments) -> Result<Asked> {
        let shared = self.lock();
        let blocks = self.options.blocks.or(shared.blocks);
        let arguments = Arguments { size: self.place().1, blocks, ..arguments };
        let name = self.options.algorithm.as_deref();
        let found = shared.selection.choose(operation, &arguments, name, self.options.reproducible);
        drop(shared);
        match found {
            Ok(_) if blocks == Some(0) => Err(self.refuse(operation, argument("0 blocks"))),
            Ok(algorithm) => Ok(Asked { operation, algorithm, arguments }),
            Err(e) => Err(self.refuse(operation, e)),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Shared> {
        lock_shared(&self.shared)
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.options.deadline
    }

    /// Our rank and size as the engine counts them; a world never has more than 2^32 ranks.
    pub(super) fn place(&self) -> (u32, u32) {
        (u32::try_from(self.rank).unwrap_or(u32::MAX), u32::try_from(self.size).unwrap_or(u32::MAX))
    }

    fn run(&self, asked: &Asked, input: Option<Loan<'_>>, output: Option<Loan<'_>>) -> Result<()> {
        self.lock().run(self.place().0, asked, input, output, self.options.deadline)
    }

    pub(super) fn refuse(&self, operation: Operation, e: Error) -> Error {
        self.lock().refuse(operation, e)
    }

    pub(super) fn check_root(&self, operation: Operation, root: usize) -> Result<u32> {
        match u32::try_from(root) {
            Ok(r) if root < self.size => Ok(r),
            _ => {
                let e =
                    argument(format!("root {root} is out of range: there are ranks 0 to {}", self.size - 1));
                Err(self.refuse(operation, e))
            }
        }
    }
}
