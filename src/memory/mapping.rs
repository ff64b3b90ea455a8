//! A shared file in our memory, on huge pages where the kernel gives them.
//!
//! Files without a name stand on small pages unless the machine's settings say otherwise (`shmem_enabled`), and with small
//! pages a copy of 64 MB takes half as long again, because each page must be looked up, in a virtual machine twice. From
//! Linux 6.1 on a process may ask for huge ones (MADV_COLLAPSE). With a page touched in each of them first, that takes no longer
//! than to make small pages present. Readers profit too, if the file lies in their memory as it lies on its pages: so
//! mappings begin at borders of huge pages.

use super::memfd;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::fstat;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

/// Bytes of a huge page on x86-64 and most others. Where it has another size, alignment to this does no harm.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Bytes of a page. Where pages are larger, what is rounded to this is advice, or rounded by the kernel.
const PAGE_BYTES: usize = 4096;
/// Bytes that one call asks huge pages for: the kernel interrupts all processors once per call. Chosen, with the time
/// below.
const COLLAPSE_BYTES: usize = 64 << 20;
/// A call that takes longer than this moves other pages out of the way: no huge pages are asked for after it. A call takes 19 ms
/// where pages are free (64 MB, Linux 6.1 in a virtual machine of 2 cores).
const SLOW_COLLAPSE: Duration = Duration::from_millis(200);

