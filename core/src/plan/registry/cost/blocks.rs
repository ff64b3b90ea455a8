//! Costs of gather(v) and scatter(v).

use super::folds::in_turns;
use super::{COPY_NS, Path, float, floor_log, powers};
use crate::plan::registry::{Arguments, q};
use crate::plan::tree::{Tree, binomial::Binomial, size_aware::SizeAware};

pub(in crate::plan) fn others(a: &Arguments) -> f64 {
    f64::from(a.size.saturating_sub(1))
}

/// Of all but the root: how many have bytes, and how many.
fn foreign(a: &Arguments) -> (f64, f64) {
    let foreign = (0..).zip(&a.counts).filter(|(rank, count)| *rank != a.root && **count > 0);
    foreign.fold((0.0, 0.0), |(n, bytes), (_, count)| (n + 1.0, bytes + float(*count)))
}

/// All put at once: the root's link in is what counts.
pub(in crate::plan::registry) fn gather_direct(a: &Arguments, path: &mut Path<'_>) {
    path.alone(|path| path.to_all(others(a).min(1.0), others(a).min(1.0), others(a) * float(a.bytes)));
}

pub(in crate::plan::registry) fn gatherv_direct(a: &Arguments, path: &mut Path<'_>) {
    let (n, bytes) = foreign(a);
    path.alone(|path| path.to_all(n.min(1.0), n.min(1.0), bytes));
}

/// A run goes on when it is here: a round waits for the last half of its message.
pub(in crate::plan::registry) fn gather_binomial(a: &Arguments, path: &mut Path<'_>) {
    let (bytes, one) = (float(a.bytes), others(a).min(1.0));
    let by_rounds = |path: &mut Path<'_>| {
        for d in powers(a.size).into_iter().take(floor_log(a.size).max(1) as usize) {
            path.hop(d, 1.0, f64::from((d / 2).max(1)) * bytes);
        }
        path.over(&[1], 0.0, 0.0, one * bytes);
    };
    path.alone(|path| path.longer(by_rounds, |path| path.over(&powers(a.size), one, one, others(a) * bytes)));
}

/// As for equal blocks, of the mean length.
pub(in crate::plan::registry) fn gatherv_binomial(a: &Arguments, path: &mut Path<'_>) {
    up(a, Binomial::new(a.size, a.root).ok().as_ref().map(|tree| tree as &dyn Tree), path);
}

pub(in crate::plan::registry) fn gatherv_size_aware(a: &Arguments, path: &mut Path<'_>) {
    up(a, SizeAware::new(&a.counts, a.root).ok().as_ref().map(|tree| tree as &dyn Tree), path);
}

/// The root puts to all, one after the other.
pub(in crate::plan::registry) fn scatter_direct(a: &Arguments, path: &mut Path<'_>) {
    path.fan(others(a), others(a) * float(a.bytes));
}

pub(in crate::plan::registry) fn scatterv_direct(a: &Arguments, path: &mut Path<'_>) {
    let (n, bytes) = foreign(a);
    path.fan(n, bytes);
}

/// Halves, quarters, …: all but one block in the end, by q hops.
pub(in crate::plan::registry) fn scatter_binomial(a: &Arguments, path: &mut Path<'_>) {
    let (rounds, bytes) = (f64::from(q(a.size)), float(a.bytes));
    // Heavy runs of a message are puts of their own.
    let runs = if path.shared(rounds, bytes) { 0.0 } else { rounds * (rounds - 1.0) / 2.0 };
    let joined = path.runs(others(a), bytes);
    let turns = in_turns(path);
    path.alone(|path| {
        let puts = rounds + runs.min(joined);
        path.over(&powers(a.size), floor_log(a.size).into(), puts, turns * others(a) * bytes)
    });
}

pub(in crate::plan::registry) fn scatterv_binomial(a: &Arguments, path: &mut Path<'_>) {
    down(a, Binomial::new(a.size, a.root).ok().as_ref().map(|tree| tree as &dyn Tree), path);
}

