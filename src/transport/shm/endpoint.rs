//! The endpoint: posting, polling, closing.

mod asleep;
mod private;
mod reach;

use super::bounce::Bounce;
use super::doorbell::For;
use super::host::{Options, random};
use super::inbound::{FETCH_SHARE_BYTES, Inbound, ReadContext, Scratch, Step, TargetRecency};
use super::peer::{Peer, gone, senseless};
use super::registrations::{PRIVATE, Registrations};
use super::ring::{Kind, Reader, Record};
use super::segment::{self, Address, FEW_RANKS, MAX_RANKS, Segment};
use super::stream::{MAX_GATHER, StreamReader, Streams};
use crate::error::{Error, ErrorKind, Result, argument};
use crate::memory::{Mapping, memfd};
use crate::transport::node_memory::has_ended;
use crate::transport::pauses::Pauses;
use crate::transport::slot_pool::SlotPool;
use crate::transport::{
    Access, Borrow, Copier, Lent, Limits, MESSAGE_MAX, Posted, Registration, Remote, Sink, Source, Transport,
    Wait,
};
use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

/// The longest put whose bytes go through the ring: each cache line passes from core to core twice there. (1000 bytes so: 0.96 µs;
/// read where they are: 0.50; 2 cores, Xeon.)
const MAX_INLINE_BYTES: usize = 256;
/// The same of a rank that writes to more than [`FEW_RANKS`] others. To read where bytes are, each of them maps the chunk that they are in, which takes
/// 4 KiB of tables at least. Chosen: a first page has room for a put.
const MAX_INLINE_TO_MANY_BYTES: usize = 2048;
/// The longest eager message: longer ones are better read where they are. With room for the engine's header beside 4 KiB.
const EAGER_LIMIT_BYTES: usize = 4096 + 64;
/// Puts through rings that are not yet said to be done, at most. Chosen; unit tests reach it with 4.
const MAX_INJECTED: usize = if cfg!(test) { 4 } else { 1024 };
/// Polls that found nothing but puts to be combined later (`Delivery::Later`), after which these are written to their
/// targets. Chosen; `what_is_wanted_later_waits_but_not_for_ever` shows it.
const MAX_DEFERRED_POLLS: u32 = 8;
/// Empty polls between two looks whether a peer has closed, which read one cache line of each. Chosen, so that looking
/// is a small part of polling.
const CLOSED_CHECK_POLLS: u32 = 64;

