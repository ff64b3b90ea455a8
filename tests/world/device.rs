//! Memory of a device that is not there: pages that the processor may not touch, and a function that copies them by another mapping.
//! A copy by the processor, anywhere in the library, ends the process by a signal.

mod calls;

use crate::ranks::{run, run_in};
use circulant::comm::{AnyMemory, Buf};
use circulant::error::argument;
use circulant::plan::registry::all;
use circulant::transport::{Borrow, CopyFunction, Memory, MemoryAttributes, MemoryKind, sim};
use circulant::{Communicator, ErrorKind, InPlace, Result, ops};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;

/// Where the memory of devices is (address, length), and where the function that copies finds it.
static DEVICES: Mutex<Vec<(usize, usize, usize)>> = Mutex::new(Vec::new());

/// Memory of a device, all of it.
struct Device {
    at: *mut u8,
    seen: *mut u8,
    len: usize,
}

impl Device {
    fn new(bytes: &[u8]) -> Self {
        let len = bytes.len().max(1).next_multiple_of(4096);
        let file = memfd_create("device", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, len as u64).unwrap();
        // SAFETY: new mappings, wherever the kernel likes.
        let map =
            |access| unsafe { mmap(null_mut(), len, access, MapFlags::SHARED, &file, 0).unwrap().cast() };
        let device = Self { at: map(ProtFlags::empty()), seen: map(ProtFlags::READ | ProtFlags::WRITE), len };
        let range = (device.at.expose_provenance(), len, device.seen.expose_provenance());
        DEVICES.lock().unwrap().push(range);
        device.fill(bytes);
        device
    }

    fn fill(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len);
        // SAFETY: as many bytes are mapped; no operation is under way.
        unsafe { self.seen.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    fn read(&self, len: usize) -> Vec<u8> {
        assert!(len <= self.len);
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.seen, len) }.to_vec()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        DEVICES.lock().unwrap().retain(|(at, ..)| *at != self.at.addr());
        // SAFETY: both mappings are ours, and buffers of them were dropped before.
        unsafe { (munmap(self.at.cast(), self.len).unwrap(), munmap(self.seen.cast(), self.len).unwrap()) };
    }
}

/// The device's own copy.
unsafe extern "C" fn copy(to: *mut c_void, from: *const c_void, bytes: usize) -> c_int {
    let devices = DEVICES.lock().unwrap();
    let find = |at: usize| devices.iter().find(|(start, len, _)| at >= *start && at + bytes <= start + len);
    let (there, here) = (find(to.addr()), find(from.addr()));
    if there.or(here).is_none() {
        return 99;
    }
    let seen = |at: usize, device: Option<&(usize, usize, usize)>| {
        device.map_or(at, |(start, _, seen)| at - start + seen)
    };
    let to = std::ptr::with_exposed_provenance_mut::<u8>(seen(to.expose_provenance(), there));
    let from = std::ptr::with_exposed_provenance::<u8>(seen(from.expose_provenance(), here));
    // SAFETY: the caller's ranges, where they can be reached.
    unsafe { to.copy_from_nonoverlapping(from, bytes) };
    0
}

const CUDA: Memory = Memory::Cuda(2);

fn attributes() -> MemoryAttributes {
    MemoryAttributes::new(CUDA).copied_by(copy)
}

/// A wire that takes memory of devices.
fn wire() -> sim::Faults {
    sim::Faults { memory: MemoryKind::ALL, ..sim::Faults::default() }
}

/// A buffer in a device or in host memory, with these bytes.
struct Placed {
    buf: Option<Buf<u8, AnyMemory>>,
    device: Option<Device>,
}

impl Placed {
    fn new(comm: &Communicator, bytes: &[u8], in_device: bool) -> Result<Self> {
        if !in_device {
            return Ok(Self { buf: Some(comm.alloc_from(bytes)?.into()), device: None });
        }
        let device = Device::new(bytes);
        // SAFETY: the memory is dropped after the buffer, or after what the buffer was given to has been waited for.
        let buf = unsafe { comm.adopt(device.at, bytes.len(), &attributes())? };
        assert_eq!((buf.memory(), buf.len()), (CUDA, bytes.len()));
        Ok(Self { buf: Some(buf), device: Some(device) })
    }

