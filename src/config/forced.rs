//! Limits that are forced on a wire, to test on this one what others ask for.

use super::parse_bytes;
use std::fmt::{self, Display, Formatter};

/// Shorter puts are not asked for: start-up's own are no longer than this.
const MIN_PUT_BYTES: u64 = 4096;

/// What a transport is cut down to; the default leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForcedLimits {
    /// Pieces of memory in one put, at most.
    pub gather: Option<usize>,
    /// Bytes of the longest put.
    pub max_put: Option<u64>,
    /// Bytes of the longest put whose source is free at once.
    pub inject: Option<usize>,
    /// Puts under way, and messages between two polls, at most: more are refused for now.
    pub queue: Option<usize>,
    /// What arrives is handed on in a random order.
    pub unordered: bool,
    /// Bits of a notify word, fewer than 32; words that do not fit travel in messages. 0: all of them.
    pub word_bits: Option<u32>,
}

impl ForcedLimits {
    /// The parts in `text`, with commas between; `None` where one makes no sense.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut all = Self::default();
        text.split(',').try_for_each(|part| all.take(part.trim()))?;
        Some(all)
    }

    /// The first part of `text` that makes no sense, and what it may be.
    pub(super) fn wrong_part(text: &str) -> Option<(&str, &'static str)> {
        let part = text.split(',').map(str::trim).find(|part| Self::default().take(part).is_none())?;
        let allowed = match part.split('=').next() {
            Some("gather") => "gather=N, with N from 1",
            Some("max_put") => "max_put=BYTES, from 4096, such as 64Ki",
            Some("inject") => "inject=BYTES, such as 0 or 64",
            Some("queue") => "queue=N, with N from 1",
            Some("word") => "word=BITS, from 1 to 31",
            _ => "gather=N, max_put=BYTES, inject=BYTES, queue=N, unordered, word=BITS or no-word",
        };
        Some((part, allowed))
    }

    /// Takes one part, if it makes sense.
    fn take(&mut self, part: &str) -> Option<()> {
        match part.split_once('=') {
            Some(("gather", n)) => self.gather = Some(n.parse().ok().filter(|n| *n > 0)?),
            Some(("max_put", n)) => self.max_put = Some(parse_bytes(n).filter(|n| *n >= MIN_PUT_BYTES)?),
            Some(("inject", n)) => self.inject = Some(usize::try_from(parse_bytes(n)?).ok()?),
            Some(("queue", n)) => self.queue = Some(n.parse().ok().filter(|n| *n > 0)?),
            Some(("word", n)) => self.word_bits = Some(n.parse().ok().filter(|n| (1..32).contains(n))?),
            None if part == "unordered" => self.unordered = true,
            None if part == "no-word" => self.word_bits = Some(0),
            _ => return None,
        }
        Some(())
    }
}

impl Display for ForcedLimits {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let number = |name: &str, n: Option<u64>| n.map(|n| format!("{name}={n}"));
        let words = match self.word_bits {
            Some(0) => Some("no-word".to_owned()),
            bits => number("word", bits.map(u64::from)),
        };
        let parts = [
            number("gather", self.gather.map(|n| n as u64)),
            number("max_put", self.max_put),
            number("inject", self.inject.map(|n| n as u64)),
            number("queue", self.queue.map(|n| n as u64)),
            self.unordered.then(|| "unordered".to_owned()),
            words,
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_and_written() {
        let text = "gather=1,max_put=65536,inject=0,queue=16,unordered,word=16";
        let all = ForcedLimits::read(text).unwrap();
        assert_eq!((all.gather, all.max_put, all.inject), (Some(1), Some(65536), Some(0)));
        assert_eq!((all.queue, all.unordered, all.word_bits), (Some(16), true, Some(16)));
        assert_eq!(all.to_string(), text);
        for text in ["gather=2", "max_put=64000", "inject=8", "queue=1", "unordered", "word=31", "no-word"] {
            assert_eq!(ForcedLimits::read(text).map(|forced| forced.to_string()).as_deref(), Some(text));
        }
        assert_eq!(ForcedLimits::read("queue=3, max_put=64Ki").unwrap().to_string(), "max_put=65536,queue=3");
    }

    #[test]
    fn a_part_that_makes_no_sense_is_refused() {
        for text in [
            "",
            "gather",
            "gather=0",
            "gather=x",
            "max_put=4095",
            "max_put=-1",
            "inject=",
            "queue=0",
            "word=0",
            "word=32",
            "word",
            "unordered=1",
            "no-word=1",
            "no_word",
            "gather=1,,queue=2",
            "gather=1,depth=3",
            "Unordered",
        ] {
            assert_eq!(ForcedLimits::read(text), None, "{text:?}");
            assert!(ForcedLimits::wrong_part(text).is_some(), "{text:?}");
        }
    }

    #[test]
    fn the_part_that_is_wrong_is_named_with_what_it_may_be() {
        for (text, part, allowed) in [
            ("gather=1, gather=0,word=99", "gather=0", "N from 1"),
            ("unordered,max_put=1K", "max_put=1K", "from 4096"),
            ("word=32", "word=32", "1 to 31"),
            ("queue", "queue", "queue=N"),
            ("gather=1,,queue=2", "", "unordered"),
            ("gather=1,depth=3", "depth=3", "no-word"),
        ] {
            let found = ForcedLimits::wrong_part(text).unwrap();
            assert_eq!(found.0, part, "{text}");
            assert!(found.1.contains(allowed), "{text}: {}", found.1);
        }
        assert_eq!(ForcedLimits::wrong_part("gather=1,no-word"), None);
    }
}
