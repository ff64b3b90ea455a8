//! What is simulated: an operation with its arguments, and the reference that its times stand beside.

use crate::bench::dist::Dist;
use crate::outcome::Failure;
use crate::settings::Setting;
use circulant::machine::Machine;
use circulant::plan::alltoall::{Row, exchange_targets};
use circulant::plan::registry::{Arguments, Operation};
use std::collections::BTreeMap;

/// An irregular alltoall takes p² counts: beyond this they do not fit.
pub(crate) const MAX_ALLTOALLV_RANKS: u32 = 2048;

/// An operation on this many ranks and bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) operation: Operation,
    pub(crate) p: u32,
    /// As `bench` counts them: see [`Case::arguments`].
    pub(crate) bytes: u64,
    pub(crate) dist: &'static Dist,
    /// Between two groups: how much each rank contributes.
    pub(crate) setting: &'static Setting,
    /// Between two groups: the ranks of the first.
    pub(crate) first: Option<u32>,
    pub(crate) root: u32,
    pub(crate) blocks: Option<u32>,
    pub(crate) machine: Machine,
}

/// Whether an operation has a count for every rank.
pub(crate) fn irregular(operation: Operation) -> bool {
    use Operation::{Allgatherv, Alltoallv, Gatherv, ReduceScatter, Scatterv};
    matches!(operation, Allgatherv | Gatherv | Scatterv | ReduceScatter | Alltoallv)
}

/// Whether an operation takes one of the settings for two groups.
pub(crate) fn set(operation: Operation) -> bool {
    matches!(operation, Operation::InterAllgather | Operation::InterAllgatherv)
}

/// Whether an operation has a root.
pub(crate) fn rooted(operation: Operation) -> bool {
    use Operation::{Bcast, Gather, Gatherv, InterBcast, Reduce, Scatter, Scatterv};
    matches!(operation, Bcast | Gather | Gatherv | InterBcast | Reduce | Scatter | Scatterv)
}

/// What a size means, for --help; as in `bench`.
pub(crate) fn meaning(operation: Operation) -> &'static str {
    use Operation::{Allgather, Alltoall, Alltoallv, Gather, ReduceScatterBlock, Scatter};
    match operation {
        Operation::Barrier | Operation::InterBarrier => "none",
        operation if set(operation) => "the largest block of a rank",
        Allgather | Gather | Scatter | ReduceScatterBlock => {
            "all ranks' blocks together, in whole 4-byte units, at least one a rank"
        }
        Alltoall => "what one rank sends, in whole 4-byte units, at least one a block",
        Alltoallv => "what one rank sends; the distribution begins with the rank itself",
        operation if irregular(operation) => "all ranks' pieces together",
        _ => "the vector",
    }
}

/// Bytes of each rank when `bytes` are for all.
pub(crate) fn block(bytes: u64, p: u32) -> u64 {
    let p = u64::from(p);
    match bytes {
        0 => 0,
        b if b % 4 == 0 => (b / 4 / p).max(1) * 4,
        b => (b / p).max(1),
    }
}

impl Case {
    /// What the plans are made from.
    pub(crate) fn arguments(&self) -> Result<Arguments, Failure> {
        use Operation::{Allgather, Alltoall, Alltoallv, Gather, ReduceScatterBlock, Scatter};
        let mut a = Arguments {
            size: self.p,
            root: self.root,
            bytes: self.bytes,
            element: if self.bytes.is_multiple_of(4) { 4 } else { 1 },
            commutative: true,
            blocks: self.blocks,
            ..Arguments::default()
        };
        if self.operation.is_between_groups() {
            a.first = self.first.unwrap_or_else(|| self.setting.first(self.p));
        }
        if self.machine.per_node > 0 {
            a.nodes = (0..self.p).map(|rank| self.machine.node_of(rank)).collect();
        }
        a.groups = self.machine.groups_of(self.p).into();
        match self.operation {
            Operation::Barrier | Operation::InterBarrier => a.bytes = 0,
            operation if set(operation) => {
                let counts = self.setting.counts(self.bytes, a.first, self.p);
                match counts.split_at_checked(a.first as usize) {
                    Some((&[one, ..], &[other, ..])) if operation == Operation::InterAllgather => {
                        a.counts = vec![one, other];
                    }
                    Some((one, other)) => {
                        a.displs = [starts(one), starts(other)].concat();
                        a.counts = counts;
                    }
                    None => {}
                }
            }
            Allgather | Gather | Scatter | ReduceScatterBlock | Alltoall => {
                a.bytes = block(self.bytes, self.p)
            }
            Alltoallv if self.p > MAX_ALLTOALLV_RANKS => {
                let said = format!(
                    "alltoallv is simulated for up to {MAX_ALLTOALLV_RANKS} ranks: it has p² counts, 32 bytes each"
                );
                return Err(Failure::usage(said + "; alltoall, of equal blocks, for more"));
            }
            Alltoallv => a.rows = self.rows().into(),
            operation if irregular(operation) => {
                a.counts = self.dist.counts(self.bytes, self.p as usize);
                a.displs = starts(&a.counts);
            }
            _ => {}
        }
        Ok(a)
    }

