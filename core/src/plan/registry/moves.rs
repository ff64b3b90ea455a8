//! The lines of the operations that move blocks and add nothing: gather(v), scatter(v), alltoall(v).
//!
//! Volumes are exact, for the rank that receives most (alltoall: every rank): of a gather the root, of a
//! scatter the child of the root that forwards most.

use super::cost::blocks;
use super::line::{by_p, by_q, composite, line, power_of_two, q};
use super::{Algorithm, Arguments, Operation};
use crate::error::{Result, argument};
use crate::plan::alltoall::{
    bruck, circulant, direct, hypercube, mesh, neighbors::Neighbors, pairwise, ring,
};
use crate::plan::gather::Gather;
use crate::plan::scatter::Scatter;
use crate::plan::tree::{Tree, binomial::Binomial, size_aware::SizeAware, star::Star};

const TREE: &str = "Grama et al., section 4.4";
const SIZE_AWARE: &str = "Träff 2017, arXiv 1702.05967";
const NONE: &str = "one put per block";
const ANY: &str = "any p, root";
const COUNTS: &str = "any p, root, counts; all ranks know all counts";
const TWO: &str = "p a power of two";

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

/// Blocks from any rank to any, not along a graph.
fn complete(a: &Arguments) -> Result<()> {
    match a.graph.multiplicity {
        0 => Ok(()),
        _ => Err(argument("this alltoallv goes along a graph").help("only `neighbors` knows graphs")),
    }
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

pub(super) const ALLTOALL: &[Algorithm] = &[
    line(Operation::Alltoall, "direct", ["any p", "p-1", "(p-1)s", NONE], by_p, |a, _| {
        Ok(Box::new(direct::alltoall(a.size, a.bytes)?))
    })
    .costs(blocks::alltoall_direct),
    line(
        Operation::Alltoall,
        "pairwise",
        [TWO, "p-1", "(p-1)s", "Grama et al., section 4.5.3, optimal"],
        by_p,
        |a, _| Ok(Box::new(pairwise::alltoall(a.size, a.bytes)?)),
    )
    .only(power_of_two)
    .costs(blocks::alltoall_direct),
    line(
        Operation::Alltoall,
        "circulant",
        ["any p", "q", "s times the hops of 1..p-1, at most (p/2)q", "Träff 2024, arXiv 2410.14234"],
        by_q,
        |a, _| Ok(Box::new(circulant::alltoall(a.size, a.bytes)?)),
    )
    .costs(blocks::alltoall_circulant),
    line(
        Operation::Alltoall,
        "bruck",
        ["any p", "q", "s times the bits of 1..p-1, at most (p/2)q", "Bruck et al. 1997"],
        by_q,
        |a, _| Ok(Box::new(bruck::alltoall(a.size, a.bytes)?)),
    )
    .costs(blocks::alltoall_bruck),
    line(
        Operation::Alltoall,
        "hypercube",
        [TWO, "q", "s(p/2)q", "Grama et al., section 4.5.3"],
        by_q,
        |a, _| Ok(Box::new(hypercube::alltoall(a.size, a.bytes)?)),
    )
    .only(power_of_two)
    .costs(blocks::alltoall_bruck),
    line(
        Operation::Alltoall,
        "mesh",
        ["p = ab, not prime", "a+b-2", "sp(a+b-2)/2", "Grama et al., section 4.5.2"],
        |a, _| {
            let rows = mesh::rows(a.size);
            rows + a.size / rows - 2
        },
        |a, _| Ok(Box::new(mesh::alltoall(a.size, a.bytes)?)),
    )
    .only(composite)
    .costs(blocks::alltoall_mesh),
    line(
        Operation::Alltoall,
        "ring",
        ["any p", "p-1", "sp(p-1)/2", "Grama et al., section 4.5.1"],
        by_p,
        |a, _| Ok(Box::new(ring::alltoall(a.size, a.bytes)?)),
    )
    .costs(blocks::alltoall_ring),
];

pub(super) const ALLTOALLV: &[Algorithm] = &[
    line(Operation::Alltoallv, "direct", ["any p, counts", "p-1", "m_r", NONE], by_p, |a, _| {
        complete(a)?;
        Ok(Box::new(direct::alltoallv(a.size, a.rows.clone())?))
    })
    .only(complete)
    .costs(blocks::alltoallv),
    line(
        Operation::Alltoallv,
        "pairwise",
        [TWO, "p-1", "m_r", "Grama et al., section 4.5.3, optimal"],
        by_p,
        |a, _| {
            complete(a)?;
            Ok(Box::new(pairwise::alltoallv(a.size, a.rows.clone())?))
        },
    )
    .only(|a| complete(a).and_then(|()| power_of_two(a)))
    .costs(blocks::alltoallv),
    line(
        Operation::Alltoallv,
        "neighbors",
        ["any p, counts; any graph, m edges between two ranks", "p-1 (a graph: (p-1)m)", "m_r", NONE],
        |a, _| Neighbors::rounds_of(a.size, a.graph.multiplicity),
        |a, _| match a.graph.multiplicity {
            0 => Ok(Box::new(Neighbors::of_rows(a.size, &a.rows)?)),
            _ => Ok(Box::new(Neighbors::new(a.size, a.graph.clone(), a.in_place)?)),
        },
    )
    .costs(blocks::alltoallv),
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
    let (p, q) = (u64::from(a.size), u64::from(q(a.size)));
    let tree = match (algorithm.operation, algorithm.name) {
        (Operation::Alltoall, name) => {
            let blocks = match name {
                "circulant" => circulant::alltoall(a.size, a.bytes).ok()?.blocks(),
                "bruck" => (1..p).map(|d| u64::from(d.count_ones())).sum(),
                "hypercube" => p / 2 * q,
                "mesh" => p * u64::from((algorithm.rounds_of)(a, 1)) / 2,
                "ring" => p * (p - 1) / 2,
                _ => return None,
            };
            return Some(blocks * a.bytes);
        }
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
