//! Allgathers and allgathervs that know nodes.

use super::Nodes;
use super::line::{FULL_LANE, LANES as EVEN, LEADERS as ANY};
use super::line::{by_blocks, by_node, equal, even, lanes, leaders, nodes, others, wire, with_fan};
use super::spread::{Among, Spread};
use crate::error::Result;
use crate::machine::LogGp;
use crate::plan::allgatherv::circulant::{self, Blocks};
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{line, of_all, q};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::{Plan, rules};

const LEADERS_SOURCE: &str = "Träff 2022, Algorithm 9, among the nodes' leaders";

pub(in crate::plan) const LEADERS: Algorithm = line(
    Operation::Allgather,
    "node_circulant",
    [ANY, "<= (n+q_N)S + S-1", "m - m/p", LEADERS_SOURCE],
    |a, n| by_blocks(a, n, 1),
    |a, model| build(&equal(a)?, model),
)
.only(leaders)
.costs(|a, path| {
    if let Ok(a) = equal(a) {
        leaders_cost(&a, path)
    }
})
.puts_blocks(of_all);

pub(in crate::plan) const LANES: Algorithm = line(
    Operation::Allgather,
    "lanes",
    [EVEN, "<= (n+q_N)S", "m - m/p", FULL_LANE],
    |a, n| by_blocks(a, n, 0),
    |a, model| build_lanes(&equal(a)?, model),
)
.only(lanes)
.costs(|a, path| {
    if let Ok(a) = equal(a) {
        lanes_cost(&a, path)
    }
})
.puts_blocks(of_all);

pub(in crate::plan) const LEADERS_IRREGULAR: Algorithm = line(
    Operation::Allgatherv,
    "node_circulant",
    [ANY, "<= (n+q_N)S + S-1", "m - m_r", LEADERS_SOURCE],
    |a, n| by_blocks(a, n, 1),
    build,
)
.only(leaders)
.costs(leaders_cost)
.puts_blocks(of_all);

pub(in crate::plan) const LANES_IRREGULAR: Algorithm = line(
    Operation::Allgatherv,
    "lanes",
    [EVEN, "<= (n+q_N)S", "m - m_r", FULL_LANE],
    |a, n| by_blocks(a, n, 0),
    build_lanes,
)
.only(lanes)
.costs(lanes_cost)
.puts_blocks(of_all);

fn build(a: &Arguments, model: &LogGp) -> Result<Box<dyn Plan>> {
    let nodes = nodes(a)?;
    let blocks = blocks(a, &nodes, &by_node(&nodes, &a.counts), model);
    Ok(Box::new(Spread::allgatherv(nodes, &a.counts, &a.displs, &blocks, a.in_place)?))
}

fn build_lanes(a: &Arguments, model: &LogGp) -> Result<Box<dyn Plan>> {
    let nodes = even(a)?;
    let among = {
        let nodes = nodes.clone();
        move |counts: &[u64], displs: &[u64]| {
            Among::allgatherv(counts, displs, &blocks(a, &nodes, counts, model))
        }
    };
    Ok(Box::new(Spread::allgatherv_lanes("lanes", nodes, &a.counts, &a.displs, &among, a.in_place)?))
}

/// The numbers of blocks of lists of counts by node.
fn blocks(a: &Arguments, nodes: &Nodes, counts: &[u64], model: &LogGp) -> Blocks {
    let by_rule = || rules::allgatherv_blocks(counts, &with_fan(nodes, model));
    a.blocks.map_or_else(by_rule, Blocks::Equal)
}

/// Irregular among the nodes. A node's bytes are those of its ranks, each in puts of its own.
fn leaders_cost(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = nodes(a) else { return };
    let counts = by_node(&nodes, &a.counts);
    let mean = float(counts.iter().sum()) / f64::from(a.size);
    path.near(1.0, 1.0, mean);
    among(a, &nodes, counts, f64::from(nodes.most()), path);
    path.near(1.0, others(&nodes), mean.min(path.coalesce()));
}

/// The lanes share the link; in each a rank's own bytes move.
pub(super) fn lanes_cost(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = nodes(a) else { return };
    let counts = by_node(&nodes, &a.counts);
    let mean = float(counts.iter().sum()) / f64::from(a.size);
    among(a, &nodes, counts, 1.0, path);
    path.near(1.0, others(&nodes), mean);
}

/// The allgatherv of these counts among the nodes, each in this many pieces.
fn among(a: &Arguments, nodes: &Nodes, counts: Vec<u64>, pieces: f64, path: &mut Path<'_>) {
    let (wire, count) = (wire(path.machine(), nodes), nodes.count());
    let all = float(counts.iter().sum());
    let mean = all / f64::from(a.size.max(1));
    // Beyond one for each node and round.
    let runs = path.runs(pieces, mean);
    let light = path.shared(runs, mean);
    let runs = if light { 1.0 } else { runs };
    let more = (runs - 1.0) * f64::from(count - 1);
    let among = Arguments { size: count, counts, blocks: a.blocks, ..Arguments::default() };
    path.among(count, wire, |path| {
        circulant::cost(&among, path);
        path.over(&[1], 0.0, more, 0.0);
    });
    // All that a rank reads.
    path.longer(
        |_| (),
        |path| {
            *path = Path::new(path.machine(), path.size());
            path.near(f64::from(q(nodes.most())), 1.0, all);
        },
    );
}
