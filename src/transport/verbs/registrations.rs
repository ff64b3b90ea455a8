//! Registered ranges.

use super::library::{check, errno, memlock_help};
use super::objects::Objects;
use crate::error::{Error, ErrorKind, Result, argument};
use crate::transport::{Access, DmaBuf, MemoryAttributes, Registration, Remote, Source};
use libfabric_sys::verbs as ib;

struct Range {
    /// Null for a range of no bytes, of which the device need not hear.
    mr: *mut ib::ibv_mr,
    key: u32,
    start: usize,
    len: usize,
    /// Memory of a device.
    on_device: bool,
}

/// All ranges, by number.
#[derive(Default)]
pub(super) struct Registrations {
    ranges: Vec<Option<Range>>,
    free: Vec<u32>,
    /// How many are memory of devices.
    devices: usize,
}

// SAFETY: the pointers are to objects of libibverbs, which belong to no thread.
unsafe impl Send for Registrations {}

/// Verbs' flags for a range. Only what peers write to must be writable: the kernel is asked for pages to write to as soon as
/// one of these is there.
pub(super) fn flags(access: Access) -> u32 {
    match access {
        Access::Source => 0,
        Access::Target => ib::IBV_ACCESS_LOCAL_WRITE | ib::IBV_ACCESS_REMOTE_WRITE,
    }
}

impl Registrations {
    /// Registers `len` bytes at `start` for `access`, a set of verbs' flags.
    ///
    /// # Safety
    /// As [`crate::transport::Transport::register`].
    pub(super) unsafe fn register(
        &mut self,
        objects: &Objects,
        start: *mut u8,
        len: usize,
        access: u32,
    ) -> Result<(Registration, Remote)> {
        // SAFETY: the protection domain is there; the range is valid by the caller's promise.
        let register =
            || unsafe { objects.device.lib.ibv_reg_mr(objects.pd, start.cast(), len, access.cast_signed()) };
        self.add((start, len), false, register, |code| refused(len, access, code))
    }

    /// As [`Registrations::register`] of a target, for memory of a device: by its file, or by its addresses, which need a driver that
    /// knows them.
    ///
    /// # Safety
    /// As [`crate::transport::Transport::register_memory`].
    pub(super) unsafe fn register_device(
        &mut self,
        objects: &Objects,
        (start, len): (*mut u8, usize),
        attributes: &MemoryAttributes,
    ) -> Result<(Registration, Remote)> {
        let (lib, pd) = (objects.device.lib, objects.pd);
        let access = flags(Access::Target).cast_signed();
        let register = || match attributes.dmabuf {
            Some(DmaBuf { fd, offset }) => {
                let range = (start.expose_provenance() as u64, len);
                // SAFETY: the protection domain is there; the file and what is in it are valid by the caller's promise.
                unsafe { lib.ibv_reg_dmabuf_mr(pd, (fd, offset), range, access) }
            }
            // SAFETY: as above, of the range.
            None => unsafe { lib.ibv_reg_mr(pd, start.cast(), len, access) },
        };
        self.add((start, len), true, register, |code| device_refused(len, attributes, code))
    }

    /// How many ranges are memory of devices.
    pub(super) fn devices(&self) -> usize {
        self.devices
    }

