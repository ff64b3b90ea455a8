//! The lines of the algorithms that know nodes. N nodes, S the ranks of the largest, q_N = ⌈log2 N⌉, q_S = ⌈log2 S⌉. Rounds are those
//! of the proof, of which many are empty for most ranks.

use super::cost::nodes as cost;
use super::line::line;
use super::reductions::{commutes, reduce_blocks};
use super::{Algorithm, Arguments, Operation, moves, order, q};
use crate::error::{Result, argument};
use crate::machine::LogGp;
use crate::plan::allgatherv::circulant::Blocks;
use crate::plan::node::{
    Nodes, alltoall::Lanes, barrier::Barrier, fold::Fold, scan, scan::Scan, spread::Spread, tree::NodeTree,
};
use crate::plan::partial::Pieces;
use crate::plan::tree::Tree;
use crate::plan::{Plan, rules};

type Built = Result<Box<dyn Plan>>;

const LEADERS: &str = "several nodes, several ranks on some";
const LANES: &str = "several nodes of the same number of ranks, several on each";
const LEADERS_COMMUTE: &str = "several nodes, several ranks on some; commutative";
const LANES_COMMUTE: &str = "several nodes of the same number of ranks, several on each; commutative";
const SUBTREE: &str = "largest subtree";
const REDUCED: &str = "<= Sm + (n-1+q_N)*ceil(m/n)";
const REDUCED_LANES: &str = "<= m + S*ceil(m/S) + (n-1+q_N)*ceil(m/S/n)";
const ALLREDUCED: &str = "<= Sm + 2(N-1)*ceil(m/N)";
const DOUBLED: &str = "<= (S+q_N+1)m";
const ALLREDUCED_LANES: &str = "<= m + S*ceil(m/S) + 2(N-1)*ceil(m/S/N)";
const IN_ORDER: &str =
    "several nodes, several ranks on some, which follow each other; keeps the order of ranks";
const SCANNED: &str = "<= (q_S+q_N+1)m";
const SCATTERED: &str = "<= (S+q_N) times the bytes of a lane";
const FULL_LANE: &str = "Träff and Hunold 2020, arXiv 1910.13373; Träff 2022";