/// The shared memory of one rank; see the [module](super).
pub(crate) struct Shm {
    rank: u32,
    locals: Vec<u32>,
    mine: usize,
    limits: Limits,
    address: Address,
    registrations: Registrations,
    /// By index among the node-local ranks.
    peers: Vec<Option<Box<Peer>>>,
    inbound: Vec<Option<Box<Inbound>>>,
    /// The ranks that write to us, in the order in which they first did, and those that we write to.
    writers: Vec<usize>,
    readers: Vec<usize>,
    /// The ranks that write to us, as bits.
    known: Vec<u64>,
    /// The index in `writers` of the rank whose ring is read next.
    turn: usize,
    injected: VecDeque<u64>,
    /// For puts from memory that is not shared; made when it is first needed.
    bounce: Option<Bounce>,
    /// Those puts, until all their bytes are sent.
    streams: Streams,
    /// For bytes that are consumed and written to no target.
    scratch: Box<Scratch>,
    /// Of the put that is being posted: its sources as peers find them.
    segments: [[u64; 3]; MAX_GATHER],
    /// Polls in a row that found nothing but puts to be combined later.
    deferred: u32,
    /// The longest put whose bytes go through the ring.
    inline: usize,
    recency: TargetRecency,
    posted: usize,
    empties: u32,
    idles: u32,
    pauses: Pauses,
    /// No setting forbids it.
    may_sleep: bool,
    /// How long ranks of this node sleep, at most; zero: none does.
    pub(super) longest_sleep: Duration,
    /// We have said that we sleep, and for what.
    armed: Option<For>,
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

/// The sources of one put: how many have bytes, and how many bytes these are.
struct Gathered {
    count: usize,
    total: usize,
    /// Some of them are in memory of this process alone.
    private: bool,
}

impl Shm {
    /// Makes the memory that the other ranks of the node map.
    ///
    /// # Errors
    /// When the system has none, or we are not among the node-local ranks.
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
            gather: MAX_GATHER,
            inject: MAX_INLINE_BYTES,
            message: EAGER_LIMIT_BYTES,
            borrow: Borrow::Direct,
            copier: Copier::Reader,
            survives: true,
            ..Limits::new("shm")
        };
        let pauses = Pauses::of(options.wait, ranks);
        Ok(Self {
            rank,
            mine,
            limits,
            address,
            registrations: Registrations::default(),
            peers: (0..ranks).map(|_| None).collect(),
            inbound: (0..ranks).map(|_| None).collect(),
            writers: Vec::with_capacity(ranks),
            readers: Vec::with_capacity(ranks),
            known: vec![0; ranks.div_ceil(64)],
            turn: 0,
            injected: VecDeque::with_capacity(MAX_INJECTED),
            bounce: None,
            streams: Streams::new(ranks),
            scratch: Scratch::new(),
            segments: [[0; 3]; MAX_GATHER],
            deferred: 0,
            inline: MAX_INLINE_BYTES,
            recency: TargetRecency::default(),
            posted: 0,
            empties: 0,
            idles: 0,
            pauses,
            may_sleep: options.wait.is_none_or(|wait| wait == Wait::Block),
            longest_sleep: Duration::ZERO,
            armed: None,
            closed: false,
            slots: SlotPool::new(&locals, mine, segment.areas(&address), Arc::clone(&file), pauses),
            segment,
            locals,
            _file: file,
        })
    }

    /// The node-local ranks may use so many cores together: before the first wait.
    pub(crate) fn settle(&mut self, cores: u32) {
        self.pauses.settle(self.locals.len(), cores as usize);
        self.slots.pause_by(self.pauses);
        self.may_sleep_from_now_on(cores);
    }

    /// The node-local ranks, this one included.
    pub(crate) fn locals(&self) -> &[u32] {
        &self.locals
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
        self.registrations.register(ptr, len, access, Some(remote), file).map(|(r, _)| r)
    }

    fn check_open(&self) -> Result<()> {
        if self.closed {
            return Err(Error::new(ErrorKind::Aborted, "this endpoint is closed"));
        }
        Ok(())
    }

    /// Where records for `peer` are written, for tests that write wrong ones.
    #[cfg(test)]
    pub(super) fn writer_to(&mut self, peer: u32) -> &mut super::ring::Writer {
        &mut connected(&self.locals, &mut self.peers, peer).unwrap().1.writer
    }

    /// What a put of `sources` is made of. Those with bytes stand in `segments` then, as peers find them.
    #[inline]
    fn gather(&mut self, sources: &[Source]) -> Result<Gathered> {
        let mut all = Gathered { count: 0, total: 0, private: false };
        for s in sources.iter().filter(|s| s.len > 0) {
            let (chunk, fd, at) = self.registrations.locate(s)?;
            let Some(segment) = self.segments.get_mut(all.count) else {
                let n = sources.len();
                return Err(argument(format!("a put of {n} segments exceeds this provider's {MAX_GATHER}")));
            };
            *segment = [u64::from(chunk) << 32 | u64::from(fd), at, s.len as u64];
            all.private |= chunk == PRIVATE;
            all.total = all.total.saturating_add(s.len);
            all.count += 1;
        }
        if all.total as u64 > self.limits.max_put {
            let (n, most) = (all.total, self.limits.max_put);
            return Err(argument(format!("a put of {n} bytes exceeds this provider's {most}")));
        }
        Ok(all)
    }

    /// Makes readers for the rings of ranks that write to us for the first time.
    fn add_writers(&mut self) {
        for i in 0..self.known.len() {
            let fresh = self.segment.contacts(i) & !self.known[i];
            if fresh == 0 {
                continue;
            }
            self.known[i] |= fresh;
            for bit in (0..64).filter(|b| fresh >> b & 1 != 0) {
                let local = i * 64 + bit;
                if local < self.locals.len() {
                    // SAFETY: the segment outlives the reader, in this value, and each ring gets one reader, now.
                    let reader = Reader::new(unsafe { self.segment.ring(local) });
                    self.inbound[local] = Some(Box::new(Inbound::new(reader)));
                    self.writers.push(local);
                }
            }
        }
    }

    /// Reads what has come, a share of it.
    fn receive(&mut self, sink: &mut dyn Sink) -> usize {
        let (mut moved, mut later) = (0, false);
        // A put that must wait may wait for one in another ring. That ends when no other ring has anything: two such puts could
        // wait for what is behind each other.
        let hurry = self.deferred >= MAX_DEFERRED_POLLS;
        let mut left = FETCH_SHARE_BYTES;
        for _ in 0..self.writers.len() {
            if self.turn >= self.writers.len() {
                self.turn = 0;
            }
            let local = self.writers[self.turn];
            // The ring where this poll stops is read last in the next, so that a busy one does not starve the others.
            self.turn += 1;
            let before = moved;
            while let Some(inbound) = self.inbound[local].as_deref_mut().filter(|i| !i.broken) {
                let peer = self.peers[local].as_deref_mut();
                let mut context = ReadContext {
                    registrations: &self.registrations,
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
                    Step::Hello(address) => self.introduced(local, address, sink),
                    Step::Trouble(why) => self.lose(local, &why, sink),
                }
                if left == 0 {
                    break;
                }
            }
            if moved > before {
                self.wake(local, For::Reads);
            }
            if left == 0 {
                self.deferred = 0;
                return moved;
            }
        }
        self.deferred = if later && moved == 0 { self.deferred + 1 } else { 0 };
        moved
    }

    fn introduced(&mut self, local: usize, address: Address, sink: &mut dyn Sink) {
        if let Err(e) = self.attach(self.locals[local], &address.encode()) {
            if let Some(inbound) = &mut self.inbound[local] {
                inbound.broken = true;
            }
            self.lose(local, e.message(), sink);
        }
    }

    fn lose(&mut self, local: usize, why: &str, sink: &mut dyn Sink) {
        if let Some(peer) = &mut self.peers[local] {
            if peer.lost {
                return;
            }
            peer.lost = true;
        }
        sink.lost(Some(self.locals[local]), why);
    }

    /// Says which puts of ours were read.
    fn completed(&mut self, sink: &mut dyn Sink) -> usize {
        let mut done = 0;
        for n in 0..self.readers.len() {
            let local = self.readers[n];
            let Some(peer) = self.peers[local].as_deref_mut().filter(|p| !p.posted.is_empty()) else {
                continue;
            };
            let Ok(tail) = peer.writer.tail() else {
                self.lose(local, "what it wrote to shared memory makes no sense", sink);
                continue;
            };
            while let Some(token) = peer.posted.pop(tail) {
                done += 1;
                sink.done(token);
            }
        }
        self.posted -= done;
        done
    }

    /// Tells of peers that closed and have nothing more to say.
    fn look_for_closed(&mut self, sink: &mut dyn Sink) {
        for local in 0..self.peers.len() {
            if self.peers[local].as_ref().is_some_and(|p| p.connected && !p.lost && p.segment.closed()) {
                self.lose(local, "it closed its endpoint", sink);
            }
        }
    }
}

