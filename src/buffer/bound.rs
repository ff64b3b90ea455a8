//! Regions bound to memory for one operation: the addresses that the engine may use, with their bounds.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::copy as copy_bytes;
use crate::ops::{Reducer, Side};
use crate::plan::lower::Segment;
use crate::plan::{Place, Region};
use crate::transport::{CopyFunction, Memory, Posted, Registration, Source, Transport};
use std::mem::MaybeUninit;

/// How a peer names memory of ours: the address of its first byte and the provider's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Grant {
    pub(crate) address: u64,
    pub(crate) key: u64,
}

/// One region bound to memory: where it is here, and how peers name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    ptr: *mut u8,
    len: usize,
    /// The bytes of it that the processor may touch: all of host memory, none of a device's.
    touchable: usize,
    registration: Registration,
    grant: Grant,
    device: Option<Device>,
}

/// The device that memory is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    pub(crate) memory: Memory,
    /// What copies from and to it.
    pub(crate) copy: CopyFunction,
}

// SAFETY: a `Bound` is plain numbers. Its memory is touched only through `copy` and `put`, by the one
// thread that holds the engine (`&mut`), under the contract of `Bound::new`.
unsafe impl Send for Bound {}

impl Bound {
    /// No memory at all.
    pub(crate) const NONE: Self = Self {
        ptr: std::ptr::null_mut(),
        len: 0,
        touchable: 0,
        registration: Registration(u32::MAX),
        grant: Grant { address: 0, key: 0 },
        device: None,
    };

    /// `len` bytes at `ptr`, covered by `registration`; peers reach its first byte by `grant`.
    ///
    /// # Safety
    /// Until the last operation that this value (or a copy) is bound to has finished, or the transport was
    /// closed, the range stays valid. Where it is a target it is writable, and not touched through references; where it is
    /// only a source ([`Region::Input`], which no step writes to) it may be read through shared ones.
    pub(crate) unsafe fn new(ptr: *mut u8, len: usize, registration: Registration, grant: Grant) -> Self {
        Self { ptr, len, touchable: len, registration, grant, device: None }
    }

    /// As [`Bound::new`], of memory of a device: it is copied by the device's function only, and never reduced.
    ///
    /// # Safety
    /// As there, but that the processor need not be able to touch it; and the function does what [`CopyFunction`] says.
    pub(crate) unsafe fn on_device(
        ptr: *mut u8,
        len: usize,
        registration: Registration,
        grant: Grant,
        device: Device,
    ) -> Self {
        Self { ptr, len, touchable: 0, registration, grant, device: Some(device) }
    }

    /// How peers name it.
    pub(crate) fn grant(&self) -> Grant {
        self.grant
    }

    /// Its first half and its second.
    pub(crate) fn halves(self) -> (Self, Self) {
        let len = self.len / 2;
        (self.part(self.ptr, len), self.part(self.ptr.wrapping_add(len), self.len - len))
    }

    /// `len` bytes of it from `ptr`, which is in it: under the same contract.
    pub(super) fn part(&self, ptr: *mut u8, len: usize) -> Self {
        let offset = ptr.addr() - self.ptr.addr();
        debug_assert!(offset + len <= self.len);
        let grant = Grant { address: self.grant.address.wrapping_add(offset as u64), ..self.grant };
        Self { ptr, len, touchable: self.touchable.min(len), grant, ..*self }
    }

    fn range(&self, offset: u64, len: u64) -> Option<(*mut u8, usize)> {
        self.within(self.len, offset, len)
    }

    /// As [`Bound::range`], of what the processor may touch.
    fn touchable(&self, offset: u64, len: u64) -> Option<(*mut u8, usize)> {
        self.within(self.touchable, offset, len)
    }

    #[inline(always)]
    fn within(&self, room: usize, offset: u64, len: u64) -> Option<(*mut u8, usize)> {
        let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        (offset.checked_add(len)? <= room).then(|| (self.ptr.wrapping_add(offset), len))
    }
}

