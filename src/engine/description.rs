//! The arguments of a call as text, and the differences between those of two ranks.

use super::message::MAX_TEXT_BYTES;
use crate::ops::{Element, Reducer};
use std::fmt::{Debug, Display};

/// Differences that an error names, at most. Chosen: an error of one line; `arguments_are_named_with_both_values` shows
/// it.
const MAX_DIFFERENCES_NAMED: usize = 3;
/// Stands at the end of a list that was cut.
const CUT: &str = "…";
/// Bytes of a list that are sent, at most.
const MAX_LIST_BYTES: usize = MAX_TEXT_BYTES / 3;

/// The arguments of a call, as text.
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
            if text.len() > MAX_LIST_BYTES {
                text.push_str(CUT);
                break;
            }
            text.push_str(&format!("{value} "));
        }
        self.line(name, text.trim_end());
    }

    /// Whether there is room for more lines of what only two ranks agree on; what is sent is cut.
    pub(crate) fn room(&self) -> bool {
        self.0.len() < MAX_LIST_BYTES
    }

    pub(crate) fn done(self) -> String {
        self.0
    }
}

/// What differs between two descriptions: "length 99 and 100; count of rank 3: 9 and 10".
pub(crate) fn differences(first: &str, second: &str) -> String {
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
        if found.len() == MAX_DIFFERENCES_NAMED {
            break;
        }
    }
    found.join("; ")
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
        assert!(ours.len() < MAX_TEXT_BYTES);
        many[99_999] = 1;
        assert_eq!(differences(&described(element, 1, &many), &ours), "", "beyond what is sent");
        many[5] = 7;
        assert_eq!(differences(&described(element, 1, &many), &ours), "count of rank 5: 7 and 1000000");
        assert_eq!(differences(&described(element, 1, &[1_000_000; 3]), &ours), "count of some rank");
    }
}
