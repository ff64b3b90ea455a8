//! What stands for shared files under Miri, which knows none: memory of the heap, found by the descriptor of a file that
//! is open for nothing else. It takes the place of `mapping` and `memfd`.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug)]
struct Heap {
    base: *mut u8,
    layout: Layout,
    owner: u64,
}

// SAFETY: an address, of memory that is there until the value is dropped; it is touched by raw pointers only, by
// rules that each user states.
unsafe impl Send for Heap {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout (`create`); its users hold this value.
        unsafe { dealloc(self.base, self.layout) };
    }
}

static FILES: Mutex<BTreeMap<u32, Arc<Heap>>> = Mutex::new(BTreeMap::new());

/// See the file `mapping.rs`.
#[derive(Debug)]
pub struct Mapping {
    heap: Arc<Heap>,
    at: usize,
    len: usize,
}

impl Mapping {
    pub(crate) fn part(file: BorrowedFd<'_>, at: usize, len: usize, _write: bool) -> io::Result<Self> {
        let heap = find(file.as_raw_fd().cast_unsigned())?;
        match at.checked_add(len).is_some_and(|end| end <= heap.layout.size()) {
            true => Ok(Self { heap, at, len }),
            false => Err(io::Error::other("the file is shorter")),
        }
    }

    pub(crate) fn new(file: BorrowedFd<'_>, len: usize, write: bool) -> io::Result<Self> {
        Self::part(file, 0, len, write)
    }

    pub(crate) fn open(pid: u32, fd: u32, owner: u64, _write: bool) -> io::Result<Self> {
        heap_of(pid, fd, owner).map(Self::whole)
    }

    fn whole(heap: Arc<Heap>) -> Self {
        let len = heap.layout.size();
        Self { heap, at: 0, len }
    }

    pub(crate) fn fresh(name: &str, owner: u64, len: usize) -> io::Result<(File, Self)> {
        let file = create(name, owner, len)?;
        let map = Self::whole(find(file.as_raw_fd().cast_unsigned())?);
        Ok((file, map))
    }

    pub(crate) fn as_mut_ptr(&self) -> *mut u8 {
        self.heap.base.wrapping_add(self.at)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn populate_range(&self, _at: usize, _len: usize) {}

    pub(crate) fn populate_for_reading(&self) {}
}

fn find(fd: u32) -> io::Result<Arc<Heap>> {
    let files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    files.get(&fd).cloned().ok_or_else(|| io::Error::other("no such file"))
}

pub(crate) fn create(_name: &str, owner: u64, len: usize) -> io::Result<File> {
    let layout = Layout::from_size_align(len.max(1), 4096).map_err(io::Error::other)?;
    // SAFETY: the layout has a size.
    let base = unsafe { alloc_zeroed(layout) };
    if base.is_null() {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    file_of(Arc::new(Heap { base, layout, owner }))
}

/// A file by whose descriptor the memory is found.
fn file_of(heap: Arc<Heap>) -> io::Result<File> {
    let file = File::open("/dev/null")?;
    let number = file.as_raw_fd().cast_unsigned();
    FILES.lock().unwrap_or_else(PoisonError::into_inner).insert(number, heap);
    Ok(file)
}

/// The memory behind descriptor `fd` of this process, if it is of the endpoint `owner`.
fn heap_of(pid: u32, fd: u32, owner: u64) -> io::Result<Arc<Heap>> {
    let heap = find(fd)?;
    match heap.owner == owner && pid == std::process::id() {
        true => Ok(heap),
        false => Err(io::Error::other("the file is another endpoint's")),
    }
}

pub(crate) fn size(file: &File) -> io::Result<u64> {
    Ok(find(file.as_raw_fd().cast_unsigned())?.layout.size() as u64)
}

pub(crate) fn allocate(_file: &File, _at: usize, _len: usize) -> io::Result<()> {
    Ok(())
}

pub(crate) fn remedy(_e: &io::Error) -> &'static str {
    ""
}

pub(crate) fn file(pid: u32, fd: u32, owner: u64, _write: bool) -> io::Result<File> {
    file_of(heap_of(pid, fd, owner)?)
}
