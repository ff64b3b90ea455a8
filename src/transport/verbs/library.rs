//! libibverbs, loaded, and its errors in words.

use crate::error::{Error, ErrorKind, Result};
use libfabric_sys::verbs::Verbs;

/// The lower half of a number: a key of verbs, which has 32 bits, or what stands there of a request's number.
#[inline]
pub(super) fn low(number: u64) -> u32 {
    (number & 0xFFFF_FFFF) as u32
}

/// The library.
///
/// # Errors
/// When it is not installed.
pub(super) fn library() -> Result<&'static Verbs> {
    Verbs::load().map_err(|e| {
        let text = e.to_string();
        let (what, help) = text.split_once("; ").unwrap_or((&text, ""));
        Error::new(ErrorKind::Library, what).help(help)
    })
}

/// Whether libibverbs is installed.
///
/// # Errors
/// When it is not.
pub fn available() -> Result<()> {
    library().map(drop)
}

/// The number of the error that the last call of this thread left.
pub(super) fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// An error of the call `what`, of the number `code`; calls that answer -1 leave it in `errno`.
pub(super) fn error(what: &str, code: i32) -> Error {
    let code = if code == -1 { errno() } else { code.abs() };
    let e = Error::new(ErrorKind::Transport, format!("{what}: {}", std::io::Error::from_raw_os_error(code)))
        .over(super::NAME);
    match code {
        libc::ENOMEM | libc::EAGAIN | libc::EPERM => e.help(memlock_help()),
        _ => e,
    }
}

/// `Ok` of 0; else the error of `what`.
pub(super) fn check(what: &str, code: i32) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(error(what, code)) }
}

/// `object`, if it is there.
pub(super) fn made<T>(what: &str, object: *mut T) -> Result<*mut T> {
    if object.is_null() { Err(error(what, errno())) } else { Ok(object) }
}

/// The limit on locked memory in bytes; `None`: there is none.
pub(super) fn memlock() -> Option<u64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
    limit.current
}

/// What to do when memory cannot be locked.
pub(super) fn memlock_help() -> String {
    let limit = memlock().map_or_else(|| "unlimited".to_owned(), |bytes| format!("{} KiB", bytes >> 10));
    format!(
        "the limit on locked memory is {limit} here: raise it (ulimit -l unlimited; for good, \"* - memlock unlimited\" in \
         /etc/security/limits.conf, or LimitMEMLOCK=infinity in the unit of the service that starts ranks)"
    )
}
