//! Gather(v) and allgather(v).

use super::{Spec, bytes_of, own_count, own_places, part, ragged, whole};
use crate::buffer::Buf;
use crate::comm::calling::Calling;
use crate::comm::collective::Collective;
use crate::comm::partition::{Parts, Places, lists};
use crate::comm::place::{Contribution, Owned};
use crate::comm::{Communicator, Persistent, Request};
use crate::error::Result;
use crate::ops::Element;
use crate::plan::Region;
use crate::plan::alltoall::graph::{Destination, Edges, Source};
use crate::plan::registry::{Arguments, Operation};
use bytemuck::Pod;

impl Communicator {
    /// Gathers `send` of all, in rank order, into `recv` (`size() * send.len()` elements) in ⌈log2 p⌉ rounds
    /// (Träff 2022, Algorithm 7, without its rotation). In place our contribution stands in
    /// `recv[rank * n..]` already.
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
    pub fn allgather<'a, T: Pod>(&self, send: impl Contribution<'a, T>, recv: &mut [T]) -> Result<()> {
        let send = send.slice();
        let (given, all) = (send.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(recv));
        if let Some(done) = self.short_allgather(Element::of::<T>(), given, all) {
            return done;
        }
        let calling = Calling::of::<T>(Operation::Allgather);
        if let Some(done) = self.again(&calling, send, Some(&mut *recv)) {
            return done;
        }
        let spec = self.allgather_spec::<T>(send.map(<[T]>::len), recv.len());
        self.run(calling, spec, send, Some(recv))
    }

    owned!("allgather", iallgather, allgather_init <T, M> (self, send: impl Owned<T, M>, recv: Buf<T, M>) => {
        let send = send.buffer();
        let spec = self.allgather_spec::<T>(send.as_ref().map(|s| s.len()), recv.len());
        (Operation::Allgather, spec, (send, recv))
    });

    pub(in crate::comm) fn allgather_spec<T: Pod>(&self, send: Option<usize>, recv: usize) -> Result<Spec> {
        let count = send.map_or_else(|| part("recv", recv, self.size()), Ok)?;
        whole("recv", recv, count, self.size())?;
        let in_place = send.is_none();
        let arguments = Arguments { bytes: bytes_of::<T>(count), in_place, ..Arguments::default() };
        Ok(Spec { arguments, fill: in_place, ..Spec::of::<T>() })
    }

    /// Gathers the `send` of each rank r to part r of `recv` at all ranks, by p simultaneous
    /// broadcasts in n−1+⌈log2 p⌉ rounds (Träff 2022, Algorithm 9). Elements of `recv` that are in no part
    /// stay as they are. In place our contribution stands in our part of `recv` already.
    ///
    /// `parts` must be equal on all ranks, but for displacements of [`Local`](crate::comm::Local) parts, which each rank has of its
    /// own; `send.len()` is the count of our own.
    ///
    /// # Errors
    /// As [`Communicator::bcast`]; and when counts and displacements do not fit the buffers or overlap.
    ///
    /// # Examples
    /// ```
    /// use circulant::comm::Partition;
    ///
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// // Rank r contributes r + 1 numbers, each equal to r, one behind the other.
    /// let parts = Partition::contiguous((1..=comm.size()).collect::<Vec<_>>())?;
    /// let send = vec![comm.rank() as u32; comm.rank() + 1];
    /// let mut recv = comm.alloc::<u32>(parts.extent())?;
    /// comm.allgatherv(&send, &mut recv, &parts)?;
    /// assert!((0..comm.size()).all(|r| recv[parts.range(r)].iter().all(|x| *x == r as u32)));
    /// # drop(recv);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn allgatherv<'a, T: Pod>(
        &self,
        send: impl Contribution<'a, T>,
        recv: &mut [T],
        parts: impl Parts,
    ) -> Result<()> {
        let (send, places) = (send.slice(), Places::of(&parts));
        let (given, all) = (send.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(recv));
        if let Some(done) = self.short_allgatherv(Element::of::<T>(), given, all, &places) {
            return done;
        }
        let calling = match places.own {
            None => Calling::of::<T>(Operation::Allgatherv).of_parts(places.counts, Some(&places.displs)),
            Some(_) => Operation::Allgatherv.into(),
        };
        if let Some(done) = self.again(&calling, send, Some(&mut *recv)) {
            return done;
        }
        let spec = self.allgatherv_spec::<T>(send.map(<[T]>::len), recv.len(), &places);
        self.run_with_copies(calling, spec, send, recv)
    }

    owned!("allgatherv", iallgatherv, allgatherv_init <T, M>
    (self, send: impl Owned<T, M>, recv: Buf<T, M>, parts: impl Parts) => {
        let (send, places) = (send.buffer(), Places::of(&parts));
        let spec = self.allgatherv_spec::<T>(send.as_ref().map(|s| s.len()), recv.len(), &places);
        (Operation::Allgatherv, spec, (send, recv))
    });

    pub(in crate::comm) fn allgatherv_spec<T: Pod>(
        &self,
        send: Option<usize>,
        recv: usize,
        places: &Places<'_>,
    ) -> Result<Spec> {
        let in_place = send.is_none();
        let kept = in_place.then(|| self.rank());
        let copies = own_places::<T>(places, recv, self.size(), kept)?;
        let (counts, displs) = ragged::<T>("recv", Some(recv), self.size(), (places.counts, &places.displs))?;
        send.map_or(Ok(()), |len| own_count("send", len, self.rank(), places.counts))?;
        let arguments = Arguments { counts, displs, in_place, ..Arguments::default() };
        // Gaps between contributions keep their contents.
        Ok(Spec { arguments, fill: true, copies, ..Spec::of::<T>() })
    }

    /// Gathers `send` of all ranks, in rank order, into the `recv` of `root`. `recv` matters there only and has
    /// `size() * send.len()` elements; elsewhere it may be empty. In place (the root only) its contribution stands
    /// in `recv` already.
    ///
    /// # Errors
    /// As [`Communicator::bcast`]; and when the root's `recv` has another length, or another rank is in place.
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let mut all = vec![0; if comm.rank() == 0 { comm.size() } else { 0 }];
    /// comm.gather(&[comm.rank()], &mut all, 0)?;
    /// assert!(all.iter().enumerate().all(|(r, x)| *x == r));
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn gather<'a, T: Pod>(
        &self,
        send: impl Contribution<'a, T>,
        recv: &mut [T],
        root: usize,
    ) -> Result<()> {
        let send = send.slice();
        let (given, all) = (send.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(recv));
        if let Some(done) = self.short_gather(Element::of::<T>(), given, all, root) {
            return done;
        }
        let calling = Calling::of::<T>(Operation::Gather).at(root);
        if let Some(done) = self.again(&calling, send, Some(&mut *recv)) {
            return done;
        }
        let spec = self.gather_spec::<T>(send.map(<[T]>::len), recv.len(), root);
        self.run(calling, spec, send, Some(recv))
    }

    owned!("gather", igather, gather_init <T, M> (self, send: impl Owned<T, M>, recv: Buf<T, M>, root: usize) => {
        let send = send.buffer();
        let spec = self.gather_spec::<T>(send.as_ref().map(|s| s.len()), recv.len(), root);
        (Operation::Gather, spec, (send, recv))
    });

    pub(in crate::comm) fn gather_spec<T: Pod>(
        &self,
        send: Option<usize>,
        recv: usize,
        root: usize,
    ) -> Result<Spec> {
        let rank = self.root(root)?;
        let in_place = self.at_root_only(send.is_none(), root)?;
        let count = send.map_or_else(|| part("recv", recv, self.size()), Ok)?;
        if self.rank() == root {
            whole("recv", recv, count, self.size())?;
        }
        let bytes = bytes_of::<T>(count);
        let arguments = Arguments { root: rank, bytes, in_place, ..Arguments::default() };
        let unused = self.unless_root(root, Region::Output);
        Ok(Spec { arguments, fill: in_place, unused, ..Spec::of::<T>() })
    }

    /// Gathers the `send` of each rank r to part r of `recv` at `root`. `recv` matters there only;
    /// `parts` must be given at all ranks and equal there: unlike MPI's, because all know
    /// the tree, whose shape follows the counts. Where only the root knows them: [`Communicator::gatherv_rooted`]. In place (the root
    /// only) its contribution stands in `recv`.
    ///
    /// # Errors
    /// As [`Communicator::gather`]; and when counts and displacements do not fit the buffers or overlap.
    pub fn gatherv<'a, T: Pod>(
        &self,
        send: impl Contribution<'a, T>,
        recv: &mut [T],
        parts: impl Parts,
        root: usize,
    ) -> Result<()> {
        let send = send.slice();
        let (given, all) = (send.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(recv));
        let (counts, displs) = lists(&parts);
        if let Some(done) = self.short_gatherv(Element::of::<T>(), given, all, (counts, &displs), root) {
            return done;
        }
        let calling = Calling::of::<T>(Operation::Gatherv).at(root).of_parts(counts, Some(&displs));
        if let Some(done) = self.again(&calling, send, Some(&mut *recv)) {
            return done;
        }
        let spec = self.gatherv_spec::<T>(send.map(<[T]>::len), recv.len(), &parts, root);
        self.run(calling, spec, send, Some(recv))
    }

    owned!("gatherv", igatherv, gatherv_init <T, M>
    (self, send: impl Owned<T, M>, recv: Buf<T, M>, parts: impl Parts, root: usize) => {
        let send = send.buffer();
        let spec = self.gatherv_spec::<T>(send.as_ref().map(|s| s.len()), recv.len(), &parts, root);
        (Operation::Gatherv, spec, (send, recv))
    });

    pub(in crate::comm) fn gatherv_spec<T: Pod>(
        &self,
        send: Option<usize>,
        recv: usize,
        parts: &impl Parts,
        root: usize,
    ) -> Result<Spec> {
        let (counts, displs) = lists(parts);
        let rank = self.root(root)?;
        let in_place = self.at_root_only(send.is_none(), root)?;
        let room = (self.rank() == root).then_some(recv);
        let (bytes, places) = ragged::<T>("recv", room, self.size(), (counts, &displs))?;
        send.map_or(Ok(()), |len| own_count("send", len, self.rank(), counts))?;
        let arguments =
            Arguments { root: rank, counts: bytes, displs: places, in_place, ..Arguments::default() };
        let unused = self.unless_root(root, Region::Output);
        Ok(Spec { arguments, fill: true, unused, ..Spec::of::<T>() })
    }

    /// As [`Communicator::gatherv`], with counts known at the root only, as `MPI_Gatherv` has it: `parts` matter there only, and may
    /// be empty elsewhere. Every rank puts to the root by itself, as without the counts there is no tree:
    /// where all know them, `gatherv` is the quicker one for many short contributions.
    ///
    /// # Errors
    /// As [`Communicator::gatherv`]. A rank that sends another number of elements than the root expects is an error that names both
    /// numbers, before any of them is sent.
    ///
    /// # Examples
    /// ```
    /// use circulant::comm::Partition;
    ///
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let mine = vec![comm.rank() as u32; comm.rank() + 1];
    /// // The root must get to know the counts in some way.
    /// let parts = Partition::contiguous(comm.gather_one(mine.len(), 0)?.unwrap_or_default())?;
    /// let mut all = vec![0; parts.extent()];
    /// comm.gatherv_rooted(&mine, &mut all, &parts, 0)?;
    /// assert!(comm.rank() > 0 || all.last() == Some(&(comm.size() as u32 - 1)));
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn gatherv_rooted<'a, T: Pod>(
        &self,
        send: impl Contribution<'a, T>,
        recv: &mut [T],
        parts: impl Parts,
        root: usize,
    ) -> Result<()> {
        let send = send.slice();
        let (given, all) = (send.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(recv));
        if let Some(done) = self.short_gatherv_rooted(Element::of::<T>(), given, all, &parts, root) {
            return done;
        }
        let spec = self.gatherv_rooted_spec::<T>(send.map(<[T]>::len), recv.len(), &parts, root);
        self.run(Collective::GathervRooted, spec, send, Some(recv))
    }

    owned!("gatherv_rooted", igatherv_rooted, gatherv_rooted_init <T, M>
    (self, send: impl Owned<T, M>, recv: Buf<T, M>, parts: impl Parts, root: usize) => {
        let send = send.buffer();
        let spec = self.gatherv_rooted_spec::<T>(send.as_ref().map(|s| s.len()), recv.len(), &parts, root);
        (Collective::GathervRooted, spec, (send, recv))
    });

    /// An exchange along a star: an edge from each rank to the root.
    pub(in crate::comm) fn gatherv_rooted_spec<T: Pod>(
        &self,
        send: Option<usize>,
        recv: usize,
        parts: &impl Parts,
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
            let blocks = self.blocks_at_root::<T>("recv", recv, parts, ("send", send))?;
            let source = |(peer, (len, at))| Source { peer, slot: 0, len, at };
            edges.sources = (0..).zip(blocks).map(source).collect();
        }
        let unused = self.unless_root(root, Region::Output);
        Ok(Spec { unused, ..self.star::<T>(at, edges) })
    }
}