    fn take(&mut self) -> Buf<u8, AnyMemory> {
        self.buf.take().unwrap()
    }

    /// What is in its device, and something else there.
    fn seen(&self, len: usize) -> Vec<u8> {
        self.device.as_ref().unwrap().read(len)
    }

    fn fill(&self, bytes: &[u8]) {
        self.device.as_ref().unwrap().fill(bytes);
    }

    /// What is in a buffer that came back.
    fn bytes(&self, buf: Buf<u8, AnyMemory>) -> Result<Vec<u8>> {
        match &self.device {
            Some(device) => Ok(device.read(buf.len())),
            None => Ok(buf.into_host().map_err(|_| argument("it was adopted"))?.to_vec()),
        }
    }
}

/// What rank `from` has for rank `to`.
fn block(from: usize, to: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (from * 31 + to * 7 + i + i / 251) as u8).collect()
}

fn blocks(p: usize, of: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    (0..p).flat_map(of).collect()
}

/// Every operation that only moves bytes, with `n` of them; `sends` and `receives`: in memory of a device.
fn exercise(comm: &Communicator, n: usize, sends: bool, receives: bool) -> Result<()> {
    let (me, p) = (comm.rank(), comm.size());
    let root = p - 1;
    let mine = block(me, 0, n);
    let all = blocks(p, |r| block(r, 0, n));
    let lengths: Vec<usize> = (0..p).map(|r| n / 2 * (r % 2) + r).collect();
    let places: Vec<usize> = (0..p).map(|r| lengths[r + 1..].iter().sum()).collect();
    let own = &mine[..lengths[me].min(n)];
    let parts = (&lengths[..], &places[..]);
    let uneven = blocks(p, |r| block(p - 1 - r, 0, lengths[p - 1 - r]));
    let own = if own.len() == lengths[me] { own.to_vec() } else { block(me, 0, lengths[me]) };
    let place = |bytes: &[u8], device| Placed::new(comm, bytes, device);
    let zeros = |len: usize| place(&vec![0; len], receives);

    let mut buf = place(&block(if me == root { root } else { 77 }, 0, n), receives)?;
    let done = comm.ibcast(buf.take(), root)?.wait()?;
    assert_eq!(buf.bytes(done.recv)?, block(root, 0, n), "bcast");

    let (mut send, mut recv) = (place(&mine, sends)?, zeros(n * p)?);
    let done = comm.iallgather(send.take(), recv.take())?.wait()?;
    assert_eq!(recv.bytes(done.recv)?, all, "allgather");
    assert_eq!(done.send.map(|buf| buf.memory()), Some(if sends { CUDA } else { Memory::Host }));

    let mut recv = place(&blocks(p, |r| if r == me { mine.clone() } else { vec![0; n] }), receives)?;
    let done = comm.iallgather(InPlace, recv.take())?.wait()?;
    assert_eq!(recv.bytes(done.recv)?, all, "allgather in place");

    let (mut send, mut recv) = (place(&own, sends)?, zeros(uneven.len())?);
    let done = comm.iallgatherv(send.take(), recv.take(), parts)?.wait()?;
    assert_eq!(recv.bytes(done.recv)?, uneven, "allgatherv");

    let (mut send, mut recv) = (place(&mine, sends)?, zeros(if me == root { n * p } else { 0 })?);
    let done = comm.igather(send.take(), recv.take(), root)?.wait()?;
    assert!(me != root || recv.bytes(done.recv)? == all, "gather");

    let (mut send, mut recv) = (place(&own, sends)?, zeros(if me == root { uneven.len() } else { 0 })?);
    let done = comm.igatherv_rooted(send.take(), recv.take(), parts, root)?.wait()?;
    assert!(me != root || recv.bytes(done.recv)? == uneven, "gatherv_rooted");

    let (mut send, mut recv) = (place(if me == root { &all } else { &[] }, sends)?, zeros(n)?);
    let done = comm.iscatter(send.take(), recv.take(), root)?.wait()?;
    assert_eq!(recv.bytes(done.recv)?, mine, "scatter");

    let (mut send, mut recv) = (place(if me == root { &uneven } else { &[] }, sends)?, zeros(own.len())?);
    let done = comm.iscatterv(send.take(), parts, recv.take(), root)?.wait()?;
    assert_eq!(recv.bytes(done.recv)?, own, "scatterv");

    let (mut send, mut recv) = (place(&blocks(p, |to| block(me, to, n)), sends)?, zeros(n * p)?);
    let done = comm.ialltoall(send.take(), recv.take())?.wait()?;
    assert_eq!(recv.bytes(done.recv)?, blocks(p, |from| block(from, me, n)), "alltoall");

    let even = (&vec![n; p][..], &(0..p).map(|r| r * n).collect::<Vec<_>>()[..]);
    let (mut send, mut recv) = (place(&blocks(p, |to| block(me, to, n)), sends)?, zeros(n * p)?);
    let done = comm.ialltoallv(send.take(), even, recv.take(), even)?.wait()?;
    assert_eq!(recv.bytes(done.recv)?, blocks(p, |from| block(from, me, n)), "alltoallv");
    comm.barrier()
}