#[cold]
fn no_ring(peer: u32, e: &std::io::Error) -> Error {
    Error::new(ErrorKind::Transport, format!("its memory has no ring for us: {e}"))
        .with_peer(peer as usize)
        .over("shm")
        .help(memfd::remedy(e))
}

/// The index of `rank` among the node-local ranks.
#[inline]
fn local_index(locals: &[u32], rank: u32) -> Option<usize> {
    // Mostly they are consecutive.
    let first = *locals.first()?;
    let guess = rank.checked_sub(first)? as usize;
    match locals.get(guess) {
        Some(r) if *r == rank => Some(guess),
        _ => locals.binary_search(&rank).ok(),
    }
}

/// The peer to write to, and its index among the node-local ranks.
#[inline(always)]
fn connected<'a>(
    locals: &[u32],
    peers: &'a mut [Option<Box<Peer>>],
    rank: u32,
) -> Result<(usize, &'a mut Peer)> {
    match local_index(locals, rank).and_then(|i| Some((i, peers.get_mut(i)?.as_deref_mut()?))) {
        Some((local, peer)) if peer.connected => match peer.segment.closed() || peer.lost {
            true => Err(gone(rank)),
            false => Ok((local, peer)),
        },
        _ => Err(argument(format!("rank {rank} is not connected")).with_peer(rank as usize)),
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        self.segment.close();
    }
}

