//! Costs of what reduces. m is the vector that every rank contributes.

use super::spread::{allgatherv_backwards, heaviest, shape, skips};
use super::{Path, float, floor_log, powers};
use crate::plan::allgatherv::circulant as allgatherv;
use crate::plan::partial::Pieces;
use crate::plan::registry::{Arguments, q, reductions};
use crate::plan::rules;
use crate::plan::scan::prefix::Prefix;
use crate::schedule::Circulant;

fn others(a: &Arguments) -> f64 {
    f64::from(a.size.saturating_sub(1))
}

/// What the vector is cut into among all ranks: how many pieces have bytes, and how long the longest is.
pub(super) fn pieces(a: &Arguments) -> (f64, f64) {
    let largest = Pieces::even(a.bytes, a.element, a.size.max(1)).largest();
    let some = a.bytes.div_ceil(largest.max(1)).min(a.size.into());
    (float(some), float(largest))
}

/// The broadcast backwards: the pace is that of the slower of putting and combining, and a block is combined at
/// every hop.
pub(in crate::plan::registry) fn reduce(a: &Arguments, path: &mut Path<'_>) {
    let (n, bytes) = (reductions::reduce_blocks(a, path.model()), float(a.bytes));
    path.blocks(n);
    let (hops, rounds) = shape(a.size, n, bytes, path);
    let block = bytes / f64::from(n);
    let more = if n > 1 && a.size > 1 { 1.0 } else { 0.0 };
    path.over(&skips(a.size), hops + more, 0.0, 0.0);
    path.reduce(if n > 1 { hops } else { rounds.min(hops + 1.0) } * block);
    let put = |path: &mut Path<'_>| path.over(&skips(a.size), 0.0, rounds, rounds * block);
    match n {
        1 => put(path),
        _ => path.longer(put, |path| path.reduce(rounds * block)),
    }
}

/// Whole vectors up the tree, each combined before it goes on.
fn up(size: u32, bytes: f64, path: &mut Path<'_>) {
    let hops = f64::from(floor_log(size));
    // Just above a power of two the root's last message comes early, but takes its time.
    let more = if size.is_power_of_two() { 0.0 } else { 0.6 };
    path.alone(|path| path.over(&powers(size), hops, hops + more, (hops + more) * bytes));
    path.reduce((hops + more) * bytes);
}

pub(in crate::plan::registry) fn reduce_binomial(a: &Arguments, path: &mut Path<'_>) {
    up(a.size, float(a.bytes), path);
}

pub(in crate::plan::registry) fn reduce_ordered(a: &Arguments, path: &mut Path<'_>) {
    up(a.size, float(a.bytes), path);
    if a.root > 0 {
        path.hop(a.root, 1.0, float(a.bytes));
    }
}

/// Messages of many pieces are combined only when they are there, and the next round waits for that, at one rank earlier than
/// at another: links carry those of two rounds in turns. Seen where each rank has a node to itself. (1 MB: 1.7 C among 16 ranks, 1.5 to 2.3 among 36.)
pub(in crate::plan) fn in_turns(path: &Path<'_>) -> f64 {
    let alone = path.machine.per_node < 2;
    if alone { rules::IN_TURNS } else { 1.0 }
}

/// Reduce-scatter on the circulant graph, of equal pieces.
fn scattered(a: &Arguments, turns: f64, path: &mut Path<'_>) {
    let (some, piece) = pieces(a);
    let graph = Circulant::new(a.size.max(1));
    for k in (0..graph.q()).rev() {
        let width = f64::from(graph.skip(k + 1) - graph.skip(k)).min(some);
        path.hop(graph.skip(k), 1.0, turns * width * piece);
        path.reduce(width * piece);
    }
}

pub(in crate::plan::registry) fn reduce_gathered(a: &Arguments, path: &mut Path<'_>) {
    scattered(a, in_turns(path), path);
    let (some, piece) = pieces(a);
    path.alone(|path| {
        path.over(&powers(a.size), floor_log(a.size).into(), q(a.size).into(), others(a).min(some) * piece)
    });
}

