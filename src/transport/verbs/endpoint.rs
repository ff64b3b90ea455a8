//! The endpoint: posting, polling, waiting.

use super::counters::AskedAgain;
use super::datagrams::{self, Datagrams};
use super::device;
use super::handshake::{End, Handshake};
use super::library::low;
use super::objects::{Depths, Objects};
use super::peers::{self, Link, Peer, Peers};
use super::receives::Receives;
use super::registrations::{Registrations, flags};
use super::requests::{SendQueue, What, mark};
use super::wire::Card;
use super::{MAX_DEPTH, NAME, Options};
use crate::error::{Error, ErrorKind, Result, argument};
use crate::transport::idle::{IdlePolicy, Next};
use crate::transport::{
    Access, Borrow, COPIED_BELOW_BYTES, Copier, HardwareCounts, Limits, MESSAGE_MAX, Memory,
    MemoryAttributes, Posted, Registration, Remote, Sink, Source, Transport, Wait, random,
};
use libfabric_sys::verbs as ib;
use memmap2::{MmapMut, MmapRaw};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

/// Receives posted, for the messages and puts of all peers: with what a rank may have unexpected (12 messages of each
/// neighbour, and there are twice the logarithm of the ranks) there is room for the puts of a window. 4 MiB of buffers.
const RECEIVES: u16 = 512;
/// Work requests of one queue pair under way. Chosen: four lists (`requests.rs`).
const SENDS: u16 = 128;
/// Work requests of all queue pairs under way, each of which may take an entry of the completion queue when it fails. The
/// smallest queues of common devices have 32 767.
const MAX_UNDER_WAY: u32 = 4096;
/// Messages too long to be inline that can be under way at once. Chosen; the engine queues what is refused.
const MAX_MESSAGES: u32 = 64;
/// Puts whose bytes were copied when they were posted and of which that is still to be said. Chosen; the engine queues
/// what is refused.
const MAX_COPIED: usize = 1024;
/// Where buffers of datagrams begin, in bytes: behind those of messages.
const DATAGRAMS_OFFSET: usize = MAX_MESSAGES as usize * MESSAGE_MAX;
/// Where buffers of receives begin, in bytes.
const RECEIVES_OFFSET: usize = DATAGRAMS_OFFSET + datagrams::BYTES;
/// Bytes of a page.
const PAGE_BYTES: usize = 4096;
/// Bits of a packet's number: 24 (InfiniBand specification).
const PACKET_MASK: u64 = 0x00FF_FFFF;
/// Bits of a datagram's key: 32 less the highest, which asks for privileges.
const KEY_MASK: u64 = 0x7FFF_FFFF;

/// An endpoint of RDMA hardware; see the [module](super).
pub struct Verbs {
    pub(super) limits: Limits,
    pub(super) objects: ManuallyDrop<Objects>,
    pub(super) registrations: Registrations,
    pub(super) peers: Peers,
    pub(super) card: Card,
    pub(super) size: usize,
    place: String,
    pub(super) rank: u32,
    pub(super) datagrams: Datagrams,
    pub(super) receives: ManuallyDrop<Receives>,
    /// The key of our buffers.
    local: u32,
    /// Buffers of messages that are free.
    pub(super) free_messages: Vec<u32>,
    /// Puts whose bytes are copied when they are posted, which every poll does before it says so.
    pub(super) copied: VecDeque<u64>,
    /// Places of peers whose list is to be posted.
    pub(super) dirty: Vec<usize>,
    /// Bytes of the longest put that goes inline: none while memory of a device is registered, as the processor copies them.
    inline: usize,
    /// Work requests under way or listed, of all peers.
    pub(super) under_way: usize,
    /// Handshakes that are not over.
    pub(super) connecting: usize,
    /// Peers that were lost outside of a poll, which is to say so.
    pub(super) to_say: Vec<usize>,
    pub(super) idle_policy: IdlePolicy,
    /// What a blocking wait found: delivered by the next poll.
    pub(super) woken: Option<ib::ibv_wc>,
    /// Polls since something happened.
    pub(super) quiet: u32,
    pub(super) counts: HardwareCounts,
    pub(super) asked_again: AskedAgain,
    pub(super) open: Open,
    pub(super) buffers: ManuallyDrop<MmapRaw>,
}

/// Whether an endpoint can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    Yes,
    /// It cannot be closed: what the device uses is leaked.
    Stuck,
    No,
}

// SAFETY: libibverbs' objects are bound to no thread, and `&mut self` in every method that uses them keeps two threads from
// using them at once. The pointers in here are to these objects and to memory that this value owns.
unsafe impl Send for Verbs {}

