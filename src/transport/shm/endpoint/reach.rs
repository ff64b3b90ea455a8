//! Mapping the memory of other ranks of the node: that of neighbours from the start, that of others when they are needed.

use super::{Shm, local_index};
use crate::error::{Error, ErrorKind, Result};
use crate::transport::node_memory::unmappable;
use crate::transport::shm::peer::Peer;
use crate::transport::shm::segment::Address;

impl Shm {
    /// Maps the memory of `peer`, which published `address`, for [`Transport::connect`](crate::transport::Transport::connect) to come.
    ///
    /// # Errors
    /// When it cannot be mapped, and why.
    pub(crate) fn reach(&mut self, peer: u32, address: &[u8]) -> Result<()> {
        self.attach(peer, address).map(|_| ())
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
