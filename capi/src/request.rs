//! Requests: non-blocking calls and persistent operations.

use crate::status::{Status, guard, place};
use circulant::Result;
use circulant::comm::{UnscopedPersistent, UnscopedRequest};
use circulant::error::argument;
use std::ffi::c_int;
use std::ptr::null_mut;

/// What C calls `circulant_request_t`.
pub(crate) enum Request {
    Once(UnscopedRequest),
    Often(UnscopedPersistent),
}

impl Request {
    /// For C, until it has finished or is freed.
    pub(crate) fn give(self) -> *mut Self {
        Box::into_raw(Box::new(self))
    }

    fn test(&mut self) -> Result<bool> {
        match self {
            Self::Once(request) => request.test(),
            Self::Often(often) => often.test(),
        }
    }
}

/// Looks at `request`; where it has finished for good it is given back.
///
/// # Safety
/// What is not null was made by [`Request::give`], and comes back once.
unsafe fn test(request: &mut *mut Request) -> Result<bool> {
    // SAFETY: our caller's.
    let Some(one) = (unsafe { request.as_mut() }) else { return Ok(true) };
    let finished = one.test()?;
    if finished && matches!(one, Request::Once(_)) {
        // SAFETY: as above; `one` is not used any more.
        drop(unsafe { Box::from_raw(std::mem::replace(request, null_mut())) });
    }
    Ok(finished)
}

/// Waits for `request`; one that is not persistent is given back.
///
/// # Safety
/// As [`test`].
unsafe fn wait(request: &mut *mut Request) -> Result<()> {
    // An error that lets it go on, as inside an operator, comes out here.
    // SAFETY: our caller's.
    if unsafe { test(request)? } {
        return Ok(());
    }
    // SAFETY: our caller's.
    match unsafe { request.as_mut() } {
        None => Ok(()),
        Some(Request::Often(often)) => often.wait(),
        Some(Request::Once(_)) => {
            // SAFETY: our caller's.
            let one = unsafe { Box::from_raw(std::mem::replace(request, null_mut())) };
            match *one {
                Request::Once(one) => one.wait(),
                Request::Often(_) => Ok(()),
            }
        }
    }
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
        unsafe {
            if n == 0 {
                return Ok(());
            }
            let requests = std::slice::from_raw_parts_mut(place("requests", requests)?, n);
            requests.iter_mut().try_for_each(|request| wait(request))
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_start(request: *mut Request) -> Status {
    guard(|| {
        // SAFETY: the pointer is as the header says.
        match unsafe { place("request", request)? } {
            Request::Often(often) => often.start(),
            Request::Once(_) => Err(argument("this request is not persistent: it began when it was made")),
        }
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
