//! Operations among neighbours and between groups.

use super::{Form, P, Wrong, forms};
use circulant::comm::{Cartesian, Group, Intercommunicator, Neighborhood, Root};
use circulant::{Communicator, InPlace, Result};

/// A ring: two neighbours each.
fn ring(comm: &Communicator) -> Result<Neighborhood> {
    comm.cartesian(&Cartesian::new(&[comm.size()], &[true])?)
}

/// Between ranks 0 and 2, and rank 1.
fn groups(comm: &Communicator) -> Result<Intercommunicator> {
    let all = Group::world(P);
    let made = comm.create_inter(&all.include(&[0, 2])?, &all.include(&[1])?)?;
    Ok(made.expect("each rank is in a group"))
}

/// Ranks of the other group, and of this rank's.
fn theirs(comm: &Communicator) -> usize {
    if comm.rank() == 1 { 2 } else { 1 }
}

/// Rank 0 sends, of the first group; rank 1 is wrong.
fn root(comm: &Communicator, bad: usize) -> Root {
    match (comm.rank(), bad) {
        (1, _) => Root::There(5 * bad),
        _ => Root::Here(0),
    }
}

pub(super) const NEIGHBORS: &[Wrong] = &[
    forms!(ring; neighbor_allgather ineighbor_allgather neighbor_allgather_init, "`recv` no equal parts", |c, bad, s, r| u64: 1, 2 + bad => (s, r)),
    forms!(ring; neighbor_allgatherv ineighbor_allgatherv neighbor_allgatherv_init, "a count too few", |c, bad, s, r| u64: 1, 2 => (s, r, (&[1; 2][bad..], &[0, 1]))),
    forms!(ring; neighbor_allgatherv ineighbor_allgatherv neighbor_allgatherv_init, "parts that overlap", |c, bad, s, r| u64: 1, 2 => (s, r, (&[1; 2], &[0, 1 - bad]))),
    forms!(ring; neighbor_allgatherv ineighbor_allgatherv neighbor_allgatherv_init, "a part behind the end", |c, bad, s, r| u64: 1, 2 => (s, r, (&[1; 2], &[0, 1 + bad]))),
    forms!(ring; neighbor_alltoall ineighbor_alltoall neighbor_alltoall_init, "`send` no equal parts", |c, bad, s, r| u64: 2 + bad, 2 => (s, r)),
    forms!(ring; neighbor_alltoall ineighbor_alltoall neighbor_alltoall_init, "`recv` no equal parts", |c, bad, s, r| u64: 2, 2 + bad => (s, r)),
    forms!(ring; neighbor_alltoallv ineighbor_alltoallv neighbor_alltoallv_init, "a count too few of `send`", |c, bad, s, r| u64: 2, 2 => (s, (&[1; 2][bad..], &[0, 1]), r, &[1; 2])),
    forms!(ring; neighbor_alltoallv ineighbor_alltoallv neighbor_alltoallv_init, "a part behind the end of `send`", |c, bad, s, r| u64: 2, 2 => (s, (&[1; 2], &[0, 1 + bad]), r, &[1; 2])),
    forms!(ring; neighbor_alltoallv ineighbor_alltoallv neighbor_alltoallv_init, "received parts that overlap", |c, bad, s, r| u64: 2, 2 => (s, &[1; 2], r, (&[1; 2], &[0, 1 - bad]))),
    forms!(ring; neighbor_alltoallv ineighbor_alltoallv neighbor_alltoallv_init, "in place, what is sent is received, too",
        |c, bad, s, r| u64: 0, 4 => (InPlace, (&[1; 2], &[2 - 2 * bad, 3]), r, (&[1; 2], &[0, 1]))),
];

pub(super) const GROUPS: &[Wrong] = &[
    forms!(groups; bcast ibcast bcast_init, "a root that is no rank", |c, bad, s, r| u64: 0, 4 => (r, root(c, bad))),
    forms!(groups; allgather iallgather allgather_init, "`recv` no equal parts", |c, bad, s, r| u64: 1, theirs(c) + bad => (s, r)),
    forms!(groups; allgatherv iallgatherv allgatherv_init, "a count too few of the own group",
        |c, bad, s, r| u64: 1, theirs(c) => (s, &[1; P][..P - theirs(c) - bad], r, &[1; P][..theirs(c)])),
    forms!(groups; allgatherv iallgatherv allgatherv_init, "a count too many of the other group",
        |c, bad, s, r| u64: 1, theirs(c) => (s, &[1; P][..P - theirs(c)], r, &[1; P][..theirs(c) + bad])),
    forms!(groups; allgatherv iallgatherv allgatherv_init, "`send` of another length than the count",
        |c, bad, s, r| u64: 1 + bad, theirs(c) => (s, &[1; P][..P - theirs(c)], r, &[1; P][..theirs(c)])),
];
