//! Memory that other processes can map: files without a name, which end when the last process closes them. Nothing
//! is left behind, however a process ends.
//!
//! *Whose it is* stands in the file's label, which the kernel shows and cannot be changed: the nonce of the endpoint that
//! made it. A process number and a descriptor may be another's by the time that they are used.
//!
//! *No page is touched that the kernel might refuse*, as this would be a signal (SIGBUS): memory is [allocated](allocate)
//! first, where a refusal is an error.

use rustix::fs::{
    CWD, FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags, fallocate, fchmod, fcntl_add_seals,
    fcntl_get_seals, ftruncate, memfd_create, readlinkat_raw,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;

/// A file of `len` zeroed bytes that can neither grow nor shrink any more, of the endpoint `owner`.
pub(crate) fn create(name: &str, owner: u64, len: usize) -> io::Result<File> {
    // To go beyond this is a signal (SIGXFSZ).
    if let Some(most) = getrlimit(Resource::Fsize).current.filter(|most| *most < len as u64) {
        let why = format!("the limit on the size of files (ulimit -f) is {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    let label = format!("circulant-{name}-{owner:016x}");
    let fd = memfd_create(label, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    // Others cannot reach it, as the kernel lets those open /proc/PID/fd that may trace the process; and if they did, not open it.
    fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
    ftruncate(&fd, len as u64)?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(File::from(fd))
}

/// Gets memory for `len` bytes of a file from `at` on. What the file holds there stays.
pub(crate) fn allocate(file: &File, at: usize, len: usize) -> io::Result<()> {
    loop {
        match fallocate(file, FallocateFlags::empty(), at as u64, len as u64) {
            Err(Errno::INTR) => {}
            // Not to be had beforehand, on systems that are not quite Linux.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
            done => return Ok(done?),
        }
    }
}

/// What to do when shared memory was refused.
pub(crate) fn remedy(e: &io::Error) -> &'static str {
    match e.raw_os_error().map(Errno::from_raw_os_error) {
        _ if e.kind() == io::ErrorKind::FileTooLarge => "ulimit -f unlimited",
        Some(Errno::MFILE | Errno::NFILE) => "raise the limit on open files (ulimit -n)",
        _ => {
            "ask for less, or give more memory: the limits of the job's control group, of a container's /dev/shm, and \
             vm.overcommit_memory with vm.overcommit_ratio count"
        }
    }
}

/// The length of a file in bytes.
pub(crate) fn size(file: &File) -> io::Result<u64> {
    file.metadata().map(|data| data.len())
}

/// The file that process `pid` has open as `fd`, if it is of the endpoint `owner`. Only one that cannot shrink will do:
/// bytes that a peer cuts off would end our process when we touch them.
pub(crate) fn file(pid: u32, fd: u32, owner: u64, write: bool) -> io::Result<File> {
    // On the stack: chunks are opened when first read from, in the midst of operations that allocate nothing.
    let mut space = [0; 40];
    let path = text(&mut space, format_args!("/proc/{pid}/fd/{fd}"))?;
    // Whatever is there instead, opening it must not wait.
    let flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let flags = flags | if write { OFlags::RDWR } else { OFlags::RDONLY };
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
        return Err(io::Error::other("the file may shrink"));
    }
    if !is_of(&file, owner)? {
        return Err(io::Error::other("the file is another endpoint's"));
    }
    Ok(file)
}

/// Whether the endpoint `owner` made this file.
fn is_of(file: &File, owner: u64) -> io::Result<bool> {
    let (mut space, mut end) = ([0; 40], [0; 40]);
    let path = text(&mut space, format_args!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let end = text(&mut end, format_args!("-{owner:016x} (deleted)"))?;
    let mut label = [std::mem::MaybeUninit::uninit(); 128];
    let (label, _) = readlinkat_raw(CWD, path, &mut label)?;
    Ok(label.starts_with(b"/memfd:circulant-") && label.ends_with(end))
}

/// What `words` come to, in `space`.
fn text<'a>(space: &'a mut [u8], words: std::fmt::Arguments<'_>) -> io::Result<&'a [u8]> {
    let all = space.len();
    let mut rest = &mut *space;
    rest.write_fmt(words)?;
    let used = all - rest.len();
    Ok(&space[..used])
}