/// All of them.
pub(super) const LINES: &[Algorithm] = {
    use Operation::{Allgather, Allgatherv, Allreduce, Alltoall, Barrier as Barriers, Bcast, Reduce};
    use Operation::{Exscan, ReduceScatter, ReduceScatterBlock, Scatter, Scatterv};
    &[
        line(
            Bcast,
            "node_circulant",
            [LEADERS, "<= (n+q_N)S", "m", "Träff 2022, Algorithm 6, among the nodes' leaders"],
            |a, n| by_blocks(a, n, 0),
            |a, model| {
                let n = bcast_blocks(a, model);
                Ok(Box::new(Spread::bcast(nodes(a)?, a.root, a.bytes, n)?))
            },
        )
        .only(leaders)
        .costs(cost::bcast),
        line(
            Bcast,
            "lanes",
            [LANES, "<= (n+q_N)S + S-1", "m", FULL_LANE],
            |a, n| by_blocks(a, n, 1),
            |a, model| {
                let n = bcast_blocks(a, model);
                Ok(Box::new(Spread::bcast_lanes(even(a)?, a.root, a.bytes, n)?))
            },
        )
        .only(lanes)
        .costs(cost::bcast_lanes),
        line(
            Allgather,
            "node_circulant",
            [LEADERS, "<= (n+q_N)S + S-1", "m - m/p", "Träff 2022, Algorithm 9, among the nodes' leaders"],
            |a, n| by_blocks(a, n, 1),
            |a, model| allgatherv(&equal(a)?, model),
        )
        .only(leaders)
        .costs(cost::allgather),
        line(
            Allgather,
            "lanes",
            [LANES, "<= (n+q_N)S", "m - m/p", FULL_LANE],
            |a, n| by_blocks(a, n, 0),
            |a, model| allgatherv_lanes(&equal(a)?, model),
        )
        .only(lanes)
        .costs(cost::allgather_lanes),
        line(
            Allgatherv,
            "node_circulant",
            [LEADERS, "<= (n+q_N)S + S-1", "m - m_r", "Träff 2022, Algorithm 9, among the nodes' leaders"],
            |a, n| by_blocks(a, n, 1),
            allgatherv,
        )
        .only(leaders)
        .costs(cost::allgatherv),
        line(
            Allgatherv,
            "lanes",
            [LANES, "<= (n+q_N)S", "m - m_r", FULL_LANE],
            |a, n| by_blocks(a, n, 0),
            allgatherv_lanes,
        )
        .only(lanes)
        .costs(cost::allgatherv_lanes),
        line(
            Barriers,
            "node_dissemination",
            [LEADERS, "q_N + 2(S-1)", "0", "dissemination among the nodes' leaders"],
            |a, _| nodes(a).map_or(0, |nodes| q(nodes.count()) + 2 * (nodes.most() - 1)),
            |a, _| Ok(Box::new(Barrier::new(nodes(a)?))),
        )
        .only(leaders)
        .costs(cost::barrier),
        line(
            Reduce,
            "node_circulant",
            [
                LEADERS_COMMUTE,
                "<= (n+q_N+1)S + 2(S-1)",
                REDUCED,
                "Träff 2022, Algorithm 6 reversed, among the nodes' leaders",
            ],
            |a, n| by_blocks(a, n + 1, 2),
            |a, model| {
                let (nodes, n) = (nodes(a)?, fold_blocks(a, model));
                commutes(a, "node_circulant")?;
                Ok(Box::new(Fold::reduce(nodes, a.root, (a.bytes, a.element), n, a.in_place)?))
            },
        )
        .only(|a| leaders(a).and_then(|()| commutes(a, "node_circulant")))
        .costs(cost::reduce)
        .ordered(order::NODEWISE_BLOCKS),
        line(
            Reduce,
            "lanes",
            [LANES_COMMUTE, "<= (n+q_N+1)S + S-1", REDUCED_LANES, FULL_LANE],
            |a, n| by_blocks(a, n + 1, 1),
            |a, model| {
                let (nodes, n) = (even(a)?, fold_blocks(a, model));
                commutes(a, "lanes")?;
                Ok(Box::new(Fold::reduce_lanes(nodes, a.root, (a.bytes, a.element), n, a.in_place)?))
            },
        )
        .only(|a| lanes(a).and_then(|()| commutes(a, "lanes")))
        .costs(cost::reduce_lanes)
        .ordered(order::NODEWISE_BLOCKS),
        line(
            Allreduce,
            "node_circulant",
            [
                LEADERS_COMMUTE,
                "<= (2q_N+2)S + 2(S-1)",
                ALLREDUCED,
                "arXiv 2410.14234 among the nodes' leaders",
            ],
            |a, _| twice(a, 2),
            |a, _| {
                let nodes = nodes(a)?;
                commutes(a, "node_circulant")?;
                Ok(Box::new(Fold::allreduce(nodes, (a.bytes, a.element), a.in_place)?))
            },
        )
        .only(|a| leaders(a).and_then(|()| commutes(a, "node_circulant")))
        .costs(cost::allreduce)
        .ordered(order::NODEWISE),
        line(
            Allreduce,
            "lanes",
            [LANES_COMMUTE, "<= (2q_N+2)S + S-1", ALLREDUCED_LANES, FULL_LANE],
            |a, _| twice(a, 1),
            |a, _| {
                let nodes = even(a)?;
                commutes(a, "lanes")?;
                Ok(Box::new(Fold::allreduce_lanes(nodes, (a.bytes, a.element), a.in_place)?))
            },
        )
        .only(|a| lanes(a).and_then(|()| commutes(a, "lanes")))
        .costs(cost::allreduce_lanes)
        .ordered(order::NODEWISE),
        line(
            Allreduce,
            "node_doubling",
            [LEADERS_COMMUTE, "<= (q_N+3)S + 2(S-1)", DOUBLED, "recursive doubling among the nodes' leaders"],
            |a, _| by_blocks(a, 3, 2),
            |a, _| {
                let nodes = nodes(a)?;
                commutes(a, "node_doubling")?;
                Ok(Box::new(Fold::doubling(nodes, (a.bytes, a.element), a.in_place)?))
            },
        )
        .only(|a| leaders(a).and_then(|()| commutes(a, "node_doubling")))
        .costs(cost::allreduce_doubling)
        .ordered(order::NODEWISE),
        line(
            ReduceScatter,
            "lanes",
            [LEADERS_COMMUTE, "<= (q_N+2)S + S-1", SCATTERED, FULL_LANE],
            |a, _| by_blocks(a, 2, 1),
            |a, _| reduce_scatter(a, &a.counts),
        )
        .only(|a| leaders(a).and_then(|()| commutes(a, "lanes")))
        .costs(cost::reduce_scatter)
        .ordered(order::NODEWISE),
        line(
            ReduceScatterBlock,
            "lanes",
            [LEADERS_COMMUTE, "<= (q_N+2)S + S-1", SCATTERED, FULL_LANE],
            |a, _| by_blocks(a, 2, 1),
            |a, _| reduce_scatter(a, &equal(a)?.counts),
        )
        .only(|a| leaders(a).and_then(|()| commutes(a, "lanes")))
        .costs(cost::reduce_scatter_block)
        .ordered(order::NODEWISE),
        line(
            Operation::Scan,
            "node_circulant",
            [
                IN_ORDER,
                "<= q_S + q_N + S + 1",
                SCANNED,
                "doubling, and Träff 2022, Algorithm 8, made acyclic",
            ],
            scan_rounds,
            |a, _| scan(a, true),
        )
        .only(in_order)
        .costs(cost::scan)
        .ordered(order::NODES_IN_ORDER),
        line(
            Exscan,
            "node_circulant",
            [IN_ORDER, "<= q_S + q_N + S + 1", SCANNED, "Träff 2022, Algorithm 8, made acyclic"],
            scan_rounds,
            |a, _| scan(a, false),
        )
        .only(in_order)
        .costs(cost::scan)
        .ordered(order::NODES_IN_ORDER),
        line(
            Scatter,
            "node_direct",
            [LEADERS, "S-1 + N-1", SUBTREE, "one put per node, and per rank of it"],
            |a, _| by_tree(a, DIRECT),
            |a, _| moves::scatter(a, tree(a, DIRECT)?),
        )
        .only(leaders)
        .costs(cost::scatter_direct),
        line(
            Scatter,
            "node_binomial",
            [LEADERS, "S-1 + q_N", SUBTREE, "binomial tree of the nodes' leaders"],
            |a, _| by_tree(a, BINOMIAL),
            |a, _| moves::scatter(a, tree(a, BINOMIAL)?),
        )
        .only(leaders)
        .costs(cost::scatter_binomial),
        line(
            Scatterv,
            "node_direct",
            [LEADERS, "S-1 + N-1", SUBTREE, "one put per node, and per rank of it"],
            |a, _| by_tree(a, DIRECT),
            |a, _| moves::scatterv(a, tree(a, DIRECT)?),
        )
        .only(leaders)
        .costs(cost::scatterv_direct),
        line(
            Scatterv,
            "node_size-aware",
            [LEADERS, "S-1 + q_N", SUBTREE, "Träff 2017, arXiv 1702.05967, among the nodes' leaders"],
            |a, _| by_tree(a, SIZE_AWARE),
            |a, _| moves::scatterv(a, tree(a, SIZE_AWARE)?),
        )
        .only(leaders)
        .costs(cost::scatterv_size_aware),
        line(
            Alltoall,
            "lanes",
            [
                LEADERS,
                "<= S-1 + (N-1)*ceil(S/s), s ranks on the smallest node",
                "s(p-1), and s(S-1) for each rank that one handles",
                "Träff and Hunold 2020, arXiv 1910.13373",
            ],
            |a, _| nodes(a).map_or(0, |nodes| Lanes::rounds_of(&nodes)),
            |a, _| Ok(Box::new(Lanes::new(nodes(a)?, a.bytes)?)),
        )
        .only(leaders)
        .costs(cost::alltoall_lanes),
    ]
};

