//! Reduces that know nodes.

use super::Nodes;
use super::fold::{self, Fold};
use super::line::{FULL_LANE, LANES_COMMUTE, LEADERS_COMMUTE};
use super::line::{
    added, among_lanes, by_blocks, even, lanes_commute, leaders_commute, led, nodes, of_node, with_fan,
};
use crate::machine::LogGp;
use crate::plan::partial::Pieces;
use crate::plan::reduce::circulant;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{commutative, line, q};
use crate::plan::registry::{Algorithm, Arguments, Operation, order};

pub(in crate::plan) const LEADERS: Algorithm = line(
    Operation::Reduce,
    "node_circulant",
    [
        LEADERS_COMMUTE,
        "<= (n+q_N+1)S + 2(S-1)",
        "<= Sm + (n-1+q_N)*ceil(m/n)",
        "Träff 2022, Algorithm 6 reversed, among the nodes' leaders",
    ],
    |a, n| by_blocks(a, n + 1, 2),
    |a, model| {
        commutative(a)?;
        let (nodes, n) = (nodes(a)?, blocks(a, model));
        Ok(Box::new(Fold::reduce(nodes, a.root, (a.bytes, a.element), n, a.in_place)?))
    },
)
.only(leaders_commute)
.receives(|a| nodes(a).map_or(0, |nodes| u64::from(nodes.most()) * a.bytes + among(a, &nodes, a.bytes)))
.costs(leaders_cost)
.puts_blocks(of_node)
.ordered(order::NODEWISE_BLOCKS);

pub(in crate::plan) const LANES: Algorithm = line(
    Operation::Reduce,
    "lanes",
    [LANES_COMMUTE, "<= (n+q_N+1)S + S-1", "<= m + S*ceil(m/S) + (n-1+q_N)*ceil(m/S/n)", FULL_LANE],
    |a, n| by_blocks(a, n + 1, 1),
    |a, model| {
        commutative(a)?;
        let (nodes, n) = (even(a)?, blocks(a, model));
        Ok(Box::new(Fold::reduce_lanes(
            "lanes",
            nodes,
            (a.root, true),
            (a.bytes, a.element),
            a.in_place,
            &|nodes, root, bytes| fold::reduce(nodes, root, bytes, a.element, n),
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
.puts_blocks(of_node)
.ordered(order::NODEWISE_BLOCKS);

/// What a carrier receives of the others.
fn among(a: &Arguments, nodes: &Nodes, bytes: u64) -> u64 {
    let n = a.blocks.unwrap_or(1);
    u64::from(n - 1 + q(nodes.count())) * Pieces::even(bytes, a.element, n).largest()
}

/// As for a broadcast on a wire on which a byte also takes its combination.
fn blocks(a: &Arguments, model: &LogGp) -> u32 {
    let by_rule = |nodes: Nodes| {
        let a = Arguments { size: nodes.count(), ..a.clone() };
        circulant::blocks(&a, &with_fan(&nodes, model))
    };
    a.blocks.unwrap_or_else(|| nodes(a).map_or(1, by_rule))
}

fn leaders_cost(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = nodes(a) else { return };
    let n = blocks(a, path.model());
    led(a, &nodes, float(a.bytes) / f64::from(n), path);
    let among = Arguments { size: nodes.count(), blocks: Some(n), ..a.clone() };
    let wire = path.machine().wire;
    path.among(nodes.count(), wire, |path| circulant::cost(&among, path));
}

pub(super) fn lanes_cost(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = nodes(a) else { return };
    let n = blocks(a, path.model());
    added(a, &nodes, path);
    among_lanes(a, &nodes, n, path, circulant::cost);
    path.near(1.0, f64::from(n), float(a.bytes) / f64::from(n));
}
