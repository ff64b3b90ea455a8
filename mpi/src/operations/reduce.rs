//! What combines.

use super::{Handle, In, NONE, Out, between, product, sum, summed};
use crate::buffers::apart;
use crate::call::{Call, not_between};
use crate::collective::collective;
use crate::decided::arguments;
use crate::form::{Form, Memory, run};
use crate::groups::Groups;
use crate::reductions::{Combined, Reduction};
use crate::report::Operation;
use crate::spared::Spared;
use crate::stop::{Stop, count};
use std::borrow::Cow;
use std::ffi::c_int;

/// The reduction that a call asks for, if the call is taken: `count` elements are its size.
///
/// # Safety
/// `op` and `datatype` are of this MPI.
unsafe fn reduction(call: &Call, op: Handle, datatype: Handle, count: usize) -> Result<Reduction, Stop> {
    // SAFETY: the caller's.
    unsafe {
        let ty = call.datatype(datatype)?;
        // First: a call that goes to the MPI needs no reducer.
        call.chosen(ty.bytes(count)?)?;
        call.reduction(op, ty)
    }
}

/// What this rank contributes, `given` elements, and where `got` elements of the result go. In place the contribution stands in `recv`, and is
/// a copy: so that is nothing that ranks must agree on.
///
/// # Safety
/// The buffers have as many elements.
unsafe fn memory(
    call: &Call,
    by: Reduction,
    (send, recv): (In, Out),
    (given, got): (usize, usize),
) -> Result<Memory<Combined<'static>>, Stop> {
    // SAFETY: the caller's.
    unsafe {
        let own = match call.in_place(send) {
            true => Cow::Owned(by.source(call, recv, given)?.into_owned()),
            false => apart(by.source(call, send, given)?, recv, by.bytes(got)?),
        };
        Ok((Some(own), by.target(recv, got)?))
    }
}

/// Reductions from all contributions to a result at every rank, of equal length.
macro_rules! everywhere {
    ($($operation:ident $name:ident $start:ident: $mpi:literal;)*) => {$(
        /// # Safety
        #[doc = concat!("What MPI asks of callers of `", $mpi, "`.")]
        #[allow(clippy::too_many_arguments, reason = "those of MPI")]
        pub(crate) unsafe fn $name(
            form: impl Form,
            send: In,
            recv: Out,
            n: impl Into<i64>,
            datatype: Handle,
            op: Handle,
            comm: Handle,
            pass: impl FnOnce() -> c_int,
        ) -> c_int {
            const OPERATION: Operation = Operation::$operation;
            let n = n.into();
            // SAFETY: the caller's, here and below.
            unsafe {
                let ours = |call: &Call| {
                    let n = count(n)?;
                    let by = reduction(call, op, datatype, n)?;
                    // In place is the same at all ranks in an allreduce only.
                    let alike = matches!(OPERATION, Operation::Allreduce);
                    let memory = match call.in_place(send) && alike && by.is_in_memory() {
                        true => (None, by.target(recv, n)?),
                        false => memory(call, by, (send, recv), (n, n))?,
                    };
                    let none = matches!(OPERATION, Operation::Exscan) && call.rank()? == 0;
                    run!(form, call, memory,
                        |own, to| { let (bytes, by) = to.split() } $name $start(own, bytes, by.op()),
                        move |to, on| if none { Ok(()) } else { to.finish(on) })
                };
                let between = |call: &Call, on: &Groups| match OPERATION {
                    Operation::Allreduce => between::allreduce(call, on, (send, recv), (n, datatype, op)),
                    _ => not_between(call, on),
                };
                collective(form, OPERATION, comm, Some(arguments([(n, datatype), NONE], 0)), ours, between, pass)
            }
        }
    )*};
}

everywhere! {
    Allreduce allreduce iallreduce: "MPI_Allreduce";
    Scan scan iscan: "MPI_Scan";
    Exscan exscan iexscan: "MPI_Exscan";
}

/// # Safety
/// What MPI asks of callers of `MPI_Reduce`.
#[allow(clippy::too_many_arguments, reason = "those of MPI")]
pub(crate) unsafe fn reduce(
    form: impl Form,
    send: In,
    recv: Out,
    n: impl Into<i64>,
    datatype: Handle,
    op: Handle,
    root: c_int,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    let n = n.into();
    // SAFETY: the caller's, here and below; `recv` is looked at at the root only.
    unsafe {
        collective(
            form,
            Operation::Reduce,
            comm,
            Some(arguments([(n, datatype), NONE], root)),
            |call| {
                let (root, n) = (call.root(root)?, count(n)?);
                let by = reduction(call, op, datatype, n)?;
                if call.rank()? != root {
                    let own = by.source(call, send, n)?;
                    return run!(form, call, (Some(own), by),
                        |own, by| reduce ireduce(own, &mut [], by.op(), root), |_, _| Ok(()));
                }
                run!(form, call, memory(call, by, (send, recv), (n, n))?,
                    |own, to| { let (bytes, by) = to.split() } reduce ireduce(own, bytes, by.op(), root), Combined::finish)
            },
            |call, on| between::reduce(call, on, (send, recv), (n, datatype, op), root),
            pass,
        )
    }
}

/// # Safety
/// What MPI asks of callers of `MPI_Reduce_scatter`.
#[allow(clippy::too_many_arguments, reason = "those of MPI")]
pub(crate) unsafe fn reduce_scatter<C: Into<i64> + Copy>(
    form: impl Form,
    send: In,
    recv: Out,
    n: *const C,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's, here and below; the list has a count for each rank of this one's group.
    unsafe {
        let counts = |ranks| {
            (0..ranks).map(|i| count(n.add(i).read_unaligned())).collect::<Result<Spared<usize>, Stop>>()
        };
        collective(
            form,
            Operation::ReduceScatter,
            comm,
            summed(n, datatype, comm),
            |call| {
                let counts = counts(call.size()?)?;
                let (all, mine) = (sum(&counts)?, counts[call.rank()?]);
                let by = reduction(call, op, datatype, all)?;
                let bytes: Spared<usize> = counts.iter().map(|n| n * by.element).collect();
                run!(form, call, memory(call, by, (send, recv), (all, mine))?,
                    |own, to| { let (to, by) = to.split() } reduce_scatter ireduce_scatter(own, to, &**bytes, by.op()),
                    Combined::finish)
            },
            |call, on| between::reduce_scatter(call, on, (send, recv), counts, (datatype, op)),
            pass,
        )
    }
}

/// # Safety
/// What MPI asks of callers of `MPI_Reduce_scatter_block`.
#[allow(clippy::too_many_arguments, reason = "those of MPI")]
pub(crate) unsafe fn reduce_scatter_block(
    form: impl Form,
    send: In,
    recv: Out,
    n: impl Into<i64>,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    let n = n.into();
    // SAFETY: the caller's, here and below.
    unsafe {
        collective(
            form,
            Operation::ReduceScatterBlock,
            comm,
            Some(arguments([(n, datatype), NONE], 0)),
            |call| {
                let n = count(n)?;
                let by = reduction(call, op, datatype, n)?;
                let all = product(n, call.size()?)?;
                run!(form, call, memory(call, by, (send, recv), (all, n))?,
                    |own, to| { let (bytes, by) = to.split() } reduce_scatter_block ireduce_scatter_block(own, bytes, by.op()),
                    Combined::finish)
            },
            |call, on| {
                let counts = |ranks| (0..ranks).map(|_| count(n)).collect();
                between::reduce_scatter(call, on, (send, recv), counts, (datatype, op))
            },
            pass,
        )
    }
}
