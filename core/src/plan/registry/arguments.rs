//! What an operation is called with.

use super::operation::Operation;
use crate::plan::alltoall::Row;
use crate::plan::alltoall::graph::{Edges, Graph};
use crate::plan::by_rank::ByRank;
use crate::plan::rules::heaviest_window;
use crate::plan::topology::log2_ceil;
use std::sync::Arc;

/// The arguments of an operation on p ranks; what an operation does not have is ignored.
#[derive(Clone, Debug, Default, Eq)]
pub struct Arguments {
    /// The number of ranks; between two groups, of both.
    pub size: u32,
    /// Between two groups (`inter_…`): the number of ranks of the first, A. They are ranks 0 .. first, those of
    /// the other group, B, are first .. size. 0: there is one group only.
    pub first: u32,
    /// The root (bcast, gather(v), scatter(v), reduce; inter_bcast: of either group, to all of the other).
    pub root: u32,
    /// Bytes: of the message (bcast), of each rank (allgather, gather, scatter, reduce_scatter_block), of a
    /// block (alltoall), or of each rank's vector (reduce, allreduce, scan, exscan).
    pub bytes: u64,
    /// Bytes of each rank (allgatherv, gatherv, scatterv, reduce_scatter). inter_allgather: nothing, or, where
    /// the groups' ranks do not have `bytes` each, those of a rank of A and of a rank of B.
    pub counts: Vec<u64>,
    /// Where each rank's bytes go in the output (allgatherv, gatherv at the root; inter_allgatherv: in the
    /// outputs of the other group) or lie in the root's input (scatterv).
    pub displs: Vec<u64>,
    /// By rank: what it sends and receives (alltoallv). A rank needs no row but its own.
    pub rows: ByRank<Row>,
    /// In place of `rows`, an alltoallv between neighbours: their edges. A rank needs none but its own.
    pub graph: Graph,
    /// The contribution lies in the output already (gather(v), reduce: the root's; scatter(v): the root's block
    /// stays in its input). Scans and reduce-scatters do not look at it: a rank that is in place there contributes a copy.
    pub in_place: bool,
    /// Bytes of an element, which is never cut (operations that reduce; 0 is 1).
    pub element: u64,
    /// The operator commutes (operations that reduce).
    pub commutative: bool,
    /// The operator is associative to the bit: any order gives the same bits (operations that reduce).
    pub exact: bool,
    /// The number of blocks; `None`: by rule from the model.
    pub blocks: Option<u32>,
    /// The node of each rank, by any number, for algorithms that know nodes; nothing: every rank is alone on its.
    pub nodes: Arc<[u32]>,
    /// The group of each rank's node (the nodes of a switch, a group of a Dragonfly), by any number, for algorithms that know levels;
    /// nothing: the network is not divided.
    pub groups: Arc<[u32]>,
}

impl PartialEq for Arguments {
    /// As derived, but that lists of nothing are not compared byte by byte: on processors with AVX-512 a C library's `memcmp` of no bytes
    /// at an address that is none, as that of an empty `Vec`, takes 0.15 µs (glibc 2.36 on Zen 4: a masked load, whose fault is suppressed).
    fn eq(&self, other: &Self) -> bool {
        let Self {
            size,
            first,
            root,
            bytes,
            counts,
            displs,
            rows,
            graph,
            in_place,
            element,
            commutative,
            exact,
            blocks,
            nodes,
            groups,
        } = self;
        let same = |a: &[u64], b: &[u64]| a.len() == b.len() && (a.is_empty() || a == b);
        (*size, *first, *root, *bytes) == (other.size, other.first, other.root, other.bytes)
            && (*in_place, *element) == (other.in_place, other.element)
            && (*commutative, *exact, *blocks) == (other.commutative, other.exact, other.blocks)
            && same(counts, &other.counts)
            && same(displs, &other.displs)
            && (rows, graph, nodes, groups) == (&other.rows, &other.graph, &other.nodes, &other.groups)
    }
}

impl Arguments {
    /// Whether all counts are the same; also where there are none.
    pub fn has_equal_counts(&self) -> bool {
        self.counts.iter().all(|count| *count == self.counts[0])
    }

    /// The m of the formulas: the message or the vector (bcast, reduce, allreduce, scans), or all blocks of the
    /// result or of what a rank sends together. Of an alltoallv no rank knows it, and it is 0.
    pub fn total(&self, operation: Operation) -> u64 {
        use Operation::{Allgather, Allgatherv, Alltoall, Alltoallv, Barrier, Gather, Gatherv};
        use Operation::{ReduceScatter, ReduceScatterBlock, Scatter, Scatterv};
        match operation {
            Barrier | Alltoallv => 0,
            Allgatherv | Gatherv | Scatterv | ReduceScatter => {
                self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
            }
            Allgather | Gather | Scatter | Alltoall | ReduceScatterBlock => {
                self.bytes.saturating_mul(self.size.into())
            }
            _ => self.bytes,
        }
    }