/// In all mixtures of ranks with and without devices, on wires of different limits, for short and long messages.
#[test]
fn bytes_move_between_devices_and_hosts() {
    for (gather, light) in [(1, "0"), (4, "4K")] {
        for p in [1, 2, 5] {
            let faults = sim::Faults { gather, reorder: true, delay: 3, refuse: 20, ..wire() };
            let results = run(p, &faults, &[("light", light), ("window", "20K")], |_, comm| {
                for n in [1, 3000, 40_000] {
                    for kind in [1usize, 2] {
                        let sends = (comm.rank() + kind).is_multiple_of(2);
                        let receives = (comm.rank() + kind / 2).is_multiple_of(2);
                        exercise(comm, n, sends, receives)?;
                    }
                    exercise(comm, n, true, true)?;
                }
                Ok(())
            });
            results.into_iter().for_each(|result| result.unwrap());
        }
    }
}

#[test]
fn each_algorithm_that_moves_bytes_does_it_between_devices() {
    for line in all().filter(|line| !line.operation.reduces() && !line.operation.is_between_groups()) {
        let setting = format!("{}={}", line.operation.name(), line.name);
        println!("{setting}");
        let settings = [("algorithm", setting.as_str())];
        // Four nodes in two groups.
        let places = (vec![0, 0, 1, 1, 2, 2, 3, 3], vec![0, 0, 0, 0, 1, 1, 1, 1]);
        let results = run_in(places, &wire(), &settings, |_, comm| exercise(comm, 5000, true, true));
        results.into_iter().for_each(|result| result.unwrap());
    }
}

#[test]
fn persistent_operations_run_on_devices() {
    let results = run(3, &wire(), &[], |_, comm| {
        let mut recv = Placed::new(comm, &[0; 9000], true)?;
        let device = recv.device.take().unwrap();
        let mut operation = comm.bcast_init(recv.take(), 1)?;
        for run in 0..5 {
            if comm.rank() == 1 {
                device.fill(&block(run, 0, 9000));
            }
            operation.start()?;
            operation.wait()?;
            assert_eq!(device.read(9000), block(run, 0, 9000));
        }
        let done = operation.into_buffers()?;
        assert!(done.send.is_none() && done.recv.into_host().is_err());
        Ok(())
    });
    results.into_iter().for_each(|result| result.unwrap());
}

