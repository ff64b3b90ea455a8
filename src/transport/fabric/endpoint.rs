//! The endpoint: posting and polling.

mod closing;
mod errors;
mod list;
mod probe;

use super::guard;
use super::library::{Info, Library, library};
use super::limits::{limits, too_long};
use super::objects::Objects;
use super::peers::{Peer, Peers};
use super::quirks::{Quirk, quirk};
use super::registrations::{Keys, Registrations, flags};
use super::slots::{Kind, Slots};
use super::tags::{TAG_BYTES, Tags};
use super::{
    Access, LONG_MESSAGE_MAX, Limits, Memory, MemoryAttributes, Options, Posted, Registration, Remote, Sink,
    Source, Transport, Wait,
};
use crate::config::Sources;
use crate::error::{Error, ErrorKind, Result, argument};
use crate::secret::Secret;
use crate::trace::Rarely;
use crate::transport::idle::{IdlePolicy, Next};
use crate::transport::random;
use libfabric_sys as fi;
use memmap2::{MmapMut, MmapRaw};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes of a buffer for a message: the longest one with its tag, and up to the next cache line.
const BUFFER_BYTES: usize = (LONG_MESSAGE_MAX + TAG_BYTES).next_multiple_of(64);
/// Posted receives, each of [`BUFFER_BYTES`]: 1 MiB. Chosen: more than the messages that come between two polls;
/// what is not taken at once waits in the provider.
const RECEIVES: usize = 64;
/// Messages too long to inject that can be under way at once. Chosen, as many as receives; the engine queues what is
/// refused.
const MAX_MESSAGES: usize = 64;
/// Puts that can be under way at once. Chosen: some providers take any number, into memory of their own; the engine
/// queues what is refused.
const MAX_PUTS: usize = 1024;
/// Completions that one call of `fi_cq_read` reads. Chosen: 640 bytes on the stack.
const MAX_COMPLETIONS: usize = 16;
/// Such calls per poll. Chosen: one poll hands on 128 completions at most, so that other work comes to its turn.
const MAX_READS: usize = 8;
/// Where puts without data go: a page behind the message buffers.
const DOORBELL_OFFSET: usize = (RECEIVES + MAX_MESSAGES) * BUFFER_BYTES;
/// Bytes of that page.
const PAGE_BYTES: usize = 4096;
/// `fi_cq_sread` counts milliseconds: shorter waits sleep, whatever arrives.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Error codes that say that a peer is gone; ENOENT is what sockets says.
#[rustfmt::skip]
const GONE: [i32; 12] = [
    libc::ECONNREFUSED, libc::ECONNRESET, libc::ECONNABORTED, libc::ENOTCONN, libc::EPIPE, libc::ESHUTDOWN, libc::EHOSTUNREACH,
    libc::EHOSTDOWN, libc::ENETUNREACH, libc::ETIMEDOUT, libc::ECANCELED, libc::ENOENT,
];

/// A libfabric endpoint; see the [module](super).
pub struct Fabric {
    lib: &'static Library,
    limits: Limits,
    quirk: Quirk,
    objects: Objects,
    registrations: Registrations,
    peers: Peers,
    tags: Tags,
    address: Vec<u8>,
    /// Where a message gets its tag before it is injected.
    tagged: Box<[u8; BUFFER_BYTES]>,
    /// Receives to post again, when the provider would not take them at once.
    unposted: Vec<u32>,
    /// Bytes of the longest put that is injected: none while memory of a device is registered, as the processor copies them.
    inject: usize,
    /// Injected puts: done when posted, said at the next poll.
    injected: VecDeque<u64>,
    /// The registration of the message buffers, where the provider wants one.
    descriptor: *mut c_void,
    idle_policy: IdlePolicy,
    /// What a blocking wait read: delivered by the next poll.
    woken: Option<fi::fi_cq_data_entry>,
    closed: bool,
    /// No rank is posted to before the connection to it was probed.
    probes: bool,
    /// The registrations have ended, but the endpoint stays as it is, and what the provider uses is leaked.
    abandoned: bool,
    // What the provider may write to until the endpoint is closed; leaked if that fails.
    slots: ManuallyDrop<Slots>,
    buffers: ManuallyDrop<MmapRaw>,
    _info: Info,
}

