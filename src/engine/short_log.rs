//! The last short calls, which have no task: what they were, to compare with what other ranks do.

use super::description::Description;
use super::message::CallId;
use crate::ops::Element;

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

/// The beginning of an operator's name, its first byte lowest; without one it is 0. (A number: bytes that are stored one by one
/// and read together right afterwards stall the processor.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OperatorName(u128);

/// Bytes of a name that are kept. Chosen: those of all operators of the library fit.
const MAX_NAME_BYTES: usize = size_of::<u128>();

impl OperatorName {
    pub(crate) fn new(name: &str) -> Self {
        let kept = name.bytes().take(MAX_NAME_BYTES).enumerate();
        Self(kept.fold(0, |all, (at, byte)| all | u128::from(byte) << (8 * at)))
    }
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
        let name = self.operator.0.to_le_bytes();
        let name = String::from_utf8_lossy(&name);
        match name.trim_end_matches('\0') {
            "" => {}
            name => text.line("operator", name),
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
    /// A call begins. Returns how many have begun.
    pub(super) fn begin(&mut self, call: CallId, code: u8, hash: u64, arguments: ShortArguments) -> usize {
        self.list[self.begun % REMEMBERED_CALLS] = ShortCall { call, code, hash, arguments };
        self.begun = self.begun.wrapping_add(1);
        self.begun
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

    #[test]
    fn the_beginning_of_an_operators_name_is_told() {
        // The last one is cut within a character.
        for (name, told) in [
            ("", None),
            ("sum", Some("sum")),
            ("of sixteen bytes", Some("of sixteen bytes")),
            ("of sixteen bytes and more", Some("of sixteen bytes")),
            ("fifteen bytes: \u{e4}", Some("fifteen bytes: \u{fffd}")),
        ] {
            let text = ShortArguments { operator: OperatorName::new(name), ..ShortArguments::default() };
            let text = text.describe().done();
            let line = text.lines().find_map(|line| line.strip_prefix("operator="));
            assert_eq!(line, told, "{text:?}");
        }
    }
}