/// Before data moves, at the rank that has such memory and at all others.
#[test]
fn reductions_are_refused_by_name() {
    // No such message travels before its receiver is there.
    const LEN: usize = 50_000;
    type Call = fn(&Communicator, Buf<u8, AnyMemory>, Buf<u8, AnyMemory>) -> Result<()>;
    let calls: [(&str, Call); 7] = [
        ("reduce", |c, send, recv| c.ireduce(send, recv, ops::Max, 2)?.wait().map(drop)),
        ("allreduce", |c, send, recv| c.iallreduce(send, recv, ops::Max)?.wait().map(drop)),
        ("allreduce", |c, _, recv| c.iallreduce(InPlace, recv, ops::Max)?.wait().map(drop)),
        ("reduce_scatter_block", |c, send, recv| {
            c.ireduce_scatter_block(send, recv, ops::Max)?.wait().map(drop)
        }),
        ("reduce_scatter", |c, send, recv| {
            c.ireduce_scatter(send, recv, &[LEN; 3], ops::Max)?.wait().map(drop)
        }),
        ("scan", |c, send, recv| c.iscan(send, recv, ops::Max)?.wait().map(drop)),
        ("exscan", |c, send, recv| c.iexscan(send, recv, ops::Max)?.wait().map(drop)),
    ];
    for (name, call) in calls {
        let results = run(3, &wire(), &[], |world, comm| {
            comm.barrier()?;
            let before = world.stats().put_bytes;
            let pieces = if name.starts_with("reduce_scatter") { comm.size() } else { 1 };
            let mut send = Placed::new(comm, &vec![1; pieces * LEN], false)?;
            let mut recv = Placed::new(comm, &[2; LEN], comm.rank() == 2)?;
            // A rank that needs nothing of the one with the device may come through, and hears of it in its next call.
            let ended = call(comm, send.take(), recv.take());
            assert!(ended.is_err() || comm.rank() != 2, "{name}");
            let e = ended.and_then(|()| comm.barrier()).unwrap_err();
            if let Some(device) = recv.device {
                assert_eq!((world.stats().put_bytes, device.read(LEN)), (before, vec![2; LEN]), "{e}");
            }
            Err::<(), _>(e)
        });
        for (rank, result) in results.into_iter().enumerate() {
            let text = result.unwrap_err().to_string();
            let words = format!("{name} of CUDA memory (device 2)");
            assert!(text.contains(&words) && text.contains("copy to host memory"), "rank {rank}: {text}");
        }
    }
}

/// What a rank passes and does not take part with may live anywhere.
#[test]
fn a_buffer_without_a_part_is_not_looked_at() {
    let results = run(2, &wire(), &[], |_, comm| {
        let (mut send, mut recv) =
            (Placed::new(comm, &[3; 10], false)?, Placed::new(comm, &[0; 10], comm.rank() == 1)?);
        let done = comm.ireduce(send.take(), recv.take(), ops::Max, 0)?.wait()?;
        assert_eq!(recv.bytes(done.recv)?, if comm.rank() == 0 { [3; 10] } else { [0; 10] });
        Ok(())
    });
    results.into_iter().for_each(|result| result.unwrap());
}

#[test]
fn a_wire_that_does_not_take_it_says_what_is_missing() {
    let results = run(2, &sim::Faults::default(), &[], |_, comm| {
        let device = Device::new(&[1; 100]);
        let adopt = |attributes: MemoryAttributes| {
            // SAFETY: the memory lives longer than the buffer, which no call gets.
            unsafe { comm.adopt::<u8>(device.at, 100, &attributes) }.unwrap_err()
        };
        let e = adopt(attributes());
        assert_eq!(e.kind(), ErrorKind::Argument);
        assert!(
            e.to_string().contains("takes host memory only") && e.to_string().contains("circulant info"),
            "{e}"
        );
        let e = adopt(MemoryAttributes::new(Memory::Rocm(1)));
        assert!(
            e.to_string().contains("ROCm memory (device 1)") && e.to_string().contains("copies it"),
            "{e}"
        );
        // SAFETY: nothing is registered.
        let e = unsafe { comm.adopt::<u64>(device.at.cast(), usize::MAX / 8, &attributes()) }.unwrap_err();
        assert!(e.to_string().contains("do not fit"), "{e}");
        // SAFETY: as above.
        let e = unsafe { comm.adopt::<u64>(null_mut(), 1, &attributes()) }.unwrap_err();
        assert!(e.to_string().contains("null pointer"), "{e}");
        // SAFETY: no byte of it is used.
        unsafe { comm.adopt::<u64>(null_mut(), 0, &MemoryAttributes::new(Memory::Host))? };
        // The world goes on.
        comm.barrier()
    });
    results.into_iter().for_each(|result| result.unwrap());
}

