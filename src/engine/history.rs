//! Calls that this rank has left: what they were, and how many ready messages for them are still on their way.

use super::description::Describe;
use super::message::CallId;
use super::task::Task;
use crate::hash::NumberMap;
use crate::ops::Reducer;
use std::collections::VecDeque;
use std::sync::Arc;

/// How many calls left are remembered, to compare arguments with ranks that enter late. Chosen: a rank that is further
/// behind is told that they differ, not how; `a_call_that_was_left_long_ago_is_compared` shows both sides.
const REMEMBERED_CALLS: usize = if cfg!(test) { 2 } else { 64 };

/// An operation's code and the hash of its arguments.
pub(super) type Signature = (u8, u64);

/// One call that was left.
#[derive(Debug)]
struct LeftCall {
    call: CallId,
    what: Signature,
    arguments: Option<Arc<dyn Describe>>,
    reducer: Option<Reducer>,
}

/// The calls that were left.
#[derive(Debug)]
pub(super) struct History {
    last: VecDeque<LeftCall>,
    /// Calls whose puts were all sent before some target was ready: what each was, and how many ready messages will come.
    /// A sender gets that far ahead only on credit, so credits bound these.
    due: NumberMap<CallId, (Signature, u32)>,
}

impl Default for History {
    fn default() -> Self {
        let due = NumberMap::with_capacity_and_hasher(REMEMBERED_CALLS, Default::default());
        Self { last: VecDeque::with_capacity(REMEMBERED_CALLS + 1), due }
    }
}

impl History {
    /// Records the call of `task`, which is left now.
    pub(super) fn leave(&mut self, task: &Task) {
        let (call, what) = (task.meta.call, (task.meta.code, task.meta.hash));
        if self.last.len() == REMEMBERED_CALLS {
            self.last.pop_front();
        }
        let (arguments, reducer) = (task.arguments.clone(), task.reducer.clone());
        self.last.push_back(LeftCall { call, what, arguments, reducer });
        let late = (0..task.peers.len()).filter(|i| task.ready_comes_late(*i)).count();
        if let Ok(late @ 1..) = u32::try_from(late) {
            self.due.insert(call, (what, late));
        }
    }

    /// What `call` was, if it is remembered.
    pub(super) fn find(&self, call: CallId) -> Option<Signature> {
        let due = self.due.get(&call).map(|(what, _)| *what);
        due.or_else(|| Some(self.left(call)?.what))
    }

    fn left(&self, call: CallId) -> Option<&LeftCall> {
        self.last.iter().find(|left| left.call == call)
    }

    /// The arguments of `call` as text, if it is one of the last.
    pub(super) fn description(&self, call: CallId) -> Option<String> {
        let left = self.left(call)?;
        Some(left.arguments.as_ref()?.describe(left.reducer.as_ref()))
    }

    /// A ready message for `call` came.
    pub(super) fn ready_came(&mut self, call: CallId) {
        if let Some((_, left)) = self.due.get_mut(&call) {
            *left -= 1;
            if *left == 0 {
                self.due.remove(&call);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn due(&self) -> usize {
        self.due.len()
    }
}
