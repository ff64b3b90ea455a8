//! What two ranks tell each other while they check the wire between them.

use super::finding::Check;
use crate::buffer::Grant;

/// A control message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// I am about to make the puts of this check; my own memory is there, for puts back.
    Prepare(Check, Grant),
    /// My memory is there, and waits for them.
    Ready(Grant),
    /// Say what has come so far.
    Ask,
    /// What has come of a check: how many puts came before one with a lower number, how many have not come yet, and what is wrong (nothing: all
    /// is well).
    Verdict { check: Check, overtaken: u64, missing: u64, wrong: String },
    /// Any bytes, which both know.
    Filling(Vec<u8>),
    /// My memory is there; nothing is awaited.
    Mine(Grant),
    /// I have that.
    Got,
}

/// Bytes in front of a [`Note::Filling`].
pub(super) const HEAD_BYTES: usize = 5;

impl Note {
    /// As the rank `from` sends it.
    pub(super) fn encode(&self, from: u32) -> Vec<u8> {
        let grant = |g: &Grant| [g.address.to_le_bytes(), g.key.to_le_bytes()].concat();
        let (kind, rest): (u8, Vec<u8>) = match self {
            Self::Prepare(check, own) => (0, [&[check.number()][..], &grant(own)].concat()),
            Self::Ready(there) => (1, grant(there)),
            Self::Ask => (2, Vec::new()),
            Self::Verdict { check, overtaken, missing, wrong } => {
                let numbers = [overtaken.to_le_bytes(), missing.to_le_bytes()].concat();
                (3, [&[check.number()][..], &numbers, wrong.as_bytes()].concat())
            }
            Self::Filling(bytes) => (4, bytes.clone()),
            Self::Mine(there) => (5, grant(there)),
            Self::Got => (6, Vec::new()),
        };
        [&[kind][..], &from.to_le_bytes(), &rest].concat()
    }

    /// The sender and what it says; `None`: none of ours.
    pub(super) fn decode(bytes: &[u8]) -> Option<(u32, Self)> {
        let (kind, rest) = bytes.split_first()?;
        let (from, rest) = rest.split_first_chunk::<4>()?;
        let grant = |bytes: &[u8]| {
            let (address, key) = bytes.split_first_chunk::<8>()?;
            let key = key.try_into().ok()?;
            Some(Grant { address: u64::from_le_bytes(*address), key: u64::from_le_bytes(key) })
        };
        let note = match kind {
            0 => {
                let (check, own) = rest.split_first()?;
                Self::Prepare(Check::of_number(*check)?, grant(own)?)
            }
            1 => Self::Ready(grant(rest)?),
            2 => Self::Ask,
            3 => {
                let (check, rest) = rest.split_first()?;
                let (overtaken, rest) = rest.split_first_chunk::<8>()?;
                let (missing, wrong) = rest.split_first_chunk::<8>()?;
                let [overtaken, missing] = [overtaken, missing].map(|n| u64::from_le_bytes(*n));
                let wrong = String::from_utf8_lossy(wrong).into_owned();
                Self::Verdict { check: Check::of_number(*check)?, overtaken, missing, wrong }
            }
            4 => Self::Filling(rest.to_vec()),
            5 => Self::Mine(grant(rest)?),
            6 => Self::Got,
            _ => return None,
        };
        Some((u32::from_le_bytes(*from), note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_comes_back() {
        let there = Grant { address: u64::MAX - 3, key: 1 << 40 };
        let wrong = "one \u{2192} two".to_owned();
        let mut all = vec![
            Note::Ready(there),
            Note::Ask,
            Note::Verdict { check: Check::Queue, overtaken: 7, missing: 1, wrong },
            Note::Filling(vec![1, 2, 3]),
            Note::Mine(there),
            Note::Got,
        ];
        all.extend(Check::ALL.map(|check| Note::Prepare(check, there)));
        for note in all {
            let bytes = note.encode(70_000);
            assert_eq!(Note::decode(&bytes), Some((70_000, note)));
            assert!((0..HEAD_BYTES).all(|cut| Note::decode(&bytes[..cut]).is_none()));
        }
        assert_eq!(Note::decode(&[9, 0, 0, 0, 0]), None);
    }
}
