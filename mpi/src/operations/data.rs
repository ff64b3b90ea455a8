//! What moves blocks of equal length.

use super::{Handle, In, Out, own, product};
use crate::buffers::{Target, apart, source};
use crate::call::{collective, count};
use crate::report::Operation;
use std::ffi::c_int;

/// # Safety
/// What MPI asks of callers of `MPI_Barrier`.
pub(crate) unsafe fn barrier(comm: Handle, pass: impl FnOnce() -> c_int) -> c_int {
    let ours = |call: &crate::call::Call| {
        call.chosen(0)?;
        Ok(call.comm()?.barrier()?)
    };
    // SAFETY: the caller's.
    unsafe { collective(Operation::Barrier, comm, ours, pass) }
}

/// # Safety
/// What MPI asks of callers of `MPI_Bcast`.
pub(crate) unsafe fn bcast(
    buffer: Out,
    n: impl Into<i64>,
    datatype: Handle,
    root: c_int,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's, here and below.
    unsafe {
        collective(
            Operation::Bcast,
            comm,
            |call| {
                let (root, n, ty) = (call.root(root)?, count(n)?, call.datatype(datatype)?);
                call.chosen(ty.bytes(n)?)?;
                let sends = call.rank()? == root;
                let mut target = Target::new(buffer, n, ty)?;
                if sends {
                    target.keep(call, 0, n)?;
                }
                call.comm()?.bcast(target.bytes(), root)?;
                if sends { Ok(()) } else { target.finish(call) }
            },
            pass,
        )
    }
}

/// # Safety
/// What MPI asks of callers of `MPI_Gather`.
#[allow(clippy::too_many_arguments, reason = "those of MPI")]
pub(crate) unsafe fn gather(
    send: In,
    sn: impl Into<i64>,
    st: Handle,
    recv: Out,
    rn: impl Into<i64>,
    rt: Handle,
    root: c_int,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's, here and below; what matters at the root only is looked at there only.
    unsafe {
        collective(
            Operation::Gather,
            comm,
            |call| {
                let (root, me) = (call.root(root)?, call.rank()?);
                if me != root {
                    let (sn, st) = (count(sn)?, call.datatype(st)?);
                    call.chosen(st.bytes(sn)?)?;
                    call.comm()?.gather(&*source(call, send, sn, &st)?, &mut [], root)?;
                    return Ok(());
                }
                let (rn, rt) = (count(rn)?, call.datatype(rt)?);
                call.chosen(rt.bytes(rn)?)?;
                let all = product(rn, call.size()?)?;
                let own = own(call, (send, sn, st), 1, (recv, rt.bytes(all)?))?;
                let mut target = Target::new(recv, all, rt)?;
                if own.is_none() {
                    target.keep(call, me * rn, rn)?;
                }
                call.comm()?.gather(own.as_deref(), target.bytes(), root)?;
                target.finish(call)
            },
            pass,
        )
    }
}

/// # Safety
/// What MPI asks of callers of `MPI_Scatter`.
#[allow(clippy::too_many_arguments, reason = "those of MPI")]
pub(crate) unsafe fn scatter(
    send: In,
    sn: impl Into<i64>,
    st: Handle,
    recv: Out,
    rn: impl Into<i64>,
    rt: Handle,
    root: c_int,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's, here and below; what matters at the root only is looked at there only.
    unsafe {
        collective(
            Operation::Scatter,
            comm,
            |call| {
                let (root, me) = (call.root(root)?, call.rank()?);
                if me != root {
                    let (rn, rt) = (count(rn)?, call.datatype(rt)?);
                    call.chosen(rt.bytes(rn)?)?;
                    let mut target = Target::new(recv, rn, rt)?;
                    call.comm()?.scatter(&[], target.bytes(), root)?;
                    return target.finish(call);
                }
                let (sn, st) = (count(sn)?, call.datatype(st)?);
                call.chosen(st.bytes(sn)?)?;
                let all = source(call, send, product(sn, call.size()?)?, &st)?;
                if call.in_place(recv) {
                    call.comm()?.scatter(&all, None::<&mut [u8]>, root)?;
                    return Ok(());
                }
                let (rn, rt) = (count(rn)?, call.datatype(rt)?);
                let all = apart(all, recv, rt.bytes(rn)?);
                let mut target = Target::new(recv, rn, rt)?;
                call.comm()?.scatter(&all, target.bytes(), root)?;
                target.finish(call)
            },
            pass,
        )
    }
}

/// # Safety
/// What MPI asks of callers of `MPI_Allgather`.
#[allow(clippy::too_many_arguments, reason = "those of MPI")]
pub(crate) unsafe fn allgather(
    send: In,
    sn: impl Into<i64>,
    st: Handle,
    recv: Out,
    rn: impl Into<i64>,
    rt: Handle,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's, here and below.
    unsafe {
        collective(
            Operation::Allgather,
            comm,
            |call| {
                let (rn, rt) = (count(rn)?, call.datatype(rt)?);
                call.chosen(rt.bytes(rn)?)?;
                let all = product(rn, call.size()?)?;
                let own = own(call, (send, sn, st), 1, (recv, rt.bytes(all)?))?;
                let mut target = Target::new(recv, all, rt)?;
                if own.is_none() {
                    target.keep(call, call.rank()? * rn, rn)?;
                }
                call.comm()?.allgather(own.as_deref(), target.bytes())?;
                target.finish(call)
            },
            pass,
        )
    }
}

/// # Safety
/// What MPI asks of callers of `MPI_Alltoall`.
#[allow(clippy::too_many_arguments, reason = "those of MPI")]
pub(crate) unsafe fn alltoall(
    send: In,
    sn: impl Into<i64>,
    st: Handle,
    recv: Out,
    rn: impl Into<i64>,
    rt: Handle,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's, here and below.
    unsafe {
        collective(
            Operation::Alltoall,
            comm,
            |call| {
                let (rn, rt, ranks) = (count(rn)?, call.datatype(rt)?, call.size()?);
                call.chosen(rt.bytes(rn)?)?;
                let all = product(rn, ranks)?;
                let own = own(call, (send, sn, st), ranks, (recv, rt.bytes(all)?))?;
                let mut target = Target::new(recv, all, rt)?;
                if own.is_none() {
                    target.keep(call, 0, all)?;
                }
                call.comm()?.alltoall(own.as_deref(), target.bytes())?;
                target.finish(call)
            },
            pass,
        )
    }
}
