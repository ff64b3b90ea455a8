//! Registered ranges.

use super::library::Library;
use super::objects::{LOCKED, Objects};
use crate::error::{Error, ErrorKind, Result, argument};
use crate::transport::{Access, Memory, MemoryAttributes, MemoryKind, Registration, Remote, Source};
use libfabric_sys as fi;
use std::ffi::c_void;

struct Range {
    /// Null for a range of no bytes, which no provider needs to hear of.
    mr: *mut fi::fid_mr,
    descriptor: *mut c_void,
    start: usize,
    len: usize,
    /// Memory of a device.
    on_device: bool,
}

/// All ranges, by number.
pub(super) struct Registrations {
    ranges: Vec<Option<Range>>,
    free: Vec<u32>,
    keys: Keys,
    mode: u64,
    /// How many are memory of devices.
    devices: usize,
}

/// Keys of our own choice, one after the other from anywhere: none is used twice before all were.
#[derive(Debug)]
pub(super) struct Keys {
    next: u64,
    most: u64,
}

impl Keys {
    /// From where `seed` says, in as many bytes as a key may have. (The target address could begin anywhere, too; but of
    /// fi_mr_reg's offset libfabric says that it must be 0.)
    pub(super) fn new(seed: u64, bytes: usize) -> Self {
        // The highest bit stays 0: all ones are FI_KEY_NOTAVAIL. A provider that does not say how many bytes takes 4.
        let bits = if bytes == 0 { 31 } else { 8 * bytes.min(8) - 1 };
        let most = u64::MAX >> (64 - bits);
        Self { next: seed & most, most }
    }

    fn next(&mut self) -> u64 {
        let key = self.next;
        self.next = (key + 1) & self.most;
        key
    }
}

impl Registrations {
    /// `mode` is what the provider asks for: a set of FI_MR bits.
    pub(super) fn new(mode: u64, keys: Keys) -> Self {
        Self { ranges: Vec::new(), free: Vec::new(), keys, mode, devices: 0 }
    }

    /// Registers `len` bytes at `start` for `access`, a set of libfabric's flags: [`flags`], or those of message buffers.
    ///
    /// # Safety
    /// As [`crate::transport::Transport::register`].
    pub(super) unsafe fn register(
        &mut self,
        objects: &Objects,
        lib: &Library,
        start: *mut u8,
        len: usize,
        access: u64,
    ) -> Result<(Registration, Remote)> {
        // SAFETY: the domain is open; the range is valid by the caller's promise.
        let register = |key, mr: &mut *mut fi::fid_mr| unsafe {
            fi::fi_mr_reg(objects.domain, start.cast(), len, access, key, mr)
        };
        let refused = |code| refused(lib, len, access, code);
        self.add(objects, lib, (start, len, false), register, refused)
    }

    /// As [`Registrations::register`] of a target, for memory of a device.
    ///
    /// # Safety
    /// As [`crate::transport::Transport::register_memory`].
    pub(super) unsafe fn register_device(
        &mut self,
        objects: &Objects,
        lib: &Library,
        (start, len): (*mut u8, usize),
        attributes: &MemoryAttributes,
    ) -> Result<(Registration, Remote)> {
        let memory = attributes.memory;
        let range = libc::iovec { iov_base: start.cast(), iov_len: len };
        let register = |key, mr: &mut *mut fi::fid_mr| {
            let attr = fi::fi_mr_attr {
                mr_iov: &range,
                iov_count: 1,
                access: flags(Access::Target),
                offset: 0,
                requested_key: key,
                context: std::ptr::null_mut(),
                auth_key_size: 0,
                auth_key: std::ptr::null_mut(),
                iface: interface(memory.kind()),
                device: device(memory),
            };
            // SAFETY: the domain is open; the range is valid, and of that device, by the caller's promise.
            unsafe { fi::fi_mr_regattr(objects.domain, &attr, 0, mr) }
        };
        let refused = |code: i32| {
            lib.error(&format!("cannot register {len} bytes of {memory}"), code.into()).help(
                "this libfabric was built without that interface, cannot load it, or its provider takes no such memory",
            )
        };
        self.add(objects, lib, (start, len, true), register, refused)
    }

