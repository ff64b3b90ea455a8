//! The lines of the operations between two groups. m_A and m_B are all bytes of the groups' ranks, q_A and q_B
//! the ⌈log2⌉ of their sizes a and b.

use super::line::line;
use super::{Algorithm, Arguments, Operation};
use crate::error::{Result, argument};
use crate::machine::LogGp;
use crate::plan::barrier::dissemination::Barrier;
use crate::plan::bcast::circulant::Bcast;
use crate::plan::bcast::{binomial, tree::Tree};
use crate::plan::inter::{Groups, among::Among, exchange, exchange::Exchange, root_gathering::RootGathering};
use crate::plan::topology::log2_ceil;
use crate::plan::{Plan, rules};

const ANY: &str = "any two groups";
const LEAST: &str = "max(m_A, m_B)";
const CIRCULANT: &str = "Träff 2022, Algorithm 6, among the root and the other group";
const BALANCED: [&str; 4] =
    [ANY, "D + max(q_A, q_B), D = most segments of a rank", LEAST, "Kang et al. 2019, Algorithm 2"];
const ROOT: &str = "m_A + m_B - the smaller root's";
const SEQUENTIAL: [&str; 4] =
    [ANY, "max(q_A, q_B) + 2 + q_A + a-1 + q_B + b-1", ROOT, "Kang et al. 2019, equation (2)"];
const CONCURRENT: [&str; 4] =
    ["any two groups, n", "2 max(q_A, q_B) + n; larger group 1: 1", ROOT, "Kang et al. 2019, equation (1)"];

/// All of them.
pub(super) const LINES: &[Algorithm] = {
    use Operation::{InterAllgather, InterAllgatherv, InterBarrier, InterBcast};
    &[
        line(
            InterAllgather,
            "segmented",
            [ANY, "ceil(max(a,b)/min(a,b)) + max(q_A, q_B)", LEAST, "Kang et al. 2019, Algorithm 1"],
            |a, _| {
                let sizes = groups(a).map_or([1, 1], Groups::sizes);
                sizes[0].max(sizes[1]).div_ceil(sizes[0].min(sizes[1])) + larger(a)
            },
            |a, _| Ok(Box::new(Exchange::segmented(groups(a)?, each(a)?)?)),
        )
        .only(fits),
        line(InterAllgather, "balanced", BALANCED, balanced_rounds, |a, _| {
            let (groups, counts, displs) = equal(a)?;
            Ok(Box::new(Exchange::balanced(groups, &counts, &displs)?))
        })
        .only(fits),
        line(InterAllgather, "root_gathering", SEQUENTIAL, sequential_rounds, |a, _| {
            let (groups, counts, displs) = equal(a)?;
            Ok(Box::new(RootGathering::sequential(groups, &counts, &displs)?))
        })
        .only(fits),
        line(InterAllgather, "root_gathering_concurrent", CONCURRENT, concurrent_rounds, |a, model| {
            let (_, counts, displs) = equal(a)?;
            concurrent(&Arguments { counts, displs, ..a.clone() }, model)
        })
        .only(fits),
        line(InterAllgatherv, "balanced", BALANCED, balanced_rounds, |a, _| {
            Ok(Box::new(Exchange::balanced(groups(a)?, &a.counts, &a.displs)?))
        })
        .only(fits),
        line(InterAllgatherv, "root_gathering", SEQUENTIAL, sequential_rounds, |a, _| {
            Ok(Box::new(RootGathering::sequential(groups(a)?, &a.counts, &a.displs)?))
        })
        .only(fits),
        line(InterAllgatherv, "root_gathering_concurrent", CONCURRENT, concurrent_rounds, concurrent)
            .only(fits),
        line(
            InterBcast,
            "circulant",
            ["any two groups, root, n", "n-1+ceil(log2(s+1)), s ranks in the other group", "m", CIRCULANT],
            |a, n| n - 1 + log2_ceil(receivers(a) + 1),
            |a, model| {
                let n = a.blocks.unwrap_or_else(|| rules::bcast_blocks(receivers(a) + 1, a.bytes, model));
                let bcast = |size| -> Built { Ok(Box::new(Bcast::new(size, 0, a.bytes, n)?)) };
                Ok(Box::new(Among::other_group(groups(a)?, a.root, bcast)?))
            },
        )
        .only(fits),
        line(
            InterBcast,
            "binomial",
            ["any two groups, root; n = 1", "ceil(log2(s+1)), s ranks in the other group", "m", "folklore"],
            |a, _| log2_ceil(receivers(a) + 1),
            |a, _| {
                let bcast =
                    |size| -> Built { Ok(Box::new(Tree::<binomial::Binomial>::new(size, 0, a.bytes)?)) };
                Ok(Box::new(Among::other_group(groups(a)?, a.root, bcast)?))
            },
        )
        .only(fits),
        line(
            InterBarrier,
            "dissemination",
            [ANY, "q", "0", "dissemination on circulant skips, among both groups"],
            |a, _| log2_ceil(a.size),
            |a, _| Ok(Box::new(Barrier::new(groups(a)?.size())?)),
        )
        .only(fits),
    ]
};

