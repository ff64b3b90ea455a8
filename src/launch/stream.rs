//! A connection to a launcher, over whichever kind of socket.

use std::fmt::Debug;
use std::io::{ErrorKind as Io, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// What both kinds of connection can do.
pub(super) trait Stream: Read + Write + AsFd + Send + Debug {
    fn limit(&self, wait: Duration) -> std::io::Result<()>;
}

impl Stream for UnixStream {
    fn limit(&self, wait: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(wait))?;
        self.set_write_timeout(Some(wait))
    }
}

impl Stream for TcpStream {
    fn limit(&self, wait: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(wait))?;
        self.set_write_timeout(Some(wait))
    }
}

/// A connection to `host:port`, by whichever of its addresses answers.
pub(super) fn connect_to(address: &str, timeout: Duration) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::from(Io::AddrNotAvailable);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(e) => last = e,
        }
    }
    Err(last)
}
