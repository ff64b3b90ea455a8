//! Statuses, and the error of each thread with its parts.

use circulant::error::argument;
use circulant::{Error, ErrorKind, Result};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;

/// What C calls `circulant_status_t`.
pub(crate) type Status = c_int;

/// The status of a panic: a fault of the library.
const INTERNAL: Status = -100;
/// The status of an error of a kind that is younger than the header.
const OTHER: Status = -99;

/// Statuses with their texts. The numbers never change.
const STATUSES: [(Option<ErrorKind>, Status, &CStr); 14] = [
    (None, 0, c"no error"),
    (Some(ErrorKind::Argument), -1, c"an argument is wrong"),
    (Some(ErrorKind::Mismatch), -2, c"ranks disagree about an operation, its arguments or a setting"),
    (Some(ErrorKind::Timeout), -3, c"a deadline passed"),
    (Some(ErrorKind::PeerLost), -4, c"a rank is gone, or its connection broke"),
    (Some(ErrorKind::Aborted), -5, c"another rank met an error, or this world did before"),
    (Some(ErrorKind::Transport), -6, c"the provider refused or failed something"),
    (Some(ErrorKind::Launch), -7, c"the launcher or the bootstrap failed"),
    (Some(ErrorKind::Config), -8, c"a setting cannot be understood or satisfied"),
    (Some(ErrorKind::Library), -9, c"a library is missing or too old"),
    (Some(ErrorKind::System), -10, c"the operating system refused"),
    (Some(ErrorKind::Revoked), -11, c"a rank has revoked the communicator"),
    (None, OTHER, c"an error of another kind"),
    (None, INTERNAL, c"a fault in libcirculant"),
];

/// An error as C reads it.
struct Kept {
    text: CString,
    remedy: Option<CString>,
    operation: Option<CString>,
    provider: Option<CString>,
    error: Error,
}

thread_local! {
    static LAST: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// For C, which ends texts at a zero.
fn text(from: &str) -> CString {
    CString::new(from.replace('\0', "?")).unwrap_or_default()
}

fn keep(error: Error, status: Status) -> Status {
    let kept = Kept {
        text: text(&error.to_string()),
        remedy: error.remedy().map(text),
        operation: error.operation().map(|(name, _)| text(name)),
        provider: error.provider().map(text),
        error,
    };
    // At the end of a thread there may be no place for it any more.
    let _ = LAST.try_with(|last| last.replace(Some(kept)));
    status
}

/// Runs the body of a function of the interface: no panic leaves it, and its error is kept for this thread.
pub(crate) fn guard(body: impl FnOnce() -> Result<()>) -> Status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(e)) => {
            let status = STATUSES.iter().find(|(kind, ..)| *kind == Some(e.kind()));
            keep(e, status.map_or(OTHER, |(_, status, _)| *status))
        }
        Err(panic) => {
            let what = format!("a fault in libcirculant{}", said(panic));
            let again =
                || keep(Error::new(ErrorKind::System, what).help("report it with this text"), INTERNAL);
            catch_unwind(AssertUnwindSafe(again)).unwrap_or(INTERNAL)
        }
    }
}

/// What a panic said.
fn said(panic: Box<dyn Any + Send>) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => format!(": {text}"),
        (_, Some(text)) => format!(": {text}"),
        // An unknown payload may panic again when it is dropped.
        _ => {
            std::mem::forget(panic);
            String::new()
        }
    }
}

/// What `pointer` leads to.
///
/// # Safety
/// It is null, or leads to a `T` that lives for `'a` and is not changed meanwhile.
pub(crate) unsafe fn given<'a, T>(name: &str, pointer: *const T) -> Result<&'a T> {
    // SAFETY: our caller's.
    unsafe { pointer.as_ref() }.ok_or_else(|| null_pointer(name))
}

/// As [`given`], to be written.
///
/// # Safety
/// It is null, or leads to a `T` that lives for `'a` and that only we use meanwhile.
pub(crate) unsafe fn place<'a, T>(name: &str, pointer: *mut T) -> Result<&'a mut T> {
    // SAFETY: our caller's.
    unsafe { pointer.as_mut() }.ok_or_else(|| null_pointer(name))
}

/// The text at `pointer`.
///
/// # Safety
/// It is null, or leads to a text that a zero ends and that lives for `'a`.
pub(crate) unsafe fn string<'a>(name: &str, pointer: *const c_char) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(null_pointer(name));
    }
    // SAFETY: our caller's.
    unsafe { CStr::from_ptr(pointer) }.to_str().map_err(|_| argument(format!("{name} is no UTF-8")))
}

pub(crate) fn null_pointer(name: &str) -> Error {
    argument(format!("{name} is NULL"))
}

/// Reads a part of this thread's last error.
fn part<R>(none: R, read: impl FnOnce(&Kept) -> R) -> R {
    LAST.try_with(|last| last.try_borrow().ok()?.as_ref().map(read)).ok().flatten().unwrap_or(none)
}

fn pointer(text: Option<&CString>) -> *const c_char {
    text.map_or(null(), |text| text.as_ptr())
}

fn number(rank: Option<usize>) -> c_int {
    rank.and_then(|rank| c_int::try_from(rank).ok()).unwrap_or(-1)
}

#[unsafe(no_mangle)]
extern "C" fn circulant_strerror(status: Status) -> *const c_char {
    let known = STATUSES.iter().find(|(_, s, _)| *s == status);
    known.map_or(c"no status of libcirculant", |(_, _, text)| text).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn circulant_last_error() -> *const c_char {
    part(c"".as_ptr(), |kept| kept.text.as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn circulant_error_remedy() -> *const c_char {
    part(null(), |kept| pointer(kept.remedy.as_ref()))
}

#[unsafe(no_mangle)]
extern "C" fn circulant_error_operation() -> *const c_char {
    part(null(), |kept| pointer(kept.operation.as_ref()))
}

#[unsafe(no_mangle)]
extern "C" fn circulant_error_sequence() -> u64 {
    part(0, |kept| kept.error.operation().map_or(0, |(_, sequence)| sequence))
}

#[unsafe(no_mangle)]
extern "C" fn circulant_error_provider() -> *const c_char {
    part(null(), |kept| pointer(kept.provider.as_ref()))
}

#[unsafe(no_mangle)]
extern "C" fn circulant_error_rank() -> c_int {
    part(-1, |kept| number(kept.error.rank()))
}

#[unsafe(no_mangle)]
extern "C" fn circulant_error_peer() -> c_int {
    part(-1, |kept| number(kept.error.peer()))
}

#[unsafe(no_mangle)]
extern "C" fn circulant_error_reporter() -> c_int {
    part(-1, |kept| number(kept.error.reporter()))
}

#[unsafe(no_mangle)]
extern "C" fn circulant_error_survived() -> c_int {
    part(0, |kept| c_int::from(kept.error.is_survived()))
}

#[unsafe(no_mangle)]
extern "C" fn circulant_error_round() -> c_int {
    part(-1, |kept| number(kept.error.round().map(|round| round as usize)))
}
