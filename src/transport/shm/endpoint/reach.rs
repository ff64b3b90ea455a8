//! Mapping the memory of other ranks of the node: that of neighbours from the start, that of others when they are needed. And reading what
//! they lend.

use super::{Shm, local_index};
use crate::error::{Error, ErrorKind, Result, argument};
use crate::transport::Lent;
use crate::transport::node_memory::{unmappable, unreadable};
use crate::transport::shm::peer::{Peer, Piece, gone};
use crate::transport::shm::segment::Address;

impl Shm {
    /// Maps the memory of `peer`, which published `address`, for [`Transport::connect`](crate::transport::Transport::connect) to come.
    ///
    /// # Errors
    /// When it cannot be mapped, and why.
    pub(crate) fn reach(&mut self, peer: u32, address: &[u8]) -> Result<()> {
        self.attach(peer, address).map(|_| ())
    }

    /// As [`Transport::reads_memory_of`](crate::transport::Transport::reads_memory_of).
    pub(super) fn can_read(&self, rank: u32) -> bool {
        let peer = local_index(&self.locals, rank).and_then(|i| self.peers[i].as_deref());
        peer.is_some_and(|peer| peer.read_memory(0, &mut []).is_ok())
    }

    /// As [`Transport::fetch`](crate::transport::Transport::fetch).
    pub(super) fn fetch_lent(
        &mut self,
        rank: u32,
        lent: Lent,
        at: usize,
        (out, footprint): (&mut [u8], u64),
    ) -> Result<()> {
        let peer = local_index(&self.locals, rank).and_then(|i| self.peers[i].as_deref_mut());
        let Some(peer) = peer else {
            return Err(argument(format!("rank {rank} is not mapped")).with_peer(rank as usize));
        };
        let at = lent.at.saturating_add(at as u64);
        if lent.is_unmapped() {
            let read = peer.read_memory(at, out);
            return if peer.valid() {
                read.map_err(|e| unreadable(rank, peer.address.pid, &e))
            } else {
                Err(gone(rank))
            };
        }
        let piece = Piece { chunk: lent.chunk, fd: lent.fd, at, len: out.len(), footprint };
        // SAFETY: `out` has as many bytes, and is ours.
        let read = unsafe { peer.fetch(piece, out.as_mut_ptr()) };
        if !peer.valid() {
            return Err(gone(rank));
        }
        read.map_err(|e| unmappable(rank, peer.address.pid, &e))
    }

    /// Maps the memory of `peer`, unless that is done.
    pub(super) fn attach(&mut self, peer: u32, address: &[u8]) -> Result<usize> {
        let wrong =
            |what: String| Error::new(ErrorKind::Transport, what).with_peer(peer as usize).over("shm");
        let Some(address) = Address::decode(address) else {
            return Err(wrong("its address is not one of shared memory".to_owned())
                .help("set CIRCULANT_PROVIDER to the same name on all ranks"));
        };
        let Some(i) = local_index(&self.locals, peer) else {
            return Err(wrong(format!("rank {peer} is not on the node of rank {}", self.rank)));
        };
        if address.index as usize != i {
            return Err(wrong(format!("it takes itself for rank {} of the node", address.index)));
        }
        match &self.peers[i] {
            Some(known) if known.address == address => {}
            Some(_) => return Err(wrong("it has another address than before".to_owned())),
            None => {
                let mapped = Peer::open(address, self.mine).map_err(|e| unmappable(peer, address.pid, &e))?;
                self.slots.add(i, mapped.segment.areas(&address));
                self.peers[i] = Some(Box::new(mapped));
            }
        }
        Ok(i)
    }
}