impl std::fmt::Debug for Verbs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verbs").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Verbs {
    /// Loads libibverbs, takes a port and opens an endpoint of it.
    ///
    /// # Errors
    /// When libibverbs is missing, when no port will do (with the reasons), or when the device refuses.
    pub fn open(options: &Options<'_>) -> Result<Self> {
        let (device, port) = device::choose(options)?;
        let place = match port.gid {
            Some(gid) => format!("{} {}:{}", gid.ip(), device.name, port.number),
            None => format!("LID {} {}:{}", port.attr.lid, device.name, port.number),
        };
        let mtu = port.mtu(options.path_mtu);
        let depth = |asked: Option<u16>, default| u32::from(asked.unwrap_or(default).clamp(1, MAX_DEPTH));
        let (sends, receives) = (depth(options.queue, SENDS), depth(options.receives, RECEIVES));
        let completions = receives + datagrams::RECEIVES + datagrams::SENDS + MAX_UNDER_WAY;
        let depths = Depths { receives, sends, completions };
        let settings = (options.partition, options.service_level);
        let mut objects = Objects::open((device, port), depths, settings)?;
        match Self::prepare(&objects) {
            Ok(prepared) => Ok(Self::of(objects, prepared, options, place, mtu)),
            Err(e) => {
                // The first error is the one to tell.
                let _ = objects.close();
                Err(e)
            }
        }
    }

    /// Registers our own buffers, posts the receives.
    fn prepare(objects: &Objects) -> Result<Prepared> {
        let count = objects.depths.receives;
        let doorbell_offset = (RECEIVES_OFFSET + count as usize * MESSAGE_MAX).next_multiple_of(PAGE_BYTES);
        let buffers = ManuallyDrop::new(MmapRaw::from(MmapMut::map_anon(doorbell_offset + PAGE_BYTES)?));
        let start = buffers.as_mut_ptr();
        let mut registrations = Registrations::default();
        let key = (random() & KEY_MASK) as u32;
        let mut begin = || {
            // SAFETY: the mapping lives until the endpoint is closed, and is touched by raw pointers only. The last page is
            // registered for itself, so that its key opens nothing else.
            unsafe {
                let access = ib::IBV_ACCESS_LOCAL_WRITE;
                let (own, _) = registrations.register(objects, start, doorbell_offset, access)?;
                let target = flags(Access::Target);
                let page = start.add(doorbell_offset);
                let (_, doorbell) = registrations.register(objects, page, PAGE_BYTES, target)?;
                let all = Source { ptr: start, len: doorbell_offset, registration: own };
                let local = registrations.key(&all)?;
                let datagrams = Datagrams::open(objects, start.add(DATAGRAMS_OFFSET), local, key)?;
                let mut receives = Receives::new(count, start.add(RECEIVES_OFFSET), local);
                receives.post(objects.srq, true)?;
                Ok((doorbell, local, datagrams, receives))
            }
        };
        match begin() {
            Ok((doorbell, local, datagrams, receives)) => {
                Ok(Prepared { buffers, registrations, doorbell, local, datagrams, receives, key })
            }
            Err(e) => {
                // The first error is the one to tell. Nothing was told to peers; the mapping, which the device may know, is
                // leaked.
                let _ = registrations.close(objects.device.lib);
                Err(e)
            }
        }
    }

    fn of(objects: Objects, prepared: Prepared, options: &Options<'_>, place: String, mtu: u8) -> Self {
        let Prepared { buffers, registrations, doorbell, local, datagrams, receives, key } = prepared;
        let port = objects.port;
        let asked_again = AskedAgain::of(&objects.device.name, port.number);
        let card = Card {
            ethernet: port.ethernet(),
            global: port.global_required(),
            mtu,
            lid: port.attr.lid,
            gid: port.gid.map_or([0; 16], |g| g.raw),
            datagrams: datagrams.number(),
            key,
            nonce: random(),
            doorbell,
        };
        let limits = Limits {
            max_put: port.attr.max_msg_sz.into(),
            gather: port.max_gather as usize,
            inject: objects.inline as usize,
            message: MESSAGE_MAX,
            borrow: Borrow::Direct,
            copied_below: COPIED_BELOW_BYTES,
            copier: Copier::Hardware,
            chooses_keys: true,
            memory: objects.memory.kinds(),
            survives: true,
            wakes: options.wait.is_none_or(|wait| wait == Wait::Block),
            ..Limits::new(NAME)
        };
        Self {
            idle_policy: IdlePolicy::new(options.wait, limits.wakes),
            inline: limits.inject,
            limits,
            objects: ManuallyDrop::new(objects),
            registrations,
            peers: Peers::default(),
            card,
            size: options.size,
            place,
            rank: options.rank,
            datagrams,
            receives: ManuallyDrop::new(receives),
            local,
            free_messages: (0..MAX_MESSAGES).collect(),
            copied: VecDeque::with_capacity(MAX_COPIED),
            dirty: Vec::new(),
            under_way: 0,
            connecting: 0,
            to_say: Vec::new(),
            woken: None,
            quiet: 0,
            counts: HardwareCounts::default(),
            asked_again,
            open: Open::Yes,
            buffers,
        }
    }

    pub(super) fn check_open(&self) -> Result<()> {
        match self.open {
            Open::Yes => Ok(()),
            _ => Err(Error::new(ErrorKind::Aborted, "this endpoint is closed")),
        }
    }

    pub(super) fn message_buffer(&self, slot: u32) -> *mut u8 {
        self.buffers.as_mut_ptr().wrapping_add(slot as usize * MESSAGE_MAX)
    }

    pub(super) fn receive_buffer(&self, slot: u32) -> *mut u8 {
        debug_assert!(slot < self.objects.depths.receives);
        self.buffers.as_mut_ptr().wrapping_add(RECEIVES_OFFSET + slot as usize * MESSAGE_MAX)
    }

    /// Makes a queue pair for the peer at `at`, which has none.
    pub(super) fn make_link(&mut self, at: usize, now: Instant) -> Result<()> {
        let qp = self.objects.queue_pair()?;
        // SAFETY: just made.
        let queue_pair = unsafe { (*qp).qp_num };
        let ours = End { queue_pair, packet: (random() & PACKET_MASK) as u32 };
        let queue = SendQueue::new(self.objects.depths.sends);
        let handshake = Handshake::new(ours, now);
        self.peers.all[at].link = Some(Link { qp, handshake, queue, dirty: false });
        self.connecting += 1;
        // Room for each that can be there: nothing is allocated when something is posted.
        self.dirty.reserve(self.peers.all.len());
        Ok(())
    }

    /// Whether one more request can be listed for the peer at `at`; begins the handshake with a peer that was not talked to yet.
    fn takes(&mut self, at: usize) -> Result<bool> {
        let Peer { link: Some(link), lost: None, .. } = &self.peers.all[at] else {
            return self.begins(at).map(|_| false);
        };
        let takes = link.handshake.ready() && !link.queue.full() && self.under_way < MAX_UNDER_WAY as usize;
        if !takes {
            self.refuses(at);
        }
        Ok(takes)
    }

    /// The peer at `at`, which has no connection, takes nothing now: it is lost, or the handshake with it begins.
    #[cold]
    fn begins(&mut self, at: usize) -> Result<Posted> {
        match &self.peers.all[at] {
            Peer { lost: Some(_), .. } => Err(self.gone(at)),
            _ => self.begin(at).map(|()| Posted::Again),
        }
    }

    /// The peer at `at` takes nothing more now: its handshake is not over, or too much is under way. What is listed for it goes.
    #[cold]
    fn refuses(&mut self, at: usize) {
        if self.peers.all[at].link.as_ref().is_some_and(|link| link.handshake.ready()) {
            self.post_list(at);
            self.counts.refused += 1;
        }
    }

    fn begin(&mut self, at: usize) -> Result<()> {
        let now = Instant::now();
        self.make_link(at, now)?;
        self.handshakes(now);
        Ok(())
    }

    #[cold]
    fn gone(&self, at: usize) -> Error {
        let peer = &self.peers.all[at];
        let why = peer.lost.as_deref().unwrap_or_default();
        Error::new(ErrorKind::PeerLost, why).with_peer(peer.rank as usize).over(NAME)
    }

    /// The request that was filled in joins the list of the peer at `at`.
    #[inline]
    pub(super) fn add(&mut self, at: usize, what: What) {
        if let Some(link) = &mut self.peers.all[at].link {
            link.queue.add(what);
            self.under_way += 1;
            if !std::mem::replace(&mut link.dirty, true) {
                // There is room for all peers.
                self.dirty.push(at);
            }
            if link.queue.list_is_full() {
                self.post_list(at);
            }
        }
    }

    /// Posts the lists of all peers.
    pub(super) fn post_lists(&mut self) {
        while let Some(at) = self.dirty.pop() {
            if let Some(link) = &mut self.peers.all[at].link {
                link.dirty = false;
            }
            self.post_list(at);
        }
    }

    /// Posts the list of the peer at `at`: one doorbell.
    pub(super) fn post_list(&mut self, at: usize) {
        let Some(link) = &mut self.peers.all[at].link else { return };
        let listed = link.queue.listed();
        let Some(list) = link.queue.take_list(mark(at)) else { return };
        self.counts.requests += listed as u64;
        self.counts.doorbells += 1;
        self.counts.signalled += u64::from(!link.queue.silent());
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue pair is there and connected, and has room for all that the ring has. The list ends, and its
        // pieces lie in registrations of ours (checked when they were added) that stay until the puts are done (the caller's
        // promise), or in our buffers. The list is copied before this returns.
        let code = unsafe { ib::ibv_post_send(link.qp, list, &mut bad) };
        if code != 0 {
            let why = std::io::Error::from_raw_os_error(code.abs());
            self.lose(at, format!("the device takes no more for it: {why}"));
        }
    }
}

