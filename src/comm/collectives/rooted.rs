//! Gatherv and scatterv whose counts only the root knows, as in MPI: an exchange along a star.

use super::{Spec, bytes_of, own_count, ragged};
use crate::buffer::Buf;
use crate::comm::place::{Contribution, Destination as Receives, Owned};
use crate::comm::{Communicator, Persistent, Request};
use crate::error::Result;
use crate::plan::alltoall::graph::{Destination, Edges, Graph, Source};
use crate::plan::registry::{Arguments, Operation};
use bytemuck::Pod;
use std::collections::BTreeMap;

impl Communicator {
    /// As [`Communicator::gatherv`], with counts known at the root only, as `MPI_Gatherv` has it: `counts` and `displs` (in elements)
    /// matter there only, and may be empty elsewhere. Every rank puts to the root by itself, as without the counts there is no tree:
    /// where all know them, `gatherv` is the quicker one for many short contributions.
    ///
    /// # Errors
    /// As [`Communicator::gatherv`]. A rank that sends another number of elements than the root expects is an error that names both
    /// numbers, before any of them is sent.
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let mine = vec![comm.rank() as u32; comm.rank() + 1];
    /// // The root must get to know the counts in some way.
    /// let counts = comm.gather_one(mine.len(), 0)?.unwrap_or_default();
    /// let displs: Vec<usize> = counts.iter().scan(0, |at, n| Some(std::mem::replace(at, *at + n))).collect();
    /// let mut all = vec![0; counts.iter().sum()];
    /// comm.gatherv_rooted(&mine, &mut all, &counts, &displs, 0)?;
    /// assert!(comm.rank() > 0 || all.last() == Some(&(comm.size() as u32 - 1)));
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn gatherv_rooted<T: Pod>(
        &self,
        send: impl Contribution<T>,
        recv: &mut [T],
        counts: &[usize],
        displs: &[usize],
        root: usize,
    ) -> Result<()> {
        let send = send.slice();
        let spec = self.gatherv_rooted_spec::<T>(send.map(<[T]>::len), recv.len(), (counts, displs), root);
        let recv = (self.rank() == root).then(|| bytemuck::cast_slice_mut(recv));
        self.along_graph().run(Operation::Alltoallv, spec, send.map(bytemuck::cast_slice), recv)
    }

    /// [`Communicator::gatherv_rooted`] that returns at once: the [`Request`] owns the buffers and gives them back.
    ///
    /// # Errors
    /// As the blocking call. Arguments are checked at once, the rest comes out while waiting.
    pub fn igatherv_rooted<T: Pod>(
        &self,
        send: impl Owned<T>,
        recv: Buf<T>,
        counts: &[usize],
        displs: &[usize],
        root: usize,
    ) -> Result<Request<T>> {
        let send = send.buffer();
        let given = send.as_ref().map(|s| s.len());
        let spec = self.gatherv_rooted_spec::<T>(given, recv.len(), (counts, displs), root);
        Request::new(&self.along_graph(), Operation::Alltoallv, spec, (send, recv))
    }

    /// [`Communicator::gatherv_rooted`] to be started many times: see [`Persistent`]. Collective.
    ///
    /// # Errors
    /// As the blocking call.
    pub fn gatherv_rooted_init<T: Pod>(
        &self,
        send: impl Owned<T>,
        recv: Buf<T>,
        counts: &[usize],
        displs: &[usize],
        root: usize,
    ) -> Result<Persistent<T>> {
        let send = send.buffer();
        let given = send.as_ref().map(|s| s.len());
        let spec = self.gatherv_rooted_spec::<T>(given, recv.len(), (counts, displs), root);
        Persistent::new(&self.along_graph(), Operation::Alltoallv, spec, (send, recv))
    }

    fn gatherv_rooted_spec<T: Pod>(
        &self,
        send: Option<usize>,
        recv: usize,
        (counts, displs): (&[usize], &[usize]),
        root: usize,
    ) -> Result<Spec> {
        let (at, me) = (self.root(root)?, self.context.rank);
        let in_place = self.at_root_only(send.is_none(), root)?;
        let len = bytes_of::<T>(send.unwrap_or(0));
        let mut edges = Edges::default();
        if !in_place {
            edges.destinations.push(Destination { peer: at, slot: me, len, at: 0, target: 0 });
        }
        if self.rank() == root {
            let (counted, places) = ragged::<T>("recv", Some(recv), self.size(), counts, displs)?;
            send.map_or(Ok(()), |len| own_count("send", len, root, counts))?;
            // In place the root's contribution stands where it belongs, and none may go there.
            let source = |(peer, (len, at)): (u32, (u64, u64))| Source {
                peer,
                slot: 0,
                len: if in_place && peer == me { 0 } else { len },
                at,
            };
            edges.sources = (0..).zip(counted.into_iter().zip(places)).map(source).collect();
        }
        Ok(self.star::<T>(at, edges))
    }

