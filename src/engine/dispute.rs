//! Ranks that disagree on the arguments of a call, and how they find out in which.
//!
//! Calls are compared by a hash. Where the hashes differ, the rank that noticed sends what it called in words to the other one,
//! which compares that with its own words and ends the world with an error that names the argument and both values. If no answer
//! comes within a second (the other rank has left the call, and has forgotten it), the error does without.

use super::core::Core;
use super::message::{CallId, Message, TEXT_MAX};
use super::time::Since;
use crate::error::{Error, ErrorKind};
use crate::ops::{Element, Reducer};
use std::fmt::{Debug, Display};
use std::time::{Duration, Instant};

/// The other rank has so much time to compare, if it is in any call.
const PATIENCE: Duration = Duration::from_secs(1);
/// So many differences are named.
const NAMED: usize = 3;
/// Marks a list that was cut.
const CUT: &str = "…";
/// What is sent of a list, in bytes.
const LIST_MAX: usize = TEXT_MAX / 3;

/// The arguments of a call, in words.
pub(crate) trait Describe: Debug + Send + Sync {
    /// One line for each argument that ranks must agree on: see [`Description`].
    fn describe(&self, reducer: Option<&Reducer>) -> String;
}

/// Lines of "name=value" that ranks compare. Lists have values by rank, with spaces between.
#[derive(Debug)]
pub(crate) struct Description(String);

impl Description {
    /// Of elements of this type.
    pub(crate) fn new(element: Element) -> Self {
        let mut lines = Self(String::new());
        lines.line("type", element);
        lines
    }

    pub(crate) fn line(&mut self, name: &str, value: impl Display) {
        self.0.push_str(&format!("{name}={value}\n"));
    }

    /// One value for each rank; an empty list is none.
    pub(crate) fn list(&mut self, name: &str, values: impl Iterator<Item = u64>) {
        let (mut text, mut values) = (String::new(), values.peekable());
        if values.peek().is_none() {
            return;
        }
        for value in values {
            if text.len() > LIST_MAX {
                text.push_str(CUT);
                break;
            }
            text.push_str(&format!("{value} "));
        }
        self.line(name, text.trim_end());
    }

    /// Whether there is room for more lines of what only two ranks agree on; what is sent is cut.
    pub(crate) fn room(&self) -> bool {
        self.0.len() < LIST_MAX
    }

    pub(crate) fn done(self) -> String {
        self.0
    }
}

/// What differs between two descriptions: "length 99 and 100; count of rank 3: 9 and 10".
fn differences(first: &str, second: &str) -> String {
    fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
        text.lines().filter_map(|line| line.split_once('='))
    }
    let mut found = Vec::new();
    for (name, one) in pairs(first) {
        let Some((_, other)) = pairs(second).find(|(n, _)| *n == name).filter(|(_, v)| *v != one) else {
            continue;
        };
        let (a, b): (Vec<_>, Vec<_>) = (one.split(' ').collect(), other.split(' ').collect());
        let rank = a.iter().zip(&b).position(|(a, b)| a != b);
        let list = matches!(name, "count" | "displacement");
        found.push(match rank {
            _ if !list => format!("{name} {one} and {other}"),
            Some(r) if a[r] != CUT && b[r] != CUT => format!("{name} of rank {r}: {} and {}", a[r], b[r]),
            _ => format!("{name} of some rank"),
        });
        if found.len() == NAMED {
            break;
        }
    }
    found.join("; ")
}

/// A call of ours and of another rank that do not match, until we know why.
#[derive(Debug)]
pub(super) struct Dispute {
    since: Since,
    error: Error,
}

/// What another rank asks of a short call that we are in: only the call itself knows its arguments.
#[derive(Debug)]
pub(super) struct Question {
    from: u32,
    call: CallId,
    code: u8,
    /// What the other rank called; `None`: we noticed, and are to tell it.
    theirs: Option<String>,
}

impl Core {
    /// `from` called something else than we in `call`: operation `theirs`, ours is `mine`.
    pub(super) fn disagree(&mut self, from: u32, call: CallId, theirs: u8, mine: u8) {
        if self.broken.is_some() || self.dispute.is_some() {
            return;
        }
        let error = self.mismatch(from, call, (theirs, mine), "");
        if theirs != mine {
            self.broken = Some(error);
            return;
        }
        self.dispute = Some(Dispute { since: Since::default(), error });
        match self.description(call) {
            Some(text) if !self.is_in_small(call) => {
                self.queue(from, Message::Differ { call, code: mine, text })
            }
            _ => self.question = Some(Question { from, call, code: mine, theirs: None }),
        }
    }

