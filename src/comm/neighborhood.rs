//! Neighbourhood collectives: each rank exchanges blocks with its neighbours in a graph, and with no other rank.

use super::call::Spec;
use super::cartesian::Cartesian;
use super::collective::Collective;
use super::collectives::bytes_of;
use super::communicator::Communicator;
use super::partition::{Parts, lists};
use super::persistent::Persistent;
use super::place::{Contribution, Owned};
use super::request::Request;
use crate::buffer::{Buf, MemoryPlace};
use crate::error::{Result, argument};
use crate::ops::Max;
use crate::plan::alltoall::graph::{Destination, Edges, Graph, Source};
use crate::plan::registry::Arguments;
use bytemuck::Pod;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What this rank is next to: the sources that it receives from and the destinations that it sends to, in an order that its
/// buffers follow. From [`Communicator::dist_graph`] or [`Communicator::cartesian`]. Cheap to clone.
///
/// Its calls are calls of the communicator that it was made of: all ranks make them, in the same order among their other calls. A
/// block goes by one put from the send buffer right into the receive buffer of its neighbour (where two ranks have several edges,
/// as in a ring of two, by a copy there); other ranks get no message, and time and memory follow the number of neighbours.
///
/// A source or destination that is `None`, beyond the border of a grid, keeps its place in the buffers, which is not touched.
///
/// ```
/// use circulant::comm::Cartesian;
///
/// let world = circulant::World::init()?;
/// let comm = world.comm();
/// // A ring: what goes to the left, and what goes to the right.
/// let ring = comm.cartesian(&Cartesian::new(&[comm.size()], &[true])?)?;
/// let (r, p) = (comm.rank(), comm.size());
/// let mut beside = [0; 2];
/// ring.neighbor_alltoall(&[r, r], &mut beside)?;
/// assert_eq!(beside, [(r + p - 1) % p, (r + 1) % p]);
/// # world.finalize()?;
/// # Ok::<(), circulant::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Neighborhood {
    comm: Communicator,
    edges: Arc<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    sources: Vec<Option<usize>>,
    destinations: Vec<Option<usize>>,
    /// Of the destinations that are there: rank, and number among those sources of that rank that are there.
    slots: Vec<(u32, u32)>,
    /// Of the sources that are there: number among those destinations of that rank that are there.
    numbers: Vec<u32>,
    /// The most edges between two ranks.
    multiplicity: u32,
}

