//! Plans that know levels: nodes, and groups of nodes (those of a switch, a group of a Dragonfly) whose links to each other are few.
//!
//! The plan among nodes of the lanes ([`spread`](super::spread), [`fold`]) is one made the same way: of each group as many
//! nodes as the smallest has carry a share, and move it among groups on the circulant graph. Where each rank has a node to itself
//! there is this level only. So what a group needs of others comes to it once, and not one byte more.
//!
//! The root of a broadcast is no carrier among the nodes of its group, if there are others: it puts each byte once, to those. As one of them it
//! would have its share to put to all the others besides, which is as much again. Nor is that of a reduce, if there are three others or more:
//! as one of them it would get their contributions besides the result.
//!
//! An allgather of short contributions of many nodes would be many puts that way: where it is cheaper a group's block goes as a whole ([`whole`]).
//!
//! M groups, G the nodes of the largest, g those of the smallest, q_M = ⌈log2 M⌉, q_G = ⌈log2 G⌉.

mod cost;
mod known;
mod whole;

use super::Nodes;
use super::fold::{self, Fold};
use super::line::equal;
use super::reduce_scatter::largest_lane;
use super::spread::{Among, Spread};
use crate::error::{Result, argument};
use crate::machine::LogGp;
use crate::plan::allgatherv::circulant::{Blocks, in_order};
use crate::plan::partial::Pieces;
use crate::plan::registry::line::{commutative, line, of_all, q};
use crate::plan::registry::{Algorithm, Arguments, Operation, order};
use crate::plan::{Plan, rules};
use cost::{MAX_STRETCHES, stretches};
use known::{blocks, groups, levels, of_group, reduce_lanes, root_carries, with_others};
use whole::Whole;

const NAME: &str = "levels";
const GROUPS: &str = "several groups of nodes, several nodes in some";
const GROUPS_COMMUTE: &str = "several groups of nodes, several nodes in some; commutative";
const SPREAD_ROUNDS: &str = "<= ((n+q_M+1)G+2)S";
const GATHER_ROUNDS: &str = "<= ((n+q_M+1)G+2)S, of whole blocks (n+1)((M-1)ceil(G/g)+q_G)+q_G";
const FULL_LANE: &str = "Träff and Hunold 2020, arXiv 1910.13373, among groups and nodes; Träff 2022";
const ADDED: &str = "<= m + S*ceil(m/s) for each level, s the fewest carriers; and among groups";

pub(in crate::plan) const BCAST: Algorithm = line(
    Operation::Bcast,
    NAME,
    [GROUPS, SPREAD_ROUNDS, "m", FULL_LANE],
    |a, n| rounds(a, n.saturating_sub(1), 2),
    |a, model| {
        let levels = levels(a)?;
        let n = blocks(a, &levels, model);
        Ok(Box::new(broadcast(&levels, a.root, a.bytes, n)?))
    },
)
.only(fits)
.costs(|a, path| cost::priced(Operation::Bcast, a, cost::bcast, path))
.puts_blocks(of_group);

pub(in crate::plan) const ALLGATHER: Algorithm = line(
    Operation::Allgather,
    NAME,
    [GROUPS, GATHER_ROUNDS, "m - m/p", FULL_LANE],
    gather_rounds,
    |a, model| gather(&equal(a)?, model),
)
.only(fits)
.costs(|a, path| {
    if let Ok(a) = equal(a) {
        cost::priced(Operation::Allgatherv, &a, cost::allgatherv, path)
    }
})
.puts_blocks(of_all);

pub(in crate::plan) const ALLGATHERV: Algorithm =
    line(Operation::Allgatherv, NAME, [GROUPS, GATHER_ROUNDS, "m - m_r", FULL_LANE], gather_rounds, gather)
        .only(fits)
        .costs(|a, path| cost::priced(Operation::Allgatherv, a, cost::allgatherv, path))
        .puts_blocks(of_all);

pub(in crate::plan) const REDUCE: Algorithm = line(
    Operation::Reduce,
    NAME,
    [GROUPS_COMMUTE, "<= ((n+q_M+3)G+4)S", ADDED, FULL_LANE],
    |a, n| rounds(a, n.saturating_sub(1), 4),
    |a, model| {
        let levels = commuting(a)?;
        let n = blocks(a, &levels, model);
        let vector = (a.bytes, a.element);
        Ok(Box::new(reduced(&levels, a.root, vector, a.in_place, n)?))
    },
)
.only(fits_commutative)
.receives(|a| {
    let n = a.blocks.unwrap_or(1);
    let among =
        |groups: u32, bytes| u64::from(n - 1 + q(groups)) * Pieces::even(bytes, a.element, n).largest();
    levels(a).map_or(0, |levels| received(a, reduce_lanes(&levels, a.root), &among))
})
.costs(|a, path| cost::priced(Operation::Reduce, a, cost::reduce, path))
.puts_blocks(of_group)
.ordered(order::NODEWISE_BLOCKS);

