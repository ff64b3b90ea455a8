//! Several network interfaces, or ports of RDMA hardware, as one wire: an endpoint of the same kind on each (a *rail*), and every put takes the
//! rail that has carried least so far. Arrivals are counted, never ordered, so a put may take any; messages take the
//! first rail.
//!
//! A range is registered with all rails, and has one name: where keys are ours to choose it has the same on each; where
//! the provider chooses them (RDMA hardware), the two keys of two rails, of 32 bits, make one of ours.
//!
//! [`Limits::max_put`] is short, so that also a message in one piece goes over all rails.

use super::fabric::{Fabric, Interfaces, Options};
use super::{
    Access, Borrow, HardwareCounts, Limits, MemoryAttributes, MemoryKind, Posted, Registration, Remote, Sink,
    Source, Transport, awake,
};
use crate::error::{Error, ErrorKind, Result, argument};
use std::time::Duration;

/// The most rails. Chosen: nodes with eight accelerators have as many adapters.
pub const MAX_RAILS: usize = 8;
/// The longest put, in bytes: on a wire of 100 Gbit/s it takes 10 µs, which is some ten times what posting one costs.
const STRIPE_BYTES: u64 = 128 << 10;
/// What a put counts for beside its bytes, in bytes: a header, as one of 64 bytes takes on most wires.
const HEADER_BYTES: u64 = 64;
/// The longest gather list that is passed on. Chosen, as libfabric's (`fabric/limits.rs`).
const MAX_GATHER: usize = 16;

/// See the [module](self).
pub struct Rails {
    rails: Vec<Box<dyn Transport>>,
    limits: Limits,
    /// The registrations of a range with all rails, by our own number.
    ranges: Vec<Option<[Registration; MAX_RAILS]>>,
    free: Vec<u32>,
    /// Bytes that each rail has carried.
    carried: [u64; MAX_RAILS],
}

/// An endpoint on each of these interfaces, together; of one interface just that.
///
/// # Errors
/// As [`Fabric::open`]; and when there are no such interfaces, or more than the provider's keys allow.
pub fn open(options: &Options<'_>, interfaces: &Interfaces) -> Result<Box<dyn Transport>> {
    let options = match interfaces {
        Interfaces::Best => return Ok(Box::new(Fabric::open(options)?)),
        _ => Options { wait: awake(options.wait), ..*options },
    };
    let rails = Fabric::open_on(&options, interfaces)?;
    together(rails.into_iter().map(|rail| -> Box<dyn Transport> { Box::new(rail) }).collect())
}

/// Endpoints of one kind that were not used yet as one; of one just that.
///
/// # Errors
/// When there are more than their keys allow.
pub(super) fn together(mut rails: Vec<Box<dyn Transport>>) -> Result<Box<dyn Transport>> {
    match rails.len() {
        1 => Ok(rails.remove(0)),
        _ => Ok(Box::new(Rails::new(rails)?)),
    }
}

impl std::fmt::Debug for Rails {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rails").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Rails {
    fn new(rails: Vec<Box<dyn Transport>>) -> Result<Self> {
        let Some(first) = rails.first() else {
            return Err(Error::new(ErrorKind::Config, "there is no interface for a rail"));
        };
        let mut limits = first.limits().clone();
        let most = if limits.chooses_keys { 2 } else { MAX_RAILS };
        if rails.len() > most {
            let (n, of) = (rails.len(), &limits.provider);
            return Err(Error::new(
                ErrorKind::Config,
                format!("{n} rails: over {of} there can be {most} at most"),
            )
            .help("CIRCULANT_RAILS=2 takes two"));
        }
        for other in rails.iter().map(|rail| rail.limits()) {
            limits.max_put = limits.max_put.min(other.max_put).min(STRIPE_BYTES);
            limits.gather = limits.gather.min(other.gather).min(MAX_GATHER);
            limits.inject = limits.inject.min(other.inject);
            limits.message = limits.message.min(other.message);
            limits.copied_below = limits.copied_below.max(other.copied_below);
            limits.survives &= other.survives;
            limits.memory = common(limits.memory, other.memory);
            if other.borrow == Borrow::Staged {
                limits.borrow = Borrow::Staged;
            }
        }
        limits.provider = format!("{}*{}", limits.provider, rails.len());
        limits.wakes = false;
        limits.rails = rails.len();
        Ok(Self { rails, limits, ranges: Vec::new(), free: Vec::new(), carried: [0; MAX_RAILS] })
    }

    /// The rails' registrations of one of ours.
    fn each(&self, registration: Registration) -> Result<[Registration; MAX_RAILS]> {
        self.ranges
            .get(registration.0 as usize)
            .copied()
            .flatten()
            .ok_or_else(|| argument(format!("registration {} is not one of this endpoint's", registration.0)))
    }

