//! Loans: a user's slice takes part in one operation and is free again when the call returns.
//!
//! A closure, never a guard: a guard could be forgotten while a peer still writes.

use crate::buffer::{Arena, Bound, Grant};
use crate::error::{Error, Result};
use crate::transport::{Access, Borrow, Registration, Transport};
use std::mem::ManuallyDrop;

/// What drives the transport while memory is lent; a world of one rank has no transport.
pub(crate) trait Wire {
    /// The endpoint, if there is one and it is open.
    fn transport(&mut self) -> Option<&mut (dyn Transport + 'static)>;
    /// What a borrowed slice needs here.
    fn borrow_mode(&self) -> Borrow;
    /// Ends all traffic for good because of `error` (idempotent), and says what the error is then called.
    /// When it cannot promise that, it does not return.
    fn fail(&mut self, error: Error) -> Error;
    /// As [`Wire::fail`], without a message to other ranks.
    fn shut(&mut self);
    /// Says how many bytes were copied for the loan.
    fn copied(&mut self, bytes: usize);
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

/// Runs `body` with the loan bound, and ends all access to it before returning, whatever happened: by
/// deregistering it after success, by closing the endpoint after an error or a panic.
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
    // A shared loan is bound as a source only: its pointer is never written through.
    let (ptr, len, fill, access) = match loan {
        Loan::Shared(s) => (s.as_ptr().cast_mut(), s.len(), true, Access::Source),
        Loan::Unique { bytes, fill } => (bytes.as_mut_ptr(), bytes.len(), fill, Access::Target),
    };
    if len == 0 {
        return body(wire, Bound::NONE);
    }
    if let Some((registration, grant)) = arena.locate(ptr, len) {
        // SAFETY: the caller's borrow lives until we return, and until then it is touched through this bound
        // only. The arena stays registered; unless the body succeeds `guarded` closes the endpoint.
        let bound = unsafe { Bound::new(ptr, len, registration, grant) };
        return guarded(wire, |wire| body(wire, bound));
    }
    let mode = wire.borrow_mode();
    let Some(transport) = wire.transport() else {
        // SAFETY: no transport, so only our own copies touch it, within the caller's borrow.
        let bound = unsafe { Bound::new(ptr, len, Registration(u32::MAX), Grant::default()) };
        return guarded(wire, |wire| body(wire, bound));
    };
    if mode == Borrow::Staged {
        // Leaked unless the body succeeds: a late writer may still reach it.
        let mut block = ManuallyDrop::new(arena.alloc(len, Some(transport))?);
        if fill {
            // SAFETY: the caller's slice, alive until we return; no other thread touches it while it is staged.
            block.write(unsafe { std::slice::from_raw_parts(ptr, len) });
            wire.copied(len);
        }
        let value = guarded(wire, |wire| body(wire, block.bound(len)))?;
        if access == Access::Target {
            // SAFETY: as above, and lent to us to be written.
            block.read(unsafe { std::slice::from_raw_parts_mut(ptr, len) });
            wire.copied(len);
        }
        drop(ManuallyDrop::into_inner(block));
        return Ok(value);
    }
    // SAFETY: the caller's borrow covers the range until we return; before that it is deregistered, or the
    // endpoint is closed.
    let (registration, remote) = unsafe { transport.register(ptr, len, access)? };
    // SAFETY: as above.
    let bound =
        unsafe { Bound::new(ptr, len, registration, Grant { address: remote.base, key: remote.key }) };
    guarded(wire, |wire| {
        let value = body(wire, bound)?;
        wire.transport().map_or(Ok(()), |t| t.deregister(registration))?;
        Ok(value)
    })
}

/// Runs `body`; after an error or a panic in it no peer can reach what was lent.
fn guarded<W: Wire, R>(wire: &mut W, body: impl FnOnce(&mut W) -> Result<R>) -> Result<R> {
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
