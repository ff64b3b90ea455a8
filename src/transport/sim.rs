//! Ranks as threads of one process, on a wire that misbehaves on request: refused posts, delays, reordering,
//! small limits, a rank that dies. For tests of the real engine; the limits that it can enforce (keys,
//! bounds, gather lists) it enforces.

use super::{
    Access, Borrow, Clock, CopyFunction, Limits, MESSAGE_MAX, Memory, MemoryAttributes, MemoryKind, Posted,
    Registration, Remote, Sink, Source, Transport, random,
};
use crate::error::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How a simulated wire behaves.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Seed of everything random below.
    pub seed: u64,
    /// Of 256 posts, how many are refused ("again").
    pub refuse: u8,
    /// A delivery waits for up to this many polls of its target.
    pub delay: u32,
    /// Deliveries come in random order.
    pub reorder: bool,
    /// The longest put.
    pub max_put: u64,
    /// Local segments per put.
    pub gather: usize,
    /// What is done with borrowed slices.
    pub borrow: Borrow,
    /// See [`Limits::copied_below`].
    pub copied_below: usize,
    /// Does a rank learn that a peer died when it posts to it? (TCP: yes; shared memory: no.)
    pub deaths_show: bool,
    /// Are posts to a dead peer errors at once? (TCP: yes, when the reset came before the post.)
    pub deaths_refuse: bool,
    /// The longest range that can be registered, as a limit on locked memory would have it.
    pub lockable: usize,
    /// The kinds of memory that can be registered. That of devices is copied by its function only, never touched otherwise.
    pub memory: &'static [MemoryKind],
    /// Endpoints cannot promise that they are closed.
    pub unclosable: bool,
    /// The ranks go by a [virtual time](Clock::group): each is one thread, which sleeps by [`Net::sleep`].
    pub virtual_time: bool,
    /// The same, and the ranks run in turns ([`Clock::group_in_turns`]) from [`Net::enter`] to [`Net::leave`]; these follow from
    /// the seed: what happens is the same each time.
    pub turns: bool,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            seed: 1,
            refuse: 0,
            delay: 0,
            reorder: false,
            max_put: u64::MAX,
            gather: 4,
            borrow: Borrow::Direct,
            copied_below: 0,
            deaths_show: true,
            deaths_refuse: false,
            lockable: usize::MAX,
            memory: &[MemoryKind::Host],
            unclosable: false,
            virtual_time: false,
            turns: false,
        }
    }
}

#[derive(Debug)]
enum Transfer {
    Put { address: u64, key: u64, bytes: Vec<u8>, word: u32 },
    Message(Vec<u8>),
}

#[derive(Debug, Default)]
struct Mailbox {
    /// (polls still to wait, what)
    queue: Vec<(u32, Transfer)>,
    dead: bool,
    /// Dies after so many posts more.
    posts_left: Option<u32>,
    /// Ranks from which nothing comes any more.
    cut: Vec<usize>,
    /// Ranks whose connection to this one does not come about.
    unconnected: Vec<usize>,
}

/// The wire that the endpoints of one group share.
#[derive(Debug)]
pub struct Net {
    boxes: Vec<Mutex<Mailbox>>,
    clocks: Vec<Clock>,
    faults: Faults,
}

fn lock(mailbox: &Mutex<Mailbox>) -> MutexGuard<'_, Mailbox> {
    // Queues are changed by single pushes and removals: whole even after a panic.
    mailbox.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One endpoint per rank.
pub fn group(size: usize, faults: &Faults) -> Vec<Sim> {
    let clocks = match (faults.turns, faults.virtual_time) {
        (true, _) => Clock::group_in_turns(size, faults.seed),
        (false, true) => Clock::group(size),
        (false, false) => vec![Clock::default(); size],
    };
    let boxes = (0..size).map(|_| Mutex::default()).collect();
    let net = Arc::new(Net { boxes, clocks, faults: faults.clone() });
    (0..size).map(|rank| Sim::new(&net, rank)).collect()
}

impl Net {
    /// From now on `rank` neither sends nor receives, as if its process had been killed.
    pub fn kill(&self, rank: usize) {
        if let Some(mailbox) = self.boxes.get(rank) {
            let mut mailbox = lock(mailbox);
            mailbox.dead = true;
            mailbox.queue.clear();
            if !self.faults.turns {
                self.clocks[rank].leave();
            }
        }
    }

    /// From now on nothing comes from either of two ranks to the other, and neither is told.
    pub fn cut(&self, one: usize, other: usize) {
        for (to, from) in [(one, other), (other, one)] {
            if let Some(mailbox) = self.boxes.get(to) {
                lock(mailbox).cut.push(from);
            }
        }
    }

