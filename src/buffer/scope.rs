//! Loans that last longer than a call: until their operation is waited for, or a scope ends.
//!
//! As with [`lend`](super::lend) it is a closure that lends, and what it is given can be leaked without harm: the list of the loans stays
//! outside of it, and all are ended when it has returned or panicked, before the borrows end.

use super::lend::{Lent, Loan, Wire, guarded};
use super::{Arena, Bound};
use crate::error::{Result, argument};
use bytemuck::Pod;
use std::cell::RefCell;
use std::marker::PhantomData;

/// An operation on lent memory.
pub(crate) trait OnLoan {
    /// Waits until it has ended, then ends the loans of its memory.
    ///
    /// # Errors
    /// When it fails, or a loan cannot be ended: then [`OnLoan::close`] follows.
    fn end(&mut self, memory: [Lent; 2]) -> Result<()>;

    /// Closes the endpoint, so that no peer can reach lent memory; does not return if it cannot.
    fn close(&mut self);
}

#[derive(Debug)]
struct Entry<O> {
    operation: O,
    memory: [Lent; 2],
}

/// Operations that have not been waited for, with their memory.
#[derive(Debug)]
pub(crate) struct Entries<O>(RefCell<Vec<Option<Entry<O>>>>);

/// The loans of a scope. Both lifetimes are invariant, as those of [`std::thread::Scope`].
#[derive(Debug)]
pub(crate) struct Loans<'scope, 'env: 'scope, O> {
    entries: Entries<O>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `body`, which may start operations on memory that is borrowed for `'scope`; when this returns, or unwinds, all of them have
/// ended, or the endpoint is closed.
///
/// # Errors
/// That of `body`; else the first one of an operation that was not waited for.
pub(crate) fn scope<'env, O: OnLoan, R>(
    body: impl for<'scope> FnOnce(&'scope Loans<'scope, 'env, O>) -> Result<R>,
) -> Result<R> {
    let loans = Loans { entries: Entries(RefCell::default()), scope: PhantomData, env: PhantomData };
    let ends = EndAll(&loans.entries);
    let result = body(&loans);
    let ended = ends.0.end_all();
    drop(ends);
    let value = result?;
    ended.map(|()| value)
}

/// Ends what is under way, also after a panic; one in here, in another, aborts the process.
struct EndAll<'a, O: OnLoan>(&'a Entries<O>);

impl<O: OnLoan> Drop for EndAll<'_, O> {
    fn drop(&mut self) {
        // Its error is told by the world's next call.
        let _ = self.0.end_all();
    }
}

impl<O: OnLoan> Entries<O> {
    fn end_all(&self) -> Result<()> {
        let mut all = Ok(());
        loop {
            let entry = self.0.borrow_mut().iter_mut().find_map(Option::take);
            let Some(entry) = entry else { return all };
            all = all.and(entry.end());
        }
    }

    /// Keeps an entry, and says where.
    fn keep(&self, entry: Entry<O>) -> usize {
        let mut entries = self.0.borrow_mut();
        let free = entries.iter().position(Option::is_none);
        let index = free.unwrap_or(entries.len());
        match free {
            Some(index) => entries[index] = Some(entry),
            None => entries.push(Some(entry)),
        }
        index
    }
}

impl<O: OnLoan> Entry<O> {
    fn end(self) -> Result<()> {
        let mut guard = CloseUnlessEnded { operation: self.operation, ended: false };
        guard.operation.end(self.memory)?;
        guard.ended = true;
        Ok(())
    }
}

struct CloseUnlessEnded<O: OnLoan> {
    operation: O,
    ended: bool,
}

impl<O: OnLoan> Drop for CloseUnlessEnded<O> {
    fn drop(&mut self) {
        if !self.ended {
            self.operation.close();
        }
    }
}

impl<'scope, O: OnLoan> Loans<'scope, '_, O> {
    /// Lends `input` and `output` and starts an operation on them. `fill`: what is in the output matters.
    ///
    /// # Errors
    /// That of `start`: the endpoint is closed then; and when the memory cannot be lent.
    pub(crate) fn start<T: Pod, W: Wire>(
        &'scope self,
        wire: &mut W,
        arena: &Arena,
        (input, output, fill): (&'scope [T], &'scope mut [T], bool),
        start: impl FnOnce(&mut W, [Bound; 2]) -> Result<O>,
    ) -> Result<Borrowed<'scope, T, O>> {
        let (len, size) = (output.len(), size_of_val(output));
        let ptr = output.as_mut_ptr();
        // SAFETY: the same range as bytes, which any `Pod` may be written as; `output` is not used any more.
        let bytes = unsafe { std::slice::from_raw_parts_mut(ptr.cast::<u8>(), size) };
        let (input, output) = (Loan::Shared(bytemuck::cast_slice(input)), Loan::Unique { bytes, fill });
        // SAFETY: borrowed for `'scope`, which lasts until `scope` has ended all entries, or closed the endpoint. Here the loan is in
        // no entry yet: `guarded` closes the endpoint before anything is lost. `output` comes back from `Borrowed::end` only.
        let input = unsafe { Lent::new(wire, arena, input)? };
        guarded(wire, |wire| {
            // SAFETY: as above.
            let output = unsafe { Lent::new(wire, arena, output)? };
            let operation = start(wire, [input.bound(), output.bound()])?;
            let index = self.entries.keep(Entry { operation, memory: [input, output] });
            Ok(Borrowed { entries: &self.entries, index, ptr, len, output: PhantomData })
        })
    }
}

/// An operation of a scope, and its output, which comes back when it has ended.
#[derive(Debug)]
pub(crate) struct Borrowed<'scope, T, O> {
    entries: &'scope Entries<O>,
    index: usize,
    ptr: *mut T,
    len: usize,
    output: PhantomData<&'scope mut [T]>,
}

impl<'scope, T: Pod, O: OnLoan> Borrowed<'scope, T, O> {
    /// The operation; `None` once it is lost.
    pub(crate) fn with<R>(&mut self, body: impl FnOnce(&mut O) -> R) -> Option<R> {
        let mut entries = self.entries.0.borrow_mut();
        entries.get_mut(self.index)?.as_mut().map(|entry| body(&mut entry.operation))
    }

    /// Waits until it has ended, and gives the output back.
    ///
    /// # Errors
    /// Those of the operation.
    pub(crate) fn end(self) -> Result<&'scope mut [T]> {
        let entry = self.entries.0.borrow_mut().get_mut(self.index).and_then(Option::take);
        entry.ok_or_else(|| argument("the operation has ended with its scope"))?.end()?;
        // SAFETY: where `start` got it, borrowed for `'scope` and given to the loan, which has ended; there is one `Borrowed` of it.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) })
    }
}
