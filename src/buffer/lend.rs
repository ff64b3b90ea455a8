//! Loans: a user's slice takes part in one operation and is free again when the call returns.
//!
//! A closure, never a guard: a guard could be forgotten while a peer still writes.

use crate::buffer::{Arena, Block, Bound, Grant};
use crate::error::{Error, Result};
use crate::transport::{Access, Borrow, Registration, Transport};
use std::mem::ManuallyDrop;

/// What drives the transport while memory is lent; a world of one rank has no transport.
pub(crate) trait Wire {
    /// The endpoint, if there is one and it is open.
    fn transport(&mut self) -> Option<&mut (dyn Transport + 'static)>;
    /// What a borrowed slice of `len` bytes needs here.
    fn borrow_mode(&self, len: usize) -> Borrow;
    /// Ends all traffic for good because of `error` (idempotent), and says what the error is then called.
    /// When it cannot promise that, it does not return. But see [`Wire::goes_on`].
    fn fail(&mut self, error: Error) -> Error;
    /// As [`Wire::fail`], without a message to other ranks.
    fn shut(&mut self);
    /// Says how many bytes were copied for the loan.
    fn copied(&mut self, bytes: usize);
    /// The endpoint goes on after some errors: [`Wire::fail`] returns without having closed it. Then all that is lent is
    /// [staged](Borrow::Staged), so that no peer reaches the caller's memory anyhow. Always the same while anything is lent.
    fn goes_on(&self) -> bool {
        false
    }
}

/// What is lent.
#[derive(Debug)]
pub(crate) enum Loan<'a> {
    /// Only read, by us and (through puts) by the provider.
    Shared(&'a [u8]),
    /// Written by peers and by us; `fill` says that its present contents matter.
    Unique {
        /// The memory.
        bytes: &'a mut [u8],
        /// Must staging copy it in first?
        fill: bool,
    },
}

impl Loan<'_> {
    fn is_empty(&self) -> bool {
        match self {
            Self::Shared(bytes) => bytes.is_empty(),
            Self::Unique { bytes, .. } => bytes.is_empty(),
        }
    }
}

/// A slice that is lent: bound as the wire needs it, until [`Lent::end`]. Without that its registration stays, and a staged copy is
/// leaked, as a late writer may still reach it.
#[derive(Debug)]
pub(crate) struct Lent {
    bound: Bound,
    how: How,
}

#[derive(Debug)]
enum How {
    /// Nothing is to be undone: it is empty or in the arena, or there is no transport.
    Plain,
    Registered(Registration),
    /// Through memory of ours, from where what has come is copied to the slice.
    Staged {
        block: ManuallyDrop<Block>,
        ptr: *mut u8,
        len: usize,
        access: Access,
    },
}

impl Lent {
    /// Lends it; `lasting`: for many runs, so that what it costs to register it counts for little.
    ///
    /// # Safety
    /// Until [`Lent::end`] or [`Lent::release`] has returned without error, or the endpoint was closed, the memory stays valid. While an
    /// operation on the bound runs, and in the calls of this value, it stays borrowed as the loan says, and a unique loan is
    /// touched through the bound only.
    ///
    /// # Errors
    /// When the memory cannot be registered or staged: nothing is lent then.
    pub(super) unsafe fn new<W: Wire>(
        wire: &mut W,
        arena: &Arena,
        loan: Loan<'_>,
        lasting: bool,
    ) -> Result<Self> {
        // A shared loan is bound as a source only: its pointer is never written through.
        let (ptr, len, fill, access) = match loan {
            Loan::Shared(s) => (s.as_ptr().cast_mut(), s.len(), true, Access::Source),
            Loan::Unique { bytes, fill } => (bytes.as_mut_ptr(), bytes.len(), fill, Access::Target),
        };
        if len == 0 {
            return Ok(Self { bound: Bound::NONE, how: How::Plain });
        }
        let goes_on = wire.goes_on();
        if !goes_on && let Some((registration, grant)) = arena.locate(ptr, len) {
            // SAFETY: by our contract the memory is borrowed until this loan has ended, and the arena stays registered.
            let bound = unsafe { Bound::new(ptr, len, registration, grant) };
            return Ok(Self { bound, how: How::Plain });
        }
        let mode = wire.borrow_mode(if lasting { usize::MAX } else { len });
        let Some(transport) = wire.transport() else {
            // SAFETY: as above; no transport, so only our own copies touch it.
            let bound = unsafe { Bound::new(ptr, len, Registration(u32::MAX), Grant::default()) };
            return Ok(Self { bound, how: How::Plain });
        };
        if mode == Borrow::Staged || goes_on {
            let mut block = ManuallyDrop::new(arena.alloc(len, Some(transport))?);
            if fill {
                // SAFETY: the borrowed slice; nothing else touches it while it is staged.
                block.write(unsafe { std::slice::from_raw_parts(ptr, len) });
                wire.copied(len);
            }
            return Ok(Self { bound: block.bound(len), how: How::Staged { block, ptr, len, access } });
        }
        // SAFETY: by our contract the range stays valid until it is deregistered, or the endpoint is closed.
        let (registration, remote) = unsafe { transport.register(ptr, len, access)? };
        // SAFETY: as above.
        let bound =
            unsafe { Bound::new(ptr, len, registration, Grant { address: remote.base, key: remote.key }) };
        Ok(Self { bound, how: How::Registered(registration) })
    }

