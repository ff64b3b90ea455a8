//! Two wires as one: peers on our node by shared memory, all others by libfabric.
//!
//! A range is registered with both, and libfabric's name for it does for both: a peer that puts need not know by which
//! wire it goes. Limits are the stricter ones of the two.

use super::shm::Shm;
use super::{
    Access, HardwareCounts, Lent, Limits, Mapping, Posted, Registration, Remote, Sink, SlotPool, Source,
    Transport,
};
use crate::error::{Error, ErrorKind, Result, argument};
use std::fs::File;
use std::time::Duration;

/// The longest gather list that is passed on. Chosen, as libfabric's (`fabric/limits.rs`).
const MAX_GATHER: usize = 16;
/// While shared memory delivers something, libfabric is polled once in this many polls: an empty poll of it is a system
/// call. Chosen.
const FABRIC_POLL_INTERVAL: u32 = 8;

/// See the [module](self).
pub(crate) struct Node {
    shm: Shm,
    fabric: Box<dyn Transport>,
    limits: Limits,
    /// The registrations of both, by our own number.
    ranges: Vec<Option<(Registration, Registration)>>,
    free: Vec<u32>,
    /// Whether the ranks of our node reach each other.
    near: bool,
    polls: u32,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("limits", &self.limits).field("near", &self.near).finish()
    }
}

impl Node {
    /// Of two endpoints that were not used yet.
    pub(crate) fn new(shm: Shm, fabric: Box<dyn Transport>) -> Self {
        let (a, b) = (shm.limits(), fabric.limits());
        let limits = Limits {
            shm_within_nodes: true,
            max_put: a.max_put.min(b.max_put),
            gather: a.gather.min(b.gather).min(MAX_GATHER),
            inject: a.inject.min(b.inject),
            message: a.message.min(b.message),
            memory: a.memory,
            wakes: false,
            survives: a.survives && b.survives,
            // What a put between nodes is; and both register a range under the provider's name.
            ..b.clone()
        };
        Self { shm, fabric, limits, ranges: Vec::new(), free: Vec::new(), near: false, polls: 0 }
    }

    /// Says whether the ranks of our node reach each other, and how many cores they may use together. Where they do not reach each
    /// other, they talk by libfabric like the others.
    pub(crate) fn settle(&mut self, reach: bool, cores: u32) {
        self.near = reach;
        self.shm.settle(cores);
    }

    fn is_near(&self, peer: u32) -> bool {
        self.near && self.shm.locals().binary_search(&peer).is_ok()
    }

    fn both(&self, registration: Registration) -> Result<(Registration, Registration)> {
        self.ranges
            .get(registration.0 as usize)
            .copied()
            .flatten()
            .ok_or_else(|| argument(format!("registration {} is not one of this endpoint's", registration.0)))
    }

