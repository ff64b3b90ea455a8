//! The lines of the direct algorithms: everyone deals with everyone, nothing is passed on. Made for memory that ranks
//! share, where readers copy; on a network for what is light beside its latency.

use super::cost::{Formula, direct as cost};
use super::{Algorithm, Arguments, Build, Operation, Order, any, order, reductions};
use crate::error::{Result, argument};
use crate::plan::Plan;
use crate::plan::allgatherv::direct::Direct as Gather;
use crate::plan::allgatherv::window;
use crate::plan::partial::Pieces;
use crate::plan::reduce_scatter::direct::{Direct, Results};

const NAME: &str = "direct";
const FOLDED: Order = order::ROUND;

const fn line(
    operation: Operation,
    [restrictions, rounds, volume]: [&'static str; 3],
    fits: fn(&Arguments) -> Result<()>,
    rounds_of: fn(&Arguments, u32) -> u32,
    build: Build,
    cost: Formula,
    order: Option<Order>,
) -> Algorithm {
    let source = "folklore";
    let cost = Some(cost);
    Algorithm {
        operation,
        name: NAME,
        restrictions,
        rounds,
        volume,
        source,
        fits,
        rounds_of,
        build,
        cost,
        received: if order.is_some() { Some(received(operation)) } else { None },
        order,
    }
}

const ONCE: [&str; 2] = ["any p; n = 1", "p-1"];
const FOLDS: [&str; 2] = ["any p, n; commutative", "n(p-1)"];
const TWICE: [&str; 2] = ["any p, n; commutative", "2n(p-1)"];

const fn promises([restrictions, rounds]: [&'static str; 2], volume: &'static str) -> [&'static str; 3] {
    [restrictions, rounds, volume]
}

/// All of them.
pub(super) const LINES: &[Algorithm] = {
    use Operation::{Allgather, Allgatherv, Allreduce, Reduce, ReduceScatter, ReduceScatterBlock};
    &[
        line(
            Allgather,
            promises(ONCE, "m - m/p"),
            any,
            once,
            window::regular::<Gather>,
            cost::allgather,
            None,
        ),
        line(
            Allgatherv,
            promises(ONCE, "m - m_r"),
            any,
            once,
            window::irregular::<Gather>,
            cost::allgatherv,
            None,
        ),
        line(
            Allreduce,
            promises(TWICE, "<= 2(p-1)*ceil(m/p)"),
            commutes,
            twice,
            |a, _| whole(a, Results::Everywhere),
            cost::allreduce,
            Some(FOLDED),
        ),
        line(
            Reduce,
            promises(TWICE, "<= 2(p-1)*ceil(m/p)"),
            commutes,
            twice,
            |a, _| whole(a, Results::At(a.root)),
            cost::reduce,
            Some(FOLDED),
        ),
        line(
            ReduceScatter,
            promises(FOLDS, "(p-1)*m_r"),
            commutes,
            folds,
            |a, _| {
                commutes(a)?;
                Ok(Box::new(Direct::scatter(&a.counts, a.element, a.blocks, a.in_place)?))
            },
            cost::scatter,
            Some(FOLDED),
        ),
        line(
            ReduceScatterBlock,
            promises(FOLDS, "m - m/p"),
            commutes,
            folds,
            |a, _| {
                commutes(a)?;
                Ok(Box::new(Direct::scatter_block(a.size, a.bytes, a.element, a.blocks, a.in_place)?))
            },
            cost::scatter,
            Some(FOLDED),
        ),
    ]
};

fn commutes(a: &Arguments) -> Result<()> {
    reductions::commutes(a, NAME)
}

fn once(a: &Arguments, _: u32) -> u32 {
    a.size.saturating_sub(1)
}

fn folds(a: &Arguments, n: u32) -> u32 {
    n.saturating_mul(once(a, n))
}

fn twice(a: &Arguments, n: u32) -> u32 {
    folds(a, n).saturating_mul(2)
}

fn whole(a: &Arguments, results: Results) -> Result<Box<dyn Plan>> {
    commutes(a)?;
    if a.size == 0 {
        return Err(argument("a reduction among no ranks"));
    }
    Ok(Box::new(Direct::new(a.size, results, a.bytes, a.element, a.blocks, a.in_place)?))
}

/// Bytes that the rank which receives most receives, of what is folded.
const fn received(operation: Operation) -> fn(&Arguments) -> u64 {
    match operation {
        Operation::ReduceScatter => |a| u64::from(once(a, 1)) * a.counts.iter().copied().max().unwrap_or(0),
        Operation::ReduceScatterBlock => |a| u64::from(once(a, 1)) * a.bytes,
        _ => |a| 2 * u64::from(once(a, 1)) * Pieces::even(a.bytes, a.element, a.size.max(1)).largest(),
    }
}
