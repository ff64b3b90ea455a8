//! The endpoint: posting, polling, closing.

mod private;

use super::bounce::Bounce;
use super::host::{Options, random};
use super::inbound::{FETCH_SHARE_BYTES, Inbound, ReadContext, Scratch, Step, TargetRecency};
use super::memory::{Memory, PRIVATE};
use super::peer::{Peer, gone, senseless};
use super::ring::{self, Kind, Reader, Record};
use super::segment::{self, Address, MAX_RANKS, Segment};
use super::stream::{Listener, Streams};
use super::{
    Access, Borrow, Copier, Limits, MESSAGE_MAX, Posted, Registration, Remote, Sink, Source, Transport, Wait,
};
use crate::error::{Error, ErrorKind, Result, argument};
use crate::memory::{Mapping, memfd};
use crate::transport::call_slots::SlotPool;
use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Puts of at most this many bytes go through the ring: there each cache line is passed on twice.
const INLINE: usize = 256;
/// Messages of at most this many bytes go before they are asked for: longer ones are better read where they are.
const EAGER_LIMIT_BYTES: usize = 4096 + 64;
/// Segments of one put.
pub(super) const GATHER: usize = 16;
/// Puts through rings that are not yet said to be done.
const INJECTED: usize = if cfg!(test) { 4 } else { 1024 };
/// Idle turns before a rank gives its core away, where nobody else wants it.
const IDLE_SPINS: u32 = 100;
/// Who gets the core back later than this has given it to somebody.
const CONTENDED: Duration = Duration::from_micros(1);
/// Puts whose turn has not come land after so many polls that found nothing else.
const DEFERRED: u32 = 8;
/// Every so many polls that found nothing, we look whether a peer has closed.
const LOOK: u32 = 64;

/// The shared memory of one rank; see the [module](super).
pub(crate) struct Shm {
    rank: u32,
    locals: Vec<u32>,
    mine: usize,
    limits: Limits,
    address: Address,
    memory: Memory,
    /// By place in the node.
    peers: Vec<Option<Box<Peer>>>,
    inbound: Vec<Option<Box<Inbound>>>,
    /// Who writes to us, in the order in which they first did, and who has what to read from us.
    writers: Vec<usize>,
    readers: Vec<usize>,
    /// The contacts that are known.
    known: Vec<u64>,
    /// Whose turn it is.
    turn: usize,
    injected: VecDeque<u64>,
    /// For puts from memory that is not shared; made when it is first needed.
    bounce: Option<Bounce>,
    /// Those puts, until all their bytes are on their way.
    streams: Streams,
    /// For bytes that are handed over and do not land.
    scratch: Box<Scratch>,
    /// Polls in a row that found nothing but puts whose turn has not come.
    deferred: u32,
    recency: TargetRecency,
    posted: usize,
    empties: u32,
    idles: u32,
    /// Idle turns to spend with pauses now: none where the core is wanted, perhaps by whom we wait for.
    idle_spins: u32,
    wait: Wait,
    closed: bool,
    slots: SlotPool,
    /// What peers map; after all that points into it.
    segment: Segment,
    _file: Arc<File>,
}

impl std::fmt::Debug for Shm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shm").field("limits", &self.limits).field("closed", &self.closed).finish()
    }
}

/// The sources of one put.
struct Gathered {
    pieces: [(*const u8, usize); GATHER],
    count: usize,
    total: usize,
    /// Some of them are in memory of this process alone.
    private: bool,
}

