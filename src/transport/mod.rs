//! The wire: one small trait, and its implementations. No rank arithmetic and no collectives here.
//!
//! What shapes the trait is the strictest hardware (verbs): sources are registered and handed over with
//! their registration, keys are chosen by the provider, targets are virtual addresses, a put has *one*
//! contiguous target, its notify word has 32 bits, and a single put may be no longer than
//! [`Limits::max_put`]. Arrivals are counted, never ordered.

pub(crate) mod call_slots;
mod clock;
pub(crate) mod cores;
mod device;
pub mod fabric;
mod idle;
pub(crate) mod limited;
pub(crate) mod node;
mod node_memory;
mod pauses;
pub mod rails;
pub(crate) mod remote;
pub mod route;
pub mod shm;
pub mod sim;
mod slot_pool;
#[cfg(feature = "verbs")]
pub mod verbs;

pub use crate::config::Wait;
pub use crate::memory::Mapping;
pub use clock::Clock;
pub(crate) use clock::Ticks;
pub use device::{CopyFunction, DmaBuf, Memory, MemoryAttributes, MemoryKind};
pub use slot_pool::SlotPool;

use crate::error::{Error, ErrorKind, Result, argument};
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// A number that cannot be guessed and no other endpoint has. Names of memory begin there, so that a name means nothing at an
/// endpoint that did not give it.
fn random() -> u64 {
    // Keyed by the system's randomness, and another one each time.
    RandomState::new().build_hasher().finish()
}

/// The longest message that every transport carries, in bytes.
pub const MESSAGE_MAX: usize = 8000 + 64;

/// The longest message that a transport is given, in bytes, where its [`Limits::message`] allows as many. Chosen for sockets: 16 ranks on a network of 100 Mbit/s do an alltoall of
/// 200 KB in 0.91 of the time that it takes with 8 KB. Not measured on RDMA hardware, which keeps [`MESSAGE_MAX`]: its latency is shorter, so copies weigh more.
pub const LONG_MESSAGE_MAX: usize = 16_000 + 64;

/// What an endpoint can do, as queried from it. What decides how ranks talk to each other (name, longest put, gather list,
/// longest message) must be the same at all, which start-up compares.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The provider's exact name, as libfabric prints it (`net`, `tcp;ofi_rxm`), `*n` behind it where it has n interfaces; `shm`;
    /// `sim`. For people, and for figures that were measured: what a transport can do is in the other fields.
    pub provider: String,
    /// Node-local ranks talk over shared memory of our own, and all others over the provider: several ranks of a node on two
    /// wires.
    pub shm_within_nodes: bool,
    /// Interfaces that carry puts at the same time.
    pub rails: usize,
    /// The longest single put, in bytes.
    pub max_put: u64,
    /// How many local segments one put may gather (≥ 1).
    pub gather: usize,
    /// Puts of at most this many bytes are copied when posted.
    pub inject: usize,
    /// Messages of at most this many bytes travel at once (at most [`LONG_MESSAGE_MAX`]); longer ones cost a round trip.
    pub message: usize,
    /// What peers may do to a slice the library only borrows.
    pub borrow: Borrow,
    /// A borrowed slice of fewer bytes is copied through the library's own memory in any case: registering it costs more.
    pub copied_below: usize,
    /// What copies the bytes of a put (where there are two wires: between nodes).
    pub copier: Copier,
    /// Peers name the bytes of a target by an offset: [`Remote::base`] is a number from which they count. Else it is the address of
    /// the first byte.
    pub offsets: bool,
    /// The provider chooses the keys of targets, of 32 bits. Else the endpoint does, of up to 64.
    pub chooses_keys: bool,
    /// The kinds of memory that can be registered.
    pub memory: &'static [MemoryKind],
    /// Whether [`Transport::idle`] may sleep until something arrives, and an arrival ends that.
    pub wakes: bool,
    /// A call into the provider may not come back while a peer is gone or stopped.
    pub may_hang: bool,
    /// The endpoint goes on with the other ranks when one is gone ([`Transport::cut`]).
    pub survives: bool,
}