pub(in crate::plan::registry) fn scatterv_size_aware(a: &Arguments, path: &mut Path<'_>) {
    down(a, SizeAware::new(&a.counts, a.root).ok().as_ref().map(|tree| tree as &dyn Tree), path);
}

/// A path through a tree: hops, puts, bytes, and their price while it is built.
#[derive(Clone, Copy, Default)]
struct Way {
    hops: f64,
    puts: f64,
    bytes: f64,
    copied: f64,
}

impl Way {
    fn price(self, path: &Path<'_>) -> f64 {
        let model = path.model();
        self.hops * float(model.latency_ns)
            + self.puts * float(model.overhead_ns)
            + self.bytes * float(model.byte_ps) / 1000.0
            + self.copied * COPY_NS
    }

    fn walk(self, path: &mut Path<'_>) {
        let distances = powers(path.size);
        path.alone(|path| path.over(&distances, self.hops, self.puts, self.bytes));
        path.copy(self.copied);
    }
}

/// Down a tree: every edge in turn, the last round's first; who passes blocks on copies its own in the end.
fn down(a: &Arguments, tree: Option<&dyn Tree>, path: &mut Path<'_>) {
    let Some(tree) = tree.filter(|_| a.counts.len() == a.size as usize) else { return };
    let sums = sums(a, tree);
    let mut slowest = Way::default();
    let mut todo = vec![(tree.root(), Way::default())];
    while let Some((rank, came)) = todo.pop() {
        let mut way = came;
        for child in tree.children(rank).into_iter().rev() {
            let bytes = float(sums[(child.first + child.width) as usize] - sums[child.first as usize]);
            if bytes > 0.0 {
                way = Way { puts: way.puts + 1.0, bytes: way.bytes + bytes, ..way };
                todo.push((child.peer, Way { hops: way.hops + 1.0, ..way }));
            }
        }
        let staged = rank != tree.root() && way.puts > came.puts;
        let own = if staged { float(a.counts[rank as usize]) } else { 0.0 };
        let end = Way { copied: own, ..came };
        if end.price(path) > slowest.price(path) {
            slowest = end;
        }
    }
    slowest.walk(path);
}

/// Up a tree: the root's link in carries all, and the deepest path must be walked; who has blocks of others copies
/// its own to them first.
fn up(a: &Arguments, tree: Option<&dyn Tree>, path: &mut Path<'_>) {
    let Some(tree) = tree.filter(|_| a.counts.len() == a.size as usize) else { return };
    let sums = sums(a, tree);
    let (n, bytes) = foreign(a);
    let mut slowest = Way { hops: n.min(1.0), puts: n.min(1.0), bytes, copied: 0.0 };
    let mut todo = vec![(tree.root(), Way::default())];
    while let Some((rank, way)) = todo.pop() {
        let mut staged = false;
        for child in tree.children(rank) {
            let bytes = float(sums[(child.first + child.width) as usize] - sums[child.first as usize]);
            if bytes > 0.0 {
                staged = rank != tree.root();
                let way = Way {
                    hops: way.hops + 1.0,
                    puts: way.puts + 1.0,
                    bytes: way.bytes + bytes / 2.0,
                    copied: 0.0,
                };
                todo.push((child.peer, way));
            }
        }
        let own = float(a.counts[rank as usize]);
        let end = if staged { Way { bytes: way.hops * own, copied: own, ..way } } else { way };
        for end in [way, end] {
            if end.price(path) > slowest.price(path) {
                slowest = end;
            }
        }
    }
    slowest.walk(path);
}

/// Bytes of all positions before.
fn sums(a: &Arguments, tree: &dyn Tree) -> Vec<u64> {
    let counts = (0..a.size).map(|position| a.counts[tree.rank(position) as usize]);
    let mut sum = 0;
    std::iter::once(0)
        .chain(counts.map(|count| {
            sum += count;
            sum
        }))
        .collect()
}
