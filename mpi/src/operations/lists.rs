//! What moves blocks of lengths of their own.

use super::{Handle, In, Out, between, own, summed};
use crate::buffers::{Target, apart, source};
use crate::call::Call;
use crate::collective::collective;
use crate::decided::Arguments;
use crate::form::{Form, run};
use crate::ragged::Ragged;
use crate::report::Operation;
use crate::stop::{Stop, count};
use std::ffi::c_int;

/// # Safety
/// What MPI asks of callers of `MPI_Gatherv`.
#[allow(clippy::too_many_arguments, reason = "those of MPI")]
pub(crate) unsafe fn gatherv<C, D>(
    form: impl Form,
    send: In,
    sn: impl Into<i64>,
    st: Handle,
    recv: Out,
    rn: *const C,
    rd: *const D,
    rt: Handle,
    root: c_int,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int
where
    C: Into<i64> + Copy,
    D: TryInto<isize> + Copy,
{
    let sn = sn.into();
    // SAFETY: the caller's, here and below; what matters at the root only is looked at there only.
    unsafe {
        collective(
            form,
            Operation::Gatherv,
            comm,
            Some(Arguments::default()),
            |call| {
                let (root, me) = (call.root(root)?, call.rank()?);
                if me != root {
                    let (sn, st) = (count(sn)?, call.datatype(st)?);
                    call.chosen_whatever_size(st.bytes(sn)?)?;
                    let own = source(call, send, sn, &st)?;
                    return run!(form, call, (Some(own), ()),
                        |own, _| gatherv_rooted igatherv_rooted(own, &mut [], &[0usize; 0], root), |(), _| Ok(()));
                }
                let blocks = Ragged::of_type(call.size()?, rn, rd, call.datatype(rt)?)?;
                call.chosen_whatever_size(blocks.total())?;
                let own = own(call, (send, sn, st), 1, blocks.memory(recv))?;
                let (target, stays) = (blocks.target(recv)?, own.is_none().then_some(me));
                run!(form, call, (own, target),
                    |own, to| { let (bytes, blocks) = to.split() }
                    gatherv_rooted igatherv_rooted(own, bytes, blocks.parts(), root),
                    move |to, on| to.finish(on, stays))
            },
            |call, on| {
                let received = |ranks| Ragged::of_type(ranks, rn, rd, call.datatype(rt)?);
                between::gatherv(call, on, (send, sn, st), (recv, received), root)
            },
            pass,
        )
    }
}

/// # Safety
/// What MPI asks of callers of `MPI_Scatterv`.
#[allow(clippy::too_many_arguments, reason = "those of MPI")]
pub(crate) unsafe fn scatterv<C, D>(
    form: impl Form,
    send: In,
    sn: *const C,
    sd: *const D,
    st: Handle,
    recv: Out,
    rn: impl Into<i64>,
    rt: Handle,
    root: c_int,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int
where
    C: Into<i64> + Copy,
    D: TryInto<isize> + Copy,
{
    let rn = rn.into();
    // SAFETY: the caller's, here and below; what matters at the root only is looked at there only.
    unsafe {
        collective(
            form,
            Operation::Scatterv,
            comm,
            Some(Arguments::default()),
            |call| {
                let (root, me) = (call.root(root)?, call.rank()?);
                if me != root {
                    let (rn, rt) = (count(rn)?, call.datatype(rt)?);
                    call.chosen_whatever_size(rt.bytes(rn)?)?;
                    let target = Target::new(recv, rn, rt)?;
                    return run!(form, call, (None, target),
                        |_, to| scatterv_rooted iscatterv_rooted(&[], &[0usize; 0], to.bytes(), root), Target::finish);
                }
                let blocks = Ragged::of_type(call.size()?, sn, sd, call.datatype(st)?)?;
                call.chosen_whatever_size(blocks.total())?;
                let all = blocks.source(call, send)?;
                if call.in_place(recv) {
                    return run!(form, call, (Some(all), ()),
                        |all, _| scatterv_rooted iscatterv_rooted(all.unwrap_or_default(), blocks.parts(), None::<&mut [u8]>, root),
                        |(), _| Ok(()));
                }
                let (rn, rt) = (count(rn)?, call.datatype(rt)?);
                let memory = (Some(apart(all, recv, rt.bytes(rn)?)), Target::new(recv, rn, rt)?);
                run!(form, call, memory,
                    |all, to| scatterv_rooted iscatterv_rooted(all.unwrap_or_default(), blocks.parts(), to.bytes(), root),
                    Target::finish)
            },
            |call, on| {
                let sent = |ranks| Ragged::of_type(ranks, sn, sd, call.datatype(st)?);
                between::scatterv(call, on, (send, sent), (recv, rn, rt), root)
            },
            pass,
        )
    }
}

/// # Safety
/// What MPI asks of callers of `MPI_Allgatherv`.
#[allow(clippy::too_many_arguments, reason = "those of MPI")]
pub(crate) unsafe fn allgatherv<C, D>(
    form: impl Form,
    send: In,
    sn: impl Into<i64>,
    st: Handle,
    recv: Out,
    rn: *const C,
    rd: *const D,
    rt: Handle,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int
where
    C: Into<i64> + Copy,
    D: TryInto<isize> + Copy,
{
    let sn = sn.into();
    // SAFETY: the caller's, here and below.
    unsafe {
        collective(
            form,
            Operation::Allgatherv,
            comm,
            summed(rn, rt, comm),
            |call| {
                let blocks = Ragged::of_type(call.size()?, rn, rd, call.datatype(rt)?)?;
                call.chosen(blocks.total())?;
                let own = own(call, (send, sn, st), 1, blocks.memory(recv))?;
                let (me, mut target) = (call.rank()?, blocks.target(recv)?);
                if own.is_none() {
                    target.keep(call, me..me + 1)?;
                }
                let stays = own.is_none().then_some(me);
                run!(form, call, (own, target),
                    |own, to| { let (bytes, blocks) = to.split() } allgatherv iallgatherv(own, bytes, blocks.parts()),
                    move |to, on| to.finish(on, stays))
            },
            |call, on| {
                let received = |ranks| Ragged::of_type(ranks, rn, rd, call.datatype(rt)?);
                between::allgatherv(call, on, (send, sn, st), (recv, received))
            },
            pass,
        )
    }
}

/// Sends what `sent` describes and receives what `received` does. In place `sent` is not asked.
///
/// # Safety
/// They describe `send` and `recv`, as MPI asks of send and receive buffers.
unsafe fn exchange(
    form: impl Form,
    call: &Call,
    (send, sent): (In, impl FnOnce() -> Result<Ragged, Stop>),
    (recv, received): (Out, Ragged),
) -> Result<(), Stop> {
    let ranks = received.counts().len();
    let sent = if call.in_place(send) { None } else { Some(sent()?) };
    call.chosen_whatever_size(received.total())?;
    let own = match &sent {
        Some(sent) => {
            let (to, bytes) = received.memory(recv);
            // SAFETY: the caller's: `send` is what `sent` describes.
            Some(apart(unsafe { sent.source(call, send)? }, to, bytes))
        }
        None => None,
    };
    // SAFETY: the caller's: `recv` is what `received` describes.
    let mut target = unsafe { received.target(recv)? };
    if own.is_none() {
        target.keep(call, 0..ranks)?;
    }
    // SAFETY: the caller's.
    unsafe {
        run!(form, call, (own, target),
            |own, to| { let (bytes, blocks) = to.split() }
            alltoallv ialltoallv(own, sent.as_ref().unwrap_or(blocks).parts(), bytes, blocks.parts()),
            |to, on| to.finish(on, None))
    }
}

/// # Safety
/// What MPI asks of callers of `MPI_Alltoallv`.
#[allow(clippy::too_many_arguments, reason = "those of MPI")]
pub(crate) unsafe fn alltoallv<C, D>(
    form: impl Form,
    send: In,
    sn: *const C,
    sd: *const D,
    st: Handle,
    recv: Out,
    rn: *const C,
    rd: *const D,
    rt: Handle,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int
where
    C: Into<i64> + Copy,
    D: TryInto<isize> + Copy,
{
    // SAFETY: the caller's, here and below; in place the lists of what is sent are not looked at.
    unsafe {
        collective(
            form,
            Operation::Alltoallv,
            comm,
            Some(Arguments::default()),
            |call| {
                let ranks = call.size()?;
                let received = Ragged::of_type(ranks, rn, rd, call.datatype(rt)?)?;
                let sent = || Ragged::of_type(ranks, sn, sd, call.datatype(st)?);
                exchange(form, call, (send, sent), (recv, received))
            },
            |call, on| {
                let sent = |ranks| Ragged::of_type(ranks, sn, sd, call.datatype(st)?);
                let received = |ranks| Ragged::of_type(ranks, rn, rd, call.datatype(rt)?);
                between::exchange(call, on, (send, sent), (recv, received))
            },
            pass,
        )
    }
}

/// # Safety
/// What MPI asks of callers of `MPI_Alltoallw`.
#[allow(clippy::too_many_arguments, reason = "those of MPI")]
pub(crate) unsafe fn alltoallw<C, D>(
    form: impl Form,
    send: In,
    sn: *const C,
    sd: *const D,
    st: *const Handle,
    recv: Out,
    rn: *const C,
    rd: *const D,
    rt: *const Handle,
    comm: Handle,
    pass: impl FnOnce() -> c_int,
) -> c_int
where
    C: Into<i64> + Copy,
    D: TryInto<isize> + Copy,
{
    // SAFETY: the caller's, here and below; in place the lists of what is sent are not looked at.
    unsafe {
        collective(
            form,
            Operation::Alltoallw,
            comm,
            Some(Arguments::default()),
            |call| {
                let ranks = call.size()?;
                let received = Ragged::of_types(call, ranks, rn, rd, rt)?;
                let sent = || Ragged::of_types(call, ranks, sn, sd, st);
                exchange(form, call, (send, sent), (recv, received))
            },
            |call, on| {
                let sent = |ranks| Ragged::of_types(call, ranks, sn, sd, st);
                let received = |ranks| Ragged::of_types(call, ranks, rn, rd, rt);
                between::exchange(call, on, (send, sent), (recv, received))
            },
            pass,
        )
    }
}