    /// Rank r's distribution begins with itself, so that all send and receive alike.
    fn rows(&self) -> BTreeMap<u32, Row> {
        let counts = self.dist.counts(self.bytes, self.p as usize);
        let n = counts.len();
        let mut rows = BTreeMap::new();
        for (rank, r) in (0..self.p).zip(0..n) {
            let sendcounts: Vec<u64> = (0..n).map(|to| counts[(to + n - r) % n]).collect();
            let recvcounts: Vec<u64> = (0..n).map(|from| counts[(r + n - from) % n]).collect();
            let (sdispls, rdispls) = (starts(&sendcounts), starts(&recvcounts));
            rows.insert(rank, Row { sendcounts, sdispls, recvcounts, rdispls, targets: Vec::new() });
        }
        exchange_targets(&mut rows);
        rows
    }

    /// C = βV + q(L+o) in nanoseconds: V the bytes that some node must get or give however it is done, q the
    /// rounds in which news can reach all. Within nodes likewise, with their own figures. Not a bound: o and L
    /// may overlap with bytes.
    pub(crate) fn reference_ns(&self, arguments: &Arguments) -> f64 {
        let Machine { wire, near, .. } = &self.machine;
        let per_node = self.machine.most_on_a_node(self.p);
        let nodes = self.p.div_ceil(per_node);
        let hops = |ranks: u32| f64::from(ranks.max(1).next_power_of_two().ilog2());
        let mut time = hops(nodes) * (wire.latency_ns + wire.overhead_ns) as f64;
        let mut bytes = self.volume(arguments, per_node) * wire.byte_ps as f64;
        if per_node > 1 {
            time += hops(per_node) * (near.latency_ns + near.overhead_ns) as f64;
            bytes = bytes.max(self.volume(arguments, 1) * near.byte_ps as f64);
        }
        time + bytes / 1000.0
    }

    /// The most bytes that a node of `k` ranks must get or give, whatever the algorithm.
    fn volume(&self, a: &Arguments, k: u32) -> f64 {
        use Operation as Op;
        let (p, k) = (u64::from(self.p), u64::from(k));
        if p <= k {
            return 0.0;
        }
        let nodes = p.div_ceil(k);
        // The last node may be short of ranks.
        let fewest = p - (nodes - 1) * k;
        let groups = || a.counts.chunks(usize::try_from(k).unwrap_or(usize::MAX));
        let sums = || groups().map(|group| group.iter().sum::<u64>());
        let total = a.counts.iter().sum::<u64>();
        let of_root = sums().nth(usize::try_from(u64::from(self.root) / k).unwrap_or(0)).unwrap_or(0);
        let bytes = match self.operation {
            Op::Barrier => 0,
            Op::Bcast | Op::Reduce | Op::Scan | Op::Exscan => a.bytes,
            Op::Allgather | Op::ReduceScatterBlock => a.bytes * (p - fewest),
            Op::Gather | Op::Scatter => a.bytes * (p - k.min(p - u64::from(self.root) / k * k)),
            Op::Allgatherv | Op::ReduceScatter => total - sums().min().unwrap_or(0),
            Op::Gatherv | Op::Scatterv => total - of_root,
            Op::Alltoall => a.bytes * k * (p - k),
            Op::Alltoallv => {
                // What the first node sends to others. Rank r's row begins with r itself.
                let counts = self.dist.counts(self.bytes, self.p as usize);
                let to_others = |r: u64| (k..p).map(move |to| to - r);
                let distances = (0..k).flat_map(to_others);
                distances.filter_map(|d| counts.get(usize::try_from(d).unwrap_or(0))).sum()
            }
            Op::InterBcast => a.bytes,
            operation if set(operation) => self.across(a.first, k),
            Op::Allreduce => return 2.0 * a.bytes as f64 * (nodes - 1) as f64 / nodes as f64,
            _ => 0,
        };
        bytes as f64
    }
}