// SAFETY: libfabric's objects are bound to no thread; the domain is opened for FI_THREAD_DOMAIN, one thread
// at a time, which `&mut self` in every method that uses them guarantees. The pointers in here are to these
// objects and to memory that this value owns.
unsafe impl Send for Fabric {}

impl std::fmt::Debug for Fabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fabric").field("limits", &self.limits).field("closed", &self.closed).finish()
    }
}

impl Fabric {
    /// Loads libfabric, chooses a provider and opens an endpoint of it. Signal handlers and this thread's
    /// CPU affinity survive. Libraries differ in what they read from the environment and when, so call
    /// this early, before starting threads: only then are [`super::presets`] set.
    ///
    /// # Errors
    /// When libfabric is missing or too old, when no provider will do (with the reasons), or when the chosen
    /// one refuses.
    pub fn open(options: &Options<'_>) -> Result<Self> {
        let lib = library(options)?;
        let (candidate, info) = super::select::choose(lib, options)?;
        let _preserved = fi::Preserved::take();
        let provider = candidate.provider.clone();
        Self::of(lib, info, options, random()).map_err(|e| e.over(provider))
    }

    /// What is peculiar about the provider in use.
    pub fn quirk(&self) -> Quirk {
        self.quirk
    }

    /// How many messages were dropped, as they do not show that they are of this job.
    pub fn dropped(&self) -> u64 {
        self.tags.dropped
    }

    /// Of an interface. Endpoints with the same `seed` choose the same keys.
    pub(super) fn of(lib: &'static Library, info: Info, options: &Options<'_>, seed: u64) -> Result<Self> {
        let (mut limits, mode, key) = limits(lib, &info);
        let buffers = MmapRaw::from(MmapMut::map_anon(DOORBELL_OFFSET + PAGE_BYTES)?);
        let quirk = quirk(&limits.provider);
        let sleeps = match options.wait {
            Some(asked) => asked == Wait::Block,
            None => quirk.sleeps,
        };
        let objects = Objects::open(lib, &info, sleeps)?;
        limits.wakes = objects.blocks;
        let idle_policy = IdlePolicy::new(options.wait, objects.blocks);
        // From here on drop closes.
        let mut this = Self {
            lib,
            quirk,
            inject: limits.inject,
            limits,
            objects,
            registrations: Registrations::new(mode, Keys::new(seed, key)),
            peers: Peers::default(),
            tags: Tags::new(
                options.secret.cloned().unwrap_or_else(|| Secret::of_word("")),
                Rarely::new(options.log.level),
            ),
            address: Vec::new(),
            tagged: Box::new([0; BUFFER_BYTES]),
            unposted: Vec::with_capacity(RECEIVES),
            injected: VecDeque::with_capacity(MAX_PUTS),
            descriptor: std::ptr::null_mut(),
            idle_policy,
            woken: None,
            closed: false,
            probes: options.survives && quirk.reconnects,
            abandoned: false,
            slots: ManuallyDrop::new(Slots::new(RECEIVES, MAX_MESSAGES, MAX_PUTS)),
            buffers: ManuallyDrop::new(buffers),
            _info: info,
        };
        this.prepare()?;
        this.guard(options.sources)?;
        Ok(this)
    }

    /// Lets the port, if there is one, take connections from these addresses only.
    fn guard(&self, sources: &Sources) -> Result<()> {
        let Ok(place) = self.peers.place().parse::<SocketAddr>() else { return Ok(()) };
        guard::keep(place.port(), sources).map_err(|e| {
            let what = format!("the port {place} cannot be kept to CIRCULANT_SOURCES={sources}: {e}");
            Error::new(ErrorKind::Config, what)
                .help("take another provider (tcp), or a firewall with CIRCULANT_PORTS in place of it")
        })
    }

