//! Non-blocking collectives on slices that are lent for a scope.

use super::call::Spec;
use super::collective::Collective;
use super::communicator::Communicator;
use super::inter::{Intercommunicator, Root};
use super::layout::Layout;
use super::lent::{LentCall, LentCollective, Slices, used};
use super::lock::Held;
use super::neighborhood::Neighborhood;
use super::partition::{Parts, Places};
use super::place::{Contribution, Destination};
use super::request::Pending;
use super::unscoped::{Unscoped, UnscopedPersistent, UnscopedRequest, unscoped};
use crate::buffer::{self, Borrowed, Bound, Loans, Wire};
use crate::error::Result;
use crate::ops::IntoReducer;
use crate::plan::registry::Operation;
use bytemuck::Pod;

/// Starts non-blocking calls on borrowed slices, as [`std::thread::Scope`] starts threads: see [`Communicator::scope`]. On a
/// [`Neighborhood`] and an [`Intercommunicator`] it has their calls.
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope, C = Communicator> {
    on: &'env C,
    loans: &'scope Loans<'scope, 'env, LentCollective>,
}

/// A collective under way on slices that are lent to it until its [`Scope`] ends. [`wait`](ScopedRequest::wait) gives what it writes
/// back before. If it is dropped, or leaked, the scope waits for it.
///
/// It can be waited for together with others: [`wait_any`](super::wait_any), [`wait_all`](super::wait_all).
#[derive(Debug)]
#[must_use = "without wait() its buffer comes back only when the scope ends"]
pub struct ScopedRequest<'scope, T: Pod>(Borrowed<'scope, T, LentCollective>);

impl<'scope, T: Pod> ScopedRequest<'scope, T> {
    /// Whether it has finished here; moves on everything that is in flight, once.
    ///
    /// # Errors
    /// When the world is broken, or nothing moved for the deadline.
    pub fn test(&mut self) -> Result<bool> {
        self.0.with(LentCollective::test).unwrap_or(Ok(true))
    }

    /// Waits until it has finished here, and gives back what it has written (of a broadcast: the buffer itself).
    ///
    /// # Errors
    /// After the deadline, or when the world breaks meanwhile. The slice comes back with the end of the scope then.
    pub fn wait(self) -> Result<&'scope mut [T]> {
        self.0.end()
    }
}

impl<T: Pod> super::request::sealed::Sealed for ScopedRequest<'_, T> {
    fn call_hook(&mut self) {
        self.0.with(|collective| collective.call_hook());
    }
}

impl<T: Pod> Pending for ScopedRequest<'_, T> {
    fn test(&mut self) -> Result<bool> {
        ScopedRequest::test(self)
    }
}

impl Communicator {
    /// Runs `body`, which may start non-blocking calls on slices that it borrows: on its [`Scope`], which has `ibcast`, `iallreduce` and all
    /// others. When `scope` returns, everything that was started in it has finished here, or the world is closed; also when `body`
    /// returns early or panics, or a [`ScopedRequest`] was dropped or leaked. So no peer can reach the slices any more.
    ///
    /// Slices of registered memory ([`Communicator::alloc`]) are moved without a copy, others are registered, or copied, when they are lent.
    /// Calls that own their buffers ([`Communicator::iallreduce`], …) need no scope.
    ///
    /// # Errors
    /// That of `body`; else the first of a request that was not waited for.
    ///
    /// # Examples
    /// ```
    /// use circulant::ops;
    ///
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let (mine, mut sum, mut word) = (vec![1.0; 1000], vec![0.0; 1000], [7u8]);
    /// let first = comm.scope(|s| {
    ///     let reducing = s.iallreduce(&mine, &mut sum, ops::Sum)?;
    ///     let telling = s.ibcast(&mut word, 0)?;
    ///     let known = mine[0]; // what is sent can be read meanwhile
    ///     let sum = reducing.wait()?; // … and what is received is ours again
    ///     assert_eq!(sum[999], comm.size() as f64);
    ///     drop(telling); // the scope waits for it
    ///     Ok(known + sum[0])
    /// })?;
    /// assert_eq!((first, word[0]), (1.0 + sum[0], 7));
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    /// No request leaves its scope,
    /// ```compile_fail,E0521
    /// # let comm = circulant::World::init()?.comm();
    /// let (mut word, mut kept) = ([0u8], None);
    /// comm.scope(|s| {
    ///     kept = Some(s.ibcast(&mut word, 0)?);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    /// what is lent cannot be touched before its request is waited for,
    /// ```compile_fail,E0502
    /// # let comm = circulant::World::init()?.comm();
    /// let mut word = [0u8];
    /// comm.scope(|s| {
    ///     let request = s.ibcast(&mut word, 0)?;
    ///     println!("{}", word[0]);
    ///     request.wait().map(drop)
    /// })?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    /// requests stay in their thread,
    /// ```compile_fail,E0277
    /// # let comm = circulant::World::init()?.comm();
    /// let mut word = [0u8];
    /// comm.scope(|s| {
    ///     let request = s.ibcast(&mut word, 0)?;
    ///     std::thread::scope(|threads| threads.spawn(|| request.wait().map(drop)).join().unwrap())
    /// })?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    /// and what is lent lives longer than the scope:
    /// ```compile_fail,E0597
    /// # let comm = circulant::World::init()?.comm();
    /// comm.scope(|s| {
    ///     let mut word = [0u8];
    ///     s.ibcast(&mut word, 0)?.wait().map(drop)
    /// })?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(Scope<'scope, 'env>) -> Result<R>,
    ) -> Result<R> {
        buffer::scope(|loans| body(Scope { on: self, loans }))
    }
}

