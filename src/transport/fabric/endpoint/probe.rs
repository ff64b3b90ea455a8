//! Whether the connection to a peer stands, before anything is posted to it that must not be lost.
//!
//! Where both ends begin a connection at the same time, libfabric's tcp and net keep one of the two, and tell a connection of the same process
//! from one of its successor by a process number. That number is not set when the record of a connection is used again that belonged to a rank
//! which is gone (`xnet_alloc_conn`; 1.17.0 to 2.5.1). Then one end may take the other's attempt for that of a successor, and closes the
//! connection that the other has accepted and perhaps used: what it had taken is lost, and a living rank looks as if it were gone. It does so only
//! in the same call that establishes the connection at its own end. So what the other end has acknowledged since came by a connection that both keep.

use super::super::peers::Peer;
use super::super::slots::Kind;
use super::{DOORBELL_OFFSET, Fabric, Posted, again};
use crate::error::Result;
use libfabric_sys as fi;

impl Fabric {
    /// Sends a put of no bytes that the peer is to acknowledge, unless one is under way. Nothing else is taken meanwhile.
    #[cold]
    pub(super) fn probe(&mut self, to: Peer) -> Result<Posted> {
        if to.probed {
            return Ok(Posted::Again);
        }
        let Some(slot) = self.slots.take(Kind::Probe, to.rank, 0) else { return Ok(Posted::Again) };
        let nothing = libc::iovec {
            iov_base: self.buffers.as_mut_ptr().wrapping_add(DOORBELL_OFFSET).cast(),
            iov_len: 0,
        };
        let (target, mut descriptor) =
            (fi::fi_rma_iov { addr: to.doorbell.base, len: 0, key: to.doorbell.key }, self.descriptor);
        let msg = fi::fi_msg_rma {
            msg_iov: &nothing,
            desc: &mut descriptor,
            iov_count: 1,
            addr: to.to,
            rma_iov: &target,
            rma_iov_count: 1,
            context: self.slots.context(slot),
            data: 0,
        };
        // SAFETY: the endpoint is open; the put has no bytes, and the lists are copied by the provider before it returns. The context is this
        // slot's, and free.
        let code =
            unsafe { fi::fi_writemsg(self.objects.ep, &msg, fi::FI_COMPLETION | fi::FI_DELIVERY_COMPLETE) };
        match code {
            0 => self.peers.change(to.rank, |peer| peer.probed = true),
            _ => self.slots.give_back(slot),
        }
        // Taken is not reached.
        if code == 0 || code == again() { Ok(Posted::Again) } else { self.posted("fi_writemsg", to, code) }
    }

    /// The probe in this slot has come back.
    pub(super) fn probed(&mut self, slot: usize) {
        let rank = self.slots.peer(slot);
        self.slots.give_back(slot);
        self.peers.change(rank, |peer| (peer.reached, peer.probed) = (true, false));
    }

    /// The connection that the probe in this slot was for has ended. The next post makes another one.
    pub(super) fn probe_failed(&mut self, slot: usize) {
        let rank = self.slots.peer(slot);
        self.slots.give_back(slot);
        self.peers.change(rank, |peer| peer.probed = false);
    }
}