    /// Registers our own buffers, posts the receives, finds out the address.
    fn prepare(&mut self) -> Result<()> {
        let start = self.buffers.as_mut_ptr();
        if self.registrations.local() {
            // SAFETY: the mapping lives until the endpoint is closed, and is touched by raw pointers only.
            let (r, _) = unsafe {
                let access = fi::FI_SEND | fi::FI_RECV;
                self.registrations.register(&self.objects, self.lib, start, DOORBELL_OFFSET, access)?
            };
            self.descriptor = self.registrations.descriptor(&Source {
                ptr: start,
                len: DOORBELL_OFFSET,
                registration: r,
            })?;
        }
        // SAFETY: as above; a page of its own, so that its key opens nothing else.
        let (_, doorbell) = unsafe {
            let access = flags(Access::Target);
            self.registrations.register(
                &self.objects,
                self.lib,
                start.add(DOORBELL_OFFSET),
                PAGE_BYTES,
                access,
            )?
        };
        let name = self.objects.name(self.lib)?;
        self.peers = Peers::new(&self.limits.provider, self._info.get().addr_format, name.len());
        self.address = self.peers.publish(&name, doorbell);
        self.tags.publish(&self.address);
        for i in 0..RECEIVES {
            self.post_receive(i)?;
        }
        Ok(())
    }

    fn buffer(&self, slot: usize) -> *mut u8 {
        debug_assert!(slot < RECEIVES + MAX_MESSAGES);
        self.buffers.as_mut_ptr().wrapping_add(slot * BUFFER_BYTES)
    }

    fn post_receive(&mut self, slot: usize) -> Result<()> {
        // SAFETY: the endpoint is open; buffer and context are this slot's own, and free: its last receive
        // has completed. Both live until the endpoint is closed.
        let code = unsafe {
            fi::fi_recv(
                self.objects.ep,
                self.buffer(slot).cast(),
                BUFFER_BYTES,
                self.descriptor,
                u64::MAX, // FI_ADDR_UNSPEC: from anyone
                self.slots.context(slot),
            )
        };
        match code {
            0 => Ok(()),
            c if c == again() => {
                // Room for all was reserved.
                self.unposted.push(u32::try_from(slot).unwrap_or(0));
                Ok(())
            }
            c => Err(self.lib.error("fi_recv", c as i64).over(self.limits.provider.as_str())),
        }
    }

    fn check_open(&self) -> Result<()> {
        if self.closed {
            return Err(Error::new(ErrorKind::Aborted, "this endpoint is closed"));
        }
        Ok(())
    }

    /// What an operation towards `peer` that answered `code` means.
    fn posted(&mut self, what: &str, peer: Peer, code: isize) -> Result<Posted> {
        match code {
            0 => {
                if !peer.reached {
                    self.peers.change(peer.rank, |peer| peer.reached = true);
                }
                Ok(Posted::Yes)
            }
            c if c == again() && peer.reached && self.quirk.reconnects => {
                Err(self.lost(peer.rank, "the connection to it has ended"))
            }
            c if c == again() => Ok(Posted::Again),
            c => {
                let c = c as i64;
                let e = self.lib.error(what, c);
                let kind =
                    if GONE.iter().any(|g| c == -i64::from(*g)) { ErrorKind::PeerLost } else { e.kind() };
                Err(Error::new(kind, e.message())
                    .with_peer(peer.rank as usize)
                    .over(self.limits.provider.as_str()))
            }
        }
    }

    #[cold]
    fn lost(&self, rank: u32, why: &str) -> Error {
        let e = Error::new(ErrorKind::PeerLost, why);
        e.with_peer(rank as usize).over(self.limits.provider.as_str())
    }

