//! What is wrong among several ranks is wrong for one rank alone, and the error says the same.

use super::collective::NEIGHBORS;
use super::moved::all;
use super::{Form, Wrong, forms};
use crate::ranks;
use circulant::comm::{Cartesian, Group, Layout, Local};
use circulant::ops::{self, Reducer};
use circulant::{Communicator, Error, Options, Result};

/// One of `what` for each rank, the last one more by `bad`.
fn each(comm: &Communicator, one: usize, bad: usize) -> Vec<usize> {
    let mut list = vec![one; comm.size()];
    list[comm.size() - 1] += bad;
    list
}

/// The place of each rank's element; the last one `bad` farther.
fn places(comm: &Communicator, bad: usize) -> Vec<usize> {
    let mut list: Vec<usize> = (0..comm.size()).collect();
    list[comm.size() - 1] += bad;
    list
}

/// One byte for each rank, at its place.
fn bytes(comm: &Communicator, bad: usize) -> Vec<Layout> {
    places(comm, bad).into_iter().map(|at| Layout::new([(at, 1)]).expect("it is in memory")).collect()
}

fn no_blocks(comm: &Communicator) -> Result<Communicator> {
    Ok(comm.with(Options::new().blocks(0)))
}

fn unknown(comm: &Communicator) -> Result<Communicator> {
    Ok(comm.with(Options::new().algorithm("best")))
}

/// The rank that is wrong, as a root.
fn last(comm: &Communicator) -> usize {
    comm.size() - 1
}

/// By options that are wrong whatever the call: all operations.
macro_rules! options {
    ($on:ident, $what:literal) => {
        [
            forms!($on; bcast ibcast bcast_init, $what, |c, bad, s, r| u64: 0, 4 => (r, 0)),
            forms!($on; allgather iallgather allgather_init, $what, |c, bad, s, r| u64: 1, c.size() => (s, r)),
            forms!($on; allgatherv iallgatherv allgatherv_init, $what, |c, bad, s, r| u64: 1, c.size() => (s, r, &each(c, 1, 0))),
            forms!($on; gather igather gather_init, $what, |c, bad, s, r| u64: 1, c.size() => (s, r, 0)),
            forms!($on; gatherv igatherv gatherv_init, $what, |c, bad, s, r| u64: 1, c.size() => (s, r, &each(c, 1, 0), 0)),
            forms!($on; scatter iscatter scatter_init, $what, |c, bad, s, r| u64: c.size(), 1 => (s, r, 0)),
            forms!($on; scatterv iscatterv scatterv_init, $what, |c, bad, s, r| u64: c.size(), 1 => (s, &each(c, 1, 0), r, 0)),
            forms!($on; alltoall ialltoall alltoall_init, $what, |c, bad, s, r| u64: c.size(), c.size() => (s, r)),
            forms!($on; alltoallv ialltoallv alltoallv_init, $what, |c, bad, s, r| u64: c.size(), c.size() => (s, &each(c, 1, 0), r, &each(c, 1, 0))),
            forms!($on; alltoallw ialltoallw alltoallw_init, $what, |c, bad, s, r| u8: c.size(), c.size() => (s, &bytes(c, 0), r, &bytes(c, 0))),
            forms!($on; reduce ireduce reduce_init, $what, |c, bad, s, r| f64: 1, 1 => (s, r, ops::Sum, 0)),
            forms!($on; allreduce iallreduce allreduce_init, $what, |c, bad, s, r| f64: 1, 1 => (s, r, ops::Sum)),
            forms!($on; reduce_scatter ireduce_scatter reduce_scatter_init, $what, |c, bad, s, r| f64: c.size(), 1 => (s, r, &each(c, 1, 0), ops::Sum)),
            forms!($on; reduce_scatter_block ireduce_scatter_block reduce_scatter_block_init, $what, |c, bad, s, r| f64: c.size(), 1 => (s, r, ops::Sum)),
            forms!($on; scan iscan scan_init, $what, |c, bad, s, r| f64: 1, 1 => (s, r, ops::Sum)),
            forms!($on; exscan iexscan exscan_init, $what, |c, bad, s, r| f64: 1, 1 => (s, r, ops::Sum)),
        ]
    };
}

const NO_BLOCKS: &[Wrong] = &options!(no_blocks, "no blocks");
const UNKNOWN: &[Wrong] = &options!(unknown, "an unknown algorithm");