    /// The rail that has carried least of those not yet `tried`.
    fn next(&self, tried: u32) -> Option<usize> {
        (0..self.rails.len()).filter(|i| tried & 1 << i == 0).min_by_key(|&i| self.carried[i])
    }

    /// One name for what the rails call a range.
    fn name(&self, remotes: &[Remote]) -> Result<Remote> {
        let first = remotes[0];
        let alike = remotes.iter().all(|r| r.base == first.base);
        let key = match self.limits.chooses_keys {
            true => pack(remotes),
            false => remotes.iter().all(|r| r.key == first.key).then_some(first.key),
        };
        match key.filter(|_| alike) {
            Some(key) => Ok(Remote { key, ..first }),
            None => Err(Error::new(
                ErrorKind::Transport,
                "the rails' names for a range of memory do not go together",
            )
            .over(self.limits.provider.as_str())
            .help("CIRCULANT_RAILS=1 takes one interface")),
        }
    }

    /// A range of all rails: each one's by `register`, also after a failure, as rails that choose keys alike must have chosen as many.
    fn register_with(
        &mut self,
        mut register: impl FnMut(&mut dyn Transport) -> Result<(Registration, Remote)>,
    ) -> Result<(Registration, Remote)> {
        let mut done = Vec::with_capacity(self.rails.len());
        for rail in &mut self.rails {
            done.push(register(rail.as_mut()));
        }
        let mut list = [Registration(u32::MAX); MAX_RAILS];
        let mut remotes = [Remote::default(); MAX_RAILS];
        let mut outcome = Ok(());
        for (i, one) in done.iter().enumerate() {
            match one {
                Ok((registration, remote)) => (list[i], remotes[i]) = (*registration, *remote),
                Err(e) => outcome = outcome.and(Err(e.clone())),
            }
        }
        match outcome.and_then(|()| self.name(&remotes[..done.len()])) {
            Ok(remote) => {
                let index = match self.free.pop() {
                    Some(i) => i,
                    None => {
                        self.ranges.push(None);
                        u32::try_from(self.ranges.len() - 1).unwrap_or(u32::MAX)
                    }
                };
                self.ranges[index as usize] = Some(list);
                Ok((Registration(index), remote))
            }
            Err(e) => {
                for (rail, one) in self.rails.iter_mut().zip(done) {
                    if let Ok((registration, _)) = one {
                        rail.deregister(registration)?;
                    }
                }
                Err(e)
            }
        }
    }
}

/// What both take; of two of which neither has all of the other's, host memory.
fn common(one: &'static [MemoryKind], other: &'static [MemoryKind]) -> &'static [MemoryKind] {
    let holds = |all: &[MemoryKind], some: &[MemoryKind]| some.iter().all(|kind| all.contains(kind));
    match (holds(other, one), holds(one, other)) {
        (true, _) => one,
        (_, true) => other,
        _ => &[MemoryKind::Host],
    }
}

/// Two keys of 32 bits, which the provider chose, as one.
fn pack(remotes: &[Remote]) -> Option<u64> {
    let [a, b] = remotes else { return None };
    (a.key >> 32 == 0 && b.key >> 32 == 0).then_some(b.key << 32 | a.key)
}

/// The key for one of two rails.
fn unpack(key: u64, rail: usize) -> u64 {
    (if rail == 0 { key } else { key >> 32 }) & u64::from(u32::MAX)
}

