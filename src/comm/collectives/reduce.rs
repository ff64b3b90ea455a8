//! Reduce, allreduce and reduce-scatter.

use super::{Spec, bytes_of, own_count, part, reducing, whole};
use crate::buffer::Buf;
use crate::comm::calling::Calling;
use crate::comm::partition::Parts;
use crate::comm::place::{Contribution, Owned};
use crate::comm::{Communicator, Persistent, Request};
use crate::error::{Result, argument};
use crate::ops::{IntoReducer, Reducer};
use crate::plan::Region;
use crate::plan::registry::{Arguments, Operation};
use bytemuck::Pod;

impl Communicator {
    /// Combines the `send` of all ranks, element by element and in rank order (up to associativity; a commutative
    /// operator in any order), into the `recv` of `root`. `recv` matters there only and has `send.len()`
    /// elements. In place (the root only) its contribution stands in `recv`; that costs a copy.
    ///
    /// # Errors
    /// As [`Communicator::bcast`]; when the root's `recv` has another length, when slices of bytes have no whole number of the
    /// operator's elements ([`Reducer::on_bytes`](crate::ops::Reducer::on_bytes)), when ranks disagree on the operator (by name
    /// and type), or when it panics at any rank.
    ///
    /// # Examples
    /// ```
    /// use circulant::ops;
    ///
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let mut sum = [0.0];
    /// comm.reduce(&[0.5], &mut sum, ops::Sum, 0)?;
    /// if comm.rank() == 0 {
    ///     assert_eq!(sum[0], 0.5 * comm.size() as f64);
    /// }
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn reduce<'a, T: Pod>(
        &self,
        send: impl Contribution<'a, T>,
        recv: &mut [T],
        op: impl IntoReducer<T>,
        root: usize,
    ) -> Result<()> {
        let (send, by) = (send.slice(), op.into_reducer());
        if let Ok(by) = &by {
            let (given, all) = (send.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(recv));
            if let Some(done) = self.short_fold::<T>(Some(root), given, all, by) {
                return done;
            }
        }
        let calling = Calling::of::<T>(Operation::Reduce).at(root).by(&by);
        if let Some(done) = self.fold_again(&calling, &by, send, Some(&mut *recv)) {
            return done;
        }
        let spec = self.reduce_spec::<T>(send.map(<[T]>::len), recv.len(), by, root);
        self.run_with_copies(calling, spec, send, recv)
    }

    owned!("reduce", ireduce, reduce_init <T, M>
    (self, send: impl Owned<T, M>, recv: Buf<T, M>, op: impl IntoReducer<T>, root: usize) => {
        let send = send.buffer();
        let spec = self.reduce_spec::<T>(send.as_ref().map(|s| s.len()), recv.len(), op.into_reducer(), root);
        (Operation::Reduce, spec, (send, recv))
    });

    pub(in crate::comm) fn reduce_spec<T: Pod>(
        &self,
        send: Option<usize>,
        recv: usize,
        by: Result<Reducer>,
        root: usize,
    ) -> Result<Spec> {
        let rank = self.root(root)?;
        let in_place = self.at_root_only(send.is_none(), root)?;
        let count = send.unwrap_or(recv);
        if self.rank() == root {
            same(recv, count)?;
        }
        let bytes = bytes_of::<T>(count);
        let arguments = Arguments { root: rank, bytes, in_place, ..Arguments::default() };
        // The others put partial results where the contribution stands.
        let spec = reducing::<T>(by, arguments, false)?.sent_from_copy(recv * size_of::<T>());
        Ok(Spec { unused: self.unless_root(root, Region::Output), ..spec })
    }

    /// Combines the `send` of all ranks as [`Communicator::reduce`], into `recv` of all, which has `send.len()`
    /// elements. In place the contribution stands in `recv`.
    ///
    /// All ranks get the same bits; but of sums and products of floats not by the algorithm `census`, which is
    /// never chosen for these unless it is named. The same bits in another run, too: see
    /// [`Options::reproducible`](crate::Options::reproducible).
    ///
    /// # Errors
    /// As [`Communicator::reduce`].
    ///
    /// # Examples
    /// ```
    /// use circulant::{InPlace, ops};
    ///
    /// let world = circulant::World::init()?;
    /// let mut largest = [world.rank() as u64];
    /// world.comm().allreduce(InPlace, &mut largest, ops::Max)?;
    /// assert_eq!(largest[0], world.size() as u64 - 1);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    /// Elements whose type is known at run time, in slices of bytes that may be aligned as they like:
    /// ```
    /// use circulant::InPlace;
    /// use circulant::ops::{Op, Type, reducer};
    ///
    /// let world = circulant::World::init()?;
    /// let (kind, op): (Type, Op) = ("i32".parse()?, "min".parse()?);
    /// let mut bytes = (-5i32).to_ne_bytes();
    /// world.comm().allreduce(InPlace, &mut bytes, reducer(kind, op)?.on_bytes())?;
    /// assert_eq!(bytes, (-5i32).to_ne_bytes());
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn allreduce<'a, T: Pod>(
        &self,
        send: impl Contribution<'a, T>,
        recv: &mut [T],
        op: impl IntoReducer<T>,
    ) -> Result<()> {
        let (send, by) = (send.slice(), op.into_reducer());
        if let Ok(by) = &by {
            let (given, all) = (send.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(recv));
            if let Some(done) = self.short_fold::<T>(None, given, all, by) {
                return done;
            }
        }
        let calling = Calling::of::<T>(Operation::Allreduce).by(&by);
        if let Some(done) = self.fold_again(&calling, &by, send, Some(&mut *recv)) {
            return done;
        }
        let spec = self.allreduce_spec::<T>(send.map(<[T]>::len), recv.len(), by);
        self.run(calling, spec, send, Some(recv))
    }

    owned!("allreduce", iallreduce, allreduce_init <T, M>
    (self, send: impl Owned<T, M>, recv: Buf<T, M>, op: impl IntoReducer<T>) => {
        let send = send.buffer();
        let spec = self.allreduce_spec::<T>(send.as_ref().map(|s| s.len()), recv.len(), op.into_reducer());
        (Operation::Allreduce, spec, (send, recv))
    });

    pub(in crate::comm) fn allreduce_spec<T: Pod>(
        &self,
        send: Option<usize>,
        recv: usize,
        by: Result<Reducer>,
    ) -> Result<Spec> {
        let (count, in_place) = (send.unwrap_or(recv), send.is_none());
        same(recv, count)?;
        let arguments = Arguments { bytes: bytes_of::<T>(count), in_place, ..Arguments::default() };
        reducing::<T>(by, arguments, in_place)
    }

    /// Combines the `send` of all ranks (`size() * recv.len()` elements) as [`Communicator::reduce`], and gives
    /// every rank r the r-th of `size()` equal parts in `recv`. In place `recv` has all of the contribution, and
    /// its beginning gets the result; what is behind that is lost. It is sent by way of a copy: each rank may be in place as it
    /// likes.
    ///
    /// # Errors
    /// As [`Communicator::reduce`].
    ///
    /// # Examples
    /// ```
    /// use circulant::ops;
    ///
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let mut mine = [0u64];
    /// comm.reduce_scatter_block(&vec![1u64; comm.size()], &mut mine, ops::Sum)?;
    /// assert_eq!(mine[0], comm.size() as u64);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn reduce_scatter_block<'a, T: Pod>(
        &self,
        send: impl Contribution<'a, T>,
        recv: &mut [T],
        op: impl IntoReducer<T>,
    ) -> Result<()> {
        let (send, by) = (send.slice(), op.into_reducer());
        if let Ok(by) = &by {
            let (given, part) = (send.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(recv));
            if let Some(done) = self.short_reduce_scatter_block::<T>(given, part, by) {
                return done;
            }
        }
        let calling = Calling::of::<T>(Operation::ReduceScatterBlock).by(&by);
        if let Some(done) = self.fold_again(&calling, &by, send, Some(&mut *recv)) {
            return done;
        }
        let spec = self.block_spec::<T>(send.map(<[T]>::len), recv.len(), by);
        self.run_with_copies(calling, spec, send, recv)
    }

    owned!("reduce_scatter_block", ireduce_scatter_block, reduce_scatter_block_init <T, M>
    (self, send: impl Owned<T, M>, recv: Buf<T, M>, op: impl IntoReducer<T>) => {
        let send = send.buffer();
        let spec = self.block_spec::<T>(send.as_ref().map(|s| s.len()), recv.len(), op.into_reducer());
        (Operation::ReduceScatterBlock, spec, (send, recv))
    });

    pub(in crate::comm) fn block_spec<T: Pod>(
        &self,
        send: Option<usize>,
        recv: usize,
        by: Result<Reducer>,
    ) -> Result<Spec> {
        let count = match send {
            Some(send) => whole("send", send, recv, self.size()).map(|()| recv)?,
            None => part("recv", recv, self.size())?,
        };
        let in_place = send.is_none();
        let arguments = Arguments { bytes: bytes_of::<T>(count), in_place, ..Arguments::default() };
        Ok(reducing::<T>(by, arguments, in_place)?.sent_from_copy(recv * size_of::<T>()))
    }

    /// As [`Communicator::reduce_scatter_block`] with these parts, one behind the other and equal on all ranks; `send` has all of
    /// them, `recv` has our own (in place: all).
    ///
    /// # Errors
    /// As [`Communicator::reduce`]; and when the parts do not stand one behind the other.
    pub fn reduce_scatter<'a, T: Pod>(
        &self,
        send: impl Contribution<'a, T>,
        recv: &mut [T],
        parts: impl Parts,
        op: impl IntoReducer<T>,
    ) -> Result<()> {
        let (send, by) = (send.slice(), op.into_reducer());
        if let Ok(by) = &by {
            let (given, part) = (send.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(recv));
            let lists = (parts.counts(), parts.displs());
            if let Some(done) = self.short_reduce_scatter::<T>(given, part, lists, by) {
                return done;
            }
        }
        let calling =
            Calling::of::<T>(Operation::ReduceScatter).of_parts(parts.counts(), parts.displs()).by(&by);
        if let Some(done) = self.fold_again(&calling, &by, send, Some(&mut *recv)) {
            return done;
        }
        let spec = self.parts_spec::<T>(send.map(<[T]>::len), recv.len(), &parts, by);
        self.run_with_copies(calling, spec, send, recv)
    }

    owned!("reduce_scatter", ireduce_scatter, reduce_scatter_init <T, M>
    (self, send: impl Owned<T, M>, recv: Buf<T, M>, parts: impl Parts, op: impl IntoReducer<T>) => {
        let send = send.buffer();
        let spec = self.parts_spec::<T>(send.as_ref().map(|s| s.len()), recv.len(), &parts, op.into_reducer());
        (Operation::ReduceScatter, spec, (send, recv))
    });

    pub(in crate::comm) fn parts_spec<T: Pod>(
        &self,
        send: Option<usize>,
        recv: usize,
        parts: &impl Parts,
        by: Result<Reducer>,
    ) -> Result<Spec> {
        let counts = parts.counts();
        if counts.len() != self.size() {
            return Err(argument(format!("{} counts for {} ranks", counts.len(), self.size())));
        }
        let mut total = Some(0usize);
        for (r, count) in counts.iter().enumerate() {
            let displ = parts.displs().map_or(total, |displs| displs.get(r).copied());
            if *count > 0 && displ != total {
                return Err(argument(format!("part {r} does not begin where the one before it ends")));
            }
            total = total.and_then(|sum| sum.checked_add(*count));
        }
        let held = send.unwrap_or(recv);
        if total != Some(held) {
            let what = if send.is_some() { "send" } else { "recv" };
            let sum = total.map_or_else(|| "more than memory".to_owned(), |total| total.to_string());
            return Err(argument(format!("{what} has {held} elements, the counts sum to {sum}")));
        }
        if send.is_some() {
            own_count("recv", recv, self.rank(), counts)?;
        }
        let counts = counts.iter().map(|n| bytes_of::<T>(*n)).collect();
        let in_place = send.is_none();
        let arguments = Arguments { counts, in_place, ..Arguments::default() };
        Ok(reducing::<T>(by, arguments, in_place)?.sent_from_copy(recv * size_of::<T>()))
    }
}

fn same(recv: usize, count: usize) -> Result<()> {
    if recv == count {
        return Ok(());
    }
    Err(argument(format!("recv has {recv} elements, send has {count}")))
}
