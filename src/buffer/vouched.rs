//! Loans of memory for which the caller vouches: no closure and no lifetime ends them.

use super::lend::{Lent, Loan, Wire};
use super::scope::{Entry, OnLoan, lend_both};
use super::{Arena, Bound};
use crate::error::{Error, ErrorKind, Result};

/// An operation on such memory. When it is dropped it has ended, or the endpoint is closed.
#[derive(Debug)]
pub(crate) struct Vouched<O: OnLoan>(Option<Entry<O>>);

// SAFETY: what keeps it from being sent is the address of the memory that a loan is staged for. By the contract of `start` that memory
// is used by us alone while we use it, whatever the thread; and the loan's other parts are plain numbers and blocks of the arena.
unsafe impl<O: OnLoan + Send> Send for Vouched<O> {}

impl<O: OnLoan> Vouched<O> {
    /// Lends `input` and `output` and starts an operation on them, which `make` makes and `start` starts. `fill`: what is in the
    /// output matters. `lasting`: many runs are to come.
    ///
    /// # Safety
    /// The memory of both stays valid, whatever their lifetimes say, until [`Vouched::end`] has returned without error, this value was
    /// dropped, or the endpoint was closed. While a run of the operation is under way, and in calls of this value, the
    /// input is not written to, and the output not touched by others. The two do not overlap.
    ///
    /// # Errors
    /// When the memory cannot be lent; those of `make` and `start`. The endpoint is closed after all but the first loan's.
    pub(crate) unsafe fn start<W: Wire>(
        wire: &mut W,
        arena: &Arena,
        (input, output, fill, lasting): (&[u8], &mut [u8], bool, bool),
        make: impl FnOnce([Bound; 2]) -> Result<O>,
        start: impl FnOnce(&mut W, &mut O) -> Result<()>,
    ) -> Result<Self> {
        let loans = (Loan::Shared(input), Loan::Unique { bytes: output, fill }, lasting);
        // It is outside of what closes the endpoint after an error or a panic, so that it is dropped later.
        let mut kept = None;
        let keep = |wire: &mut W, entry: Entry<O>| start(wire, &mut kept.insert(entry).operation);
        // SAFETY: our caller's contract; the entry ends its loans in `end` or when it is dropped, or the endpoint is closed before.
        unsafe { lend_both(wire, arena, loans, make, keep)? };
        Ok(Self(kept))
    }

    /// Works on the operation and its loans.
    ///
    /// # Errors
    /// Those of `body`; and after [`Vouched::end`].
    pub(crate) fn with<R>(&mut self, body: impl FnOnce(&mut O, &mut [Lent; 2]) -> Result<R>) -> Result<R> {
        match &mut self.0 {
            Some(Entry { operation, memory }) => body(operation, memory),
            None => Err(Error::new(ErrorKind::Aborted, "the operation has failed before")),
        }
    }

    /// Waits until the operation has ended, and ends the loans. Does nothing when it was called before.
    ///
    /// # Errors
    /// Those of the operation: the endpoint is closed then.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.0.take().map_or(Ok(()), Entry::end)
    }
}

impl<O: OnLoan> Drop for Vouched<O> {
    fn drop(&mut self) {
        // Its error is told by the world's next call.
        let _ = self.end();
    }
}
