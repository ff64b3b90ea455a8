//! Operations that combine elements.

use super::moved::all;
use super::{Form, P, Wrong, forms};
use circulant::ops::{self, Reducer};
use circulant::{Communicator, InPlace, Options, Result};

/// The sum of doubles, or of the elements that there are.
fn sum(doubles: usize) -> Reducer {
    if doubles == 1 { Reducer::new::<f64, _>(ops::Sum) } else { Reducer::new::<u64, _>(ops::Sum) }
}

/// The communicator by an algorithm that folds in its own order.
fn ring(comm: &Communicator) -> Result<Communicator> {
    Ok(comm.with(Options::new().algorithm("ring")))
}

/// An operator that commutes, or is said not to.
fn first(commutes: bool) -> Reducer {
    Reducer::new::<u64, _>(ops::user("first", commutes, |a: u64, _| a))
}

pub(super) const ROWS: &[Wrong] = &[
    forms!(all; reduce ireduce reduce_init, "a root that is no rank", |c, bad, s, r| u64: 1, 1 => (s, r, ops::Sum, bad * P)),
    forms!(all; reduce ireduce reduce_init, "`recv` of another length at the root", |c, bad, s, r| u64: 1, 1 + bad => (s, r, ops::Sum, 1)),
    forms!(all; reduce ireduce reduce_init, "in place at another rank than the root", |c, bad, s, r| u64: 1, 1 => (s, r, ops::Sum, 0) wrong (InPlace, r, ops::Sum, 0)),
    forms!(all; reduce ireduce reduce_init, "an operator on another type", |c, bad, s, r| u64: 1, 1 => (s, r, sum(bad), 0)),
    forms!(all; allreduce iallreduce allreduce_init, "`recv` of another length", |c, bad, s, r| u64: 1, 1 + bad => (s, r, ops::Sum)),
    forms!(all; allreduce iallreduce allreduce_init, "an operator on another type", |c, bad, s, r| u64: 1, 1 => (s, r, sum(bad))),
    forms!(ring; allreduce iallreduce allreduce_init, "an operator that does not commute, by `ring`", |c, bad, s, r| u64: 1, 1 => (s, r, first(bad == 0))),
    forms!(all; reduce_scatter ireduce_scatter reduce_scatter_init, "a count too few", |c, bad, s, r| u64: P, 1 => (s, r, &[1; P][bad..], ops::Sum)),
    forms!(all; reduce_scatter ireduce_scatter reduce_scatter_init, "`send` of another length", |c, bad, s, r| u64: P + bad, 1 => (s, r, &[1; P], ops::Sum)),
    forms!(all; reduce_scatter ireduce_scatter reduce_scatter_init, "`recv` of another length", |c, bad, s, r| u64: P, 1 + bad => (s, r, &[1; P], ops::Sum)),
    forms!(all; reduce_scatter ireduce_scatter reduce_scatter_init, "parts with gaps, or in another order", |c, bad, s, r| u64: P, 1 => (s, r, (&[1; P], &[0, 1 + bad, 2 - bad]), ops::Sum)),
    forms!(all; reduce_scatter ireduce_scatter reduce_scatter_init, "an operator on another type", |c, bad, s, r| u64: P, 1 => (s, r, &[1; P], sum(bad))),
    forms!(all; reduce_scatter_block ireduce_scatter_block reduce_scatter_block_init, "`send` of another length", |c, bad, s, r| u64: P + bad, 1 => (s, r, ops::Sum)),
    forms!(all; reduce_scatter_block ireduce_scatter_block reduce_scatter_block_init, "in place, parts of different lengths", |c, bad, s, r| u64: 0, P + bad => (InPlace, r, ops::Sum)),
    forms!(all; reduce_scatter_block ireduce_scatter_block reduce_scatter_block_init, "an operator on another type", |c, bad, s, r| u64: P, 1 => (s, r, sum(bad))),
    forms!(all; scan iscan scan_init, "`recv` of another length", |c, bad, s, r| u64: 1, 1 + bad => (s, r, ops::Sum)),
    forms!(all; scan iscan scan_init, "an operator on another type", |c, bad, s, r| u64: 1, 1 => (s, r, sum(bad))),
    forms!(all; exscan iexscan exscan_init, "`recv` of another length", |c, bad, s, r| u64: 1, 1 + bad => (s, r, ops::Sum)),
    forms!(all; exscan iexscan exscan_init, "an operator on another type", |c, bad, s, r| u64: 1, 1 => (s, r, sum(bad))),
];
