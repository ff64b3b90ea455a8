//! Peers' addresses: what is published, what is understood, and where it leads.

use super::tags::Tag;
use crate::error::{Error, ErrorKind, Result, argument};
use crate::transport::Remote;
use libfabric_sys as fi;
use std::net::{IpAddr, SocketAddr};

/// A peer that can be reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) rank: u32,
    /// libfabric's handle of its address.
    pub(super) to: fi::fi_addr_t,
    /// Where puts without data go.
    pub(super) doorbell: Remote,
    /// Shows it that a message is of its job.
    pub(super) tag: Tag,
    /// It has taken something, or answered a probe: a connection stood.
    pub(super) reached: bool,
    /// A probe of the connection to it is under way.
    pub(super) probed: bool,
    /// It is gone, and cut off.
    pub(super) cut: bool,
}

/// The peers of one endpoint, by rank. Sorted: they are few, whatever the size of the job.
#[derive(Debug, Default)]
pub(super) struct Peers {
    peers: Vec<Peer>,
    provider: String,
    format: u32,
    name_len: usize,
    own: Vec<u8>,
}

/// Longer names, in bytes, are no provider's. Chosen, to bound what is believed of a peer.
const NAME_MAX: usize = 512;

impl Peers {
    /// For an endpoint of `provider` with addresses of `format`, its own being `name_len` long.
    pub(super) fn new(provider: &str, format: u32, name_len: usize) -> Self {
        Self { peers: Vec::new(), provider: provider.to_owned(), format, name_len, own: Vec::new() }
    }

    /// What peers need to reach us: doorbell, provider, libfabric's name.
    pub(super) fn publish(&mut self, name: &[u8], doorbell: Remote) -> Vec<u8> {
        self.own = name.to_vec();
        let mut out = Vec::with_capacity(17 + self.provider.len() + name.len());
        out.extend(doorbell.base.to_le_bytes());
        out.extend(doorbell.key.to_le_bytes());
        out.push(u8::try_from(self.provider.len()).unwrap_or(u8::MAX));
        out.extend(self.provider.as_bytes());
        out.extend(name);
        out
    }

    /// Our own name for people, where it is an Internet address.
    pub(super) fn place(&self) -> String {
        let [f0, f1, p0, p1, rest @ ..] = self.own.as_slice() else { return String::new() };
        let (family, port) = (u16::from_ne_bytes([*f0, *f1]), u16::from_be_bytes([*p0, *p1]));
        let socket = [fi::FI_SOCKADDR, fi::FI_SOCKADDR_IN, fi::FI_SOCKADDR_IN6].contains(&self.format);
        let ip: Option<IpAddr> = match i32::from(family) {
            libc::AF_INET if socket => rest.first_chunk::<4>().map(|ip| (*ip).into()),
            // Four bytes of flow stand in front of it.
            libc::AF_INET6 if socket => {
                rest.get(4..).and_then(|r| r.first_chunk::<16>()).map(|ip| (*ip).into())
            }
            _ => None,
        };
        ip.map_or_else(String::new, |ip| SocketAddr::new(ip, port).to_string())
    }

    /// The inverse of [`Peers::publish`] at the peer: its name, padded with zeros, and its doorbell.
    pub(super) fn parse(&self, rank: u32, address: &[u8]) -> Result<(Vec<u8>, Remote)> {
        let wrong = |what: &str| Error::new(ErrorKind::Transport, what).with_peer(rank as usize);
        let split = || {
            let (base, rest) = address.split_first_chunk::<8>()?;
            let (key, rest) = rest.split_first_chunk::<8>()?;
            let (len, rest) = rest.split_first()?;
            let (provider, name) = rest.split_at_checked(*len as usize)?;
            Some((Remote { base: u64::from_le_bytes(*base), key: u64::from_le_bytes(*key) }, provider, name))
        };
        let (doorbell, provider, name) = split().ok_or_else(|| wrong("its address is cut short"))?;
        if provider != self.provider.as_bytes() {
            let theirs = String::from_utf8_lossy(provider);
            return Err(wrong(&format!("it uses provider {theirs}, this rank {}", self.provider))
                .help("set CIRCULANT_PROVIDER to the same name on all ranks"));
        }
        // Providers read as many bytes as their format has, whatever was given: so check.
        let text = self.format == fi::FI_ADDR_STR;
        let fits = if text { !name.is_empty() && name.len() < NAME_MAX } else { name.len() == self.name_len };
        if !fits {
            return Err(wrong(&format!("its address of {} bytes cannot be right", name.len())));
        }
        let mut padded = name.to_vec();
        padded.resize(NAME_MAX, 0);
        Ok((padded, doorbell))
    }

