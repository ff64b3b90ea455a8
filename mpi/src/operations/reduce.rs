//! What combines.

use super::{Handle, In, Out, product};
use crate::buffers::apart;
use crate::call::{Call, Stop, collective, count};
use crate::reductions::Reduction;
use crate::report::{Operation, Reason};
use circulant::Communicator;
use circulant::ops::OnBytes;
use std::borrow::Cow;
use std::ffi::c_int;

/// The reduction that a call asks for.
///
/// # Safety
/// `op` and `datatype` are of this MPI.
unsafe fn reduction(call: &Call, op: Handle, datatype: Handle) -> Result<Reduction, Stop> {
    // SAFETY: the caller's.
    unsafe { call.layer.reducers.of(call, op, call.datatype(datatype)?) }
}

/// The contribution of `count` elements: what stands in `send`, or in place in `recv`, of which it is a copy then. So the flag is none
/// that ranks must agree on.
///
/// # Safety
/// The buffer has `count` elements.
unsafe fn contribution<'a>(
    call: &Call,
    by: &Reduction,
    send: In,
    recv: Out,
    count: usize,
) -> Result<Cow<'a, [u8]>, Stop> {
    // SAFETY: the caller's.
    unsafe {
        match call.in_place(send) {
            true => Ok(Cow::Owned(by.source(call, recv, count)?.into_owned())),
            false => by.source(call, send, count),
        }
    }
}

/// Runs a reduction from all contributions to a result at every rank, of equal length.
///
/// # Safety
/// What MPI asks of callers of `MPI_Allreduce`, `MPI_Scan` and `MPI_Exscan`.
#[allow(clippy::too_many_arguments, reason = "those of MPI")]
unsafe fn everywhere(
    operation: Operation,
    send: In,
    recv: Out,
    n: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
    run: impl FnOnce(&Communicator, Option<&[u8]>, &mut [u8], OnBytes) -> circulant::Result<()>,
) -> c_int {
    // SAFETY: the caller's, here and below.
    unsafe {
        collective(
            operation,
            comm,
            |call| {
                let (n, by) = (count(n)?, reduction(call, op, datatype)?);
                call.chosen(by.ty.bytes(n)?)?;
                // In place is the same at all ranks in an allreduce only.
                let own = match call.in_place(send) && operation == Operation::Allreduce && by.is_in_memory()
                {
                    true => None,
                    false => Some(apart(contribution(call, &by, send, recv, n)?, recv, by.bytes(n)?)),
                };
                let mut result = by.target(recv, n)?;
                run(call.comm()?, own.as_deref(), result.bytes(), by.op())?;
                match operation == Operation::Exscan && call.rank()? == 0 {
                    true => Ok(()),
                    false => result.finish(call),
                }
            },
            pass,
        )
    }
}

/// # Safety
/// What MPI asks of callers of `MPI_Allreduce`.
pub(crate) unsafe fn allreduce(
    send: In,
    recv: Out,
    n: impl Into<i64>,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    let run = |ours: &Communicator, own: Option<&[u8]>, to: &mut [u8], by| ours.allreduce(own, to, by);
    // SAFETY: the caller's.
    unsafe { everywhere(Operation::Allreduce, send, recv, n.into(), datatype, op, comm, pass, run) }
}

/// # Safety
/// What MPI asks of callers of `MPI_Scan`.
pub(crate) unsafe fn scan(
    send: In,
    recv: Out,
    n: impl Into<i64>,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    let run = |ours: &Communicator, own: Option<&[u8]>, to: &mut [u8], by| ours.scan(own, to, by);
    // SAFETY: the caller's.
    unsafe { everywhere(Operation::Scan, send, recv, n.into(), datatype, op, comm, pass, run) }
}

/// # Safety
/// What MPI asks of callers of `MPI_Exscan`.
pub(crate) unsafe fn exscan(
    send: In,
    recv: Out,
    n: impl Into<i64>,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    let run = |ours: &Communicator, own: Option<&[u8]>, to: &mut [u8], by| ours.exscan(own, to, by);
    // SAFETY: the caller's.
    unsafe { everywhere(Operation::Exscan, send, recv, n.into(), datatype, op, comm, pass, run) }
}

/// # Safety
/// What MPI asks of callers of `MPI_Reduce`.
#[allow(clippy::too_many_arguments, reason = "those of MPI")]
pub(crate) unsafe fn reduce(
    send: In,
    recv: Out,
    n: impl Into<i64>,
    datatype: Handle,
    op: Handle,
    root: c_int,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's, here and below; `recv` is looked at at the root only.
    unsafe {
        collective(
            Operation::Reduce,
            comm,
            |call| {
                let (root, n, by) = (call.root(root)?, count(n)?, reduction(call, op, datatype)?);
                call.chosen(by.ty.bytes(n)?)?;
                if call.rank()? != root {
                    let own = by.source(call, send, n)?;
                    call.comm()?.reduce(&*own, &mut [], by.op(), root)?;
                    return Ok(());
                }
                let own = apart(contribution(call, &by, send, recv, n)?, recv, by.bytes(n)?);
                let mut result = by.target(recv, n)?;
                call.comm()?.reduce(&*own, result.bytes(), by.op(), root)?;
                result.finish(call)
            },
            pass,
        )
    }
}

/// # Safety
/// What MPI asks of callers of `MPI_Reduce_scatter`.
pub(crate) unsafe fn reduce_scatter<C: Into<i64> + Copy>(
    send: In,
    recv: Out,
    n: *const C,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's, here and below; the list has a count for each rank.
    unsafe {
        collective(
            Operation::ReduceScatter,
            comm,
            |call| {
                let by = reduction(call, op, datatype)?;
                let counts = (0..call.size()?).map(|i| count(n.add(i).read_unaligned()));
                let counts = counts.collect::<Result<Vec<usize>, Stop>>()?;
                let all = counts.iter().try_fold(0usize, |sum, n| sum.checked_add(*n));
                let all = all.ok_or(Stop::Pass(Reason::Arguments))?;
                call.chosen(by.ty.bytes(all)?)?;
                let mine = counts[call.rank()?];
                let own = apart(contribution(call, &by, send, recv, all)?, recv, by.bytes(mine)?);
                let bytes: Vec<usize> = counts.iter().map(|n| n * by.element).collect();
                let mut result = by.target(recv, mine)?;
                call.comm()?.reduce_scatter(&*own, result.bytes(), &bytes, by.op())?;
                result.finish(call)
            },
            pass,
        )
    }
}

/// # Safety
/// What MPI asks of callers of `MPI_Reduce_scatter_block`.
pub(crate) unsafe fn reduce_scatter_block(
    send: In,
    recv: Out,
    n: impl Into<i64>,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's, here and below.
    unsafe {
        collective(
            Operation::ReduceScatterBlock,
            comm,
            |call| {
                let (n, by) = (count(n)?, reduction(call, op, datatype)?);
                call.chosen(by.ty.bytes(n)?)?;
                let all = product(n, call.size()?)?;
                let own = apart(contribution(call, &by, send, recv, all)?, recv, by.bytes(n)?);
                let mut result = by.target(recv, n)?;
                call.comm()?.reduce_scatter_block(&*own, result.bytes(), by.op())?;
                result.finish(call)
            },
            pass,
        )
    }
}