    /// From now on no connection between these two comes about: what either posts to the other is put off, for ever.
    pub fn disconnect(&self, one: usize, other: usize) {
        for (to, from) in [(one, other), (other, one)] {
            if let Some(mailbox) = self.boxes.get(to) {
                lock(mailbox).unconnected.push(from);
            }
        }
    }

    /// Whether `rank` has been killed, or has closed its endpoint.
    pub fn is_dead(&self, rank: usize) -> bool {
        self.boxes.get(rank).is_some_and(|mailbox| lock(mailbox).dead)
    }

    /// With [`Faults::turns`]: the thread of `rank` runs in its turns only from when those of all ranks have come here on.
    pub fn enter(&self, rank: usize) {
        self.clocks.get(rank).unwrap_or(&Clock::default()).enter();
    }

    /// The thread of `rank` waits for no turn any more, and no time waits for it.
    pub fn leave(&self, rank: usize) {
        self.clocks.get(rank).unwrap_or(&Clock::default()).leave();
    }

    /// The clock of `rank`.
    pub fn clock(&self, rank: usize) -> Clock {
        self.clocks.get(rank).cloned().unwrap_or_default()
    }

    /// As [`Net::kill`], when `rank` has posted this many puts and messages more.
    pub fn kill_after(&self, rank: usize, posts: u32) {
        match self.boxes.get(rank) {
            Some(mailbox) if posts > 0 => lock(mailbox).posts_left = Some(posts),
            _ => self.kill(rank),
        }
    }

    /// Whether `rank`, whose post is to come, lives.
    fn lives(&self, rank: usize) -> bool {
        let mut mailbox = lock(&self.boxes[rank]);
        let last = mailbox.posts_left == Some(0);
        mailbox.posts_left = mailbox.posts_left.map(|left| left.saturating_sub(1));
        drop(mailbox);
        if last {
            self.kill(rank);
        }
        !lock(&self.boxes[rank]).dead
    }

    /// What `rank` does while it is in no call, for so long.
    pub fn sleep(&self, rank: usize, length: Duration) {
        self.clocks.get(rank).unwrap_or(&Clock::default()).sleep(length);
    }
}

/// A registered range; its address is that of a pointer whose provenance was exposed.
#[derive(Clone, Copy, Debug)]
struct Region {
    start: usize,
    len: usize,
    access: Access,
    /// Of memory of a device: what copies from and to it.
    copy: Option<CopyFunction>,
}

impl Region {
    /// Where `len` bytes from `at` are, if they lie in it.
    fn offset(&self, at: usize, len: usize) -> Option<usize> {
        let offset = at.checked_sub(self.start)?;
        (offset.checked_add(len)? <= self.len).then_some(offset)
    }
}

/// The endpoint of one rank.
#[derive(Debug)]
pub struct Sim {
    net: Arc<Net>,
    rank: usize,
    limits: Limits,
    /// By number.
    regions: HashMap<u32, Region>,
    next: u32,
    /// The key of number 0, and the address of the first byte of every region. Offsets, not addresses of memory: so that
    /// both kinds are tested.
    names: Remote,
    random: u64,
    done: Vec<u64>,
    lost: Vec<u32>,
    /// Peers that are [cut off](Transport::cut).
    cut: Vec<u32>,
    open: bool,
}

