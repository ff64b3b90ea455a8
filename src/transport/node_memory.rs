//! What it means that memory of another rank of the node cannot be had.

use crate::error::{Error, ErrorKind};
use std::io;

/// The error of a rank whose process has ended, if its memory cannot be had for that: descriptors go with their process.
pub(super) fn has_ended(peer: u32, e: &io::Error) -> Option<Error> {
    let what = || format!("the process of rank {peer} has ended");
    let error = || Error::new(ErrorKind::PeerLost, what()).with_peer(peer as usize).over("shm");
    (e.kind() == io::ErrorKind::NotFound).then(error)
}

/// The error where memory of a rank, whose process is `pid`, cannot be mapped.
pub(super) fn unmappable(peer: u32, pid: u32, e: &io::Error) -> Error {
    refused("mapped", (peer, pid), e)
}

/// The error where memory of a rank, whose process is `pid`, cannot be read.
pub(super) fn unreadable(peer: u32, pid: u32, e: &io::Error) -> Error {
    refused("read", (peer, pid), e)
}

fn refused(what: &str, (peer, pid): (u32, u32), e: &io::Error) -> Error {
    let what = || format!("the memory of rank {peer} (process {pid}) cannot be {what}: {e}");
    let error = || Error::new(ErrorKind::Transport, what()).with_peer(peer as usize).over("shm");
    has_ended(peer, e).unwrap_or_else(error)
}
