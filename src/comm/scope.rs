//! Non-blocking collectives on slices that are lent for a scope.

use super::call::Spec;
use super::collective::Collective;
use super::communicator::Communicator;
use super::inter::{Intercommunicator, Root};
use super::lock::Held;
use super::neighborhood::Neighborhood;
use super::partition::{Parts, lists};
use super::place::{Contribution, Destination};
use super::request::Pending;
use super::running::{Running, Shadow};
use crate::buffer::{self, Binding, Borrowed, Bound, Lent, Loans, OnLoan, Wire, write};
use crate::error::{Error, Result};
use crate::ops::IntoReducer;
use crate::plan::registry::Operation;
use crate::plan::{Place, Region};
use bytemuck::Pod;

/// Starts non-blocking calls on borrowed slices, as [`std::thread::Scope`] starts threads: see [`Communicator::scope`]. On a
/// [`Neighborhood`] and an [`Intercommunicator`] it has their calls.
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope, C = Communicator> {
    on: &'env C,
    loans: &'scope Loans<'scope, 'env, ScopedCollective>,
}

/// A collective under way on slices that are lent to it until its [`Scope`] ends. [`wait`](ScopedRequest::wait) gives what it writes
/// back before. If it is dropped, or leaked, the scope waits for it.
///
/// It can be waited for together with others: [`wait_any`](super::wait_any), [`wait_all`](super::wait_all).
#[derive(Debug)]
#[must_use = "without wait() its buffer comes back only when the scope ends"]
pub struct ScopedRequest<'scope, T: Pod>(Borrowed<'scope, T, ScopedCollective>);

impl<'scope, T: Pod> ScopedRequest<'scope, T> {
    /// Whether it has finished here; moves on everything that is in flight, once.
    ///
    /// # Errors
    /// When the world is broken, or nothing moved for the deadline.
    pub fn test(&mut self) -> Result<bool> {
        self.0.with(ScopedCollective::test).unwrap_or(Ok(true))
    }

    /// Waits until it has finished here, and gives back what it has written (of a broadcast: the buffer itself).
    ///
    /// # Errors
    /// After the deadline, or when the world breaks meanwhile. The slice comes back with the end of the scope then.
    pub fn wait(self) -> Result<&'scope mut [T]> {
        self.0.end()
    }
}

impl<T: Pod> super::request::sealed::Sealed for ScopedRequest<'_, T> {}

impl<T: Pod> Pending for ScopedRequest<'_, T> {
    fn test(&mut self) -> Result<bool> {
        ScopedRequest::test(self)
    }
}

/// What a scope has started.
pub(super) struct ScopedCollective {
    comm: Communicator,
    run: Running,
    /// Where the result goes that is kept in the shadow, and this.
    shadow: Option<(Bound, Shadow)>,
}

impl std::fmt::Debug for ScopedCollective {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScopedCollective").field("operation", &self.run.operation()).finish_non_exhaustive()
    }
}

impl ScopedCollective {
    fn test(&mut self) -> Result<bool> {
        let mut held = self.comm.hold()?;
        self.run.test(&mut held)
    }

    /// Moves the result that is kept in the shadow to where it goes.
    fn unshadow(&self) -> Result<()> {
        let Some((output, shadow)) = &self.shadow else { return Ok(()) };
        let Some(result) = shadow.result() else { return Ok(()) };
        let binding = Binding { output: *output, ..Binding::NONE };
        write(&binding, Place { region: Region::Output, offset: 0 }, result)
    }
}

impl OnLoan for ScopedCollective {
    fn end(&mut self, memory: [Lent; 2]) -> Result<()> {
        let mut held = self.comm.hold()?;
        let done = self.run.wait(&self.comm, &mut held).and_then(|()| self.unshadow());
        let ended = done.and_then(|()| {
            self.run.retire(&mut held);
            memory.into_iter().try_for_each(|lent| lent.end(&mut held))
        });
        ended.map_err(|e| held.fail(e))
    }

