//! Unexpected messages: those for calls that are not entered yet, kept by call.

use super::message::{CallId, Message};
use crate::hash::NumberMap;

/// The end of a list.
const END: u32 = u32::MAX;

/// What is kept. Lists of one call's messages run through one table, so that a rank that is always late allocates nothing in
/// the end.
#[derive(Debug, Default)]
pub(super) struct Unexpected {
    table: Vec<Entry>,
    /// The list of unused entries.
    free: Option<u32>,
    calls: NumberMap<CallId, List>,
    /// By sender: its messages in here.
    from: NumberMap<u32, u32>,
}

#[derive(Debug)]
struct Entry {
    from: u32,
    message: Message,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl Unexpected {
    /// Reserves room for this number of messages, so that keeping them allocates nothing.
    pub(super) fn reserve(&mut self, messages: usize) {
        self.table.reserve(messages);
        self.calls.reserve(messages);
        self.from.reserve(messages);
    }

    /// How many messages of `rank` are kept.
    pub(super) fn kept_from(&self, rank: u32) -> u32 {
        self.from.get(&rank).copied().unwrap_or(0)
    }

    /// Keeps a message of `from` until `call` is entered.
    pub(super) fn keep(&mut self, from: u32, call: CallId, message: Message) {
        *self.from.entry(from).or_default() += 1;
        let entry = Entry { from, message, next: END };
        let index = match self.free {
            Some(index) => {
                let next = std::mem::replace(&mut self.table[index as usize], entry).next;
                self.free = (next != END).then_some(next);
                index
            }
            None => {
                self.table.push(entry);
                // One sender's messages are bounded, and ranks are numbered by u32.
                u32::try_from(self.table.len() - 1).unwrap_or(END)
            }
        };
        match self.calls.get_mut(&call) {
            Some(list) => {
                self.table[list.last as usize].next = index;
                list.last = index;
            }
            None => {
                self.calls.insert(call, List { first: index, last: index });
            }
        }
    }

    /// Whether messages are kept for `call`.
    pub(super) fn has_for(&self, call: CallId) -> bool {
        // An empty map is not asked: that would hash the call.
        !self.calls.is_empty() && self.calls.contains_key(&call)
    }

    /// Takes out the first message that is kept for `call`, with its sender.
    pub(super) fn take(&mut self, call: CallId) -> Option<(u32, Message)> {
        let list = self.calls.get_mut(&call)?;
        let index = list.first;
        let entry = &mut self.table[index as usize];
        let message = std::mem::replace(&mut entry.message, Message::Bye);
        let from = entry.from;
        if list.first == list.last {
            self.calls.remove(&call);
        } else {
            list.first = entry.next;
        }
        entry.next = self.free.unwrap_or(END);
        self.free = Some(index);
        if let Some(n) = self.from.get_mut(&from) {
            *n -= 1;
        }
        Some((from, message))
    }

    /// Takes out a message that is kept for a call on the communicator `comm`, with its sender.
    pub(super) fn take_of(&mut self, comm: u64) -> Option<(u32, Message)> {
        let call = *self.calls.keys().find(|call| call.comm == comm)?;
        self.take(call)
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.from.values().map(|n| *n as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, VecDeque};

    proptest! {
        /// As lists of their own, whatever comes and goes.
        #[test]
        fn messages_come_out_by_call_in_their_order(
            steps in proptest::collection::vec((any::<bool>(), 0..5u32, 0..3u32), 1..200),
        ) {
            let (mut kept, mut plain) = (Unexpected::default(), HashMap::<CallId, VecDeque<(u32, u32)>>::new());
            let mut most = 0;
            for (i, (keeps, sequence, from)) in (0..).zip(steps) {
                let call = CallId { comm: 1, sequence };
                if keeps {
                    kept.keep(from, call, Message::Credit { messages: i });
                    plain.entry(call).or_default().push_back((from, i));
                } else {
                    let wanted = plain.get_mut(&call).and_then(VecDeque::pop_front);
                    let wanted = wanted.map(|(from, messages)| (from, Message::Credit { messages }));
                    prop_assert_eq!(kept.take(call), wanted);
                }
                let all: Vec<u32> = plain.values().flatten().map(|(from, _)| *from).collect();
                prop_assert_eq!(kept.len(), all.len());
                for from in 0..3 {
                    let count = all.iter().filter(|f| **f == from).count();
                    prop_assert_eq!(kept.kept_from(from) as usize, count);
                }
                most = most.max(all.len());
                prop_assert!(kept.table.len() <= most, "entries are used again");
            }
        }
    }
}