impl Shm {
    /// Makes the memory that the other ranks of the node map.
    ///
    /// # Errors
    /// When the system has none, or we are not among the locals.
    pub(crate) fn open(options: &Options<'_>) -> Result<Self> {
        let (rank, locals) = (options.rank, options.locals.to_vec());
        let Ok(mine) = locals.binary_search(&rank) else {
            return Err(argument(format!("rank {rank} is not on its own node")));
        };
        if locals.len() > MAX_RANKS {
            return Err(argument(format!("{} ranks on one node are too many", locals.len())));
        }
        let ranks = locals.len();
        let nonce = random()?;
        let (segment, file) = Segment::create(ranks, nonce)?;
        let address = Address {
            nonce,
            pid: std::process::id(),
            fd: segment::number(&file),
            // At most MAX_RANKS.
            ranks: u32::try_from(ranks).unwrap_or(0),
            index: u32::try_from(mine).unwrap_or(0),
        };
        let limits = Limits {
            max_put: 1 << 46,
            gather: GATHER,
            inject: INLINE,
            message: EAGER_LIMIT_BYTES,
            borrow: Borrow::Direct,
            copier: Copier::Reader,
            ..Limits::new("shm")
        };
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let spin = if ranks <= cores { Wait::Spin } else { Wait::Yield };
        let wait = options.wait.unwrap_or(spin);
        Ok(Self {
            rank,
            mine,
            limits,
            address,
            memory: Memory::default(),
            peers: (0..ranks).map(|_| None).collect(),
            inbound: (0..ranks).map(|_| None).collect(),
            writers: Vec::with_capacity(ranks),
            readers: Vec::with_capacity(ranks),
            known: vec![0; ranks.div_ceil(64)],
            turn: 0,
            injected: VecDeque::with_capacity(INJECTED),
            bounce: None,
            streams: Streams::new(ranks),
            scratch: Scratch::new(),
            deferred: 0,
            recency: TargetRecency::default(),
            posted: 0,
            empties: 0,
            idles: 0,
            idle_spins: IDLE_SPINS,
            wait,
            closed: false,
            slots: SlotPool::new(&locals, mine, segment.areas(), Arc::clone(&file), wait == Wait::Spin),
            segment,
            locals,
            _file: file,
        })
    }

    /// The ranks of our node, with us.
    pub(crate) fn locals(&self) -> &[u32] {
        &self.locals
    }

    /// Maps the memory of `peer`, which published `address`, for [`Transport::connect`] to come.
    ///
    /// # Errors
    /// When it cannot be mapped, and why.
    pub(crate) fn reach(&mut self, peer: u32, address: &[u8]) -> Result<()> {
        self.attach(peer, address).map(|_| ())
    }

    /// As [`Transport::register`], for a range that peers call `remote`: so that one name does on two wires.
    ///
    /// # Safety
    /// As there.
    ///
    /// # Errors
    /// When there is a range of that key.
    pub(crate) unsafe fn register_as(
        &mut self,
        ptr: *mut u8,
        len: usize,
        access: Access,
        remote: Remote,
        file: Option<File>,
    ) -> Result<Registration> {
        self.check_open()?;
        self.memory.register(ptr, len, access, Some(remote), file).map(|(r, _)| r)
    }

    fn check_open(&self) -> Result<()> {
        if self.closed {
            return Err(Error::new(ErrorKind::Aborted, "this endpoint is closed"));
        }
        Ok(())
    }

    /// The place of `rank` in the node.
    fn place(&self, rank: u32) -> Option<usize> {
        // Mostly they are consecutive.
        let first = *self.locals.first()?;
        let guess = rank.checked_sub(first)? as usize;
        match self.locals.get(guess) {
            Some(r) if *r == rank => Some(guess),
            _ => self.locals.binary_search(&rank).ok(),
        }
    }

    /// Maps the memory of `peer`, unless that is done.
    fn attach(&mut self, peer: u32, address: &[u8]) -> Result<usize> {
        let wrong =
            |what: String| Error::new(ErrorKind::Transport, what).with_peer(peer as usize).over("shm");
        let Some(address) = Address::decode(address) else {
            return Err(wrong("its address is not one of shared memory".to_owned())
                .help("set CIRCULANT_PROVIDER to the same name on all ranks"));
        };
        let Some(i) = self.place(peer) else {
            return Err(wrong(format!("rank {peer} is not on the node of rank {}", self.rank)));
        };
        if address.index as usize != i {
            return Err(wrong(format!("it takes itself for rank {} of the node", address.index)));
        }
        match &self.peers[i] {
            Some(known) if known.address == address => {}
            Some(_) => return Err(wrong("it has another address than before".to_owned())),
            None => {
                // No more records than that find room in its ring.
                let most = segment::capacity(address.ranks as usize) / (ring::FIXED + ring::SEGMENT);
                let mapped = Peer::open(address, self.mine, most).map_err(|e| {
                    wrong(format!(
                        "the memory of rank {peer} (process {}) cannot be mapped: {e}",
                        address.pid
                    ))
                })?;
                self.slots.add(i, mapped.segment.areas());
                self.peers[i] = Some(Box::new(mapped));
            }
        }
        Ok(i)
    }

