//! A rank of our node: its memory, the ring that we write there, and reading from its sources.

use super::posted::Posted;
use super::registrations::MAX_CHUNKS;
use super::ring::Writer;
use super::segment::{Address, Segment, is_paged, most_puts};
use crate::error::{Error, ErrorKind};
use crate::memory::{self, Mapping};
use std::io;

/// A peer whose memory is mapped.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: Address,
    /// Before `segment`, which it points into.
    pub(super) writer: Writer,
    pub(super) segment: Segment,
    /// We may write to it.
    pub(super) connected: bool,
    /// Said once that it is lost.
    pub(super) lost: bool,
    /// Puts that it reads from our memory.
    pub(super) posted: Posted,
    /// Its arena's chunks by number, as far as we have read from them.
    chunks: Vec<Option<Mapping>>,
    /// From this footprint on copies go round the cache.
    long: u64,
}

/// Bytes of a peer's put, as its record names them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Number of the chunk.
    pub(super) chunk: u32,
    /// The chunk's descriptor at the peer.
    pub(super) fd: u32,
    /// Offset in it.
    pub(super) at: u64,
    pub(super) len: usize,
    /// Bytes that were written since its target was last written to, with its own.
    pub(super) footprint: u64,
}

impl Peer {
    /// Maps the memory at `address`. `mine` is our index among its node-local ranks.
    pub(super) fn open(address: Address, mine: usize) -> io::Result<Self> {
        let segment = Segment::open(&address, mine)?;
        // SAFETY: the segment lives as long as the writer, in this value; the only other end in this process is
        // the reader's, where the peer is a thread of it.
        let ring = unsafe { segment.ring(mine) };
        let (paged, most) = (is_paged(address.ranks as usize), most_puts(address.ranks as usize));
        let writer = if paged { Writer::in_first_page(ring) } else { Writer::new(ring) };
        Ok(Self {
            address,
            writer,
            segment,
            connected: false,
            lost: false,
            posted: if paged { Posted::unused(most) } else { Posted::new(most) },
            chunks: Vec::new(),
            long: memory::long_copy_bytes(address.ranks as usize) as u64,
        })
    }

    /// Makes the ring that we write to ours; `mine` is our index among the node-local ranks.
    pub(super) fn claim(&mut self, mine: usize) -> io::Result<()> {
        self.segment.allocate_ring(&self.address, mine, false)?;
        match self.segment.contact(mine) {
            true => Ok(()),
            false => Err(io::Error::other("another endpoint writes there as this rank")),
        }
    }

    /// Gets the memory that a message of `len` bytes needs in the ring that we write to, if it has less.
    pub(super) fn make_room(&mut self, mine: usize, len: usize) -> io::Result<()> {
        if self.writer.lacks_memory_for(len) {
            self.segment.allocate_ring(&self.address, mine, true)?;
            self.writer.has_all_memory();
        }
        Ok(())
    }

    /// Copies a piece of a put's source to `to`.
    ///
    /// # Safety
    /// `piece.len` bytes at `to` can be written, and are not touched otherwise meanwhile.
    pub(super) unsafe fn fetch(&mut self, piece: Piece, to: *mut u8) -> io::Result<()> {
        let long = piece.footprint >= self.long;
        let map = self.chunk(piece.chunk, piece.fd)?;
        let inside =
            usize::try_from(piece.at).ok().filter(|at| *at <= map.len() && piece.len <= map.len() - at);
        let Some(at) = inside else { return Err(io::Error::other("its put names bytes outside its chunk")) };
        // SAFETY: inside the mapping (checked), which no peer can cut short (sealed, `memfd::file`). Its owner may be
        // writing there if it has closed: then these bytes are of no use, which `valid` finds out afterwards.
        unsafe {
            match long {
                true => memory::copy_around_cache(map.as_mut_ptr().add(at), to, piece.len),
                false => memory::copy(map.as_mut_ptr().add(at), to, piece.len),
            }
        }
        Ok(())
    }

    /// Copies bytes from memory of its process, by the kernel: from address `at` on to `out`. Without any this tells whether it may.
    ///
    /// # Errors
    /// When the kernel refuses, when there is no such memory, or when the process is another one by now.
    pub(super) fn read_memory(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        if cfg!(miri) {
            return Err(io::Error::other("Miri does not know the system call"));
        }
        let pid = libc::pid_t::try_from(self.address.pid).map_err(io::Error::other)?;
        let address = |at: u64| usize::try_from(at).map_err(io::Error::other);
        // The nonce in the same call: a process that has got the peer's number has none, or another one.
        let mut nonce = [0u8; 8];
        let segment = |at: *mut libc::c_void, len| libc::iovec { iov_base: at, iov_len: len };
        let far = |at: usize, len| segment(std::ptr::without_provenance_mut(at), len);
        let remote = [far(address(self.segment.nonce_address())?, nonce.len()), far(address(at)?, out.len())];
        let local =
            [segment(nonce.as_mut_ptr().cast(), nonce.len()), segment(out.as_mut_ptr().cast(), out.len())];
        let wanted = nonce.len() + out.len();
        let count = if out.is_empty() { 1 } else { 2 };
        // SAFETY: the kernel writes to the local segments only, which are ours and as long as their memory, and reads `count` of each list, which has two. Of the remote
        // ones it checks by itself what there is.
        let read = unsafe { libc::process_vm_readv(pid, local.as_ptr(), count, remote.as_ptr(), count, 0) };
        let ended = |e| Err(io::Error::new(io::ErrorKind::NotFound, e));
        match usize::try_from(read) {
            Err(_) => match io::Error::last_os_error() {
                e if e.raw_os_error() == Some(libc::ESRCH) => ended(e),
                e => Err(e),
            },
            Ok(_) if u64::from_ne_bytes(nonce) != self.address.nonce => {
                ended(io::Error::other("another process has its number"))
            }
            Ok(read) if read < wanted => Err(io::Error::other("it has no such memory")),
            Ok(_) => Ok(()),
        }
    }

    fn chunk(&mut self, number: u32, fd: u32) -> io::Result<&Mapping> {
        if number >= MAX_CHUNKS {
            return Err(io::Error::other("its put names a chunk that cannot be"));
        }
        let i = number as usize;
        if self.chunks.len() <= i {
            self.chunks.resize_with(i + 1, || None);
        }
        let slot = &mut self.chunks[i];
        match slot {
            Some(map) => Ok(map),
            None => {
                let map = Mapping::open(self.address.pid, fd, self.address.nonce, false)?;
                // Advice: else each page is a fault when it is first read. It would also get memory for pages that the peer has never
                // touched, which is too much of many ranks.
                if !is_paged(self.address.ranks as usize) {
                    map.populate_for_reading();
                }
                Ok(slot.insert(map))
            }
        }
    }

    /// Whether what was fetched before this call is what the peer put: it had not closed, so its memory was as it
    /// promised.
    pub(super) fn valid(&self) -> bool {
        self.segment.was_open()
    }
}

#[cold]
pub(super) fn gone(rank: u32) -> Error {
    Error::new(ErrorKind::PeerLost, format!("rank {rank} has closed its endpoint"))
        .with_peer(rank as usize)
        .over("shm")
}

#[cold]
pub(super) fn senseless(rank: u32) -> Error {
    Error::new(ErrorKind::PeerLost, format!("what rank {rank} wrote to shared memory makes no sense"))
        .with_peer(rank as usize)
        .over("shm")
}
