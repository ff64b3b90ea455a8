//! The memory that a rank shows its node: a header, one ring for each rank of the node to write to, and areas of
//! [call slots](crate::transport::call_slots), which have no pages before they are used.

use super::ring;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Mapping, memfd, words};
use crate::transport::slot_pool::{Areas, areas_bytes, first_areas};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Says that this is one of ours, and of which layout.
const MAGIC: u64 = u64::from_le_bytes(*b"circ\0s08");
/// Offset of the nonce in the header, in bytes, behind the magic number.
const NONCE: usize = 8;
/// Offset of where the nonce lies in its rank's own memory: an address.
const NONCE_ADDRESS: usize = 16;
/// Offset of the word that says that the rank has closed; on a cache line of its own.
const CLOSED: usize = 128;
/// Offset of the word by which the rank [sleeps](super::doorbell); on a cache line of its own.
const DOORBELL: usize = 192;
/// Offset of the bits of ranks that have made contact; on cache lines of their own.
const CONTACTS: usize = 256;
/// Offset of the rings, behind a page.
const RINGS: usize = 4096;
/// The most ranks of a node: as many as the header has bits for.
pub(super) const MAX_RANKS: usize = (RINGS - CONTACTS) * 8;

/// Ranks of a node up to which each may have memory for all others. Chosen: as many as all map each other's memory at once.
pub(super) const FEW_RANKS: usize = 64;

/// Bytes of one ring for records, where `ranks` share a node. The longest message has room in the smaller one; beyond [`FEW_RANKS`] a ring has
/// memory for its [first page](ring::Writer::in_first_page) at first.
pub(super) fn capacity(ranks: usize) -> usize {
    match ranks {
        0..=FEW_RANKS => 32 << 10,
        _ => 16 << 10,
    }
}

/// What a rank publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) nonce: u64,
    pub(super) pid: u32,
    pub(super) fd: u32,
    /// How many ranks its memory has rings for, and which of them it is.
    pub(super) ranks: u32,
    pub(super) index: u32,
}

/// Bytes of an address.
pub(super) const ADDRESS: usize = 32;
const TAG: &[u8; 8] = b"shm\0\0\0\x002";

impl Address {
    pub(super) fn encode(&self) -> [u8; ADDRESS] {
        let mut out = [0; ADDRESS];
        let small = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
        let words =
            [u64::from_le_bytes(*TAG), self.nonce, small(self.pid, self.fd), small(self.ranks, self.index)];
        for (to, word) in out.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ADDRESS] = bytes.try_into().ok()?;
        let mut words = [0u64; ADDRESS / 8];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(from.try_into().ok()?);
        }
        let [tag, nonce, process, local] = words;
        let halves =
            |w: u64| (u32::try_from(w >> 32).unwrap_or(0), u32::try_from(w & 0xFFFF_FFFF).unwrap_or(0));
        let ((pid, fd), (ranks, index)) = (halves(process), halves(local));
        (tag == u64::from_le_bytes(*TAG)).then_some(Self { nonce, pid, fd, ranks, index })
    }
}

/// One rank's memory, mapped: our own or a peer's. Of a peer whose rings are [paged](is_paged) only the header is, and the ring that we write to.
#[derive(Debug)]
pub(super) struct Segment {
    /// All of it, or its header.
    map: Arc<Mapping>,
    /// Our ring and its number, where that is mapped by itself.
    ring: Option<(usize, Mapping)>,
    ranks: usize,
}

/// Puts of a rank that a peer may have to read, at most: as many as its ring has room for, or its first page.
pub(super) fn most_puts(ranks: usize) -> usize {
    let bytes = if is_paged(ranks) { ring::PAGE_BYTES } else { capacity(ranks) };
    bytes / (ring::FIXED + ring::SEGMENT)
}

/// Whether rings have memory for their first page only, at first.
pub(super) fn is_paged(ranks: usize) -> bool {
    ranks > FEW_RANKS
}

/// Bytes from one ring to the next.
fn stride(ranks: usize) -> usize {
    ring::footprint(capacity(ranks)).next_multiple_of(ring::PAGE_BYTES)
}

/// Where the areas begin.
fn areas(ranks: usize) -> usize {
    RINGS + ranks * stride(ranks)
}