    /// # Safety
    /// As [`Transport::register`].
    unsafe fn add(
        &mut self,
        ptr: *mut u8,
        len: usize,
        access: Access,
        file: Option<File>,
    ) -> Result<(Registration, Remote)> {
        // SAFETY: passed on.
        let (far, remote) = unsafe { self.fabric.register(ptr, len, access)? };
        // SAFETY: passed on.
        let near = match unsafe { self.shm.register_as(ptr, len, access, remote, file) } {
            Ok(near) => near,
            Err(e) => {
                self.fabric.deregister(far)?;
                return Err(e);
            }
        };
        let index = match self.free.pop() {
            Some(i) => i,
            None => {
                self.ranges.push(None);
                u32::try_from(self.ranges.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.ranges[index as usize] = Some((near, far));
        Ok((Registration(index), remote))
    }
}

// SAFETY: both are transports, each peer is reached by one of them, and a range is registered with both or with none: so what
// they promise holds of the two together.
unsafe impl Transport for Node {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Vec<u8> {
        let near = self.shm.address();
        // A few dozen bytes.
        let mut out = vec![u8::try_from(near.len()).unwrap_or(0)];
        out.extend(near);
        out.extend(self.fabric.address());
        out
    }

    fn place(&self) -> String {
        self.fabric.place()
    }

    fn connect(&mut self, peer: u32, address: &[u8]) -> Result<()> {
        let parts = address.split_first().and_then(|(n, rest)| rest.split_at_checked(usize::from(*n)));
        let Some((near, far)) = parts else {
            let e = Error::new(ErrorKind::Transport, "its address is cut short");
            return Err(e.with_peer(peer as usize));
        };
        if self.is_near(peer) { self.shm.connect(peer, near) } else { self.fabric.connect(peer, far) }
    }

    unsafe fn register(
        &mut self,
        ptr: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<(Registration, Remote)> {
        // SAFETY: passed on.
        unsafe { self.add(ptr, len, access, None) }
    }

    fn share(&self, len: usize) -> Option<(File, Mapping)> {
        if self.near { self.shm.share(len) } else { None }
    }

    unsafe fn register_shared(
        &mut self,
        ptr: *mut u8,
        len: usize,
        file: File,
    ) -> Result<(Registration, Remote)> {
        // SAFETY: passed on.
        unsafe { self.add(ptr, len, Access::Target, Some(file)) }
    }

    fn deregister(&mut self, registration: Registration) -> Result<()> {
        let (near, far) = self.both(registration)?;
        self.fabric.deregister(far)?;
        self.ranges[registration.0 as usize] = None;
        self.free.push(registration.0);
        self.shm.deregister(near)
    }

    unsafe fn put(
        &mut self,
        peer: u32,
        sources: &[Source],
        address: u64,
        key: u64,
        word: u32,
        token: u64,
    ) -> Result<Posted> {
        const EMPTY: Source = Source { ptr: std::ptr::null(), len: 0, registration: Registration(u32::MAX) };
        let near = self.is_near(peer);
        let (mut list, mut count) = ([EMPTY; MAX_GATHER], 0);
        for s in sources.iter().filter(|s| s.len > 0) {
            if count == self.limits.gather {
                let most = self.limits.gather;
                return Err(argument(format!(
                    "a put of {} segments exceeds this provider's {most}",
                    sources.len()
                )));
            }
            let (by_shm, by_fabric) = self.both(s.registration)?;
            list[count] = Source { registration: if near { by_shm } else { by_fabric }, ..*s };
            count += 1;
        }
        // SAFETY: passed on; the registrations are those of the same ranges.
        unsafe {
            match near {
                true => self.shm.put(peer, &list[..count], address, key, word, token),
                false => self.fabric.put(peer, &list[..count], address, key, word, token),
            }
        }
    }

    fn longest_message_to(&self, peer: u32) -> usize {
        let limits = if self.is_near(peer) { self.shm.limits() } else { self.fabric.limits() };
        limits.message
    }

    fn message(&mut self, peer: u32, bytes: &[u8]) -> Result<Posted> {
        if self.is_near(peer) { self.shm.message(peer, bytes) } else { self.fabric.message(peer, bytes) }
    }

    fn connects(&self, peer: u32) -> bool {
        !self.is_near(peer) && self.fabric.connects(peer)
    }

    fn cut(&mut self, peer: u32) {
        // A peer of our node has an address with both, and no put of it comes by either.
        self.shm.cut(peer);
        self.fabric.cut(peer);
    }

    fn flush(&mut self) {
        // Shared memory collects nothing.
        self.fabric.flush();
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        let moved = self.shm.poll(sink)?;
        self.polls = self.polls.wrapping_add(1);
        if moved > 0 && !self.polls.is_multiple_of(FABRIC_POLL_INTERVAL) {
            return Ok(moved);
        }
        Ok(moved + self.fabric.poll(sink)?)
    }

    fn idle(&mut self, longest: Duration) {
        self.fabric.idle(longest);
    }

    fn hardware(&self) -> HardwareCounts {
        self.fabric.hardware()
    }

    fn slots(&mut self) -> Option<&mut SlotPool> {
        if self.near { self.shm.slots() } else { None }
    }

    fn lend(&self, bytes: &[u8]) -> Option<Lent> {
        if self.near { self.shm.lend(bytes) } else { None }
    }

    fn reads_memory_of(&mut self, peer: u32) -> bool {
        self.near && self.shm.reads_memory_of(peer)
    }

    fn fetch(&mut self, peer: u32, lent: Lent, at: usize, out: (&mut [u8], u64)) -> Result<()> {
        self.shm.fetch(peer, lent, at, out)
    }

    fn close(&mut self) -> Result<()> {
        let near = self.shm.close();
        self.fabric.close().and(near)
    }

    fn abort(&mut self) -> Result<()> {
        let near = self.shm.abort();
        self.fabric.abort().and(near)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::shm::Options;
    use super::super::{Borrow, Copier, MemoryKind, sim};
    use super::*;

    #[test]
    fn its_limits_are_those_of_both_and_it_does_not_sleep() {
        let memory = MemoryKind::ALL;
        let faults =
            sim::Faults { max_put: 1000, gather: 64, borrow: Borrow::Staged, memory, ..Default::default() };
        let far = sim::group(1, &faults).remove(0);
        let near = Shm::open(&Options { rank: 0, locals: &[0, 1], wait: None }).unwrap();
        let (shm, node) = (near.limits().clone(), Node::new(near, Box::new(far)));
        let l = node.limits();
        assert_eq!((l.wire().as_str(), l.provider.as_str(), l.shm_within_nodes), ("sim+shm", "sim", true));
        assert_eq!((l.max_put, l.gather, l.message), (1000, MAX_GATHER, shm.message));
        assert_eq!((l.borrow, l.copier, l.offsets, l.wakes), (Borrow::Staged, Copier::Sender, true, false));
        assert_eq!((shm.wire().as_str(), shm.copier), ("shm", Copier::Reader));
        // Node-local ranks copy by the processor.
        assert_eq!(l.memory, [MemoryKind::Host]);
    }

    /// Longer messages go between nodes than within one.
    #[test]
    fn each_peer_has_the_longest_message_of_its_wire() {
        let far = sim::group(1, &sim::Faults::default()).remove(0);
        let near = Shm::open(&Options { rank: 0, locals: &[0, 1], wait: None }).unwrap();
        let [within, between] = [near.limits().message, far.limits().message];
        assert!(within < between);
        let mut node = Node::new(near, Box::new(far));
        assert_eq!([1, 2].map(|peer| node.longest_message_to(peer)), [between; 2]);
        node.settle(true, 2);
        assert_eq!([1, 2].map(|peer| node.longest_message_to(peer)), [within, between]);
    }
}