type Built = Result<Box<dyn Plan>>;

fn groups(a: &Arguments) -> Result<Groups> {
    Groups::new(a.first, a.size)
}

fn fits(a: &Arguments) -> Result<()> {
    groups(a).map(|_| ())
}

/// max(q_A, q_B).
fn larger(a: &Arguments) -> u32 {
    groups(a).map_or(0, Groups::q)
}

/// How many ranks an inter_bcast is for.
fn receivers(a: &Arguments) -> u32 {
    groups(a).map_or(0, |groups| groups.other(a.root).end - groups.other(a.root).start)
}

/// Bytes of a rank of A and of a rank of B (inter_allgather).
fn each(a: &Arguments) -> Result<[u64; 2]> {
    match a.counts[..] {
        [] => Ok([a.bytes; 2]),
        [first, second] => Ok([first, second]),
        _ => Err(argument(format!("{} counts for two groups of equal contributions", a.counts.len()))
            .help("give one for each group, or choose inter_allgatherv")),
    }
}

/// The counts and displacements of all ranks (inter_allgather).
fn equal(a: &Arguments) -> Result<(Groups, Vec<u64>, Vec<u64>)> {
    let groups = groups(a)?;
    let (counts, displs) = exchange::equal(groups, each(a)?)?;
    Ok((groups, counts, displs))
}

/// The counts of all ranks.
fn counts(operation: Operation, a: &Arguments) -> Vec<u64> {
    match operation {
        Operation::InterAllgather => equal(a).map_or(Vec::new(), |(_, counts, _)| counts),
        _ => a.counts.clone(),
    }
}

/// D and the allgather.
fn balanced_rounds(a: &Arguments, _: u32) -> u32 {
    // Where contributions go does not matter.
    let packed = |counts: &[u64]| -> Vec<u64> {
        let before = |at: &mut u64, count: &u64| Some(std::mem::replace(at, at.saturating_add(*count)));
        counts.iter().scan(0, before).collect()
    };
    let balanced = || match a.counts.len() == a.size as usize {
        true => Exchange::balanced(groups(a)?, &a.counts, &packed(&a.counts)),
        false => equal(a).and_then(|(groups, counts, displs)| Exchange::balanced(groups, &counts, &displs)),
    };
    balanced().map_or(0, |plan| plan.degree()) + larger(a)
}

fn sequential_rounds(a: &Arguments, _: u32) -> u32 {
    groups(a).map_or(0, |groups| RootGathering::rounds_of(groups, None))
}

fn concurrent_rounds(a: &Arguments, n: u32) -> u32 {
    groups(a).map_or(0, |groups| RootGathering::rounds_of(groups, Some(n)))
}

fn concurrent(a: &Arguments, model: &LogGp) -> Built {
    let blocks = |size, bytes| a.blocks.unwrap_or_else(|| rules::bcast_blocks(size, bytes, model));
    Ok(Box::new(RootGathering::concurrent(groups(a)?, &a.counts, &a.displs, blocks)?))
}

/// Bytes of all ranks of A and of B.
fn totals(operation: Operation, a: &Arguments) -> [u64; 2] {
    let counts = counts(operation, a);
    let (first, second) = counts.split_at((a.first as usize).min(counts.len()));
    [first.iter().sum(), second.iter().sum()]
}

/// The least bytes that the rank which receives most can receive.
pub(super) fn least(operation: Operation, a: &Arguments) -> u64 {
    match operation {
        Operation::InterBcast => a.bytes,
        Operation::InterAllgather | Operation::InterAllgatherv => {
            let [first, second] = totals(operation, a);
            first.max(second)
        }
        _ => 0,
    }
}

/// What a root receives: everything but its own.
pub(super) fn rooted(algorithm: &Algorithm, a: &Arguments) -> Option<u64> {
    if !matches!(algorithm.name, "root_gathering" | "root_gathering_concurrent") {
        return None;
    }
    let counts = counts(algorithm.operation, a);
    let own = counts.first().min(counts.get(a.first as usize)).copied().unwrap_or(0);
    Some(counts.iter().sum::<u64>() - own)
}