    /// As [`Communicator::scatterv`], with counts known at the root only, as `MPI_Scatterv` has it: `counts` and `displs` (in elements)
    /// matter there only, and may be empty elsewhere. The root puts to every rank by itself, as for
    /// [`Communicator::gatherv_rooted`].
    ///
    /// # Errors
    /// As [`Communicator::scatterv`]. A rank whose `recv` has another number of elements than the root sends is an error that names both
    /// numbers, before any of them is sent.
    pub fn scatterv_rooted<T: Pod>(
        &self,
        send: &[T],
        counts: &[usize],
        displs: &[usize],
        mut recv: impl Receives<T>,
        root: usize,
    ) -> Result<()> {
        let recv = recv.slice();
        let room = recv.as_ref().map(|r| r.len());
        let spec = self.scatterv_rooted_spec::<T>(send.len(), (counts, displs), room, root);
        let send = (self.rank() == root).then(|| bytemuck::cast_slice(send));
        self.along_graph().run(Operation::Alltoallv, spec, send, recv.map(bytemuck::cast_slice_mut))
    }

    /// [`Communicator::scatterv_rooted`] that returns at once: the [`Request`] owns the buffers and gives them back.
    ///
    /// # Errors
    /// As the blocking call. Arguments are checked at once, the rest comes out while waiting.
    pub fn iscatterv_rooted<T: Pod>(
        &self,
        send: Buf<T>,
        counts: &[usize],
        displs: &[usize],
        recv: impl Owned<T>,
        root: usize,
    ) -> Result<Request<T>> {
        let recv = recv.buffer();
        let room = recv.as_ref().map(|r| r.len());
        let spec = self.scatterv_rooted_spec::<T>(send.len(), (counts, displs), room, root);
        let recv = recv.map_or_else(|| self.alloc(0), Ok)?;
        Request::new(&self.along_graph(), Operation::Alltoallv, spec, (Some(send), recv))
    }

    /// [`Communicator::scatterv_rooted`] to be started many times: see [`Persistent`]. Collective.
    ///
    /// # Errors
    /// As the blocking call.
    pub fn scatterv_rooted_init<T: Pod>(
        &self,
        send: Buf<T>,
        counts: &[usize],
        displs: &[usize],
        recv: impl Owned<T>,
        root: usize,
    ) -> Result<Persistent<T>> {
        let recv = recv.buffer();
        let room = recv.as_ref().map(|r| r.len());
        let spec = self.scatterv_rooted_spec::<T>(send.len(), (counts, displs), room, root);
        let recv = recv.map_or_else(|| self.alloc(0), Ok)?;
        Persistent::new(&self.along_graph(), Operation::Alltoallv, spec, (Some(send), recv))
    }

    fn scatterv_rooted_spec<T: Pod>(
        &self,
        send: usize,
        (counts, displs): (&[usize], &[usize]),
        recv: Option<usize>,
        root: usize,
    ) -> Result<Spec> {
        let (at, me) = (self.root(root)?, self.context.rank);
        let in_place = self.at_root_only(recv.is_none(), root)?;
        // In place nothing goes from the root to itself.
        let len = bytes_of::<T>(recv.unwrap_or(0));
        let mut edges =
            Edges { sources: vec![Source { peer: at, slot: me, len, at: 0 }], ..Edges::default() };
        if self.rank() == root {
            let (counted, places) = ragged::<T>("send", Some(send), self.size(), counts, displs)?;
            recv.map_or(Ok(()), |len| own_count("recv", len, root, counts))?;
            let destination = |(peer, (len, at)): (u32, (u64, u64))| {
                let len = if in_place && peer == me { 0 } else { len };
                Destination { peer, slot: 0, len, at, target: 0 }
            };
            edges.destinations = (0..).zip(counted.into_iter().zip(places)).map(destination).collect();
        }
        Ok(self.star::<T>(at, edges))
    }

    fn star<T: Pod>(&self, root: u32, edges: Edges) -> Spec {
        let graph = Graph { multiplicity: 1, edges: BTreeMap::from([(self.context.rank, edges)]) };
        Spec { arguments: Arguments { root, graph, ..Arguments::default() }, fill: true, ..Spec::of::<T>() }
    }
}