pub(in crate::plan) const ALLREDUCE: Algorithm = line(
    Operation::Allreduce,
    NAME,
    [GROUPS_COMMUTE, "<= ((2q_M+4)G+4)S", ADDED, FULL_LANE],
    |a, _| levels(a).map_or(0, |levels| rounds(a, q(groups(&levels)), 4)),
    |a, _| Ok(Box::new(allreduced(&commuting(a)?, (a.bytes, a.element), a.in_place)?)),
)
.only(fits_commutative)
.receives(|a| {
    let among =
        |groups: u32, bytes| 2 * u64::from(groups - 1) * Pieces::even(bytes, a.element, groups).largest();
    levels(a).map_or(0, |levels| received(a, levels.last().map_or(1, Nodes::least), &among))
})
.costs(|a, path| cost::priced(Operation::Allreduce, a, cost::allreduce, path))
.ordered(order::NODEWISE);

pub(in crate::plan) const REDUCE_SCATTER: Algorithm = line(
    Operation::ReduceScatter,
    NAME,
    [GROUPS_COMMUTE, "<= ((q_M+4)G+4)S", SCATTERED, FULL_LANE],
    |a, _| rounds(a, 0, 4),
    |a, _| scattered(&commuting(a)?, &a.counts, a.element).map(boxed),
)
.only(fits_commutative)
.receives(|a| lane_received(a, &a.counts))
.costs(|a, path| cost::priced(Operation::ReduceScatter, a, cost::reduce_scatter, path))
.ordered(order::NODEWISE);

pub(in crate::plan) const REDUCE_SCATTER_BLOCK: Algorithm = line(
    Operation::ReduceScatterBlock,
    NAME,
    [GROUPS_COMMUTE, "<= ((q_M+4)G+4)S", SCATTERED, FULL_LANE],
    |a, _| rounds(a, 0, 4),
    |a, _| scattered(&commuting(a)?, &equal(a)?.counts, a.element).map(boxed),
)
.only(fits_commutative)
.receives(|a| equal(a).map_or(0, |equal| lane_received(a, &equal.counts)))
.costs(|a, path| {
    if let Ok(a) = equal(a) {
        cost::priced(Operation::ReduceScatter, &a, cost::reduce_scatter, path)
    }
})
.ordered(order::NODEWISE);

const SCATTERED: &str = "<= (S+G+q_M+1) times the bytes of a lane";

/// What [`GROUPS`] says.
fn fits(a: &Arguments) -> Result<()> {
    levels(a).map(|_| ())
}

fn commuting(a: &Arguments) -> Result<Vec<Nodes>> {
    let levels = levels(a)?;
    commutative(a).map(|()| levels)
}

/// What [`GROUPS_COMMUTE`] says.
fn fits_commutative(a: &Arguments) -> Result<()> {
    commuting(a).map(|_| ())
}

fn boxed(fold: Fold) -> Box<dyn Plan> {
    Box::new(fold)
}

/// Rounds: q_M and `more` among the M groups; each level below adds `around`, and has as many times the rounds as the largest of its
/// nodes has members.
fn rounds(a: &Arguments, more: u32, around: u32) -> u32 {
    let all = |levels: Vec<Nodes>| {
        let among = more.saturating_add(q(groups(&levels)));
        let lifted = |rounds: u32, level: &Nodes| rounds.saturating_add(around).saturating_mul(level.most());
        levels.iter().rev().fold(among, lifted)
    };
    levels(a).map_or(0, all)
}

/// The larger of the rounds of both ways.
fn gather_rounds(a: &Arguments, n: u32) -> u32 {
    let of_whole = |levels: Vec<Nodes>| match &levels[..] {
        [groups] => whole::rounds(groups, n.min(MAX_STRETCHES)),
        _ => None,
    };
    let spread = rounds(a, n.saturating_sub(1), 2);
    levels(a).ok().and_then(of_whole).map_or(spread, |rounds| rounds.max(spread))
}

/// The level to begin with, and those above it.
fn lowest(levels: &[Nodes]) -> Result<(Nodes, &[Nodes])> {
    let first = levels.split_first().ok_or_else(|| argument("a plan among no levels"));
    first.map(|(nodes, above)| (nodes.clone(), above))
}