#[test]
fn a_copy_that_fails_is_an_error_of_the_call() {
    unsafe extern "C" fn fail(_: *mut c_void, _: *const c_void, _: usize) -> c_int {
        7
    }
    let failing: CopyFunction = fail;
    let results = run(2, &wire(), &[("deadline", "5")], |_, comm| {
        let device = Device::new(&[1; 100]);
        // SAFETY: the memory lives longer than the buffer.
        let buf = unsafe { comm.adopt::<u8>(device.at, 100, &attributes().copied_by(failing))? };
        comm.ibcast(buf, 0)?.wait().map(drop)
    });
    let said: Vec<String> = results.into_iter().map(|result| result.unwrap_err().to_string()).collect();
    assert!(said.iter().any(|text| text.contains("its function returned 7")), "{said:?}");
}

/// Host memory of the program's own is registered once, for many calls: for those that borrow slices of it, too.
#[test]
fn host_memory_is_adopted_too() {
    // Too long to be eager. Slices that are not registered are copied: at the root there and back, as a broadcast's buffer is.
    const LEN: usize = 2500;
    let copied = |rank: usize| 8 * LEN as u64 * if rank == 0 { 2 } else { 1 };
    for borrow in [Borrow::Direct, Borrow::Staged] {
        let faults = sim::Faults { copied_below: usize::MAX, borrow, ..sim::Faults::default() };
        let results = run(2, &faults, &[("blocks", "1")], |world, comm| {
            let mut mine = vec![comm.rank() as u64; LEN];
            let attributes = MemoryAttributes::new(Memory::Host);
            // SAFETY: the vector lives longer than the buffer, and is not used while an operation has that.
            let mut buf = unsafe { comm.adopt(mine.as_mut_ptr(), LEN, &attributes)? };
            assert_eq!((buf.as_mut_ptr(), buf.memory()), (mine.as_mut_ptr(), Memory::Host));
            for _ in 0..3 {
                buf = comm.ibcast(buf, 1)?.wait()?.recv;
                buf = comm.iallreduce(InPlace, buf, ops::Sum)?.wait()?.recv;
            }
            assert_eq!(mine[LEN - 1], 8);
            let staged = |mine: &mut [u64]| -> Result<u64> {
                comm.barrier()?;
                let before = world.stats().copied_bytes;
                comm.bcast(mine, 0)?;
                Ok(world.stats().copied_bytes - before)
            };
            assert_eq!(staged(&mut mine)?, if borrow == Borrow::Direct { 0 } else { copied(comm.rank()) });
            drop(buf);
            assert_eq!(staged(&mut mine)?, copied(comm.rank()));
            assert_eq!(comm.limits()?.unwrap().borrow, borrow);
            Ok(())
        });
        results.into_iter().for_each(|result| result.unwrap());
    }
}

/// A function knows memory of its own kind: between two kinds bytes go through host memory.
#[test]
fn memory_of_another_kind_is_copied_by_its_own_function() {
    /// Of the device that is called ROCm: only what the other function does not know.
    unsafe extern "C" fn other(to: *mut c_void, from: *const c_void, bytes: usize) -> c_int {
        let devices = DEVICES.lock().unwrap();
        let known = |at: usize| devices.iter().any(|(start, len, _)| at >= *start && at < start + len);
        let both = known(to.addr()) && known(from.addr());
        drop(devices);
        // SAFETY: passed on.
        if both { 98 } else { unsafe { copy(to, from, bytes) } }
    }
    let results = run(2, &wire(), &[], |_, comm| {
        let (send, recv) = (Device::new(&[comm.rank() as u8 + 1; 100]), Device::new(&[0; 200]));
        let rocm = MemoryAttributes::new(Memory::Rocm(0)).copied_by(other);
        for (from, to) in [(attributes(), rocm), (rocm, attributes())] {
            recv.fill(&[0; 200]);
            // SAFETY: the memory lives longer than the buffers, which are waited for.
            let (from, to) = unsafe { (comm.adopt(send.at, 100, &from)?, comm.adopt(recv.at, 200, &to)?) };
            comm.iallgather(from, to)?.wait()?;
            assert_eq!(recv.read(200), [[1; 100], [2; 100]].concat());
        }
        Ok(())
    });
    results.into_iter().for_each(|result| result.unwrap());
}
