//! Collectives between two groups of ranks (MPI's intercommunicators): what one group sends the other receives.

use super::call::Spec;
use super::collectives::{bytes_of, own_count, own_places, ragged};
use super::communicator::Communicator;
use super::context::Context;
use super::group::Group;
use super::options::Options;
use super::partition::{Parts, Places};
use super::persistent::Persistent;
use super::request::Request;
use crate::buffer::{Buf, MemoryPlace};
use crate::error::{Result, argument};
use crate::plan::Region;
use crate::plan::registry::{Arguments, Operation};
use bytemuck::Pod;
use std::sync::Arc;

/// Two groups of ranks without a rank in common, which send to each other. Cheap to clone.
///
/// ```
/// use circulant::World;
///
/// let world = World::init()?;
/// let comm = world.comm();
/// let even: Vec<usize> = (0..comm.size()).step_by(2).collect();
/// if comm.size() > 1 {
///     let (left, right) = (comm.group().include(&even)?, comm.group().exclude(&even)?);
///     let inter = comm.create_inter(&left, &right)?.expect("every rank is in one of them");
///     let mut theirs = vec![0; inter.remote_size()];
///     inter.allgather(&[comm.rank()], &mut theirs)?;
///     assert!(theirs.iter().all(|r| r % 2 != comm.rank() % 2));
/// }
/// # world.finalize()?;
/// # Ok::<(), circulant::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Intercommunicator {
    /// Both groups together, the first one first.
    union: Communicator,
}

/// The root of a broadcast between groups, said by a rank of either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// This rank of our own group sends (to the other group; the rest of ours only takes note).
    Here(usize),
    /// This rank of the other group sends, and we receive.
    There(usize),
}

impl Communicator {
    /// An intercommunicator of two groups of this communicator's ranks; `None` for ranks in neither. Collective over
    /// *this* communicator; all ranks in the groups pass the same two in the same order.
    ///
    /// # Errors
    /// As [`Communicator::create`]; when a group is empty, or a rank is in both.
    pub fn create_inter(&self, first: &Group, second: &Group) -> Result<Option<Intercommunicator>> {
        let common = first.intersection(second);
        let wrong = match (common.members().first(), first.size().min(second.size())) {
            (Some(r), _) => Some(format!("rank {r} is in both groups")),
            (None, 0) => Some("one of the groups is empty".to_owned()),
            (None, _) => None,
        };
        if let Some(what) = wrong {
            return Err(self.refuse_here(argument(what)));
        }
        let ranks = u32::try_from(first.size()).unwrap_or(u32::MAX);
        let made = self.create_agreed(&first.union(second), u64::from(ranks) << 32)?;
        let Some(made) = made else { return Ok(None) };
        let Context { id, ref members, rank, .. } = *made.context;
        let context = Context::new(id, members.clone(), rank).between(ranks);
        let union = Communicator::new(Arc::clone(&made.lock), context, made.options.clone())?;
        Ok(Some(Intercommunicator { union }))
    }
}

impl Intercommunicator {
    pub(super) fn union(&self) -> &Communicator {
        &self.union
    }

    fn first(&self) -> usize {
        self.union.context.first as usize
    }

    fn is_first(&self) -> bool {
        self.union.rank() < self.first()
    }

    /// Our rank in our own group.
    pub fn rank(&self) -> usize {
        if self.is_first() { self.union.rank() } else { self.union.rank() - self.first() }
    }

    /// The number of ranks of our own group.
    pub fn size(&self) -> usize {
        if self.is_first() { self.first() } else { self.union.size() - self.first() }
    }

    /// The number of ranks of the other group.
    pub fn remote_size(&self) -> usize {
        self.union.size() - self.size()
    }

    /// The same with other options for the calls made through the result.
    pub fn with(&self, options: Options) -> Self {
        Self { union: self.union.with(options) }
    }

    /// A communicator of both groups: first the first one's ranks, then the second's. Collective.
    ///
    /// # Errors
    /// As [`Communicator::dup`].
    pub fn merge(&self) -> Result<Communicator> {
        self.union.dup()
    }

    /// Memory as [`Communicator::alloc`].
    ///
    /// # Errors
    /// As there.
    pub fn alloc<T: Pod>(&self, len: usize) -> Result<Buf<T>> {
        self.union.alloc(len)
    }

