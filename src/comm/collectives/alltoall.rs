//! Alltoall, alltoallv and alltoallw.

use super::{Spec, bytes_of, part, ragged};
use crate::buffer::Buf;
use crate::comm::place::{Contribution, Owned};
use crate::comm::{Communicator, Persistent, Request};
use crate::error::{Result, argument};
use crate::plan::alltoall::Row;
use crate::plan::registry::{Arguments, Operation};
use bytemuck::Pod;
use std::collections::BTreeMap;

/// A rank's block in a buffer of bytes, for [`Communicator::alltoallw`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Where it begins, in bytes.
    pub offset: usize,
    /// How many bytes it has.
    pub len: usize,
}

impl Communicator {
    /// Sends the r-th of `size()` equal parts of `send` to each rank r, and gets those for us into `recv`, in rank
    /// order. Both have the same length at all ranks. In place `recv` is sent, by way of a copy.
    ///
    /// # Errors
    /// As [`Communicator::bcast`]; and when the lengths differ or cannot be shared equally.
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let mut recv = vec![0; comm.size()];
    /// comm.alltoall(&vec![comm.rank(); comm.size()], &mut recv)?;
    /// assert!(recv.iter().enumerate().all(|(r, x)| *x == r));
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn alltoall<T: Pod>(&self, send: impl Contribution<T>, recv: &mut [T]) -> Result<()> {
        let Some(send) = send.slice() else {
            let copy = self.alloc_from(recv)?;
            return self.alltoall(&copy, recv);
        };
        let spec = self.alltoall_spec::<T>(send.len(), recv.len());
        let recv = bytemuck::cast_slice_mut(recv);
        self.run(Operation::Alltoall, spec, Some(bytemuck::cast_slice(send)), Some(recv))
    }

    owned!("alltoall", ialltoall, alltoall_init <T> (self, send: impl Owned<T>, recv: Buf<T>) => {
        let send = send.buffer();
        let spec = self.alltoall_spec::<T>(send.as_ref().map_or(recv.len(), |s| s.len()), recv.len());
        (Operation::Alltoall, spec, (send, recv))
    });

    fn alltoall_spec<T: Pod>(&self, send: usize, recv: usize) -> Result<Spec> {
        if send != recv {
            return Err(argument(format!("send has {send} elements, recv has {recv}")));
        }
        let bytes = bytes_of::<T>(part("send", send, self.size())?);
        Ok(Spec { arguments: Arguments { bytes, ..Arguments::default() }, ..Spec::of::<T>() })
    }

    /// Sends `send_counts[r]` elements from `send[send_displs[r]..]` to each rank r, and gets `recv_counts[r]` of
    /// it into `recv[recv_displs[r]..]`. Nobody needs to know another rank's lists: the open words tell
    /// each peer where its block goes and how long it is. Elements of `recv` between blocks stay as they are. In
    /// place `recv` is sent, by way of a copy, and the send lists are not looked at: the same go as come.
    ///
    /// # Errors
    /// As [`Communicator::bcast`]; when counts and displacements do not fit the buffers, when received blocks
    /// overlap, and when a rank sends a number of elements that its peer does not expect (but one that is expected
    /// to send and has nothing shows by the deadline only).
    pub fn alltoallv<T: Pod>(
        &self,
        send: impl Contribution<T>,
        (send_counts, send_displs): (&[usize], &[usize]),
        recv: &mut [T],
        (recv_counts, recv_displs): (&[usize], &[usize]),
    ) -> Result<()> {
        let Some(send) = send.slice() else {
            let copy = self.alloc_from(recv)?;
            let there = (recv_counts, recv_displs);
            return self.alltoallv(&copy, there, recv, there);
        };
        let spec = self.alltoallv_spec::<T>(
            (send.len(), send_counts, send_displs),
            (recv.len(), recv_counts, recv_displs),
        );
        let recv = bytemuck::cast_slice_mut(recv);
        self.run(Operation::Alltoallv, spec, Some(bytemuck::cast_slice(send)), Some(recv))
    }

    owned!("alltoallv", ialltoallv, alltoallv_init <T>
    (self, send: impl Owned<T>, sent: (&[usize], &[usize]), recv: Buf<T>, received: (&[usize], &[usize])) => {
        let (send, there) = (send.buffer(), (recv.len(), received.0, received.1));
        let sent = send.as_ref().map_or(there, |s| (s.len(), sent.0, sent.1));
        (Operation::Alltoallv, self.alltoallv_spec::<T>(sent, there), (send, recv))
    });

    /// As [`Communicator::alltoallv`] on bytes, each block with its own [`Layout`], so that blocks of
    /// different types can travel together.
    ///
    /// # Errors
    /// As [`Communicator::alltoallv`].
    pub fn alltoallw(
        &self,
        send: impl Contribution<u8>,
        send_layouts: &[Layout],
        recv: &mut [u8],
        recv_layouts: &[Layout],
    ) -> Result<()> {
        let (sent, received) = (lists(send_layouts), lists(recv_layouts));
        self.alltoallv(send, (&sent.0, &sent.1), recv, (&received.0, &received.1))
    }

    owned!("alltoallw", ialltoallw, alltoallw_init
    (self, send: impl Owned<u8>, sent: &[Layout], recv: Buf<u8>, received: &[Layout]): u8 => {
        let (send, sent, received) = (send.buffer(), lists(sent), lists(received));
        let there = (recv.len(), &received.0[..], &received.1[..]);
        let sent = send.as_ref().map_or(there, |s| (s.len(), &sent.0, &sent.1));
        (Operation::Alltoallv, self.alltoallv_spec::<u8>(sent, there), (send, recv))
    });

    fn alltoallv_spec<T: Pod>(
        &self,
        (send, send_counts, send_displs): (usize, &[usize], &[usize]),
        (recv, recv_counts, recv_displs): (usize, &[usize], &[usize]),
    ) -> Result<Spec> {
        let (sendcounts, sdispls) = ragged::<T>("send", Some(send), self.size(), send_counts, send_displs)?;
        let (recvcounts, rdispls) = ragged::<T>("recv", Some(recv), self.size(), recv_counts, recv_displs)?;
        // The peers' open words have the offsets; our own block goes where we say.
        let mut targets = vec![0; self.size()];
        targets[self.rank()] = rdispls[self.rank()];
        let row = Row { sendcounts, sdispls, recvcounts, rdispls, targets };
        let rows = BTreeMap::from([(self.context.rank, row)]);
        Ok(Spec { arguments: Arguments { rows, ..Arguments::default() }, fill: true, ..Spec::of::<T>() })
    }
}

fn lists(layouts: &[Layout]) -> (Vec<usize>, Vec<usize>) {
    layouts.iter().map(|l| (l.len, l.offset)).unzip()
}