/// What [`Verbs::prepare`] has made.
struct Prepared {
    buffers: ManuallyDrop<MmapRaw>,
    registrations: Registrations,
    doorbell: Remote,
    local: u32,
    datagrams: Datagrams,
    receives: Receives,
    key: u32,
}

// SAFETY: the device reads and writes registered memory only, with the access that each registration gives: what is a source
// is not written, and a target only under its key. ibv_dereg_mr returns when no access is under way, and destroying a queue
// pair ends what it does; both are what verbs promise. A put is done when the completion that covers it is read, or, if its
// bytes were inline, when they were copied. An arrival is a completion, before which all bytes of the put are written.
unsafe impl Transport for Verbs {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Vec<u8> {
        self.card.encode()
    }

    fn place(&self) -> String {
        self.place.clone()
    }

    fn connect(&mut self, peer: u32, address: &[u8]) -> Result<()> {
        self.check_open()?;
        let card = peers::parse(peer, address, self.card.ethernet)?;
        self.peers.connect(peer, card)
    }

    unsafe fn register(
        &mut self,
        ptr: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<(Registration, Remote)> {
        self.check_open()?;
        // SAFETY: passed on.
        unsafe { self.registrations.register(&self.objects, ptr, len, flags(access)) }
    }

    unsafe fn register_memory(
        &mut self,
        ptr: *mut u8,
        len: usize,
        attributes: &MemoryAttributes,
    ) -> Result<(Registration, Remote)> {
        self.check_open()?;
        let memory = attributes.memory;
        if memory == Memory::Host {
            // SAFETY: passed on.
            return unsafe { self.register(ptr, len, Access::Target) };
        }
        if attributes.dmabuf.is_none() && !self.limits.memory.contains(&memory.kind()) {
            return Err(self.limits.refuse(memory));
        }
        // SAFETY: passed on.
        let registered =
            unsafe { self.registrations.register_device(&self.objects, (ptr, len), attributes)? };
        self.inline = 0;
        Ok(registered)
    }

    fn deregister(&mut self, registration: Registration) -> Result<()> {
        self.check_open()?;
        self.registrations.deregister(self.objects.device.lib, registration)?;
        if self.registrations.devices() == 0 {
            self.inline = self.limits.inject;
        }
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
        self.check_open()?;
        let at = self.peers.of(peer)?;
        let Peer { card, link: Some(link), lost: None, .. } = &mut self.peers.all[at] else {
            return self.begins(at);
        };
        let room = self.under_way < MAX_UNDER_WAY as usize && self.copied.len() < MAX_COPIED;
        let next = if room && link.handshake.ready() { link.queue.next() } else { None };
        let Some((request, pieces)) = next else {
            self.refuses(at);
            return Ok(Posted::Again);
        };
        let (count, total) = match sources {
            // As most are.
            [one] if one.len > 0 => {
                pieces[0] = piece(one, self.registrations.key(one)?);
                (1, one.len)
            }
            _ => {
                let most = self.limits.gather.min(pieces.len());
                gather(sources, &self.registrations, &mut pieces[..most])?
            }
        };
        if total as u64 > self.limits.max_put {
            return Err(too_long(total as u64, self.limits.max_put));
        }
        let (address, key) =
            if count == 0 { (card.doorbell.base, card.doorbell.key) } else { (address, key) };
        let inline = total <= self.inline;
        request.num_sge = count;
        request.opcode = ib::IBV_WR_RDMA_WRITE_WITH_IMM;
        request.send_flags = if inline { ib::IBV_SEND_INLINE } else { 0 };
        request.__bindgen_anon_1 = ib::ibv_send_wr__bindgen_ty_1 { imm_data: word.to_be() };
        request.wr.rdma =
            ib::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 { remote_addr: address, rkey: low(key) };
        if inline {
            self.copied.push_back(token);
            link.queue.add(What::Nothing);
        } else {
            link.queue.add(What::Put(token));
        }
        self.under_way += 1;
        if !std::mem::replace(&mut link.dirty, true) {
            // There is room for all peers.
            self.dirty.push(at);
        }
        if link.queue.list_is_full() {
            self.post_list(at);
        }
        Ok(Posted::Yes)
    }

    fn message(&mut self, peer: u32, bytes: &[u8]) -> Result<Posted> {
        self.check_open()?;
        if bytes.len() > MESSAGE_MAX {
            return Err(argument(format!("a message of {} bytes exceeds {MESSAGE_MAX}", bytes.len())));
        }
        let at = self.peers.of(peer)?;
        if !self.takes(at)? {
            return Ok(Posted::Again);
        }
        let Some(link) = &mut self.peers.all[at].link else { return Ok(Posted::Again) };
        let kept = if bytes.len() <= self.limits.inject { link.queue.keep(bytes) } else { None };
        let (from, what) = match kept {
            Some(kept) => (kept, What::Nothing),
            None => {
                let Some(slot) = self.free_messages.pop() else {
                    self.counts.refused += 1;
                    return Ok(Posted::Again);
                };
                let buffer = self.message_buffer(slot);
                // SAFETY: a buffer of MESSAGE_MAX bytes that the device does not read: it was free.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer, bytes.len()) };
                (buffer.cast_const(), What::Message(slot))
            }
        };
        let next = self.peers.all[at].link.as_mut().and_then(|l| l.queue.next());
        let Some((request, pieces)) = next else { return Ok(Posted::Again) };
        pieces[0] = ib::ibv_sge {
            addr: from.expose_provenance() as u64,
            // At most MESSAGE_MAX.
            length: u32::try_from(bytes.len()).unwrap_or(0),
            lkey: self.local,
        };
        request.num_sge = i32::from(!bytes.is_empty());
        request.opcode = ib::IBV_WR_SEND;
        request.send_flags = if kept.is_some() { ib::IBV_SEND_INLINE } else { 0 };
        self.add(at, what);
        Ok(Posted::Yes)
    }

    fn cut(&mut self, peer: u32) {
        let Some(at) = self.peers.place(peer) else { return };
        self.give_up(at, "it is gone".to_owned());
        let Some(link) = &self.peers.all[at].link else { return };
        // SAFETY: the queue pair is there until the endpoint is closed.
        if let Err(e) = unsafe { self.objects.end(link.qp) } {
            tracing::debug!(peer, "{e}");
        }
    }

    fn flush(&mut self) {
        self.post_lists();
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        self.check_open()?;
        self.progress(sink)
    }

    fn idle(&mut self, longest: Duration) {
        // Both are short however long one may wait.
        match self.idle_policy.next() {
            Next::Pause => std::hint::spin_loop(),
            Next::Yield => self.idle_policy.yield_core(),
            Next::Sleep => self.sleep(longest),
        }
    }

    fn hardware(&self) -> HardwareCounts {
        let (receivers_not_ready, timeouts) = self.asked_again.since();
        let (receives, refills) = self.receives.posted();
        HardwareCounts { receives, refills, receivers_not_ready, timeouts, ..self.counts }
    }

    fn close(&mut self) -> Result<()> {
        self.shut()
    }
}

/// What the device is told of a source; one that is too long is refused later.
#[inline(always)]
fn piece(source: &Source, key: u32) -> ib::ibv_sge {
    let length = u32::try_from(source.len).unwrap_or(u32::MAX);
    ib::ibv_sge { addr: source.ptr.expose_provenance() as u64, length, lkey: key }
}

/// Fills in the pieces of a put; how many they are, and their bytes.
#[inline(never)]
fn gather(sources: &[Source], known: &Registrations, pieces: &mut [ib::ibv_sge]) -> Result<(i32, usize)> {
    let (mut count, mut total) = (0usize, 0usize);
    for s in sources.iter().filter(|s| s.len > 0) {
        let Some(next) = pieces.get_mut(count) else { return Err(too_many(sources.len(), count)) };
        *next = piece(s, known.key(s)?);
        total = total.saturating_add(s.len);
        count += 1;
    }
    // As many as pieces.
    Ok((i32::try_from(count).unwrap_or(0), total))
}

#[cold]
fn too_many(segments: usize, limit: usize) -> Error {
    argument(format!("a put of {segments} segments exceeds this device's {limit}"))
}

#[cold]
fn too_long(bytes: u64, limit: u64) -> Error {
    argument(format!("a put of {bytes} bytes exceeds this device's {limit}"))
}
