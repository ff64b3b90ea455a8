//! What moves blocks of equal length.

use super::{Handle, In, NONE, Out, between, own, product};
use crate::buffers::{Target, apart, source};
use crate::call::Call;
use crate::collective::collective;
use crate::decided::{Arguments, arguments};
use crate::form::{Form, Memory, run};
use crate::groups::Groups;
use crate::report::Operation;
use crate::stop::{Stop, count};
use crate::types::Type;
use std::ffi::c_int;
use std::ops::Range;

/// # Safety
/// What MPI asks of callers of `MPI_Barrier`.
pub(crate) unsafe fn barrier(form: impl Form, comm: Handle, pass: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's, here and below; there is no memory.
    unsafe {
        let ours = |call: &Call| {
            call.chosen(0)?;
            run!(form, call, (None, ()), |_, _| barrier ibarrier(), |(), _| Ok(()))
        };
        collective(form, Operation::Barrier, comm, Some(Arguments::default()), ours, between::barrier, pass)
    }
}

/// # Safety
/// What MPI asks of callers of `MPI_Bcast`.
pub(crate) unsafe fn bcast(
    form: impl Form,
    buffer: Out,
    n: impl Into<i64>,
    datatype: Handle,
    root: c_int,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    let n = n.into();
    // SAFETY: the caller's, here and below.
    unsafe {
        collective(
            form,
            Operation::Bcast,
            comm,
            Some(arguments([(n, datatype), NONE], root)),
            |call| {
                let (root, n, ty) = (call.root(root)?, count(n)?, call.datatype(datatype)?);
                call.chosen(ty.bytes(n)?)?;
                let sends = call.rank()? == root;
                let mut target = Target::new(buffer, n, ty)?;
                if sends {
                    target.keep(call, 0, n)?;
                }
                run!(form, call, (None, target), |_, to| bcast ibcast(to.bytes(), root), move |to, on| {
                    if sends { Ok(()) } else { to.finish(on) }
                })
            },
            |call, on| between::bcast(call, on, (buffer, n, datatype), root),
            pass,
        )
    }
}

/// What this rank contributes to blocks of `n` elements of all ranks, and where these are received. In place it is the blocks `sent` of them.
///
/// # Safety
/// What MPI asks of the buffers of `MPI_Allgather`, or of `MPI_Alltoall` where all blocks are sent.
unsafe fn memory(
    call: &Call,
    send: (In, i64, Handle),
    (recv, n, ty): (Out, usize, Type),
    sent: Range<usize>,
) -> Result<Memory<Target<'static>>, Stop> {
    let all = product(n, call.size()?)?;
    // SAFETY: the caller's.
    unsafe {
        let own = own(call, send, sent.len(), (recv, ty.bytes(all)?))?;
        let mut target = Target::new(recv, all, ty)?;
        if own.is_none() {
            target.keep(call, sent.start * n, sent.len() * n)?;
        }
        Ok((own, target))
    }
}

/// # Safety
/// What MPI asks of callers of `MPI_Gather`.
#[allow(clippy::too_many_arguments, reason = "those of MPI")]
pub(crate) unsafe fn gather(
    form: impl Form,
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
    let (sn, rn) = (sn.into(), rn.into());
    // SAFETY: the caller's, here and below; what matters at the root only is looked at there only.
    unsafe {
        collective(
            form,
            Operation::Gather,
            comm,
            Some(arguments([(sn, st), (rn, rt)], root)),
            |call| {
                let (root, me) = (call.root(root)?, call.rank()?);
                if me != root {
                    let (sn, st) = (count(sn)?, call.datatype(st)?);
                    call.chosen(st.bytes(sn)?)?;
                    let memory = (Some(source(call, send, sn, &st)?), ());
                    return run!(form, call, memory, |own, _| gather igather(own, &mut [], root), |(), _| Ok(()));
                }
                let (rn, rt) = (count(rn)?, call.datatype(rt)?);
                call.chosen(rt.bytes(rn)?)?;
                let memory = memory(call, (send, sn, st), (recv, rn, rt), me..me + 1)?;
                run!(form, call, memory, |own, to| gather igather(own, to.bytes(), root), Target::finish)
            },
            |call, on| between::gather(call, on, ((send, sn, st), (recv, rn, rt)), root),
            pass,
        )
    }
}