    /// How many ranges are memory of devices.
    pub(super) fn devices(&self) -> usize {
        self.devices
    }

    /// Adds the range that `register` makes under a key of its choice, or what `refused` says of its error.
    fn add(
        &mut self,
        objects: &Objects,
        lib: &Library,
        (start, len, on_device): (*mut u8, usize, bool),
        mut register: impl FnMut(u64, &mut *mut fi::fid_mr) -> i32,
        refused: impl FnOnce(i32) -> Error,
    ) -> Result<(Registration, Remote)> {
        let (mr, descriptor) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mut range = Range { mr, descriptor, start: start.addr(), len, on_device };
        let mut remote = Remote::default();
        if len > 0 {
            // A key for memory that is gone cannot open other memory, so none is used again at once. After a turn through
            // short ones some are still in use, at most as many as there are ranges.
            let mut tries = self.ranges.len();
            let code = loop {
                let code = register(self.keys.next(), &mut range.mr);
                if i64::from(code) != -i64::from(fi::FI_ENOKEY) || tries == 0 {
                    break code;
                }
                tries -= 1;
            };
            if code != 0 {
                return Err(refused(code));
            }
            // SAFETY: just registered.
            if let Err(e) = unsafe { self.enable(objects, lib, &range) } {
                // SAFETY: as above, and no peer knows its key yet.
                unsafe { fi::fi_close(&raw mut (*range.mr).fid) };
                return Err(e);
            }
            // SAFETY: registered and, where that is asked for, enabled.
            unsafe {
                range.descriptor = fi::fi_mr_desc(range.mr);
                remote.key = fi::fi_mr_key(range.mr);
            }
            if self.mode & fi::FI_MR_VIRT_ADDR != 0 {
                // The provider finds its way back from there.
                remote.base = start.expose_provenance() as u64;
            }
        }
        let index = match self.free.pop() {
            Some(i) => i,
            None => {
                self.ranges.push(None);
                u32::try_from(self.ranges.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.ranges[index as usize] = Some(range);
        self.devices += usize::from(on_device);
        Ok((Registration(index), remote))
    }

    /// # Safety
    /// `range.mr` is open.
    unsafe fn enable(&self, objects: &Objects, lib: &Library, range: &Range) -> Result<()> {
        if self.mode & fi::FI_MR_ENDPOINT == 0 {
            return Ok(());
        }
        // SAFETY: both are open.
        unsafe {
            match fi::fi_mr_bind(range.mr, &raw mut (*objects.ep).fid, 0) {
                0 => {}
                code => return Err(lib.error("fi_mr_bind", code.into())),
            }
            match fi::fi_mr_enable(range.mr) {
                0 => Ok(()),
                code => Err(lib.error("fi_mr_enable", code.into())),
            }
        }
    }

    /// Ends one registration. On an error it stays.
    pub(super) fn deregister(&mut self, lib: &Library, registration: Registration) -> Result<()> {
        let slot = self.ranges.get_mut(registration.0 as usize);
        let Some(range) = slot.as_ref().and_then(|r| r.as_ref()) else {
            return Err(argument(format!("registration {} is not one of this endpoint's", registration.0)));
        };
        if !range.mr.is_null() {
            // SAFETY: open, since it is in the table; it leaves the table below.
            let code = unsafe { fi::fi_close(&raw mut (*range.mr).fid) };
            if code != 0 {
                return Err(lib.error("closing a memory registration", code.into()));
            }
        }
        self.devices -= usize::from(range.on_device);
        if let Some(slot) = slot {
            *slot = None;
        }
        self.free.push(registration.0);
        Ok(())
    }

    /// Ends all registrations; goes on after a failure, and reports the first.
    pub(super) fn close(&mut self, lib: &Library) -> Result<()> {
        let mut outcome = Ok(());
        for i in 0..self.ranges.len() {
            if self.ranges[i].is_some() {
                let number = u32::try_from(i).unwrap_or(u32::MAX);
                outcome = outcome.and(self.deregister(lib, Registration(number)));
            }
        }
        outcome
    }

    /// The descriptor to put `source` with: null where providers want none.
    ///
    /// Checked also where the provider does not need it, so that a source that was never registered is not found out on
    /// hardware only.
    pub(super) fn descriptor(&self, source: &Source) -> Result<*mut c_void> {
        let range = self.ranges.get(source.registration.0 as usize).and_then(Option::as_ref);
        let start = source.ptr.addr();
        match range {
            Some(r) if start >= r.start && source.len <= r.len && start - r.start <= r.len - source.len => {
                Ok(r.descriptor)
            }
            Some(_) => Err(argument(format!(
                "a source of {} bytes lies outside its registration {}",
                source.len, source.registration.0
            ))),
            None => Err(argument(format!("registration {} of a source is unknown", source.registration.0))),
        }
    }

    /// Registrations are bound to the endpoint, and so go before it.
    pub(super) fn endpoint_bound(&self) -> bool {
        self.mode & fi::FI_MR_ENDPOINT != 0
    }

    /// The provider wants registered memory also at the near end.
    pub(super) fn local(&self) -> bool {
        self.mode & fi::FI_MR_LOCAL != 0
    }
}

/// libfabric's flags for a range: FI_WRITE says that puts read from it. Only what peers write to must be writable: verbs asks the
/// kernel for pages to write to as soon as FI_REMOTE_WRITE is there.
pub(super) fn flags(access: Access) -> u64 {
    match access {
        Access::Source => fi::FI_WRITE,
        Access::Target => fi::FI_WRITE | fi::FI_REMOTE_WRITE,
    }
}

/// What libfabric calls this kind of memory.
fn interface(kind: MemoryKind) -> fi::fi_hmem_iface {
    match kind {
        MemoryKind::Host => fi::FI_HMEM_SYSTEM,
        MemoryKind::Cuda => fi::FI_HMEM_CUDA,
        MemoryKind::Rocm => fi::FI_HMEM_ROCR,
        MemoryKind::LevelZero => fi::FI_HMEM_ZE,
    }
}

/// The device of memory, as fi_mr(3) has it: CUDA's own number; of Level Zero the driver's (the first) above the device's 16 bits; of the others
/// nothing.
fn device(memory: Memory) -> fi::fi_mr_attr__bindgen_ty_1 {
    // Interfaces count devices from 0, and there are few.
    let number = i32::try_from(memory.device()).unwrap_or(i32::MAX);
    match memory {
        Memory::Cuda(_) => fi::fi_mr_attr__bindgen_ty_1 { cuda: number },
        Memory::LevelZero(_) => fi::fi_mr_attr__bindgen_ty_1 { ze: number },
        _ => fi::fi_mr_attr__bindgen_ty_1 { reserved: 0 },
    }
}

fn refused(lib: &Library, len: usize, access: u64, code: i32) -> Error {
    let e = lib.error(&format!("cannot register {len} bytes of memory"), code.into());
    if code == -fi::FI_ENOMEM || code == -libc::EPERM || code == -libc::EAGAIN {
        return e.help(LOCKED);
    }
    if code == -libc::EFAULT {
        let written = access & (fi::FI_REMOTE_WRITE | fi::FI_RECV) != 0;
        let help = if written { "is it readable and writable?" } else { "is it readable?" };
        return Error::new(ErrorKind::Argument, e.message()).help(help);
    }
    e
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_fit_and_go_round() {
        for (bytes, bits) in [(8, 63), (4, 31), (2, 15), (1, 7), (0, 31), (100, 63)] {
            let mut keys = Keys::new(u64::MAX - 1, bytes);
            let most = (1u64 << bits) - 1;
            assert_eq!([keys.next(), keys.next(), keys.next(), keys.next()], [most - 1, most, 0, 1]);
        }
        let from = |seed| Keys::new(seed, 8).next();
        assert_eq!((from(7), from(7)), (7, 7), "rails choose alike");
    }

    #[test]
    fn sources_need_not_be_writable() {
        // What verbs asks the kernel for pages to write to for.
        let writes = fi::FI_REMOTE_WRITE | fi::FI_RECV | fi::FI_READ;
        assert_eq!((flags(Access::Source), flags(Access::Source) & writes), (fi::FI_WRITE, 0));
        assert_eq!(flags(Access::Target), fi::FI_WRITE | fi::FI_REMOTE_WRITE);
    }
}