    /// The peer to write to.
    fn connected(&mut self, rank: u32) -> Result<&mut Peer> {
        let place = self.place(rank);
        match place.and_then(|i| self.peers.get_mut(i)).and_then(Option::as_deref_mut) {
            Some(peer) if peer.connected => {
                if peer.segment.closed() || peer.lost {
                    return Err(gone(rank));
                }
                Ok(peer)
            }
            _ => Err(argument(format!("rank {rank} is not connected")).with_peer(rank as usize)),
        }
    }

    /// Where records for `peer` are written, for tests that write wrong ones.
    #[cfg(test)]
    pub(super) fn writer_to(&mut self, peer: u32) -> &mut super::ring::Writer {
        &mut self.connected(peer).unwrap().writer
    }

    /// What a put of `sources` is made of.
    fn gather(&self, sources: &[Source]) -> Result<Gathered> {
        let mut all =
            Gathered { pieces: [(std::ptr::null(), 0); GATHER], count: 0, total: 0, private: false };
        for s in sources.iter().filter(|s| s.len > 0) {
            if all.count == GATHER {
                let n = sources.len();
                return Err(argument(format!("a put of {n} segments exceeds this provider's {GATHER}")));
            }
            let (chunk, ..) = self.memory.locate(s)?;
            all.private |= chunk == PRIVATE;
            all.pieces[all.count] = (s.ptr, s.len);
            all.total = all.total.saturating_add(s.len);
            all.count += 1;
        }
        if all.total as u64 > self.limits.max_put {
            let (n, most) = (all.total, self.limits.max_put);
            return Err(argument(format!("a put of {n} bytes exceeds this provider's {most}")));
        }
        Ok(all)
    }

    /// Takes up those who write to us for the first time.
    fn meet(&mut self) {
        for i in 0..self.known.len() {
            let fresh = self.segment.contacts(i) & !self.known[i];
            if fresh == 0 {
                continue;
            }
            self.known[i] |= fresh;
            for bit in (0..64).filter(|b| fresh >> b & 1 != 0) {
                let place = i * 64 + bit;
                if place < self.locals.len() {
                    // SAFETY: the segment outlives the reader, in this value, and each ring gets one reader, now.
                    let reader = Reader::new(unsafe { self.segment.ring(place) });
                    self.inbound[place] = Some(Box::new(Inbound::new(reader)));
                    self.writers.push(place);
                }
            }
        }
    }

    /// Reads what has come, a share of it.
    fn receive(&mut self, sink: &mut dyn Sink) -> usize {
        let (mut moved, mut later) = (0, false);
        // The other rings, which what waits may wait for, have nothing more: not for ever, lest two such puts wait for what
        // stands behind them.
        let hurry = self.deferred >= DEFERRED;
        let mut left = FETCH_SHARE_BYTES;
        for _ in 0..self.writers.len() {
            if self.turn >= self.writers.len() {
                self.turn = 0;
            }
            let place = self.writers[self.turn];
            // Whoever is left off goes last the next time, lest one with much to say keeps the others waiting.
            self.turn += 1;
            while let Some(inbound) = self.inbound[place].as_deref_mut().filter(|i| !i.broken) {
                let peer = self.peers[place].as_deref_mut();
                let mut context = ReadContext {
                    memory: &self.memory,
                    scratch: &mut self.scratch,
                    left,
                    hurry,
                    recency: &mut self.recency,
                };
                let step = inbound.step(&mut context, peer, sink);
                left = context.left;
                match step {
                    Step::Empty => break,
                    Step::Moved => moved += 1,
                    Step::Later => {
                        later = true;
                        break;
                    }
                    Step::Hello(address) => self.introduced(place, address, sink),
                    Step::Trouble(why) => self.lose(place, &why, sink),
                }
                if left == 0 {
                    self.deferred = 0;
                    return moved;
                }
            }
        }
        self.deferred = if later && moved == 0 { self.deferred + 1 } else { 0 };
        moved
    }

