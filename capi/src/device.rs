//! Memory that a program registers: of devices, or of its own. Calls on it take requests and persistent operations that own their buffers, whose
//! memory is never made a slice of.

use crate::comm::Comm;
use crate::layout::CLayout;
use crate::ops::Operator;
use crate::slices::{apart, checked, is_in_place};
use crate::status::{Status, given, guard};
use circulant::comm::{AnyMemory, Communicator};
use circulant::error::argument;
use circulant::transport::{CopyFunction, Memory, MemoryAttributes};
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
/// How many there are: without any a call looks no further.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn regions() -> MutexGuard<'static, BTreeMap<usize, Region>> {
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The region in which `at` lies, and where it begins.
fn find(regions: &BTreeMap<usize, Region>, at: usize) -> Option<(usize, &Region)> {
    let (start, region) = regions.range(..=at).next_back()?;
    (at - start < region.buf.len()).then_some((*start, region))
}

/// An argument of a function.
pub(crate) trait Argument {
    /// Whether it is a buffer that begins in registered memory.
    fn is_registered(&self) -> bool {
        false
    }
}

impl Argument for *const c_void {
    fn is_registered(&self) -> bool {
        COUNT.load(Ordering::Relaxed) > 0 && find(&regions(), self.addr()).is_some()
    }
}

impl Argument for *mut c_void {
    fn is_registered(&self) -> bool {
        self.cast_const().is_registered()
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
    let regions = regions();
    let Some((start, region)) = find(&regions, pointer.addr()) else {
        // SAFETY: our caller's.
        return unsafe { comm.adopt(pointer.cast(), bytes, &MemoryAttributes::new(Memory::Host)) };
    };
    let offset = pointer.addr() - start;
    if bytes > region.buf.len() - offset {
        return Err(argument(format!("{name} ends behind the memory that was registered")));
    }
    // SAFETY: calls of C use memory in one way at a time, as the header says.
    unsafe { region.buf.part(offset, bytes) }
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
        let mut regions = regions();
        let start = memory.addr();
        let before = regions.range(..start + bytes).next_back();
        if before.is_some_and(|(at, region)| at + region.buf.len() > start) {
            return Err(argument("some of this memory is registered already"));
        }
        // SAFETY: the header's: the memory stays until it is deregistered, and is left to calls that have it while they run.
        let buf = unsafe { comm.adopt(memory.cast::<u8>(), bytes, &attributes)? };
        regions.insert(start, Region { buf, comm: comm.clone() });
        COUNT.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_deregister(memory: *mut c_void) -> Status {
    guard(|| match regions().remove(&memory.addr()) {
        Some(region) => {
            COUNT.fetch_sub(1, Ordering::Relaxed);
            drop(region);
            Ok(())
        }
        None => {
            Err(argument("this memory was not registered by circulant_register, or was deregistered before"))
        }
    })
}
