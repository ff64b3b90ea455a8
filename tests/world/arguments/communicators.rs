//! Calls that make communicators or neighbourhoods, options, calls on single elements, measurements.

use super::{Form, P, Wrong};
use circulant::comm::{Cartesian, Group};
use circulant::{Communicator, Error, ErrorKind, Options, Result, measure, ops};

/// A call that has one form.
const fn once(
    call: &'static str,
    what: &'static str,
    make: fn(&Communicator, Form, usize) -> Result<()>,
) -> Wrong {
    Wrong { call, what, forms: &[Form::Blocking], make }
}

/// A broadcast by these options where it is wrong.
fn with(comm: &Communicator, wrong: usize, options: Options) -> Result<()> {
    let options = if wrong == 1 { options } else { Options::new() };
    comm.with(options).bcast(&mut [0u64; 9], 0)
}

/// What a program's own allgather would exchange, done by the parent.
fn assemble(comm: &Communicator, ranks: &[usize]) -> Result<()> {
    comm.assemble(ranks, |ours| {
        let mut all = vec![[0; 16]; P];
        let mut bytes = vec![0u8; 16 * P];
        comm.allgather(&ours[..], &mut bytes)?;
        all.iter_mut().zip(bytes.chunks(16)).for_each(|(one, bytes)| one.copy_from_slice(bytes));
        Ok(all)
    })
    .map(drop)
}

pub(super) const ROWS: &[Wrong] = &[
    once("with(Options::blocks)", "no blocks", |c, _, bad| with(c, bad, Options::new().blocks(0))),
    once("with(Options::algorithm)", "an unknown name", |c, _, bad| {
        with(c, bad, Options::new().algorithm("best"))
    }),
    once("with(Options::algorithm)", "an algorithm for other sizes", |c, _, bad| {
        with(c, bad, Options::new().algorithm("hypercube"))
    }),
    once("create", "a group with a rank that is not here", |c, _, bad| {
        c.create(&Group::world(P + bad)).map(drop)
    }),
    once("create_inter", "an empty group", |c, _, bad| {
        let all = Group::world(P);
        c.create_inter(&all.include(&[0, 2])?, &all.include(&[1][bad..])?).map(drop)
    }),
    once("create_inter", "a rank in both groups", |c, _, bad| {
        let all = Group::world(P);
        c.create_inter(&all.include(&[0, 2 - bad])?, &all.include(&[1])?).map(drop)
    }),
    once("assemble", "a rank that is not here", |c, _, bad| assemble(c, &[0, 1, 2 + bad])),
    once("assemble", "a rank named twice", |c, _, bad| assemble(c, &[0, 1, 2 - bad])),
    once("assemble", "without this rank", |c, _, bad| assemble(c, &[0, 1 + bad, 2])),
    once("assemble", "an allgather that fails", |c, _, bad| {
        let failed = || Error::new(ErrorKind::Argument, "the program's own reason");
        c.assemble(&[0, 1, 2], |ours| if bad == 1 { Err(failed()) } else { Ok(vec![*ours; P]) }).map(drop)
    }),
    once("assemble", "an allgather that gives too little", |c, _, bad| {
        c.assemble(&[0, 1, 2], |ours| Ok(vec![*ours; P - bad])).map(drop)
    }),
    once("dist_graph", "a source that is no rank", |c, _, bad| {
        c.dist_graph(&[(c.rank() + 2) % P + bad * 7], &[(c.rank() + 1) % P]).map(drop)
    }),
    once("dist_graph", "a destination that is no rank", |c, _, bad| {
        c.dist_graph(&[(c.rank() + 2) % P], &[(c.rank() + 1) % P + bad * 7]).map(drop)
    }),
    once("cartesian", "a grid of more ranks", |c, _, bad| {
        c.cartesian(&Cartesian::new(&[P + bad], &[true])?).map(drop)
    }),
    once("bcast_one", "a root that is no rank", |c, _, bad| c.bcast_one(1u64, bad * P).map(drop)),
    once("reduce_one", "a root that is no rank", |c, _, bad| c.reduce_one(1u64, ops::Sum, bad * P).map(drop)),
    once("gather_one", "a root that is no rank", |c, _, bad| c.gather_one(1u64, bad * P).map(drop)),
    once("scatter_one", "a root that is no rank", |c, _, bad| c.scatter_one(&[1u64; P], bad * P).map(drop)),
    once("scatter_one", "`send` of another length at the root", |c, _, bad| {
        c.scatter_one(&vec![1u64; P + bad], 1).map(drop)
    }),
    once("measure::put_times_between", "one rank", |c, _, bad| {
        measure::put_times_between(c, [bad, 1], 8, 1).map(drop)
    }),
];
