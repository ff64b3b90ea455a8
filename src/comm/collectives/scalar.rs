//! The collectives of one element at each rank, as values instead of slices.

use crate::comm::{Communicator, InPlace};
use crate::error::{Error, ErrorKind, Result};
use crate::ops::IntoReducer;
use bytemuck::{CheckedBitPattern, NoUninit, Pod};

/// A value that the calls on one element take (`allreduce_one`, …): any `bytemuck::Pod`, and besides `bool`, `char` and other
/// types of which not all bytes are a value (`bytemuck::CheckedBitPattern`). What arrives of these is checked.
///
/// It is there for all such types, and cannot be implemented for others.
pub trait Scalar: NoUninit + CheckedBitPattern<Bits: Pod> {}

impl<T: NoUninit + CheckedBitPattern<Bits: Pod>> Scalar for T {}

/// The bytes of a value, as the type of which all bytes are a value.
fn bits<T: Scalar>(value: T) -> T::Bits {
    bytemuck::pod_read_unaligned(bytemuck::bytes_of(&value))
}

/// The value of these bytes.
fn value<T: Scalar>(bits: &T::Bits) -> Result<T> {
    let read = bytemuck::checked::try_pod_read_unaligned(bytemuck::bytes_of(bits));
    read.map_err(|_| {
        let kind = std::any::type_name::<T>();
        Error::new(
            ErrorKind::Argument,
            format!("the result, bytes {}, is no value of type {kind}", shown(bits)),
        )
        .help("use an operator whose results are values of the type: of bool, Land, Lor or Lxor")
    })
}

/// The bytes, in the order of memory.
fn shown<B: Pod>(bits: &B) -> String {
    bytemuck::bytes_of(bits).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn values<T: Scalar>(all: &[T::Bits]) -> Result<Vec<T>> {
    all.iter().map(value).collect()
}

/// One element at each rank, as a value that is passed and a value that is returned. The names are those of the calls on slices
/// with `_one` behind.
///
/// # Errors
/// As the calls on slices; and when the bytes that arrive are no value of `T`, which only this rank may notice: the world goes
/// on then.
impl Communicator {
    /// [`Communicator::bcast`] of one element: the `value` of `root`, at all ranks.
    ///
    /// # Errors
    /// As [`Communicator::bcast`]; and when what arrives is no value of `T`.
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let steps = comm.bcast_one(if comm.rank() == 0 { 100u32 } else { 0 }, 0)?;
    /// assert_eq!(steps, 100);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn bcast_one<T: Scalar>(&self, value: T, root: usize) -> Result<T> {
        let mut one = [bits(value)];
        self.bcast(&mut one, root)?;
        self::value(&one[0])
    }

    /// [`Communicator::allreduce`] of one element: the result, at all ranks. Of `bool` the operators are those of `u8` whose
    /// results are 0 and 1: [`Land`](crate::ops::Land), [`Lor`](crate::ops::Lor), [`Lxor`](crate::ops::Lxor).
    ///
    /// # Errors
    /// As [`Communicator::allreduce`]; and when the result is no value of `T`, such as a sum of `bool`.
    ///
    /// # Examples
    /// ```
    /// use circulant::ops;
    ///
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let norm = comm.allreduce_one(0.25f64, ops::Sum)?.sqrt();
    /// assert_eq!(norm, (0.25 * comm.size() as f64).sqrt());
    /// assert!(comm.allreduce_one(norm > 0.0, ops::Land)?);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn allreduce_one<T: Scalar>(&self, value: T, op: impl IntoReducer<T::Bits>) -> Result<T> {
        let mut one = [bits(value)];
        self.allreduce(InPlace, &mut one, op)?;
        self::value(&one[0])
    }

    /// [`Communicator::reduce`] of one element: the result at `root`, `None` elsewhere.
    ///
    /// # Errors
    /// As [`Communicator::reduce`]; at the root, when the result is no value of `T`.
    pub fn reduce_one<T: Scalar>(
        &self,
        value: T,
        op: impl IntoReducer<T::Bits>,
        root: usize,
    ) -> Result<Option<T>> {
        let (one, mut result) = ([bits(value)], [bits(value)]);
        self.reduce(&one, &mut result, op, root)?;
        (self.rank() == root).then(|| self::value(&result[0])).transpose()
    }

    /// [`Communicator::scan`] of one element: the result of ranks 0 up to ours.
    ///
    /// # Errors
    /// As [`Communicator::scan`]; and when the result is no value of `T`.
    pub fn scan_one<T: Scalar>(&self, value: T, op: impl IntoReducer<T::Bits>) -> Result<T> {
        let mut one = [bits(value)];
        self.scan(InPlace, &mut one, op)?;
        self::value(&one[0])
    }

    /// [`Communicator::exscan`] of one element: the result of the ranks before ours, `None` at rank 0.
    ///
    /// # Errors
    /// As [`Communicator::exscan`]; and when the result is no value of `T`.
    ///
    /// # Examples
    /// ```
    /// use circulant::ops;
    ///
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// // Where our ten lines begin in a file that all ranks write.
    /// let first = comm.exscan_one(10u64, ops::Sum)?.unwrap_or(0);
    /// assert_eq!(first, 10 * comm.rank() as u64);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn exscan_one<T: Scalar>(&self, value: T, op: impl IntoReducer<T::Bits>) -> Result<Option<T>> {
        let mut one = [bits(value)];
        self.exscan(InPlace, &mut one, op)?;
        (self.rank() > 0).then(|| self::value(&one[0])).transpose()
    }

    /// [`Communicator::allgather`] of one element: those of all ranks, in rank order.
    ///
    /// # Errors
    /// As [`Communicator::allgather`]; and when what arrives is no value of `T`.
    pub fn allgather_one<T: Scalar>(&self, value: T) -> Result<Vec<T>> {
        let one = bits(value);
        let mut all = vec![one; self.size()];
        self.allgather(&[one], &mut all)?;
        values(&all)
    }

    /// [`Communicator::gather`] of one element: those of all ranks, in rank order, at `root`; `None` elsewhere.
    ///
    /// # Errors
    /// As [`Communicator::gather`]; at the root, when what arrives is no value of `T`.
    pub fn gather_one<T: Scalar>(&self, value: T, root: usize) -> Result<Option<Vec<T>>> {
        let one = bits(value);
        let mut all = vec![one; if self.rank() == root { self.size() } else { 0 }];
        self.gather(&[one], &mut all, root)?;
        (self.rank() == root).then(|| values(&all)).transpose()
    }

    /// [`Communicator::scatter`] of one element for each rank: element r of the `send` of `root` at rank r. `send` matters at
    /// the root only, and has `size()` elements there.
    ///
    /// # Errors
    /// As [`Communicator::scatter`]; and when what arrives is no value of `T`.
    pub fn scatter_one<T: Scalar>(&self, send: &[T], root: usize) -> Result<T> {
        let send: Vec<T::Bits> = send.iter().map(|value| bits(*value)).collect();
        let mut one = [<T::Bits as bytemuck::Zeroable>::zeroed()];
        self.scatter(&send, &mut one, root)?;
        self::value(&one[0])
    }
}
