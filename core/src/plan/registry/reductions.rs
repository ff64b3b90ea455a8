//! The registry's lines of the operations that reduce.
//!
//! m is the vector that every rank contributes, unless said otherwise. Volumes are exact for the rank
//! that receives most, or bounds (≤).

use super::cost::folds;
use super::line::line;
use super::{Algorithm, Arguments, Operation, order, q};
use crate::error::{Result, argument};
use crate::machine::LogGp;
use crate::plan::allreduce::{doubling::Doubling, scattered::Scattered};
use crate::plan::partial::Pieces;
use crate::plan::reduce::{circulant::Reduce, gathered::Gathered, tree};
use crate::plan::reduce_scatter::{core::Way, plain::ReduceScatter};
use crate::plan::scan::{pipeline::Pipeline, prefix::Prefix};
use crate::plan::{MAX_COUNTERS, Plan, rules};

const ANY: &str = "any p; keeps the order of ranks";
const COMMUTATIVE: &str = "any p; commutative";
const REVERSED: &str = "Träff 2022, Algorithm 6 reversed";
const BINOMIAL: &str = "binomial tree";
const RING: &str = "ring";
const REDUCE_SCATTER: &str = "arXiv 2410.14234; Träff 2022, Algorithm 7 reversed";

const fn ring_rounds(size: u32) -> u32 {
    size.saturating_sub(1)
}