// SAFETY: all rails are transports, and a range is registered with all or with none; a put takes one of them. So what they
// promise holds of all together.
unsafe impl Transport for Rails {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for own in self.rails.iter().map(|rail| rail.address()) {
            // Some dozen bytes.
            out.push(u8::try_from(own.len()).unwrap_or(0));
            out.extend(own);
        }
        out
    }

    fn place(&self) -> String {
        self.rails.iter().map(|rail| rail.place()).collect::<Vec<_>>().join(" ")
    }

    fn connect(&mut self, peer: u32, address: &[u8]) -> Result<()> {
        let (mut parts, mut rest) = (Vec::new(), address);
        while let Some((own, more)) =
            rest.split_first().and_then(|(n, rest)| rest.split_at_checked(usize::from(*n)))
        {
            parts.push(own);
            rest = more;
        }
        if parts.len() != self.rails.len() || !rest.is_empty() {
            let what = format!("it has {} rails, and we have {}", parts.len(), self.rails.len());
            return Err(Error::new(ErrorKind::Transport, what)
                .with_peer(peer as usize)
                .over(self.limits.provider.as_str())
                .help("CIRCULANT_RAILS must give the same number on all nodes: name the interfaces"));
        }
        self.rails.iter_mut().zip(parts).try_for_each(|(rail, own)| rail.connect(peer, own))
    }

    unsafe fn register(
        &mut self,
        ptr: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<(Registration, Remote)> {
        // SAFETY: passed on.
        self.register_with(|rail| unsafe { rail.register(ptr, len, access) })
    }

    unsafe fn register_memory(
        &mut self,
        ptr: *mut u8,
        len: usize,
        attributes: &MemoryAttributes,
    ) -> Result<(Registration, Remote)> {
        // SAFETY: passed on.
        self.register_with(|rail| unsafe { rail.register_memory(ptr, len, attributes) })
    }

    fn deregister(&mut self, registration: Registration) -> Result<()> {
        let list = self.each(registration)?;
        // All or an error; what is left after one, closing ends.
        self.rails.iter_mut().zip(list).try_for_each(|(rail, own)| rail.deregister(own))?;
        self.ranges[registration.0 as usize] = None;
        self.free.push(registration.0);
        Ok(())
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
        let (mut list, mut ranges, mut count) =
            ([EMPTY; MAX_GATHER], [[Registration(0); MAX_RAILS]; MAX_GATHER], 0);
        for s in sources.iter().filter(|s| s.len > 0) {
            if count == self.limits.gather {
                let (n, most) = (sources.len(), self.limits.gather);
                return Err(argument(format!("a put of {n} segments exceeds this provider's {most}")));
            }
            (list[count], ranges[count]) = (*s, self.each(s.registration)?);
            count += 1;
        }
        let bytes = list[..count].iter().fold(HEADER_BYTES, |sum, s| sum.saturating_add(s.len as u64));
        let mut tried = 0;
        while let Some(i) = self.next(tried) {
            for (s, own) in list.iter_mut().zip(&ranges).take(count) {
                s.registration = own[i];
            }
            let key = if self.limits.chooses_keys { unpack(key, i) } else { key };
            // SAFETY: passed on; the registrations are those of the same ranges.
            if unsafe { self.rails[i].put(peer, &list[..count], address, key, word, token)? } == Posted::Yes {
                self.carried[i] += bytes;
                return Ok(Posted::Yes);
            }
            tried |= 1 << i;
        }
        Ok(Posted::Again)
    }

    fn message(&mut self, peer: u32, bytes: &[u8]) -> Result<Posted> {
        self.rails[0].message(peer, bytes)
    }

    fn connects(&self, peer: u32) -> bool {
        self.rails[0].connects(peer)
    }

    fn cut(&mut self, peer: u32) {
        self.rails.iter_mut().for_each(|rail| rail.cut(peer));
    }

    fn flush(&mut self) {
        self.rails.iter_mut().for_each(|rail| rail.flush());
    }

    fn hardware(&self) -> HardwareCounts {
        self.rails.iter().fold(HardwareCounts::default(), |sum, rail| sum.and(rail.hardware()))
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        self.rails.iter_mut().try_fold(0, |n, rail| Ok(n + rail.poll(sink)?))
    }

    fn idle(&mut self, longest: Duration) {
        self.rails[0].idle(longest);
    }

    fn close(&mut self) -> Result<()> {
        // All of them, whatever becomes of one.
        let outcomes: Vec<_> = self.rails.iter_mut().map(|rail| rail.close()).collect();
        outcomes.into_iter().collect()
    }

    fn abort(&mut self) -> Result<()> {
        let outcomes: Vec<_> = self.rails.iter_mut().map(|rail| rail.abort()).collect();
        outcomes.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_keys_make_one_and_come_apart_again() {
        let remote = |key| Remote { base: 0, key };
        let (a, b) = (0xDEAD_BEEF, 0xFFFF_FFFF);
        let key = pack(&[remote(a), remote(b)]).unwrap();
        assert_eq!([unpack(key, 0), unpack(key, 1)], [a, b]);
        assert_eq!(pack(&[remote(1 << 32), remote(0)]), None);
        assert_eq!(pack(&[remote(1), remote(2), remote(3)]), None);
    }

    #[test]
    fn rails_take_what_each_of_them_takes() {
        use MemoryKind::{Cuda, Host, Rocm};
        let (nvidia, amd): (&[_], &[_]) = (&[Host, Cuda], &[Host, Rocm]);
        assert_eq!([common(MemoryKind::ALL, nvidia), common(nvidia, MemoryKind::ALL)], [nvidia; 2]);
        assert_eq!([common(nvidia, amd), common(&[Host], amd)], [&[Host]; 2]);
    }
}
