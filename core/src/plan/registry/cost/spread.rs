//! Costs of what spreads bytes and adds nothing: allgather(v), barrier, and what broadcasts share with others.

use super::folds::in_turns;
use super::{Path, float, powers};
use crate::plan::registry::{Arguments, block_of, pipelined_rounds, q};
use crate::plan::rules;
use crate::plan::topology::sides;
use crate::schedule::Circulant;

/// Distances of the circulant graph.
pub(in crate::plan) fn skips(size: u32) -> Vec<u32> {
    let graph = Circulant::new(size.max(1));
    graph.skips()[..graph.q() as usize].to_vec()
}

pub(in crate::plan::registry) fn barrier(a: &Arguments, path: &mut Path<'_>) {
    for skip in skips(a.size) {
        path.hop(skip, 1.0, 0.0);
    }
}

// --- what other costs are made of -----------------------------------------------------------------------

/// n−1+q rounds of o + βm/n and a latency per hop; one block goes down a tree of its own.
pub(in crate::plan) fn circulant(a: &Arguments, n: u32, bytes: f64, path: &mut Path<'_>) {
    path.blocks(n);
    let (hops, rounds) = shape(a.size, n, bytes, path);
    let more = if n > 1 && a.size > 1 { 1.0 } else { 0.0 };
    path.over(&skips(a.size), hops + more, rounds, rounds * bytes / f64::from(n));
}

/// The most hops of a block, and the puts that follow each other: of one block those of the slowest rank.
pub(super) fn shape(size: u32, n: u32, bytes: f64, path: &Path<'_>) -> (f64, f64) {
    if size <= 1 {
        return (0.0, 0.0);
    }
    let (graph, model) = (Circulant::new(size), path.model());
    let latency = float(model.latency_ns);
    let put = float(model.overhead_ns) + bytes / f64::from(n) * float(model.byte_ps) / 1000.0;
    let (time, hops) = rules::tree(&graph, put.max(1.0), latency);
    if n == 1 {
        return (hops, ((time - hops * latency) / put.max(1.0)).max(0.0));
    }
    // Among three ranks the only block that is passed on late is the last but one.
    (hops, f64::from(n) - 1.0 + f64::from(graph.q()) - if size == 3 { 1.0 } else { 0.0 })
}

/// n blocks, and p−2 hops until they come to the last.
pub(in crate::plan) fn chain_of(a: &Arguments, n: u32, path: &mut Path<'_>) {
    let (hops, block) = (f64::from(a.size.saturating_sub(1)), float(a.bytes) / f64::from(n));
    if a.size > 1 {
        path.blocks(n);
        let puts = hops + f64::from(n) - 1.0;
        path.over(&[1], hops, puts, puts * block);
    }
}

// --- allgather --------------------------------------------------------------------------------------------

/// q rounds in lock-step, of two runs where they wrap and are not light; on real links in turns. (1 MB among 16 ranks without latency: 109
/// ms; piece by piece 77, round a ring 75.)
pub(in crate::plan::registry) fn allgather(a: &Arguments, path: &mut Path<'_>) {
    let (graph, bytes) = (Circulant::new(a.size.max(1)), in_turns(path) * float(a.bytes));
    for k in 0..graph.q() {
        let width = f64::from(graph.skip(k + 1) - graph.skip(k));
        let wraps = width > 1.0 && !path.shared(2.0, width / 2.0 * bytes);
        path.hop(graph.skip(k), if wraps { 2.0 } else { 1.0 }, width * bytes);
    }
}

/// Rounds whose pieces go on as soon as they are here: a round ends a hop after the one that brought the last of
/// what it sends, or when the link has carried all until then.
struct Windows {
    /// By round: the distance, the owners of a message, its bytes where it has most.
    rounds: Vec<(u32, u32, f64)>,
    /// The longest contribution.
    largest: f64,
}

