//! Operations that move data.

use super::{Form, P, Wrong, forms};
use circulant::comm::{Layout, Local};
use circulant::{Communicator, InPlace, Options, Result};

/// The communicator itself.
pub(super) fn all(comm: &Communicator) -> Result<Communicator> {
    Ok(comm.with(Options::new()))
}

/// One byte for each rank, at its number; the last one `off` bytes farther.
fn bytes(off: usize) -> [Layout; P] {
    [0, 1, 2 + off].map(|at| Layout::new([(at, 1)]).expect("it is in memory"))
}

pub(super) const ROWS: &[Wrong] = &[
    forms!(all; bcast ibcast bcast_init, "a root that is no rank", |c, bad, s, r| u64: 0, 4 => (r, bad * P)),
    forms!(all; allgather iallgather allgather_init, "`recv` of another length", |c, bad, s, r| u64: 1, P + bad => (s, r)),
    forms!(all; allgather iallgather allgather_init, "in place, parts of different lengths", |c, bad, s, r| u64: 0, P + bad => (InPlace, r)),
    forms!(all; allgatherv iallgatherv allgatherv_init, "a count too few", |c, bad, s, r| u64: 1, P => (s, r, (&[1; P][bad..], &[0, 1, 2]))),
    forms!(all; allgatherv iallgatherv allgatherv_init, "a displacement too few", |c, bad, s, r| u64: 1, P => (s, r, (&[1; P], &[0, 1, 2][bad..]))),
    forms!(all; allgatherv iallgatherv allgatherv_init, "`send` of another length than the count", |c, bad, s, r| u64: 1 + bad, P => (s, r, &[1; P])),
    forms!(all; allgatherv iallgatherv allgatherv_init, "parts that overlap", |c, bad, s, r| u64: 1, P => (s, r, (&[1; P], &[0, 1, 2 - bad]))),
    forms!(all; allgatherv iallgatherv allgatherv_init, "a part behind the end", |c, bad, s, r| u64: 1, P => (s, r, (&[1; P], &[0, 1, 2 + bad]))),
    forms!(all; allgatherv iallgatherv allgatherv_init, "a count beyond memory", |c, bad, s, r| u64: 1, P => (s, r, &[1, 1, 1 + bad * (usize::MAX - 1)])),
    forms!(all; allgatherv iallgatherv allgatherv_init, "of this rank's own displacements, parts that overlap",
        |c, bad, s, r| u64: 1, P => (s, r, Local { counts: &[1; P], displs: &[0, 1, 2 - bad] })),
    forms!(all; gather igather gather_init, "a root that is no rank", |c, bad, s, r| u64: 1, P => (s, r, bad * P)),
    forms!(all; gather igather gather_init, "`recv` of another length at the root", |c, bad, s, r| u64: 1, P + bad => (s, r, 1)),
    forms!(all; gather igather gather_init, "in place at another rank than the root", |c, bad, s, r| u64: 1, P => (s, r, 0) wrong (InPlace, r, 0)),
    forms!(all; gatherv igatherv gatherv_init, "a root that is no rank", |c, bad, s, r| u64: 1, P => (s, r, &[1; P], bad * P)),
    forms!(all; gatherv igatherv gatherv_init, "a count too few", |c, bad, s, r| u64: 1, P => (s, r, (&[1; P][bad..], &[0, 1, 2]), 0)),
    forms!(all; gatherv igatherv gatherv_init, "`send` of another length than the count", |c, bad, s, r| u64: 1 + bad, P => (s, r, &[1; P], 0)),
    forms!(all; gatherv igatherv gatherv_init, "parts that overlap", |c, bad, s, r| u64: 1, P => (s, r, (&[1; P], &[0, 1, 2 - bad]), 1)),
    forms!(all; gatherv igatherv gatherv_init, "a part behind the end", |c, bad, s, r| u64: 1, P => (s, r, (&[1; P], &[0, 1, 2 + bad]), 1)),
    forms!(all; gatherv igatherv gatherv_init, "in place at another rank than the root", |c, bad, s, r| u64: 1, P => (s, r, &[1; P], 0) wrong (InPlace, r, &[1; P], 0)),
    forms!(all; gatherv_rooted igatherv_rooted gatherv_rooted_init, "a root that is no rank", |c, bad, s, r| u64: 1, P => (s, r, &[1; P], bad * P)),
    forms!(all; gatherv_rooted igatherv_rooted gatherv_rooted_init, "a count too few at the root", |c, bad, s, r| u64: 1, P => (s, r, (&[1; P][bad..], &[0, 1, 2]), 1)),
    forms!(all; gatherv_rooted igatherv_rooted gatherv_rooted_init, "parts that overlap at the root", |c, bad, s, r| u64: 1, P => (s, r, (&[1; P], &[0, 1, 2 - bad]), 1)),
    forms!(all; gatherv_rooted igatherv_rooted gatherv_rooted_init, "a part behind the end at the root", |c, bad, s, r| u64: 1, P => (s, r, (&[1; P], &[0, 1, 2 + bad]), 1)),
    forms!(all; scatter iscatter scatter_init, "a root that is no rank", |c, bad, s, r| u64: P, 1 => (s, r, bad * P)),
    forms!(all; scatter iscatter scatter_init, "`send` of another length at the root", |c, bad, s, r| u64: P + bad, 1 => (s, r, 1)),
    forms!(all; scatter iscatter scatter_init, "in place at another rank than the root", |c, bad, s, r| u64: P, 1 => (s, r, 0) wrong (s, InPlace, 0)),
    forms!(all; scatterv iscatterv scatterv_init, "a root that is no rank", |c, bad, s, r| u64: P, 1 => (s, &[1; P], r, bad * P)),
    forms!(all; scatterv iscatterv scatterv_init, "a count too few", |c, bad, s, r| u64: P, 1 => (s, (&[1; P][bad..], &[0, 1, 2]), r, 0)),
    forms!(all; scatterv iscatterv scatterv_init, "`recv` of another length than the count", |c, bad, s, r| u64: P, 1 + bad => (s, &[1; P], r, 0)),
    forms!(all; scatterv iscatterv scatterv_init, "a part behind the end", |c, bad, s, r| u64: P, 1 => (s, (&[1; P], &[0, 1, 2 + bad]), r, 1)),
    forms!(all; scatterv iscatterv scatterv_init, "a displacement beyond memory", |c, bad, s, r| u64: P, 1 => (s, (&[1; P], &[0, 1, 2 + bad * (usize::MAX - 2)]), r, 0)),
    forms!(all; scatterv_rooted iscatterv_rooted scatterv_rooted_init, "a root that is no rank", |c, bad, s, r| u64: P, 1 => (s, &[1; P], r, bad * P)),
    forms!(all; scatterv_rooted iscatterv_rooted scatterv_rooted_init, "a count too few at the root", |c, bad, s, r| u64: P, 1 => (s, (&[1; P][bad..], &[0, 1, 2]), r, 1)),
    forms!(all; scatterv_rooted iscatterv_rooted scatterv_rooted_init, "a part behind the end at the root", |c, bad, s, r| u64: P, 1 => (s, (&[1; P], &[0, 1, 2 + bad]), r, 1)),
    forms!(all; alltoall ialltoall alltoall_init, "`recv` of another length", |c, bad, s, r| u64: P, P + bad * P => (s, r)),
    forms!(all; alltoall ialltoall alltoall_init, "parts of different lengths", |c, bad, s, r| u64: P + bad, P + bad => (s, r)),
    forms!(all; alltoall ialltoall alltoall_init, "in place, parts of different lengths", |c, bad, s, r| u64: 0, P + bad => (InPlace, r)),
    forms!(all; alltoallv ialltoallv alltoallv_init, "a count too few of `send`", |c, bad, s, r| u64: P, P => (s, (&[1; P][bad..], &[0, 1, 2]), r, &[1; P])),
    forms!(all; alltoallv ialltoallv alltoallv_init, "a count too few of `recv`", |c, bad, s, r| u64: P, P => (s, &[1; P], r, (&[1; P][bad..], &[0, 1, 2]))),
    forms!(all; alltoallv ialltoallv alltoallv_init, "a part behind the end of `send`", |c, bad, s, r| u64: P, P => (s, (&[1; P], &[0, 1, 2 + bad]), r, &[1; P])),
    forms!(all; alltoallv ialltoallv alltoallv_init, "a part behind the end of `recv`", |c, bad, s, r| u64: P, P => (s, &[1; P], r, (&[1; P], &[0, 1, 2 + bad]))),
    forms!(all; alltoallv ialltoallv alltoallv_init, "received parts that overlap", |c, bad, s, r| u64: P, P => (s, &[1; P], r, (&[1; P], &[0, 1, 2 - bad]))),
    forms!(all; alltoallw ialltoallw alltoallw_init, "a layout too few of `send`", |c, bad, s, r| u8: P, P => (s, &bytes(0)[bad..], r, &bytes(0))),
    forms!(all; alltoallw ialltoallw alltoallw_init, "a layout too few of `recv`", |c, bad, s, r| u8: P, P => (s, &bytes(0), r, &bytes(0)[bad..])),
    forms!(all; alltoallw ialltoallw alltoallw_init, "a piece behind the end of `send`", |c, bad, s, r| u8: P, P => (s, &bytes(bad), r, &bytes(0))),
    forms!(all; alltoallw ialltoallw alltoallw_init, "a piece behind the end of `recv`", |c, bad, s, r| u8: P, P => (s, &bytes(0), r, &bytes(bad))),
    forms!(all; alltoallw ialltoallw alltoallw_init, "received pieces that overlap", |c, bad, s, r| u8: P, P => (s, &bytes(0), r, &[bytes(0)[0].clone(), bytes(0)[1].clone(), bytes(0)[2 - bad].clone()])),
];