    /// The memory, for an operation that ends before the loan does.
    pub(super) fn bound(&self) -> Bound {
        self.bound
    }

    /// Takes what stands in the memory now: before a further run of an operation that keeps the loan.
    pub(crate) fn collect<W: Wire>(&mut self, wire: &mut W) {
        if let How::Staged { block, ptr, len, .. } = &mut self.how {
            // SAFETY: by the contract of `new` the memory is valid, and lent to us in this call.
            block.write(unsafe { std::slice::from_raw_parts(*ptr, *len) });
            wire.copied(*len);
        }
    }

    /// Brings what has come to the memory: after a run.
    pub(crate) fn deliver<W: Wire>(&self, wire: &mut W) {
        if let How::Staged { block, ptr, len, access: Access::Target } = &self.how {
            // SAFETY: by the contract of `new` the memory is valid, and lent to us in this call to be written.
            block.read(unsafe { std::slice::from_raw_parts_mut(*ptr, *len) });
            wire.copied(*len);
        }
    }

    /// Ends the loan, after what has come was brought to the memory. No operation uses it any more, and the endpoint is as it was
    /// when it began.
    ///
    /// # Errors
    /// When the provider does not deregister it: the endpoint must be closed then.
    pub(crate) fn end<W: Wire>(self, wire: &mut W) -> Result<()> {
        self.deliver(wire);
        self.release(wire)
    }

    /// As [`Lent::end`], and leaves the memory as it is.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn release<W: Wire>(self, wire: &mut W) -> Result<()> {
        match self.how {
            How::Plain => Ok(()),
            How::Registered(registration) => {
                wire.transport().map_or(Ok(()), |transport| transport.deregister(registration))
            }
            How::Staged { block, .. } => {
                drop(ManuallyDrop::into_inner(block));
                Ok(())
            }
        }
    }
}

/// Runs `body` with the loan bound, and ends all access to it before returning, whatever happened: by
/// deregistering it after success, by closing the endpoint after an error or a panic. Where the endpoint goes on after the error
/// what was bound is a copy, which is leaked.
///
/// # Errors
/// Those of `body`; and when the memory cannot be registered or staged (nothing was lent then, and the
/// endpoint is open still).
pub(crate) fn lend<W: Wire, R>(
    wire: &mut W,
    arena: &Arena,
    loan: Loan<'_>,
    body: impl FnOnce(&mut W, Bound) -> Result<R>,
) -> Result<R> {
    if loan.is_empty() {
        return body(wire, Bound::NONE);
    }
    // SAFETY: the caller's borrow lives until we return. Before that the loan has ended, or `guarded` has closed the endpoint, or what is
    // bound is a copy: where `guarded` returns without that, the wire goes on (`Wire::goes_on`), and then all loans are staged.
    let lent = unsafe { Lent::new(wire, arena, loan, false)? };
    guarded(wire, |wire| {
        let value = body(wire, lent.bound)?;
        lent.end(wire)?;
        Ok(value)
    })
}

/// Runs `body`; after an error or a panic in it no peer can reach what was lent: the endpoint is closed, or all loans are copies
/// ([`Wire::goes_on`]).
pub(super) fn guarded<W: Wire, R>(wire: &mut W, body: impl FnOnce(&mut W) -> Result<R>) -> Result<R> {
    let mut guard = ShutOnUnwind { wire, armed: true };
    let result = body(guard.wire).map_err(|e| guard.wire.fail(e));
    guard.armed = false;
    result
}

struct ShutOnUnwind<'a, W: Wire> {
    wire: &'a mut W,
    armed: bool,
}

impl<W: Wire> Drop for ShutOnUnwind<'_, W> {
    fn drop(&mut self) {
        if self.armed {
            self.wire.shut();
        }
    }
}