    /// Bytes that a rank has to receive, at the rank that receives most; of a reduction q vectors. An algorithm that receives
    /// another number says so in its line.
    pub(super) fn volume(&self, operation: Operation) -> u64 {
        use Operation::{Allgather, Allgatherv, Alltoall, Alltoallv, Bcast, Gather, Gatherv, InterBcast};
        use Operation::{
            Allreduce, Exscan, Reduce, ReduceScatter, ReduceScatterBlock, Scan, Scatter, Scatterv,
        };
        let others = u64::from(self.size.saturating_sub(1));
        let not_root =
            || (0..).zip(&self.counts).filter(|(rank, _)| *rank != self.root).map(|(_, count)| *count);
        match operation {
            Bcast | InterBcast => self.bytes,
            Allgather | Gather | Alltoall => self.bytes * others,
            Allgatherv => self.of_others(),
            Gatherv => not_root().sum(),
            Scatter => self.bytes * others.min(1),
            Scatterv => not_root().max().unwrap_or(0),
            Alltoallv => self.received_by_row(),
            Reduce | Allreduce | ReduceScatter | ReduceScatterBlock | Scan | Exscan => {
                u64::from(log2_ceil(self.size)) * self.total(operation)
            }
            _ => 0,
        }
    }

    /// The most bytes that a rank whose row or edges are known receives of others.
    fn received_by_row(&self) -> u64 {
        let by_row = |(&rank, row): (&u32, &Row)| {
            (0..).zip(&row.recvcounts).filter(|(from, _)| *from != rank).map(|(_, count)| *count).sum()
        };
        let by_edges = |(&rank, edges): (&u32, &Edges)| {
            edges.sources.iter().filter(|s| s.peer != rank).map(|s| s.len).sum()
        };
        self.rows.iter().map(by_row).chain(self.graph.edges.iter().map(by_edges)).max().unwrap_or(0)
    }

    /// Bytes of the rank that has most, where each has its own count or all have `bytes`.
    pub(crate) fn largest(&self) -> u64 {
        self.counts.iter().copied().max().unwrap_or(self.bytes)
    }

    /// Bytes of the `width` neighbours that have most.
    pub(in crate::plan) fn heaviest(&self, width: u32) -> u64 {
        match self.counts[..] {
            [] => self.bytes.saturating_mul(width.into()),
            _ => heaviest_window(&self.counts, width as usize),
        }
    }

    /// Bytes of all ranks but the one that has least.
    pub(in crate::plan) fn of_others(&self) -> u64 {
        match self.counts.iter().min() {
            None => self.bytes.saturating_mul(self.size.saturating_sub(1).into()),
            Some(least) => self.counts.iter().sum::<u64>() - least,
        }
    }

    /// Bytes of each rank, where all have as many.
    pub(in crate::plan) fn each(&self) -> Option<u64> {
        self.has_equal_counts().then(|| self.counts.first().copied().unwrap_or(self.bytes))
    }

    /// p − 1, for costs.
    pub(in crate::plan) fn others(&self) -> f64 {
        f64::from(self.size.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::alltoall::Row;

    #[test]
    fn arguments_that_differ_in_one_thing_differ() {
        let changes: [fn(&mut Arguments); 16] = [
            |a| a.size += 1,
            |a| a.first += 1,
            |a| a.root += 1,
            |a| a.bytes += 1,
            |a| a.counts.push(0),
            |a| a.displs.push(0),
            |a| drop(a.rows.insert(0, Row::default())),
            |a| a.graph.multiplicity += 1,
            |a| drop(a.graph.edges.insert(0, Edges::default())),
            |a| a.in_place = true,
            |a| a.element += 1,
            |a| a.commutative = true,
            |a| a.exact = true,
            |a| a.blocks = Some(1),
            |a| a.nodes = [0].into(),
            |a| a.groups = [0].into(),
        ];
        for base in [
            Arguments::default(),
            Arguments { counts: vec![1, 2], displs: vec![0, 1], ..Arguments::default() },
        ] {
            assert_eq!(base, base.clone());
            for (i, change) in changes.iter().enumerate() {
                let mut other = base.clone();
                change(&mut other);
                assert_ne!(base, other, "change {i}");
            }
        }
        let counts = |counts: Vec<u64>| Arguments { counts, ..Arguments::default() };
        assert_ne!(counts(vec![1, 2]), counts(vec![1, 3]));
    }
}