/// All of them.
pub(super) const LINES: &[Algorithm] = {
    use Operation::{Allreduce, Exscan, Reduce, ReduceScatter, ReduceScatterBlock, Scan};
    &[
        line(
            Reduce,
            "circulant",
            [COMMUTATIVE, "n-1+q", "<= (n-1+q)*ceil(m/n)", REVERSED],
            super::by_blocks,
            reduce,
        )
        .only(commutative)
        .receives(blocks_received)
        .costs(folds::reduce)
        .ordered(order::BLOCKWISE),
        line(
            Reduce,
            "binomial",
            [COMMUTATIVE, "q", "q*m", BINOMIAL],
            |a, _| q(a.size),
            |a, _| up(a, "binomial", tree::Kind::Binomial(a.root)),
        )
        .only(commutative)
        .costs(folds::reduce_binomial)
        .ordered(order::FROM_ROOT),
        line(
            Reduce,
            "gathered",
            [COMMUTATIVE, "2q", "<= 2(p-1)*ceil(m/p)", REDUCE_SCATTER],
            |a, _| 2 * q(a.size),
            |a, _| {
                commutes(a, "gathered")?;
                Ok(Box::new(Gathered::new(a.size, a.root, a.bytes, a.element, a.in_place)?))
            },
        )
        .only(commutative)
        .receives(pieces_twice)
        .costs(folds::reduce_gathered)
        .ordered(order::PIECEWISE),
        line(
            Reduce,
            "ordered",
            [ANY, "q+1 (root 0: q)", "q*m", BINOMIAL],
            |a, _| q(a.size) + 1,
            |a, _| up(a, "ordered", tree::Kind::Ordered(a.root)),
        )
        .costs(folds::reduce_ordered)
        .ordered(order::CANONICAL),
        line(
            Allreduce,
            "circulant",
            [COMMUTATIVE, "2q", "<= 2(p-1)*ceil(m/p)", REDUCE_SCATTER],
            |a, _| 2 * q(a.size),
            |a, _| scattered(a, "circulant", Way::Circulant),
        )
        .only(commutative)
        .receives(pieces_twice)
        .costs(folds::allreduce)
        .ordered(order::PIECEWISE),
        line(
            Allreduce,
            "census",
            [COMMUTATIVE, "q", "q*m", "Träff 2022, Algorithm 8"],
            |a, _| q(a.size),
            |a, _| {
                commutes(a, "census")?;
                Ok(Box::new(Prefix::census(a.size, a.bytes, a.element, a.in_place)?))
            },
        )
        .only(commutative)
        .costs(folds::census)
        .ordered(order::CYCLIC),
        line(
            Allreduce,
            "doubling",
            [ANY, "floor(log2 p), +2 if p is no power of 2", "(rounds, -1 if +2)*m", "recursive doubling"],
            |a, _| Doubling::rounds_of(a.size),
            |a, _| Ok(Box::new(Doubling::new(a.size, a.bytes, a.element, a.in_place)?)),
        )
        .receives(|a| {
            let rounds = u64::from(Doubling::rounds_of(a.size));
            (rounds - u64::from(!a.size.is_power_of_two())) * a.bytes
        })
        .costs(folds::doubling)
        .ordered(order::PAIRS),
        line(
            Allreduce,
            "ring",
            [COMMUTATIVE, "2(p-1)", "<= 2(p-1)*ceil(m/p)", RING],
            |a, _| 2 * ring_rounds(a.size),
            |a, _| scattered(a, "ring", Way::Ring),
        )
        .only(commutative)
        .receives(pieces_twice)
        .costs(folds::allreduce_ring)
        .ordered(order::ROUND),
        line(
            Allreduce,
            "ordered",
            [ANY, "2q", "q*m", BINOMIAL],
            |a, _| 2 * q(a.size),
            |a, _| up(a, "ordered", tree::Kind::All),
        )
        .costs(folds::allreduce_ordered)
        .ordered(order::CANONICAL),
        line(
            ReduceScatter,
            "circulant",
            [COMMUTATIVE, "q", "<= q*m", REDUCE_SCATTER],
            |a, _| q(a.size),
            |a, _| irregular(a, "circulant", Way::Circulant),
        )
        .only(commutative)
        .costs(folds::scatter_irregular)
        .ordered(order::PIECEWISE),
        line(
            ReduceScatter,
            "ring",
            [COMMUTATIVE, "p-1", "m - min m_r", RING],
            |a, _| ring_rounds(a.size),
            |a, _| irregular(a, "ring", Way::Ring),
        )
        .only(commutative)
        .receives(|a| a.counts.iter().sum::<u64>() - a.counts.iter().min().copied().unwrap_or(0))
        .costs(folds::scatter_ring)
        .ordered(order::ROUND),
        line(
            ReduceScatter,
            "ordered",
            [ANY, "2q", "q*m", BINOMIAL],
            |a, _| 2 * q(a.size),
            |a, _| {
                let pieces = Pieces::given(&a.counts)?;
                let a = Arguments { size: pieces.parts(), bytes: pieces.bytes(), ..a.clone() };
                up(&a, "ordered", tree::Kind::Scatter(pieces))
            },
        )
        .costs(folds::scatter_ordered)
        .ordered(order::CANONICAL),
        line(
            ReduceScatterBlock,
            "circulant",
            [COMMUTATIVE, "q", "m - m/p", REDUCE_SCATTER],
            |a, _| q(a.size),
            |a, _| regular(a, "circulant", Way::Circulant),
        )
        .only(commutative)
        .receives(pieces_once)
        .costs(folds::scatter_block)
        .ordered(order::PIECEWISE),
        line(
            ReduceScatterBlock,
            "ring",
            [COMMUTATIVE, "p-1", "m - m/p", RING],
            |a, _| ring_rounds(a.size),
            |a, _| regular(a, "ring", Way::Ring),
        )
        .only(commutative)
        .receives(pieces_once)
        .costs(folds::scatter_ring)
        .ordered(order::ROUND),
        line(
            ReduceScatterBlock,
            "ordered",
            [ANY, "2q", "q*m", BINOMIAL],
            |a, _| 2 * q(a.size),
            |a, _| {
                let bytes =
                    a.bytes.checked_mul(a.size.into()).ok_or_else(|| argument("beyond 2^64 bytes"))?;
                let pieces = Pieces::Equal { count: a.bytes, parts: a.size };
                up(&Arguments { bytes, ..a.clone() }, "ordered", tree::Kind::Scatter(pieces))
            },
        )
        .costs(folds::scatter_ordered)
        .ordered(order::CANONICAL),
        line(
            Scan,
            "doubling",
            [ANY, "q", "q*m", "Hillis and Steele 1986"],
            |a, _| q(a.size),
            |a, _| Ok(Box::new(Prefix::doubling(a.size, a.bytes, a.element, a.in_place)?)),
        )
        .costs(folds::scan_doubling)
        .ordered(order::SCAN),
        line(
            Exscan,
            "circulant",
            [ANY, "q", "<= q*m", "Träff 2022, Algorithm 8, made acyclic"],
            |a, _| q(a.size),
            |a, _| Ok(Box::new(Prefix::circulant(a.size, a.bytes, a.element, a.in_place)?)),
        )
        .costs(folds::exscan)
        .ordered(order::EXSCAN),
        line(
            Exscan,
            "one-two-three",
            [ANY, "ceil(log2(p-1) + log2(4/3))", "<= rounds*m", "arXiv 2507.04785"],
            |a, _| Prefix::one_two_three_rounds(a.size),
            |a, _| Ok(Box::new(Prefix::one_two_three(a.size, a.bytes, a.element, a.in_place)?)),
        )
        .receives(|a| u64::from(Prefix::one_two_three_rounds(a.size)) * a.bytes)
        .costs(folds::exscan_one_two_three)
        .ordered(order::THREES),
        line(
            Scan,
            "pipeline",
            [ANY, "p-2+n", "m", "linear pipeline"],
            |a, n| Pipeline::rounds_of(a.size, n),
            |a, model| pipeline(a, model, true),
        )
        .receives(|a| a.bytes * others(a).min(1))
        .costs(folds::pipeline)
        .ordered(order::LEFT),
        line(
            Exscan,
            "pipeline",
            [ANY, "p-2+n", "m", "linear pipeline"],
            |a, n| Pipeline::rounds_of(a.size, n),
            |a, model| pipeline(a, model, false),
        )
        .receives(|a| a.bytes * others(a).min(1))
        .costs(folds::pipeline)
        .ordered(order::LEFT),
    ]
};

