//! The arena: registered, pre-faulted memory in chunks, on huge pages where the system has them.
//!
//! Untouched destinations cost 2.5 to 5 times on every provider, and small pages up to 2 times on shared
//! memory: so chunks are aligned to 2 MiB, ask for huge pages and are populated when they are made.
//! Where peers can map them, chunks are shared files instead, which saves the peers the kernel's way to our memory.

use crate::buffer::{Bound, ForkMark, Grant};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Mapping, copy};
use crate::transport::{Access, Registration, Remote, Transport};
use memmap2::{Advice, MmapMut, MmapOptions};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a page: blocks begin at multiples of this.
const PAGE_BYTES: usize = 4096;
/// Bytes of a huge page, on x86-64 and most others. (Miri knows no advice about pages, and is slow.)
const HUGE_PAGE_BYTES: usize = if cfg!(miri) { PAGE_BYTES } else { 2 << 20 };
/// Bytes of a chunk, at least, where the node has room. Chosen: four huge pages; registering and populating one is worth it for many buffers.
const MIN_CHUNK_BYTES: usize = if cfg!(miri) { 16 * PAGE_BYTES } else { 8 << 20 };
/// Bytes of the first chunks of all ranks of a node, at most: where these are many, chunks begin small and grow. Chosen: what 64 ranks take.
const NODE_BYTES: usize = 64 * MIN_CHUNK_BYTES;
/// Bytes of a first chunk, at least. Chosen: 16 pages, more than start-up needs.
const LEAST_FIRST_BYTES: usize = 16 * PAGE_BYTES;
/// The longest chunk: what a slice can be, less room for alignment.
const MAX_CHUNK_BYTES: usize = isize::MAX as usize - HUGE_PAGE_BYTES;
/// The largest alignment of elements.
pub(crate) const MAX_ALIGN_BYTES: usize = PAGE_BYTES;

/// One mapping, which stays as long as a [`Block`] of it, or the arena, lives; or memory that a program keeps ([`Arena::adopt`]).
#[derive(Debug)]
struct Chunk {
    _map: Kept,
    base: *mut u8,
    len: usize,
    registration: Registration,
    remote: Remote,
}

/// The mapping: of our own, or of a file that peers may map too; or none, of memory that a program keeps.
#[derive(Debug)]
enum Kept {
    Own { _map: MmapMut },
    Shared { _map: Mapping },
    Program,
}

// SAFETY: `base` points into `_map`, owned by the same value; all access is by disjoint blocks (the free
// list never hands out a byte twice), so moving or sharing the chunk between threads shares no data. Of a program's memory there are no
// blocks: its address is only compared with others.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

/// (offset, length) of the free ranges of a chunk.
type Free = Vec<(usize, usize)>;

#[derive(Debug)]
struct State {
    chunks: Vec<(Arc<Chunk>, Free)>,
    /// Blocks that are in use.
    live: usize,
    /// Bytes of the first chunk, at least.
    first: usize,
    /// Of the process that made it: a forked child has the same chunks mapped, where they are shared.
    mark: ForkMark,
}

impl Default for State {
    fn default() -> Self {
        Self { chunks: Vec::new(), live: 0, first: MIN_CHUNK_BYTES, mark: ForkMark::new() }
    }
}

/// The arena of one world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arena(Arc<Mutex<State>>);

/// A range of the arena, owned.
#[derive(Debug)]
pub(crate) struct Block {
    chunk: Arc<Chunk>,
    offset: usize,
    len: usize,
    arena: Arena,
}