/// # Safety
/// What MPI asks of callers of `MPI_Scatter`.
#[allow(clippy::too_many_arguments, reason = "those of MPI")]
pub(crate) unsafe fn scatter(
    form: impl Form,
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
    let (sn, rn) = (sn.into(), rn.into());
    // SAFETY: the caller's, here and below; what matters at the root only is looked at there only.
    unsafe {
        collective(
            form,
            Operation::Scatter,
            comm,
            Some(arguments([(sn, st), (rn, rt)], root)),
            |call| {
                let (root, me) = (call.root(root)?, call.rank()?);
                if me != root {
                    let (rn, rt) = (count(rn)?, call.datatype(rt)?);
                    call.chosen(rt.bytes(rn)?)?;
                    let memory = (None, Target::new(recv, rn, rt)?);
                    return run!(form, call, memory, |_, to| scatter iscatter(&[], to.bytes(), root), Target::finish);
                }
                let (sn, st) = (count(sn)?, call.datatype(st)?);
                call.chosen(st.bytes(sn)?)?;
                let all = source(call, send, product(sn, call.size()?)?, &st)?;
                if call.in_place(recv) {
                    let memory = (Some(all), ());
                    return run!(form, call, memory,
                        |all, _| scatter iscatter(all.unwrap_or_default(), None::<&mut [u8]>, root), |(), _| Ok(()));
                }
                let (rn, rt) = (count(rn)?, call.datatype(rt)?);
                let memory = (Some(apart(all, recv, rt.bytes(rn)?)), Target::new(recv, rn, rt)?);
                run!(form, call, memory, |all, to| scatter iscatter(all.unwrap_or_default(), to.bytes(), root), Target::finish)
            },
            |call, on| between::scatter(call, on, ((send, sn, st), (recv, rn, rt)), root),
            pass,
        )
    }
}

/// Operations by which every rank receives a block of each: blocks that are all alike at their sender, or one for each rank.
macro_rules! everywhere {
    ($($operation:ident $name:ident $start:ident: $mpi:literal;)*) => {$(
        /// # Safety
        #[doc = concat!("What MPI asks of callers of `", $mpi, "`.")]
        #[allow(clippy::too_many_arguments, reason = "those of MPI")]
        pub(crate) unsafe fn $name(
            form: impl Form,
            send: In,
            sn: impl Into<i64>,
            st: Handle,
            recv: Out,
            rn: impl Into<i64>,
            rt: Handle,
            comm: Handle,
            pass: impl FnOnce() -> c_int,
        ) -> c_int {
            const OPERATION: Operation = Operation::$operation;
            let (sn, rn) = (sn.into(), rn.into());
            // SAFETY: the caller's, here and below.
            unsafe {
                let ours = |call: &Call| {
                    let (rn, rt, ranks) = (count(rn)?, call.datatype(rt)?, call.size()?);
                    call.chosen(rt.bytes(rn)?)?;
                    let me = call.rank()?;
                    let sent = if matches!(OPERATION, Operation::Alltoall) { 0..ranks } else { me..me + 1 };
                    let memory = memory(call, (send, sn, st), (recv, rn, rt), sent)?;
                    run!(form, call, memory, |own, to| $name $start(own, to.bytes()), Target::finish)
                };
                let between = |call: &Call, on: &Groups| {
                    let own_blocks = matches!(OPERATION, Operation::Alltoall);
                    between::everywhere(call, on, ((send, sn, st), (recv, rn, rt)), own_blocks)
                };
                collective(form, OPERATION, comm, Some(arguments([NONE, (rn, rt)], 0)), ours, between, pass)
            }
        }
    )*};
}

everywhere! {
    Allgather allgather iallgather: "MPI_Allgather";
    Alltoall alltoall ialltoall: "MPI_Alltoall";
}
