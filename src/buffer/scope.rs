//! Loans that last longer than a call: until their operation is waited for, or a scope ends.
//!
//! As with [`lend`](mod@super::lend) it is a closure that lends, and what it is given can be leaked without harm: the list of the loans stays
//! outside of it, and all are ended when it has returned or panicked, before the borrows end.
//!
//! Where the endpoint goes on after an error ([`Wire::goes_on`]) copies stand for all that is lent, so that no peer reaches it at any time. What is
//! said here of closing the endpoint is done by leaking the copies then.

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

    /// Closes the endpoint, so that no peer can reach lent memory; does not return if it cannot. Where copies stand for that memory, and the
    /// endpoint goes on, it need not be closed.
    fn close(&mut self);
}

/// An operation with its memory.
#[derive(Debug)]
pub(super) struct Entry<O> {
    pub(super) operation: O,
    pub(super) memory: [Lent; 2],
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
    /// Waits until the operation has ended, and ends the loans of its memory.
    ///
    /// # Errors
    /// Those of the operation: the endpoint is closed then.
    pub(super) fn end(self) -> Result<()> {
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
    /// Lends `input` and `output` and starts an operation on them, which `make` makes and `start` starts. `fill`: what is in the
    /// output matters.
    ///
    /// # Errors
    /// When the memory cannot be lent; those of `make` and `start`. The endpoint is closed after all but the first loan's.
    pub(crate) fn start<T: Pod, W: Wire>(
        &'scope self,
        wire: &mut W,
        arena: &Arena,
        (input, output, fill): (&'scope [T], &'scope mut [T], bool),
        make: impl FnOnce([Bound; 2]) -> Result<O>,
        start: impl FnOnce(&mut W, &mut O) -> Result<()>,
    ) -> Result<Borrowed<'scope, T, O>> {
        let (len, size) = (output.len(), size_of_val(output));
        let ptr = output.as_mut_ptr();
        // SAFETY: the same range as bytes, which any `Pod` may be written as; `output` is not used any more.
        let bytes = unsafe { std::slice::from_raw_parts_mut(ptr.cast::<u8>(), size) };
        let (input, output) = (Loan::Shared(bytemuck::cast_slice(input)), Loan::Unique { bytes, fill });
        let kept = |wire: &mut W, entry: Entry<O>| {
            // Kept before it starts: after an error or a panic in there its memory stays until the endpoint is closed.
            let index = self.entries.keep(entry);
            let lent = Borrowed { entries: &self.entries, index, ptr, len, output: PhantomData };
            lent.with(|operation| start(wire, operation)).unwrap_or(Ok(()))?;
            Ok(lent)
        };
        // SAFETY: borrowed for `'scope`, which lasts until `scope` has ended all entries, or closed the endpoint; the output comes
        // back from `Borrowed::end` only, after its loan has ended. What is sent is `Pod`, so that no shared borrow writes to it.
        unsafe { lend_both(wire, arena, (input, output, false), make, kept) }
    }
}

