//! The collectives, each with counts as `int` or as `MPI_Count`.
//!
//! Every function returns what MPI's returns. `pass` calls the MPI's own with the arguments of the program.

mod between;
mod data;
mod lists;
mod reduce;

pub(crate) use data::{allgather, alltoall, barrier, bcast, gather, scatter};
pub(crate) use lists::{allgatherv, alltoallv, alltoallw, gatherv, scatterv};
pub(crate) use reduce::{allreduce, exscan, reduce, reduce_scatter, reduce_scatter_block, scan};

use crate::buffers::{apart, source};
use crate::call::Call;
use crate::decided::{self, Arguments, arguments};
use crate::report::Reason;
use crate::stop::{Stop, count};
use std::borrow::Cow;

type In = *const std::ffi::c_void;
type Out = *mut std::ffi::c_void;
type Handle = usize;

/// Of an operation that sends or receives nothing, or of whose size not all ranks know anything.
const NONE: (i64, Handle) = (0, 0);

/// What decides of an operation whose size is the sum of a list of counts of this type; nothing while it is not known how long that is.
///
/// # Safety
/// The list has a count for each rank of `comm`.
unsafe fn summed<C: Into<i64> + Copy>(counts: *const C, datatype: Handle, comm: Handle) -> Option<Arguments> {
    let ranks = decided::ranks(comm)?;
    // SAFETY: the caller's.
    let sum =
        (0..ranks).fold(0i64, |sum, i| sum.wrapping_add(unsafe { counts.add(i).read_unaligned() }.into()));
    Some(arguments([NONE, (sum, datatype)], 0))
}

/// A number of elements of all ranks together.
fn product(count: usize, ranks: usize) -> Result<usize, Stop> {
    count.checked_mul(ranks).ok_or(Stop::Pass(Reason::Arguments))
}

/// The elements of all ranks, of which each has so many.
fn sum(counts: &[usize]) -> Result<usize, Stop> {
    let all = counts.iter().try_fold(0usize, |sum, n| sum.checked_add(*n));
    all.ok_or(Stop::Pass(Reason::Arguments))
}

/// `blocks` blocks that this rank contributes to what is received in some bytes from `recv` on, with which they share none; nothing where
/// they stand there already, in place.
///
/// # Safety
/// In place, or `send` is a send buffer of these blocks, with `n` elements each of a type of this MPI.
unsafe fn own<'a>(
    call: &Call,
    (send, n, datatype): (In, impl Into<i64>, Handle),
    blocks: usize,
    (recv, bytes): (Out, usize),
) -> Result<Option<Cow<'a, [u8]>>, Stop> {
    if call.in_place(send) {
        return Ok(None);
    }
    // SAFETY: the caller's.
    let data = unsafe { source(call, send, product(count(n)?, blocks)?, &call.datatype(datatype)?)? };
    Ok(Some(apart(data, recv, bytes)))
}