impl Communicator {
    /// The neighbourhood of a graph of which each rank gives its own edges: the ranks that it receives from, and those that it
    /// sends to, as of `MPI_Dist_graph_create_adjacent` (without weights and reordering). A rank may stand in a list more than
    /// once, and may be this one. The k-th edge to a rank in our destinations is the k-th from us in its sources. Collective.
    ///
    /// # Errors
    /// As [`Communicator::alltoall`]; when a rank is out of range; when a rank is listed as a destination by one and not, or not as
    /// often, as a source by the other.
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// // A star: the others send to rank 0.
    /// let others: Vec<usize> = (1..comm.size()).collect();
    /// let star = match comm.rank() {
    ///     0 => comm.dist_graph(&others, &[])?,
    ///     _ => comm.dist_graph(&[], &[0])?,
    /// };
    /// let mut got = vec![0; star.sources().len()];
    /// star.neighbor_allgather(&[comm.rank()], &mut got)?;
    /// assert!(comm.rank() > 0 || got == others);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn dist_graph(&self, sources: &[usize], destinations: &[usize]) -> Result<Neighborhood> {
        let (size, me) = (self.size(), self.rank());
        if let Some(far) = sources.iter().chain(destinations).find(|rank| **rank >= size) {
            let e = argument(format!("neighbour {far} is out of range: there are ranks 0 to {}", size - 1));
            return Err(self.refuse_here(e));
        }
        let count = |list: &[usize]| {
            let mut counts = vec![0usize; size];
            list.iter().for_each(|rank| counts[*rank] += 1);
            counts
        };
        let (into, out) = (count(sources), count(destinations));
        let mut told = vec![0; size];
        self.alltoall(&out, &mut told)?;
        if let Some(peer) = (0..size).find(|peer| told[*peer] != into[*peer]) {
            let (theirs, ours) = (told[peer], into[peer]);
            let e = argument(format!(
                "rank {peer} has rank {me} {theirs} times among its destinations, which has it {ours} times among its sources"
            ));
            return Err(self.refuse_here(e));
        }
        let most = into.iter().chain(&out).max().copied().unwrap_or(0);
        let multiplicity = self.allreduce_one(u32::try_from(most).unwrap_or(u32::MAX), Max)?.max(1);
        let slots = self.numbers((sources, &into), (destinations, &out))?;
        let numbers = self.numbers((destinations, &out), (sources, &into))?;
        let ranks = destinations.iter().map(|rank| u32::try_from(*rank).unwrap_or(u32::MAX));
        let slots = ranks.zip(slots).collect();
        let all = |list: &[usize]| list.iter().map(|rank| Some(*rank)).collect();
        let lists =
            Lists { sources: all(sources), destinations: all(destinations), slots, numbers, multiplicity };
        Ok(self.neighborhood(lists))
    }

    /// The neighbourhood of a grid of all ranks: for each dimension the neighbour in negative, then the one in positive direction,
    /// as MPI orders them, `None` beyond a border. What is sent in one direction is received from the other. Each rank finds its
    /// neighbours for itself: not collective.
    ///
    /// # Errors
    /// When the grid has not as many ranks as the communicator: make one of those that are in it
    /// ([`Communicator::split`]). Such an error is this rank's alone: the world goes on.
    pub fn cartesian(&self, grid: &Cartesian) -> Result<Neighborhood> {
        if grid.size() != self.size() {
            let (dims, size) = (grid.dims(), self.size());
            let e = argument(format!("a grid of {dims:?} ranks on a communicator of {size}"));
            return Err(self.own(e.help("split off a communicator of as many ranks as the grid has")));
        }
        let neighbors = grid.neighbors(self.rank());
        // What goes in one direction comes from the other, and those that are not there have no number.
        let slot = |(i, peer): (usize, &Option<usize>)| {
            let peer = (*peer)?;
            let before = grid.neighbors(peer).into_iter().take(i ^ 1).flatten().count();
            Some((u32::try_from(peer).ok()?, u32::try_from(before).ok()?))
        };
        let slots: Vec<(u32, u32)> = neighbors.iter().enumerate().filter_map(slot).collect();
        let numbers = slots.iter().map(|(_, number)| *number).collect();
        let two = neighbors
            .chunks(2)
            .any(|pair| pair[0].is_some() && pair[0] == pair[1] && pair[0] != Some(self.rank()));
        // A ring of two is one at all ranks.
        let multiplicity = if two { 2 } else { 1 };
        let (sources, destinations) = (neighbors.clone(), neighbors);
        Ok(self.neighborhood(Lists { sources, destinations, slots, numbers, multiplicity }))
    }

    /// Tells each rank in `told` its numbers there, and returns the numbers that those in `by` tell us, in its order. With the lists
    /// come how often each rank is in them.
    fn numbers(
        &self,
        (told, out): (&[usize], &[usize]),
        (by, into): (&[usize], &[usize]),
    ) -> Result<Vec<u32>> {
        let starts = |counts: &[usize]| -> Vec<usize> {
            counts.iter().scan(0, |at, n| Some(std::mem::replace(at, *at + n))).collect()
        };
        let (mut at, mut ours) = (starts(out), vec![0u32; told.len()]);
        for (number, peer) in (0..).zip(told) {
            ours[at[*peer]] = number;
            at[*peer] += 1;
        }
        let mut theirs = vec![0u32; by.len()];
        self.alltoallv(&ours, out, &mut theirs, into)?;
        let mut at = starts(into);
        let next = |peer: &usize| {
            let number = theirs[at[*peer]];
            at[*peer] += 1;
            number
        };
        Ok(by.iter().map(next).collect())
    }

    fn neighborhood(&self, lists: Lists) -> Neighborhood {
        Neighborhood { comm: self.clone(), edges: Arc::new(lists) }
    }
}

/// The calls of a neighbourhood that own their buffers, from one description: what makes spec and buffers of the arguments.
macro_rules! owned {
    ($blocking:literal, $begin:ident, $init:ident ($self:ident $(, $arg:ident: $type:ty)*) => $body:expr) => {
        #[doc = concat!(
            "[`Neighborhood::", $blocking, "`] that returns at once: the [`Request`] owns the buffers and gives them back."
        )]
        ///
        /// # Errors
        /// As the blocking call. Arguments are checked at once, the rest comes out while waiting.
        pub fn $begin<T: Pod, M: MemoryPlace>(&$self $(, $arg: $type)*) -> Result<Request<T, M>> {
            let (call, spec, buffers) = $body;
            Request::new(&$self.comm, call, spec, buffers)
        }

        #[doc = concat!("[`Neighborhood::", $blocking, "`] to be started many times: see [`Persistent`]. Collective.")]
        ///
        /// # Errors
        /// As the blocking call.
        pub fn $init<T: Pod, M: MemoryPlace>(&$self $(, $arg: $type)*) -> Result<Persistent<T, M>> {
            let (call, spec, buffers) = $body;
            Persistent::new(&$self.comm, call, spec, buffers)
        }
    };
}

