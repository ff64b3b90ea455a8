//! The last short calls, which have no task: what they were, to compare with what other ranks do.

use super::description::Description;
use super::message::CallId;
use crate::ops::{Element, OperatorName};

/// How many such calls are remembered, to compare with what others do instead. Chosen, as for calls of plans
/// (`history.rs`).
pub(super) const REMEMBERED_CALLS: usize = 64;

/// The arguments of a short call, without lists.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShortArguments {
    pub(crate) element: Element,
    /// Bytes of each rank; `None` where ranks have counts.
    pub(crate) bytes: Option<usize>,
    pub(crate) root: Option<usize>,
    pub(crate) operator: OperatorName,
}

impl ShortArguments {
    /// The lines of it: see [`Description`].
    pub(crate) fn describe(&self) -> Description {
        let mut text = Description::new(self.element);
        if let Some(root) = self.root {
            text.line("root", root);
        }
        if let Some(bytes) = self.bytes {
            text.line("length", bytes / self.element.size().max(1));
        }
        if let Some(name) = self.operator.text() {
            text.line("operator", name);
        }
        text
    }
}

/// One short call.
#[derive(Clone, Copy, Debug, Default)]
struct ShortCall {
    call: CallId,
    code: u8,
    hash: u64,
    arguments: ShortArguments,
}

/// The last calls of this kind, begun or completed.
#[derive(Debug)]
pub(super) struct ShortLog {
    list: [ShortCall; REMEMBERED_CALLS],
    begun: usize,
}

impl Default for ShortLog {
    fn default() -> Self {
        Self { list: [ShortCall::default(); REMEMBERED_CALLS], begun: 0 }
    }
}

impl ShortLog {
    /// Adds a call, which has begun or is completed.
    pub(super) fn add(&mut self, call: CallId, code: u8, hash: u64, arguments: ShortArguments) {
        self.list[self.begun % REMEMBERED_CALLS] = ShortCall { call, code, hash, arguments };
        self.begun = self.begun.wrapping_add(1);
    }

    /// Whether the next call's number among those that were added, from 1 on, is a multiple of this.
    #[inline]
    pub(super) fn next_is_multiple_of(&self, calls: usize) -> bool {
        self.begun.wrapping_add(1).is_multiple_of(calls)
    }

    /// Operation and hash of a call, if it was one of ours.
    pub(super) fn find(&self, call: CallId) -> Option<(u8, u64)> {
        self.known(call).map(|short| (short.code, short.hash))
    }

    fn known(&self, call: CallId) -> Option<&ShortCall> {
        self.list.iter().find(|short| short.call == call && short.code != 0)
    }

    /// The arguments of a call as text, as far as they are kept.
    pub(super) fn description(&self, call: CallId) -> Option<String> {
        Some(self.known(call)?.arguments.describe().done())
    }

    /// Whether it is the last of ours.
    pub(super) fn is_current(&self, call: CallId) -> bool {
        let last = self.list[self.begun.wrapping_sub(1) % REMEMBERED_CALLS];
        last.code != 0 && last.call == call
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Reducer, Sum};

    #[test]
    fn an_operator_is_told_by_its_name() {
        let told = |operator| {
            let text = ShortArguments { operator, ..ShortArguments::default() }.describe().done();
            text.lines().find_map(|line| line.strip_prefix("operator=").map(str::to_owned))
        };
        assert_eq!(told(Reducer::new::<u32, _>(Sum).brief_name()).as_deref(), Some("sum"));
        assert_eq!(told(OperatorName::default()), None);
    }
}
