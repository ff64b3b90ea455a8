//! Alltoall, alltoallv and alltoallw.

use super::{Spec, bytes_of, part, ragged};
use crate::buffer::{Buf, MAX_GATHER, Wire};
use crate::comm::calling::Calling;
use crate::comm::collective::Collective;
use crate::comm::layout::{Layout, apart, blocks};
use crate::comm::partition::{Parts, lists};
use crate::comm::place::{Contribution, Owned};
use crate::comm::shadow::{Copies, Piece};
use crate::comm::{Communicator, Persistent, Request};
use crate::error::{Result, argument};
use crate::ops::Element;
use crate::plan::alltoall::Row;
use crate::plan::registry::{Arguments, Operation};
use crate::transport::Borrow;
use bytemuck::Pod;

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
    pub fn alltoall<'a, T: Pod>(&self, send: impl Contribution<'a, T>, recv: &mut [T]) -> Result<()> {
        let send = send.slice();
        let (given, all) = (send.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(recv));
        if let Some(done) = self.short_alltoall(Element::of::<T>(), given, all) {
            return done;
        }
        let calling = Calling::of::<T>(Operation::Alltoall);
        if let Some(done) = self.again(&calling, send, Some(&mut *recv)) {
            return done;
        }
        let spec = self.alltoall_spec::<T>(send.map(<[T]>::len), recv.len());
        self.run_with_copies(calling, spec, send, recv)
    }

    owned!("alltoall", ialltoall, alltoall_init <T, M> (self, send: impl Owned<T, M>, recv: Buf<T, M>) => {
        let send = send.buffer();
        let spec = self.alltoall_spec::<T>(send.as_ref().map(|s| s.len()), recv.len());
        (Operation::Alltoall, spec, (send, recv))
    });

    pub(in crate::comm) fn alltoall_spec<T: Pod>(&self, send: Option<usize>, recv: usize) -> Result<Spec> {
        let (count, in_place) = (send.unwrap_or(recv), send.is_none());
        if count != recv {
            return Err(argument(format!("send has {count} elements, recv has {recv}")));
        }
        let what = if in_place { "recv" } else { "send" };
        let bytes = bytes_of::<T>(part(what, count, self.size())?);
        let arguments = Arguments { bytes, in_place, ..Arguments::default() };
        Ok(Spec { arguments, ..Spec::of::<T>() }.sent_from_copy(recv * size_of::<T>()))
    }

    /// Sends part r of `send`, as `sent` says, to each rank r, and gets what it sends us into part r of `recv`, as `received` says.
    /// No rank needs to know another rank's counts: the ready messages tell each peer where its block goes and how long it is.
    /// Elements of `recv` that are in no part stay as they are. In place `recv` is sent, by way of a copy, and `sent` is not looked
    /// at: the same parts go as come.
    ///
    /// # Errors
    /// As [`Communicator::bcast`]; when counts and displacements do not fit the buffers, when received blocks
    /// overlap, and when a rank sends a number of elements that its peer does not expect (but one that is expected
    /// to send and has nothing shows by the deadline only).
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let (r, p) = (comm.rank(), comm.size());
    /// // Rank r sends r numbers to each rank, so it gets s numbers of rank s.
    /// let (sent, received) = (vec![r; p], (0..p).collect::<Vec<_>>());
    /// let mut recv = vec![0; received.iter().sum()];
    /// comm.alltoallv(&vec![r; r * p], &sent, &mut recv, &received)?;
    /// assert!(p < 2 || recv.last() == Some(&(p - 1)));
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn alltoallv<'a, T: Pod>(
        &self,
        send: impl Contribution<'a, T>,
        sent: impl Parts,
        recv: &mut [T],
        received: impl Parts,
    ) -> Result<()> {
        let send = send.slice();
        let (given, all) = (send.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(recv));
        if let Some(done) = self.short_alltoallv(Element::of::<T>(), (given, &sent), (all, &received)) {
            return done;
        }
        let spec = self.alltoallv_spec::<T>(send.map(<[T]>::len), &sent, recv.len(), &received);
        self.run_with_copies(Operation::Alltoallv, spec, send, recv)
    }

    owned!("alltoallv", ialltoallv, alltoallv_init <T, M>
    (self, send: impl Owned<T, M>, sent: impl Parts, recv: Buf<T, M>, received: impl Parts) => {
        let send = send.buffer();
        let spec = self.alltoallv_spec::<T>(send.as_ref().map(|s| s.len()), &sent, recv.len(), &received);
        (Operation::Alltoallv, spec, (send, recv))
    });

    /// In place what comes says what goes, too.
    pub(in crate::comm) fn alltoallv_spec<T: Pod>(
        &self,
        send: Option<usize>,
        sent: &impl Parts,
        recv: usize,
        received: &impl Parts,
    ) -> Result<Spec> {
        let (size, (counts, displs)) = (self.size(), lists(received));
        let (recvcounts, rdispls) = ragged::<T>("recv", Some(recv), size, (counts, &displs))?;
        let (sendcounts, sdispls) = match send {
            None => (recvcounts.clone(), rdispls.clone()),
            Some(len) => {
                let (counts, displs) = lists(sent);
                ragged::<T>("send", Some(len), size, (counts, &displs))?
            }
        };
        let arguments = self.exchange((sendcounts, sdispls), (recvcounts, rdispls));
        let arguments = Arguments { in_place: send.is_none(), ..arguments };
        Ok(Spec { arguments, fill: true, ..Spec::of::<T>() }.sent_from_copy(recv * size_of::<T>()))
    }

    /// As [`Communicator::alltoallv`] on bytes, which need not lie together: `sent` and `received` have a [`Layout`] for each rank. How
    /// the bytes are cut into pieces may differ between the two sides; to each peer must go as many as it expects. Bytes of `recv` that are
    /// in no piece stay as they are, and pieces that are sent may overlap. In place the pieces of `received` are sent, and `sent` is
    /// not looked at.
    ///
    /// If no layout of a side has more than one piece, its bytes move from the buffer, or into it, without a copy. So do those that are sent
    /// where each layout has as many pieces as a put gathers (on RDMA hardware up to 30), and the buffer is registered or is lent without a
    /// copy. Else they go by way of memory of the library.
    ///
    /// # Errors
    /// As [`Communicator::alltoallv`]; when there is not a layout for each rank, a piece does not fit the buffer, or received pieces
    /// overlap. A rank that sends another number of bytes than its peer expects is an error that names both, before any of them is
    /// sent (but if one of them is 0 it shows by the deadline only).
    ///
    /// # Examples
    /// ```
    /// use circulant::comm::Layout;
    ///
    /// // A square matrix of which each rank has a row of p numbers: of the transposed one it gets a row, a column of the old one.
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let (r, p) = (comm.rank(), comm.size());
    /// let row: Vec<u8> = (0..p).map(|column| (r * p + column) as u8).collect();
    /// let mut column = vec![0; p];
    /// let one = |i| Layout::new([(i, 1)]);
    /// let each = (0..p).map(one).collect::<Result<Vec<_>, _>>()?;
    /// comm.alltoallw(&row, &each, &mut column, &each)?;
    /// assert!((0..p).all(|row| column[row] == (row * p + r) as u8));
    /// // Every second byte to ourselves, in the other order.
    /// let none = vec![Layout::default(); p];
    /// let (mut sent, mut received) = (none.clone(), none);
    /// sent[r] = Layout::strided(0, 2, 1, 2)?;
    /// received[r] = Layout::new([(1, 1), (0, 1)])?;
    /// let mut swapped = [0; 2];
    /// comm.alltoallw(&[5, 6, 7], &sent, &mut swapped, &received)?;
    /// assert_eq!(swapped, [7, 5]);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn alltoallw<'a>(
        &self,
        send: impl Contribution<'a, u8>,
        sent: &[Layout],
        recv: &mut [u8],
        received: &[Layout],
    ) -> Result<()> {
        let send = send.slice();
        let spec = self.alltoallw_spec((send.map(<[u8]>::len), false), sent, recv.len(), received);
        self.run_with_copies(Collective::Alltoallw, spec, send, recv)
    }

    owned!("alltoallw", ialltoallw, alltoallw_init <M>
    (self, send: impl Owned<u8, M>, sent: &[Layout], recv: Buf<u8, M>, received: &[Layout]): u8 => {
        let send = send.buffer();
        let spec = self.alltoallw_spec((send.as_ref().map(|s| s.len()), true), sent, recv.len(), received);
        (Collective::Alltoallw, spec, (send, recv))
    });

    /// `owned`: what is sent is memory of a [`Buf`].
    pub(in crate::comm) fn alltoallw_spec(
        &self,
        (send, owned): (Option<usize>, bool),
        sent: &[Layout],
        recv: usize,
        received: &[Layout],
    ) -> Result<Spec> {
        let into = blocks(("recv", recv), self.size(), received, false)?;
        apart(received)?;
        let mut out = match send {
            Some(send) => blocks(("send", send), self.size(), sent, false)?,
            None => blocks(("recv", recv), self.size(), received, true)?,
        };
        let most = match (send, &out.pieces) {
            (Some(send), Some(_)) => self.gathered_of(send, owned),
            _ => 0,
        };
        let gathers = most > 0 && sent.iter().all(|layout| layout.pieces().len() <= most);
        let gathered =
            out.pieces.take_if(|_| gathers).map(|pieces| pieces.iter().map(Piece::input).collect());
        let arguments = self.exchange((out.counts, out.displs), (into.counts, into.displs));
        let copied = out.pieces.is_some() || into.pieces.is_some();
        let copies = Copies { sent: out.pieces, received: into.pieces, kept: None };
        let copies = copied.then(|| Box::new(copies));
        Ok(Spec { arguments, fill: true, copies, gathered, ..Spec::of::<u8>() })
    }

    /// How many pieces of a send buffer of `len` bytes a put gathers from where they are: 0 if all of the buffer would be copied for that.
    fn gathered_of(&self, len: usize, owned: bool) -> usize {
        let Ok(held) = self.hold() else { return 0 };
        match held.engine.limits() {
            Some(limits) if owned || (held.borrow_mode(len) == Borrow::Direct && !held.goes_on()) => {
                limits.gather.min(MAX_GATHER)
            }
            _ => 0,
        }
    }

    /// What this rank sends and receives, each as counts and displacements.
    pub(in crate::comm) fn exchange(
        &self,
        (sendcounts, sdispls): (Vec<u64>, Vec<u64>),
        (recvcounts, rdispls): (Vec<u64>, Vec<u64>),
    ) -> Arguments {
        // The peers' ready messages have the offsets; our own block goes where we say.
        let mut targets = vec![0; self.size()];
        targets[self.rank()] = rdispls[self.rank()];
        let row = Row { sendcounts, sdispls, recvcounts, rdispls, targets };
        Arguments { rows: [(self.context.rank, row)].into(), ..Arguments::default() }
    }
}
