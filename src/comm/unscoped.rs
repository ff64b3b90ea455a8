//! Non-blocking and persistent collectives on memory for which the caller vouches: for bindings to other languages.

use super::call::Spec;
use super::collective::Collective;
use super::communicator::Communicator;
use super::inter::Intercommunicator;
use super::lent::{LentCall, LentCollective, Slices, used};
use super::lock::Held;
use super::neighborhood::Neighborhood;
use super::request::{Pending, sealed};
use crate::buffer::{Bound, Vouched, Wire};
use crate::error::Result;
use bytemuck::Pod;

/// Starts non-blocking calls on slices whose borrows end before the calls do, and makes persistent operations on such slices: for
/// bindings to other languages, whose memory no lifetime describes. See [`Communicator::unscoped`]. In Rust programs a
/// [`Scope`](super::Scope), a [`Request`](super::Request) or a [`Persistent`](super::Persistent) does the same safely.
///
/// # Safety
/// The lifetimes of the slices say nothing here. The caller of one of the methods promises of both its slices:
///
/// - The memory stays valid until the request, or the persistent operation, has *ended*: it said so ([`UnscopedRequest::test`] returned
///   `true`, [`UnscopedRequest::wait`] returned, also with an error), or was dropped. One that is leaked has not ended before its
///   world is gone.
/// - Meanwhile what is sent is not written to, and what is received is neither read nor written. Of a persistent operation
///   this holds for as long as a run is under way: from the call of [`UnscopedPersistent::start`] until a test or a wait has returned
///   that it has finished. Between runs the memory is the caller's.
/// - The two do not overlap.
///
/// Whatever other ranks do, the library keeps to these slices.
#[derive(Debug)]
pub struct Unscoped<'a, C = Communicator> {
    pub(super) on: &'a C,
}

/// A collective under way on memory for which its starter vouches: see [`Unscoped`]. Dropping it waits for it (inside an operator of
/// the same world, where waiting is not possible, the process is aborted).
#[derive(Debug)]
#[must_use = "dropping a request waits for it"]
pub struct UnscopedRequest {
    collective: Vouched<LentCollective>,
    finished: bool,
}

impl UnscopedRequest {
    /// Whether it has finished here; moves on everything that is in flight, once. When it returns `true` the memory is the
    /// caller's again.
    ///
    /// # Errors
    /// When the world is broken, or nothing moved for the deadline: what is received is unspecified then. The memory comes back when
    /// the request is dropped.
    pub fn test(&mut self) -> Result<bool> {
        if !self.finished && self.collective.with(|collective, _| collective.test())? {
            self.collective.end()?;
            self.finished = true;
        }
        Ok(self.finished)
    }

    /// Waits until it has finished here. When it returns, also with an error, the memory is the caller's again.
    ///
    /// # Errors
    /// After the deadline, or when the world breaks meanwhile.
    pub fn wait(mut self) -> Result<()> {
        if self.finished { Ok(()) } else { self.collective.end() }
    }
}

/// A persistent operation on memory for which its maker vouches: see [`Unscoped`]. As [`Persistent`](super::Persistent) it is planned,
/// bound and introduced to the neighbours once, and started many times. Dropping it waits for a run that is under way
/// (inside an operator of the same world the process is aborted).
#[derive(Debug)]
pub struct UnscopedPersistent(Vouched<LentCollective>);

impl UnscopedPersistent {
    /// Starts it, on what stands in the memory now. All ranks must start it in the same order among their other calls.
    ///
    /// # Errors
    /// When it is running already, or the world is broken.
    pub fn start(&mut self) -> Result<()> {
        self.0.with(LentCollective::restart)
    }

    /// Whether the started run has finished here; moves on everything that is in flight, once. When it returns `true` the memory is
    /// the caller's until the next start.
    ///
    /// # Errors
    /// When the world is broken, or nothing moved for the deadline.
    pub fn test(&mut self) -> Result<bool> {
        self.0.with(|collective, memory| {
            let finished = collective.test()?;
            if finished {
                collective.finish(memory)?;
            }
            Ok(finished)
        })
    }

    /// Waits until the started run has finished here; does nothing when none was started.
    ///
    /// # Errors
    /// After the deadline, or when the world breaks meanwhile.
    pub fn wait(&mut self) -> Result<()> {
        self.0.with(|collective, memory| collective.finish(memory))
    }
}

impl sealed::Sealed for UnscopedRequest {
    fn call_hook(&mut self) {
        // One that has failed has no world to wait in.
        _ = self.collective.with(|collective, _| {
            collective.call_hook();
            Ok(())
        });
    }
}

impl sealed::Sealed for UnscopedPersistent {
    fn call_hook(&mut self) {
        _ = self.0.with(|collective, _| {
            collective.call_hook();
            Ok(())
        });
    }
}

impl Pending for UnscopedRequest {
    fn test(&mut self) -> Result<bool> {
        UnscopedRequest::test(self)
    }
}

impl Pending for UnscopedPersistent {
    fn test(&mut self) -> Result<bool> {
        UnscopedPersistent::test(self)
    }
}

