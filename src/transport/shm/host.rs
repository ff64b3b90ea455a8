//! How an endpoint is opened, and what tells machines and endpoints apart.

use crate::error::Result;
use crate::hash::digest;
use crate::transport::Wait;
use std::fs::File;
use std::io::Read;

/// How to open a [`Shm`](super::Shm).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    /// Our rank.
    pub(crate) rank: u32,
    /// The node-local ranks, sorted, this one included.
    pub(crate) locals: &'a [u32],
    /// How to wait; `None`: spin for a while if there are enough cores.
    pub(crate) wait: Option<Wait>,
}

/// What tells this machine, and its space of process numbers, from others.
pub fn host() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut host = read("/proc/sys/kernel/random/boot_id") + &read("/proc/sys/kernel/hostname");
    if let Ok(space) = std::fs::read_link("/proc/self/ns/pid") {
        host.push_str(&space.to_string_lossy());
    }
    digest(host.as_bytes())
}

/// The name of this machine.
pub(crate) fn name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

/// A number that cannot be guessed.
pub(super) fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
