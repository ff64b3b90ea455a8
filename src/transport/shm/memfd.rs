//! Memory that other processes can map: files without a name, which end with the last who has them open. Nothing
//! is left behind, however a process ends.

use super::mapping::Mapping;
use rustix::fs::{
    MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

/// A file of `len` zeroed bytes that can neither grow nor shrink any more.
pub(super) fn create(name: &str, len: usize) -> io::Result<File> {
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, len as u64)?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(File::from(fd))
}

/// Maps the file that process `pid` has open as `fd`. Only one that cannot shrink will do: bytes that a peer cuts
/// off would end our process when we touch them.
pub(super) fn open(pid: u32, fd: u32, write: bool) -> io::Result<Mapping> {
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
    let len = usize::try_from(fstat(&file)?.st_size).map_err(io::Error::other)?;
    Mapping::new(file.as_fd(), len, write)
}

/// Such a file, mapped here, with all its pages present.
pub(super) fn fresh(name: &str, len: usize) -> io::Result<(File, Mapping)> {
    let file = create(name, len)?;
    let map = Mapping::new(file.as_fd(), len, true)?;
    map.populate(true);
    Ok((file, map))
}