    /// # Errors
    /// When the rank is there already.
    pub(super) fn insert(&mut self, peer: Peer) -> Result<()> {
        match self.peers.binary_search_by_key(&peer.rank, |p| p.rank) {
            Ok(_) => Err(argument(format!("rank {} is connected already", peer.rank))),
            Err(i) => {
                self.peers.insert(i, peer);
                Ok(())
            }
        }
    }

    /// # Errors
    /// When the rank was never connected.
    pub(super) fn get(&self, rank: u32) -> Result<Peer> {
        match self.peers.binary_search_by_key(&rank, |p| p.rank) {
            Ok(i) => Ok(self.peers[i]),
            Err(_) => Err(argument(format!("rank {rank} is not connected")).with_peer(rank as usize)),
        }
    }

    /// Changes what is known of a rank, if it was connected.
    pub(super) fn change(&mut self, rank: u32, change: impl FnOnce(&mut Peer)) {
        if let Ok(i) = self.peers.binary_search_by_key(&rank, |p| p.rank) {
            change(&mut self.peers[i]);
        }
    }

    /// Whether a rank is gone, and cut off.
    pub(super) fn is_cut(&self, rank: u32) -> bool {
        self.get(rank).is_ok_and(|peer| peer.cut)
    }

    pub(super) fn known(&self, rank: u32) -> bool {
        self.peers.binary_search_by_key(&rank, |p| p.rank).is_ok()
    }

    /// Removes the file of our own shm endpoint, should the provider have left it.
    pub(super) fn unlink_own(&self) {
        let name = String::from_utf8_lossy(&self.own);
        let Some((_, file)) = name.trim_end_matches('\0').split_once("://") else { return };
        // Only a plain file name of the provider's pattern, never a path.
        if file.bytes().all(|b| b.is_ascii_digit() || b == b':') && !file.is_empty() {
            // It being gone already is the rule.
            let _ = std::fs::remove_file(format!("/dev/shm/{file}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        let mut ours = Peers::new("net", fi::FI_SOCKADDR_IN, 16);
        let doorbell = Remote { base: 5, key: 6 };
        let address = ours.publish(&[7; 16], doorbell);
        let (name, remote) = ours.parse(1, &address).unwrap();
        assert_eq!((&name[..16], name[16], name.len(), remote), (&[7u8; 16][..], 0, NAME_MAX, doorbell));
        for cut in 0..address.len() {
            assert!(ours.parse(1, &address[..cut]).is_err(), "{cut}");
        }
        assert!(ours.parse(1, &[&address[..], &[0]].concat()).is_err());
        let e = Peers::new("shm", fi::FI_ADDR_STR, 19).parse(1, &address).unwrap_err();
        assert!(e.to_string().contains("net") && e.peer() == Some(1), "{e}");
    }

    #[test]
    fn a_rank_is_connected_once() {
        let mut p = Peers::default();
        for rank in [5, 1, 9] {
            p.insert(Peer {
                rank,
                to: u64::from(rank) + 100,
                doorbell: Remote::default(),
                tag: Tag::default(),
                reached: false,
                probed: false,
                cut: false,
            })
            .unwrap();
        }
        assert_eq!(p.get(9).unwrap().to, 109);
        assert!(p.get(2).is_err() && !p.known(2));
        assert!(p.insert(p.get(5).unwrap()).is_err());
        assert_eq!(p.get(5).unwrap().to, 105);
    }
}
