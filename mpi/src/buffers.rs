//! The program's memory as slices of bytes.
//!
//! Bytes of dense types are used where they lie. All others are packed by `PMPI_Pack` into memory of ours, and unpacked from there: so
//! one rank may send a vector where another receives ints.
//!
//! The bytes of a type's padding have no defined value: they are copied as bytes of foreign memory, and decide nothing.

use crate::on::On;
use crate::real::{Count, Real};
use crate::report::Reason;
use crate::stop::Stop;
use crate::types::Type;
use std::borrow::Cow;
use std::ffi::{c_int, c_void};

/// `bytes` bytes from `from` on. Without bytes the pointer may be anything.
///
/// # Safety
/// They may be read and are not written while the slice lives, as MPI asks of a program for the time of a call.
unsafe fn bytes_at<'a>(from: *const u8, bytes: usize) -> Result<&'a [u8], Stop> {
    match bytes {
        0 => Ok(&[]),
        _ if from.is_null() => Err(Stop::Pass(Reason::Arguments)),
        // SAFETY: the caller's; the number fits an isize, as `Type::bytes` has checked.
        _ => Ok(unsafe { std::slice::from_raw_parts(from, bytes) }),
    }
}

/// As [`bytes_at`], to be written.
///
/// # Safety
/// The bytes may be written, and nothing else uses them while the slice lives.
unsafe fn bytes_at_mut<'a>(to: *mut u8, bytes: usize) -> Result<&'a mut [u8], Stop> {
    match bytes {
        0 => Ok(&mut []),
        _ if to.is_null() => Err(Stop::Pass(Reason::Arguments)),
        // SAFETY: as in `bytes_at`.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(to, bytes) }),
    }
}

/// Packs `count` elements from `from` on into `to`, which has room for exactly these.
///
/// # Safety
/// `from` has `count` elements of this type, as MPI asks of a send buffer.
pub(crate) unsafe fn pack(
    on: &On,
    from: *const u8,
    count: usize,
    ty: &Type,
    to: &mut [u8],
) -> Result<(), Stop> {
    if to.is_empty() {
        return Ok(());
    }
    if ty.dense {
        // SAFETY: the caller's: dense elements are as many bytes as their data has, here `to.len()`.
        to.copy_from_slice(unsafe { bytes_at(from, to.len())? });
        return Ok(());
    }
    if from.is_null() {
        let shifted = Shifted::new(on.real, count, ty)?;
        // SAFETY: the caller's: the same bytes, from another beginning.
        return unsafe { pack(on, ONE_BYTE_ON.cast_const(), 1, &shifted.ty, to) };
    }
    let real = on.real;
    for Piece { first, n, bytes, is_short } in pieces(ty, count, to)? {
        let (from, size, mut position) = (from.wrapping_offset(first).cast(), bytes.len(), 0);
        let to = bytes.as_mut_ptr().cast();
        let code = if is_short || real.Pack_c.is_none() {
            let (n, size, mut at) = (int(n)?, int(size)?, 0);
            // SAFETY: the caller's; `to` has room for these elements.
            let code = unsafe { real.Pack(from, n, ty.handle, to, size, &raw mut at, on.handle) };
            position = Count::from(at);
            code
        } else {
            let (n, size) = (n.cast_signed() as Count, size.cast_signed() as Count);
            // SAFETY: as above.
            unsafe { real.Pack_c(from, n, ty.handle, to, size, &raw mut position, on.handle) }
        };
        checked(code, position, size)?;
    }
    Ok(())
}

