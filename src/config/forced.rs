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
        for part in text.split(',') {
            match part.trim().split_once('=') {
                Some(("gather", n)) => all.gather = Some(n.parse().ok().filter(|n| *n > 0)?),
                Some(("max_put", n)) => all.max_put = Some(parse_bytes(n).filter(|n| *n >= MIN_PUT_BYTES)?),
                Some(("inject", n)) => all.inject = Some(usize::try_from(parse_bytes(n)?).ok()?),
                Some(("queue", n)) => all.queue = Some(n.parse().ok().filter(|n| *n > 0)?),
                Some(("word", n)) => all.word_bits = Some(n.parse().ok().filter(|n| (1..32).contains(n))?),
                None if part.trim() == "unordered" => all.unordered = true,
                None if part.trim() == "no-word" => all.word_bits = Some(0),
                _ => return None,
            }
        }
        Some(all)
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
        }
    }
}