const ROWS: &[Wrong] = &[
    forms!(all; bcast ibcast bcast_init, "a root that is no rank", |c, bad, s, r| u64: 0, 4 => (r, bad * c.size())),
    forms!(all; allgather iallgather allgather_init, "`recv` of another length", |c, bad, s, r| u64: 1, c.size() + bad => (s, r)),
    forms!(all; allgatherv iallgatherv allgatherv_init, "a count too few", |c, bad, s, r| u64: 1, c.size() => (s, r, (&each(c, 1, 0)[bad..], &places(c, 0)))),
    forms!(all; allgatherv iallgatherv allgatherv_init, "a displacement too few", |c, bad, s, r| u64: 1, c.size() => (s, r, (&each(c, 1, 0), &places(c, 0)[bad..]))),
    forms!(all; allgatherv iallgatherv allgatherv_init, "`send` of another length", |c, bad, s, r| u64: 1 + bad, c.size() => (s, r, &each(c, 1, 0))),
    forms!(all; allgatherv iallgatherv allgatherv_init, "a part behind the end", |c, bad, s, r| u64: 1, c.size() => (s, r, (&each(c, 1, 0), &places(c, bad)))),
    forms!(all; allgatherv iallgatherv allgatherv_init, "a count beyond memory", |c, bad, s, r| u64: 1, c.size() => (s, r, &each(c, 1, bad * (usize::MAX - 1)))),
    forms!(all; allgatherv iallgatherv allgatherv_init, "of this rank's own displacements, a part behind the end",
        |c, bad, s, r| u64: 1, c.size() => (s, r, Local { counts: &each(c, 1, 0), displs: &places(c, bad) })),
    forms!(all; gather igather gather_init, "a root that is no rank", |c, bad, s, r| u64: 1, c.size() => (s, r, bad * c.size())),
    forms!(all; gather igather gather_init, "`recv` of another length", |c, bad, s, r| u64: 1, c.size() + bad => (s, r, last(c))),
    forms!(all; gatherv igatherv gatherv_init, "a root that is no rank", |c, bad, s, r| u64: 1, c.size() => (s, r, &each(c, 1, 0), bad * c.size())),
    forms!(all; gatherv igatherv gatherv_init, "a count too few", |c, bad, s, r| u64: 1, c.size() => (s, r, (&each(c, 1, 0)[bad..], &places(c, 0)), 0)),
    forms!(all; gatherv igatherv gatherv_init, "`send` of another length", |c, bad, s, r| u64: 1 + bad, c.size() => (s, r, &each(c, 1, 0), 0)),
    forms!(all; gatherv igatherv gatherv_init, "a part behind the end", |c, bad, s, r| u64: 1, c.size() => (s, r, (&each(c, 1, 0), &places(c, bad)), last(c))),
    forms!(all; gatherv_rooted igatherv_rooted gatherv_rooted_init, "a root that is no rank", |c, bad, s, r| u64: 1, c.size() => (s, r, &each(c, 1, 0), bad * c.size())),
    forms!(all; gatherv_rooted igatherv_rooted gatherv_rooted_init, "a count too few", |c, bad, s, r| u64: 1, c.size() => (s, r, (&each(c, 1, 0)[bad..], &places(c, 0)), last(c))),
    forms!(all; gatherv_rooted igatherv_rooted gatherv_rooted_init, "a part behind the end", |c, bad, s, r| u64: 1, c.size() => (s, r, (&each(c, 1, 0), &places(c, bad)), last(c))),
    forms!(all; scatter iscatter scatter_init, "a root that is no rank", |c, bad, s, r| u64: c.size(), 1 => (s, r, bad * c.size())),
    forms!(all; scatter iscatter scatter_init, "`send` of another length", |c, bad, s, r| u64: c.size() + bad, 1 => (s, r, last(c))),
    forms!(all; scatterv iscatterv scatterv_init, "a root that is no rank", |c, bad, s, r| u64: c.size(), 1 => (s, &each(c, 1, 0), r, bad * c.size())),
    forms!(all; scatterv iscatterv scatterv_init, "a count too few", |c, bad, s, r| u64: c.size(), 1 => (s, (&each(c, 1, 0)[bad..], &places(c, 0)), r, 0)),
    forms!(all; scatterv iscatterv scatterv_init, "`recv` of another length", |c, bad, s, r| u64: c.size(), 1 + bad => (s, &each(c, 1, 0), r, 0)),
    forms!(all; scatterv iscatterv scatterv_init, "a part behind the end", |c, bad, s, r| u64: c.size(), 1 => (s, (&each(c, 1, 0), &places(c, bad)), r, last(c))),
    forms!(all; scatterv_rooted iscatterv_rooted scatterv_rooted_init, "a root that is no rank", |c, bad, s, r| u64: c.size(), 1 => (s, &each(c, 1, 0), r, bad * c.size())),
    forms!(all; scatterv_rooted iscatterv_rooted scatterv_rooted_init, "a count too few", |c, bad, s, r| u64: c.size(), 1 => (s, (&each(c, 1, 0)[bad..], &places(c, 0)), r, last(c))),
    forms!(all; scatterv_rooted iscatterv_rooted scatterv_rooted_init, "a part behind the end", |c, bad, s, r| u64: c.size(), 1 => (s, (&each(c, 1, 0), &places(c, bad)), r, last(c))),
    forms!(all; alltoall ialltoall alltoall_init, "`recv` of another length", |c, bad, s, r| u64: c.size(), c.size() + bad * c.size() => (s, r)),
    forms!(all; alltoallv ialltoallv alltoallv_init, "a count too few of `send`", |c, bad, s, r| u64: c.size(), c.size() => (s, (&each(c, 1, 0)[bad..], &places(c, 0)), r, &each(c, 1, 0))),
    forms!(all; alltoallv ialltoallv alltoallv_init, "a count too few of `recv`", |c, bad, s, r| u64: c.size(), c.size() => (s, &each(c, 1, 0), r, (&each(c, 1, 0)[bad..], &places(c, 0)))),
    forms!(all; alltoallv ialltoallv alltoallv_init, "a part behind the end of `send`", |c, bad, s, r| u64: c.size(), c.size() => (s, (&each(c, 1, 0), &places(c, bad)), r, &each(c, 1, 0))),
    forms!(all; alltoallv ialltoallv alltoallv_init, "a part behind the end of `recv`", |c, bad, s, r| u64: c.size(), c.size() => (s, &each(c, 1, 0), r, (&each(c, 1, 0), &places(c, bad)))),
    forms!(all; alltoallw ialltoallw alltoallw_init, "a layout too few of `send`", |c, bad, s, r| u8: c.size(), c.size() => (s, &bytes(c, 0)[bad..], r, &bytes(c, 0))),
    forms!(all; alltoallw ialltoallw alltoallw_init, "a piece behind the end of `recv`", |c, bad, s, r| u8: c.size(), c.size() => (s, &bytes(c, 0), r, &bytes(c, bad))),
    forms!(all; reduce ireduce reduce_init, "a root that is no rank", |c, bad, s, r| f64: 1, 1 => (s, r, ops::Sum, bad * c.size())),
    forms!(all; reduce ireduce reduce_init, "`recv` of another length", |c, bad, s, r| f64: 1, 1 + bad => (s, r, ops::Sum, last(c))),
    forms!(all; reduce ireduce reduce_init, "an operator on another type", |c, bad, s, r| u64: 1, 1 => (s, r, sum(bad), 0)),
    forms!(all; allreduce iallreduce allreduce_init, "`recv` of another length", |c, bad, s, r| f64: 1, 1 + bad => (s, r, ops::Sum)),
    forms!(all; allreduce iallreduce allreduce_init, "an operator on another type", |c, bad, s, r| u64: 1, 1 => (s, r, sum(bad))),
    forms!(all; reduce_scatter ireduce_scatter reduce_scatter_init, "a count too few", |c, bad, s, r| f64: c.size(), 1 => (s, r, &each(c, 1, 0)[bad..], ops::Sum)),
    forms!(all; reduce_scatter ireduce_scatter reduce_scatter_init, "`send` of another length", |c, bad, s, r| f64: c.size() + bad, 1 => (s, r, &each(c, 1, 0), ops::Sum)),
    forms!(all; reduce_scatter ireduce_scatter reduce_scatter_init, "`recv` of another length", |c, bad, s, r| f64: c.size(), 1 + bad => (s, r, &each(c, 1, 0), ops::Sum)),
    forms!(all; reduce_scatter_block ireduce_scatter_block reduce_scatter_block_init, "`send` of another length", |c, bad, s, r| f64: c.size() + bad, 1 => (s, r, ops::Sum)),
    forms!(all; reduce_scatter_block ireduce_scatter_block reduce_scatter_block_init, "an operator on another type", |c, bad, s, r| u64: c.size(), 1 => (s, r, sum(bad))),
    forms!(all; scan iscan scan_init, "`recv` of another length", |c, bad, s, r| f64: 1, 1 + bad => (s, r, ops::Sum)),
    forms!(all; scan iscan scan_init, "an operator on another type", |c, bad, s, r| u64: 1, 1 => (s, r, sum(bad))),
    forms!(all; exscan iexscan exscan_init, "`recv` of another length", |c, bad, s, r| f64: 1, 1 + bad => (s, r, ops::Sum)),
    forms!(all; exscan iexscan exscan_init, "an operator on another type", |c, bad, s, r| u64: 1, 1 => (s, r, sum(bad))),
];

