//! Reduce-scatters that know nodes.

use super::Nodes;
use super::fold::{self, Fold};
use super::line::{FULL_LANE, LEADERS_COMMUTE};
use super::line::{by_blocks, by_node, equal, leaders_commute, nodes, others};
use crate::error::Result;
use crate::machine::LogGp;
use crate::plan::Plan;
use crate::plan::reduce_scatter::plain;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{commutative, line, q};
use crate::plan::registry::{Algorithm, Arguments, Build, Operation, order};

pub(in crate::plan) const LANES: Algorithm = lanes(Operation::ReduceScatter, |a, _| build(a, &a.counts))
    .receives(|a| received(a, &a.counts))
    .costs(cost);

pub(in crate::plan) const BLOCK_LANES: Algorithm =
    lanes(Operation::ReduceScatterBlock, |a, _| build(a, &equal(a)?.counts))
        .receives(|a| equal(a).map_or(0, |equal| received(a, &equal.counts)))
        .costs(|a, path| {
            if let Ok(a) = equal(a) {
                cost(&a, path)
            }
        });

const fn lanes(operation: Operation, build: Build) -> Algorithm {
    let volume = "<= (S+q_N) times the bytes of a lane";
    let texts = [LEADERS_COMMUTE, "<= (q_N+2)S + S-1", volume, FULL_LANE];
    line(operation, "lanes", texts, |a, _| by_blocks(a, 2, 1), build)
        .only(leaders_commute)
        .ordered(order::NODEWISE)
}

fn build(a: &Arguments, counts: &[u64]) -> Result<Box<dyn Plan>> {
    commutative(a)?;
    Ok(Box::new(Fold::reduce_scatter("lanes", nodes(a)?, counts, a.element, &|counts| {
        fold::reduce_scatter(counts, a.element)
    })?))
}

fn received(a: &Arguments, counts: &[u64]) -> u64 {
    let received = |nodes: Nodes| u64::from(nodes.most() + q(nodes.count())) * largest_lane(&nodes, counts);
    nodes(a).map_or(0, received)
}

/// The bytes of the largest lane.
pub(super) fn largest_lane(nodes: &Nodes, counts: &[u64]) -> u64 {
    let mut lanes = vec![0u64; nodes.least() as usize];
    for (rank, count) in (0..nodes.size()).zip(counts) {
        let lane = (nodes.position(rank) % nodes.least()) as usize;
        lanes[lane] = lanes[lane].saturating_add(*count);
    }
    lanes.into_iter().max().unwrap_or(0)
}

/// A lane's share of all the node's vectors at its carrier; then the lanes' reduce-scatters on one link, which combine at
/// the same time.
pub(super) fn cost(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = nodes(a) else { return };
    let (least, share) = (u64::from(nodes.least()), float(largest_lane(&nodes, &a.counts)));
    path.near(1.0, f64::from(nodes.least().min(nodes.most() - 1)), others(&nodes) * share);
    path.reduce(others(&nodes) * share);
    let among = Arguments { size: nodes.count(), counts: by_node(&nodes, &a.counts), ..a.clone() };
    let wire = path.machine().wire;
    let wire = LogGp { reduce_ps: wire.reduce_ps / least, ..wire };
    path.among(nodes.count(), wire, |path| plain::cost(&among, 1.0, path));
    if nodes.least() < nodes.most() {
        path.near(1.0, others(&nodes), share / f64::from(nodes.count()));
    }
}
