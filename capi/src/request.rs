//! Requests: non-blocking calls and persistent operations.

use crate::status::{Status, guard, place};
use circulant::Result;
use circulant::comm::{
    self, MemoryPlace, Pending, Persistent, UnscopedPersistent, UnscopedRequest, wait_all, wait_any,
};
use circulant::error::argument;
use std::ffi::c_int;
use std::ptr::null_mut;

/// What C calls `circulant_request_t`.
pub(crate) struct Request {
    call: Call,
    /// It was begun, and did not say yet that it has finished.
    under_way: bool,
}

enum Call {
    Once(UnscopedRequest),
    Often(UnscopedPersistent),
    /// On memory of a device.
    OwnedOnce(Box<dyn Pending>),
    OwnedOften(Box<dyn Startable>),
}

/// A persistent operation that owns its buffers.
trait Startable: Pending {
    fn start_again(&mut self) -> Result<()>;
}

impl<M: MemoryPlace> Startable for Persistent<u8, M> {
    fn start_again(&mut self) -> Result<()> {
        self.start()
    }
}

impl Request {
    /// A call that has begun.
    pub(crate) fn once(call: UnscopedRequest) -> Self {
        Self { call: Call::Once(call), under_way: true }
    }

    /// An operation that was not started.
    pub(crate) fn often(operation: UnscopedPersistent) -> Self {
        Self { call: Call::Often(operation), under_way: false }
    }

    /// As [`Request::once`], of a call that owns its buffers.
    pub(crate) fn owned_once<M: MemoryPlace>(call: comm::Request<u8, M>) -> Self {
        Self { call: Call::OwnedOnce(Box::new(call)), under_way: true }
    }

    /// As [`Request::often`], of an operation that owns its buffers.
    pub(crate) fn owned_often<M: MemoryPlace>(operation: Persistent<u8, M>) -> Self {
        Self { call: Call::OwnedOften(Box::new(operation)), under_way: false }
    }

    /// For C, until it has finished or is freed.
    pub(crate) fn give(self) -> *mut Self {
        Box::into_raw(Box::new(self))
    }

    fn pending(&mut self) -> &mut dyn Pending {
        match &mut self.call {
            Call::Once(call) => call,
            Call::Often(operation) => operation,
            Call::OwnedOnce(call) => &mut **call,
            Call::OwnedOften(operation) => &mut **operation,
        }
    }

    fn is_persistent(&self) -> bool {
        matches!(self.call, Call::Often(_) | Call::OwnedOften(_))
    }

    /// Whether it has finished.
    fn test(&mut self) -> Result<bool> {
        self.under_way = self.under_way && !self.pending().test()?;
        Ok(!self.under_way)
    }
}

/// Gives back one that has finished, unless it is persistent.
///
/// # Safety
/// What is not null was made by [`Request::give`], and comes back once.
unsafe fn end(request: &mut *mut Request) {
    // SAFETY: our caller's.
    if unsafe { request.as_ref() }.is_some_and(|one| !one.is_persistent()) {
        // SAFETY: our caller's; the reference above is not used any more.
        drop(unsafe { Box::from_raw(std::mem::replace(request, null_mut())) });
    }
}

/// Looks at `request`; where it has finished for good it is given back.
///
/// # Safety
/// As [`end`].
unsafe fn test(request: &mut *mut Request) -> Result<bool> {
    // SAFETY: our caller's.
    let finished = unsafe { request.as_mut() }.map_or(Ok(true), Request::test)?;
    if finished {
        // SAFETY: our caller's.
        unsafe { end(request) };
    }
    Ok(finished)
}

/// Waits for `request`; one that is not persistent is given back.
///
/// # Safety
/// As [`end`].
unsafe fn wait(request: &mut *mut Request) -> Result<()> {
    // An error that lets it go on, as inside an operator, comes out here.
    // SAFETY: our caller's.
    if unsafe { test(request)? } {
        return Ok(());
    }
    // SAFETY: our caller's.
    let Some(one) = (unsafe { request.as_mut() }) else { return Ok(()) };
    if one.is_persistent() {
        match &mut one.call {
            Call::Often(operation) => operation.wait()?,
            _ => wait_all(&mut [one.pending()])?,
        }
        one.under_way = false;
        return Ok(());
    }
    // SAFETY: our caller's; `one` is not used any more.
    match unsafe { Box::from_raw(std::mem::replace(request, null_mut())) }.call {
        Call::Once(call) => call.wait(),
        Call::OwnedOnce(mut call) => wait_all(&mut [&mut *call]),
        Call::Often(_) | Call::OwnedOften(_) => Ok(()),
    }
}

/// `n` requests.
///
/// # Safety
/// `requests` is null, or leads to as many that live for `'a` and that only we use meanwhile.
unsafe fn all<'a>(n: usize, requests: *mut *mut Request) -> Result<&'a mut [*mut Request]> {
    if n == 0 {
        return Ok(&mut []);
    }
    // SAFETY: our caller's.
    unsafe { Ok(std::slice::from_raw_parts_mut(place("requests", requests)?, n)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_test(request: *mut *mut Request, finished: *mut c_int) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let finished = place("finished", finished)?;
            *finished = c_int::from(test(place("request", request)?)?);
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_wait(request: *mut *mut Request) -> Status {
    guard(|| {
        // SAFETY: the pointer is as the header says.
        unsafe { wait(place("request", request)?) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_waitall(n: usize, requests: *mut *mut Request) -> Status {
    guard(|| {
        // SAFETY: the pointer is as the header says.
        unsafe { all(n, requests)?.iter_mut().try_for_each(|request| wait(request)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_testall(
    n: usize,
    requests: *mut *mut Request,
    finished: *mut c_int,
) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let (requests, finished) = (all(n, requests)?, place("finished", finished)?);
            let mut have = true;
            for one in requests.iter().filter_map(|request| request.as_mut()) {
                have &= one.test()?;
            }
            if have {
                requests.iter_mut().for_each(|request| end(request));
            }
            *finished = c_int::from(have);
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_waitany(n: usize, requests: *mut *mut Request, index: *mut usize) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says: no request is there twice.
        unsafe {
            let (requests, index) = (all(n, requests)?, place("index", index)?);
            let there = requests.iter().enumerate().filter_map(|(i, request)| Some((i, request.as_mut()?)));
            let (places, mut pending): (Vec<usize>, Vec<&mut dyn Pending>) =
                there.filter(|(_, one)| one.under_way).map(|(i, one)| (i, one.pending())).unzip();
            let first = wait_any(&mut pending)?.and_then(|which| places.get(which).copied());
            if let Some(request) = first.and_then(|first| requests.get_mut(first)) {
                test(request)?;
            }
            *index = first.unwrap_or(n);
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_start(request: *mut Request) -> Status {
    guard(|| {
        // SAFETY: the pointer is as the header says.
        let request = unsafe { place("request", request)? };
        match &mut request.call {
            Call::Often(operation) => operation.start()?,
            Call::OwnedOften(operation) => operation.start_again()?,
            Call::Once(_) | Call::OwnedOnce(_) => {
                return Err(argument("this request is not persistent: it began when it was made"));
            }
        }
        request.under_way = true;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_request_free(request: *mut *mut Request) -> Status {
    guard(|| {
        // SAFETY: the pointer is as the header says: what is not null was given by a function here, and comes back once.
        unsafe {
            let place = place("request", request)?;
            if !place.is_null() {
                drop(Box::from_raw(std::mem::replace(place, null_mut())));
            }
            Ok(())
        }
    })
}
