//! Scatters that know nodes: along a tree of the nodes' leaders, each of which hands its node's ranks their blocks.

use super::Nodes;
use super::line::{LEADERS, by_node, leaders, nodes, others};
use super::tree::NodeTree;
use crate::error::{Result, argument};
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::scatter::plan::{irregular, largest_subtree, regular};
use crate::plan::tree::{Tree, binomial, size_aware, star};

const SUBTREE: &str = "largest subtree";
const DIRECT_SOURCE: &str = "one put per node, and per rank of it";

pub(in crate::plan) const DIRECT: Algorithm = line(
    Operation::Scatter,
    "node_direct",
    [LEADERS, "S-1 + N-1", SUBTREE, DIRECT_SOURCE],
    |a, _| rounds(direct(a)),
    |a, _| regular(a, direct(a)?),
)
.only(leaders)
.receives(|a| received(direct(a), |_| a.bytes))
.costs(direct_cost);

pub(in crate::plan) const BINOMIAL: Algorithm = line(
    Operation::Scatter,
    "node_binomial",
    [LEADERS, "S-1 + q_N", SUBTREE, "binomial tree of the nodes' leaders"],
    |a, _| rounds(by_binomial(a)),
    |a, _| regular(a, by_binomial(a)?),
)
.only(leaders)
.receives(|a| received(by_binomial(a), |_| a.bytes))
.costs(binomial_cost);

pub(in crate::plan) const DIRECT_IRREGULAR: Algorithm = line(
    Operation::Scatterv,
    "node_direct",
    [LEADERS, "S-1 + N-1", SUBTREE, DIRECT_SOURCE],
    |a, _| rounds(direct(a)),
    |a, _| irregular(a, direct(a)?),
)
.only(leaders)
.receives(|a| received(direct(a), |rank| a.counts[rank as usize]))
.costs(|a, path| irregular_cost(a, star::scatter_cost, path));

pub(in crate::plan) const SIZE_AWARE_IRREGULAR: Algorithm = line(
    Operation::Scatterv,
    "node_size-aware",
    [LEADERS, "S-1 + q_N", SUBTREE, "Träff 2017, arXiv 1702.05967, among the nodes' leaders"],
    |a, _| rounds(by_size(a)),
    |a, _| irregular(a, by_size(a)?),
)
.only(leaders)
.receives(|a| received(by_size(a), |rank| a.counts[rank as usize]))
.costs(|a, path| irregular_cost(a, size_aware::scatterv_cost, path));

type Built = Result<Box<dyn Tree>>;

fn direct(a: &Arguments) -> Built {
    tree(a, "node_direct", star::tree)
}

fn by_binomial(a: &Arguments) -> Built {
    tree(a, "node_binomial", binomial::tree)
}

fn by_size(a: &Arguments) -> Built {
    tree(a, "node_size-aware", size_aware::tree)
}

fn tree(a: &Arguments, name: &'static str, among: fn(&Arguments) -> Built) -> Built {
    let nodes = nodes(a)?;
    let among = among(&among_nodes(a, &nodes)?)?;
    Ok(Box::new(NodeTree::new(name, nodes, a.root, among)?))
}

fn rounds(tree: Built) -> u32 {
    tree.map_or(0, |tree| tree.rounds())
}

fn received(tree: Built, bytes: impl Fn(u32) -> u64) -> u64 {
    tree.map_or(0, |tree| largest_subtree(&*tree, bytes))
}

/// The arguments of a scatter(v) among the nodes, each with the bytes of its ranks.
fn among_nodes(a: &Arguments, nodes: &Nodes) -> Result<Arguments> {
    if a.root >= a.size {
        return Err(argument(format!("root {} is not one of the {} ranks", a.root, a.size)));
    }
    let counts = by_node(nodes, &a.counts);
    Ok(Arguments { size: nodes.count(), root: nodes.of(a.root), counts, ..Arguments::default() })
}

/// What a node's ranks get in one run: its leader hands each its own when that run is there.
fn handed(nodes: &Nodes, bytes: f64, path: &mut Path<'_>) {
    path.near(1.0, others(nodes), bytes);
}

/// The root puts a message to every other node, one after the other; the last one passes its blocks on.
fn direct_cost(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = nodes(a) else { return };
    let (bytes, most) = (float(a.bytes), f64::from(nodes.most()));
    let away = f64::from(nodes.count() - 1);
    let (runs, wire) = (path.runs(most, bytes), path.machine().wire);
    path.among(nodes.count(), wire, |path| path.fan(away * runs, away * most * bytes));
    handed(&nodes, bytes, path);
}

/// Halves of the nodes, quarters, …
fn binomial_cost(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = nodes(a) else { return };
    let each = a.bytes.saturating_mul(nodes.most().into());
    let among = Arguments { size: nodes.count(), bytes: each, ..Arguments::default() };
    let wire = path.machine().wire;
    path.among(nodes.count(), wire, |path| binomial::scatter_cost(&among, path));
    handed(&nodes, float(a.bytes), path);
}

/// Among the nodes, and what the mean rank gets.
fn irregular_cost(a: &Arguments, formula: fn(&Arguments, &mut Path<'_>), path: &mut Path<'_>) {
    let Ok(nodes) = nodes(a) else { return };
    let Ok(among) = among_nodes(a, &nodes) else { return };
    let mean = float(among.counts.iter().sum()) / f64::from(a.size.max(1));
    let wire = path.machine().wire;
    path.among(nodes.count(), wire, |path| formula(&among, path));
    handed(&nodes, mean, path);
}