/// Lends `input` and `output`, for many runs if `lasting` says so, to the operation that `make` makes of them, and has it kept, and started, by `keep`.
///
/// # Safety
/// As of [`Lent::new`], for both: `keep` keeps the entry until the loans have ended, or the endpoint was closed.
///
/// # Errors
/// When the memory cannot be lent; those of `make` and `keep`. The endpoint is closed after all but the first loan's.
pub(super) unsafe fn lend_both<W: Wire, O, R>(
    wire: &mut W,
    arena: &Arena,
    (input, output, lasting): (Loan<'_>, Loan<'_>, bool),
    make: impl FnOnce([Bound; 2]) -> Result<O>,
    keep: impl FnOnce(&mut W, Entry<O>) -> Result<R>,
) -> Result<R> {
    // SAFETY: our caller's contract. Until the loan is in an entry no operation uses it, and `guarded` closes the endpoint before it
    // is lost.
    let input = unsafe { Lent::new(wire, arena, input, lasting)? };
    guarded(wire, |wire| {
        // SAFETY: as above.
        let output = unsafe { Lent::new(wire, arena, output, lasting)? };
        let operation = make([input.bound(), output.bound()])?;
        keep(wire, Entry { operation, memory: [input, output] })
    })
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
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut O) -> R) -> Option<R> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Binding, copy};
    use crate::error::{Error, ErrorKind};
    use crate::plan::{Place, Region};
    use crate::transport::shm::{Options, Shm};
    use crate::transport::{Borrow, Transport};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    const LEN: usize = 100;

    /// An endpoint of one rank, or none.
    struct Alone {
        shm: Option<Shm>,
        mode: Borrow,
        closed: bool,
    }

    impl Wire for Alone {
        fn transport(&mut self) -> Option<&mut (dyn Transport + 'static)> {
            self.shm.as_mut().map(|shm| shm as &mut dyn Transport)
        }
        fn borrow_mode(&self, _len: usize) -> Borrow {
            self.mode
        }
        fn fail(&mut self, error: Error) -> Error {
            self.shut();
            error
        }
        fn shut(&mut self) {
            self.closed = true;
            if let Some(mut shm) = self.shm.take() {
                shm.close().unwrap();
            }
        }
        fn copied(&mut self, _bytes: usize) {}
    }

    /// What an operation does when it starts, or ends.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Way {
        Succeeds,
        Fails,
        Panics,
    }

    impl Way {
        fn go(self) -> Result<()> {
            match self {
                Self::Succeeds => Ok(()),
                Self::Fails => Err(Error::new(ErrorKind::System, "as told")),
                Self::Panics => std::panic::resume_unwind(Box::new("as told")),
            }
        }
    }

    /// Copies its input to its output: half of it when it starts, the rest before it ends.
    struct Copying {
        wire: Rc<RefCell<Alone>>,
        binding: Binding,
        ends: Way,
    }

    impl Copying {
        fn half(&self, offset: u64) -> Result<()> {
            let [from, to] = [Region::Input, Region::Output].map(|region| Place { region, offset });
            copy(&self.binding, from, to, LEN as u64 / 2)
        }
    }

    impl OnLoan for Copying {
        fn end(&mut self, memory: [Lent; 2]) -> Result<()> {
            self.ends.go()?;
            self.half(LEN as u64 / 2)?;
            memory.into_iter().try_for_each(|lent| lent.end(&mut *self.wire.borrow_mut()))
        }
        fn close(&mut self) {
            self.wire.borrow_mut().shut();
        }
    }

    /// No transport, one that is lent memory itself, and one that is lent copies.
    fn wires() -> impl Iterator<Item = Rc<RefCell<Alone>>> {
        let options = Options { rank: 0, locals: &[0], wait: None };
        let all = [(false, Borrow::Direct), (true, Borrow::Direct), (true, Borrow::Staged)];
        all.into_iter().map(move |(has_one, mode)| {
            let shm = has_one.then(|| Shm::open(&options).unwrap());
            Rc::new(RefCell::new(Alone { shm, mode, closed: false }))
        })
    }

    fn start<'scope>(
        loans: &'scope Loans<'scope, '_, Copying>,
        wire: &Rc<RefCell<Alone>>,
        (input, output): (&'scope [u16], &'scope mut [u16]),
        (starts, ends): (Way, Way),
    ) -> Result<Borrowed<'scope, u16, Copying>> {
        let arena = Arena::default();
        let make = |given: [Bound; 2]| {
            let binding = Binding::new(given, [Bound::NONE; 2]);
            Ok(Copying { wire: Rc::clone(wire), binding, ends })
        };
        let begin = |_: &mut Alone, operation: &mut Copying| {
            operation.half(0)?;
            starts.go()
        };
        loans.start(&mut *wire.borrow_mut(), &arena, (input, output, true), make, begin)
    }

    const WELL: (Way, Way) = (Way::Succeeds, Way::Succeeds);

    #[test]
    fn loans_end_with_their_operations_or_their_scope() {
        for wire in wires() {
            let (input, mut first, mut second, mut third) =
                ([7u16; LEN / 2], [0; LEN / 2], [0; LEN / 2], [0; LEN / 2]);
            let sum = scope(|loans| {
                let one = start(loans, &wire, (&input, &mut first), WELL)?;
                let two = start(loans, &wire, (&input, &mut second), WELL)?;
                // What is sent can be read meanwhile; what has come back can be lent again, and written to.
                let sum: u16 = input.iter().sum();
                let back = one.end()?;
                assert_eq!(back, input);
                back.fill(3);
                Box::leak(Box::new(two));
                let _ = start(loans, &wire, (back, &mut third), WELL)?;
                Ok(sum)
            });
            assert_eq!((sum.unwrap(), first[0], second, third), (350, 3, input, [3; LEN / 2]));
            assert!(!wire.borrow().closed);
        }
    }

    /// However an operation or its scope fails, the endpoint is closed before the borrows end, and all have ended.
    #[test]
    fn after_an_error_or_a_panic_the_endpoint_is_closed() {
        use Way::{Fails, Panics, Succeeds};
        for ways in [(Fails, Succeeds), (Panics, Succeeds), (Succeeds, Fails), (Succeeds, Panics)] {
            for waits in [true, false] {
                for wire in wires() {
                    let (input, mut lost, mut other) = ([7u16; LEN / 2], [0; LEN / 2], [0; LEN / 2]);
                    let all = || {
                        scope(|loans| {
                            let _other = start(loans, &wire, (&input, &mut other), WELL)?;
                            let lent = start(loans, &wire, (&input, &mut lost), ways)?;
                            if waits { lent.end().map(drop) } else { Ok(()) }
                        })
                    };
                    match catch_unwind(AssertUnwindSafe(all)) {
                        Ok(result) => assert_eq!(result.unwrap_err().message(), "as told"),
                        Err(payload) => assert_eq!(payload.downcast_ref(), Some(&"as told"), "{ways:?}"),
                    }
                    assert!(wire.borrow().closed, "{ways:?}");
                    lost.fill(1);
                    assert_eq!(other, input);
                }
            }
        }
    }

    #[test]
    fn a_panic_in_a_scope_ends_what_is_under_way() {
        for wire in wires() {
            let (input, mut output) = ([7u16; LEN / 2], [0; LEN / 2]);
            let all = || {
                scope(|loans| -> Result<()> {
                    let _lent = start(loans, &wire, (&input, &mut output), WELL)?;
                    Way::Panics.go()
                })
            };
            catch_unwind(AssertUnwindSafe(all)).unwrap_err();
            assert_eq!(output, input);
            assert!(!wire.borrow().closed);
        }
    }
}
