//! Where ranks are, for people: hosts and addresses in errors of the wire.

use crate::error::{Error, ErrorKind};
use std::collections::HashMap;

/// Hosts and addresses for people: ours, and those of neighbours.
#[derive(Debug, Default)]
pub(super) struct Locations {
    pub(super) own: String,
    pub(super) others: HashMap<u32, String>,
}

impl Locations {
    /// A rank, with its host and address where they are known.
    pub(super) fn name(&self, rank: u32, own: bool) -> String {
        let place = if own { Some(&self.own) } else { self.others.get(&rank) };
        match place {
            Some(place) if !place.is_empty() => format!("rank {rank} (on {place})"),
            _ => format!("rank {rank}"),
        }
    }

    /// The error, with both ends of the connection in it.
    pub(super) fn named_in(&self, e: Error, rank: u32) -> Error {
        let peer = e.peer().and_then(|p| u32::try_from(p).ok()).filter(|p| self.others.contains_key(p));
        let of_wire = matches!(e.kind(), ErrorKind::Transport | ErrorKind::PeerLost);
        let Some(peer) = peer.filter(|_| of_wire && e.rank().is_none_or(|r| r == rank as usize)) else {
            return e;
        };
        let (us, them) = (self.name(rank, true), self.name(peer, false));
        let told = format!("{} (between {us} and {them})", e.message());
        let mut named = Error::new(e.kind(), told).with_peer(peer as usize);
        if let Some(help) = e.remedy() {
            named = named.help(help);
        }
        named.help(REACH)
    }
}

/// What to do where ranks do not reach each other.
pub(super) const REACH: &str = "circulant doctor, started in the same way, tells which ranks reach each other; open the firewall between these \
    addresses (CIRCULANT_PORTS gives a range), name the interface of the right network (CIRCULANT_RAILS=eth0), or raise \
    CIRCULANT_START_DEADLINE";