impl Sim {
    fn new(net: &Arc<Net>, rank: usize) -> Self {
        let f = &net.faults;
        let limits = Limits {
            max_put: f.max_put,
            gather: f.gather,
            inject: 64,
            borrow: f.borrow,
            copied_below: f.copied_below,
            memory: f.memory,
            offsets: true,
            survives: true,
            ..Limits::new("sim")
        };
        Self {
            net: Arc::clone(net),
            rank,
            limits,
            regions: HashMap::new(),
            next: 0,
            // Far from the end of all addresses.
            names: Remote { base: random() >> 2, key: random() },
            random: f.seed ^ (rank as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            done: Vec::new(),
            lost: Vec::new(),
            cut: Vec::new(),
            open: true,
        }
    }

    /// The wire, to kill ranks on it.
    pub fn net(&self) -> Arc<Net> {
        Arc::clone(&self.net)
    }

    fn random(&mut self, below: u32) -> u32 {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        u32::try_from((z ^ (z >> 31)) % u64::from(below.max(1))).unwrap_or(0)
    }

    /// Others may have their turns now.
    fn look(&mut self) {
        if self.net.faults.turns {
            self.net.clocks[self.rank].look();
        }
    }

    fn deliver(&mut self, peer: u32, what: Transfer) -> Result<Posted> {
        self.look();
        if !self.open || !self.net.lives(self.rank) {
            return Err(Error::new(ErrorKind::Transport, "the endpoint is closed"));
        }
        if self.cut.contains(&peer) {
            return Err(Error::new(ErrorKind::PeerLost, "it is cut off").with_peer(peer as usize));
        }
        if self.random(256) < u32::from(self.net.faults.refuse) {
            return Ok(Posted::Again);
        }
        let delay = self.random(self.net.faults.delay + 1);
        let Some(mailbox) = self.net.boxes.get(peer as usize) else {
            return Err(Error::new(ErrorKind::Transport, format!("there is no rank {peer} on this wire")));
        };
        let mut mailbox = lock(mailbox);
        if mailbox.dead {
            if self.net.faults.deaths_refuse {
                return Err(Error::new(ErrorKind::PeerLost, "connection reset").with_peer(peer as usize));
            }
            if self.net.faults.deaths_show && !self.lost.contains(&peer) {
                self.lost.push(peer);
            }
            return Ok(Posted::Yes);
        }
        if mailbox.cut.contains(&self.rank) {
            return Ok(Posted::Yes);
        }
        if mailbox.unconnected.contains(&self.rank) {
            return Ok(Posted::Again);
        }
        mailbox.queue.push((delay, what));
        Ok(Posted::Yes)
    }

    /// One delivery that is due.
    fn take(&mut self) -> Option<Transfer> {
        let pick = self.random(u32::MAX) as usize;
        let mut mailbox = lock(&self.net.boxes[self.rank]);
        if mailbox.dead {
            return None;
        }
        let due = mailbox.queue.iter().filter(|(wait, _)| *wait == 0).count();
        if due == 0 {
            return None;
        }
        let nth = if self.net.faults.reorder { pick % due } else { 0 };
        let at = mailbox.queue.iter().enumerate().filter(|(_, (wait, _))| *wait == 0).nth(nth)?.0;
        Some(mailbox.queue.remove(at).1)
    }

    fn keep(&mut self, region: Region) -> Result<(Registration, Remote)> {
        if region.len > self.net.faults.lockable {
            let what = format!("cannot register {} bytes of memory", region.len);
            return Err(
                Error::new(ErrorKind::System, what).help("raise the limit on locked memory (ulimit -l)")
            );
        }
        self.next += 1;
        self.regions.insert(self.next, region);
        let key = self.names.key.wrapping_add(self.next.into());
        Ok((Registration(self.next), Remote { key, ..self.names }))
    }

    fn land(&self, address: u64, key: u64, bytes: &[u8]) -> Result<()> {
        let refused =
            |what: &str| Err(Error::new(ErrorKind::Transport, format!("a put was refused: {what}")));
        let number = u32::try_from(key.wrapping_sub(self.names.key)).ok();
        let Some(region) = number.and_then(|n| self.regions.get(&n)) else { return refused("unknown key") };
        if region.access != Access::Target {
            return refused("its region is only read");
        }
        let n = bytes.len();
        let Some(offset) = address.checked_sub(self.names.base).and_then(|o| usize::try_from(o).ok()) else {
            return refused("beyond memory");
        };
        let Some(at) = region.start.checked_add(offset).filter(|at| region.offset(*at, n).is_some()) else {
            return refused("outside its region");
        };
        let to = std::ptr::with_exposed_provenance_mut(at);
        // SAFETY: the range lies in a target that `register`'s caller keeps valid and untouched until it is
        // deregistered, which happens on this thread only; no other thread writes through this endpoint.
        unsafe { copy(region.copy, to, bytes.as_ptr(), n) }
    }
}

/// Copies `n` bytes by the function of the device that has one of them, or by the processor.
///
/// # Safety
/// Both ranges are valid for that, and do not overlap; `function` is that of the device.
unsafe fn copy(function: Option<CopyFunction>, to: *mut u8, from: *const u8, n: usize) -> Result<()> {
    // SAFETY: our caller's.
    let code = unsafe {
        match function {
            Some(function) => function(to.cast(), from.cast(), n),
            None => {
                std::ptr::copy_nonoverlapping(from, to, n);
                0
            }
        }
    };
    if code == 0 {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::Transport, format!("the device's copy failed: {code}")))
    }
}

// SAFETY: memory is written in `poll` only, by `land`, which checks key, access and bounds; sources are copied before `put` returns;
// deregistering and closing forget the regions.
unsafe impl Transport for Sim {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Vec<u8> {
        self.rank.to_le_bytes().to_vec()
    }