// SAFETY: this process alone writes to its memory, in `poll`, where a target is registered (`registrations`), and a closed endpoint polls no
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
        p.claim(self.mine).map_err(|e| has_ended(peer, &e).unwrap_or_else(|| no_ring(peer, &e)))?;
        let record = Record { kind: Kind::Hello, segments: 0, len: hello.len(), word: 0, key: 0, address: 0 };
        p.writer.push(&record, &[(hello.as_ptr(), hello.len())]).map_err(|_| senseless(peer))?;
        p.connected = true;
        self.wake(i, For::Records);
        self.readers.push(i);
        if self.readers.len() > FEW_RANKS {
            self.inline = MAX_INLINE_TO_MANY_BYTES;
        }
        Ok(())
    }

    unsafe fn register(
        &mut self,
        ptr: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<(Registration, Remote)> {
        self.check_open()?;
        self.registrations.register(ptr, len, access, None, None)
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
        self.registrations.register(ptr, len, Access::Target, None, Some(file))
    }

    fn deregister(&mut self, registration: Registration) -> Result<()> {
        self.check_open()?;
        self.registrations.deregister(registration)
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
        let Gathered { count, total, private } = self.gather(sources)?;
        let full = self.injected.len() == self.injected.capacity();
        let (local, p) = connected(&self.locals, &mut self.peers, peer)?;
        if total <= self.inline {
            let record = Record { kind: Kind::Inline, segments: 0, len: total, word, key, address };
            let pieces = sources.iter().filter(|s| s.len > 0).map(|s| (s.ptr, s.len));
            let pushed = !full && p.writer.push_all(&record, pieces).map_err(|_| senseless(peer))?;
            if pushed {
                self.injected.push_back(token);
            }
            return Ok(self.after_push(local, pushed));
        }
        if self.streams.busy(local) {
            return Ok(Posted::Again);
        }
        if private {
            let record = Record { kind: Kind::Part, segments: 2, len: 0, word, key, address };
            self.put_private(sources, total, StreamReader { local, record, token })?;
            return Ok(Posted::Yes);
        }
        let record = Record { kind: Kind::Fetch, segments: count, len: 0, word, key, address };
        let pushed = !p.posted.is_full()
            && p.writer.push_segments(&record, &self.segments[..count]).map_err(|_| senseless(peer))?;
        if pushed {
            p.posted.push(p.writer.head(), token);
            self.posted += 1;
        }
        Ok(self.after_push(local, pushed))
    }

    fn message(&mut self, peer: u32, bytes: &[u8]) -> Result<Posted> {
        self.check_open()?;
        if bytes.len() > MESSAGE_MAX {
            return Err(argument(format!("a message of {} bytes exceeds {MESSAGE_MAX}", bytes.len())));
        }
        let mine = self.mine;
        let (local, p) = connected(&self.locals, &mut self.peers, peer)?;
        p.make_room(mine, bytes.len())
            .map_err(|e| has_ended(peer, &e).unwrap_or_else(|| no_ring(peer, &e)))?;
        let record =
            Record { kind: Kind::Message, segments: 0, len: bytes.len(), word: 0, key: 0, address: 0 };
        let pushed = p.writer.push(&record, &[(bytes.as_ptr(), bytes.len())]).map_err(|_| senseless(peer))?;
        Ok(self.after_push(local, pushed))
    }

    fn cut(&mut self, peer: u32) {
        let Some(local) = local_index(&self.locals, peer) else { return };
        if let Some(peer) = &mut self.peers[local] {
            peer.lost = true;
            self.posted -= peer.posted.len();
            peer.posted.clear();
        }
        if let Some(inbound) = &mut self.inbound[local] {
            inbound.broken = true;
        }
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
        self.add_writers();
        happened += self.receive(sink);
        if self.posted > 0 {
            happened += self.completed(sink);
        }
        if happened > 0 {
            (self.empties, self.idles) = (0, 0);
            self.wake_up();
            return Ok(happened);
        }
        self.empties = self.empties.wrapping_add(1);
        if self.empties.is_multiple_of(CLOSED_CHECK_POLLS) {
            self.look_for_closed(sink);
        }
        Ok(0)
    }

    fn idle(&mut self, longest: Duration) {
        if !self.sleeps(longest) {
            // It is short however long one may wait.
            self.pauses.next(self.idles);
        }
        self.idles = self.idles.saturating_add(1);
    }

    fn slots(&mut self) -> Option<&mut SlotPool> {
        (!self.closed).then_some(&mut self.slots)
    }

    fn lend(&self, bytes: &[u8]) -> Option<Lent> {
        self.registrations.lend(bytes)
    }

    fn reads_memory_of(&mut self, peer: u32) -> bool {
        self.can_read(peer)
    }

    fn fetch(&mut self, peer: u32, lent: Lent, at: usize, out: (&mut [u8], u64)) -> Result<()> {
        self.fetch_lent(peer, lent, at, out)
    }

    fn close(&mut self) -> Result<()> {
        self.closed = true;
        self.segment.close();
        self.readers.iter().for_each(|local| self.wake(*local, For::Records));
        self.registrations.clear();
        Ok(())
    }
}
