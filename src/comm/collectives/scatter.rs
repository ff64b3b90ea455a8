//! Scatter(v).

use super::{Spec, bytes_of, own_count, part, ragged, whole};
use crate::buffer::Buf;
use crate::comm::calling::Calling;
use crate::comm::collective::Collective;
use crate::comm::partition::{Parts, lists};
use crate::comm::place::{Destination, Owned};
use crate::comm::{Communicator, Persistent, Request};
use crate::error::Result;
use crate::ops::Element;
use crate::plan::Region;
use crate::plan::alltoall::graph::{self, Edges, Source};
use crate::plan::registry::{Arguments, Operation};
use bytemuck::Pod;

impl Communicator {
    /// Scatters `send` of `root`, an equal part to every rank in rank order, each into its `recv`. `send` matters
    /// at the root only and has `size() * recv.len()` elements; elsewhere it may be empty. In place (the root
    /// only) its part stays in `send`.
    ///
    /// # Errors
    /// As [`Communicator::bcast`]; and when the root's `send` has another length, or another rank is in place.
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let all: Vec<u64> = if comm.rank() == 0 { (0..comm.size() as u64).collect() } else { Vec::new() };
    /// let mut mine = [0u64];
    /// comm.scatter(&all, &mut mine, 0)?;
    /// assert_eq!(mine[0], comm.rank() as u64);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn scatter<'a, T: Pod>(&self, send: &[T], recv: impl Destination<'a, T>, root: usize) -> Result<()> {
        let mut recv = recv.slice();
        let mine = recv.as_deref_mut().map(bytemuck::cast_slice_mut);
        let given = bytemuck::cast_slice(send);
        if let Some(done) = self.short_scatter(Element::of::<T>(), given, mine, root) {
            return done;
        }
        let calling = Calling::of::<T>(Operation::Scatter).at(root);
        if let Some(done) = self.again(&calling, Some(send), recv.as_deref_mut()) {
            return done;
        }
        let spec = self.scatter_spec::<T>(send.len(), recv.as_ref().map(|r| r.len()), root);
        self.run(calling, spec, Some(send), recv)
    }

    owned!("scatter", iscatter, scatter_init <T, M> (self, send: Buf<T, M>, recv: impl Owned<T, M>, root: usize) => {
        let recv = recv.buffer();
        let spec = self.scatter_spec::<T>(send.len(), recv.as_ref().map(|r| r.len()), root);
        (Operation::Scatter, spec, (Some(send), recv.map_or_else(|| self.alloc(0).map(Buf::anywhere), Ok)?))
    });

    pub(in crate::comm) fn scatter_spec<T: Pod>(
        &self,
        send: usize,
        recv: Option<usize>,
        root: usize,
    ) -> Result<Spec> {
        let rank = self.root(root)?;
        let in_place = self.at_root_only(recv.is_none(), root)?;
        let count = recv.map_or_else(|| part("send", send, self.size()), Ok)?;
        if self.rank() == root {
            whole("send", send, count, self.size())?;
        }
        let bytes = bytes_of::<T>(count);
        let arguments = Arguments { root: rank, bytes, in_place, ..Arguments::default() };
        let unused = self.unless_root(root, Region::Input);
        Ok(Spec { arguments, unused, ..Spec::of::<T>() })
    }

    /// Scatters part r of the `send` of `root` to each rank r. `send` matters there only; `parts` must be given at all ranks and
    /// equal there, as for [`Communicator::gatherv`]. `recv.len()` is the count of our own. In place (the root only) its part stays
    /// in `send`.
    ///
    /// # Errors
    /// As [`Communicator::scatter`]; and when counts and displacements do not fit the buffers.
    pub fn scatterv<'a, T: Pod>(
        &self,
        send: &[T],
        parts: impl Parts,
        recv: impl Destination<'a, T>,
        root: usize,
    ) -> Result<()> {
        let mut recv = recv.slice();
        let mine = recv.as_deref_mut().map(bytemuck::cast_slice_mut);
        let given = bytemuck::cast_slice(send);
        let (counts, displs) = lists(&parts);
        if let Some(done) = self.short_scatterv(Element::of::<T>(), given, (counts, &displs), mine, root) {
            return done;
        }
        let calling = Calling::of::<T>(Operation::Scatterv).at(root).of_parts(counts, Some(&displs));
        if let Some(done) = self.again(&calling, Some(send), recv.as_deref_mut()) {
            return done;
        }
        let spec = self.scatterv_spec::<T>(send.len(), &parts, recv.as_ref().map(|r| r.len()), root);
        self.run(calling, spec, Some(send), recv)
    }

    owned!("scatterv", iscatterv, scatterv_init <T, M>
    (self, send: Buf<T, M>, parts: impl Parts, recv: impl Owned<T, M>, root: usize) => {
        let recv = recv.buffer();
        let spec = self.scatterv_spec::<T>(send.len(), &parts, recv.as_ref().map(|r| r.len()), root);
        (Operation::Scatterv, spec, (Some(send), recv.map_or_else(|| self.alloc(0).map(Buf::anywhere), Ok)?))
    });

    pub(in crate::comm) fn scatterv_spec<T: Pod>(
        &self,
        send: usize,
        parts: &impl Parts,
        recv: Option<usize>,
        root: usize,
    ) -> Result<Spec> {
        let (counts, displs) = lists(parts);
        let rank = self.root(root)?;
        let in_place = self.at_root_only(recv.is_none(), root)?;
        let room = (self.rank() == root).then_some(send);
        let (bytes, places) = ragged::<T>("send", room, self.size(), (counts, &displs))?;
        recv.map_or(Ok(()), |len| own_count("recv", len, self.rank(), counts))?;
        let arguments =
            Arguments { root: rank, counts: bytes, displs: places, in_place, ..Arguments::default() };
        let unused = self.unless_root(root, Region::Input);
        Ok(Spec { arguments, unused, ..Spec::of::<T>() })
    }

    /// As [`Communicator::scatterv`], with counts known at the root only, as `MPI_Scatterv` has it: `parts` matter there only, and
    /// may be empty elsewhere. The root puts to every rank by itself, as for [`Communicator::gatherv_rooted`].
    ///
    /// # Errors
    /// As [`Communicator::scatterv`]. A rank whose `recv` has another number of elements than the root sends is an error that names both
    /// numbers, before any of them is sent.
    pub fn scatterv_rooted<'a, T: Pod>(
        &self,
        send: &[T],
        parts: impl Parts,
        recv: impl Destination<'a, T>,
        root: usize,
    ) -> Result<()> {
        let mut recv = recv.slice();
        let mine = recv.as_deref_mut().map(bytemuck::cast_slice_mut);
        let given = bytemuck::cast_slice(send);
        if let Some(done) = self.short_scatterv_rooted(Element::of::<T>(), given, &parts, mine, root) {
            return done;
        }
        let spec = self.scatterv_rooted_spec::<T>(send.len(), &parts, recv.as_ref().map(|r| r.len()), root);
        self.run(Collective::ScattervRooted, spec, Some(send), recv)
    }

    owned!("scatterv_rooted", iscatterv_rooted, scatterv_rooted_init <T, M>
    (self, send: Buf<T, M>, parts: impl Parts, recv: impl Owned<T, M>, root: usize) => {
        let recv = recv.buffer();
        let spec = self.scatterv_rooted_spec::<T>(send.len(), &parts, recv.as_ref().map(|r| r.len()), root);
        (Collective::ScattervRooted, spec, (Some(send), recv.map_or_else(|| self.alloc(0).map(Buf::anywhere), Ok)?))
    });

    /// An exchange along a star: an edge from the root to each rank.
    pub(in crate::comm) fn scatterv_rooted_spec<T: Pod>(
        &self,
        send: usize,
        parts: &impl Parts,
        recv: Option<usize>,
        root: usize,
    ) -> Result<Spec> {
        let (at, me) = (self.root(root)?, self.context.rank);
        self.at_root_only(recv.is_none(), root)?;
        // In place nothing goes from the root to itself.
        let len = bytes_of::<T>(recv.unwrap_or(0));
        let mut edges =
            Edges { sources: vec![Source { peer: at, slot: me, len, at: 0 }], ..Edges::default() };
        if self.rank() == root {
            let blocks = self.blocks_at_root::<T>("send", send, parts, ("recv", recv))?;
            let destination = |(peer, (len, at))| graph::Destination { peer, slot: 0, len, at, target: 0 };
            edges.destinations = (0..).zip(blocks).map(destination).collect();
        }
        let unused = self.unless_root(root, Region::Input);
        Ok(Spec { unused, ..self.star::<T>(at, edges) })
    }
}