/// q vectors, or what else stands in [`Algorithm::received`].
pub(super) fn least(operation: Operation, a: &Arguments) -> u64 {
    let vector = match operation {
        Operation::ReduceScatter => a.counts.iter().sum(),
        Operation::ReduceScatterBlock => a.bytes * u64::from(a.size),
        _ => a.bytes,
    };
    u64::from(q(a.size)) * vector
}

fn others(a: &Arguments) -> u64 {
    u64::from(ring_rounds(a.size))
}

/// All blocks once, and q−1 of them again.
fn blocks_received(a: &Arguments) -> u64 {
    let n = a.blocks.unwrap_or(1);
    let block = Pieces::even(a.bytes, a.element, n).largest();
    if a.size == 1 { 0 } else { (u64::from(n) - 1 + u64::from(q(a.size))) * block }
}

/// A piece of each other rank, to be folded, and folded.
fn pieces_twice(a: &Arguments) -> u64 {
    2 * others(a) * Pieces::even(a.bytes, a.element, a.size).largest()
}

fn pieces_once(a: &Arguments) -> u64 {
    others(a) * a.bytes
}

pub(super) fn commutes(a: &Arguments, name: &str) -> Result<()> {
    if a.commutative {
        return Ok(());
    }
    Err(argument(format!("the algorithm {name:?} is for commutative operators"))
        .help("use ordered, or declare the operator commutative"))
}

/// What [`COMMUTATIVE`] says.
fn commutative(a: &Arguments) -> Result<()> {
    if a.commutative { Ok(()) } else { Err(argument("the operator does not commute")) }
}

type Built = Result<Box<dyn Plan>>;

fn reduce(a: &Arguments, model: &LogGp) -> Built {
    commutes(a, "circulant")?;
    let n = reduce_blocks(a, model);
    Ok(Box::new(Reduce::new(a.size, a.root, a.bytes, a.element, n, a.in_place)?))
}

/// As for a broadcast on a wire on which a byte also takes its combination.
pub(super) fn reduce_blocks(a: &Arguments, model: &LogGp) -> u32 {
    let model = LogGp { byte_ps: model.byte_ps.saturating_add(model.reduce_ps), ..*model };
    a.blocks.unwrap_or_else(|| rules::bcast_blocks(a.size, a.bytes, &model).min(MAX_COUNTERS / 4))
}

/// n minimises (p−2+n)·(o + βm/n).
pub(super) fn pipeline_blocks(a: &Arguments, model: &LogGp) -> u32 {
    let by_rule = || {
        let wire = u128::from(a.bytes) * u128::from(model.byte_ps) / 1000;
        let n = (u128::from(a.size.saturating_sub(2)) * wire / u128::from(model.overhead_ns.max(1))).isqrt();
        let most = (a.bytes / 64).clamp(1, 1 << 16);
        u64::try_from(n).map_or(most, |n| n.clamp(1, most))
    };
    a.blocks.unwrap_or_else(|| u32::try_from(by_rule()).unwrap_or(1))
}

fn pipeline(a: &Arguments, model: &LogGp, inclusive: bool) -> Built {
    let n = pipeline_blocks(a, model);
    Ok(Box::new(Pipeline::new(a.size, a.bytes, a.element, n, a.in_place, inclusive)?))
}

fn up(a: &Arguments, name: &str, kind: tree::Kind) -> Built {
    if matches!(kind, tree::Kind::Binomial(_)) {
        commutes(a, name)?;
    }
    Ok(Box::new(tree::Tree::new(a.size, a.bytes, a.element, a.in_place, kind)?))
}

fn scattered(a: &Arguments, name: &str, way: Way) -> Built {
    commutes(a, name)?;
    Ok(Box::new(Scattered::new(a.size, a.bytes, a.element, a.in_place, way)?))
}

fn irregular(a: &Arguments, name: &str, way: Way) -> Built {
    commutes(a, name)?;
    Ok(Box::new(ReduceScatter::new(&a.counts, a.element, a.in_place, way)?))
}

fn regular(a: &Arguments, name: &str, way: Way) -> Built {
    commutes(a, name)?;
    Ok(Box::new(ReduceScatter::block(a.size, a.bytes, a.element, a.in_place, way)?))
}
