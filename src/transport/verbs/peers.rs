//! The other ranks, and what there is for each.

use super::handshake::Handshake;
use super::requests::SendQueue;
use super::wire::Card;
use crate::error::{Error, ErrorKind, Result, argument};
use libfabric_sys::verbs as ib;
use std::ptr::null_mut;

/// A peer's queue pair, made at first use.
pub(super) struct Link {
    pub(super) qp: *mut ib::ibv_qp,
    pub(super) handshake: Handshake,
    pub(super) queue: SendQueue,
    /// Among those whose list is to be posted.
    pub(super) dirty: bool,
}

/// Another rank. Its place in the list of all never changes.
pub(super) struct Peer {
    pub(super) rank: u32,
    pub(super) card: Card,
    /// The way of datagrams to it; null until there are some.
    pub(super) ah: *mut ib::ibv_ah,
    pub(super) link: Option<Link>,
    /// Why it cannot be reached any more.
    pub(super) lost: Option<String>,
    /// Connected by the engine, not only heard of from itself.
    connected: bool,
}

/// All ranks that we know of.
#[derive(Default)]
pub(super) struct Peers {
    pub(super) all: Vec<Peer>,
    /// For each rank its place in `all`; [`NONE`] for those that we do not know of.
    places: Vec<u32>,
}

// SAFETY: the pointers are to objects of libibverbs, which belong to no thread.
unsafe impl Send for Peers {}

/// No place.
const NONE: u32 = u32::MAX;

impl Peers {
    /// Its place in [`Peers::all`], if we know it.
    pub(super) fn place(&self, rank: u32) -> Option<usize> {
        self.places.get(rank as usize).filter(|at| **at != NONE).map(|at| *at as usize)
    }

    /// # Errors
    /// When the rank was never connected.
    pub(super) fn of(&self, rank: u32) -> Result<usize> {
        self.place(rank).ok_or_else(|| unknown(rank))
    }

    /// A rank that begins the handshake, or that the engine connects.
    pub(super) fn add(&mut self, rank: u32, card: Card) -> usize {
        if self.places.len() <= rank as usize {
            self.places.resize(rank as usize + 1, NONE);
        }
        // Fewer than ranks, which are numbers of 32 bits.
        self.places[rank as usize] = u32::try_from(self.all.len()).unwrap_or(NONE);
        self.all.push(Peer { rank, card, ah: null_mut(), link: None, lost: None, connected: false });
        self.all.len() - 1
    }

    /// The engine connects a rank.
    ///
    /// # Errors
    /// When it has already, or when another endpoint has said that it is this rank.
    pub(super) fn connect(&mut self, rank: u32, card: Card) -> Result<()> {
        let at = match self.place(rank) {
            Some(at) => at,
            None => self.add(rank, card),
        };
        let peer = &mut self.all[at];
        if std::mem::replace(&mut peer.connected, true) {
            return Err(argument(format!("rank {rank} is connected already")));
        }
        if peer.card != card {
            let what = format!("rank {rank} has published another address than it uses");
            return Err(Error::new(ErrorKind::Transport, what).with_peer(rank as usize).over(super::NAME));
        }
        Ok(())
    }

    /// The place of the peer whose queue pair has this number.
    pub(super) fn of_queue_pair(&self, number: u32) -> Option<usize> {
        let has = |p: &Peer| p.link.as_ref().is_some_and(|l| l.handshake.ours.queue_pair == number);
        self.all.iter().position(has)
    }
}

#[cold]
fn unknown(rank: u32) -> Error {
    argument(format!("rank {rank} is not connected")).with_peer(rank as usize)
}

/// The address of a peer.
///
/// # Errors
/// When it is not one of this transport.
pub(super) fn parse(rank: u32, address: &[u8], ethernet: bool) -> Result<Card> {
    let wrong = |why: &str| {
        let e = Error::new(ErrorKind::Transport, format!("rank {rank} cannot be reached: {why}"));
        e.with_peer(rank as usize).over(super::NAME)
    };
    let Some(card) = Card::decode(address) else {
        return Err(wrong("its address is not one of ibverbs")
            .help("set CIRCULANT_PROVIDER to the same name on all ranks"));
    };
    if card.ethernet != ethernet {
        return Err(wrong("one of the two ports is InfiniBand, and the other is Ethernet")
            .help("CIRCULANT_VERBS_DEVICE names the port to take on each node"));
    }
    Ok(card)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Remote;

    fn card(nonce: u64) -> Card {
        let doorbell = Remote { base: 1, key: 2 };
        let (ethernet, global, mtu, lid, gid) = (true, false, 3, 0, [1; 16]);
        Card { ethernet, global, mtu, lid, gid, datagrams: 5, key: 6, nonce, doorbell }
    }

    #[test]
    fn a_rank_is_connected_once_also_if_it_began() {
        let mut p = Peers::default();
        p.add(9, card(9));
        p.connect(5, card(5)).unwrap();
        p.connect(9, card(9)).unwrap();
        assert_eq!((p.place(9), p.place(5), p.place(7), p.place(1000)), (Some(0), Some(1), None, None));
        assert!(p.connect(9, card(9)).unwrap_err().to_string().contains("already"));
        p.add(3, card(3));
        let e = p.connect(3, card(4)).unwrap_err();
        assert!(e.to_string().contains("another address") && e.peer() == Some(3), "{e}");
        assert_eq!(p.of(8).unwrap_err().peer(), Some(8));
    }

    #[test]
    fn addresses_of_others_are_refused_by_name() {
        assert_eq!(parse(1, &card(7).encode(), true).unwrap(), card(7));
        assert!(parse(1, &card(7).encode(), false).unwrap_err().to_string().contains("InfiniBand"));
        let e = parse(1, b"an address of libfabric's", true).unwrap_err();
        assert!(e.peer() == Some(1) && e.remedy().unwrap().contains("CIRCULANT_PROVIDER"), "{e}");
    }
}
