//! Loans: a user's slice takes part in one operation and is free again when the call returns.
//!
//! A closure, never a guard: a guard could be forgotten while a peer still writes.

use crate::buffer::{Arena, Bound, Grant};
use crate::error::Result;
use crate::transport::{Borrow, Transport};

/// Who drives the transport while memory is lent; a world of one rank has no transport.
pub(crate) trait Wire {
    /// The endpoint, if there is one and it is open.
    fn transport(&mut self) -> Option<&mut (dyn Transport + 'static)>;
    /// What a borrowed slice needs here.
    fn borrow_mode(&self) -> Borrow;
    /// Ends all traffic for good (idempotent). When it cannot promise that, it does not return.
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
/// deregistering it after success, by closing the endpoint after an error.
///
/// # Errors
/// Those of `body`; and when the memory cannot be registered or staged.
pub(crate) fn lend<W: Wire, R>(
    wire: &mut W,
    arena: &Arena,
    loan: Loan<'_>,
    body: impl FnOnce(&mut W, Bound) -> Result<R>,
) -> Result<R> {
    let (ptr, len) = match &loan {
        // Never written: shared loans are bound as sources only.
        Loan::Shared(s) => (s.as_ptr().cast_mut(), s.len()),
        Loan::Unique { bytes, .. } => (bytes.as_ptr().cast_mut(), bytes.len()),
    };
    if len == 0 {
        return body(wire, Bound::NONE);
    }
    let ptr = match &mut { loan } {
        Loan::Shared(_) => ptr,
        Loan::Unique { bytes, fill } => {
            let direct = arena.locate(ptr, len).is_some()
                || wire.borrow_mode() == Borrow::Direct
                || wire.transport().is_none();
            if !direct {
                return staged_mut(wire, arena, bytes, *fill, body);
            }
            bytes.as_mut_ptr()
        }
    };
    if let Some((registration, grant)) = arena.locate(ptr, len) {
        let mut shut = ShutOnUnwind { wire, armed: true };
        // SAFETY: the caller's borrow lives until we return, and until then it is touched through this bound
        // only. The arena stays registered; after an error the endpoint is closed below, before we return.
        let bound = unsafe { Bound::new(ptr, len, registration, grant) };
        let result = body(shut.wire, bound);
        shut.armed = result.is_err();
        return result;
    }
    let staged = wire.borrow_mode() == Borrow::Staged;
    let Some(transport) = wire.transport() else {
        // SAFETY: no transport, so only our own copies touch it, within the caller's borrow.
        let bound =
            unsafe { Bound::new(ptr, len, crate::transport::Registration(u32::MAX), Grant::default()) };
        return body(wire, bound);
    };
    if staged {
        return staged_shared(wire, arena, ptr, len, body);
    }
    // SAFETY: the caller's borrow covers the range until we return; before that it is deregistered, or the
    // endpoint is closed.
    let (registration, remote) = unsafe { transport.register(ptr, len)? };
    let mut shut = ShutOnUnwind { wire, armed: true };
    let grant = Grant { address: remote.base, key: remote.key };
    // SAFETY: as above.
    let bound = unsafe { Bound::new(ptr, len, registration, grant) };
    let result = body(shut.wire, bound);
    let ended = match shut.wire.transport() {
        Some(t) => t.deregister(registration),
        None => Ok(()),
    };
    shut.armed = result.is_err() || ended.is_err();
    drop(shut);
    let value = result?;
    ended?;
    Ok(value)
}

/// A panic or an error in the body must not free memory that a peer may still write.
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

fn staged_mut<W: Wire, R>(
    wire: &mut W,
    arena: &Arena,
    bytes: &mut [u8],
    fill: bool,
    body: impl FnOnce(&mut W, Bound) -> Result<R>,
) -> Result<R> {
    let mut block = arena.alloc(bytes.len(), wire.transport())?;
    if fill {
        block.write(bytes);
        wire.copied(bytes.len());
    }
    let result = body(wire, block.bound(bytes.len()));
    match result {
        Ok(value) => {
            block.read(bytes);
            wire.copied(bytes.len());
            Ok(value)
        }
        Err(e) => {
            // A late writer may still reach the block: it must not be handed out again.
            wire.shut();
            std::mem::forget(block);
            Err(e)
        }
    }
}

fn staged_shared<W: Wire, R>(
    wire: &mut W,
    arena: &Arena,
    ptr: *const u8,
    len: usize,
    body: impl FnOnce(&mut W, Bound) -> Result<R>,
) -> Result<R> {
    let mut block = arena.alloc(len, wire.transport())?;
    // SAFETY: `ptr` and `len` are the caller's shared slice, alive until we return; nobody writes it.
    block.write(unsafe { std::slice::from_raw_parts(ptr, len) });
    wire.copied(len);
    let result = body(wire, block.bound(len));
    if result.is_err() {
        wire.shut();
        std::mem::forget(block);
    }
    result
}
