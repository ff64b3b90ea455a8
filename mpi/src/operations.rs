//! The collectives, each with counts as `int` or as `MPI_Count`.
//!
//! Every function returns what MPI's returns. `pass` calls the MPI's own with the arguments of the program.

mod data;
mod lists;
mod reduce;

pub(crate) use data::{allgather, alltoall, barrier, bcast, gather, scatter};
pub(crate) use lists::{allgatherv, alltoallv, alltoallw, gatherv, scatterv};
pub(crate) use reduce::{allreduce, exscan, reduce, reduce_scatter, reduce_scatter_block, scan};

use crate::call::Stop;
use crate::report::Reason;

type In = *const std::ffi::c_void;
type Out = *mut std::ffi::c_void;
type Handle = usize;

/// A number of elements of all ranks together.
fn product(count: usize, ranks: usize) -> Result<usize, Stop> {
    count.checked_mul(ranks).ok_or(Stop::Pass(Reason::Arguments))
}