/// All regions of one operation at this rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    /// By region, in the order of [`Region`].
    regions: [Bound; 4],
}

impl Binding {
    /// An operation without memory.
    pub(crate) const NONE: Self = Self { regions: [Bound::NONE; 4] };

    /// Of the caller's memory, and of the library's: scratch, and what peers put into.
    pub(crate) const fn new([input, output]: [Bound; 2], [work, land]: [Bound; 2]) -> Self {
        Self { regions: [input, output, work, land] }
    }

    /// Of an output only.
    pub(crate) const fn of_output(output: Bound) -> Self {
        Self::new([Bound::NONE, output], [Bound::NONE; 2])
    }

    /// What is bound to a region.
    #[inline(always)]
    pub(crate) fn region(&self, region: Region) -> &Bound {
        &self.regions[region as usize]
    }
}

/// Moves `len` bytes between places of the binding; they may overlap.
///
/// # Errors
/// When a place lies outside its region (a plan that does not fit its memory): nothing was moved.
pub(crate) fn copy(binding: &Binding, source: Place, target: Place, len: u64) -> Result<()> {
    let from = binding.region(source.region).touchable(source.offset, len);
    let to = binding.region(target.region).touchable(target.offset, len);
    let (Some((from, n)), Some((to, _))) = (from, to) else {
        return copy_by_device(binding, source, target, len);
    };
    if from != to && n > 0 {
        // SAFETY: both ranges lie inside bound regions (checked above), which `Bound::new`'s contract keeps
        // valid and free of references while the operation runs; `ptr::copy` allows overlap, and else there is none.
        unsafe {
            match from.addr().abs_diff(to.addr()) < n {
                true => std::ptr::copy(from, to, n),
                false => copy_bytes(from, to, n),
            }
        }
    }
    Ok(())
}

/// Copies what stands at `source` out of the binding.
///
/// # Errors
/// When it lies outside its region.
pub(crate) fn read(binding: &Binding, source: Place, out: &mut [u8]) -> Result<()> {
    let Some((from, n)) = binding.region(source.region).touchable(source.offset, out.len() as u64) else {
        return read_by_device(binding.region(source.region), source, out);
    };
    // SAFETY: the range lies inside a bound region (checked above), which `Bound::new`'s contract keeps valid while the
    // operation runs; `out` is a reference, so no bound region overlaps it.
    unsafe { copy_bytes(from, out.as_mut_ptr(), n) };
    Ok(())
}

/// Copies `bytes` into the binding.
///
/// # Errors
/// When `target` lies outside its region: nothing was written.
pub(crate) fn write(binding: &Binding, target: Place, bytes: &[u8]) -> Result<()> {
    let Some((to, n)) = binding.region(target.region).touchable(target.offset, bytes.len() as u64) else {
        return write_by_device(binding.region(target.region), target, bytes);
    };
    // SAFETY: as in `read`; a target is writable by the same contract.
    unsafe { copy_bytes(bytes.as_ptr(), to, n) };
    Ok(())
}

impl Device {
    /// Copies `n` bytes, from or to memory of this device.
    ///
    /// # Safety
    /// Both ranges are valid for that, and do not overlap.
    unsafe fn copy(self, to: *mut u8, from: *const u8, n: usize) -> Result<()> {
        // SAFETY: our caller's; the function does what its type says (`Bound::on_device`).
        match unsafe { (self.copy)(to.cast(), from.cast(), n) } {
            0 => Ok(()),
            code => {
                let what =
                    format!("copying {n} bytes of {} failed: its function returned {code}", self.memory);
                Err(Error::new(ErrorKind::System, what))
            }
        }
    }
}

