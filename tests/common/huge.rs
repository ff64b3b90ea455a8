//! Calls on more than 4 GiB, counts beyond 2^31: virtual memory in which a small file is mapped over and over.

use super::collective::mix;
use circulant::{Communicator, Result};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::ptr::null_mut;

/// Bytes of a file. No power of two: an offset that lost its upper 32 bits is found elsewhere in the file.
const PERIOD: usize = 61 << 20;
const GIB: usize = 1 << 30;
const MIB: usize = 1 << 20;

/// Parts of memory one behind the other, each a file that repeats.
struct Repeated {
    start: *mut c_void,
    parts: Vec<usize>,
}

impl Repeated {
    fn new(parts: &[usize]) -> Self {
        let len: usize = parts.iter().sum();
        // SAFETY: the kernel chooses a free range, which is ours until it is unmapped.
        let start = unsafe {
            mmap_anonymous(null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE)
        };
        let all = Self { start: start.unwrap(), parts: parts.to_vec() };
        let mut at = 0;
        for part in parts {
            assert!(part.is_multiple_of(4096));
            let file = memfd_create("huge", MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&file, PERIOD as u64).unwrap();
            let end = at + part;
            while at < end {
                let len = PERIOD.min(end - at);
                let (flags, access) =
                    (MapFlags::SHARED | MapFlags::FIXED, ProtFlags::READ | ProtFlags::WRITE);
                // SAFETY: the range lies in the reservation above, of which no reference exists yet.
                unsafe { mmap(all.start.wrapping_byte_add(at), len, access, flags, &file, 0) }.unwrap();
                at += len;
            }
        }
        all
    }

    fn slice<T: bytemuck::Pod>(&mut self) -> &mut [T] {
        let len = self.parts.iter().sum::<usize>() / size_of::<T>();
        // SAFETY: mapped as long as `self` lives, aligned to pages, and any bytes are a `T`. That the same memory
        // stands at several addresses shows only where what was written elsewhere is read; these tests write the
        // same bytes to all of them.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), len) }
    }

    fn part(&mut self, part: usize) -> &mut [u64] {
        let at = self.parts[..part].iter().sum::<usize>();
        let len = self.parts[part].min(PERIOD);
        &mut self.slice::<u64>()[at / 8..][..len / 8]
    }

    /// Fills a part with what `salt` says.
    fn fill(&mut self, part: usize, salt: u64) {
        self.part(part).iter_mut().enumerate().for_each(|(i, x)| *x = mix(salt << 40 ^ i as u64));
    }

    fn has(&mut self, part: usize, salt: u64, what: &str) {
        let wrong = self.part(part).iter().enumerate().find(|(i, x)| **x != mix(salt << 40 ^ *i as u64));
        assert_eq!(wrong, None, "{what}, part {part}");
    }
}

impl Drop for Repeated {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of which no reference is left.
        unsafe { munmap(self.start, self.parts.iter().sum()) }.unwrap();
    }
}

/// On two ranks: each operation in one call over more than 4 GiB.
#[allow(dead_code, reason = "of the binaries that share this file some run a part")]
pub fn huge(comm: &Communicator) -> Result<()> {
    assert_eq!(comm.size(), 2);
    bcast(comm)?;
    allgatherv(comm)?;
    alltoallv(comm)
}

pub fn bcast(comm: &Communicator) -> Result<()> {
    let mut data = Repeated::new(&[4 * GIB, GIB]);
    if comm.rank() == 1 {
        (0..2).for_each(|part| data.fill(part, 1 + part as u64));
    }
    let slice = data.slice::<u8>();
    assert!(slice.len() > u32::MAX as usize);
    comm.bcast(slice, 1)?;
    (0..2).for_each(|part| data.has(part, 1 + part as u64, "bcast"));
    Ok(())
}

/// More than 2^31 elements of two bytes from rank 0, some from rank 1 behind them.
fn allgatherv(comm: &Communicator) -> Result<()> {
    let bytes = [4 * GIB + 200 * MIB, 16 * MIB];
    let counts = bytes.map(|n| n / 2);
    assert!(counts[0] > 1 << 31);
    let mut all = Repeated::new(&[4 * GIB, 200 * MIB, 16 * MIB]);
    let mut own = Repeated::new(if comm.rank() == 0 { &[4 * GIB, 200 * MIB] } else { &[16 * MIB] });
    let salts: &[u64] = if comm.rank() == 0 { &[3, 4] } else { &[5] };
    salts.iter().enumerate().for_each(|(part, salt)| own.fill(part, *salt));
    comm.allgatherv(&*own.slice::<u16>(), all.slice::<u16>(), (&counts, &[0, counts[0]]))?;
    (0..3).for_each(|part| all.has(part, 3 + part as u64, "allgatherv"));
    Ok(())
}

/// Rank 0 sends rank 1 more than 4 GiB, from behind what it keeps; rank 1 keeps its own behind them.
fn alltoallv(comm: &Communicator) -> Result<()> {
    let (large, small) = (4 * GIB + 100 * MIB, 8 * MIB);
    let large_parts = [4 * GIB, 100 * MIB];
    let (mut send, mut recv, sent, received);
    if comm.rank() == 0 {
        send = Repeated::new(&[small, large_parts[0], large_parts[1]]);
        recv = Repeated::new(&[small, small]);
        (0..3).for_each(|part| send.fill(part, 6 + part as u64));
        sent = ([small, large], [0, small]);
        received = ([small, small], [small, 0]);
    } else {
        send = Repeated::new(&[small, small]);
        recv = Repeated::new(&[large_parts[0], large_parts[1], small]);
        (0..2).for_each(|part| send.fill(part, 9 + part as u64));
        sent = ([small, small], [0, small]);
        received = ([large, small], [0, large]);
    }
    let (sent, received) = ((&sent.0[..], &sent.1[..]), (&received.0[..], &received.1[..]));
    comm.alltoallv(&*send.slice::<u8>(), sent, recv.slice::<u8>(), received)?;
    let salts: &[u64] = if comm.rank() == 0 { &[9, 6] } else { &[7, 8, 10] };
    salts.iter().enumerate().for_each(|(part, salt)| recv.has(part, *salt, "alltoallv"));
    Ok(())
}