impl Limits {
    /// Of a transport of which nothing else is known: what is asked of every one, and what is safe with all.
    pub fn new(provider: impl Into<String>) -> Self {
        Self {
            provider: provider.into(),
            shm_within_nodes: false,
            rails: 1,
            max_put: u64::MAX,
            gather: 1,
            inject: 0,
            message: MESSAGE_MAX,
            borrow: Borrow::Staged,
            copied_below: 0,
            copier: Copier::Sender,
            offsets: false,
            chooses_keys: false,
            memory: &[MemoryKind::Host],
            wakes: false,
            may_hang: false,
            survives: false,
        }
    }

    /// That the endpoint does not take such memory, and what does.
    #[cold]
    fn refuse(&self, memory: Memory) -> Error {
        let kinds: Vec<String> = self.memory.iter().map(ToString::to_string).collect();
        let what =
            format!("{memory} cannot be registered: this wire takes {} memory only", kinds.join(" and "));
        Error::new(ErrorKind::Argument, what).over(self.wire()).help(
            "take a wire that can (CIRCULANT_PROVIDER=ibverbs, or with CIRCULANT_DEVICE_MEMORY=yes a provider of libfabric's; no +shm): \
             circulant info shows which memory each takes; or copy to host memory first",
        )
    }

    /// The name of the wire, for people: the provider, and `+shm` where node-local ranks talk over shared memory.
    pub fn wire(&self) -> String {
        let within = if self.shm_within_nodes { "+shm" } else { "" };
        format!("{}{within}", self.provider)
    }
}

/// What copies the bytes of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Copier {
    /// The sender's core, or its kernel: a put costs the sender its bytes.
    Sender,
    /// The reader's core, when it polls: a put is a description, and the copies of a broadcast are its readers'.
    Reader,
    /// The network's hardware: a put costs no core its bytes.
    Hardware,
}

/// What was `asked` for (`None`: nothing), without sleeping: for several wires as one, as an endpoint that sleeps does not see
/// what arrives at the others.
pub(crate) fn awake(asked: Option<Wait>) -> Option<Wait> {
    asked.filter(|wait| *wait != Wait::Block).or(Some(Wait::Yield))
}

/// How memory that the library does not own takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Borrow {
    /// Registered for the call: closing the endpoint ends all access to it.
    Direct,
    /// Copied through the library's own memory: a peer could touch it after we closed.
    Staged,
}

/// [`Limits::copied_below`] of RDMA hardware, in bytes: to register memory and to end that are two calls of the kernel, which pins pages and lets
/// them go. For 32 KiB they take 33 us, and to copy them twice takes 17; for 64 KiB 35 and 33, for 128 KiB 39 and 61 (`ci/verbs --tier cost`, all
/// emulated, so only the ratios count). Half of where they are even, as a copy also drives other data out of the cache.
pub(crate) const COPIED_BELOW_BYTES: usize = 32 << 10;

/// What is done with a registered range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// We put from there, and nothing is written there: it may be memory that cannot be written.
    Source,
    /// Peers put there, and we put from there.
    Target,
}

/// A registered local memory range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Registration(pub u32);

/// What a peer must know to put into a registered range: the address of its first byte (or from where
/// [offsets](Limits::offsets) count) and its key. Of a [source](Access::Source) it means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Remote {
    /// Address to use for byte 0 of the range.
    pub base: u64,
    /// The provider's key of the range.
    pub key: u64,
}

/// Where ranks of a node find bytes that one of them lends: in shared memory of its endpoint, which they map, or in other memory of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// Number and descriptor of the file.
    pub(crate) chunk: u32,
    pub(crate) fd: u32,
    /// Offset in it, in bytes; or the address of what lies in no file.
    pub(crate) at: u64,
}

impl Lent {
    /// The number of no file.
    const NO_CHUNK: u32 = u32::MAX;

    /// Bytes anywhere in our memory, for a rank that [reads](Transport::reads_memory_of) it.
    pub(crate) fn unmapped(bytes: &[u8]) -> Self {
        Self { chunk: Self::NO_CHUNK, fd: 0, at: bytes.as_ptr().addr() as u64 }
    }

    pub(crate) fn is_unmapped(self) -> bool {
        self.chunk == Self::NO_CHUNK
    }
}

