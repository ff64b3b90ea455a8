//! Registered ranges.

use super::library::{check, errno, memlock_help};
use super::objects::Objects;
use crate::error::{Error, ErrorKind, Result, argument};
use crate::transport::{Access, Registration, Remote, Source};
use libfabric_sys::verbs as ib;

struct Range {
    /// Null for a range of no bytes, of which the device need not hear.
    mr: *mut ib::ibv_mr,
    key: u32,
    start: usize,
    len: usize,
}

/// All ranges, by number.
#[derive(Default)]
pub(super) struct Registrations {
    ranges: Vec<Option<Range>>,
    free: Vec<u32>,
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
        let mut range = Range { mr: std::ptr::null_mut(), key: 0, start: start.addr(), len };
        let mut remote = Remote::default();
        if len > 0 {
            // SAFETY: the protection domain is there; the range is valid by the caller's promise.
            let mr =
                unsafe { objects.device.lib.ibv_reg_mr(objects.pd, start.cast(), len, access.cast_signed()) };
            if mr.is_null() {
                return Err(refused(len, access, errno()));
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
        let help = |access| refused(1, access, libc::EFAULT).remedy().unwrap().to_owned();
        assert_eq!([help(0), help(3)], ["is it readable?", "is it readable and writable?"]);
    }
}