    /// Adds the range that `register` makes, or what `refused` says of the number of its error.
    fn add(
        &mut self,
        (start, len): (*mut u8, usize),
        on_device: bool,
        register: impl FnOnce() -> *mut ib::ibv_mr,
        refused: impl FnOnce(i32) -> Error,
    ) -> Result<(Registration, Remote)> {
        let mut range = Range { mr: std::ptr::null_mut(), key: 0, start: start.addr(), len, on_device };
        let mut remote = Remote::default();
        if len > 0 {
            let mr = register();
            if mr.is_null() {
                return Err(refused(errno()));
            }
            // SAFETY: just made.
            let (local, theirs) = unsafe { ((*mr).lkey, (*mr).rkey) };
            (range.mr, range.key) = (mr, local);
            // The device finds its way back from there.
            remote = Remote { base: start.expose_provenance() as u64, key: theirs.into() };
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

    /// Ends one registration. On an error it stays.
    pub(super) fn deregister(&mut self, lib: &ib::Verbs, registration: Registration) -> Result<()> {
        let slot = self.ranges.get_mut(registration.0 as usize);
        let Some(range) = slot.as_ref().and_then(|r| r.as_ref()) else {
            return Err(argument(format!("registration {} is not one of this endpoint's", registration.0)));
        };
        if !range.mr.is_null() {
            // SAFETY: registered, since it is in the table; it leaves the table below.
            check("ending a memory registration", unsafe { lib.ibv_dereg_mr(range.mr) })?;
        }
        self.devices -= usize::from(range.on_device);
        if let Some(slot) = slot {
            *slot = None;
        }
        self.free.push(registration.0);
        Ok(())
    }

    /// Ends all registrations; goes on after a failure, and reports the first.
    pub(super) fn close(&mut self, lib: &ib::Verbs) -> Result<()> {
        let mut outcome = Ok(());
        for i in 0..self.ranges.len() {
            if self.ranges[i].is_some() {
                let number = u32::try_from(i).unwrap_or(u32::MAX);
                outcome = outcome.and(self.deregister(lib, Registration(number)));
            }
        }
        outcome
    }

    /// The key to put `source` with.
    #[inline]
    pub(super) fn key(&self, source: &Source) -> Result<u32> {
        let range = self.ranges.get(source.registration.0 as usize).and_then(Option::as_ref);
        let start = source.ptr.addr();
        match range {
            Some(r) if start >= r.start && source.len <= r.len && start - r.start <= r.len - source.len => {
                Ok(r.key)
            }
            Some(_) => Err(outside(source)),
            None => Err(unknown(source)),
        }
    }
}

#[cold]
fn outside(source: &Source) -> Error {
    let (len, number) = (source.len, source.registration.0);
    argument(format!("a source of {len} bytes lies outside its registration {number}"))
}

#[cold]
fn unknown(source: &Source) -> Error {
    argument(format!("registration {} of a source is unknown", source.registration.0))
}

fn refused(len: usize, access: u32, code: i32) -> Error {
    let why = std::io::Error::from_raw_os_error(code);
    let what = format!("cannot register {len} bytes of memory: {why}");
    let e = |kind| Error::new(kind, what.clone()).over(super::NAME);
    match code {
        libc::ENOMEM | libc::EPERM | libc::EAGAIN => e(ErrorKind::Transport).help(memlock_help()),
        libc::EFAULT if access == 0 => e(ErrorKind::Argument).help("is it readable?"),
        libc::EFAULT => e(ErrorKind::Argument).help("is it readable and writable?"),
        _ => e(ErrorKind::Transport),
    }
}

fn device_refused(len: usize, attributes: &MemoryAttributes, code: i32) -> Error {
    let why = std::io::Error::from_raw_os_error(code);
    let what = format!("cannot register {len} bytes of {}: {why}", attributes.memory);
    let e = Error::new(ErrorKind::Transport, what).over(super::NAME);
    match (code, attributes.dmabuf) {
        (libc::EOPNOTSUPP | libc::EPROTONOSUPPORT, Some(_)) => e.help(
            "this device, its driver or libibverbs (before rdma-core 34) registers no dma-buf: take newer ones, or a module that tells \
             the driver the memory's addresses (nvidia_peermem) and name no file",
        ),
        (libc::EFAULT | libc::EINVAL, None) => e.help(
            "the driver does not know these addresses: name the memory's dma-buf (MemoryAttributes::in_file), or load the module that \
             tells them (nvidia_peermem)",
        ),
        (libc::ENOMEM | libc::EPERM | libc::EAGAIN, _) => e.help(memlock_help()),
        _ => e,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_need_not_be_writable() {
        assert_eq!(flags(Access::Source), 0);
        assert_eq!(flags(Access::Target) & ib::IBV_ACCESS_REMOTE_READ, 0, "peers put, and do not read");
    }

    #[test]
    fn what_cannot_be_locked_says_the_limit_and_how_to_raise_it() {
        let e = refused(4096, 0, libc::ENOMEM);
        let help = e.remedy().unwrap();
        assert!(help.contains("locked memory is") && help.contains("ulimit -l unlimited"), "{help}");
        let device = |file, code| {
            let attributes = MemoryAttributes::new(crate::transport::Memory::Cuda(1));
            let attributes = if file { attributes.in_file(3, 0) } else { attributes };
            let e = device_refused(4096, &attributes, code);
            assert!(e.message().contains("4096 bytes of CUDA memory (device 1)"), "{e}");
            e.remedy().unwrap().to_owned()
        };
        assert!(device(true, libc::EOPNOTSUPP).contains("registers no dma-buf"));
        assert!(device(false, libc::EFAULT).contains("in_file"));
        assert!(device(false, libc::ENOMEM).contains("ulimit -l"));
        let help = |access| refused(1, access, libc::EFAULT).remedy().unwrap().to_owned();
        assert_eq!([help(0), help(3)], ["is it readable?", "is it readable and writable?"]);
    }
}