/// What an endpoint of RDMA hardware has counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HardwareCounts {
    /// Work requests posted: puts and messages.
    pub requests: u64,
    /// Calls that posted them, each of a list for one peer.
    pub doorbells: u64,
    /// Lists whose last request asked for a completion, which ends all before it.
    pub signalled: u64,
    /// Receives posted.
    pub receives: u64,
    /// Calls that posted them.
    pub refills: u64,
    /// Puts and messages that were refused ([`Posted::Again`]), as a queue was full or all buffers were in use.
    pub refused: u64,
    /// Requests that were sent again as the receiver had no receive posted. Of this and the next the kernel counts those of all
    /// processes that use the port, where its driver does.
    pub receivers_not_ready: u64,
    /// Requests that were sent again as they were not acknowledged in time, or (soft-RoCE counts both as one) as packets were missing.
    pub timeouts: u64,
}

impl HardwareCounts {
    /// Of two endpoints.
    fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            doorbells: self.doorbells + other.doorbells,
            signalled: self.signalled + other.signalled,
            receives: self.receives + other.receives,
            refills: self.refills + other.refills,
            refused: self.refused + other.refused,
            receivers_not_ready: self.receivers_not_ready + other.receivers_not_ready,
            timeouts: self.timeouts + other.timeouts,
        }
    }
}

/// One piece of local memory to put from.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// First byte.
    pub ptr: *const u8,
    /// Length in bytes.
    pub len: usize,
    /// The registration that covers it.
    pub registration: Registration,
}

/// What became of a request to post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Posted {
    /// Taken.
    Yes,
    /// Not now: progress, then ask again.
    Again,
}

/// What becomes of the bytes of a put whose receiver moves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// They are written where the put says.
    Land,
    /// They are handed to [`Sink::consume`] and written nowhere, in pieces of whole elements of this many bytes.
    Pieces(usize),
    /// As before, but not yet: something else must come first. A transport that cannot wait writes them.
    Later,
}

/// Where a transport delivers what happened.
pub trait Sink {
    /// A peer's put landed here, completely, or was [consumed](Sink::consume); `word` is what the peer gave it.
    fn arrival(&mut self, word: u32);
    /// What shall become of a put of `len` bytes; asked before the first of them is moved.
    fn delivery(&mut self, _word: u32, _len: u64) -> Delivery {
        Delivery::Land
    }
    /// Bytes of the put with this word, `offset` bytes from its start, in order; the arrival follows the last. They are
    /// what the peer put: bytes that may have changed since, as their owner has closed, are not handed over.
    fn consume(&mut self, _word: u32, _offset: u64, _bytes: &[u8]) {}
    /// Our put `token` needs its source no longer.
    fn done(&mut self, token: u64);
    /// A control message came in.
    fn message(&mut self, bytes: &[u8]);
    /// Talking to `peer` failed for good (`None`: the provider does not say to which).
    fn lost(&mut self, peer: Option<u32>, why: &str);
}