impl Case {
    /// Between two groups: what a node of `k` ranks must get from others, at most. Its ranks of A need what all
    /// of B contribute, but for what is on the node already; and the other way round.
    fn across(&self, first: u32, k: u64) -> u64 {
        let counts = self.setting.counts(self.bytes, first, self.p);
        let k = usize::try_from(k).unwrap_or(usize::MAX);
        let sums = |ranks: &[u64], from: usize| {
            let border = (first as usize).saturating_sub(from).min(ranks.len());
            let (a, b) = ranks.split_at(border);
            [(a.len(), a.iter().sum::<u64>()), (b.len(), b.iter().sum())]
        };
        let all = sums(&counts, 0);
        let needs = |(i, ranks): (usize, &[u64])| {
            let own = sums(ranks, i * k);
            let need = |group: usize| if own[group].0 > 0 { all[1 - group].1 - own[1 - group].1 } else { 0 };
            need(0) + need(1)
        };
        counts.chunks(k).enumerate().map(needs).max().unwrap_or(0)
    }
}

fn starts(counts: &[u64]) -> Vec<u64> {
    let mut end = 0;
    let mut start = |count: &u64| {
        end += count;
        end - count
    };
    counts.iter().map(&mut start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::dist::DISTS;
    use circulant::machine::{LogGp, Machine};
    use circulant::plan::registry::algorithms;

    const MODEL: LogGp = LogGp { latency_ns: 1000, overhead_ns: 100, byte_ps: 500, reduce_ps: 0 };

    fn case(operation: Operation, p: u32, bytes: u64) -> Case {
        let dist = Dist::find("linear").unwrap();
        let setting =
            Setting::find(if operation == Operation::InterAllgather { "s3" } else { "s8" }).unwrap();
        let machine = Machine::flat(MODEL);
        Case { operation, p, bytes, dist, setting, first: None, root: p / 2, blocks: None, machine }
    }

    #[test]
    fn every_algorithm_takes_the_arguments() {
        for a in Operation::ALL.into_iter().flat_map(algorithms) {
            for (p, bytes) in [(1, 1000), (2, 0), (16, 1000), (16, 1003), (12, 4)] {
                let case = case(a.operation, p, bytes);
                let arguments = case.arguments().unwrap();
                if (a.fits)(&arguments).is_ok() {
                    let plan = (a.build)(&arguments, &MODEL).unwrap();
                    assert_eq!(plan.size(), p, "{} {}", a.operation, a.name);
                }
            }
        }
    }

    /// No plan moves fewer bytes than the reference says some rank must get or give.
    #[test]
    fn the_volume_is_a_bound() {
        for operation in Operation::ALL {
            for (p, k) in [(16, 1), (16, 4), (12, 5), (12, 1)] {
                let case = case(operation, p, 12_000);
                let arguments = case.arguments().unwrap();
                let bound = case.volume(&arguments, k);
                for a in algorithms(operation).filter(|a| (a.fits)(&arguments).is_ok()) {
                    let plan = (a.build)(&arguments, &MODEL).unwrap();
                    let (mut out, mut into) = (vec![0; 16], vec![0; 16]);
                    for rank in 0..p {
                        let puts = plan.steps(rank).filter(|s| s.kind == circulant::plan::Kind::Put);
                        for put in puts.filter(|put| put.peer / k != rank / k) {
                            out[(rank / k) as usize] += put.len;
                            into[(put.peer / k) as usize] += put.len;
                        }
                    }
                    let most = out.into_iter().chain(into).max().unwrap();
                    assert!(
                        most as f64 >= bound,
                        "{operation} {} p = {p}, k = {k}: {most} < {bound}",
                        a.name
                    );
                }
            }
        }
    }

    #[test]
    fn references() {
        let flat = case(Operation::Bcast, 9, 10_000);
        assert_eq!(flat.reference_ns(&flat.arguments().unwrap()), 5000.0 + 4.0 * 1100.0);
        let near = LogGp { latency_ns: 200, overhead_ns: 100, byte_ps: 100, ..MODEL };
        let nodes = Case { machine: Machine::shared(MODEL, near, 3), ..flat };
        assert_eq!(nodes.reference_ns(&flat.arguments().unwrap()), 5000.0 + 2.0 * 1100.0 + 2.0 * 300.0);
        let far = case(Operation::Alltoallv, MAX_ALLTOALLV_RANKS + 1, 10);
        assert!(far.arguments().unwrap_err().text.contains("ranks"));
        assert!(DISTS.iter().all(|d| Case { dist: d, ..flat }.arguments().is_ok()));
    }
}
