//! Which puts a check makes: the same at the rank that makes them and at the one that awaits them.

use super::finding::Check;
use super::note::HEAD_BYTES;
use crate::buffer::MAX_GATHER;
use crate::transport::{Limits, MESSAGE_MAX};

/// The longest put that is tried, in bytes: what one message of soft-RoCE carries.
pub(super) const LONGEST_TRIED_BYTES: usize = 8 << 20;
/// Bytes between two puts, and before the first: none of them may change.
pub(super) const GUARD_BYTES: usize = 64;
/// Memory that peers put to, and that puts are made from, in bytes: the longest put, its guards and its gaps.
pub(super) const AREA_BYTES: usize = LONGEST_TRIED_BYTES + (64 << 10);
/// Puts that are posted without a poll in between: more than most hardware's queues hold.
const QUEUE_PUTS: usize = 1000;
/// Bytes of each of them.
const QUEUE_PUT_BYTES: usize = 256;
/// How often lengths are repeated: an order that is rare shows in some.
const ROUNDS: usize = 4;
/// What memory is filled with that is to be put to.
pub(super) const UNTOUCHED: u8 = 0xEE;
/// What a source is overwritten with when its put is done.
pub(super) const OVERWRITTEN: u8 = 0x11;

/// One put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Put {
    pub(super) word: u32,
    /// Where it lands, in bytes from the beginning of the area.
    pub(super) at: usize,
    pub(super) len: usize,
    /// Pieces that it is gathered from.
    pub(super) pieces: usize,
    /// Where its first piece is, in bytes from the beginning of the area that puts are made from; a byte lies between pieces.
    pub(super) from: usize,
}

impl Put {
    /// Offset and length of each piece at its source; the last has what is left.
    pub(super) fn pieces(self) -> impl Iterator<Item = (usize, usize)> {
        let each = self.len / self.pieces;
        (0..self.pieces).map(move |i| {
            let len = if i + 1 == self.pieces { self.len - each * i } else { each };
            (self.from + i * (each + 1), len)
        })
    }
}

/// A word for each number, another one for each, with all its bits in use.
pub(super) fn word(number: u32) -> u32 {
    // An odd factor has an inverse: no two numbers have one word. (2^32 divided by the golden ratio.)
    number.wrapping_mul(0x9E37_79B1)
}

/// Round trips of which the best counts.
pub(super) const ROUND_TRIPS: u32 = 40;
/// Where the puts of round trips are made from, in bytes from the area's start: those that ask.
pub(super) const ASK_FROM: usize = AREA_BYTES - 32;
/// The same of those that answer.
pub(super) const ANSWER_FROM: usize = AREA_BYTES - 16;

/// Where answers land, in bytes from the area's start.
pub(super) const ANSWER_AT: usize = AREA_BYTES - 8;

/// The word of a round trip; its answer has the complement.
pub(super) fn round_trip(number: u32) -> u32 {
    // No other check has as many puts.
    word((1 << 20) + number)
}

/// Whether a word is that of a round trip, and asks for an answer.
pub(super) fn asks(word: u32) -> bool {
    (0..ROUND_TRIPS).any(|number| round_trip(number) == word)
}

/// The bytes of a put.
pub(super) fn pattern(word: u32, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut state = u64::from(word) | 1 << 40;
    while bytes.len() < len {
        // Multiples of an odd number, of which the upper bytes differ from one to the next.
        state = state.wrapping_mul(0x2545_F491_4F6C_DD1D);
        bytes.extend_from_slice(&state.to_be_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The puts of a check, under these limits; none for one that makes its own.
pub(super) fn puts(check: Check, limits: &Limits) -> Vec<Put> {
    let most = usize::try_from(limits.max_put).unwrap_or(usize::MAX).min(LONGEST_TRIED_BYTES);
    let gather = limits.gather.clamp(1, MAX_GATHER);
    let inject = limits.inject.min(64 << 10);
    let shapes: Vec<(usize, usize)> = match check {
        Check::Bytes => {
            let lengths = [0, 1, 8, 64, inject, inject + 1, 1000, 4096, 65_536];
            lengths.repeat(ROUNDS).into_iter().map(|len| (len, 1)).collect()
        }
        Check::Words => [0, 8].repeat(64).into_iter().map(|len| (len, 1)).collect(),
        Check::Gather => {
            let of = |pieces: usize| [pieces, 100 * pieces + 3, 5000].map(|len| (len, pieces));
            [of(gather.min(2)), of(gather)].concat().repeat(ROUNDS)
        }
        Check::Longest => vec![(most, 1)],
        Check::Queue => vec![(QUEUE_PUT_BYTES, 1); QUEUE_PUTS],
        _ => Vec::new(),
    };
    let (mut at, mut from, mut all) = (GUARD_BYTES, 0, Vec::with_capacity(shapes.len()));
    for (number, (len, pieces)) in (1..).zip(shapes) {
        let len = len.min(most);
        all.push(Put { word: word(number), at, len, pieces, from });
        at += len + GUARD_BYTES;
        from += len + pieces;
    }
    all
}

/// The lengths of the messages that are tried: the shortest, what travels at once, and the longest.
pub(super) fn message_lengths(limits: &Limits) -> Vec<usize> {
    let at_once = limits.message.min(MESSAGE_MAX).saturating_sub(HEAD_BYTES);
    [0, 1, 100, at_once, MESSAGE_MAX - HEAD_BYTES].repeat(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_lie_apart_within_the_area_and_have_words_of_their_own() {
        for (max_put, gather, inject) in
            [(u64::MAX, 30, 256), (1000, 1, 0), (4096, 4, usize::MAX), (1 << 30, 1000, 64)]
        {
            let limits = Limits { max_put, gather, inject, ..Limits::new("x") };
            for check in Check::ALL {
                let puts = puts(check, &limits);
                let mut words: Vec<u32> = puts.iter().map(|p| p.word).collect();
                words.sort_unstable();
                words.dedup();
                assert_eq!(words.len(), puts.len());
                assert!(!words.iter().any(|word| asks(*word) || asks(!*word)));
                for pair in puts.windows(2) {
                    assert!(pair[0].at + pair[0].len + GUARD_BYTES <= pair[1].at);
                }
                for put in puts {
                    let pieces: Vec<_> = put.pieces().collect();
                    assert_eq!(pieces.iter().map(|(_, len)| len).sum::<usize>(), put.len);
                    assert!(pieces.windows(2).all(|w| w[0].0 + w[0].1 < w[1].0), "{put:?}");
                    let (last, len) = pieces[pieces.len() - 1];
                    assert!(
                        last + len <= ASK_FROM && put.at + put.len + GUARD_BYTES <= AREA_BYTES,
                        "{put:?}"
                    );
                    assert!(put.len as u64 <= max_put && put.pieces <= gather.min(MAX_GATHER));
                }
            }
        }
    }

    #[test]
    fn bytes_and_words_of_puts_differ() {
        assert!(!(0..ROUND_TRIPS).any(|number| asks(!round_trip(number))));
        assert_ne!(pattern(word(1), 64), pattern(word(2), 64));
        assert_eq!((pattern(7, 0).len(), pattern(7, 13).len()), (0, 13));
        assert_ne!(pattern(7, 16)[..8], pattern(7, 16)[8..]);
    }
}
