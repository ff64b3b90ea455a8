//! Blocking calls that are called as one before: neither checked, nor chosen, nor planned again.
//!
//! What the caller passes is compared with what it passed then, which is all that checks, choice and plan follow from. Such a call takes its program from
//! the cache at once, unless a trial measures it or has something to do ahead of it, or ranks compare their calls first. Calls that know more than
//! [`Calling`] says, that copy, or that need memory first are planned as any other.

use super::call::Begun;
use super::calling::{Calling, Passed};
use super::collective::Collective;
use super::communicator::Communicator;
use super::lock::Held;
use crate::error::Result;
use crate::ops::Reducer;
use crate::plan::Region;
use crate::select::Due;
use bytemuck::Pod;

impl Communicator {
    /// Runs a call that is called as one before to its end; `None`: it is none, and nothing has been done.
    pub(super) fn again<T: Pod>(
        &self,
        calling: &Calling<'_>,
        input: Option<&[T]>,
        output: Option<&mut [T]>,
    ) -> Option<Result<()>> {
        let output = output.map(bytemuck::cast_slice_mut);
        self.again_on_bytes(calling, None, input.map(bytemuck::cast_slice), output)
    }

    /// As [`Communicator::again`] of a call with this operator.
    pub(super) fn fold_again<T: Pod>(
        &self,
        calling: &Calling<'_>,
        by: &Result<Reducer>,
        input: Option<&[T]>,
        output: Option<&mut [T]>,
    ) -> Option<Result<()>> {
        let by = by.as_ref().ok()?;
        let output = output.map(bytemuck::cast_slice_mut);
        self.again_on_bytes(calling, Some(by), input.map(bytemuck::cast_slice), output)
    }

    fn again_on_bytes(
        &self,
        calling: &Calling<'_>,
        by: Option<&Reducer>,
        input: Option<&[u8]>,
        output: Option<&mut [u8]>,
    ) -> Option<Result<()>> {
        let passed = calling.passed.as_ref()?;
        // The planned call finds the lock as this one does.
        let mut held = self.hold().ok()?;
        let lengths = [input.map(<[u8]>::len), output.as_deref().map(<[u8]>::len)];
        let begun = match self.begin_again(&mut held, calling.call, (passed, lengths), by)? {
            Ok(begun) => begun,
            Err(e) => return Some(Err(e)),
        };
        let (input, output) = match begun.prepared.called.as_ref().and_then(|called| called.unused) {
            Some(Region::Input) => (None, output),
            Some(Region::Output) => (input, None),
            _ => (input, output),
        };
        Some(self.run_begun(&mut held, calling.call, begun, input, output))
    }

    /// The call, with its number, if it is one as before and goes in the same way; or why there can be none.
    fn begin_again(
        &self,
        held: &mut Held<'_>,
        call: Collective,
        (passed, lengths): (&Passed<'_>, [Option<usize>; 2]),
        by: Option<&Reducer>,
    ) -> Option<Result<Begun>> {
        if held.check {
            return None;
        }
        // Said here, as an error is said in full only once.
        if let Err(e) = held.engine.usable(self.context.id) {
            return Some(Err(e));
        }
        let mut trials = self.context.trials();
        let prepared = held.cache.take_again(self.context.id, call, |called| {
            let goes_on = || match called.class {
                Some(at) => trials.0.get(at).is_some_and(|(_, trial)| trial.rests_on(&called.way)),
                // It may be of the class of a trial although it is not tried itself, as it names an algorithm.
                None => trials.0.iter().all(|(_, trial)| trial.due() == Due::Nothing),
            };
            called.is(passed, lengths, &self.options) && goes_on()
        })?;
        let (fill, way, class) = prepared.called.as_ref().map(|c| (c.fill, c.way, c.class))?;
        if let Some((_, trial)) = class.and_then(|at| trials.0.get_mut(at)) {
            // Counted, as at all ranks.
            let _untimed = trial.turn();
        }
        drop(trials);
        let number = self.context.next_call();
        held.engine.calls(call.code(), number);
        Some(Ok(self.begun(held, number, (prepared, way, None), (by.cloned(), fill))))
    }
}