impl Neighborhood {
    /// As [`Communicator::scope`], for exchanges with neighbours.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Examples
    /// ```
    /// use circulant::comm::Cartesian;
    ///
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let ring = comm.cartesian(&Cartesian::new(&[comm.size()], &[true])?)?;
    /// let (mine, mut beside) = ([comm.rank()], [0; 2]);
    /// ring.scope(|s| s.ineighbor_allgather(&mine, &mut beside)?.wait().map(drop))?;
    /// assert_eq!(beside[1], (comm.rank() + 1) % comm.size());
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(Scope<'scope, 'env, Self>) -> Result<R>,
    ) -> Result<R> {
        buffer::scope(|loans| body(Scope { on: self, loans }))
    }
}

impl Intercommunicator {
    /// As [`Communicator::scope`], for calls between the groups.
    ///
    /// # Errors
    /// As there.
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(Scope<'scope, 'env, Self>) -> Result<R>,
    ) -> Result<R> {
        buffer::scope(|loans| body(Scope { on: self, loans }))
    }
}

impl<'scope, C> Scope<'scope, '_, C> {
    /// Starts a call on lent slices; one that its spec says is unused is left alone.
    fn start<T: Pod>(
        &self,
        comm: &Communicator,
        operation: impl Into<Collective>,
        spec: Result<Spec>,
        slices: Slices<'scope, T>,
    ) -> Result<ScopedRequest<'scope, T>> {
        let (send, recv) = used(&spec, slices);
        let recv = recv.unwrap_or_default();
        let (mut held, call) = LentCall::begin(comm, operation.into(), spec, send.is_none())?;
        let (arena, at, lent) = (call.arena.clone(), call.at(), (send.unwrap_or_default(), recv, call.fill));
        let make = |regions: [Bound; 2]| call.bind(regions);
        let start = |held: &mut Held<'_>, collective: &mut LentCollective| collective.start(held, false);
        let started = self.loans.start(&mut held, &arena, lent, make, start);
        started.map(ScopedRequest).map_err(|e| held.fail(at(e)))
    }
}

/// Calls on lent slices, one entry each: the blocking call that it stands for, the names of the non-blocking and of the persistent one,
/// their arguments, and what makes operation, spec and slices of them. A [`Scope`] has the first ones, [`Unscoped`] both.
macro_rules! lent_calls {
    ($on:ident, $of:expr; $($blocking:literal $name:ident $init:ident $(<$t:ident>)?
      ($self:ident $(, $arg:ident: $type:ty)*): $element:ty => $body:expr;)*) => {
        unscoped! {
            $on, $of; $($blocking $name $init $(<$t>)? ($self $(, $arg: $type)*): $element => $body;)*
        }

        impl<'scope> Scope<'scope, '_, $on> {
            $(
            #[doc = concat!("[`", stringify!($on), "::", $blocking, "`] on lent slices, that returns at once.")]
            ///
            /// # Errors
            /// As the blocking call. Arguments are checked at once, the rest comes out while waiting.
            pub fn $name$(<$t: Pod>)?(&$self $(, $arg: $type)*) -> Result<ScopedRequest<'scope, $element>> {
                let (operation, spec, slices) = $body;
                let of: fn(&$on) -> &Communicator = $of;
                $self.start(of($self.on), operation, spec, slices)
            }
            )*
        }
    };
}