/// Bytes of the whole.
fn length(ranks: usize) -> usize {
    areas(ranks) + areas_bytes(ranks)
}

impl Segment {
    /// New memory with rings for `ranks`, which says `nonce`, and the file that peers open. The header has its memory, and so have the first
    /// areas where the world may have slots; rings and other areas get theirs when they are first used.
    pub(super) fn create(ranks: usize, nonce: u64) -> Result<(Self, Arc<File>)> {
        let refused = |e: std::io::Error| {
            Error::new(ErrorKind::System, format!("no shared memory of {} bytes: {e}", length(ranks)))
                .over("shm")
                .help(memfd::remedy(&e))
        };
        let file = memfd::create("rings", nonce, length(ranks)).map_err(refused)?;
        memfd::allocate(&file, 0, RINGS).map_err(refused)?;
        if !is_paged(ranks) {
            for (at, len) in first_areas(ranks) {
                memfd::allocate(&file, areas(ranks) + at, len).map_err(refused)?;
            }
        }
        let map = Arc::new(Mapping::new(file.as_fd(), length(ranks), true).map_err(refused)?);
        // Of a ring that has no memory yet a page would be memory for a rank that may never write.
        map.populate_range(0, if is_paged(ranks) { RINGS } else { areas(ranks).min(1 << 20) });
        let this = Self { map, ring: None, ranks };
        this.count(NONCE).store(nonce, Ordering::Relaxed);
        this.count(NONCE_ADDRESS).store(this.count(NONCE).as_ptr().addr() as u64, Ordering::Relaxed);
        this.count(0).store(MAGIC, Ordering::Release);
        Ok((this, Arc::new(file)))
    }

    /// The memory at `address`, in which we write to the ring `mine`. A process that can map it and finds the nonce there is on the same node.
    pub(super) fn open(address: &Address, mine: usize) -> std::io::Result<Self> {
        let ranks = address.ranks as usize;
        let file = memfd::file(address.pid, address.fd, address.nonce, true)?;
        let wrong = |what: &str| Err(std::io::Error::other(what.to_owned()));
        if ranks == 0 || ranks > MAX_RANKS || memfd::size(&file)? != length(ranks) as u64 {
            return wrong("it is of another size");
        }
        if mine >= ranks {
            return wrong("it has no room for us");
        }
        let part = |at, len| Mapping::part(file.as_fd(), at, len, true);
        let this = match is_paged(ranks) {
            false => {
                Self { map: Arc::new(Mapping::new(file.as_fd(), length(ranks), true)?), ring: None, ranks }
            }
            true => {
                let ring = part(RINGS + mine * stride(ranks), stride(ranks))?;
                Self { map: Arc::new(part(0, RINGS)?), ring: Some((mine, ring)), ranks }
            }
        };
        if this.count(0).load(Ordering::Acquire) != MAGIC {
            return wrong("it is something else");
        }
        if this.count(NONCE).load(Ordering::Relaxed) != address.nonce {
            return wrong("it is another process's");
        }
        Ok(this)
    }

    /// Its areas; of this address.
    pub(super) fn areas(&self, address: &Address) -> Areas {
        let first = areas(self.ranks);
        match self.ring {
            None => Areas::Mapped(Arc::clone(&self.map), first),
            Some(_) => Areas::Of { pid: address.pid, fd: address.fd, owner: address.nonce, first },
        }
    }

