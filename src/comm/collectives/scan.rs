//! Prefix reductions.

use super::Spec;
use crate::buffer::Buf;
use crate::comm::place::{Contribution, Owned};
use crate::comm::{Communicator, Persistent, Request};
use crate::error::Result;
use crate::ops::{IntoReducer, Reducer};
use crate::plan::registry::Operation;
use bytemuck::Pod;

impl Communicator {
    /// Combines, at every rank, the `send` of ranks 0 up to itself, in rank order (up to associativity), into
    /// `recv`, which has `send.len()` elements. In place the contribution stands in `recv`.
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
        let send = send.slice();
        let spec = self.everywhere_spec::<T>(send.map(<[T]>::len), recv.len(), op.into_reducer());
        self.run(Operation::Scan, spec, send, Some(recv))
    }

    owned!("scan", iscan, scan_init <T>
    (self, send: impl Owned<T>, recv: Buf<T>, op: impl IntoReducer<T>) => {
        let send = send.buffer();
        let spec = self.everywhere_spec::<T>(send.as_ref().map(|s| s.len()), recv.len(), op.into_reducer());
        (Operation::Scan, spec, (send, recv))
    });

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
        let send = send.slice();
        let spec = self.before_spec::<T>(send.map(<[T]>::len), recv.len(), op.into_reducer());
        self.run(Operation::Exscan, spec, send, Some(recv))
    }

    owned!("exscan", iexscan, exscan_init <T>
    (self, send: impl Owned<T>, recv: Buf<T>, op: impl IntoReducer<T>) => {
        let send = send.buffer();
        let spec = self.before_spec::<T>(send.as_ref().map(|s| s.len()), recv.len(), op.into_reducer());
        (Operation::Exscan, spec, (send, recv))
    });

    pub(in crate::comm) fn before_spec<T: Pod>(
        &self,
        send: Option<usize>,
        recv: usize,
        by: Result<Reducer>,
    ) -> Result<Spec> {
        let spec = self.everywhere_spec::<T>(send, recv, by)?;
        Ok(Spec { fill: spec.fill || self.rank() == 0, ..spec })
    }
}
