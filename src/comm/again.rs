//! Blocking calls that are called as one before: neither checked, nor chosen, nor planned again.
//!
//! What the program passes is compared with what it passed then, which is all that its checks, its choice and its plan follow from. So such a call
//! takes its program from the cache at once, unless a trial measures it or is due, or something is to be said or compared ahead of it.

use super::call::Begun;
use super::calling::{Calling, Passed};
use super::collective::Collective;
use super::communicator::Communicator;
use super::lock::Held;
use crate::error::Result;
use crate::ops::Reducer;
use crate::plan::Region;
use crate::select::{Due, Trial};
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
        // What is refused is refused by the call that is planned.
        let mut held = self.hold().ok()?;
        let lengths = [input.map(<[u8]>::len), output.as_deref().map(<[u8]>::len)];
        let begun = self.begin_again(&mut held, calling.call, (passed, lengths), by)?;
        let (input, output) = match begun.prepared.called.as_ref().and_then(|called| called.unused) {
            Some(Region::Input) => (None, output),
            Some(Region::Output) => (input, None),
            _ => (input, output),
        };
        Some(self.run_begun(&mut held, calling.call, begun, input, output))
    }

    /// The call, with its number, if it is one as before and goes in the same way.
    fn begin_again(
        &self,
        held: &mut Held<'_>,
        call: Collective,
        (passed, lengths): (&Passed<'_>, [Option<usize>; 2]),
        by: Option<&Reducer>,
    ) -> Option<Begun> {
        if held.check || held.log.tells_of_calls() || held.engine.usable(self.context.id).is_err() {
            return None;
        }
        let mut trials = self.context.trials();
        if trials.0.iter().any(|(_, trial)| trial.due() != Due::Nothing) {
            return None;
        }
        let prepared = held.cache.take_again(self.context.id, call, |called| {
            let rests = |trial: &Trial| trial.rests_on(&called.way);
            called.is(passed, lengths, &self.options)
                && called.class.is_none_or(|at| trials.0.get(at).is_some_and(|(_, trial)| rests(trial)))
        })?;
        let (fill, way, class) = prepared.called.as_ref().map(|c| (c.fill, c.way, c.class))?;
        if let Some((_, trial)) = class.and_then(|at| trials.0.get_mut(at)) {
            // Counted, as at all ranks.
            let _untimed = trial.turn();
        }
        drop(trials);
        let number = self.context.next_call();
        held.engine.calls(call.code(), number);
        Some(self.begun(held, number, (prepared, way, None), (by.cloned(), fill)))
    }
}