    /// A peer that can be posted to.
    fn peer(&self, rank: u32) -> Result<Peer> {
        let peer = self.peers.get(rank)?;
        if peer.cut { Err(self.lost(rank, "it is gone")) } else { Ok(peer) }
    }

    /// # Safety
    /// `entries` were filled by fi_cq_read.
    unsafe fn completed(&mut self, entry: &fi::fi_cq_data_entry, sink: &mut dyn Sink) -> Result<()> {
        // First, and on this flag only: some providers set FI_REMOTE_CQ_DATA at the sender, too.
        if entry.flags & fi::FI_REMOTE_WRITE != 0 {
            #[allow(clippy::cast_possible_truncation)] // the sender gave 32 bits
            sink.arrival(entry.data as u32);
            return Ok(());
        }
        let Some(slot) = self.slots.of_context(entry.op_context) else { return Ok(()) };
        match self.slots.kind(slot) {
            Kind::Put => {
                let token = self.slots.token(slot);
                self.slots.give_back(slot);
                sink.done(token);
            }
            Kind::Message => self.slots.give_back(slot),
            Kind::Probe => self.probed(slot),
            Kind::Receive => {
                let len = entry.len.min(BUFFER_BYTES);
                // SAFETY: the receive of this slot has completed, so its first `len` bytes are written
                // and the provider writes there only when it is posted again, below.
                let message = unsafe { std::slice::from_raw_parts(self.buffer(slot), len) };
                if let Some(message) = self.tags.check(message) {
                    sink.message(message);
                }
                self.post_receive(slot)?;
            }
        }
        Ok(())
    }

    /// Sleeps until something completes, for `longest` at most.
    fn block(&mut self, longest: Duration) {
        if self.woken.is_some() || !self.injected.is_empty() {
            return;
        }
        if longest < SHORTEST_WAIT {
            return std::thread::sleep(longest);
        }
        let milliseconds = i32::try_from(longest.as_millis()).unwrap_or(i32::MAX);
        let mut entry = MaybeUninit::<fi::fi_cq_data_entry>::uninit();
        // SAFETY: the queue is open, of FI_CQ_FORMAT_DATA and with a wait object, and there is room for one entry.
        let n = unsafe {
            fi::fi_cq_sread(self.objects.cq, entry.as_mut_ptr().cast(), 1, std::ptr::null(), milliseconds)
        };
        if n == 1 {
            // SAFETY: fi_cq_sread filled it.
            self.woken = Some(unsafe { entry.assume_init() });
        }
        // An error is the next poll's to find.
    }
}

const fn again() -> isize {
    -(fi::FI_EAGAIN as isize)
}

// SAFETY: what libfabric promises of a provider is what is promised here: it reads and writes registered memory only, with the
// access asked for, until fi_close of the registration or of the endpoint; where a provider does otherwise (`quirks`) the
// order of closing makes up for it, or borrows are staged.
unsafe impl Transport for Fabric {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Vec<u8> {
        self.address.clone()
    }

    fn place(&self) -> String {
        self.peers.place()
    }

    fn connect(&mut self, peer: u32, address: &[u8]) -> Result<()> {
        self.check_open()?;
        if self.peers.known(peer) {
            return Err(argument(format!("rank {peer} is connected already")));
        }
        let (name, doorbell) = self.peers.parse(peer, address)?;
        let mut to = u64::MAX;
        // SAFETY: the vector is open; `name` holds one whole address of the endpoint's own format, checked
        // and zero-padded by `parse`.
        let count = unsafe { fi::fi_av_insert(self.objects.av, name.as_ptr().cast(), 1, &mut to, 0) };
        if count != 1 {
            let why = self.lib.error("fi_av_insert", i64::from(count.min(0)));
            return Err(why.with_peer(peer as usize).over(self.limits.provider.as_str()));
        }
        let tag = self.tags.of(address);
        self.peers.insert(Peer { rank: peer, to, doorbell, tag, reached: false, probed: false, cut: false })
    }

