//! Broadcasts that know nodes.

use super::Nodes;
use super::line::{FULL_LANE, LANES as EVEN, LEADERS as ANY};
use super::line::{by_blocks, even, hidden, lanes, leaders, nodes, of_node, others, wire, with_fan};
use super::spread::{Among, Spread};
use crate::machine::LogGp;
use crate::plan::bcast::circulant;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::rules;

pub(in crate::plan) const LEADERS: Algorithm = line(
    Operation::Bcast,
    "node_circulant",
    [ANY, "<= (n+q_N)S", "m", "Träff 2022, Algorithm 6, among the nodes' leaders"],
    |a, n| by_blocks(a, n, 0),
    |a, model| Ok(Box::new(Spread::bcast(nodes(a)?, a.root, a.bytes, blocks(a, model))?)),
)
.only(leaders)
.costs(leaders_cost)
.puts_blocks(of_node);

pub(in crate::plan) const LANES: Algorithm = line(
    Operation::Bcast,
    "lanes",
    [EVEN, "<= (n+q_N)S + S-1", "m", FULL_LANE],
    |a, n| by_blocks(a, n, 1),
    |a, model| {
        let n = lane_blocks(a, model);
        let among = |nodes, root, bytes| Among::bcast(nodes, root, bytes, n);
        Ok(Box::new(Spread::bcast_lanes("lanes", even(a)?, (a.root, true), a.bytes, &among)?))
    },
)
.only(lanes)
.costs(lanes_cost)
.puts_blocks(of_node);

/// As among the nodes, where a block also costs its carrier the puts within the node.
fn blocks(a: &Arguments, model: &LogGp) -> u32 {
    let by_rule = |nodes: Nodes| rules::bcast_blocks(nodes.count(), a.bytes, &with_fan(&nodes, model));
    a.blocks.unwrap_or_else(|| nodes(a).map_or(1, by_rule))
}

/// The same, where each of a node's ranks puts a part of a block over the node's one link: o counts for each. (8 nodes of 4 ranks, 100 Mbit/s, 100 KB: 8.9 ms
/// with 8 to 15 blocks, 12.2 with 60, of which a part has 400 bytes.)
fn lane_blocks(a: &Arguments, model: &LogGp) -> u32 {
    let ranks = nodes(a).map_or(1, |nodes| u64::from(nodes.most()));
    blocks(a, &LogGp { overhead_ns: model.overhead_ns.saturating_mul(ranks), ..*model })
}

fn leaders_cost(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = nodes(a) else { return };
    let (n, bytes) = (blocks(a, path.model()), float(a.bytes));
    let wire = wire(path.machine(), &nodes);
    path.among(nodes.count(), wire, |path| circulant::walk(nodes.count(), n, bytes, path));
    path.near(1.0, others(&nodes), bytes / f64::from(n));
}

/// A lane's blocks are S times as short, but share the node's link with those of the others: what a put costs its
/// sender is hidden as far as those are on the link.
pub(super) fn lanes_cost(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = nodes(a) else { return };
    let (n, share) = (lane_blocks(a, path.model()), float(a.bytes) / f64::from(nodes.most()));
    let block = share / f64::from(n);
    path.near(1.0, others(&nodes) * f64::from(n), block);
    let wire = hidden(wire(path.machine(), &nodes), block * others(&nodes));
    path.among(nodes.count(), wire, |path| circulant::walk(nodes.count(), n, float(a.bytes), path));
    path.near(1.0, others(&nodes), block);
}
