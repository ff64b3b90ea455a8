//! Closing: what is under way is given some time, then everything ends in an order after which no peer reaches our memory.

use super::endpoint::{Open, Verbs};
use super::library::low;
use super::requests::What;
use crate::error::{Error, Result};
use crate::transport::{Delivery, Sink, Transport};
use libfabric_sys::verbs as ib;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

/// How long what was sent may take until it is acknowledged, before it is given up. Chosen: far longer than a round
/// trip; a peer that is gone answers never.
const LINGER: Duration = Duration::from_millis(200);

/// At the end nothing is delivered.
struct Ended;

impl Sink for Ended {
    fn arrival(&mut self, _: u32) {}
    fn delivery(&mut self, _: u32, _: u64) -> Delivery {
        Delivery::Land
    }
    fn done(&mut self, _: u64) {}
    fn message(&mut self, _: &[u8]) {}
    fn lost(&mut self, _: Option<u32>, _: &str) {}
}

impl Verbs {
    pub(super) fn shut(&mut self) -> Result<()> {
        if self.open == Open::No {
            return Ok(());
        }
        if self.open == Open::Yes {
            self.linger();
        }
        tracing::debug!("{:?}", self.hardware());
        match self.end() {
            Ok(()) => {
                self.open = Open::No;
                Ok(())
            }
            Err(e) => {
                self.open = Open::Stuck;
                Err(still_open(e))
            }
        }
    }

    /// Waits until all that was sent is acknowledged: a queue pair that is destroyed sends nothing again.
    fn linger(&mut self) {
        let deadline = Instant::now() + LINGER;
        self.post_lists();
        for at in 0..self.peers.all.len() {
            self.mark_end(at);
        }
        while self.waits() && Instant::now() < deadline {
            if self.progress(&mut Ended).is_err() {
                break;
            }
            std::thread::yield_now();
        }
    }

    /// Whether something is under way to a peer that is there.
    fn waits(&self) -> bool {
        let waits = |l: &super::peers::Link| l.queue.under_way() > 0;
        self.peers.all.iter().any(|p| p.lost.is_none() && p.link.as_ref().is_some_and(waits))
    }

    /// Has the peer at `at` acknowledge what said nothing of its completion: by a write of no bytes behind it.
    fn mark_end(&mut self, at: usize) {
        let peer = &mut self.peers.all[at];
        let (Some(link), None) = (&mut peer.link, &peer.lost) else { return };
        if !link.queue.silent() {
            return;
        }
        let Some((request, _)) = link.queue.next() else { return };
        let doorbell = peer.card.doorbell;
        request.num_sge = 0;
        request.opcode = ib::IBV_WR_RDMA_WRITE;
        request.send_flags = 0;
        request.wr.rdma = ib::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
            remote_addr: doorbell.base,
            rkey: low(doorbell.key),
        };
        self.add(at, What::End);
        self.post_list(at);
    }

    /// Ends everything: first what peers reach us by.
    fn end(&mut self) -> Result<()> {
        let mut outcome = Ok(());
        for peer in &mut self.peers.all {
            if let Some(link) = &peer.link {
                match self.objects.destroy(link.qp) {
                    Ok(()) => peer.link = None,
                    Err(e) => outcome = outcome.and(Err(e)),
                }
            }
        }
        outcome = outcome.and(self.datagrams.close(&self.objects));
        outcome?;
        // From here on no peer reaches memory of ours, and the device reads and writes none: what is left of it is only noted.
        let lib = self.objects.device.lib;
        for peer in &mut self.peers.all {
            if !peer.ah.is_null() {
                // SAFETY: made by this library, and forgotten at once.
                unsafe { lib.ibv_destroy_ah(peer.ah) };
                peer.ah = std::ptr::null_mut();
            }
        }
        for outcome in [self.registrations.close(lib), self.objects.close()] {
            if let Err(e) = outcome {
                tracing::debug!("{e}");
            }
        }
        Ok(())
    }
}

fn still_open(e: Error) -> Error {
    e.help("peers may still reach memory of this process: do not free what was registered")
}

impl Drop for Verbs {
    fn drop(&mut self) {
        if let Err(e) = self.shut() {
            tracing::error!("{e}");
            return; // what the device may still use is leaked
        }
        // SAFETY: dropped only here, once; the endpoint is closed, so the device uses none of them.
        unsafe {
            ManuallyDrop::drop(&mut self.receives);
            ManuallyDrop::drop(&mut self.buffers);
            ManuallyDrop::drop(&mut self.objects);
        }
    }
}