    unsafe fn register(
        &mut self,
        ptr: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<(Registration, Remote)> {
        self.check_open()?;
        // SAFETY: passed on.
        unsafe { self.registrations.register(&self.objects, self.lib, ptr, len, flags(access)) }
            .map_err(|e| e.over(self.limits.provider.as_str()))
    }

    unsafe fn register_memory(
        &mut self,
        ptr: *mut u8,
        len: usize,
        attributes: &MemoryAttributes,
    ) -> Result<(Registration, Remote)> {
        self.check_open()?;
        if attributes.memory == Memory::Host {
            // SAFETY: passed on.
            return unsafe { self.register(ptr, len, Access::Target) };
        }
        if !self.limits.memory.contains(&attributes.memory.kind()) {
            return Err(self.limits.refuse(attributes.memory));
        }
        // SAFETY: passed on.
        let registered =
            unsafe { self.registrations.register_device(&self.objects, self.lib, (ptr, len), attributes) };
        let registered = registered.map_err(|e| e.over(self.limits.provider.as_str()))?;
        self.inject = 0;
        Ok(registered)
    }

    fn deregister(&mut self, registration: Registration) -> Result<()> {
        self.check_open()?;
        let ended = self.registrations.deregister(self.lib, registration);
        ended.map_err(|e| e.over(self.limits.provider.as_str()))?;
        if self.registrations.devices() == 0 {
            self.inject = self.limits.inject;
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
        let to = self.peer(peer)?;
        if self.probes && !to.reached {
            return self.probe(to);
        }
        let mut pieces = sources.iter().filter(|s| s.len > 0);
        let first = pieces.next();
        if pieces.next().is_some() {
            // SAFETY: passed on.
            return unsafe { self.put_list(to, sources, (address, key), word, token) };
        }
        let (from, len, descriptor, address, key) = match first {
            Some(s) => (s.ptr, s.len, self.registrations.descriptor(s)?, address, key),
            None => {
                let doorbell = self.buffers.as_mut_ptr().wrapping_add(DOORBELL_OFFSET).cast_const();
                (doorbell, 0, std::ptr::null_mut(), to.doorbell.base, to.doorbell.key)
            }
        };
        if len as u64 > self.limits.max_put {
            return Err(too_long(len as u64, self.limits.max_put));
        }
        if len <= self.inject {
            if self.injected.len() == self.injected.capacity() {
                return Ok(Posted::Again);
            }
            // SAFETY: the endpoint is open; the source is valid (the caller's promise) and copied at once.
            let code = unsafe {
                fi::fi_inject_writedata(self.objects.ep, from.cast(), len, word.into(), to.to, address, key)
            };
            let posted = self.posted("fi_inject_writedata", to, code)?;
            if posted == Posted::Yes {
                self.injected.push_back(token);
            }
            return Ok(posted);
        }
        let Some(slot) = self.slots.take(Kind::Put, peer, token) else { return Ok(Posted::Again) };
        let (context, ep) = (self.slots.context(slot), self.objects.ep);
        // SAFETY: the endpoint is open. The source is valid until the completion, which brings back the
        // slot, or the close (the caller's promise); it lies in its registration, checked above. The context is this slot's, and free.
        let code = unsafe {
            fi::fi_writedata(ep, from.cast(), len, descriptor, word.into(), to.to, address, key, context)
        };
        if code != 0 {
            self.slots.give_back(slot);
        }
        self.posted("fi_writedata", to, code)
    }

    fn message(&mut self, peer: u32, bytes: &[u8]) -> Result<Posted> {
        self.check_open()?;
        if bytes.len() > LONG_MESSAGE_MAX {
            return Err(argument(format!("a message of {} bytes exceeds {LONG_MESSAGE_MAX}", bytes.len())));
        }
        let at @ Peer { to, tag, reached, .. } = self.peer(peer)?;
        if self.probes && !reached {
            return self.probe(at);
        }
        let len = bytes.len() + TAG_BYTES;
        if len <= self.limits.inject {
            self.tagged[..bytes.len()].copy_from_slice(bytes);
            self.tagged[bytes.len()..len].copy_from_slice(&tag);
            // SAFETY: the endpoint is open; the bytes are copied before it returns.
            let code = unsafe { fi::fi_inject(self.objects.ep, self.tagged.as_ptr().cast(), len, to) };
            return self.posted("fi_inject", at, code);
        }
        let Some(slot) = self.slots.take(Kind::Message, peer, 0) else { return Ok(Posted::Again) };
        let buffer = self.buffer(slot);
        // SAFETY: the slot was free, so the provider does not use its buffer of BUFFER_BYTES, where message and tag have room; from
        // then on only the provider does, until the completion gives the slot back. Both live until the endpoint is closed.
        let code = unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer, bytes.len());
            std::ptr::copy_nonoverlapping(tag.as_ptr(), buffer.add(bytes.len()), TAG_BYTES);
            let context = self.slots.context(slot);
            fi::fi_send(self.objects.ep, buffer.cast(), len, self.descriptor, to, context)
        };
        if code != 0 {
            self.slots.give_back(slot);
        }
        self.posted("fi_send", at, code)
    }