    fn close(&mut self) {
        match self.comm.hold() {
            Ok(mut held) => held.engine.shut(),
            // A forked child whose parent had the lock: its memory must not come back as if nothing used it.
            Err(_) => std::process::abort(),
        }
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
        (send, recv): (Option<&'scope [T]>, Option<&'scope mut [T]>),
    ) -> Result<ScopedRequest<'scope, T>> {
        let operation = operation.into();
        let (send, recv) = match spec.as_ref().ok().and_then(|spec| spec.unused) {
            Some(Region::Input) => (None, recv),
            Some(Region::Output) => (send, None),
            _ => (send, recv),
        };
        let recv = recv.unwrap_or_default();
        let shadow = match (&spec, send) {
            (Ok(spec), None) => Shadow::of(comm, operation, spec, size_of_val(recv)),
            _ => Ok(None),
        };
        let (spec, mut shadow) = match shadow {
            Ok(shadow) => (spec, shadow),
            Err(e) => (Err(e), None),
        };
        if let Some(shadow) = &mut shadow {
            shadow.before(bytemuck::cast_slice(recv));
        }
        let mut held = comm.hold()?;
        let begun = comm.begin(&mut held, operation, spec)?;
        let (arena, fill) = (held.arena.clone(), begun.fill || shadow.is_some());
        let sequence = u64::from(begun.meta.call.sequence);
        let make = |[input, output]: [Bound; 2]| {
            let regions = match &shadow {
                Some(shadow) => shadow.regions(&arena, output)?,
                None => [input, output],
            };
            let (run, shadow) =
                (Running::new(operation, begun, regions), shadow.map(|shadow| (output, shadow)));
            Ok(ScopedCollective { comm: comm.clone(), run, shadow })
        };
        let start =
            |held: &mut Held<'_>, collective: &mut ScopedCollective| collective.run.start(comm, held, false);
        let lent = (send.unwrap_or_default(), recv, fill);
        let started = self.loans.start(&mut held, &arena, lent, make, start);
        let at = |e: Error| e.in_operation(operation.name(), sequence);
        started.map(ScopedRequest).map_err(|e| held.fail(at(e)))
    }
}

/// Calls of a scope, one entry each: the blocking call that it stands for, its name and arguments, and what makes operation, spec and
/// slices of them.
macro_rules! scoped {
    ($on:ident, $of:expr; $($blocking:literal $name:ident $(<$t:ident>)?
      ($self:ident $(, $arg:ident: $type:ty)*): $element:ty => $body:expr;)*) => {
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

scoped! { Communicator, |comm| comm;
    "barrier" ibarrier(self): u8 => (Operation::Barrier, Ok(Spec::default()), (None, None));
    "bcast" ibcast<T>(self, buf: &'scope mut [T], root: usize): T => {
        (Operation::Bcast, self.on.bcast_spec::<T>(buf.len(), root), (None, Some(buf)))
    };
    "allgather" iallgather<T>(self, send: impl Contribution<'scope, T>, recv: &'scope mut [T]): T => {
        let send = send.slice();
        (Operation::Allgather, self.on.allgather_spec::<T>(len(send), recv.len()), (send, Some(recv)))
    };
    "allgatherv" iallgatherv<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], parts: impl Parts): T => {
        let (send, (counts, displs)) = (send.slice(), lists(&parts));
        let spec = self.on.allgatherv_spec::<T>(len(send), recv.len(), (counts, &displs));
        (Operation::Allgatherv, spec, (send, Some(recv)))
    };
    "gather" igather<T>(self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], root: usize): T => {
        let send = send.slice();
        (Operation::Gather, self.on.gather_spec::<T>(len(send), recv.len(), root), (send, Some(recv)))
    };
    "gatherv" igatherv<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], parts: impl Parts, root: usize): T => {
        let send = send.slice();
        let spec = self.on.gatherv_spec::<T>(len(send), recv.len(), &parts, root);
        (Operation::Gatherv, spec, (send, Some(recv)))
    };
    "gatherv_rooted" igatherv_rooted<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], parts: impl Parts, root: usize): T => {
        let send = send.slice();
        let spec = self.on.gatherv_rooted_spec::<T>(len(send), recv.len(), &parts, root);
        (Collective::GathervRooted, spec, (send, Some(recv)))
    };
    "scatter" iscatter<T>
    (self, send: &'scope [T], recv: impl Destination<'scope, T>, root: usize): T => {
        let recv = recv.slice();
        let spec = self.on.scatter_spec::<T>(send.len(), len(recv.as_deref()), root);
        (Operation::Scatter, spec, (Some(send), recv))
    };
    "scatterv" iscatterv<T>
    (self, send: &'scope [T], parts: impl Parts, recv: impl Destination<'scope, T>, root: usize): T => {
        let recv = recv.slice();
        let spec = self.on.scatterv_spec::<T>(send.len(), &parts, len(recv.as_deref()), root);
        (Operation::Scatterv, spec, (Some(send), recv))
    };
    "scatterv_rooted" iscatterv_rooted<T>
    (self, send: &'scope [T], parts: impl Parts, recv: impl Destination<'scope, T>, root: usize): T => {
        let recv = recv.slice();
        let spec = self.on.scatterv_rooted_spec::<T>(send.len(), &parts, len(recv.as_deref()), root);
        (Collective::ScattervRooted, spec, (Some(send), recv))
    };
    "alltoall" ialltoall<T>(self, send: impl Contribution<'scope, T>, recv: &'scope mut [T]): T => {
        let send = send.slice();
        let spec = self.on.alltoall_spec::<T>(len(send).unwrap_or(recv.len()), recv.len());
        (Operation::Alltoall, spec, (send, Some(recv)))
    };
    "alltoallv" ialltoallv<T>
    (self, send: impl Contribution<'scope, T>, sent: impl Parts, recv: &'scope mut [T], received: impl Parts): T => {
        let send = send.slice();
        let spec = self.on.alltoallv_spec::<T>(len(send), &sent, recv.len(), &received);
        (Operation::Alltoallv, spec, (send, Some(recv)))
    };
    "reduce" ireduce<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], op: impl IntoReducer<T>, root: usize): T => {
        let send = send.slice();
        (Operation::Reduce, self.on.reduce_spec::<T>(len(send), recv.len(), op, root), (send, Some(recv)))
    };
    "allreduce" iallreduce<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], op: impl IntoReducer<T>): T => {
        let send = send.slice();
        (Operation::Allreduce, self.on.everywhere_spec::<T>(len(send), recv.len(), op), (send, Some(recv)))
    };
    "reduce_scatter_block" ireduce_scatter_block<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], op: impl IntoReducer<T>): T => {
        let send = send.slice();
        (Operation::ReduceScatterBlock, self.on.block_spec::<T>(len(send), recv.len(), op), (send, Some(recv)))
    };
    "reduce_scatter" ireduce_scatter<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], parts: impl Parts, op: impl IntoReducer<T>): T => {
        let send = send.slice();
        let spec = self.on.parts_spec::<T>(len(send), recv.len(), &parts, op);
        (Operation::ReduceScatter, spec, (send, Some(recv)))
    };
    "scan" iscan<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], op: impl IntoReducer<T>): T => {
        let send = send.slice();
        (Operation::Scan, self.on.everywhere_spec::<T>(len(send), recv.len(), op), (send, Some(recv)))
    };
    "exscan" iexscan<T>
    (self, send: impl Contribution<'scope, T>, recv: &'scope mut [T], op: impl IntoReducer<T>): T => {
        let send = send.slice();
        (Operation::Exscan, self.on.before_spec::<T>(len(send), recv.len(), op), (send, Some(recv)))
    };
}

