//! Memory that other processes can map: files without a name, which end with the last who has them open. Nothing
//! is left behind, however a process ends.

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{
    MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create,
};
use std::fs::File;
use std::io::{self, Write};

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
    // On the stack: chunks are opened when first read from, in the midst of operations that allocate nothing.
    let mut path = [0; 40];
    let mut rest = path.as_mut_slice();
    write!(rest, "/proc/{pid}/fd/{fd}")?;
    let unused = rest.len();
    let path = &path[..path.len() - unused];
    // Whatever stands there instead, opening it must not wait.
    let flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let flags = flags | if write { OFlags::RDWR } else { OFlags::RDONLY };
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    if !fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
        return Err(io::Error::other("the file may shrink"));
    }
    if write { MmapOptions::new().map_raw(&file) } else { MmapOptions::new().map_raw_read_only(&file) }
}
