//! What endpoints tell each other: the address that a rank publishes, and the messages of the handshake.

use super::handshake::{End, Kind};
use crate::transport::Remote;

/// What an address begins with, and its version.
const MAGIC: [u8; 4] = *b"ibv1";
/// Bytes of an address: its parts in order.
pub(super) const CARD_BYTES: usize = 4 + 4 + 2 + 16 + 4 + 4 + 8 + 12;
/// Bytes of a message of the handshake: its parts in order.
pub(super) const MESSAGE_BYTES: usize = 1 + 4 + 8 + 4 + 4 + CARD_BYTES;

/// How to reach an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Card {
    /// On Ethernet, not on InfiniBand.
    pub(super) ethernet: bool,
    /// Its link asks for global routing headers also within a subnet.
    pub(super) global: bool,
    /// The longest packet, as verbs count: 1 for 256 bytes to 5 for 4096.
    pub(super) mtu: u8,
    pub(super) lid: u16,
    pub(super) gid: [u8; 16],
    /// The queue pair of the handshake, and what its datagrams must show.
    pub(super) datagrams: u32,
    pub(super) key: u32,
    /// Known only to those that know this address: a message of the handshake shows that its sender does.
    pub(super) nonce: u64,
    /// Where puts of no bytes go.
    pub(super) doorbell: Remote,
}

/// A message of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) kind: Kind,
    pub(super) rank: u32,
    /// The nonce of the endpoint that it is for.
    pub(super) nonce: u64,
    pub(super) end: End,
    /// Its sender.
    pub(super) card: Card,
}

impl Card {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(CARD_BYTES);
        out.extend(MAGIC);
        out.extend([u8::from(self.ethernet), u8::from(self.global), self.mtu, 0]);
        out.extend(self.lid.to_le_bytes());
        out.extend(self.gid);
        out.extend(self.datagrams.to_le_bytes());
        out.extend(self.key.to_le_bytes());
        out.extend(self.nonce.to_le_bytes());
        out.extend(self.doorbell.base.to_le_bytes());
        // Keys of verbs have 32 bits.
        out.extend(u32::try_from(self.doorbell.key).unwrap_or(0).to_le_bytes());
        out
    }

    /// The inverse; `None` for anything else.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader(bytes);
        if r.take::<4>()? != MAGIC {
            return None;
        }
        let [ethernet, global, mtu, _] = r.take::<4>()?;
        let card = Self {
            ethernet: ethernet != 0,
            global: global != 0,
            mtu,
            lid: u16::from_le_bytes(r.take()?),
            gid: r.take()?,
            datagrams: r.number()?,
            key: r.number()?,
            nonce: u64::from_le_bytes(r.take()?),
            doorbell: Remote { base: u64::from_le_bytes(r.take()?), key: r.number()?.into() },
        };
        (r.0.is_empty() && (1..=5).contains(&mtu)).then_some(card)
    }
}

impl Hello {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.kind as u8];
        out.extend(self.rank.to_le_bytes());
        out.extend(self.nonce.to_le_bytes());
        out.extend(self.end.queue_pair.to_le_bytes());
        out.extend(self.end.packet.to_le_bytes());
        out.extend(self.card.encode());
        out
    }

    /// The inverse; `None` for anything else.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader(bytes);
        let [kind] = r.take::<1>()?;
        let kind = [Kind::Request, Kind::Reply, Kind::Ready].into_iter().find(|k| *k as u8 == kind)?;
        let rank = r.number()?;
        let nonce = u64::from_le_bytes(r.take()?);
        let end = End { queue_pair: r.number()?, packet: r.number()? };
        Some(Self { kind, rank, nonce, end, card: Card::decode(r.0)? })
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_comes_back_and_nothing_else_is_understood() {
        let card = Card {
            ethernet: true,
            global: false,
            mtu: 5,
            lid: 0x1234,
            gid: [7; 16],
            datagrams: 0x00AB_CDEF,
            key: 0x0102_0304,
            nonce: u64::MAX - 5,
            doorbell: Remote { base: 1 << 40, key: 0xFFFF_FFFF },
        };
        let end = End { queue_pair: 99, packet: 0x00FF_FFFF };
        let hello = Hello { kind: Kind::Reply, rank: 70_000, nonce: 3, end, card };
        let (bytes, own) = (hello.encode(), card.encode());
        assert_eq!((bytes.len(), own.len()), (MESSAGE_BYTES, CARD_BYTES));
        assert_eq!((Hello::decode(&bytes), Card::decode(&own)), (Some(hello), Some(card)));
        for cut in 0..bytes.len() {
            assert_eq!(Hello::decode(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(Hello::decode(&[&bytes[..], &[0]].concat()), None);
        for at in [0, 21, 27] {
            let mut wrong = bytes.clone();
            wrong[at] = 200; // kind, magic, MTU
            assert_eq!(Hello::decode(&wrong), None, "{at}");
        }
    }
}