impl Windows {
    fn walk(&self, path: &mut Path<'_>) {
        let (owners, total) = self.rounds.iter().fold((0.0, 0.0), |(n, b), r| (n + f64::from(r.1), b + r.2));
        let mean = total / f64::max(owners, 1.0);
        let start = path.clone();
        let (mut puts, mut bytes, mut distances) = (0.0, 0.0, Vec::new());
        // By round: the owners held after it, and its end.
        let (mut held, mut ends) = (1, Vec::<(u32, Path<'_>)>::new());
        for &(distance, width, most) in &self.rounds {
            let runs = path.runs(width.into(), mean);
            let runs = if path.shared(runs, mean) { (runs / 4.0).max(1.0) } else { runs };
            (puts, bytes) = (puts + runs, bytes + most);
            distances.push(distance);
            let brought = ends.iter().find(|end| end.0 >= width).map(|end| end.1.clone());
            let mut end = brought.filter(|_| width > 1).unwrap_or_else(|| start.clone());
            let run = path.coalesce().min(most).max(self.largest.min(most));
            end.longer(
                |path| path.hop(distance, 1.0, run),
                |path| {
                    *path = start.clone();
                    path.over(&distances, 1.0, puts, bytes);
                },
            );
            path.longer(|_| (), |path| *path = end.clone());
            held += width;
            ends.push((held, path.clone()));
        }
        path.relayed(f64::from(u32::try_from(self.rounds.len()).unwrap_or(u32::MAX)));
    }
}

fn equal(a: &Arguments, widths: Vec<(u32, u32)>, path: &mut Path<'_>) {
    let bytes = float(a.bytes);
    let rounds = widths.into_iter().map(|(distance, width)| (distance, width, f64::from(width) * bytes));
    Windows { rounds: rounds.collect(), largest: bytes }.walk(path);
}

/// By round of the circulant graph: its skip and the owners of a message.
fn circulant_widths(size: u32) -> Vec<(u32, u32)> {
    let graph = Circulant::new(size.max(1));
    (0..graph.q()).map(|k| (graph.skip(k), graph.skip(k + 1) - graph.skip(k))).collect()
}

fn doubling_widths(size: u32) -> Vec<(u32, u32)> {
    powers(size).into_iter().map(|d| (d, d.min(size - d))).collect()
}

/// As an allgatherv of one block each. What cutting long contributions costs is not counted: nor is what it saves, as
/// links of the model do not carry the puts to several peers in turns.
pub(in crate::plan::registry) fn allgather_pieces(a: &Arguments, path: &mut Path<'_>) {
    let n = a.blocks.unwrap_or(1);
    path.blocks(n);
    equal(a, circulant_widths(a.size), path);
    if n > 1 {
        let more = f64::from(n - 1) * f64::from(a.size - 1);
        path.over(&skips(a.size), 0.0, more, 0.0);
    }
}

pub(in crate::plan::registry) fn allgather_bruck(a: &Arguments, path: &mut Path<'_>) {
    equal(a, doubling_widths(a.size), path);
}

pub(in crate::plan::registry) fn allgather_ring(a: &Arguments, path: &mut Path<'_>) {
    let hops = f64::from(a.size.saturating_sub(1));
    path.ring(hops, 1.0, float(a.bytes));
}

pub(in crate::plan::registry) fn allgather_pipelined(a: &Arguments, path: &mut Path<'_>) {
    let n = a.blocks.unwrap_or(1).max(1);
    path.blocks(n);
    let hops = f64::from(a.size.saturating_sub(1));
    let block = float(a.bytes.div_ceil(n.into()));
    path.longer(
        |path| path.ring(hops, 1.0, block),
        |path| path.over(&[1], hops.min(1.0), hops * f64::from(n), hops * float(a.bytes)),
    );
    path.relayed(hops);
}

/// Rings along rows, then whole rows along columns, piece by piece.
pub(in crate::plan::registry) fn allgather_mesh(a: &Arguments, path: &mut Path<'_>) {
    mesh(a, float(a.bytes), float(a.bytes) * f64::from(a.size.saturating_sub(1)), path);
}

fn mesh(a: &Arguments, largest: f64, volume: f64, path: &mut Path<'_>) {
    let (rows, columns) = sides(a.size).unwrap_or((1, a.size));
    let (down, across) = (f64::from(rows.saturating_sub(1)), f64::from(columns.saturating_sub(1)));
    let mean = volume / f64::from(a.size.saturating_sub(1).max(1));
    let runs = path.runs(f64::from(columns), mean);
    let run = mean * f64::from(columns) / runs;
    path.longer(
        |path| {
            path.over(&[1], across, across, across * largest);
            path.over(&[columns], down, down, down * run.max(largest));
            if down > 0.0 {
                path.over(&[columns], 0.0, runs - 1.0, (runs - 1.0) * run);
            }
        },
        |path| path.over(&[1, columns], 1.0, across + down * runs, volume),
    );
    path.relayed(across + down);
}

// --- allgatherv -------------------------------------------------------------------------------------------

fn largest(a: &Arguments) -> f64 {
    float(a.counts.iter().copied().max().unwrap_or(0))
}

fn volume(a: &Arguments) -> f64 {
    float(a.counts.iter().sum::<u64>() - a.counts.iter().min().copied().unwrap_or(0))
}

/// The arguments of the allgather that it is where all counts are equal: no count need be looked at then.
pub(in crate::plan::registry) fn regular(a: &Arguments) -> Option<Arguments> {
    let bytes = *a.counts.first()?;
    let equal = a.counts.iter().all(|count| *count == bytes);
    equal.then(|| Arguments { size: a.size, bytes, blocks: a.blocks, ..Arguments::default() })
}

fn unequal(a: &Arguments, widths: Vec<(u32, u32)>, path: &mut Path<'_>) {
    if a.counts.iter().all(|count| *count == a.counts[0]) {
        return overlapping(a, widths, path);
    }
    // In the simulator rounds of unequal messages overlap; on real links all of them are late, see IN_TURNS.
    for (distance, width) in widths {
        path.hop(distance, 1.0, rules::IN_TURNS * float(heaviest(&a.counts, width)));
    }
}

fn overlapping(a: &Arguments, widths: Vec<(u32, u32)>, path: &mut Path<'_>) {
    let rounds = widths.into_iter().map(|(d, width)| (d, width, float(heaviest(&a.counts, width)))).collect();
    Windows { rounds, largest: largest(a) }.walk(path);
}

/// In one block, backwards: what comes for one round is combined before the next is sent.
pub(super) fn allgatherv_backwards(a: &Arguments, path: &mut Path<'_>) {
    path.blocks(1);
    overlapping(a, circulant_widths(a.size), path);
}

/// The most bytes that `width` consecutive owners have.
pub(super) fn heaviest(counts: &[u64], width: u32) -> u64 {
    rules::heaviest_window(counts, width as usize)
}

/// One block: as the windows say. More: what the rule for n counts, see [`rules::allgatherv_blocks`].
pub(in crate::plan::registry) fn allgatherv(a: &Arguments, path: &mut Path<'_>) {
    if a.counts.len() < 2 {
        return;
    }
    if let Some(a) = regular(a) {
        return allgather_pieces(&a, path);
    }
    let owners = a.counts.iter().filter(|count| **count > 0).count();
    let widths = circulant_widths(a.size);
    let n = a.blocks.unwrap_or_else(|| rules::allgatherv_n(&a.counts, path.model()));
    if owners == 1 {
        return circulant(a, n, largest(a), path);
    }
    path.blocks(n);
    if n == 1 {
        return unequal(a, widths, path);
    }
    let puts = rules::puts(
        &a.counts,
        n,
        a.counts.iter().copied().max().unwrap_or(0),
        &Circulant::new(a.size),
        path.model(),
    );
    let heavy: f64 = widths.iter().map(|w| float(heaviest(&a.counts, w.1))).sum();
    let (q, n) = (f64::from(q(a.size)), f64::from(n));
    let stalls = 0.3 * ((heavy - volume(a)).max(0.0) + q * largest(a)) / n;
    let puts = puts.unwrap_or(n * f64::from(a.size));
    // A block's way and a link's work: half of the shorter goes on during the longer.
    let way = |path: &mut Path<'_>, part: f64| {
        path.over(&skips(a.size), part * (q + 1.0), part * q, part * q * largest(a) / n);
    };
    let work = |path: &mut Path<'_>, part: f64| {
        path.over(&skips(a.size), part, part * (q + puts), part * (volume(a) + stalls));
    };
    path.longer(
        |path| {
            way(path, 1.0);
            work(path, 0.5);
        },
        |path| {
            way(path, 0.5);
            work(path, 1.0);
        },
    );
}