    fn count(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at < RINGS && at.is_multiple_of(8));
        // SAFETY: inside the mapping, which has at least RINGS bytes, starts at a page and lives as long as `self`; all
        // processes touch the header as atomics only.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(at).cast()) }
    }

    #[cfg(loom)]
    fn word(&self, _at: usize) -> &words::AtomicU32 {
        unreachable!("models have no segments")
    }

    #[cfg(not(loom))]
    fn word(&self, at: usize) -> &words::AtomicU32 {
        debug_assert!(at < RINGS && at.is_multiple_of(4));
        // SAFETY: as in `count`.
        unsafe { words::AtomicU32::from_ptr(self.map.as_mut_ptr().add(at).cast()) }
    }

    /// Where the nonce lies in its rank's memory.
    pub(super) fn nonce_address(&self) -> u64 {
        self.count(NONCE_ADDRESS).load(Ordering::Relaxed)
    }

    fn closed_word(&self) -> &words::AtomicU32 {
        self.word(CLOSED)
    }

    /// The word by which its rank [sleeps](super::doorbell).
    pub(super) fn doorbell(&self) -> &words::AtomicU32 {
        self.word(DOORBELL)
    }

    /// From now on nothing that is read from this rank's memory counts.
    pub(super) fn close(&self) {
        words::close(self.closed_word());
    }

    /// Whether what was read before this call from this rank's memory is what it had put there.
    pub(super) fn was_open(&self) -> bool {
        words::was_open(self.closed_word())
    }

    /// Whether its rank has closed it.
    pub(super) fn closed(&self) -> bool {
        self.closed_word().load(Ordering::Relaxed) != 0
    }

    /// Says that the rank `index` of the node writes here; whether it is the first to say so.
    pub(super) fn contact(&self, index: usize) -> bool {
        let bit = 1 << (index % 64);
        self.count(CONTACTS + index / 64 * 8).fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    /// Gets memory for the ring that the rank `index` of the node writes to, all of it or what it has at first. `address`: of this
    /// segment, which is a peer's.
    pub(super) fn allocate_ring(&self, address: &Address, index: usize, all: bool) -> std::io::Result<()> {
        let file = memfd::file(address.pid, address.fd, address.nonce, true)?;
        let bytes = if all || !is_paged(self.ranks) { stride(self.ranks) } else { ring::PAGE_BYTES };
        memfd::allocate(&file, RINGS + index * stride(self.ranks), bytes)
    }

    /// The ranks `64 * i..` of the node that write here, as bits.
    pub(super) fn contacts(&self, i: usize) -> u64 {
        self.count(CONTACTS + i * 8).load(Ordering::Acquire)
    }

    /// The ring that the rank `index` of the node writes to.
    ///
    /// # Safety
    /// This value lives as long as the ring is used, and of each end there is one in this process.
    pub(super) unsafe fn ring(&self, index: usize) -> ring::RingMemory {
        let capacity = capacity(self.ranks);
        let base = match &self.ring {
            Some((mine, ring)) => {
                assert_eq!(index, *mine);
                ring.as_mut_ptr()
            }
            None => {
                assert!(index < self.ranks);
                self.map.as_mut_ptr().wrapping_add(RINGS + index * stride(self.ranks))
            }
        };
        // SAFETY: inside a mapping of the file, whose length was checked; its start and all lengths are multiples of 64.
        unsafe { ring::RingMemory::new(base, capacity) }
    }
}

/// The file's number, for the address.
pub(super) fn number(file: &File) -> u32 {
    file.as_raw_fd().cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        let a = Address { nonce: 2, pid: 3, fd: 4, ranks: 5, index: 6 };
        let bytes = a.encode();
        assert_eq!(Address::decode(&bytes), Some(a));
        for cut in 0..bytes.len() {
            assert_eq!(Address::decode(&bytes[..cut]), None);
        }
        let mut other = bytes;
        other[0] ^= 1;
        assert_eq!(Address::decode(&other), None);
    }

    #[test]
    fn only_the_right_memory_is_opened() {
        // First, as Miri finds memory by descriptors, which are used again.
        let devnull = File::open("/dev/null").unwrap();
        let (ours, file) = Segment::create(3, 77).unwrap();
        let good = Address { nonce: 77, pid: std::process::id(), fd: number(&file), ranks: 3, index: 0 };
        let theirs = Segment::open(&good, 1).unwrap();
        ours.close();
        assert!(theirs.closed());
        for bad in [
            Address { nonce: 78, ..good },
            Address { ranks: 4, ..good },
            Address { ranks: 0, ..good },
            Address { ranks: u32::MAX, ..good },
            Address { fd: number(&devnull), ..good },
            Address { fd: u32::MAX, ..good },
            Address { pid: 0, ..good },
        ] {
            assert!(Segment::open(&bad, 1).is_err(), "{bad:?}");
        }
        assert!(Segment::open(&good, 3).is_err(), "a ring that it has not");
    }
}