/// Unpacks `count` elements, which `from` has exactly, to `to`.
///
/// # Safety
/// `to` has room for `count` elements of this type, as MPI asks of a receive buffer.
pub(crate) unsafe fn unpack(on: &On, from: &[u8], to: *mut u8, count: usize, ty: &Type) -> Result<(), Stop> {
    if from.is_empty() {
        return Ok(());
    }
    if ty.dense {
        // SAFETY: the caller's: dense elements are as many bytes as their data has, here `from.len()`.
        unsafe { bytes_at_mut(to, from.len())? }.copy_from_slice(from);
        return Ok(());
    }
    if to.is_null() {
        let shifted = Shifted::new(on.real, count, ty)?;
        // SAFETY: the caller's: the same bytes, from another beginning.
        return unsafe { unpack(on, from, ONE_BYTE_ON, 1, &shifted.ty) };
    }
    let real = on.real;
    for Piece { first, n, bytes, is_short } in pieces(ty, count, from)? {
        let (to, size, mut position) = (to.wrapping_offset(first).cast(), bytes.len(), 0);
        let from = bytes.as_ptr().cast();
        let code = if is_short || real.Unpack_c.is_none() {
            let (n, size, mut at) = (int(n)?, int(size)?, 0);
            // SAFETY: the caller's; `from` has these elements.
            let code = unsafe { real.Unpack(from, size, &raw mut at, to, n, ty.handle, on.handle) };
            position = Count::from(at);
            code
        } else {
            let (n, size) = (n.cast_signed() as Count, size.cast_signed() as Count);
            // SAFETY: as above.
            unsafe { real.Unpack_c(from, size, &raw mut position, to, n, ty.handle, on.handle) }
        };
        checked(code, position, size)?;
    }
    Ok(())
}

/// Where elements with absolute addresses begin for MPICH, whose MPI_Pack takes no `MPI_BOTTOM`, which is null.
const ONE_BYTE_ON: *mut u8 = std::ptr::without_provenance_mut(1);

/// Elements from null on, as one element from [`ONE_BYTE_ON`] on.
struct Shifted {
    real: &'static Real,
    ty: Type,
}

impl Shifted {
    fn new(real: &'static Real, count: usize, ty: &Type) -> Result<Self, Stop> {
        let (n, back, mut handle) = (int(count)?, -1isize, 0);
        let size = ty.bytes(count)?;
        // SAFETY: a list of one block, and room for the type.
        let code = unsafe {
            real.Type_create_hindexed(1, &raw const n, &raw const back, ty.handle, &raw mut handle)
        };
        if code != 0 {
            return Err(Stop::Code(code));
        }
        // SAFETY: the type that has just been made, which is freed when it is dropped.
        let code = unsafe { real.Type_commit(&raw mut handle) };
        let shifted = Self { real, ty: Type { handle, size, extent: 0, dense: false, class: None } };
        if code == 0 { Ok(shifted) } else { Err(Stop::Code(code)) }
    }
}

impl Drop for Shifted {
    fn drop(&mut self) {
        // SAFETY: a type of ours, which is not used after.
        unsafe { self.real.Type_free(&raw mut self.ty.handle) };
    }
}

/// What a slice of packed elements is cut into.
trait Cut: Sized {
    fn len(&self) -> usize;
    fn cut(self, at: usize) -> (Self, Self);
}

impl Cut for &[u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }
    fn cut(self, at: usize) -> (Self, Self) {
        self.split_at(at)
    }
}

impl Cut for &mut [u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }
    fn cut(self, at: usize) -> (Self, Self) {
        self.split_at_mut(at)
    }
}

/// Some of the elements of a call.
struct Piece<S> {
    /// Where they begin, in bytes from the first element of all.
    first: isize,
    n: usize,
    /// Their part of what is packed.
    bytes: S,
    /// An `int` counts its bytes. Only a single element may be longer.
    is_short: bool,
}

/// The elements in pieces of at most as many bytes as an `int` counts; a single element may have more.
fn pieces<S: Cut>(ty: &Type, count: usize, packed: S) -> Result<Vec<Piece<S>>, Stop> {
    const MAX_BYTES: usize = c_int::MAX as usize;
    let each = (MAX_BYTES / ty.size.max(1)).clamp(1, MAX_BYTES);
    let (mut rest, mut list, mut first) = (packed, Vec::with_capacity(1), 0usize);
    while first < count {
        let n = each.min(count - first);
        let size = (n * ty.size).min(rest.len());
        let (bytes, after) = rest.cut(size);
        let offset = isize::try_from(first).ok().and_then(|first| first.checked_mul(ty.extent));
        let offset = offset.ok_or(Stop::Pass(Reason::Arguments))?;
        list.push(Piece { first: offset, n, bytes, is_short: size <= MAX_BYTES });
        (rest, first) = (after, first + n);
    }
    Ok(list)
}