    fn connects(&self, peer: u32) -> bool {
        self.quirk.reconnects && self.peers.get(peer).is_ok_and(|peer| !peer.reached && !peer.cut)
    }

    fn cut(&mut self, peer: u32) {
        self.peers.change(peer, |peer| peer.cut = true);
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        self.check_open()?;
        let mut happened = self.injected.len();
        if let Some(entry) = self.woken.take() {
            happened += 1;
            // SAFETY: fi_cq_sread filled it.
            unsafe { self.completed(&entry, sink)? };
        }
        while let Some(token) = self.injected.pop_front() {
            sink.done(token);
        }
        for _ in 0..self.unposted.len() {
            if let Some(slot) = self.unposted.pop() {
                self.post_receive(slot as usize)?;
            }
        }
        let mut entries = [const { MaybeUninit::<fi::fi_cq_data_entry>::uninit() }; MAX_COMPLETIONS];
        for _ in 0..MAX_READS {
            // SAFETY: the queue is open, of FI_CQ_FORMAT_DATA, and there is room for MAX_COMPLETIONS entries of it.
            let n = unsafe { fi::fi_cq_read(self.objects.cq, entries.as_mut_ptr().cast(), MAX_COMPLETIONS) };
            match n {
                1.. => {
                    let n = n.cast_unsigned();
                    for entry in entries.iter().take(n) {
                        // SAFETY: fi_cq_read filled the first n.
                        unsafe { self.completed(entry.assume_init_ref(), sink)? };
                    }
                    happened += n;
                    if n < MAX_COMPLETIONS {
                        break;
                    }
                }
                0 => break,
                c if c == again() => break,
                c if c == -(fi::FI_EAVAIL as isize) => happened += self.read_errors(sink)?,
                c => {
                    let e = self.lib.error("fi_cq_read", c as i64);
                    return Err(e.over(self.limits.provider.as_str()));
                }
            }
        }
        self.idle_policy.polled(happened);
        Ok(happened)
    }

    fn idle(&mut self, longest: Duration) {
        if self.quirk.nap_us > 0 {
            return std::thread::sleep(Duration::from_micros(self.quirk.nap_us.into()).min(longest));
        }
        // Both are short however long one may wait.
        match self.idle_policy.next() {
            Next::Pause => std::hint::spin_loop(),
            Next::Yield => self.idle_policy.yield_core(),
            Next::Sleep => self.block(longest),
        }
    }

    fn close(&mut self) -> Result<()> {
        self.shut()
    }

    fn abort(&mut self) -> Result<()> {
        if self.quirk.quiet_close && !self.closed { self.abandon() } else { self.shut() }
    }
}