impl Neighborhood {
    pub(super) fn comm(&self) -> &Communicator {
        &self.comm
    }

    /// The ranks that this one receives from, in the order of the receive buffers.
    pub fn sources(&self) -> &[Option<usize>] {
        &self.edges.sources
    }

    /// The ranks that this one sends to, in the order of the send buffers.
    pub fn destinations(&self) -> &[Option<usize>] {
        &self.edges.destinations
    }

    /// Sends all of `send` to each destination, and gets what each source sends into `recv`, in the order of the sources, an equal
    /// part for each.
    ///
    /// # Errors
    /// As [`Communicator::alltoallv`]; and when `recv` cannot be shared equally by the sources.
    pub fn neighbor_allgather<T: Pod>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        let spec = self.allgather_spec::<T>(send.len(), recv.len());
        self.comm.run(Collective::NeighborAllgather, spec, Some(send), Some(recv))
    }

    owned!("neighbor_allgather", ineighbor_allgather, neighbor_allgather_init (self, send: Buf<T, M>, recv: Buf<T, M>) => {
        (Collective::NeighborAllgather, self.allgather_spec::<T>(send.len(), recv.len()), (Some(send), recv))
    });

    /// As [`Neighborhood::neighbor_allgather`], with contributions of any length: that of source i goes to part i of `recv`. Elements
    /// of `recv` that are in no part stay as they are.
    ///
    /// # Errors
    /// As [`Communicator::alltoallv`].
    pub fn neighbor_allgatherv<T: Pod>(&self, send: &[T], recv: &mut [T], parts: impl Parts) -> Result<()> {
        let spec = self.allgatherv_spec::<T>(send.len(), recv.len(), &parts);
        self.comm.run(Collective::NeighborAllgatherv, spec, Some(send), Some(recv))
    }

    owned!("neighbor_allgatherv", ineighbor_allgatherv, neighbor_allgatherv_init
    (self, send: Buf<T, M>, recv: Buf<T, M>, parts: impl Parts) => {
        let spec = self.allgatherv_spec::<T>(send.len(), recv.len(), &parts);
        (Collective::NeighborAllgatherv, spec, (Some(send), recv))
    });

    /// Sends the i-th of as many equal parts of `send` as there are destinations to destination i, and gets one part of `recv` of
    /// each source, in the order of the sources.
    ///
    /// # Errors
    /// As [`Communicator::alltoallv`]; and when a buffer cannot be shared equally by the neighbours.
    pub fn neighbor_alltoall<T: Pod>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        let spec = self.alltoall_spec::<T>(send.len(), recv.len());
        self.comm.run(Collective::NeighborAlltoall, spec, Some(send), Some(recv))
    }

    owned!("neighbor_alltoall", ineighbor_alltoall, neighbor_alltoall_init (self, send: Buf<T, M>, recv: Buf<T, M>) => {
        (Collective::NeighborAlltoall, self.alltoall_spec::<T>(send.len(), recv.len()), (Some(send), recv))
    });

    /// Sends part i of `send`, as `sent` says, to destination i, and gets what source i sends into part i of `recv`, as `received`
    /// says. Elements of `recv` that are in no part stay as they are; parts that are sent may overlap.
    ///
    /// In place blocks are sent from `recv` itself: a field and its halo in one buffer, without a copy. What is sent there must not be
    /// received there, too.
    ///
    /// # Errors
    /// As [`Communicator::alltoallv`]; when there is not a count and a displacement for each neighbour; and in place, when what is
    /// sent overlaps what is received.
    ///
    /// # Examples
    /// ```
    /// use circulant::{InPlace, comm::Cartesian};
    ///
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let line = comm.cartesian(&Cartesian::new(&[comm.size()], &[false])?)?;
    /// // Ten cells, and one of each neighbour at the ends.
    /// let mut field = comm.alloc::<f64>(12)?;
    /// field[1..11].fill(comm.rank() as f64);
    /// line.neighbor_alltoallv(InPlace, (&[1, 1], &[1, 10]), &mut field, (&[1, 1], &[0, 11]))?;
    /// assert_eq!(field[0], comm.rank().saturating_sub(1) as f64);
    /// # drop(field);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn neighbor_alltoallv<'a, T: Pod>(
        &self,
        send: impl Contribution<'a, T>,
        sent: impl Parts,
        recv: &mut [T],
        received: impl Parts,
    ) -> Result<()> {
        let send = send.slice();
        let spec = self.alltoallv_spec::<T>((send.map(<[T]>::len), &sent), (recv.len(), &received));
        self.comm.run(Collective::NeighborAlltoallv, spec, send, Some(recv))
    }

    owned!("neighbor_alltoallv", ineighbor_alltoallv, neighbor_alltoallv_init
    (self, send: impl Owned<T, M>, sent: impl Parts, recv: Buf<T, M>, received: impl Parts) => {
        let send = send.buffer();
        let spec = self.alltoallv_spec::<T>((send.as_ref().map(|s| s.len()), &sent), (recv.len(), &received));
        (Collective::NeighborAlltoallv, spec, (send, recv))
    });

    pub(super) fn allgather_spec<T: Pod>(&self, send: usize, recv: usize) -> Result<Spec> {
        self.allgatherv_spec::<T>(send, recv, &&equal("recv", recv, "sources", self.sources().len())?)
    }

    pub(super) fn allgatherv_spec<T: Pod>(
        &self,
        send: usize,
        recv: usize,
        received: &impl Parts,
    ) -> Result<Spec> {
        let all = self.destinations().len();
        self.alltoallv_spec::<T>((Some(send), &(&vec![send; all], &vec![0; all])), (recv, received))
    }

    pub(super) fn alltoall_spec<T: Pod>(&self, send: usize, recv: usize) -> Result<Spec> {
        let sent = equal("send", send, "destinations", self.destinations().len())?;
        let received = equal("recv", recv, "sources", self.sources().len())?;
        self.alltoallv_spec::<T>((Some(send), &&sent), (recv, &&received))
    }

    pub(super) fn alltoallv_spec<T: Pod>(
        &self,
        (send, sent): (Option<usize>, &impl Parts),
        (recv, received): (usize, &impl Parts),
    ) -> Result<Spec> {
        let in_place = send.is_none();
        let from = if in_place { "recv" } else { "send" };
        let out = blocks::<T>((from, send.unwrap_or(recv)), ("destination", self.destinations()), sent)?;
        let into = blocks::<T>(("recv", recv), ("source", self.sources()), received)?;
        let (mut sources, mut destinations) = (Vec::new(), Vec::new());
        let there = self.sources().iter().zip(into).filter_map(|(peer, block)| Some(((*peer)?, block)));
        for ((peer, (len, at)), slot) in there.zip(&self.edges.numbers) {
            sources.push(Source { peer: u32::try_from(peer).unwrap_or(u32::MAX), slot: *slot, len, at });
        }
        let there = self.destinations().iter().zip(out).filter(|(peer, _)| peer.is_some());
        for ((_, (len, at)), (peer, slot)) in there.zip(&self.edges.slots) {
            destinations.push(Destination { peer: *peer, slot: *slot, len, at, target: 0 });
        }
        let edges = BTreeMap::from([(self.comm.context.rank, Edges { sources, destinations })]);
        let graph = Graph { multiplicity: self.edges.multiplicity, edges: edges.into() };
        Ok(Spec {
            arguments: Arguments { graph, in_place, ..Arguments::default() },
            fill: true,
            ..Spec::of::<T>()
        })
    }
}