    /// Gathers `send` of all ranks of the other group, in their order, into `recv`; the other group gets ours.
    /// All ranks of a group contribute equally many elements; those of the other group may contribute another
    /// number, `recv.len() / remote_size()`.
    ///
    /// # Errors
    /// As [`Communicator::allgather`].
    pub fn allgather<T: Pod>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        let spec = self.allgather_spec::<T>(send.len(), recv.len());
        self.union.run(Operation::InterAllgather, spec, Some(send), Some(recv))
    }

    /// [`Intercommunicator::allgather`] that returns at once.
    ///
    /// # Errors
    /// As the blocking call.
    pub fn iallgather<T: Pod, M: MemoryPlace>(
        &self,
        send: Buf<T, M>,
        recv: Buf<T, M>,
    ) -> Result<Request<T, M>> {
        let spec = self.allgather_spec::<T>(send.len(), recv.len());
        Request::new(&self.union, Operation::InterAllgather, spec, (Some(send), recv))
    }

    /// [`Intercommunicator::allgather`] to be started many times. Collective.
    ///
    /// # Errors
    /// As the blocking call.
    pub fn allgather_init<T: Pod, M: MemoryPlace>(
        &self,
        send: Buf<T, M>,
        recv: Buf<T, M>,
    ) -> Result<Persistent<T, M>> {
        let spec = self.allgather_spec::<T>(send.len(), recv.len());
        Persistent::new(&self.union, Operation::InterAllgather, spec, (Some(send), recv))
    }

    pub(super) fn allgather_spec<T: Pod>(&self, send: usize, recv: usize) -> Result<Spec> {
        let theirs = self.remote_size();
        if !recv.is_multiple_of(theirs) {
            return Err(argument(format!(
                "recv has {recv} elements, which {theirs} ranks cannot fill equally"
            )));
        }
        let (ours, theirs) = (bytes_of::<T>(send), bytes_of::<T>(recv / theirs));
        let counts = if self.is_first() { vec![ours, theirs] } else { vec![theirs, ours] };
        Ok(Spec { arguments: Arguments { counts, ..Arguments::default() }, ..Spec::of::<T>() })
    }

    /// Gathers the contributions of the other group's ranks into `recv`, each of its own length; the other group
    /// gets ours. `sent` are the parts of our own group's ranks in the receive buffers of the *other* group; `received` those of the
    /// other group's ranks in ours. All ranks know both alike; for the other group they are the other way round. Displacements of
    /// [`Local`](super::Local) parts are this rank's own: of `received` where it gets the parts, of `sent` they are not looked at; the
    /// other group then passes `Local` parts or counts alone. Elements of `recv` that are in no part stay as they are.
    ///
    /// # Errors
    /// As [`Communicator::allgatherv`].
    pub fn allgatherv<T: Pod>(
        &self,
        send: &[T],
        sent: impl Parts,
        recv: &mut [T],
        received: impl Parts,
    ) -> Result<()> {
        let spec = self.allgatherv_spec::<T>(send.len(), &sent, recv.len(), &received);
        self.union.run_with_copies(Operation::InterAllgatherv, spec, Some(send), recv)
    }

    /// [`Intercommunicator::allgatherv`] that returns at once.
    ///
    /// # Errors
    /// As the blocking call.
    pub fn iallgatherv<T: Pod, M: MemoryPlace>(
        &self,
        send: Buf<T, M>,
        sent: impl Parts,
        recv: Buf<T, M>,
        received: impl Parts,
    ) -> Result<Request<T, M>> {
        let spec = self.allgatherv_spec::<T>(send.len(), &sent, recv.len(), &received);
        Request::new(&self.union, Operation::InterAllgatherv, spec, (Some(send), recv))
    }

    /// [`Intercommunicator::allgatherv`] to be started many times. Collective.
    ///
    /// # Errors
    /// As the blocking call.
    pub fn allgatherv_init<T: Pod, M: MemoryPlace>(
        &self,
        send: Buf<T, M>,
        sent: impl Parts,
        recv: Buf<T, M>,
        received: impl Parts,
    ) -> Result<Persistent<T, M>> {
        let spec = self.allgatherv_spec::<T>(send.len(), &sent, recv.len(), &received);
        Persistent::new(&self.union, Operation::InterAllgatherv, spec, (Some(send), recv))
    }

    pub(super) fn allgatherv_spec<T: Pod>(
        &self,
        send: usize,
        sent: &impl Parts,
        recv: usize,
        received: &impl Parts,
    ) -> Result<Spec> {
        let (sent, received) = (Places::of(sent), Places::of(received));
        own_count("send", send, self.rank(), sent.counts)?;
        let copies = own_places::<T>(&received, recv, self.remote_size(), None)?;
        let ours = ragged::<T>("the other group's recv", None, self.size(), (sent.counts, &sent.displs))?;
        let there = (received.counts, &*received.displs);
        let theirs = ragged::<T>("recv", Some(recv), self.remote_size(), there)?;
        let (first, second) = if self.is_first() { (ours, theirs) } else { (theirs, ours) };
        let (counts, displs) = ([first.0, second.0].concat(), [first.1, second.1].concat());
        Ok(Spec {
            arguments: Arguments { counts, displs, ..Arguments::default() },
            fill: true,
            copies,
            ..Spec::of::<T>()
        })
    }

    /// Broadcasts `buf` of the root to all ranks of the other group. `buf` has the same length at all ranks; in the
    /// rest of the root's group it stays as it is.
    ///
    /// # Errors
    /// As [`Communicator::bcast`].
    pub fn bcast<T: Pod>(&self, buf: &mut [T], root: Root) -> Result<()> {
        let spec = self.bcast_spec::<T>(buf.len(), root);
        self.union.run(Operation::InterBcast, spec, None, Some(buf))
    }

    /// [`Intercommunicator::bcast`] that returns at once.
    ///
    /// # Errors
    /// As the blocking call.
    pub fn ibcast<T: Pod, M: MemoryPlace>(&self, buf: Buf<T, M>, root: Root) -> Result<Request<T, M>> {
        let spec = self.bcast_spec::<T>(buf.len(), root);
        Request::new(&self.union, Operation::InterBcast, spec, (None, buf))
    }

    /// [`Intercommunicator::bcast`] to be started many times. Collective.
    ///
    /// # Errors
    /// As the blocking call.
    pub fn bcast_init<T: Pod, M: MemoryPlace>(&self, buf: Buf<T, M>, root: Root) -> Result<Persistent<T, M>> {
        let spec = self.bcast_spec::<T>(buf.len(), root);
        Persistent::new(&self.union, Operation::InterBcast, spec, (None, buf))
    }

    pub(super) fn bcast_spec<T: Pod>(&self, len: usize, root: Root) -> Result<Spec> {
        let (rank, size, of_first) = match root {
            Root::Here(rank) => (rank, self.size(), self.is_first()),
            Root::There(rank) => (rank, self.remote_size(), !self.is_first()),
        };
        if rank >= size {
            return Err(argument(format!("root {rank} is out of range: its group has {size} ranks")));
        }
        let sends = root == Root::Here(self.rank());
        // A rank of a group, and groups of ranks, count to less than 2^32.
        let root_in_union = u32::try_from(if of_first { rank } else { self.first() + rank }).unwrap_or(0);
        let arguments = Arguments { root: root_in_union, bytes: bytes_of::<T>(len), ..Arguments::default() };
        let takes_part = sends || matches!(root, Root::There(_));
        let unused = (!takes_part).then_some(Region::Output);
        Ok(Spec { arguments, fill: sends, unused, ..Spec::of::<T>() })
    }

    /// Returns when all ranks of the other group have entered (and of our own).
    ///
    /// # Errors
    /// As [`Communicator::barrier`].
    pub fn barrier(&self) -> Result<()> {
        self.union.run::<u8>(Operation::InterBarrier, Ok(Spec::default()), None, None)
    }

    /// [`Intercommunicator::barrier`] that returns at once.
    ///
    /// # Errors
    /// As the blocking call.
    pub fn ibarrier(&self) -> Result<Request<u8>> {
        let buffers = (None, self.union.alloc(0)?);
        Request::new(&self.union, Operation::InterBarrier, Ok(Spec::default()), buffers)
    }

    /// [`Intercommunicator::barrier`] to be started many times. Collective.
    ///
    /// # Errors
    /// As the blocking call.
    pub fn barrier_init(&self) -> Result<Persistent<u8>> {
        let buffers = (None, self.union.alloc(0)?);
        Persistent::new(&self.union, Operation::InterBarrier, Ok(Spec::default()), buffers)
    }
}