/// [`copy`] where one of both is memory of a device, or a place lies outside.
#[cold]
fn copy_by_device(binding: &Binding, source: Place, target: Place, len: u64) -> Result<()> {
    let (from, to) = (binding.region(source.region), binding.region(target.region));
    let (Some((at, n)), Some((there, _))) = (from.range(source.offset, len), to.range(target.offset, len))
    else {
        return Err(outside("copy", target, len));
    };
    match (from.device, to.device) {
        (None, None) => Err(outside("copy", target, len)),
        _ if n == 0 => Ok(()),
        // SAFETY: as in `copy`: both ranges lie inside bound regions. One is of the device and one is not, so they do not overlap.
        (Some(device), None) | (None, Some(device)) => unsafe { device.copy(there, at, n) },
        (Some(source), Some(target))
            if source.memory.kind() == target.memory.kind() && at.addr().abs_diff(there.addr()) >= n =>
        {
            // SAFETY: as above, and they do not overlap (just compared).
            unsafe { target.copy(there, at, n) }
        }
        (Some(source), Some(target)) => {
            // They may overlap; or the one's function knows nothing of the other's memory.
            let mut between = vec![0; n];
            // SAFETY: as above; the bytes between are new.
            unsafe {
                source.copy(between.as_mut_ptr(), at, n)?;
                target.copy(there, between.as_ptr(), n)
            }
        }
    }
}

/// [`read`] where `region` is memory of a device, or the place lies outside.
#[cold]
fn read_by_device(region: &Bound, source: Place, out: &mut [u8]) -> Result<()> {
    match (region.range(source.offset, out.len() as u64), region.device) {
        // SAFETY: as in `read`: the range lies inside a bound region, which `out`, a reference, does not overlap.
        (Some((from, n)), Some(device)) => unsafe { device.copy(out.as_mut_ptr(), from, n) },
        _ => Err(outside("read", source, out.len() as u64)),
    }
}

/// [`write()`] where `region` is memory of a device, or the place lies outside.
#[cold]
fn write_by_device(region: &Bound, target: Place, bytes: &[u8]) -> Result<()> {
    match (region.range(target.offset, bytes.len() as u64), region.device) {
        // SAFETY: as in `write`.
        (Some((to, n)), Some(device)) => unsafe { device.copy(to, bytes.as_ptr(), n) },
        _ => Err(outside("data", target, bytes.len() as u64)),
    }
}

/// Combines `len` bytes at `source` into those at `target`.
///
/// # Errors
/// When a place lies outside its region or the places overlap, and the operator's own, a panic of it included.
pub(crate) fn reduce(
    binding: &Binding,
    source: Place,
    target: Place,
    len: u64,
    side: Side,
    reducer: &Reducer,
) -> Result<()> {
    // (Calls that reduce memory of a device are refused before they begin.)
    let from = binding.region(source.region).touchable(source.offset, len);
    let to = binding.region(target.region).touchable(target.offset, len);
    let (Some((from, n)), Some((to, _))) = (from, to) else { return Err(outside("reduce", target, len)) };
    if n == 0 {
        return Ok(());
    }
    if from.addr() < to.addr() + n && to.addr() < from.addr() + n {
        return Err(Error::new(ErrorKind::Argument, "the operands of a reduction overlap"));
    }
    // SAFETY: both ranges lie inside bound regions (checked above), which `Bound::new`'s contract keeps valid
    // and free of references while the operation runs, and they are disjoint (checked above). No peer writes
    // to either meanwhile: by law 2a of plans a put that would is ordered before or after this step.
    let (target, source) =
        unsafe { (std::slice::from_raw_parts_mut(to, n), std::slice::from_raw_parts(from, n)) };
    reducer.reduce(target, source, side)
}

/// Combines `bytes` into those at `target`.
///
/// # Errors
/// As [`reduce`].
pub(crate) fn fold(
    binding: &Binding,
    bytes: &[u8],
    target: Place,
    side: Side,
    reducer: &Reducer,
) -> Result<()> {
    let Some((to, n)) = binding.region(target.region).touchable(target.offset, bytes.len() as u64) else {
        return Err(outside("reduce", target, bytes.len() as u64));
    };
    if n == 0 {
        return Ok(());
    }
    // SAFETY: as in `reduce`; `bytes` is a reference, so no bound region overlaps it.
    let target = unsafe { std::slice::from_raw_parts_mut(to, n) };
    reducer.reduce(target, bytes, side)
}

