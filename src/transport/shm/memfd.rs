//! Memory that other processes can map: files without a name, which end with the last who has them open. Nothing
//! is left behind, however a process ends.

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// A file of `len` zeroed bytes that can neither grow nor shrink any more.
pub(super) fn create(name: &str, len: usize) -> io::Result<File> {
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, len as u64)?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(File::from(fd))
}

/// Maps the file that process `pid` has open as `fd`. Only one that cannot shrink will do: bytes that a peer cuts
/// off would end our process when we touch them.
pub(super) fn open(pid: u32, fd: u32, write: bool) -> io::Result<MmapRaw> {
    let path = format!("/proc/{pid}/fd/{fd}");
    // Whatever stands there instead, opening it must not wait.
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)?;
    if !fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
        return Err(io::Error::other("the file may shrink"));
    }
    if write { MmapOptions::new().map_raw(&file) } else { MmapOptions::new().map_raw_read_only(&file) }
}