/// An endpoint that puts into peers' memory and notifies them. Peers are named by world rank.
///
/// One thread at a time drives it; every method returns without waiting (but [`Transport::idle`]).
///
/// # Safety
/// The library lends slices of its callers to an endpoint, and gives them back when the endpoint says that they are free. So
/// an implementation promises, whatever peers send and whatever fails:
///
/// - Memory is written only where a peer puts it: wholly inside a range that is registered as a [target](Access::Target),
///   under the name that [`Transport::register`] returned, and from within [`Transport::poll`] or by hardware (or a peer) that
///   is told of that range alone. Memory is read only inside registered ranges, for puts that were taken.
/// - When [`Transport::deregister`] has returned without error, that range is not read or written through this endpoint; when
///   [`Transport::close`] has, no range is, for good. With an error, what was registered stays so. (A peer that
///   maps a shared file may go on reading there; it must find out, and discard what it read.)
/// - [`Sink::done`] is said once for each put that was [taken](Posted::Yes), and not before its sources are read for the last
///   time.
/// - [`Sink::arrival`] is said once for each put of a peer, when all its bytes are written, or were handed over by
///   [`Sink::consume`], and this thread sees them; nothing of that put is written afterwards.
/// - [`Transport::share`] gives a mapping of at least as many bytes as it was asked for, which can be read and written as long
///   as the mapping lives and which no process writes but by puts.
///
/// ```compile_fail,E0200
/// # use circulant::{Result, transport::*};
/// struct Mine;
/// // An error: the trait is unsafe to implement.
/// impl Transport for Mine {
/// #   fn limits(&self) -> &Limits { todo!() }
/// #   fn address(&self) -> Vec<u8> { todo!() }
/// #   fn connect(&mut self, _: u32, _: &[u8]) -> Result<()> { todo!() }
/// #   unsafe fn register(&mut self, _: *mut u8, _: usize, _: Access) -> Result<(Registration, Remote)> { todo!() }
/// #   fn deregister(&mut self, _: Registration) -> Result<()> { todo!() }
/// #   unsafe fn put(&mut self, _: u32, _: &[Source], _: u64, _: u64, _: u32, _: u64) -> Result<Posted> { todo!() }
/// #   fn message(&mut self, _: u32, _: &[u8]) -> Result<Posted> { todo!() }
/// #   fn poll(&mut self, _: &mut dyn Sink) -> Result<usize> { todo!() }
/// #   fn idle(&mut self, _: std::time::Duration) { todo!() }
/// #   fn close(&mut self) -> Result<()> { todo!() }
///     // …
/// }
/// ```
pub unsafe trait Transport: Send {
    /// What this endpoint can do.
    fn limits(&self) -> &Limits;

    /// Our address, opaque bytes for [`Transport::connect`] at a peer.
    fn address(&self) -> Vec<u8>;

    /// The same for people, such as `10.0.0.1:4711`; empty where there is nothing to tell.
    fn place(&self) -> String {
        String::new()
    }

    /// Makes `peer` reachable at `address`. No traffic yet.
    ///
    /// # Errors
    /// When the provider does not understand the address.
    fn connect(&mut self, peer: u32, address: &[u8]) -> Result<()>;

    /// Lets us put from `len` bytes at `ptr`, and peers put there if `access` says so.
    ///
    /// # Safety
    /// Until [`Transport::deregister`] or [`Transport::close`] returned without error the range must stay valid. A
    /// [target](Access::Target) must be writable, and be touched by raw pointers only; a [source](Access::Source) may be read
    /// otherwise, too.
    ///
    /// # Errors
    /// When the provider refuses, with the limit that is the likely cause.
    unsafe fn register(&mut self, ptr: *mut u8, len: usize, access: Access)
    -> Result<(Registration, Remote)>;

    /// A file of `len` zeroed bytes and its mapping here, all present, to be given to [`Transport::register_shared`],
    /// where peers can make use of that.
    fn share(&self, _len: usize) -> Option<(File, Mapping)> {
        None
    }

    /// As [`Transport::register`] of a target, for `len` bytes of the file from [`Transport::share`], from its start,
    /// mapped at `ptr`.
    ///
    /// # Safety
    /// As there.
    ///
    /// # Errors
    /// As there.
    unsafe fn register_shared(
        &mut self,
        ptr: *mut u8,
        len: usize,
        file: File,
    ) -> Result<(Registration, Remote)> {
        drop(file);
        // SAFETY: passed on.
        unsafe { self.register(ptr, len, Access::Target) }
    }

    /// As [`Transport::register`] of a target, for memory that may be a device's, of one of the kinds in [`Limits::memory`]. What the
    /// endpoint itself copies from or to it, it copies by the function that the attributes name, never by the processor.
    ///
    /// # Safety
    /// As there, but that the processor need not be able to touch memory of a device. The attributes are true of the range, and
    /// their function does what [`CopyFunction`] says, for as long as the range is registered.
    ///
    /// # Errors
    /// As there; and when the endpoint does not take this kind of memory.
    unsafe fn register_memory(
        &mut self,
        ptr: *mut u8,
        len: usize,
        attributes: &MemoryAttributes,
    ) -> Result<(Registration, Remote)> {
        match attributes.memory {
            // SAFETY: passed on.
            Memory::Host => unsafe { self.register(ptr, len, Access::Target) },
            memory => Err(self.limits().refuse(memory)),
        }
    }

