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
pub struct Mapping(Arc<Heap>);

impl Mapping {
    pub(crate) fn new(file: BorrowedFd<'_>, len: usize, _write: bool) -> io::Result<Self> {
        let map = find(file.as_raw_fd().cast_unsigned())?;
        if map.layout.size() == len { Ok(Self(map)) } else { Err(io::Error::other("of another size")) }
    }

    pub(crate) fn open(pid: u32, fd: u32, owner: u64, _write: bool) -> io::Result<Self> {
        let map = find(fd)?;
        match map.owner == owner && pid == std::process::id() {
            true => Ok(Self(map)),
            false => Err(io::Error::other("the file is another endpoint's")),
        }
    }

    pub(crate) fn fresh(name: &str, owner: u64, len: usize) -> io::Result<(File, Self)> {
        let file = create(name, owner, len)?;
        let map = Self(find(file.as_raw_fd().cast_unsigned())?);
        Ok((file, map))
    }

    pub(crate) fn as_mut_ptr(&self) -> *mut u8 {
        self.0.base
    }

    pub(crate) fn len(&self) -> usize {
        self.0.layout.size()
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
    let file = File::open("/dev/null")?;
    let heap = Arc::new(Heap { base, layout, owner });
    let number = file.as_raw_fd().cast_unsigned();
    FILES.lock().unwrap_or_else(PoisonError::into_inner).insert(number, heap);
    Ok(file)
}

pub(crate) fn allocate(_file: &File, _at: usize, _len: usize) -> io::Result<()> {
    Ok(())
}

pub(crate) fn remedy(_e: &io::Error) -> &'static str {
    ""
}

pub(crate) fn file(pid: u32, fd: u32, owner: u64, write: bool) -> io::Result<File> {
    Mapping::open(pid, fd, owner, write)?;
    File::open("/dev/null")
}