/// The length of a slice; `None` in place.
fn len<T>(slice: Option<&[T]>) -> Option<usize> {
    slice.map(<[T]>::len)
}

lent_calls! { Communicator, |comm| comm;
    "barrier" ibarrier barrier_init(self): u8 => (Operation::Barrier, Ok(Spec::default()), (None, None));
    "bcast" ibcast bcast_init<T>(self, buf: &'scope mut [T], root: usize): T => {
        (Operation::Bcast, self.on.bcast_spec::<T>(buf.len(), root), (None, Some(buf)))
    };
    "allgather" iallgather allgather_init<T>(self, send: impl Contribution<'scope, T>, recv: &'scope mut [T]): T => {
        let send = send.slice();
        (Operation::Allgather, self.on.allgather_spec::<T>(len(send), recv.len()), (send, Some(recv)))
    };
    "allgatherv" iallgatherv allgatherv_init<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], parts: impl Parts): T => {
        let (send, places) = (send.slice(), Places::of(&parts));
        let spec = self.on.allgatherv_spec::<T>(len(send), recv.len(), &places);
        (Operation::Allgatherv, spec, (send, Some(recv)))
    };
    "gather" igather gather_init<T>(self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], root: usize): T => {
        let send = send.slice();
        (Operation::Gather, self.on.gather_spec::<T>(len(send), recv.len(), root), (send, Some(recv)))
    };
    "gatherv" igatherv gatherv_init<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], parts: impl Parts, root: usize): T => {
        let send = send.slice();
        let spec = self.on.gatherv_spec::<T>(len(send), recv.len(), &parts, root);
        (Operation::Gatherv, spec, (send, Some(recv)))
    };
    "gatherv_rooted" igatherv_rooted gatherv_rooted_init<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], parts: impl Parts, root: usize): T => {
        let send = send.slice();
        let spec = self.on.gatherv_rooted_spec::<T>(len(send), recv.len(), &parts, root);
        (Collective::GathervRooted, spec, (send, Some(recv)))
    };
    "scatter" iscatter scatter_init<T>
    (self, send: &'scope [T], recv: impl Destination<'scope, T>, root: usize): T => {
        let recv = recv.slice();
        let spec = self.on.scatter_spec::<T>(send.len(), len(recv.as_deref()), root);
        (Operation::Scatter, spec, (Some(send), recv))
    };
    "scatterv" iscatterv scatterv_init<T>
    (self, send: &'scope [T], parts: impl Parts, recv: impl Destination<'scope, T>, root: usize): T => {
        let recv = recv.slice();
        let spec = self.on.scatterv_spec::<T>(send.len(), &parts, len(recv.as_deref()), root);
        (Operation::Scatterv, spec, (Some(send), recv))
    };
    "scatterv_rooted" iscatterv_rooted scatterv_rooted_init<T>
    (self, send: &'scope [T], parts: impl Parts, recv: impl Destination<'scope, T>, root: usize): T => {
        let recv = recv.slice();
        let spec = self.on.scatterv_rooted_spec::<T>(send.len(), &parts, len(recv.as_deref()), root);
        (Collective::ScattervRooted, spec, (Some(send), recv))
    };
    "alltoall" ialltoall alltoall_init<T>(self, send: impl Contribution<'scope, T>, recv: &'scope mut [T]): T => {
        let send = send.slice();
        let spec = self.on.alltoall_spec::<T>(len(send), recv.len());
        (Operation::Alltoall, spec, (send, Some(recv)))
    };
    "alltoallv" ialltoallv alltoallv_init<T>
    (self, send: impl Contribution<'scope, T>, sent: impl Parts, recv: &'scope mut [T], received: impl Parts): T => {
        let send = send.slice();
        let spec = self.on.alltoallv_spec::<T>(len(send), &sent, recv.len(), &received);
        (Operation::Alltoallv, spec, (send, Some(recv)))
    };
    "alltoallw" ialltoallw alltoallw_init
    (self, send: impl Contribution<'scope, u8>, sent: &[Layout], recv: &'scope mut [u8], received: &[Layout]): u8 => {
        let send = send.slice();
        let spec = self.on.alltoallw_spec((len(send), false), sent, recv.len(), received);
        (Collective::Alltoallw, spec, (send, Some(recv)))
    };
    "reduce" ireduce reduce_init<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], op: impl IntoReducer<T>, root: usize): T => {
        let send = send.slice();
        (Operation::Reduce, self.on.reduce_spec::<T>(len(send), recv.len(), op.into_reducer(), root), (send, Some(recv)))
    };
    "allreduce" iallreduce allreduce_init<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], op: impl IntoReducer<T>): T => {
        let send = send.slice();
        (Operation::Allreduce, self.on.allreduce_spec::<T>(len(send), recv.len(), op.into_reducer()), (send, Some(recv)))
    };
    "reduce_scatter_block" ireduce_scatter_block reduce_scatter_block_init<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], op: impl IntoReducer<T>): T => {
        let send = send.slice();
        (Operation::ReduceScatterBlock, self.on.block_spec::<T>(len(send), recv.len(), op.into_reducer()), (send, Some(recv)))
    };
    "reduce_scatter" ireduce_scatter reduce_scatter_init<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], parts: impl Parts, op: impl IntoReducer<T>): T => {
        let send = send.slice();
        let spec = self.on.parts_spec::<T>(len(send), recv.len(), &parts, op.into_reducer());
        (Operation::ReduceScatter, spec, (send, Some(recv)))
    };
    "scan" iscan scan_init<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], op: impl IntoReducer<T>): T => {
        let send = send.slice();
        (Operation::Scan, self.on.scan_spec::<T>(len(send), recv.len(), op.into_reducer()), (send, Some(recv)))
    };
    "exscan" iexscan exscan_init<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], op: impl IntoReducer<T>): T => {
        let send = send.slice();
        (Operation::Exscan, self.on.exscan_spec::<T>(len(send), recv.len(), op.into_reducer()), (send, Some(recv)))
    };
}