fn broadcast(levels: &[Nodes], root: u32, bytes: u64, n: u32) -> Result<Spread> {
    let (nodes, above) = lowest(levels)?;
    let among = |nodes: u32, root: u32, bytes: u64| match above {
        [] => Among::bcast(nodes, root, bytes, n),
        _ => broadcast(above, root, bytes, n).map(Spread::among),
    };
    Spread::bcast_lanes(NAME, nodes, (root, !above.is_empty()), bytes, &among)
}

fn gather(a: &Arguments, model: &LogGp) -> Result<Box<dyn Plan>> {
    let levels = levels(a)?;
    if let [groups] = &levels[..]
        && in_order(a)
        && let Some(n) = stretches(a, groups, model)
    {
        return Ok(Box::new(Whole::new(NAME, groups.clone(), &a.counts, n, a.in_place)?));
    }
    let wire = with_others(&levels, model);
    let blocks =
        |counts: &[u64]| a.blocks.map_or_else(|| rules::allgatherv_blocks(counts, &wire), Blocks::Equal);
    Ok(Box::new(gathered(&levels, &a.counts, &a.displs, &blocks, a.in_place)?))
}

fn gathered(
    levels: &[Nodes],
    counts: &[u64],
    displs: &[u64],
    blocks: &dyn Fn(&[u64]) -> Blocks,
    in_place: bool,
) -> Result<Spread> {
    let (nodes, above) = lowest(levels)?;
    let among = |counts: &[u64], displs: &[u64]| match above {
        [] => Among::allgatherv(counts, displs, &blocks(counts)),
        _ => gathered(above, counts, displs, blocks, true).map(Spread::among),
    };
    Spread::allgatherv_lanes(NAME, nodes, counts, displs, &among, in_place)
}

fn reduced(levels: &[Nodes], root: u32, vector: (u64, u64), in_place: bool, n: u32) -> Result<Fold> {
    let (nodes, above) = lowest(levels)?;
    let among = |nodes: u32, root: u32, bytes: u64| match above {
        [] => fold::reduce(nodes, root, bytes, vector.1, n),
        _ => {
            let plan = reduced(above, root, (bytes, vector.1), false, n)?.among();
            Ok((plan, Pieces::even(bytes, vector.1, nodes)))
        }
    };
    let carries = !above.is_empty() || root_carries(&nodes, root);
    Fold::reduce_lanes(NAME, nodes, (root, carries), vector, in_place, &among)
}

fn allreduced(levels: &[Nodes], vector: (u64, u64), in_place: bool) -> Result<Fold> {
    let (nodes, above) = lowest(levels)?;
    let among = |nodes: u32, bytes: u64| match above {
        [] => fold::allreduce(nodes, bytes, vector.1),
        _ => {
            let plan = allreduced(above, (bytes, vector.1), false)?.among();
            Ok((plan, Pieces::even(bytes, vector.1, nodes)))
        }
    };
    Fold::allreduce_lanes(NAME, nodes, vector, in_place, &among)
}

fn scattered(levels: &[Nodes], counts: &[u64], element: u64) -> Result<Fold> {
    let (nodes, above) = lowest(levels)?;
    let among = |counts: &[u64]| match above {
        [] => fold::reduce_scatter(counts, element),
        _ => scattered(above, counts, element).map(Fold::among),
    };
    Fold::reduce_scatter(NAME, nodes, counts, element, &among)
}

/// Bytes that a rank receives at most: at each level the shares of the others and the result, then those of the plan `among` groups;
/// of `lanes` in the highest.
fn received(a: &Arguments, lanes: u32, among: &dyn Fn(u32, u64) -> u64) -> u64 {
    let Ok(levels) = levels(a) else { return 0 };
    let (mut all, mut bytes) = (0, a.bytes);
    for (above, level) in levels.iter().enumerate().map(|(i, level)| (levels.len() - 1 - i, level)) {
        let lanes = if above == 0 { lanes } else { level.least() };
        let share = Pieces::even(bytes, a.element, lanes).largest();
        all += bytes + u64::from(level.most()) * share;
        bytes = share;
    }
    all + among(groups(&levels), bytes)
}

fn lane_received(a: &Arguments, counts: &[u64]) -> u64 {
    let Ok(levels) = levels(a) else { return 0 };
    let most: u32 = levels.iter().map(Nodes::most).sum();
    u64::from(most + q(groups(&levels)) + 1) * largest_lane(&levels[0], counts)
}