    /// Ends what [`Transport::register`] began.
    ///
    /// # Errors
    /// When the provider refuses: the range must then not be freed or lent.
    fn deregister(&mut self, registration: Registration) -> Result<()>;

    /// Puts the sources, one after the other, to `address` under `key` at `peer`, there to arrive with
    /// `word`; [`Sink::done`] later says `token`. At most [`Limits::gather`] sources of at most
    /// [`Limits::max_put`] bytes together; no sources is a bare notification.
    ///
    /// # Safety
    /// Each source lies in its registration, and is neither freed nor written until `token` is done or
    /// [`Transport::close`] returned.
    ///
    /// # Errors
    /// When the provider refuses for good.
    unsafe fn put(
        &mut self,
        peer: u32,
        sources: &[Source],
        address: u64,
        key: u64,
        word: u32,
        token: u64,
    ) -> Result<Posted>;

    /// As [`Limits::message`], of messages to `peer`: the same number at both ends. Where a transport has several wires it is that of the peer's own.
    fn longest_message_to(&self, _peer: u32) -> usize {
        self.limits().message
    }

    /// Sends a message of at most [`MESSAGE_MAX`] bytes, or of as many as [`longest_message_to`](Transport::longest_message_to) says where that is more; copied before this returns.
    ///
    /// # Errors
    /// When the provider refuses for good.
    fn message(&mut self, peer: u32, bytes: &[u8]) -> Result<Posted>;

    /// `peer` is gone: posts to it are errors of the kind [`PeerLost`](ErrorKind::PeerLost) from now on, and puts to it are not said to
    /// be done. What it has sent before may still come. Asked only where [`Limits::survives`] is set.
    fn cut(&mut self, _peer: u32) {}

    /// Whether posts to `peer` are put off because no connection to it stands yet: it comes about by what both ends do. `false` where
    /// posts are put off for want of room only.
    fn connects(&self, _peer: u32) -> bool {
        false
    }

    /// Begins what was taken and is still collected, so that several puts and messages go to the hardware at once. [`Transport::poll`]
    /// does so, too.
    fn flush(&mut self) {}

    /// Moves things on and delivers what happened; returns how much did.
    ///
    /// # Errors
    /// When the endpoint as a whole is broken; trouble with one peer is [`Sink::lost`].
    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize>;

    /// Called when [`Transport::poll`] found nothing: gives the processor away, for at most `longest`.
    fn idle(&mut self, longest: Duration);

    /// The time by which the engine on this endpoint goes.
    fn clock(&self) -> Clock {
        Clock::default()
    }

    /// What was counted, where this is RDMA hardware without another library between; else all 0.
    fn hardware(&self) -> HardwareCounts {
        HardwareCounts::default()
    }

    /// The slots for short calls of node-local ranks, where there are such.
    fn slots(&mut self) -> Option<&mut SlotPool> {
        None
    }

    /// Where ranks of our node find these bytes, if they lie in memory from [`Transport::share`] that is registered.
    fn lend(&self, _bytes: &[u8]) -> Option<Lent> {
        None
    }

    /// Whether the kernel lets us read all memory of `peer`, a rank of our node.
    fn reads_memory_of(&mut self, _peer: u32) -> bool {
        false
    }

    /// Copies bytes that `peer`, a rank of our node, [lends](Transport::lend), from byte `at` of them on. `out`: where they go, and how many bytes
    /// the call writes at this rank, with these: results too long for the caches go round them.
    ///
    /// # Errors
    /// When it has closed its endpoint, so that they may be others by now, or when they cannot be read.
    fn fetch(&mut self, peer: u32, _lent: Lent, _at: usize, _out: (&mut [u8], u64)) -> Result<()> {
        Err(argument(format!("rank {peer} lends nothing here")).with_peer(peer as usize))
    }

    /// Ends all traffic. When this returns without error, registered memory cannot be read or written
    /// through this endpoint any more, whatever peers do.
    ///
    /// # Errors
    /// When that cannot be promised.
    fn close(&mut self) -> Result<()>;

    /// As [`close`](Transport::close), where peers did not agree to it, as after a failure: puts of theirs may still arrive.
    ///
    /// # Errors
    /// As [`close`](Transport::close).
    fn abort(&mut self) -> Result<()> {
        self.close()
    }
}