    fn connect(&mut self, peer: u32, address: &[u8]) -> Result<()> {
        if address == (peer as usize).to_le_bytes() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Transport, format!("this is not the address of rank {peer}")))
    }

    unsafe fn register(
        &mut self,
        ptr: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<(Registration, Remote)> {
        self.keep(Region { start: ptr.expose_provenance(), len, access, copy: None })
    }

    unsafe fn register_memory(
        &mut self,
        ptr: *mut u8,
        len: usize,
        attributes: &MemoryAttributes,
    ) -> Result<(Registration, Remote)> {
        if !self.limits.memory.contains(&attributes.memory.kind()) {
            return Err(self.limits.refuse(attributes.memory));
        }
        let copy = attributes.copy.filter(|_| attributes.memory != Memory::Host);
        self.keep(Region { start: ptr.expose_provenance(), len, access: Access::Target, copy })
    }

    fn deregister(&mut self, registration: Registration) -> Result<()> {
        match self.regions.remove(&registration.0) {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::Transport, "this range was not registered")),
        }
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
        let total: usize = sources.iter().map(|s| s.len).sum();
        if sources.len() > self.limits.gather || total as u64 > self.limits.max_put {
            return Err(Error::new(
                ErrorKind::Transport,
                format!("a put of {} segments and {total} bytes exceeds the limits", sources.len()),
            ));
        }
        let mut bytes = Vec::with_capacity(total);
        for s in sources {
            let known = self.regions.get(&s.registration.0);
            let Some(region) = known.filter(|region| region.offset(s.ptr.addr(), s.len).is_some()) else {
                return Err(Error::new(ErrorKind::Transport, "a source lies outside its registration"));
            };
            let at = bytes.len();
            bytes.resize(at + s.len, 0);
            // SAFETY: the caller promises that the source lies in its registration (checked above) and is
            // not written now; the bytes were just made for it.
            unsafe { copy(region.copy, bytes[at..].as_mut_ptr(), s.ptr, s.len)? };
        }
        let posted = self.deliver(peer, Transfer::Put { address, key, bytes, word })?;
        if posted == Posted::Yes {
            self.done.push(token);
        }
        Ok(posted)
    }

    fn message(&mut self, peer: u32, bytes: &[u8]) -> Result<Posted> {
        if bytes.len() > MESSAGE_MAX {
            return Err(Error::new(ErrorKind::Transport, format!("a message of {} bytes", bytes.len())));
        }
        self.deliver(peer, Transfer::Message(bytes.to_vec()))
    }

    fn connects(&self, peer: u32) -> bool {
        self.net
            .boxes
            .get(peer as usize)
            .is_some_and(|mailbox| lock(mailbox).unconnected.contains(&self.rank))
    }

    fn cut(&mut self, peer: u32) {
        self.lost.retain(|lost| *lost != peer);
        self.cut.push(peer);
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        self.look();
        let mut events = 0;
        for token in self.done.drain(..) {
            sink.done(token);
            events += 1;
        }
        for peer in std::mem::take(&mut self.lost) {
            sink.lost(Some(peer), "its endpoint is closed");
            self.lost.push(peer);
        }
        for (wait, _) in &mut lock(&self.net.boxes[self.rank]).queue {
            *wait = wait.saturating_sub(1);
        }
        while let Some(delivery) = self.take() {
            events += 1;
            match delivery {
                Transfer::Message(bytes) => sink.message(&bytes),
                Transfer::Put { address, key, bytes, word } => {
                    self.land(address, key, &bytes)?;
                    sink.arrival(word);
                }
            }
        }
        Ok(events)
    }

    fn idle(&mut self, _longest: Duration) {
        std::thread::yield_now();
    }

    fn clock(&self) -> Clock {
        self.net.clocks[self.rank].clone()
    }

    fn close(&mut self) -> Result<()> {
        self.open = false;
        self.regions.clear();
        self.net.kill(self.rank);
        if self.net.faults.unclosable {
            return Err(Error::new(ErrorKind::Transport, "the endpoint cannot be closed"));
        }
        Ok(())
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.net.kill(self.rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_one_wire_has_other_names_on_the_next() {
        let mut bytes = [0u8; 8];
        let mut names = Vec::new();
        for mut wire in (0..4).flat_map(|_| group(2, &Faults::default())) {
            // SAFETY: the bytes outlive the endpoint.
            let (_, remote) =
                unsafe { wire.register(bytes.as_mut_ptr(), bytes.len(), Access::Target) }.unwrap();
            assert!(names.iter().all(|n: &Remote| n.key != remote.key && n.base != remote.base), "{names:?}");
            names.push(remote);
        }
    }
}