impl Communicator {
    /// Calls on memory for which the caller vouches.
    ///
    /// # Examples
    /// ```
    /// use circulant::ops;
    ///
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let (mine, mut sum) = ([1.5; 3], [0.0; 3]);
    /// // SAFETY: both arrays live until `wait` returns, are different ones, and are not used before.
    /// let request = unsafe { comm.unscoped().iallreduce(&mine, &mut sum, ops::Sum)? };
    /// request.wait()?;
    /// assert_eq!(sum[2], 1.5 * comm.size() as f64);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn unscoped(&self) -> Unscoped<'_> {
        Unscoped { on: self }
    }
}

impl Neighborhood {
    /// As [`Communicator::unscoped`], for exchanges with neighbours.
    pub fn unscoped(&self) -> Unscoped<'_, Self> {
        Unscoped { on: self }
    }
}

impl Intercommunicator {
    /// As [`Communicator::unscoped`], for calls between the groups.
    pub fn unscoped(&self) -> Unscoped<'_, Self> {
        Unscoped { on: self }
    }
}

/// Lends the slices to a call and begins it: starts it, or only tells the peers where its memory is.
///
/// # Safety
/// As [`Unscoped`] says.
unsafe fn begin<T: Pod>(
    comm: &Communicator,
    operation: impl Into<Collective>,
    spec: Result<Spec>,
    slices: Slices<'_, T>,
    lasting: bool,
    begin: fn(&mut LentCollective, &mut Held<'_>) -> Result<()>,
) -> Result<Vouched<LentCollective>> {
    let (send, recv) = used(&spec, slices);
    let (in_place, recv) = (send.is_none(), recv.unwrap_or_default());
    let (send, recv) = (bytemuck::cast_slice(send.unwrap_or_default()), bytemuck::cast_slice_mut(recv));
    let (mut held, call) = LentCall::begin(comm, operation.into(), spec, in_place)?;
    let (arena, at, fill) = (call.arena.clone(), call.at(), call.fill);
    let make = |regions: [Bound; 2]| call.bind(regions);
    let begin = |held: &mut Held<'_>, collective: &mut LentCollective| begin(collective, held);
    // SAFETY: the caller keeps the memory valid, and leaves it to us while a run is under way, until what we return has ended or is
    // dropped; it does not overlap.
    let begun = unsafe { Vouched::start(&mut held, &arena, (send, recv, fill, lasting), make, begin) };
    begun.map_err(|e| held.fail(at(e)))
}

impl UnscopedRequest {
    /// # Safety
    /// As [`Unscoped`] says.
    pub(super) unsafe fn new<T: Pod>(
        comm: &Communicator,
        operation: impl Into<Collective>,
        spec: Result<Spec>,
        slices: Slices<'_, T>,
    ) -> Result<Self> {
        // SAFETY: our caller's.
        let collective =
            unsafe { begin(comm, operation, spec, slices, false, |c, held| c.start(held, false))? };
        Ok(Self { collective, finished: false })
    }
}

impl UnscopedPersistent {
    /// # Safety
    /// As [`Unscoped`] says.
    pub(super) unsafe fn new<T: Pod>(
        comm: &Communicator,
        operation: impl Into<Collective>,
        spec: Result<Spec>,
        slices: Slices<'_, T>,
    ) -> Result<Self> {
        // SAFETY: our caller's.
        unsafe { begin(comm, operation, spec, slices, true, LentCollective::introduce).map(Self) }
    }
}

/// The calls of [`Unscoped`], from the entries of `lent_calls`.
macro_rules! unscoped {
    ($on:ident, $of:expr; $($blocking:literal $name:ident $init:ident $(<$t:ident>)?
      ($self:ident $(, $arg:ident: $type:ty)*): $element:ty => $body:expr;)*) => {
        impl<'scope> Unscoped<'scope, $on> {
            $(
            #[doc = concat!("[`", stringify!($on), "::", $blocking, "`] on memory for which the caller vouches, that returns at once.")]
            ///
            /// # Safety
            /// As [`Unscoped`] says of the slices.
            ///
            /// # Errors
            /// As the blocking call. Arguments are checked at once, the rest comes out while waiting.
            pub unsafe fn $name$(<$t: Pod>)?(&$self $(, $arg: $type)*) -> Result<UnscopedRequest> {
                let (operation, spec, slices) = $body;
                let of: fn(&$on) -> &Communicator = $of;
                // SAFETY: the caller's promise.
                unsafe { UnscopedRequest::new::<$element>(of($self.on), operation, spec, slices) }
            }

            #[doc = concat!(
                "[`", stringify!($on), "::", $blocking, "`] on memory for which the caller vouches, to be started many times. Collective."
            )]
            ///
            /// # Safety
            /// As [`Unscoped`] says of the slices.
            ///
            /// # Errors
            /// As the blocking call.
            pub unsafe fn $init$(<$t: Pod>)?(&$self $(, $arg: $type)*) -> Result<UnscopedPersistent> {
                let (operation, spec, slices) = $body;
                let of: fn(&$on) -> &Communicator = $of;
                // SAFETY: the caller's promise.
                unsafe { UnscopedPersistent::new::<$element>(of($self.on), operation, spec, slices) }
            }
            )*
        }
    };
}
pub(super) use unscoped;