    fn introduced(&mut self, place: usize, address: Address, sink: &mut dyn Sink) {
        if let Err(e) = self.attach(self.locals[place], &address.encode()) {
            if let Some(inbound) = &mut self.inbound[place] {
                inbound.broken = true;
            }
            self.lose(place, e.message(), sink);
        }
    }

    fn lose(&mut self, place: usize, why: &str, sink: &mut dyn Sink) {
        if let Some(peer) = &mut self.peers[place] {
            if peer.lost {
                return;
            }
            peer.lost = true;
        }
        sink.lost(Some(self.locals[place]), why);
    }

    /// Says which puts of ours were read.
    fn completed(&mut self, sink: &mut dyn Sink) -> usize {
        let mut done = 0;
        for n in 0..self.readers.len() {
            let place = self.readers[n];
            let Some(peer) = self.peers[place].as_deref_mut().filter(|p| !p.posted.is_empty()) else {
                continue;
            };
            let Ok(tail) = peer.writer.tail() else {
                self.lose(place, "what it wrote to shared memory makes no sense", sink);
                continue;
            };
            while let Some((_, token)) = peer.posted.front().copied().filter(|(end, _)| *end <= tail) {
                peer.posted.pop_front();
                done += 1;
                sink.done(token);
            }
        }
        self.posted -= done;
        done
    }

    /// Tells of peers that closed and have nothing more to say.
    fn look_for_closed(&mut self, sink: &mut dyn Sink) {
        for place in 0..self.peers.len() {
            if self.peers[place].as_ref().is_some_and(|p| p.connected && !p.lost && p.segment.closed()) {
                self.lose(place, "it closed its endpoint", sink);
            }
        }
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        self.segment.close();
    }
}

// SAFETY: this process alone writes to its memory, in `poll`, where a target is registered (`memory`), and a closed endpoint polls no
// more. A peer that reads from it looks at the `closed` flag afterwards, and discards what it read from memory that was given
// back; see the module. Puts are done when their reader has moved on, or their bytes are copied.
unsafe impl Transport for Shm {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Vec<u8> {
        self.address.encode().to_vec()
    }

    fn connect(&mut self, peer: u32, address: &[u8]) -> Result<()> {
        self.check_open()?;
        let i = self.attach(peer, address)?;
        let hello = self.address.encode();
        let Some(p) = &mut self.peers[i] else { return Ok(()) };
        if p.connected {
            return Err(argument(format!("rank {peer} is connected already")));
        }
        p.claim(self.mine).map_err(|e| {
            Error::new(ErrorKind::Transport, format!("its memory has no ring for us: {e}"))
                .with_peer(peer as usize)
                .over("shm")
                .help(memfd::remedy(&e))
        })?;
        let record = Record { kind: Kind::Hello, segments: 0, len: hello.len(), word: 0, key: 0, address: 0 };
        p.writer.push(&record, &[(hello.as_ptr(), hello.len())]).map_err(|_| senseless(peer))?;
        p.connected = true;
        self.readers.push(i);
        Ok(())
    }

