//! Pointers and counts of C as slices of bytes.

use crate::status::{given, null_pointer};
use crate::types::{Datatype, TypeNumber};
use circulant::Result;
use circulant::comm::Partition;
use circulant::error::argument;
use std::ffi::{c_int, c_void};

/// `CIRCULANT_IN_PLACE`.
const IN_PLACE: usize = usize::MAX;

/// Whether it stands in place of a buffer.
pub(crate) fn is_in_place(pointer: *const c_void) -> bool {
    pointer.addr() == IN_PLACE
}

/// A pointer with a length in bytes, that was looked at.
pub(crate) fn checked(name: &str, pointer: *const c_void, bytes: usize) -> Result<()> {
    match (bytes, pointer.addr()) {
        (0, _) => Ok(()),
        (_, 0) => Err(null_pointer(name)),
        (_, IN_PLACE) => Err(argument(format!("{name} cannot be CIRCULANT_IN_PLACE here"))),
        (_, at) if at.checked_add(bytes).is_none() => Err(argument(format!("{name} ends behind all memory"))),
        _ => Ok(()),
    }
}

/// What is sent.
///
/// # Safety
/// `pointer` is null, [`IN_PLACE`], or leads to as many bytes, which live for `'a` and are not written to meanwhile.
pub(crate) unsafe fn sent<'a>(pointer: *const c_void, bytes: usize) -> Result<&'a [u8]> {
    checked("send", pointer, bytes)?;
    // SAFETY: our caller's; of no bytes any pointer will do that is not null.
    Ok(if bytes == 0 { &[] } else { unsafe { std::slice::from_raw_parts(pointer.cast(), bytes) } })
}

/// Where is received.
///
/// # Safety
/// `pointer` is null, [`IN_PLACE`], or leads to as many bytes, which live for `'a` and which only we use meanwhile.
pub(crate) unsafe fn received<'a>(pointer: *mut c_void, bytes: usize) -> Result<&'a mut [u8]> {
    checked("recv", pointer, bytes)?;
    // SAFETY: as in `sent`.
    Ok(if bytes == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(pointer.cast(), bytes) } })
}

/// Says whether two buffers overlap, as an error.
pub(crate) fn apart(send: (*const c_void, usize), recv: (*mut c_void, usize)) -> Result<()> {
    let ((a, n), (b, m)) = ((send.0.addr(), send.1), (recv.0.addr(), recv.1));
    if n > 0 && m > 0 && a < b.saturating_add(m) && b < a.saturating_add(n) {
        let e = argument("send and recv overlap");
        return Err(e.help("what is in place already is said by CIRCULANT_IN_PLACE"));
    }
    Ok(())
}

/// What is sent, if it is not in place, and where is received.
///
/// # Safety
/// As [`sent`] and [`received`].
pub(crate) unsafe fn both<'a>(
    send: (*const c_void, usize),
    recv: (*mut c_void, usize),
) -> Result<(Option<&'a [u8]>, &'a mut [u8])> {
    if is_in_place(send.0) {
        // SAFETY: our caller's.
        return Ok((None, unsafe { received(recv.0, recv.1)? }));
    }
    apart(send, recv)?;
    // SAFETY: our caller's; they do not overlap.
    unsafe { Ok((Some(sent(send.0, send.1)?), received(recv.0, recv.1)?)) }
}

/// As [`both`], where nothing may be in place.
///
/// # Safety
/// As [`sent`] and [`received`].
pub(crate) unsafe fn neither_in_place<'a>(
    send: (*const c_void, usize),
    recv: (*mut c_void, usize),
) -> Result<(&'a [u8], &'a mut [u8])> {
    apart(send, recv)?;
    // SAFETY: our caller's; they do not overlap.
    unsafe { Ok((sent(send.0, send.1)?, received(recv.0, recv.1)?)) }
}

/// As [`both`], where what is received may be in place.
///
/// # Safety
/// As [`sent`] and [`received`].
pub(crate) unsafe fn both_at_root<'a>(
    send: (*const c_void, usize),
    recv: (*mut c_void, usize),
) -> Result<(&'a [u8], Option<&'a mut [u8]>)> {
    if is_in_place(recv.0) {
        // SAFETY: our caller's.
        return Ok((unsafe { sent(send.0, send.1)? }, None));
    }
    apart(send, recv)?;
    // SAFETY: our caller's; they do not overlap.
    unsafe { Ok((sent(send.0, send.1)?, Some(received(recv.0, recv.1)?))) }
}

/// How many bytes `count` elements of each of `ranks` ranks have.
///
/// # Errors
/// When they are more than memory.
pub(crate) fn whole(ranks: usize, count: usize, kind: TypeNumber) -> Result<usize> {
    let all = count.checked_mul(ranks);
    let all = all
        .ok_or_else(|| argument(format!("{count} elements of each of {ranks} ranks are more than memory")))?;
    Datatype::of(kind)?.bytes(all)
}

/// A rank as the library counts.
///
/// # Errors
/// When it is negative.
pub(crate) fn rank(name: &str, rank: c_int) -> Result<usize> {
    usize::try_from(rank).map_err(|_| argument(format!("{name} is {rank}")))
}

/// `n` numbers.
///
/// # Safety
/// `pointer` is null, or leads to as many.
unsafe fn list<'a>(name: &str, pointer: *const usize, n: usize) -> Result<&'a [usize]> {
    if n == 0 {
        return Ok(&[]);
    }
    // SAFETY: our caller's.
    unsafe { given(name, pointer).map(|first| std::slice::from_raw_parts(first, n)) }
}

/// Counts and displacements of `ranks` ranks (or neighbours) in elements, as parts in bytes. Without displacements they stand one behind the other.
///
/// # Safety
/// The pointers are null, or lead to as many numbers.
pub(crate) unsafe fn parts(
    counts: *const usize,
    displs: *const usize,
    ranks: usize,
    kind: Datatype,
) -> Result<Partition> {
    // SAFETY: our caller's.
    let counts = unsafe { list("counts", counts, ranks)? };
    let bytes: Vec<usize> = counts.iter().map(|n| kind.bytes(*n)).collect::<Result<_>>()?;
    let parts = match displs.is_null() {
        true => Partition::contiguous(bytes)?,
        false => {
            // SAFETY: our caller's.
            let displs = unsafe { list("displs", displs, ranks)? };
            // Where nothing goes does not matter.
            let place = |(n, at): (&usize, &usize)| if *n == 0 { Ok(0) } else { kind.bytes(*at) };
            let displs: Vec<usize> = counts.iter().zip(displs).map(place).collect::<Result<_>>()?;
            Partition::with_displs(bytes, displs)?
        }
    };
    in_memory(&parts).map(|()| parts)
}

/// No slice can be longer.
fn in_memory(parts: &Partition) -> Result<()> {
    match isize::try_from(parts.extent()) {
        Ok(_) => Ok(()),
        Err(_) => Err(argument("counts and displacements are more than memory")),
    }
}