pub(in crate::plan::registry) fn allreduce(a: &Arguments, path: &mut Path<'_>) {
    allreduce_of(a, in_turns(path), path);
}

/// Among nodes or lanes; what runs beside it is counted there.
pub(super) fn allreduce_among(a: &Arguments, path: &mut Path<'_>) {
    allreduce_of(a, 1.0, path);
}

fn allreduce_of(a: &Arguments, turns: f64, path: &mut Path<'_>) {
    scattered(a, turns, path);
    let (some, piece) = pieces(a);
    let rounds = f64::from(q(a.size));
    path.over(&skips(a.size), rounds, rounds, others(a).min(some) * piece);
}

pub(in crate::plan::registry) fn allreduce_ring(a: &Arguments, path: &mut Path<'_>) {
    let (hops, piece) = (others(a), pieces(a).1);
    path.ring(2.0 * hops, 1.0, piece);
    path.reduce(hops * piece);
}

/// q rounds of whole vectors, combined with what came and, in some, with our own before they are sent.
fn prefix(a: &Arguments, cyclic: bool, path: &mut Path<'_>) {
    let graph = Circulant::new(a.size.max(1));
    let bytes = float(a.bytes);
    let mut folds = 0.0;
    for k in 0..graph.q() {
        let (skip, next) = (graph.skip(k), graph.skip(k + 1));
        path.hop(skip, 1.0, bytes);
        let with = 2 * skip <= next;
        folds += if k > 0 { 1.0 + f64::from(u8::from(with)) } else { 0.0 };
    }
    path.reduce((folds + if cyclic && a.size > 1 { 1.0 } else { 0.0 }) * bytes);
}

pub(in crate::plan::registry) fn census(a: &Arguments, path: &mut Path<'_>) {
    prefix(a, true, path);
}

pub(in crate::plan::registry) fn exscan(a: &Arguments, path: &mut Path<'_>) {
    prefix(a, false, path);
}

/// Partners exchange whole vectors; with a fold before and a hop after if p is not a power of two.
pub(in crate::plan::registry) fn doubling(a: &Arguments, path: &mut Path<'_>) {
    let (rounds, bytes) = (f64::from(floor_log(a.size)), float(a.bytes));
    let (more, half) = if a.size.is_power_of_two() { (0.0, 0.0) } else { (1.0, 0.5) };
    path.over(&powers(a.size), rounds + more, rounds + more + half, (rounds + more + half) * bytes);
    path.reduce((rounds + more) * bytes);
}

pub(in crate::plan::registry) fn allreduce_ordered(a: &Arguments, path: &mut Path<'_>) {
    let (rounds, bytes) = (f64::from(q(a.size)), float(a.bytes));
    up(a.size, bytes, path);
    path.alone(|path| path.over(&powers(a.size), floor_log(a.size).into(), rounds, rounds * bytes));
}

// --- reduce_scatter ---------------------------------------------------------------------------------------

pub(in crate::plan::registry) fn scatter_irregular(a: &Arguments, path: &mut Path<'_>) {
    scatter_of(a, in_turns(path), path);
}

/// Among nodes or lanes.
pub(super) fn scatter_among(a: &Arguments, path: &mut Path<'_>) {
    scatter_of(a, 1.0, path);
}

fn scatter_of(a: &Arguments, turns: f64, path: &mut Path<'_>) {
    let graph = Circulant::new(a.size.max(1));
    for k in (0..graph.q()).rev() {
        let bytes = float(heaviest(&a.counts, graph.skip(k + 1) - graph.skip(k)));
        path.hop(graph.skip(k), 1.0, turns * bytes);
        path.reduce(bytes);
    }
}

