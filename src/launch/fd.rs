//! Taking over a descriptor whose number a launcher left in the environment.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// A descriptor of our own for the socket with the number `fd`, which a launcher left open for us. The
/// original stays open (its owner may close it) but is no longer inherited by programs we start.
///
/// # Errors
/// When `fd` is not open, or not a socket.
pub(super) fn adopt_socket(fd: RawFd) -> io::Result<UnixStream> {
    // SAFETY: F_DUPFD_CLOEXEC touches no memory of ours and is harmless for any number; it fails with EBADF
    // where `fd` is not open.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us `copy`, a number that nothing else in this process can own.
    let owned = unsafe { OwnedFd::from_raw_fd(copy) };
    let stream = UnixStream::from(owned);
    // Asks for SO_ERROR: fails with ENOTSOCK on all but sockets.
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    // SAFETY: F_SETFD touches no memory of ours and changes only what a later exec does with `fd`, which
    // was a socket a moment ago. That it fails is no harm.
    unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn only_open_sockets() {
        let (a, mut b) = UnixStream::pair().unwrap();
        let mut ours = adopt_socket(a.as_raw_fd()).unwrap();
        drop(a);
        ours.write_all(b"x").unwrap();
        let mut got = [0];
        b.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"x");
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(adopt_socket(file.as_raw_fd()).is_err());
        for bad in [-1, i32::MAX, i32::MIN] {
            assert!(adopt_socket(bad).is_err());
        }
    }
}
