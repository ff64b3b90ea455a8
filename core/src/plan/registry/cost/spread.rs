//! Costs of what spreads bytes and adds nothing: allgather(v), barrier, and what broadcasts share with others.

use super::{Path, float};
use crate::plan::registry::Arguments;
use crate::plan::rules;
use crate::schedule::Circulant;

/// Distances of the circulant graph.
pub(in crate::plan) fn skips(size: u32) -> Vec<u32> {
    let graph = Circulant::new(size.max(1));
    graph.skips()[..graph.q() as usize].to_vec()
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
pub(in crate::plan) fn shape(size: u32, n: u32, bytes: f64, path: &Path<'_>) -> (f64, f64) {
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

pub(in crate::plan) fn equal(a: &Arguments, widths: Vec<(u32, u32)>, path: &mut Path<'_>) {
    let bytes = float(a.bytes);
    let rounds = widths.into_iter().map(|(distance, width)| (distance, width, f64::from(width) * bytes));
    Windows { rounds: rounds.collect(), largest: bytes }.walk(path);
}

/// By round of the circulant graph: its skip and the owners of a message.
pub(in crate::plan) fn circulant_widths(size: u32) -> Vec<(u32, u32)> {
    let graph = Circulant::new(size.max(1));
    (0..graph.q()).map(|k| (graph.skip(k), graph.skip(k + 1) - graph.skip(k))).collect()
}

// --- allgatherv -------------------------------------------------------------------------------------------

pub(in crate::plan) fn largest(a: &Arguments) -> f64 {
    float(a.counts.iter().copied().max().unwrap_or(0))
}

pub(in crate::plan) fn volume(a: &Arguments) -> f64 {
    float(a.counts.iter().sum::<u64>() - a.counts.iter().min().copied().unwrap_or(0))
}

/// The arguments of the allgather that it is where all counts are equal: no count need be looked at then.
pub(in crate::plan) fn regular(a: &Arguments) -> Option<Arguments> {
    let bytes = *a.counts.first()?;
    let equal = a.counts.iter().all(|count| *count == bytes);
    equal.then(|| Arguments { size: a.size, bytes, blocks: a.blocks, ..Arguments::default() })
}

pub(in crate::plan) fn unequal(a: &Arguments, widths: Vec<(u32, u32)>, path: &mut Path<'_>) {
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
pub(in crate::plan) fn allgatherv_backwards(a: &Arguments, path: &mut Path<'_>) {
    path.blocks(1);
    overlapping(a, circulant_widths(a.size), path);
}

/// The most bytes that `width` consecutive owners have.
pub(in crate::plan) fn heaviest(counts: &[u64], width: u32) -> u64 {
    rules::heaviest_window(counts, width as usize)
}