lent_calls! { Neighborhood, Neighborhood::comm;
    "neighbor_allgather" ineighbor_allgather neighbor_allgather_init<T>(self, send: &'scope [T], recv: &'scope mut [T]): T => {
        let spec = self.on.allgather_spec::<T>(send.len(), recv.len());
        (Collective::NeighborAllgather, spec, (Some(send), Some(recv)))
    };
    "neighbor_allgatherv" ineighbor_allgatherv neighbor_allgatherv_init<T>
    (self, send: &'scope [T], recv: &'scope mut [T], parts: impl Parts): T => {
        let spec = self.on.allgatherv_spec::<T>(send.len(), recv.len(), &parts);
        (Collective::NeighborAllgatherv, spec, (Some(send), Some(recv)))
    };
    "neighbor_alltoall" ineighbor_alltoall neighbor_alltoall_init<T>(self, send: &'scope [T], recv: &'scope mut [T]): T => {
        let spec = self.on.alltoall_spec::<T>(send.len(), recv.len());
        (Collective::NeighborAlltoall, spec, (Some(send), Some(recv)))
    };
    "neighbor_alltoallv" ineighbor_alltoallv neighbor_alltoallv_init<T>
    (self, send: impl Contribution<'scope, T>, sent: impl Parts, recv: &'scope mut [T], received: impl Parts): T => {
        let send = send.slice();
        let spec = self.on.alltoallv_spec::<T>((len(send), &sent), (recv.len(), &received));
        (Collective::NeighborAlltoallv, spec, (send, Some(recv)))
    };
}

lent_calls! { Intercommunicator, Intercommunicator::union;
    "barrier" ibarrier barrier_init(self): u8 => (Operation::InterBarrier, Ok(Spec::default()), (None, None));
    "bcast" ibcast bcast_init<T>(self, buf: &'scope mut [T], root: Root): T => {
        (Operation::InterBcast, self.on.bcast_spec::<T>(buf.len(), root), (None, Some(buf)))
    };
    "allgather" iallgather allgather_init<T>(self, send: &'scope [T], recv: &'scope mut [T]): T => {
        let spec = self.on.allgather_spec::<T>(send.len(), recv.len());
        (Operation::InterAllgather, spec, (Some(send), Some(recv)))
    };
    "allgatherv" iallgatherv allgatherv_init<T>
    (self, send: &'scope [T], sent: impl Parts, recv: &'scope mut [T], received: impl Parts): T => {
        let spec = self.on.allgatherv_spec::<T>(send.len(), &sent, recv.len(), &received);
        (Operation::InterAllgatherv, spec, (Some(send), Some(recv)))
    };
}
