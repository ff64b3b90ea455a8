//! Prefix reductions.

use super::Spec;
use crate::buffer::Buf;
use crate::comm::calling::Calling;
use crate::comm::place::{Contribution, Owned};
use crate::comm::{Communicator, Persistent, Request};
use crate::error::Result;
use crate::ops::{IntoReducer, Reducer};
use crate::plan::registry::Operation;
use bytemuck::Pod;

impl Communicator {
    /// Combines, at every rank, the `send` of ranks 0 up to itself, in rank order (up to associativity), into
    /// `recv`, which has `send.len()` elements. In place the contribution stands in `recv`, and is sent by way of a copy: each rank
    /// as it likes.
    ///
    /// # Errors
    /// As [`Communicator::reduce`].
    ///
    /// # Examples
    /// ```
    /// use circulant::ops;
    ///
    /// let world = circulant::World::init()?;
    /// let mut up_to_us = [0u64];
    /// world.comm().scan(&[1u64], &mut up_to_us, ops::Sum)?;
    /// assert_eq!(up_to_us[0], world.rank() as u64 + 1);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn scan<'a, T: Pod>(
        &self,
        send: impl Contribution<'a, T>,
        recv: &mut [T],
        op: impl IntoReducer<T>,
    ) -> Result<()> {
        let (send, by) = (send.slice(), op.into_reducer());
        if let Ok(by) = &by {
            let (given, all) = (send.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(recv));
            if let Some(done) = self.short_scan::<T>(Operation::Scan, given, all, by) {
                return done;
            }
        }
        let calling = Calling::of::<T>(Operation::Scan).by(&by);
        if let Some(done) = self.fold_again(&calling, &by, send, Some(&mut *recv)) {
            return done;
        }
        let spec = self.scan_spec::<T>(send.map(<[T]>::len), recv.len(), by);
        self.run_with_copies(calling, spec, send, recv)
    }

    owned!("scan", iscan, scan_init <T, M>
    (self, send: impl Owned<T, M>, recv: Buf<T, M>, op: impl IntoReducer<T>) => {
        let send = send.buffer();
        let spec = self.scan_spec::<T>(send.as_ref().map(|s| s.len()), recv.len(), op.into_reducer());
        (Operation::Scan, spec, (send, recv))
    });

    pub(in crate::comm) fn scan_spec<T: Pod>(
        &self,
        send: Option<usize>,
        recv: usize,
        by: Result<Reducer>,
    ) -> Result<Spec> {
        Ok(self.allreduce_spec::<T>(send, recv, by)?.sent_from_copy(recv * size_of::<T>()))
    }

    /// As [`Communicator::scan`] without our own contribution. Rank 0's `recv` stays as it is.
    ///
    /// # Errors
    /// As [`Communicator::reduce`].
    pub fn exscan<'a, T: Pod>(
        &self,
        send: impl Contribution<'a, T>,
        recv: &mut [T],
        op: impl IntoReducer<T>,
    ) -> Result<()> {
        let (send, by) = (send.slice(), op.into_reducer());
        if let Ok(by) = &by {
            let (given, all) = (send.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(recv));
            if let Some(done) = self.short_scan::<T>(Operation::Exscan, given, all, by) {
                return done;
            }
        }
        let calling = Calling::of::<T>(Operation::Exscan).by(&by);
        if let Some(done) = self.fold_again(&calling, &by, send, Some(&mut *recv)) {
            return done;
        }
        let spec = self.exscan_spec::<T>(send.map(<[T]>::len), recv.len(), by);
        self.run_with_copies(calling, spec, send, recv)
    }

    owned!("exscan", iexscan, exscan_init <T, M>
    (self, send: impl Owned<T, M>, recv: Buf<T, M>, op: impl IntoReducer<T>) => {
        let send = send.buffer();
        let spec = self.exscan_spec::<T>(send.as_ref().map(|s| s.len()), recv.len(), op.into_reducer());
        (Operation::Exscan, spec, (send, recv))
    });

    pub(in crate::comm) fn exscan_spec<T: Pod>(
        &self,
        send: Option<usize>,
        recv: usize,
        by: Result<Reducer>,
    ) -> Result<Spec> {
        let spec = self.scan_spec::<T>(send, recv, by)?;
        Ok(Spec { fill: spec.fill || self.rank() == 0, ..spec })
    }
}