/// The bytes of the largest lane of a reduce_scatter.
pub(super) fn largest_lane(nodes: &Nodes, counts: &[u64]) -> u64 {
    let mut lanes = vec![0u64; nodes.least() as usize];
    for (rank, count) in (0..nodes.size()).zip(counts) {
        let lane = (nodes.position(rank) % nodes.least()) as usize;
        lanes[lane] = lanes[lane].saturating_add(*count);
    }
    lanes.into_iter().max().unwrap_or(0)
}

/// A tree among nodes: the name of what becomes of it among ranks.
pub(super) type Shape = (&'static str, fn(&Arguments) -> Result<Box<dyn Tree>>);
pub(super) const DIRECT: Shape = ("node_direct", moves::star);
pub(super) const BINOMIAL: Shape = ("node_binomial", moves::binomial);
pub(super) const SIZE_AWARE: Shape = ("node_size-aware", moves::size_aware);

/// The arguments of a scatter(v) among the nodes, each with the bytes of its ranks.
pub(super) fn among_nodes(a: &Arguments, nodes: &Nodes) -> Result<Arguments> {
    if a.root >= a.size {
        return Err(argument(format!("root {} is not one of the {} ranks", a.root, a.size)));
    }
    let counts = by_node(nodes, &a.counts);
    Ok(Arguments { size: nodes.count(), root: nodes.of(a.root), counts, ..Arguments::default() })
}

/// What [`IN_ORDER`] says.
fn in_order(a: &Arguments) -> Result<()> {
    scan::in_order(&nodes(a)?)
}

fn scan(a: &Arguments, inclusive: bool) -> Built {
    Ok(Box::new(Scan::new(nodes(a)?, (a.bytes, a.element), a.in_place, inclusive)?))
}

fn scan_rounds(a: &Arguments, _: u32) -> u32 {
    nodes(a).map_or(0, |nodes| q(nodes.most()) + q(nodes.count()) + nodes.most() + 1)
}

fn reduce_scatter(a: &Arguments, counts: &[u64]) -> Built {
    let nodes = nodes(a)?;
    commutes(a, "lanes")?;
    Ok(Box::new(Fold::reduce_scatter(nodes, counts, a.element, a.in_place)?))
}

fn tree(a: &Arguments, (name, among): Shape) -> Result<Box<dyn Tree>> {
    let nodes = nodes(a)?;
    let among = among(&among_nodes(a, &nodes)?)?;
    Ok(Box::new(NodeTree::new(name, nodes, a.root, among)?))
}

fn by_tree(a: &Arguments, shape: Shape) -> u32 {
    tree(a, shape).map_or(0, |tree| tree.rounds())
}

pub(super) fn nodes(a: &Arguments) -> Result<Nodes> {
    Nodes::new(a.size, &a.nodes)
}

fn leaders(a: &Arguments) -> Result<()> {
    nodes(a).map(|_| ())
}

/// Nodes of the same number of ranks.
fn even(a: &Arguments) -> Result<Nodes> {
    let nodes = nodes(a)?;
    nodes.each()?;
    Ok(nodes)
}

fn lanes(a: &Arguments) -> Result<()> {
    even(a).map(|_| ())
}

/// (n + q_N)·S, and S−1 for each stage within nodes.
fn by_blocks(a: &Arguments, n: u32, stages: u32) -> u32 {
    let rounds = |nodes: Nodes| {
        let rounds = n.saturating_add(q(nodes.count())).saturating_mul(nodes.most());
        rounds.saturating_add(stages * (nodes.most() - 1))
    };
    nodes(a).map_or(0, rounds)
}

/// (2q_N + 2)·S, and S−1 for each stage before.
fn twice(a: &Arguments, stages: u32) -> u32 {
    nodes(a).map_or(0, |nodes| by_blocks(a, q(nodes.count()) + 2, stages))
}

/// What [`Algorithm::volume_of`] is here.
pub(super) fn volume(line: &Algorithm, a: &Arguments) -> Option<u64> {
    let nodes = nodes(a).ok()?;
    let (count, most) = (nodes.count(), u64::from(nodes.most()));
    let share = |parts| Pieces::even(a.bytes, a.element, parts).largest();
    let among = |bytes: u64| match line.operation {
        Operation::Reduce => {
            let n = a.blocks.unwrap_or(1);
            u64::from(n - 1 + q(count)) * Pieces::even(bytes, a.element, n).largest()
        }
        _ => 2 * u64::from(count - 1) * Pieces::even(bytes, a.element, count).largest(),
    };
    match (line.operation, line.name) {
        (Operation::Scan | Operation::Exscan, "node_circulant") => {
            Some(u64::from(q(nodes.most()) + q(count) + 1) * a.bytes)
        }
        (Operation::ReduceScatter, "lanes") => {
            Some(u64::from(nodes.most() + q(count)) * largest_lane(&nodes, &a.counts))
        }
        (Operation::ReduceScatterBlock, "lanes") => {
            Some(u64::from(nodes.most() + q(count)) * largest_lane(&nodes, &equal(a).ok()?.counts))
        }
        (Operation::Alltoall, "lanes") => Some(Lanes::most(&nodes) * a.bytes),
        (operation @ (Operation::Scatter | Operation::Scatterv), name) => {
            let shape = [DIRECT, BINOMIAL, SIZE_AWARE].into_iter().find(|shape| shape.0 == name)?;
            moves::largest_subtree(operation, a, &*tree(a, shape).ok()?)
        }
        (Operation::Reduce | Operation::Allreduce, "node_circulant") => Some(most * a.bytes + among(a.bytes)),
        (Operation::Allreduce, "node_doubling") => Some((most + u64::from(q(count)) + 1) * a.bytes),
        (Operation::Reduce | Operation::Allreduce, "lanes") => {
            let share = share(nodes.most());
            Some(a.bytes + most * share + among(share))
        }
        _ => None,
    }
}

/// As for a broadcast on a wire on which a byte also takes its combination.
pub(super) fn fold_blocks(a: &Arguments, model: &LogGp) -> u32 {
    let by_rule = |nodes: Nodes| {
        let a = Arguments { size: nodes.count(), ..a.clone() };
        reduce_blocks(&a, &with_fan(&nodes, model))
    };
    a.blocks.unwrap_or_else(|| nodes(a).map_or(1, by_rule))
}

/// As among the nodes, where a block also costs its carrier the puts within the node.
pub(super) fn bcast_blocks(a: &Arguments, model: &LogGp) -> u32 {
    let by_rule = |nodes: Nodes| rules::bcast_blocks(nodes.count(), a.bytes, &with_fan(&nodes, model));
    a.blocks.unwrap_or_else(|| nodes(a).map_or(1, by_rule))
}

/// The wire with the puts within a node in o. What such a put costs is not known here: an eighth of one between
/// nodes.
pub(super) fn with_fan(nodes: &Nodes, model: &LogGp) -> LogGp {
    let fan = model.overhead_ns.saturating_mul(u64::from(nodes.most() - 1)) / 8;
    LogGp { overhead_ns: model.overhead_ns.saturating_add(fan), ..*model }
}

/// An allgather as an allgatherv.
pub(super) fn equal(a: &Arguments) -> Result<Arguments> {
    let end = a.bytes.checked_mul(a.size.into()).ok_or_else(|| argument("beyond 2^64 bytes"))?;
    let displs = (0..u64::from(a.size)).map(|j| j * (end / u64::from(a.size.max(1)))).collect();
    Ok(Arguments { counts: vec![a.bytes; a.size as usize], displs, ..a.clone() })
}

/// The numbers of blocks of lists of counts by node.
pub(super) fn blocks(a: &Arguments, nodes: &Nodes, counts: &[u64], model: &LogGp) -> Blocks {
    let by_rule = || rules::allgatherv_blocks(counts, &with_fan(nodes, model));
    a.blocks.map_or_else(by_rule, Blocks::Equal)
}

/// The bytes of each node's ranks together.
pub(super) fn by_node(nodes: &Nodes, counts: &[u64]) -> Vec<u64> {
    let count = |rank: &u32| counts.get(*rank as usize).copied().unwrap_or(0);
    (0..nodes.count())
        .map(|node| nodes.members(node).iter().map(count).fold(0, u64::saturating_add))
        .collect()
}

fn allgatherv(a: &Arguments, model: &LogGp) -> Built {
    let nodes = nodes(a)?;
    let blocks = blocks(a, &nodes, &by_node(&nodes, &a.counts), model);
    Ok(Box::new(Spread::allgatherv(nodes, &a.counts, &a.displs, &blocks, a.in_place)?))
}

fn allgatherv_lanes(a: &Arguments, model: &LogGp) -> Built {
    let nodes = even(a)?;
    let of_lane = {
        let nodes = nodes.clone();
        move |counts: &[u64]| blocks(a, &nodes, counts, model)
    };
    Ok(Box::new(Spread::allgatherv_lanes(nodes, &a.counts, &a.displs, &of_lane, a.in_place)?))
}
