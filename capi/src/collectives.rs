//! The collectives, each in its three forms.

use crate::comm::Comm;
use crate::layout::{CLayout, Layouts, layouts};
use crate::ops::{Operator, reducer};
use crate::request::Request;
use crate::slices::{both, both_at_root, is_in_place, parts, rank, received, whole};
use crate::status::{Status, given, guard, place};
use crate::types::{Datatype, TypeNumber};
use circulant::comm::{Local, Partition};
use std::ffi::{c_int, c_void};

/// Collectives on what a handle leads to, one entry each: the names of the three functions and of the three methods, the arguments, what
/// makes those of the methods of them, and these. Where a buffer is memory of a device ([`crate::device`]) the calls that own their buffers are
/// taken: the functions that make arguments of pointers are then those of that module.
macro_rules! collectives {
    (on $handle:ty; $($blocking:ident $begin:ident $init:ident = $call:ident $icall:ident $call_init:ident
       ($on:ident $(, $arg:ident: $type:ty)*) { $($prepare:tt)* } ($($pass:expr),*);)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $blocking($on: *const $handle $(, $arg: $type)*) -> Status {
            guard(|| {
                // SAFETY: all pointers are as the header says.
                unsafe {
                    let $on = &given(stringify!($on), $on)?.0;
                    if false $(|| crate::device::Argument::is_on_device(&$arg))* {
                        #[allow(unused_imports, reason = "each takes some")]
                        use crate::device::{both, both_at_root, neither_in_place, received};
                        $($prepare)*
                        return $on.$icall($($pass),*)?.wait().map(drop);
                    }
                    $($prepare)*
                    $on.$call($($pass),*)
                }
            })
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $begin($on: *const $handle $(, $arg: $type)*, request: *mut *mut Request) -> Status {
            guard(|| {
                // SAFETY: all pointers are as the header says; what they lead to stays, and is left alone, until the request has finished.
                unsafe {
                    let $on = &given(stringify!($on), $on)?.0;
                    let place = place("request", request)?;
                    if false $(|| crate::device::Argument::is_on_device(&$arg))* {
                        #[allow(unused_imports, reason = "each takes some")]
                        use crate::device::{both, both_at_root, neither_in_place, received};
                        $($prepare)*
                        *place = Request::owned_once($on.$icall($($pass),*)?).give();
                        return Ok(());
                    }
                    $($prepare)*
                    *place = Request::once($on.unscoped().$icall($($pass),*)?).give();
                    Ok(())
                }
            })
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $init($on: *const $handle $(, $arg: $type)*, request: *mut *mut Request) -> Status {
            guard(|| {
                // SAFETY: as above, and while a run is under way.
                unsafe {
                    let $on = &given(stringify!($on), $on)?.0;
                    let place = place("request", request)?;
                    if false $(|| crate::device::Argument::is_on_device(&$arg))* {
                        #[allow(unused_imports, reason = "each takes some")]
                        use crate::device::{both, both_at_root, neither_in_place, received};
                        $($prepare)*
                        *place = Request::owned_often($on.$call_init($($pass),*)?).give();
                        return Ok(());
                    }
                    $($prepare)*
                    *place = Request::often($on.unscoped().$call_init($($pass),*)?).give();
                    Ok(())
                }
            })
        }
    )* };
}
pub(crate) use collectives;

collectives! {
    on Comm;

    circulant_barrier circulant_ibarrier circulant_barrier_init = barrier ibarrier barrier_init (comm) {} ();

    circulant_bcast circulant_ibcast circulant_bcast_init = bcast ibcast bcast_init
    (comm, buffer: *mut c_void, count: usize, kind: TypeNumber, root: c_int) {
        let buffer = received(buffer, Datatype::of(kind)?.bytes(count)?)?;
        let root = rank("root", root)?;
    } (buffer, root);

    circulant_allgather circulant_iallgather circulant_allgather_init = allgather iallgather allgather_init
    (comm, send: *const c_void, recv: *mut c_void, count: usize, kind: TypeNumber) {
        let (each, all) = (Datatype::of(kind)?.bytes(count)?, whole(comm.size(), count, kind)?);
        let (send, recv) = both((send, each), (recv, all))?;
    } (send, recv);

    circulant_allgatherv circulant_iallgatherv circulant_allgatherv_init = allgatherv iallgatherv allgatherv_init
    (comm, send: *const c_void, sendcount: usize, recv: *mut c_void, counts: *const usize, displs: *const usize, kind: TypeNumber) {
        let kind = Datatype::of(kind)?;
        let parts = parts(counts, displs, comm.size(), kind)?;
        let (send, recv) = both((send, kind.bytes(sendcount)?), (recv, parts.extent()))?;
    } (send, recv, &parts);

    circulant_allgatherv_local circulant_iallgatherv_local circulant_allgatherv_local_init
    = allgatherv iallgatherv allgatherv_init
    (comm, send: *const c_void, sendcount: usize, recv: *mut c_void, counts: *const usize, displs: *const usize, kind: TypeNumber) {
        let kind = Datatype::of(kind)?;
        let parts = parts(counts, displs, comm.size(), kind)?;
        let (send, recv) = both((send, kind.bytes(sendcount)?), (recv, parts.extent()))?;
    } (send, recv, Local { counts: parts.counts(), displs: parts.displs() });

    circulant_gather circulant_igather circulant_gather_init = gather igather gather_init
    (comm, send: *const c_void, recv: *mut c_void, count: usize, kind: TypeNumber, root: c_int) {
        let root = rank("root", root)?;
        let all = if comm.rank() == root { whole(comm.size(), count, kind)? } else { 0 };
        let (send, recv) = both((send, Datatype::of(kind)?.bytes(count)?), (recv, all))?;
    } (send, recv, root);

    circulant_gatherv circulant_igatherv circulant_gatherv_init = gatherv igatherv gatherv_init
    (comm, send: *const c_void, sendcount: usize, recv: *mut c_void, counts: *const usize, displs: *const usize, kind: TypeNumber,
     root: c_int) {
        let (kind, root) = (Datatype::of(kind)?, rank("root", root)?);
        let parts = parts(counts, displs, comm.size(), kind)?;
        let all = if comm.rank() == root { parts.extent() } else { 0 };
        let (send, recv) = both((send, kind.bytes(sendcount)?), (recv, all))?;
    } (send, recv, &parts, root);

    circulant_gatherv_rooted circulant_igatherv_rooted circulant_gatherv_rooted_init
    = gatherv_rooted igatherv_rooted gatherv_rooted_init
    (comm, send: *const c_void, sendcount: usize, recv: *mut c_void, counts: *const usize, displs: *const usize, kind: TypeNumber,
     root: c_int) {
        let (kind, root) = (Datatype::of(kind)?, rank("root", root)?);
        let parts =
            if comm.rank() == root { parts(counts, displs, comm.size(), kind)? } else { Partition::default() };
        let (send, recv) = both((send, kind.bytes(sendcount)?), (recv, parts.extent()))?;
    } (send, recv, &parts, root);

    circulant_scatter circulant_iscatter circulant_scatter_init = scatter iscatter scatter_init
    (comm, send: *const c_void, recv: *mut c_void, count: usize, kind: TypeNumber, root: c_int) {
        let root = rank("root", root)?;
        let all = if comm.rank() == root { whole(comm.size(), count, kind)? } else { 0 };
        let (send, recv) = both_at_root((send, all), (recv, Datatype::of(kind)?.bytes(count)?))?;
    } (send, recv, root);

    circulant_scatterv circulant_iscatterv circulant_scatterv_init = scatterv iscatterv scatterv_init
    (comm, send: *const c_void, counts: *const usize, displs: *const usize, recv: *mut c_void, recvcount: usize, kind: TypeNumber,
     root: c_int) {
        let (kind, root) = (Datatype::of(kind)?, rank("root", root)?);
        let parts = parts(counts, displs, comm.size(), kind)?;
        let all = if comm.rank() == root { parts.extent() } else { 0 };
        let (send, recv) = both_at_root((send, all), (recv, kind.bytes(recvcount)?))?;
    } (send, &parts, recv, root);

    circulant_scatterv_rooted circulant_iscatterv_rooted circulant_scatterv_rooted_init
    = scatterv_rooted iscatterv_rooted scatterv_rooted_init
    (comm, send: *const c_void, counts: *const usize, displs: *const usize, recv: *mut c_void, recvcount: usize, kind: TypeNumber,
     root: c_int) {
        let (kind, root) = (Datatype::of(kind)?, rank("root", root)?);
        let parts =
            if comm.rank() == root { parts(counts, displs, comm.size(), kind)? } else { Partition::default() };
        let (send, recv) = both_at_root((send, parts.extent()), (recv, kind.bytes(recvcount)?))?;
    } (send, &parts, recv, root);

    circulant_alltoall circulant_ialltoall circulant_alltoall_init = alltoall ialltoall alltoall_init
    (comm, send: *const c_void, recv: *mut c_void, count: usize, kind: TypeNumber) {
        let all = whole(comm.size(), count, kind)?;
        let (send, recv) = both((send, all), (recv, all))?;
    } (send, recv);

    circulant_alltoallv circulant_ialltoallv circulant_alltoallv_init = alltoallv ialltoallv alltoallv_init
    (comm, send: *const c_void, sendcounts: *const usize, senddispls: *const usize, recv: *mut c_void, recvcounts: *const usize,
     recvdispls: *const usize, kind: TypeNumber) {
        let kind = Datatype::of(kind)?;
        let received = parts(recvcounts, recvdispls, comm.size(), kind)?;
        let sent = if is_in_place(send) { received.clone() } else { parts(sendcounts, senddispls, comm.size(), kind)? };
        let (send, recv) = both((send, sent.extent()), (recv, received.extent()))?;
    } (send, &sent, recv, &received);

    circulant_alltoallw circulant_ialltoallw circulant_alltoallw_init = alltoallw ialltoallw alltoallw_init
    (comm, send: *const c_void, outgoing: *const CLayout, recv: *mut c_void, incoming: *const CLayout) {
        let into = layouts("received", incoming, comm.size())?;
        let out = if is_in_place(send) { Layouts::default() } else { layouts("sent", outgoing, comm.size())? };
        let (send, recv) = both((send, out.extent), (recv, into.extent))?;
    } (send, &out.all, recv, &into.all);

    circulant_reduce circulant_ireduce circulant_reduce_init = reduce ireduce reduce_init
    (comm, send: *const c_void, recv: *mut c_void, count: usize, kind: TypeNumber, op: *const Operator, root: c_int) {
        let (bytes, root) = (Datatype::of(kind)?.bytes(count)?, rank("root", root)?);
        let op = reducer(op, kind)?;
        let (send, recv) = both((send, bytes), (recv, if comm.rank() == root { bytes } else { 0 }))?;
    } (send, recv, op.on_bytes(), root);

    circulant_allreduce circulant_iallreduce circulant_allreduce_init = allreduce iallreduce allreduce_init
    (comm, send: *const c_void, recv: *mut c_void, count: usize, kind: TypeNumber, op: *const Operator) {
        let (bytes, op) = (Datatype::of(kind)?.bytes(count)?, reducer(op, kind)?);
        let (send, recv) = both((send, bytes), (recv, bytes))?;
    } (send, recv, op.on_bytes());

    circulant_reduce_scatter_block circulant_ireduce_scatter_block circulant_reduce_scatter_block_init
    = reduce_scatter_block ireduce_scatter_block reduce_scatter_block_init
    (comm, send: *const c_void, recv: *mut c_void, count: usize, kind: TypeNumber, op: *const Operator) {
        let (all, op) = (whole(comm.size(), count, kind)?, reducer(op, kind)?);
        let room = if is_in_place(send) { all } else { Datatype::of(kind)?.bytes(count)? };
        let (send, recv) = both((send, all), (recv, room))?;
    } (send, recv, op.on_bytes());

    circulant_reduce_scatter circulant_ireduce_scatter circulant_reduce_scatter_init
    = reduce_scatter ireduce_scatter reduce_scatter_init
    (comm, send: *const c_void, recv: *mut c_void, counts: *const usize, kind: TypeNumber, op: *const Operator) {
        let op = reducer(op, kind)?;
        let parts = parts(counts, std::ptr::null(), comm.size(), Datatype::of(kind)?)?;
        let room = if is_in_place(send) { parts.extent() } else { parts.counts()[comm.rank()] };
        let (send, recv) = both((send, parts.extent()), (recv, room))?;
    } (send, recv, &parts, op.on_bytes());

    circulant_scan circulant_iscan circulant_scan_init = scan iscan scan_init
    (comm, send: *const c_void, recv: *mut c_void, count: usize, kind: TypeNumber, op: *const Operator) {
        let (bytes, op) = (Datatype::of(kind)?.bytes(count)?, reducer(op, kind)?);
        let (send, recv) = both((send, bytes), (recv, bytes))?;
    } (send, recv, op.on_bytes());

    circulant_exscan circulant_iexscan circulant_exscan_init = exscan iexscan exscan_init
    (comm, send: *const c_void, recv: *mut c_void, count: usize, kind: TypeNumber, op: *const Operator) {
        let (bytes, op) = (Datatype::of(kind)?.bytes(count)?, reducer(op, kind)?);
        let (send, recv) = both((send, bytes), (recv, bytes))?;
    } (send, recv, op.on_bytes());
}