/// An operator for the type, or for another one.
fn sum(bad: usize) -> Reducer {
    if bad == 1 { Reducer::new::<f64, _>(ops::Sum) } else { Reducer::new::<u64, _>(ops::Sum) }
}

/// A call that has one form.
const fn once(
    call: &'static str,
    what: &'static str,
    make: fn(&Communicator, Form, usize) -> Result<()>,
) -> Wrong {
    Wrong { call, what, forms: &[Form::Blocking], make }
}

const OTHERS: &[Wrong] = &[
    once("create", "a group with a rank that is not here", |c, _, bad| {
        c.create(&Group::world(c.size() + bad)).map(drop)
    }),
    once("dist_graph", "a source that is no rank", |c, _, bad| {
        c.dist_graph(&[c.rank() + bad * 7], &[c.rank()]).map(drop)
    }),
    once("dist_graph", "a destination that is no rank", |c, _, bad| {
        c.dist_graph(&[c.rank()], &[c.rank() + bad * 7]).map(drop)
    }),
    once("cartesian", "a grid of more ranks", |c, _, bad| {
        c.cartesian(&Cartesian::new(&[c.size() + bad], &[true])?).map(drop)
    }),
    once("bcast_one", "a root that is no rank", |c, _, bad| c.bcast_one(1u64, bad * c.size()).map(drop)),
    once("reduce_one", "a root that is no rank", |c, _, bad| {
        c.reduce_one(1u64, ops::Sum, bad * c.size()).map(drop)
    }),
    once("gather_one", "a root that is no rank", |c, _, bad| c.gather_one(1u64, bad * c.size()).map(drop)),
    once("scatter_one", "a root that is no rank", |c, _, bad| {
        c.scatter_one(&vec![1u64; c.size()], bad * c.size()).map(drop)
    }),
    once("scatter_one", "`send` of another length", |c, _, bad| {
        c.scatter_one(&vec![1u64; c.size() + bad], last(c)).map(drop)
    }),
    once("with", "no blocks, a barrier", |c, _, bad| {
        if bad == 1 { c.with(Options::new().blocks(0)).barrier() } else { c.barrier() }
    }),
    once("with", "an unknown algorithm, a barrier", |c, _, bad| {
        if bad == 1 { c.with(Options::new().algorithm("best")).barrier() } else { c.barrier() }
    }),
];

