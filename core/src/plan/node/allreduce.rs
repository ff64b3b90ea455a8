//! Allreduces that know nodes.

use super::Nodes;
use super::fold::{self, Fold};
use super::line::{FULL_LANE, LANES_COMMUTE, LEADERS_COMMUTE};
use super::line::{
    added, among_lanes, by_blocks, even, lanes_commute, leaders_commute, led, nodes, others, wire,
};
use crate::plan::allreduce::{doubling, scattered};
use crate::plan::partial::Pieces;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{commutative, line, q};
use crate::plan::registry::{Algorithm, Arguments, Operation, order};

pub(in crate::plan) const LEADERS: Algorithm = line(
    Operation::Allreduce,
    "node_circulant",
    [
        LEADERS_COMMUTE,
        "<= (2q_N+2)S + 2(S-1)",
        "<= Sm + 2(N-1)*ceil(m/N)",
        "arXiv 2410.14234 among the nodes' leaders",
    ],
    |a, _| rounds(a, 2),
    |a, _| {
        commutative(a)?;
        Ok(Box::new(Fold::allreduce(nodes(a)?, (a.bytes, a.element), a.in_place)?))
    },
)
.only(leaders_commute)
.receives(|a| nodes(a).map_or(0, |nodes| u64::from(nodes.most()) * a.bytes + among(a, &nodes, a.bytes)))
.costs(leaders_cost)
.ordered(order::NODEWISE);

pub(in crate::plan) const LANES: Algorithm = line(
    Operation::Allreduce,
    "lanes",
    [LANES_COMMUTE, "<= (2q_N+2)S + S-1", "<= m + S*ceil(m/S) + 2(N-1)*ceil(m/S/N)", FULL_LANE],
    |a, _| rounds(a, 1),
    |a, _| {
        commutative(a)?;
        Ok(Box::new(Fold::allreduce_lanes(
            "lanes",
            even(a)?,
            (a.bytes, a.element),
            a.in_place,
            &|nodes, bytes| fold::allreduce(nodes, bytes, a.element),
        )?))
    },
)
.only(lanes_commute)
.receives(|a| {
    let received = |nodes: Nodes| {
        let share = Pieces::even(a.bytes, a.element, nodes.most()).largest();
        a.bytes + u64::from(nodes.most()) * share + among(a, &nodes, share)
    };
    nodes(a).map_or(0, received)
})
.costs(lanes_cost)
.ordered(order::NODEWISE);

pub(in crate::plan) const DOUBLING: Algorithm = line(
    Operation::Allreduce,
    "node_doubling",
    [LEADERS_COMMUTE, "<= (q_N+3)S + 2(S-1)", "<= (S+q_N+1)m", "recursive doubling among the nodes' leaders"],
    |a, _| by_blocks(a, 3, 2),
    |a, _| {
        commutative(a)?;
        Ok(Box::new(Fold::doubling(nodes(a)?, (a.bytes, a.element), a.in_place)?))
    },
)
.only(leaders_commute)
.receives(|a| nodes(a).map_or(0, |nodes| u64::from(nodes.most() + q(nodes.count()) + 1) * a.bytes))
.costs(doubling_cost)
.ordered(order::NODEWISE);

/// (2q_N + 2)·S, and S−1 for each stage before.
fn rounds(a: &Arguments, stages: u32) -> u32 {
    nodes(a).map_or(0, |nodes| by_blocks(a, q(nodes.count()) + 2, stages))
}

/// What a carrier receives of the others.
fn among(a: &Arguments, nodes: &Nodes, bytes: u64) -> u64 {
    2 * u64::from(nodes.count() - 1) * Pieces::even(bytes, a.element, nodes.count()).largest()
}

/// Among nodes or lanes; what runs beside it is counted there.
fn scattered_cost(a: &Arguments, path: &mut Path<'_>) {
    scattered::circulant_cost(a, 1.0, path);
}

/// Each piece that comes is passed on in the node while others come.
fn leaders_cost(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = nodes(a) else { return };
    let count = nodes.count();
    led(a, &nodes, float(a.bytes) / f64::from(count), path);
    let among = Arguments { size: count, ..a.clone() };
    let wire = wire(path.machine(), &nodes);
    path.among(count, wire, |path| scattered_cost(&among, path));
    path.near(1.0, others(&nodes), float(a.bytes) / f64::from(count));
}

pub(super) fn lanes_cost(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = nodes(a) else { return };
    added(a, &nodes, path);
    among_lanes(a, &nodes, nodes.count(), path, scattered_cost);
    path.near(1.0, others(&nodes), float(a.bytes) / f64::from(nodes.count()));
}

fn doubling_cost(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = nodes(a) else { return };
    led(a, &nodes, float(a.bytes), path);
    let among = Arguments { size: nodes.count(), ..a.clone() };
    let wire = path.machine().wire;
    path.among(nodes.count(), wire, |path| doubling::cost(&among, path));
    path.near(1.0, others(&nodes), float(a.bytes));
}
