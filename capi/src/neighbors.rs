//! Neighbourhoods, and the collectives on them.

use crate::collectives::collectives;
use crate::comm::{Comm, members};
use crate::request::Request;
use crate::slices::{both, is_in_place, neither_in_place, parts, whole};
use crate::status::{Status, given, guard, place};
use crate::types::{Datatype, TypeNumber};
use circulant::Result;
use circulant::comm::{Cartesian, Neighborhood};
use circulant::error::argument;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// What C calls `circulant_neighborhood_t`.
pub(crate) struct Neighbors(Neighborhood);

/// `CIRCULANT_NO_RANK`.
const NO_RANK: c_int = -1;

impl Neighbors {
    /// For C, until `circulant_neighborhood_free`.
    fn give(made: Neighborhood) -> *mut Self {
        Box::into_raw(Box::new(Self(made)))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_dist_graph(
    comm: *const Comm,
    sources: *const c_int,
    nsources: usize,
    destinations: *const c_int,
    ndestinations: usize,
    made: *mut *mut Neighbors,
) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let (comm, place) = (given("comm", comm)?, place("made", made)?);
            let (sources, destinations) = (
                members("sources", sources, nsources)?,
                members("destinations", destinations, ndestinations)?,
            );
            *place = Neighbors::give(comm.0.dist_graph(&sources, &destinations)?);
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_cartesian(
    comm: *const Comm,
    dims: *const c_int,
    periodic: *const c_int,
    ndims: usize,
    made: *mut *mut Neighbors,
) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let (comm, place) = (given("comm", comm)?, place("made", made)?);
            let dims = members("dims", dims, ndims)?;
            let rings: Vec<bool> = match ndims {
                0 => Vec::new(),
                _ => {
                    let all = std::slice::from_raw_parts(given("periodic", periodic)?, ndims);
                    all.iter().map(|ring| *ring != 0).collect()
                }
            };
            *place = Neighbors::give(comm.0.cartesian(&Cartesian::new(&dims, &rings)?)?);
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_neighborhood_size(
    on: *const Neighbors,
    sources: *mut usize,
    destinations: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let on = &given("on", on)?.0;
            let (sources, destinations) = (place("sources", sources)?, place("destinations", destinations)?);
            (*sources, *destinations) = (on.sources().len(), on.destinations().len());
            Ok(())
        }
    })
}

/// Writes ranks to `to`.
///
/// # Safety
/// It is null, or leads to as many numbers that only we use meanwhile.
unsafe fn tell(name: &str, ranks: &[Option<usize>], to: *mut c_int) -> Result<()> {
    if ranks.is_empty() {
        return Ok(());
    }
    // SAFETY: our caller's.
    let to = unsafe { std::slice::from_raw_parts_mut(place(name, to)?, ranks.len()) };
    for (to, rank) in to.iter_mut().zip(ranks) {
        let number = |rank| c_int::try_from(rank).map_err(|_| argument("a rank is more than an int"));
        *to = rank.map_or(Ok(NO_RANK), number)?;
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_neighborhood_ranks(
    on: *const Neighbors,
    sources: *mut c_int,
    destinations: *mut c_int,
) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let on = &given("on", on)?.0;
            tell("sources", on.sources(), sources)?;
            tell("destinations", on.destinations(), destinations)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_neighborhood_free(on: *mut *mut Neighbors) -> Status {
    guard(|| {
        // SAFETY: the pointer is as the header says: what is not null was given by a function here, and comes back once.
        unsafe {
            let place = place("on", on)?;
            if !place.is_null() {
                drop(Box::from_raw(std::mem::replace(place, null_mut())));
            }
            Ok(())
        }
    })
}

collectives! {
    on Neighbors;

    circulant_neighbor_allgather circulant_ineighbor_allgather circulant_neighbor_allgather_init
    = neighbor_allgather ineighbor_allgather neighbor_allgather_init
    (on, send: *const c_void, recv: *mut c_void, count: usize, kind: TypeNumber) {
        let all = whole(on.sources().len(), count, kind)?;
        let (send, recv) = neither_in_place((send, Datatype::of(kind)?.bytes(count)?), (recv, all))?;
    } (send, recv);

    circulant_neighbor_allgatherv circulant_ineighbor_allgatherv circulant_neighbor_allgatherv_init
    = neighbor_allgatherv ineighbor_allgatherv neighbor_allgatherv_init
    (on, send: *const c_void, sendcount: usize, recv: *mut c_void, counts: *const usize, displs: *const usize, kind: TypeNumber) {
        let kind = Datatype::of(kind)?;
        let parts = parts(counts, displs, on.sources().len(), kind)?;
        let (send, recv) = neither_in_place((send, kind.bytes(sendcount)?), (recv, parts.extent()))?;
    } (send, recv, &parts);

    circulant_neighbor_alltoall circulant_ineighbor_alltoall circulant_neighbor_alltoall_init
    = neighbor_alltoall ineighbor_alltoall neighbor_alltoall_init
    (on, send: *const c_void, recv: *mut c_void, count: usize, kind: TypeNumber) {
        let (out, into) = (whole(on.destinations().len(), count, kind)?, whole(on.sources().len(), count, kind)?);
        let (send, recv) = neither_in_place((send, out), (recv, into))?;
    } (send, recv);

    circulant_neighbor_alltoallv circulant_ineighbor_alltoallv circulant_neighbor_alltoallv_init
    = neighbor_alltoallv ineighbor_alltoallv neighbor_alltoallv_init
    (on, send: *const c_void, sendcounts: *const usize, senddispls: *const usize, recv: *mut c_void, recvcounts: *const usize,
     recvdispls: *const usize, kind: TypeNumber) {
        let kind = Datatype::of(kind)?;
        let out = parts(sendcounts, senddispls, on.destinations().len(), kind)?;
        let into = parts(recvcounts, recvdispls, on.sources().len(), kind)?;
        let room = if is_in_place(send) { out.extent().max(into.extent()) } else { into.extent() };
        let (send, recv) = both((send, out.extent()), (recv, room))?;
    } (send, &out, recv, &into);
}