impl Arena {
    /// The arena of a rank whose node has `ranks` ranks: the more these are, the smaller is its first chunk.
    pub(crate) fn of_one_of(ranks: usize) -> Self {
        let first = (NODE_BYTES / ranks.max(1)).clamp(LEAST_FIRST_BYTES, MIN_CHUNK_BYTES);
        Self(Arc::new(Mutex::new(State { first: first.next_multiple_of(PAGE_BYTES), ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the free list was held cannot leave it half changed: its updates are single pushes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `bytes` zeroed bytes, page-aligned; a new chunk is mapped, populated and registered when none has room.
    ///
    /// # Errors
    /// When memory cannot be mapped or registered.
    pub(crate) fn alloc(
        &self,
        bytes: usize,
        transport: Option<&mut (dyn Transport + 'static)>,
    ) -> Result<Block> {
        let block = self.scratch(bytes, transport)?;
        // SAFETY: the block has as many bytes, and is ours alone.
        unsafe { block.start().write_bytes(0, bytes) };
        Ok(block)
    }

    /// The same with whatever was there before, for memory that is written before it is read.
    ///
    /// # Errors
    /// As [`Arena::alloc`].
    pub(crate) fn scratch(
        &self,
        bytes: usize,
        transport: Option<&mut (dyn Transport + 'static)>,
    ) -> Result<Block> {
        let len =
            bytes.max(1).checked_next_multiple_of(PAGE_BYTES).ok_or_else(|| no_memory(bytes, "too large"))?;
        let mut state = self.state();
        if state.mark.forked() {
            return Err(Error::new(
                ErrorKind::Aborted,
                "registered memory belongs to the process that this one was forked from",
            )
            .help("call exec in the child, or fork before the world is made"));
        }
        let found = state.take(len);
        let (chunk, offset) = match found {
            Some(hit) => hit,
            None => {
                let size = state.chunk_bytes(len).filter(|n| *n <= MAX_CHUNK_BYTES);
                let size = size.ok_or_else(|| no_memory(bytes, "too large"))?;
                let chunk = Arc::new(Chunk::map(size, transport)?);
                state.chunks.push((Arc::clone(&chunk), vec![(0, size)]));
                state.take(len).ok_or_else(|| no_memory(bytes, "the new chunk has no room"))?
            }
        };
        state.live += 1;
        drop(state);
        Ok(Block { chunk, offset, len, arena: self.clone() })
    }

    /// Whether both are the arena of one world. (A block keeps its arena, so no other has taken its place.)
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many blocks are in use.
    pub(crate) fn live(&self) -> usize {
        self.state().live
    }

    /// The bytes of all chunks, and of memory that a program keeps.
    pub(crate) fn bytes(&self) -> usize {
        self.state().chunks.iter().map(|(chunk, _)| chunk.len).sum()
    }

    /// Knows memory that a program keeps, and that is registered until [`Arena::forget`]: slices of it need no registration of their own.
    pub(super) fn adopt(
        &self,
        (base, len): (*mut u8, usize),
        (registration, remote): (Registration, Remote),
    ) {
        let chunk = Chunk { _map: Kept::Program, base, len, registration, remote };
        self.state().chunks.push((Arc::new(chunk), Free::new()));
    }

    /// Ends that: before the registration ends.
    pub(super) fn forget(&self, registration: Registration) {
        let program = |chunk: &Chunk| matches!(chunk._map, Kept::Program);
        self.state().chunks.retain(|(chunk, _)| !(program(chunk) && chunk.registration == registration));
    }

    /// The arena's bound for a slice that lies wholly inside one of its chunks.
    pub(crate) fn locate(&self, ptr: *const u8, len: usize) -> Option<(Registration, Grant)> {
        // A transport may find its way back to it from the chunk's address.
        let at = ptr.expose_provenance();
        let state = self.state();
        for (chunk, _) in &state.chunks {
            let base = chunk.base.addr();
            if at >= base && at - base <= chunk.len && len <= chunk.len - (at - base) {
                return Some((chunk.registration, chunk.grant(at - base)));
            }
        }
        None
    }
}

impl State {
    /// Bytes of a new chunk for `len`: with all chunks so far each is longer than the one before.
    fn chunk_bytes(&self, len: usize) -> Option<usize> {
        let so_far: usize = self.chunks.iter().map(|(chunk, _)| chunk.len).sum();
        let least = so_far.clamp(self.first, MIN_CHUNK_BYTES);
        // At first of small pages.
        let page = if least < HUGE_PAGE_BYTES { PAGE_BYTES } else { HUGE_PAGE_BYTES };
        len.max(least).checked_next_multiple_of(page)
    }

    fn take(&mut self, len: usize) -> Option<(Arc<Chunk>, usize)> {
        for (chunk, free) in &mut self.chunks {
            if let Some(i) = free.iter().position(|(_, n)| *n >= len) {
                let (offset, n) = free[i];
                if n == len {
                    free.swap_remove(i);
                } else {
                    free[i] = (offset + len, n - len);
                }
                return Some((Arc::clone(chunk), offset));
            }
        }
        None
    }
}

impl Chunk {
    fn map(len: usize, transport: Option<&mut (dyn Transport + 'static)>) -> Result<Self> {
        let Some(transport) = transport else {
            let (map, base) = own(len, true)?;
            let (registration, remote) = (Registration(u32::MAX), Remote::default());
            return Ok(Self { _map: map, base, len, registration, remote });
        };
        if let Some((file, map)) = transport.share(len) {
            // A shorter one would be a transport's mistake, and what is behind it is not ours.
            if map.len() < len {
                let what = format!("a mapping of {} bytes was shared in place of {len}", map.len());
                return Err(Error::new(ErrorKind::Transport, what));
            }
            let base = map.as_mut_ptr();
            // SAFETY: the mapping lives as long as the chunk; the arena keeps its chunks until the world has closed
            // the transport, and blocks are touched by raw pointers only while an operation uses them.
            let (registration, remote) = unsafe { transport.register_shared(base, len, file)? };
            return Ok(Self { _map: Kept::Shared { _map: map }, base, len, registration, remote });
        }
        // What is not present takes time when it is touched, which a virtual time does not count.
        let (map, base) = own(len, !transport.clock().is_virtual())?;
        // SAFETY: as above.
        let (registration, remote) = unsafe { transport.register(base, len, Access::Target)? };
        Ok(Self { _map: map, base, len, registration, remote })
    }

    fn grant(&self, offset: usize) -> Grant {
        Grant { address: self.remote.base + offset as u64, key: self.remote.key }
    }
}

/// `len` bytes of this process alone; where they begin. `present`: all are there before they are touched, on huge pages where there are some.
fn own(len: usize, present: bool) -> Result<(Kept, *mut u8)> {
    let map = MmapOptions::new().len(len + HUGE_PAGE_BYTES).map_anon();
    let mut map = map.map_err(|e| no_memory(len, &e.to_string()))?;
    let skip = map.as_mut_ptr().align_offset(HUGE_PAGE_BYTES);
    if cfg!(miri) || !present {
        let base = map.as_mut_ptr().wrapping_add(skip);
        return Ok((Kept::Own { _map: map }, base));
    }
    // Advice: without huge pages the arena is slower, not wrong.
    let _ = map.advise_range(Advice::HugePage, skip, len);
    if let Err(e) = map.advise_range(Advice::PopulateWrite, skip, len) {
        // Before Linux 5.14 there is no such advice; any other error says that there are no pages to touch.
        if e.raw_os_error() != Some(libc::EINVAL) {
            return Err(no_memory(len, &e.to_string()));
        }
        for page in (skip..skip + len).step_by(PAGE_BYTES) {
            map[page] = 0;
        }
    }
    let base = map.as_mut_ptr().wrapping_add(skip);
    Ok((Kept::Own { _map: map }, base))
}

impl Block {
    /// Its first byte.
    pub(super) fn start(&self) -> *mut u8 {
        self.chunk.base.wrapping_add(self.offset)
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// That of the world.
    pub(super) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The whole block, for an operation.
    pub(crate) fn bound(&self, len: usize) -> Bound {
        let len = len.min(self.len);
        let ptr = self.chunk.base.wrapping_add(self.offset);
        // SAFETY: the range is in the chunk and ours. Callers keep the block until the operation ended, and
        // hand out references into it (`Buf`) only when none is running: blocking calls hold the borrow,
        // persistent ones own the buffer.
        unsafe { Bound::new(ptr, len, self.chunk.registration, self.chunk.grant(self.offset)) }
    }

    /// Copies `bytes` to its start (as many as fit).
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let n = bytes.len().min(self.len);
        // SAFETY: the block is ours (`&mut`), `n` bytes fit, and a fresh slice cannot overlap it: user
        // slices inside the arena are never staged.
        unsafe { copy(bytes.as_ptr(), self.chunk.base.add(self.offset), n) };
    }

    /// Copies `bytes` to `offset` (nothing when they do not fit).
    pub(crate) fn write_at(&self, offset: usize, bytes: &[u8]) {
        if offset.checked_add(bytes.len()).is_none_or(|end| end > self.len) {
            return;
        }
        // SAFETY: the range lies in the block (checked), which only its owner uses; no operation reads it yet.
        unsafe { copy(bytes.as_ptr(), self.chunk.base.add(self.offset + offset), bytes.len()) };
    }

    /// Copies its start into `bytes` (as many as it has).
    pub(crate) fn read(&self, bytes: &mut [u8]) {
        let n = bytes.len().min(self.len);
        // SAFETY: as in `write`; no operation is running on the block when its owner reads it.
        unsafe { copy(self.chunk.base.add(self.offset), bytes.as_mut_ptr(), n) };
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut state = self.arena.state();
        state.live = state.live.saturating_sub(1);
        let Some((_, free)) = state.chunks.iter_mut().find(|(c, _)| Arc::ptr_eq(c, &self.chunk)) else {
            return;
        };
        let (mut from, mut len) = (self.offset, self.len);
        // Join with free neighbours, so that large blocks can be had again.
        while let Some(i) = free.iter().position(|(o, n)| o + n == from || from + len == *o) {
            let (o, n) = free.swap_remove(i);
            from = from.min(o);
            len += n;
        }
        free.push((from, len));
    }
}

fn no_memory(bytes: usize, why: &str) -> Error {
    Error::new(ErrorKind::System, format!("no memory for {bytes} registered bytes: {why}"))
        .help("ask for less, or raise the limits on memory (control group, vm.overcommit_memory) and on locked memory (ulimit -l)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buf;
    use crate::transport::shm::{Options, Shm};
    use crate::transport::{Limits, Posted, Sink, Source};
    use std::fs::File;
    use std::time::Duration;

    type Registered = (Registration, Remote);

    #[test]
    fn chunks_of_many_ranks_begin_small_and_grow() {
        let all = |ranks: usize| {
            let arena = Arena::of_one_of(ranks);
            let blocks: Vec<Block> = (0..600).map(|_| arena.alloc(PAGE_BYTES, None).unwrap()).collect();
            drop(blocks);
            let lengths: Vec<usize> = arena.state().chunks.iter().map(|(chunk, _)| chunk.len).collect();
            lengths
        };
        assert_eq!(all(1), [MIN_CHUNK_BYTES; if cfg!(miri) { 38 } else { 1 }]);
        if !cfg!(miri) {
            assert_eq!(all(512), [1 << 20, 1 << 20, 2 << 20]);
            assert_eq!(all(1 << 20)[..4], [1 << 16, 1 << 16, 1 << 17, 1 << 18]);
        }
    }

    #[test]
    fn blocks_are_disjoint_zeroed_and_come_back() {
        let arena = Arena::default();
        let mut a = Buf::<u32>::new(arena.alloc(4000, None).unwrap(), 1000);
        a.fill(7);
        let b = Buf::<u64>::new(arena.alloc(80, None).unwrap(), 10);
        assert!(b.iter().all(|x| *x == 0));
        let a_ptr = a.as_ptr() as usize;
        assert_eq!(a_ptr % PAGE_BYTES, 0);
        assert!(arena.locate(a.as_ptr().cast(), 4000).is_some());
        assert!(arena.locate([0u8; 4].as_ptr(), 4).is_none());
        drop(a);
        drop(b);
        // All joined again: a block of the whole chunk fits without a second chunk, and is zeroed.
        let c = Buf::<u8>::new(arena.alloc(MIN_CHUNK_BYTES, None).unwrap(), MIN_CHUNK_BYTES);
        assert!(c.iter().all(|x| *x == 0));
        assert_eq!(arena.state().chunks.len(), 1);
        let d = arena.alloc(MIN_CHUNK_BYTES + 1, None).unwrap();
        assert_eq!(arena.state().chunks.len(), 2);
        drop((c, d));
    }

    /// Shared memory whose mappings are shorter than it was asked for.
    struct Short(Shm);

    // SAFETY: none; it breaks its promise about `share`, which is the test.
    unsafe impl Transport for Short {
        fn limits(&self) -> &Limits {
            self.0.limits()
        }
        fn address(&self) -> Vec<u8> {
            self.0.address()
        }
        fn connect(&mut self, peer: u32, address: &[u8]) -> Result<()> {
            self.0.connect(peer, address)
        }
        unsafe fn register(&mut self, at: *mut u8, len: usize, access: Access) -> Result<Registered> {
            // SAFETY: passed on.
            unsafe { self.0.register(at, len, access) }
        }
        fn share(&self, _len: usize) -> Option<(File, Mapping)> {
            self.0.share(PAGE_BYTES)
        }
        fn deregister(&mut self, registration: Registration) -> Result<()> {
            self.0.deregister(registration)
        }
        unsafe fn put(
            &mut self,
            peer: u32,
            sources: &[Source],
            address: u64,
            key: u64,
            word: u32,
            token: u64,
        ) -> Result<Posted> {
            // SAFETY: passed on.
            unsafe { self.0.put(peer, sources, address, key, word, token) }
        }
        fn message(&mut self, peer: u32, bytes: &[u8]) -> Result<Posted> {
            self.0.message(peer, bytes)
        }
        fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
            self.0.poll(sink)
        }
        fn idle(&mut self, longest: Duration) {
            self.0.idle(longest);
        }
        fn close(&mut self) -> Result<()> {
            self.0.close()
        }
    }

    #[test]
    fn a_mapping_that_is_too_short_is_an_error() {
        let mut short = Short(Shm::open(&Options { rank: 0, locals: &[0], wait: None }).unwrap());
        let arena = Arena::default();
        let e = arena.alloc(MIN_CHUNK_BYTES, Some(&mut short)).unwrap_err();
        assert!(e.to_string().contains("4096 bytes was shared"), "{e}");
    }

    #[test]
    fn a_buffer_outlives_its_arena() {
        let arena = Arena::default();
        let mut a = Buf::<u8>::new(arena.alloc(100, None).unwrap(), 100);
        drop(arena);
        a.fill(3);
        assert_eq!(a.iter().map(|x| u32::from(*x)).sum::<u32>(), 300);
    }
}
