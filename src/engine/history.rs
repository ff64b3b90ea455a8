//! Calls that this rank has left: what they were, and whose open words for them are still on their way.

use super::description::Describe;
use super::message::CallId;
use super::task::Task;
use crate::ops::Reducer;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How many calls left are remembered, to compare arguments with ranks that enter late.
const REMEMBERED: usize = if cfg!(test) { 2 } else { 64 };

/// An operation's code and the hash of its arguments.
pub(super) type What = (u8, u64);

/// One call that was left.
#[derive(Debug)]
struct Left {
    call: CallId,
    what: What,
    asked: Option<Arc<dyn Describe>>,
    reducer: Option<Reducer>,
}

/// The calls that were left.
#[derive(Debug)]
pub(super) struct History {
    last: VecDeque<Left>,
    /// Calls whose puts all left before some target had opened: what each was, and how many open words will come.
    /// A sender gets that far ahead only on credit, so credits bound these.
    due: HashMap<CallId, (What, u32)>,
}

impl Default for History {
    fn default() -> Self {
        Self { last: VecDeque::with_capacity(REMEMBERED + 1), due: HashMap::with_capacity(64) }
    }
}

impl History {
    /// The call of `task` is left now.
    pub(super) fn leave(&mut self, task: &Task) {
        let (call, what) = (task.meta.call, (task.meta.code, task.meta.hash));
        if self.last.len() == REMEMBERED {
            self.last.pop_front();
        }
        let (asked, reducer) = (task.asked.clone(), task.reducer.clone());
        self.last.push_back(Left { call, what, asked, reducer });
        let late = (0..task.peers.len()).filter(|i| task.opens_late(*i)).count();
        if let Ok(late @ 1..) = u32::try_from(late) {
            self.due.insert(call, (what, late));
        }
    }

    /// What `call` was, if it is remembered.
    pub(super) fn find(&self, call: CallId) -> Option<What> {
        let due = self.due.get(&call).map(|(what, _)| *what);
        due.or_else(|| Some(self.left(call)?.what))
    }

    fn left(&self, call: CallId) -> Option<&Left> {
        self.last.iter().find(|left| left.call == call)
    }

    /// The arguments of `call` in words, if it is one of the last.
    pub(super) fn description(&self, call: CallId) -> Option<String> {
        let left = self.left(call)?;
        Some(left.asked.as_ref()?.describe(left.reducer.as_ref()))
    }

    /// An open word for `call` came.
    pub(super) fn opened(&mut self, call: CallId) {
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