    unsafe fn register(
        &mut self,
        ptr: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<(Registration, Remote)> {
        self.check_open()?;
        self.memory.register(ptr, len, access, None, None)
    }

    fn share(&self, len: usize) -> Option<(File, Mapping)> {
        if self.closed {
            return None;
        }
        Mapping::fresh("arena", self.address.nonce, len)
            .map_err(|e| tracing::debug!("an arena of {len} bytes is not shared: {e}"))
            .ok()
    }

    unsafe fn register_shared(
        &mut self,
        ptr: *mut u8,
        len: usize,
        file: File,
    ) -> Result<(Registration, Remote)> {
        self.check_open()?;
        self.memory.register(ptr, len, Access::Target, None, Some(file))
    }

    fn deregister(&mut self, registration: Registration) -> Result<()> {
        self.check_open()?;
        self.memory.deregister(registration)
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
        self.check_open()?;
        let Gathered { pieces, count, total, private } = self.gather(sources)?;
        let full = self.injected.len() == self.injected.capacity();
        let p = self.connected(peer)?;
        if total <= INLINE {
            let record = Record { kind: Kind::Inline, segments: 0, len: total, word, key, address };
            if full || !p.writer.push(&record, &pieces[..count]).map_err(|_| senseless(peer))? {
                return Ok(Posted::Again);
            }
            self.injected.push_back(token);
            return Ok(Posted::Yes);
        }
        let Some(place) = self.place(peer).filter(|place| !self.streams.busy(*place)) else {
            return Ok(Posted::Again);
        };
        if private {
            let record = Record { kind: Kind::Part, segments: 2, len: 0, word, key, address };
            self.put_private(&pieces[..count], total, Listener { place, record, token })?;
            return Ok(Posted::Yes);
        }
        let record = Record { kind: Kind::Fetch, segments: count, len: 0, word, key, address };
        // As peers find them.
        let mut segments = [[0u64; 3]; GATHER];
        for (segment, s) in segments.iter_mut().zip(sources.iter().filter(|s| s.len > 0)) {
            let (chunk, fd, at) = self.memory.locate(s)?;
            *segment = [u64::from(chunk) << 32 | u64::from(fd), at, s.len as u64];
        }
        let p = self.connected(peer)?;
        let list = (segments.as_ptr().cast(), count * ring::SEGMENT);
        if p.posted.len() == p.posted.capacity()
            || !p.writer.push(&record, &[list]).map_err(|_| senseless(peer))?
        {
            return Ok(Posted::Again);
        }
        p.posted.push_back((p.writer.head(), token));
        self.posted += 1;
        Ok(Posted::Yes)
    }

    fn message(&mut self, peer: u32, bytes: &[u8]) -> Result<Posted> {
        self.check_open()?;
        if bytes.len() > MESSAGE_MAX {
            return Err(argument(format!("a message of {} bytes exceeds {MESSAGE_MAX}", bytes.len())));
        }
        let p = self.connected(peer)?;
        let record =
            Record { kind: Kind::Message, segments: 0, len: bytes.len(), word: 0, key: 0, address: 0 };
        let pushed = p.writer.push(&record, &[(bytes.as_ptr(), bytes.len())]).map_err(|_| senseless(peer))?;
        Ok(if pushed { Posted::Yes } else { Posted::Again })
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        self.check_open()?;
        let mut happened = self.injected.len();
        while let Some(token) = self.injected.pop_front() {
            sink.done(token);
        }
        if !self.streams.queue.is_empty() {
            happened += self.advance(sink);
        }
        self.meet();
        happened += self.receive(sink);
        if self.posted > 0 {
            happened += self.completed(sink);
        }
        if happened > 0 {
            (self.empties, self.idles) = (0, 0);
            return Ok(happened);
        }
        self.empties = self.empties.wrapping_add(1);
        if self.empties.is_multiple_of(LOOK) {
            self.look_for_closed(sink);
        }
        Ok(0)
    }

    fn idle(&mut self, _longest: Duration) {
        // Both are short however long one may wait.
        if self.wait == Wait::Spin && self.idles < self.idle_spins {
            self.idles += 1;
            return std::hint::spin_loop();
        }
        let start = Instant::now();
        std::thread::yield_now();
        self.idle_spins = if start.elapsed() > CONTENDED { 0 } else { IDLE_SPINS };
    }

    fn slots(&mut self) -> Option<&mut SlotPool> {
        (!self.closed).then_some(&mut self.slots)
    }

    fn close(&mut self) -> Result<()> {
        self.closed = true;
        self.segment.close();
        self.memory.clear();
        Ok(())
    }
}