/// What the last of `p` ranks gets that makes this call over `wire`.
fn error(row: &Wrong, form: Form, wire: &str, p: usize) -> Option<Error> {
    let mut results = ranks::run_over(wire, p, &[("deadline", "20")], |_, comm| {
        (row.make)(comm, form, usize::from(comm.rank() + 1 == p))?;
        comm.barrier()
    });
    results.pop().and_then(Result::err)
}

/// A text without its numbers, rank and provider.
fn words(e: &Error) -> String {
    let text = e.message().to_owned();
    let mut words = String::new();
    for c in text.chars() {
        match c {
            '0'..='9' if words.ends_with('N') => {}
            '0'..='9' => words.push('N'),
            c => words.push(c),
        }
    }
    words
}

/// What is said otherwise of this row in some form: the kinds and words of one rank, two, and two in shared memory.
fn differs(row: &Wrong) -> Vec<String> {
    let mut found = Vec::new();
    for form in row.forms {
        // In shared memory a call on slices is another one, without a plan.
        let worlds = [("sim", 1), ("sim", 2), ("shm", 2)];
        let few = if *form == Form::Blocking { &worlds[..] } else { &worlds[..2] };
        let said = few.iter().map(|(wire, p)| error(row, *form, wire, *p).map(|e| (e.kind(), words(&e))));
        let said: Vec<_> = said.collect();
        if said[0].is_none() || said.iter().any(|other| *other != said[0]) {
            found.push(format!("{}, {}, {form:?}: {said:?}", row.call, row.what));
        }
    }
    found
}

#[test]
fn one_rank_alone_is_told_what_several_are() {
    const AT_A_TIME: usize = 16;
    let rows: Vec<&Wrong> = [NO_BLOCKS, UNKNOWN, ROWS, NEIGHBORS, OTHERS].into_iter().flatten().collect();
    let of = |rows: &[&Wrong]| rows.iter().flat_map(|row| differs(row)).collect::<Vec<_>>();
    let found: Vec<String> = std::thread::scope(|scope| {
        let chunks = rows.chunks(rows.len().div_ceil(AT_A_TIME));
        let threads: Vec<_> = chunks.map(|rows| scope.spawn(move || of(rows))).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect()
    });
    assert!(found.is_empty(), "one rank, two, and two in shared memory:\n{}", found.join("\n"));
}