fn int(n: usize) -> Result<c_int, Stop> {
    c_int::try_from(n).map_err(|_| failed("a datatype of more than 2 GiB, which this MPI cannot pack"))
}

/// A packed element has as many bytes as its type says: all ranks rely on it.
fn checked(code: c_int, position: Count, bytes: usize) -> Result<(), Stop> {
    match code {
        0 if usize::try_from(position) == Ok(bytes) => Ok(()),
        0 => Err(failed("the MPI packs elements into another number of bytes than their types have")),
        code => Err(Stop::Code(code)),
    }
}

fn failed(what: &str) -> Stop {
    circulant::Error::new(circulant::ErrorKind::Library, what).into()
}

/// The data of `count` elements, in the order of the signature.
///
/// # Safety
/// `from` is a send buffer of `count` elements of this type.
pub(crate) unsafe fn source<'a>(
    on: &On,
    from: *const c_void,
    count: usize,
    ty: &Type,
) -> Result<Cow<'a, [u8]>, Stop> {
    let (from, bytes) = (from.cast::<u8>(), ty.bytes(count)?);
    if ty.dense {
        // SAFETY: the caller's.
        return Ok(Cow::Borrowed(unsafe { bytes_at(from, bytes)? }));
    }
    let mut packed = vec![0; bytes];
    // SAFETY: the caller's.
    unsafe { pack(on, from, count, ty, &mut packed)? };
    Ok(Cow::Owned(packed))
}

/// Where data of elements is received.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    bytes: Bytes<'a>,
    to: *mut u8,
    count: usize,
    ty: Type,
}

#[derive(Debug)]
pub(crate) enum Bytes<'a> {
    /// Where they belong.
    There(&'a mut [u8]),
    /// To be unpacked.
    Packed(Vec<u8>),
}

impl Bytes<'_> {
    pub(crate) fn get(&mut self) -> &mut [u8] {
        match self {
            Self::There(bytes) => bytes,
            Self::Packed(bytes) => bytes,
        }
    }
}

impl Target<'_> {
    /// # Safety
    /// `to` is a receive buffer of `count` elements of this type, which nothing else uses while the target lives.
    pub(crate) unsafe fn new(call_to: *mut c_void, count: usize, ty: Type) -> Result<Self, Stop> {
        let (to, bytes) = (call_to.cast::<u8>(), ty.bytes(count)?);
        let bytes = if ty.dense {
            // SAFETY: the caller's.
            Bytes::There(unsafe { bytes_at_mut(to, bytes)? })
        } else {
            Bytes::Packed(vec![0; bytes])
        };
        Ok(Self { bytes, to, count, ty })
    }

    /// What is received into.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.bytes.get()
    }

    /// Takes over `count` elements from element `first` on that stand in the buffer already.
    pub(crate) fn keep(&mut self, on: &On, first: usize, count: usize) -> Result<(), Stop> {
        let Bytes::Packed(packed) = &mut self.bytes else { return Ok(()) };
        let place = first * self.ty.size..(first + count) * self.ty.size;
        let Some(part) = packed.get_mut(place) else { return Err(Stop::Pass(Reason::Arguments)) };
        let at = self.to.wrapping_offset(first.cast_signed().wrapping_mul(self.ty.extent));
        // SAFETY: elements of the buffer that `new` was given, as `part` lies within its packed bytes.
        unsafe { pack(on, at, count, &self.ty, part) }
    }

    /// Puts what was received where it belongs.
    pub(crate) fn finish(self, on: &On) -> Result<(), Stop> {
        match self.bytes {
            Bytes::There(_) => Ok(()),
            // SAFETY: the buffer that `new` was given.
            Bytes::Packed(packed) => unsafe { unpack(on, &packed, self.to, self.count, &self.ty) },
        }
    }
}

/// A source that shares no byte with `bytes` bytes from `to` on. (MPI forbids such buffers; programs that have them work with most MPIs.)
pub(crate) fn apart<'a>(source: Cow<'a, [u8]>, to: *const c_void, bytes: usize) -> Cow<'a, [u8]> {
    let (from, to) = (source.as_ptr() as usize, to as usize);
    let shares = from < to.saturating_add(bytes) && to < from.saturating_add(source.len());
    if shares { Cow::Owned(source.into_owned()) } else { source }
}