    /// Whether we are in this short call: it can say more of itself than is kept.
    fn is_in_small(&self, call: CallId) -> bool {
        self.smalls.is_current(call) && self.status.completed.call != call
    }

    fn mismatch(&self, from: u32, call: CallId, (theirs, mine): (u8, u8), how: &str) -> Error {
        let (n, me) = (call.sequence, self.setup.rank);
        let (theirs_name, name) = (self.name_of(theirs), self.name_of(mine));
        let what = match (theirs == mine, how) {
            (false, _) => format!("rank {from} called {theirs_name} #{n}, rank {me} called {name} #{n}"),
            (true, "") => format!("rank {from} called {name} #{n} with other arguments than rank {me}"),
            (true, how) => {
                format!("rank {from} called {name} #{n} with other arguments than rank {me}: {how}")
            }
        };
        Error::new(ErrorKind::Mismatch, what).with_peer(from as usize).in_operation(name, u64::from(n)).help(
            "all ranks must call the same operations in the same order with the same root, counts and type",
        )
    }

    /// What we called, if that is known here.
    fn description(&self, call: CallId) -> Option<String> {
        let running = self.slot_of(call).and_then(|slot| self.task_ref(slot));
        match running {
            Some(task) => Some(task.asked.as_ref()?.describe(task.reducer.as_ref())),
            None => self.history.description(call).or_else(|| self.smalls.description(call)),
        }
    }

    /// `from` sees that its call is not like ours, and says what it called.
    pub(super) fn differ(&mut self, from: u32, call: CallId, code: u8, text: String) {
        match self.description(call) {
            _ if self.is_in_small(call) => {
                self.question = Some(Question { from, call, code, theirs: Some(text) })
            }
            Some(ours) => self.compare_words(from, call, code, &text, &ours),
            None => {}
        }
    }

    fn compare_words(&mut self, from: u32, call: CallId, code: u8, theirs: &str, ours: &str) {
        let how = differences(theirs, ours);
        let error = self.mismatch(from, call, (code, code), &how);
        self.broken.get_or_insert(error);
    }

    /// Whether a short call is asked for its arguments.
    pub(super) fn is_asked(&self, call: CallId) -> bool {
        self.question.as_ref().is_some_and(|q| q.call == call)
    }

    /// What the short call says of itself when it is asked.
    pub(super) fn answer(&mut self, ours: String) {
        let Some(Question { from, call, code, theirs }) = self.question.take() else { return };
        match theirs {
            Some(theirs) => self.compare_words(from, call, code, &theirs, &ours),
            None => self.queue(from, Message::Differ { call, code, text: ours }),
        }
    }

    /// Raises a disagreement whose other side has not answered.
    pub(super) fn raise_disputes(&mut self, now: Instant) {
        if self.dispute.as_mut().is_some_and(|d| d.since.lasts(now) > PATIENCE) {
            self.broken = self.broken.take().or(self.dispute.take().map(|d| d.error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(element: Element, length: u64, counts: &[u64]) -> String {
        let mut text = Description::new(element);
        text.line("length", length);
        text.list("count", counts.iter().copied());
        text.done()
    }

    #[test]
    fn arguments_are_named_with_both_values() {
        let (f64, i64) = (Element::of::<f64>(), Element::of::<i64>());
        let ours = described(f64, 100, &[1, 2, 3, 10]);
        assert_eq!(differences(&ours, &ours), "");
        let theirs = described(i64, 99, &[1, 2, 3, 9]);
        assert_eq!(
            differences(&theirs, &ours),
            "type i64 and f64; length 99 and 100; count of rank 3: 9 and 10"
        );
        assert_eq!(differences(&described(f64, 100, &[1, 2]), &ours), "count of some rank");
        assert_eq!(differences(&described(f64, 100, &[]), &ours), "");
    }

    #[test]
    fn long_lists_are_cut() {
        let (mut many, element) = (vec![1_000_000; 100_000], Element::of::<u8>());
        let ours = described(element, 1, &many);
        assert!(ours.len() < TEXT_MAX);
        many[99_999] = 1;
        assert_eq!(differences(&described(element, 1, &many), &ours), "", "beyond what is sent");
        many[5] = 7;
        assert_eq!(differences(&described(element, 1, &many), &ours), "count of rank 5: 7 and 1000000");
        assert_eq!(differences(&described(element, 1, &[1_000_000; 3]), &ours), "count of some rank");
    }
}