/// The most segments of one put, as many as `transport/verbs/device.rs` asks hardware for; lowering is given no more.
pub(crate) const MAX_GATHER: usize = 30;

/// Where a put goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    pub(crate) peer: u32,
    pub(crate) address: u64,
    pub(crate) key: u64,
    pub(crate) word: u32,
}

/// Posts one put of `segments`.
///
/// # Errors
/// When a segment lies outside its region, or the transport fails.
#[inline(always)]
pub(crate) fn put(
    transport: &mut dyn Transport,
    binding: &Binding,
    segments: &[Segment],
    to: Destination,
    token: u64,
) -> Result<Posted> {
    let mut sources = [const { MaybeUninit::<Source>::uninit() }; MAX_GATHER];
    if segments.len() > MAX_GATHER {
        return Err(Error::new(ErrorKind::Transport, format!("{} segments in one put", segments.len())));
    }
    for (source, s) in sources.iter_mut().zip(segments) {
        let bound = binding.region(s.place.region);
        let Some((ptr, len)) = bound.range(s.place.offset, s.len) else {
            return Err(outside("put", s.place, s.len));
        };
        source.write(Source { ptr, len, registration: bound.registration });
    }
    // SAFETY: as many as there are segments, of which there are no more than sources, were written above.
    let sources = unsafe { std::slice::from_raw_parts(sources.as_ptr().cast::<Source>(), segments.len()) };
    // SAFETY: every source lies inside a bound region (checked above), which `Bound::new`'s contract keeps
    // registered, valid and unwritten until the operation ended or the transport was closed; the engine
    // ends an operation only when all its tokens are done.
    unsafe { transport.put(to.peer, sources, to.address, to.key, to.word, token) }
}

#[cold]
fn outside(what: &str, place: Place, len: u64) -> Error {
    Error::new(
        ErrorKind::Argument,
        format!(
            "{what} of {len} bytes at {:?}+{} lies outside the memory of the call",
            place.region, place.offset
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All ranges near the borders of a region, and near those of the numbers.
    #[test]
    fn a_range_lies_inside_its_region_or_is_none() {
        for len in 0..6usize {
            let mut bytes = [0u8; 6];
            let start = bytes.as_mut_ptr();
            // SAFETY: nothing is touched.
            let bound = unsafe { Bound::new(start, len, Registration(0), Grant::default()) };
            let ends = (0..8).chain([u64::MAX / 2, u64::MAX - 7, u64::MAX - 1, u64::MAX]);
            for offset in ends.clone() {
                for n in ends.clone() {
                    let inside = u128::from(offset) + u128::from(n) <= len as u128;
                    let want = inside.then(|| {
                        let (offset, n) = (usize::try_from(offset).unwrap(), usize::try_from(n).unwrap());
                        (start.wrapping_add(offset), n)
                    });
                    assert_eq!(bound.range(offset, n), want, "{n} bytes at {offset} of {len}");
                }
            }
        }
        let mut bytes = [0u8; 7];
        // SAFETY: as above.
        let (first, second) =
            unsafe { Bound::new(bytes.as_mut_ptr(), 7, Registration(0), Grant::default()) }.halves();
        for (half, len) in [(first, 3), (second, 4)] {
            assert!(half.range(0, len).is_some() && half.touchable(0, len).is_some());
            assert!(half.range(0, len + 1).is_none() && half.touchable(0, len + 1).is_none());
        }
        assert_eq!(second.grant.address, 3);
        assert_eq!(Bound::NONE.range(0, 0), Some((std::ptr::null_mut(), 0)));
        assert_eq!(Bound::NONE.range(0, 1), None);
    }
}
