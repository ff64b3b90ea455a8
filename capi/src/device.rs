//! Memory that a program registers: of devices, or of its own. Of its own the calls take slices, as of any other, which are found to be
//! registered. Calls on memory of a device take requests and persistent operations that own their buffers: of that no slice is made.

use crate::comm::Comm;
use crate::layout::CLayout;
use crate::ops::Operator;
use crate::slices::{apart, checked, is_in_place};
use crate::status::{Status, given, guard};
use circulant::comm::{AnyMemory, Communicator};
use circulant::error::argument;
use circulant::transport::{Borrow, CopyFunction, Limits, Memory, MemoryAttributes};
use circulant::{Buf, Result};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What C calls `circulant_memory_t`.
pub(crate) type MemoryNumber = c_int;

/// Bytes that may live in a device.
type Bytes = Buf<u8, AnyMemory>;

/// Registered memory of the program's.
struct Region {
    buf: Bytes,
    comm: Communicator,
}

/// By the address of the first byte.
static REGIONS: Mutex<BTreeMap<usize, Region>> = Mutex::new(BTreeMap::new());
/// How many of them live in a device: without any a call looks no further.
static DEVICES: AtomicUsize = AtomicUsize::new(0);

fn regions() -> MutexGuard<'static, BTreeMap<usize, Region>> {
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Region {
    fn is_on_device(&self) -> bool {
        self.buf.memory() != Memory::Host
    }
}

/// The region in which `at` lies, and where it begins.
fn find(regions: &BTreeMap<usize, Region>, at: usize) -> Option<(usize, &Region)> {
    let (start, region) = regions.range(..=at).next_back()?;
    (at - start < region.buf.len()).then_some((*start, region))
}

/// An argument of a function.
pub(crate) trait Argument {
    /// Whether it is a buffer that begins in memory of a device.
    fn is_on_device(&self) -> bool {
        false
    }
}

impl Argument for *const c_void {
    fn is_on_device(&self) -> bool {
        DEVICES.load(Ordering::Relaxed) > 0
            && find(&regions(), self.addr()).is_some_and(|(_, region)| region.is_on_device())
    }
}

impl Argument for *mut c_void {
    fn is_on_device(&self) -> bool {
        self.cast_const().is_on_device()
    }
}

impl Argument for usize {}
impl Argument for c_int {}
impl Argument for *const usize {}
impl Argument for *const CLayout {}
impl Argument for *const Operator {}

/// The buffer of `bytes` bytes at `pointer`, of registered memory, or registered for this call; `comm` is one of its world.
///
/// # Safety
/// Memory that is not registered is null or leads to as many bytes, which live, and are ours, until the buffer is dropped.
unsafe fn buffer(name: &str, (pointer, bytes): (*mut c_void, usize), comm: &Communicator) -> Result<Bytes> {
    checked(name, pointer, bytes)?;
    if bytes == 0 {
        return Ok(comm.alloc(0)?.into());
    }
    // SAFETY: calls of C use memory in one way at a time, as the header says.
    if let Some(part) = unsafe { part(name, pointer.addr(), bytes) } {
        return part;
    }
    if !may_register_for_a_call(comm.limits()?.as_ref()) {
        return Err(argument(format!("{name} is not registered, beside memory of a device")).help(
            "over this wire peers may reach memory after an error of the call: what goes beside memory of a device is to be given \
             to circulant_register, too",
        ));
    }
    // SAFETY: our caller's; and peers leave it alone when a call has returned.
    unsafe { comm.adopt(pointer.cast(), bytes, &MemoryAttributes::new(Memory::Host)) }
}

/// The part of registered memory that begins at this address, if it is in some.
///
/// # Safety
/// As [`Bytes::part`].
unsafe fn part(name: &str, at: usize, bytes: usize) -> Option<Result<Bytes>> {
    let regions = regions();
    let (start, region) = find(&regions, at)?;
    let offset = at - start;
    if bytes > region.buf.len() - offset {
        return Some(Err(argument(format!("{name} ends behind the memory that was registered"))));
    }
    // SAFETY: our caller's.
    Some(unsafe { region.buf.part(offset, bytes) })
}

/// Whether memory that stays only for one call may be registered for it; without a wire nothing is.
fn may_register_for_a_call(limits: Option<&Limits>) -> bool {
    limits.is_none_or(|limits| limits.borrow == Borrow::Direct)
}

/// A communicator of the world that registered one of these.
fn world_of(pointers: [*const c_void; 2]) -> Result<Communicator> {
    let regions = regions();
    let found = pointers.iter().find_map(|pointer| find(&regions, pointer.addr()));
    found
        .map(|(_, region)| region.comm.clone())
        .ok_or_else(|| argument("this memory is not registered any more"))
}

