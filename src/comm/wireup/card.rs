//! What a rank publishes of its endpoint (PMI calls it a business card), or why it has none.

use crate::error::{Error, ErrorKind, Result};
use crate::transport::cores::UsableCores;
use crate::transport::{Transport, shm};

/// The longest [`Card::host_and_address`], in characters of at most 4 bytes: its length fits into one.
const MAX_HOST_AND_ADDRESS_CHARS: usize = 60;

/// What a rank publishes of its endpoint.
#[derive(Debug)]
pub(super) struct Card {
    /// Whether it can map the memory of all ranks of its node.
    pub(super) reaches_locals: bool,
    /// The cores that it may use.
    pub(super) cores: UsableCores,
    /// For people.
    pub(super) host_and_address: String,
    /// For its transport.
    pub(super) address: Vec<u8>,
}

/// First byte of the card of a rank that cannot map the memory of all ranks of its node: the rest of the card follows.
const UNREACHED: u8 = 0;
/// First byte of an error: its text follows.
const ERROR: u8 = 1;
/// First byte of the card of a rank that can: the rest of it follows.
const REACHED: u8 = 2;

pub(super) fn code(reaches_locals: bool) -> u8 {
    if reaches_locals { REACHED } else { UNREACHED }
}

pub(super) fn reaches_locals(code: u8) -> Option<bool> {
    [false, true].into_iter().find(|reaches| self::code(*reaches) == code)
}

/// The value to publish: the card of an endpoint, or why there is none.
pub(super) fn value(endpoint: Result<&dyn Transport, &Error>, reaches_locals: bool) -> Vec<u8> {
    match endpoint {
        Ok(endpoint) => Card::of(endpoint, reaches_locals).encode(),
        Err(e) => failure(&e.to_string()),
    }
}

fn failure(text: &str) -> Vec<u8> {
    [&[ERROR][..], text.as_bytes()].concat()
}

impl Card {
    fn of(endpoint: &dyn Transport, reaches_locals: bool) -> Self {
        let text = format!("{} {}", shm::name(), endpoint.place());
        Self {
            reaches_locals,
            cores: UsableCores::new(),
            host_and_address: text.trim_end().chars().take(MAX_HOST_AND_ADDRESS_CHARS).collect(),
            address: endpoint.address(),
        }
    }

    fn encode(self) -> Vec<u8> {
        let mut out = vec![code(self.reaches_locals)];
        out.extend(self.cores.count.to_le_bytes());
        out.extend(self.cores.set.to_le_bytes());
        out.push(u8::try_from(self.host_and_address.len()).unwrap_or(0));
        out.extend(self.host_and_address.into_bytes());
        out.extend(self.address);
        out
    }

    /// What rank `rank` has published.
    ///
    /// # Errors
    /// When it published why it has no endpoint.
    pub(super) fn decode(value: &[u8], rank: u32) -> Result<Self> {
        let read = || {
            let ([first, a, b, set @ .., len], rest) = value.split_first_chunk::<8>()?;
            let reaches_locals = reaches_locals(*first)?;
            let (text, address) = rest.split_at_checked(usize::from(*len))?;
            let host_and_address = String::from_utf8_lossy(text).into_owned();
            let [c, d, e, f] = *set;
            let cores =
                UsableCores { set: u32::from_le_bytes([c, d, e, f]), count: u16::from_le_bytes([*a, *b]) };
            Some(Self { reaches_locals, cores, host_and_address, address: address.to_vec() })
        };
        read().ok_or_else(|| {
            let text = value.split_first().map_or_else(Default::default, |(_, t)| String::from_utf8_lossy(t));
            let e = Error::new(ErrorKind::Aborted, format!("rank {rank} could not start: {text}"));
            e.with_peer(rank as usize).reported_by(rank as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_comes_back() {
        for reaches_locals in [false, true] {
            let (host_and_address, address) = ("n1 10.0.0.1".to_owned(), vec![7, 8]);
            let cores = UsableCores { set: 0xF00D_0001, count: 65_535 };
            let card = Card { reaches_locals, cores, host_and_address, address };
            let c = Card::decode(&card.encode(), 3).unwrap();
            assert_eq!((c.reaches_locals, c.cores, c.address), (reaches_locals, cores, vec![7, 8]));
            assert_eq!(c.host_and_address, "n1 10.0.0.1");
        }
        let e = Card::decode(&failure("no luck"), 3).unwrap_err();
        assert!(e.peer() == Some(3) && e.to_string().contains("could not start: no luck"), "{e}");
        assert!(
            Card::decode(&[], 3).is_err() && Card::decode(&[REACHED, 1, 0, 1, 2, 3, 4, 9, 9], 3).is_err()
        );
    }
}
