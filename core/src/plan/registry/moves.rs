//! The lines of gather(v) and scatter(v).
//!
//! Volumes are exact, for the rank that receives most: of a gather the root, of a
//! scatter the child of the root that forwards most.

use super::cost::blocks;
use super::line::{by_p, by_q, line};
use super::{Algorithm, Arguments, Operation};
use crate::error::Result;
use crate::plan::gather::Gather;
use crate::plan::scatter::Scatter;
use crate::plan::tree::{Tree, binomial::Binomial, size_aware::SizeAware, star::Star};

const TREE: &str = "Grama et al., section 4.4";
const SIZE_AWARE: &str = "Träff 2017, arXiv 1702.05967";
const NONE: &str = "one put per block";
const ANY: &str = "any p, root";
const COUNTS: &str = "any p, root, counts; all ranks know all counts";

pub(super) fn binomial(a: &Arguments) -> Result<Box<dyn Tree>> {
    Ok(Box::new(Binomial::new(a.size, a.root)?))
}

pub(super) fn star(a: &Arguments) -> Result<Box<dyn Tree>> {
    Ok(Box::new(Star::new(a.size, a.root)?))
}

pub(super) fn size_aware(a: &Arguments) -> Result<Box<dyn Tree>> {
    Ok(Box::new(SizeAware::new(&a.counts, a.root)?))
}

fn gather(a: &Arguments, tree: Box<dyn Tree>) -> Result<Box<dyn crate::plan::Plan>> {
    Ok(Box::new(Gather::new(tree, a.bytes, a.in_place)?))
}

fn gatherv(a: &Arguments, tree: Box<dyn Tree>) -> Result<Box<dyn crate::plan::Plan>> {
    Ok(Box::new(Gather::irregular(tree, &a.counts, &a.displs, a.in_place)?))
}

pub(super) fn scatter(a: &Arguments, tree: Box<dyn Tree>) -> Result<Box<dyn crate::plan::Plan>> {
    Ok(Box::new(Scatter::new(tree, a.bytes, a.in_place)?))
}

pub(super) fn scatterv(a: &Arguments, tree: Box<dyn Tree>) -> Result<Box<dyn crate::plan::Plan>> {
    Ok(Box::new(Scatter::irregular(tree, &a.counts, &a.displs, a.in_place)?))
}

pub(super) const GATHER: &[Algorithm] = &[
    line(Operation::Gather, "binomial", [ANY, "q", "m - m/p", TREE], by_q, |a, _| gather(a, binomial(a)?))
        .costs(blocks::gather_binomial),
    line(Operation::Gather, "direct", [ANY, "p-1", "m - m/p", NONE], by_p, |a, _| gather(a, star(a)?))
        .costs(blocks::gather_direct),
];

pub(super) const GATHERV: &[Algorithm] = &[
    line(Operation::Gatherv, "size-aware", [COUNTS, "q", "m - m_root", SIZE_AWARE], by_q, |a, _| {
        gatherv(a, size_aware(a)?)
    })
    .costs(blocks::gatherv_size_aware),
    line(Operation::Gatherv, "binomial", [COUNTS, "q", "m - m_root", TREE], by_q, |a, _| {
        gatherv(a, binomial(a)?)
    })
    .costs(blocks::gatherv_binomial),
    line(Operation::Gatherv, "direct", [COUNTS, "p-1", "m - m_root", NONE], by_p, |a, _| {
        gatherv(a, star(a)?)
    })
    .costs(blocks::gatherv_direct),
];

pub(super) const SCATTER: &[Algorithm] = &[
    line(Operation::Scatter, "binomial", [ANY, "q", "largest subtree", TREE], by_q, |a, _| {
        scatter(a, binomial(a)?)
    })
    .costs(blocks::scatter_binomial),
    line(Operation::Scatter, "direct", [ANY, "p-1", "m/p", NONE], by_p, |a, _| scatter(a, star(a)?))
        .costs(blocks::scatter_direct),
];

pub(super) const SCATTERV: &[Algorithm] = &[
    line(Operation::Scatterv, "size-aware", [COUNTS, "q", "largest subtree", SIZE_AWARE], by_q, |a, _| {
        scatterv(a, size_aware(a)?)
    })
    .costs(blocks::scatterv_size_aware),
    line(Operation::Scatterv, "binomial", [COUNTS, "q", "largest subtree", TREE], by_q, |a, _| {
        scatterv(a, binomial(a)?)
    })
    .costs(blocks::scatterv_binomial),
    line(Operation::Scatterv, "direct", [COUNTS, "p-1", "m_r", NONE], by_p, |a, _| scatterv(a, star(a)?))
        .costs(blocks::scatterv_direct),
];

/// The least bytes that the rank which receives most can receive.
pub(super) fn least(operation: Operation, a: &Arguments) -> u64 {
    let others = || (0..).zip(&a.counts).filter(|(rank, _)| *rank != a.root).map(|(_, count)| *count);
    match operation {
        Operation::Gather | Operation::Alltoall => a.bytes * u64::from(a.size.saturating_sub(1)),
        Operation::Gatherv => others().sum(),
        Operation::Scatter => a.bytes * u64::from(a.size.min(2).saturating_sub(1)),
        Operation::Scatterv => others().max().unwrap_or(0),
        Operation::Alltoallv => {
            let foreign = |(&rank, row): (&u32, &crate::plan::alltoall::Row)| {
                (0..).zip(&row.recvcounts).filter(|(from, _)| *from != rank).map(|(_, count)| *count).sum()
            };
            let edges = |(&rank, edges): (&u32, &crate::plan::alltoall::neighbors::Edges)| {
                edges.sources.iter().filter(|s| s.peer != rank).map(|s| s.len).sum()
            };
            a.rows.iter().map(foreign).chain(a.graph.edges.iter().map(edges)).max().unwrap_or(0)
        }
        _ => 0,
    }
}

/// The same for an algorithm that forwards blocks.
pub(super) fn relayed(algorithm: &Algorithm, a: &Arguments) -> Option<u64> {
    let tree = match (algorithm.operation, algorithm.name) {
        (Operation::Scatter | Operation::Scatterv, "binomial") => binomial(a),
        (Operation::Scatterv, "size-aware") => size_aware(a),
        _ => return None,
    };
    largest_subtree(algorithm.operation, a, &*tree.ok()?)
}

/// The bytes of the largest subtree below the root of a scatter(v): what its root receives.
pub(super) fn largest_subtree(operation: Operation, a: &Arguments, tree: &dyn Tree) -> Option<u64> {
    let count = |position| match operation {
        Operation::Scatter => a.bytes,
        _ => a.counts[tree.rank(position) as usize],
    };
    let subtrees = tree.children(a.root).into_iter();
    subtrees.map(|b| (b.first..b.first + b.width).map(count).sum()).max()
}
