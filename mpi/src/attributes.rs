//! Functions of the attributes by which communicators and types of the program carry what is ours.

use std::ffi::{c_int, c_void};

/// What MPI calls when an object with an attribute is copied.
pub(crate) type CopyFunction =
    unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
/// What MPI calls when an attribute ends.
pub(crate) type DeleteFunction = unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;

/// The copy function of our attributes: a copy of a communicator or of a type is another one, and gets none.
pub(crate) unsafe extern "C" fn copy(
    _comm: usize,
    _keyval: c_int,
    _extra: *mut c_void,
    _value: *mut c_void,
    _copied: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI passes room for an int.
    unsafe { *flag = 0 };
    0
}