pub(in crate::plan::registry) fn allgatherv_bruck(a: &Arguments, path: &mut Path<'_>) {
    match regular(a) {
        Some(a) => allgather_bruck(&a, path),
        None => unequal(a, doubling_widths(a.size), path),
    }
}

/// The largest contribution is waited for in every round.
pub(in crate::plan::registry) fn allgatherv_ring(a: &Arguments, path: &mut Path<'_>) {
    let hops = f64::from(a.size.saturating_sub(1));
    path.ring(hops, 1.0, largest(a));
}

/// Every block of every owner passes a link once; the first p−1 hops are not hidden.
pub(in crate::plan::registry) fn allgatherv_pipelined(a: &Arguments, path: &mut Path<'_>) {
    if let Some(a) = regular(a) {
        return allgather_pipelined(&a, path);
    }
    let most = a.counts.iter().copied().max().unwrap_or(0);
    let by_rule = || most.div_ceil(rules::ring_block(&a.counts, path.model()).max(1)).max(1);
    let n = a.blocks.unwrap_or_else(|| u32::try_from(by_rule()).unwrap_or(u32::MAX));
    path.blocks(n);
    let rounds = f64::from(pipelined_rounds(a, n));
    let (hops, block) = (f64::from(a.size.saturating_sub(1)), float(block_of(&a.counts, n)).min(largest(a)));
    path.longer(
        |path| path.over(&[1], hops, hops + f64::from(n) - 1.0, (hops + f64::from(n) - 1.0) * block),
        |path| path.over(&[1], hops, rounds.max(hops), volume(a)),
    );
}

pub(in crate::plan::registry) fn allgatherv_mesh(a: &Arguments, path: &mut Path<'_>) {
    if let Some(a) = regular(a) {
        return allgather_mesh(&a, path);
    }
    let (rows, columns) = sides(a.size).unwrap_or((1, a.size));
    let volume = float(heaviest(&a.counts, columns)) * f64::from(rows.saturating_sub(1))
        + largest(a) * f64::from(columns.saturating_sub(1));
    mesh(a, largest(a), volume, path);
}
