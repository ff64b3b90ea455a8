//! The collectives, each with counts as `int` or as `MPI_Count`.
//!
//! Every function returns what MPI's returns. `pass` calls the MPI's own with the arguments of the program.

mod data;
mod lists;
mod reduce;

pub(crate) use data::{allgather, alltoall, barrier, bcast, gather, scatter};
pub(crate) use lists::{allgatherv, alltoallv, alltoallw, gatherv, scatterv};
pub(crate) use reduce::{allreduce, exscan, reduce, reduce_scatter, reduce_scatter_block, scan};

use crate::buffers::{apart, source};
use crate::call::{Call, Stop, count};
use crate::report::Reason;
use std::borrow::Cow;

type In = *const std::ffi::c_void;
type Out = *mut std::ffi::c_void;
type Handle = usize;

/// A number of elements of all ranks together.
fn product(count: usize, ranks: usize) -> Result<usize, Stop> {
    count.checked_mul(ranks).ok_or(Stop::Pass(Reason::Arguments))
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
