//! Registered memory.

use crate::comm::Comm;
use crate::status::{Status, given, guard, place};
use circulant::Buf;
use circulant::error::argument;
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

/// What was allocated, by its address.
static BUFFERS: Mutex<Option<HashMap<usize, Buf<u8>>>> = Mutex::new(None);

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_alloc(comm: *const Comm, bytes: usize, memory: *mut *mut c_void) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let (comm, place) = (given("comm", comm)?, place("memory", memory)?);
            // Each has an address of its own, also one of no bytes.
            let mut buf = comm.0.alloc::<u8>(bytes.max(1))?;
            let pointer = buf.as_mut_ptr();
            let mut buffers = BUFFERS.lock().unwrap_or_else(PoisonError::into_inner);
            buffers.get_or_insert_default().insert(pointer.addr(), buf);
            *place = pointer.cast();
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_free(memory: *mut *mut c_void) -> Status {
    guard(|| {
        // SAFETY: the pointer is as the header says.
        unsafe {
            let place = place("memory", memory)?;
            if place.is_null() {
                return Ok(());
            }
            let mut buffers = BUFFERS.lock().unwrap_or_else(PoisonError::into_inner);
            let buf = buffers.as_mut().and_then(|buffers| buffers.remove(&place.addr()));
            drop(buffers);
            *place = null_mut();
            match buf {
                Some(buf) => {
                    drop(buf);
                    Ok(())
                }
                None => {
                    Err(argument("this memory was not allocated by circulant_alloc, or was freed before"))
                }
            }
        }
    })
}