/// The counts of equal parts of a buffer.
fn equal(name: &str, len: usize, what: &str, parts: usize) -> Result<Vec<usize>> {
    if !len.is_multiple_of(parts) {
        return Err(argument(format!(
            "{name} has {len} elements, which cannot be shared equally by {parts} {what}"
        )));
    }
    Ok(vec![len.checked_div(parts).unwrap_or(0); parts])
}

/// Checks the blocks of neighbours against the buffer; makes bytes of them: (length, place).
fn blocks<T>(
    (name, room): (&str, usize),
    (what, neighbors): (&str, &[Option<usize>]),
    parts: &impl Parts,
) -> Result<Vec<(u64, u64)>> {
    let (counts, displs) = lists(parts);
    if (counts.len(), displs.len()) != (neighbors.len(), neighbors.len()) {
        let (counts, displs, all) = (counts.len(), displs.len(), neighbors.len());
        return Err(argument(format!("{counts} counts and {displs} displacements for {all} {what}s")));
    }
    let block = |(i, (count, displ)): (usize, (&usize, &usize))| {
        if *count == 0 || neighbors[i].is_none() {
            return Ok((0, 0));
        }
        if displ.checked_add(*count).is_none_or(|end| end > room) {
            return Err(argument(format!(
                "the {count} elements of {what} {i} at {displ} do not fit into {name}, which has {room}"
            )));
        }
        Ok((bytes_of::<T>(*count), bytes_of::<T>(*displ)))
    };
    counts.iter().zip(&*displs).enumerate().map(block).collect()
}