scoped! { Neighborhood, Neighborhood::comm;
    "neighbor_allgather" ineighbor_allgather<T>(self, send: &'scope [T], recv: &'scope mut [T]): T => {
        let spec = self.on.allgather_spec::<T>(send.len(), recv.len());
        (Collective::NeighborAllgather, spec, (Some(send), Some(recv)))
    };
    "neighbor_allgatherv" ineighbor_allgatherv<T>
    (self, send: &'scope [T], recv: &'scope mut [T], parts: impl Parts): T => {
        let spec = self.on.allgatherv_spec::<T>(send.len(), recv.len(), &parts);
        (Collective::NeighborAllgatherv, spec, (Some(send), Some(recv)))
    };
    "neighbor_alltoall" ineighbor_alltoall<T>(self, send: &'scope [T], recv: &'scope mut [T]): T => {
        let spec = self.on.alltoall_spec::<T>(send.len(), recv.len());
        (Collective::NeighborAlltoall, spec, (Some(send), Some(recv)))
    };
    "neighbor_alltoallv" ineighbor_alltoallv<T>
    (self, send: impl Contribution<'scope, T>, sent: impl Parts, recv: &'scope mut [T], received: impl Parts): T => {
        let send = send.slice();
        let spec = self.on.alltoallv_spec::<T>((len(send), &sent), (recv.len(), &received));
        (Collective::NeighborAlltoallv, spec, (send, Some(recv)))
    };
}

scoped! { Intercommunicator, Intercommunicator::union;
    "barrier" ibarrier(self): u8 => (Operation::InterBarrier, Ok(Spec::default()), (None, None));
    "bcast" ibcast<T>(self, buf: &'scope mut [T], root: Root): T => {
        (Operation::InterBcast, self.on.bcast_spec::<T>(buf.len(), root), (None, Some(buf)))
    };
    "allgather" iallgather<T>(self, send: &'scope [T], recv: &'scope mut [T]): T => {
        let spec = self.on.allgather_spec::<T>(send.len(), recv.len());
        (Operation::InterAllgather, spec, (Some(send), Some(recv)))
    };
    "allgatherv" iallgatherv<T>
    (self, send: &'scope [T], sent: impl Parts, recv: &'scope mut [T], received: impl Parts): T => {
        let spec = self.on.allgatherv_spec::<T>(send.len(), &sent, recv.len(), &received);
        (Operation::InterAllgatherv, spec, (Some(send), Some(recv)))
    };
}