/// A mapping of a file or a part of it, shared with all processes that map it. It ends when this is dropped.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: an address and a length, of memory that is there until the value is dropped; it is touched by raw
// pointers only, by rules that each user states.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a file from `at` on, a page's begin. The kernel lays small mappings side by side, so that they share the tables of its pages.
    ///
    /// # Errors
    /// When the file is shorter, or as the kernel says.
    pub(crate) fn part(file: BorrowedFd<'_>, at: usize, len: usize, write: bool) -> io::Result<Self> {
        let access = if write { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let size = usize::try_from(fstat(file)?.st_size).map_err(io::Error::other)?;
        // The kernel ends a process that touches a page behind the end of its file.
        if at.checked_add(len).is_none_or(|end| end > size) {
            return Err(io::Error::other("the file is shorter"));
        }
        let at = libc::off_t::try_from(at).map_err(io::Error::other)?;
        // SAFETY: the kernel chooses a range of addresses that nothing else is mapped to.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), at) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), len })
    }

    /// Maps the first `len` bytes of a file.
    pub(crate) fn new(file: BorrowedFd<'_>, len: usize, write: bool) -> io::Result<Self> {
        if len == 0 {
            return Err(io::Error::other("a mapping of no bytes"));
        }
        if len < HUGE_PAGE_BYTES {
            return Self::part(file, 0, len, write);
        }
        let aligned = HUGE_PAGE_BYTES;
        let whole = len.checked_next_multiple_of(PAGE_BYTES).and_then(|n| n.checked_add(aligned));
        let whole = whole.ok_or_else(|| io::Error::other("a mapping beyond all memory"))?;
        let reserve = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new range of addresses, without access.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), whole, libc::PROT_NONE, reserve, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = start.cast::<u8>();
        let base = start.wrapping_add(start.align_offset(aligned));
        let access = if write { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: replaces a part of the range above, which is ours alone: `base` is less than `aligned` bytes behind its start.
        let mapped = unsafe { libc::mmap(base.cast(), len, access, flags, file.as_raw_fd(), 0) };
        let failed = (mapped == libc::MAP_FAILED).then(io::Error::last_os_error);
        let end = base.wrapping_add(len.next_multiple_of(PAGE_BYTES));
        let rest = [(start, base), (if failed.is_some() { base } else { end }, start.wrapping_add(whole))];
        for (from, to) in rest.into_iter().filter(|(from, to)| from < to) {
            // SAFETY: what is left of the range above, which has no users.
            unsafe { libc::munmap(from.cast(), to.addr() - from.addr()) };
        }
        match failed {
            Some(e) => Err(e),
            None => Ok(Self { base, len }),
        }
    }

    /// Maps the whole [file](memfd::file) that process `pid` has open as `fd`, if it is of the endpoint `owner`.
    pub(crate) fn open(pid: u32, fd: u32, owner: u64, write: bool) -> io::Result<Self> {
        let file = memfd::file(pid, fd, owner, write)?;
        let len = usize::try_from(fstat(&file)?.st_size).map_err(io::Error::other)?;
        Self::new(file.as_fd(), len, write)
    }

    /// A file of our own, the endpoint `owner`, of `len` zeroed bytes, and its mapping, with all pages present.
    pub(crate) fn fresh(name: &str, owner: u64, len: usize) -> io::Result<(File, Self)> {
        let file = memfd::create(name, owner, len)?;
        let map = Self::new(file.as_fd(), len, true)?;
        map.populate(&file, true)?;
        Ok((file, map))
    }

    /// Its first byte.
    pub(crate) fn as_mut_ptr(&self) -> *mut u8 {
        self.base
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Makes all pages of a fresh file present, which no other process knows yet; huge ones if `huge` says so and there are
    /// some.
    ///
    /// # Errors
    /// When there is no memory for them.
    fn populate(&self, file: &File, huge: bool) -> io::Result<()> {
        if huge {
            self.make_huge(file)?;
        }
        let Err(e) = self.advise(0, self.len, libc::MADV_POPULATE_WRITE) else { return Ok(()) };
        // This says why there are no pages, or gets them where the kernel is too old (before Linux 5.14) for the other.
        memfd::allocate(file, 0, self.len)?;
        if e.raw_os_error() != Some(libc::EINVAL) {
            return Err(e);
        }
        (0..self.len).step_by(PAGE_BYTES).for_each(|at| self.touch(at));
        Ok(())
    }

    /// Asks for huge pages.
    fn make_huge(&self, file: &File) -> io::Result<()> {
        // Advice: small pages do, too.
        let _ = self.advise(0, self.len, libc::MADV_HUGEPAGE);
        let whole = self.len / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        for at in (0..whole).step_by(COLLAPSE_BYTES) {
            let n = COLLAPSE_BYTES.min(whole - at);
            for page in (at..at + n).step_by(HUGE_PAGE_BYTES) {
                memfd::allocate(file, page, PAGE_BYTES)?;
                self.touch(page);
            }
            let begun = Instant::now();
            if self.advise(at, n, libc::MADV_COLLAPSE).is_err() || begun.elapsed() > SLOW_COLLAPSE {
                break;
            }
        }
        Ok(())
    }

    /// Writes to the page at `at` of a fresh file, for which there is memory.
    fn touch(&self, at: usize) {
        debug_assert!(at < self.len);
        // SAFETY: inside the mapping, which may be written; no other process knows it.
        unsafe { self.base.add(at).write_volatile(0) };
    }

    /// Makes the pages of `len` bytes from `at` present, as advice: a page that is not is met when it is first used.
    pub(crate) fn populate_range(&self, at: usize, len: usize) {
        let at = at.min(self.len);
        let _ = self.advise(at, len.min(self.len - at), libc::MADV_POPULATE_WRITE);
    }

    /// Makes all pages present for reading.
    pub(crate) fn populate_for_reading(&self) {
        let _ = self.advise(0, self.len, libc::MADV_POPULATE_READ);
    }

    fn advise(&self, at: usize, len: usize, advice: libc::c_int) -> io::Result<()> {
        debug_assert!(at + len <= self.len);
        // SAFETY: inside the mapping; none of these pieces of advice changes what stands in it.
        match unsafe { libc::madvise(self.base.wrapping_add(at).cast(), len, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, which has no users any more: they hold this value.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the mapping on huge pages, as the kernel counts them.
    fn huge_bytes(map: &Mapping) -> usize {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines =
            smaps.lines().skip_while(|l| !l.starts_with(&format!("{:x}-", map.as_mut_ptr().addr())));
        let line = lines.find(|l| l.starts_with("ShmemPmdMapped:")).unwrap();
        let kilobytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kilobytes << 10
    }

    #[test]
    fn all_see_the_same_bytes_on_any_pages() {
        for len in [
            1,
            PAGE_BYTES,
            HUGE_PAGE_BYTES - 1,
            HUGE_PAGE_BYTES,
            2 * HUGE_PAGE_BYTES,
            2 * HUGE_PAGE_BYTES + 5,
        ] {
            for huge in [false, true] {
                let file = memfd::create("test", 7, len).unwrap();
                let map = Mapping::new(file.as_fd(), len, true).unwrap();
                map.populate(&file, huge).unwrap();
                assert!(len < HUGE_PAGE_BYTES || map.as_mut_ptr().addr().is_multiple_of(HUGE_PAGE_BYTES));
                let other = Mapping::new(file.as_fd(), len, false).unwrap();
                other.populate_for_reading();
                for at in [0, len / 2, len - 1] {
                    // SAFETY: inside both mappings, which no other thread knows.
                    unsafe {
                        assert_eq!(map.as_mut_ptr().add(at).read_volatile(), 0);
                        map.as_mut_ptr().add(at).write_volatile(7);
                        assert_eq!(other.as_mut_ptr().add(at).read_volatile(), 7);
                        map.as_mut_ptr().add(at).write_volatile(0);
                    }
                }
                println!("{len} {huge}: {} {} bytes on huge pages", huge_bytes(&map), huge_bytes(&other));
                assert!(huge_bytes(&map) <= len && huge_bytes(&other) <= huge_bytes(&map));
            }
        }
        let file = memfd::create("test", 7, PAGE_BYTES).unwrap();
        Mapping::new(file.as_fd(), 0, true).unwrap_err();
        Mapping::new(file.as_fd(), usize::MAX, true).unwrap_err();
    }

    #[test]
    fn a_part_lies_inside_its_file() {
        let file = memfd::create("test", 7, 2 * PAGE_BYTES).unwrap();
        Mapping::part(file.as_fd(), PAGE_BYTES, PAGE_BYTES, true).unwrap();
        for (at, len) in [(PAGE_BYTES, PAGE_BYTES + 1), (2 * PAGE_BYTES, 1), (PAGE_BYTES, usize::MAX)] {
            Mapping::part(file.as_fd(), at, len, true).unwrap_err();
        }
    }
}