/// The allgatherv backwards, with as many blocks: the pace is that of the slower of putting and combining, and a block
/// is combined at every hop.
pub(in crate::plan::registry) fn scatter_reversed(a: &Arguments, path: &mut Path<'_>) {
    if a.counts.len() < 2 {
        return;
    }
    let n = a.blocks.unwrap_or_else(|| rules::allgatherv_n(&a.counts, path.model()));
    let (total, rounds) = (float(a.counts.iter().sum()), f64::from(q(a.size)));
    // What travels as one run is combined when all of it has come.
    let last = match n {
        1 => total / (total / rounds / path.coalesce()).max(1.0),
        _ => rounds * float(a.counts.iter().copied().max().unwrap_or(0)) / f64::from(n),
    };
    path.longer(
        |path| {
            match n {
                1 => allgatherv_backwards(a, path),
                _ => allgatherv::cost(a, path),
            }
            path.reduce(last.min(total));
        },
        |path| path.reduce(total),
    );
}

pub(in crate::plan::registry) fn scatter_ring(a: &Arguments, path: &mut Path<'_>) {
    let (hops, bytes) = (others(a), float(a.counts.iter().copied().max().unwrap_or(a.bytes)));
    path.ring(hops, 1.0, bytes);
    path.reduce(hops * bytes);
}

pub(in crate::plan::registry) fn scatter_block(a: &Arguments, path: &mut Path<'_>) {
    let graph = Circulant::new(a.size.max(1));
    for k in (0..graph.q()).rev() {
        let width = graph.skip(k + 1) - graph.skip(k);
        let bytes = f64::from(width) * float(a.bytes);
        path.hop(graph.skip(k), 1.0, in_turns(path) * bytes);
        path.reduce(bytes);
    }
}

pub(in crate::plan::registry) fn scatter_ordered(a: &Arguments, path: &mut Path<'_>) {
    let total =
        if a.counts.is_empty() { float(a.bytes) * f64::from(a.size) } else { float(a.counts.iter().sum()) };
    let own = if a.counts.is_empty() { float(a.bytes) } else { float(a.counts[0]) };
    up(a.size, total, path);
    path.alone(|path| path.over(&powers(a.size), floor_log(a.size).into(), q(a.size).into(), total - own));
}

// --- scans ------------------------------------------------------------------------------------------------

/// The last round's senders are the ranks that were ready early.
pub(in crate::plan::registry) fn scan_doubling(a: &Arguments, path: &mut Path<'_>) {
    let (rounds, bytes) = (q(a.size), float(a.bytes));
    if rounds == 0 {
        return;
    }
    let last = 1 + q(a.size - (1 << (rounds - 1)));
    let hops = f64::from(last.max(rounds - 1));
    let busy = if hops < f64::from(rounds) { hops + 0.7 } else { hops };
    path.over(&powers(a.size), hops, hops, busy * bytes);
    path.reduce(busy * bytes);
}

pub(in crate::plan::registry) fn exscan_one_two_three(a: &Arguments, path: &mut Path<'_>) {
    let (rounds, bytes) = (f64::from(Prefix::one_two_three_rounds(a.size)), float(a.bytes));
    let more = if rounds > 2.0 { 0.6 } else { 0.0 };
    path.over(&powers(a.size), (rounds - 1.0).max(rounds.min(1.0)), rounds, (rounds + more) * bytes);
    path.reduce((rounds + more) * bytes);
}

/// Down the line, block by block.
pub(in crate::plan::registry) fn pipeline(a: &Arguments, path: &mut Path<'_>) {
    let (hops, n) = (others(a), reductions::pipeline_blocks(a, path.model()));
    if a.size < 2 {
        return;
    }
    path.blocks(n);
    let (block, rest) = (float(a.bytes) / f64::from(n), f64::from(n) - 1.0);
    // Of a node's ranks only the last puts to another.
    let shared = path.machine.per_node > 1 && a.size > path.machine.per_node;
    let far = if shared { hops / f64::from(path.machine.per_node) } else { hops };
    path.over(&[1], far, far, far * block);
    path.near(hops - far, hops - far, (hops - far) * block);
    path.reduce(hops * block);
    path.longer(|path| path.over(&[1], 0.0, rest, rest * block), |path| path.reduce(rest * block));
}