/// As `slices::received`.
///
/// # Safety
/// As [`buffer`].
pub(crate) unsafe fn received(pointer: *mut c_void, bytes: usize) -> Result<Bytes> {
    let comm = world_of([pointer, pointer])?;
    // SAFETY: our caller's.
    unsafe { buffer("recv", (pointer, bytes), &comm) }
}

/// As `slices::both`.
///
/// # Safety
/// As [`buffer`], for both.
pub(crate) unsafe fn both(
    send: (*const c_void, usize),
    recv: (*mut c_void, usize),
) -> Result<(Option<Bytes>, Bytes)> {
    if is_in_place(send.0) {
        // SAFETY: our caller's.
        return Ok((None, unsafe { received(recv.0, recv.1)? }));
    }
    // SAFETY: our caller's.
    unsafe { neither_in_place(send, recv).map(|(send, recv)| (Some(send), recv)) }
}

/// As `slices::neither_in_place`.
///
/// # Safety
/// As [`buffer`], for both.
pub(crate) unsafe fn neither_in_place(
    send: (*const c_void, usize),
    recv: (*mut c_void, usize),
) -> Result<(Bytes, Bytes)> {
    apart(send, recv)?;
    let comm = world_of([send.0, recv.0])?;
    // SAFETY: our caller's. What is sent is only read.
    unsafe { Ok((buffer("send", (send.0.cast_mut(), send.1), &comm)?, buffer("recv", recv, &comm)?)) }
}

/// As `slices::both_at_root`.
///
/// # Safety
/// As [`buffer`], for both.
pub(crate) unsafe fn both_at_root(
    send: (*const c_void, usize),
    recv: (*mut c_void, usize),
) -> Result<(Bytes, Option<Bytes>)> {
    if is_in_place(recv.0) {
        let comm = world_of([send.0, send.0])?;
        // SAFETY: our caller's. What is sent is only read.
        return Ok((unsafe { buffer("send", (send.0.cast_mut(), send.1), &comm)? }, None));
    }
    // SAFETY: our caller's.
    unsafe { neither_in_place(send, recv).map(|(send, recv)| (send, Some(recv))) }
}

fn memory(kind: MemoryNumber, device: c_int) -> Result<Memory> {
    let number = u32::try_from(device).map_err(|_| argument(format!("device is {device}")));
    match kind {
        0 => Ok(Memory::Host),
        1 => Ok(Memory::Cuda(number?)),
        2 => Ok(Memory::Rocm(number?)),
        3 => Ok(Memory::LevelZero(number?)),
        _ => {
            Err(argument(format!("there is no kind of memory {kind}")).help("use a constant of circulant.h"))
        }
    }
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "those of the header")]
unsafe extern "C" fn circulant_register(
    comm: *const Comm,
    memory: *mut c_void,
    bytes: usize,
    kind: MemoryNumber,
    device: c_int,
    copy: Option<CopyFunction>,
    dmabuf: c_int,
    offset: u64,
) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        let comm = unsafe { &given("comm", comm)?.0 };
        checked("memory", memory, bytes)?;
        if bytes == 0 {
            return Err(argument("0 bytes to register"));
        }
        let mut attributes = MemoryAttributes::new(self::memory(kind, device)?);
        attributes.copy = copy;
        if dmabuf >= 0 {
            attributes = attributes.in_file(dmabuf, offset);
        }
        // SAFETY: the header's: the memory stays until it is deregistered, and is left to calls that have it while they run.
        let buf = unsafe { comm.adopt(memory.cast::<u8>(), bytes, &attributes)? };
        // (No thread waits for a world while it holds the regions: so all that is dropped here is dropped after the lock.)
        let (start, comm) = (memory.addr(), comm.clone());
        let mut regions = regions();
        let before = regions.range(..start + bytes).next_back();
        if before.is_some_and(|(at, region)| at + region.buf.len() > start) {
            return Err(argument("some of this memory is registered already"));
        }
        let region = Region { buf, comm };
        DEVICES.fetch_add(usize::from(region.is_on_device()), Ordering::Relaxed);
        regions.insert(start, region);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_deregister(memory: *mut c_void) -> Status {
    guard(|| {
        let removed = regions().remove(&memory.addr());
        let region = removed.ok_or_else(|| {
            argument("this memory was not registered by circulant_register, or was deregistered before")
        })?;
        DEVICES.fetch_sub(usize::from(region.is_on_device()), Ordering::Relaxed);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_one_call_is_registered_where_peers_leave_it_alone() {
        let mut limits = Limits::new("efa");
        limits.borrow = Borrow::Staged;
        assert!(!may_register_for_a_call(Some(&limits)));
        limits.borrow = Borrow::Direct;
        assert!(may_register_for_a_call(Some(&limits)) && may_register_for_a_call(None));
    }
}
