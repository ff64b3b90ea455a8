//! Costs of a gather and a scatter along a tree.

use super::Tree;
use crate::plan::registry::Arguments;
use crate::plan::registry::cost::{Path, copy_ns, float, powers};
use crate::plan::registry::line::q;

/// How many ranks but the root have bytes, and how many bytes.
pub(super) fn foreign(a: &Arguments) -> (f64, f64) {
    if a.counts.is_empty() {
        return (a.others(), a.others() * float(a.bytes));
    }
    let foreign = (0..).zip(&a.counts).filter(|(rank, count)| *rank != a.root && **count > 0);
    foreign.fold((0.0, 0.0), |(n, bytes), (_, count)| (n + 1.0, bytes + float(*count)))
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
            + self.copied * copy_ns()
    }

    fn walk(self, path: &mut Path<'_>) {
        let distances = powers(path.size());
        path.alone(|path| path.over(&distances, self.hops, self.puts, self.bytes));
        path.copy(self.copied);
    }
}

/// Down a tree: every edge in turn, the last round's first, on a link that carries them in turns; a rank that passes blocks on copies its own in the end.
pub(super) fn down(a: &Arguments, tree: &dyn Tree, path: &mut Path<'_>) {
    if a.counts.len() != a.size as usize {
        return;
    }
    let (sums, turns) = (sums(a, tree), path.in_turns());
    let mut slowest = Way::default();
    let mut todo = vec![(tree.root(), Way::default())];
    while let Some((rank, came)) = todo.pop() {
        let mut way = came;
        for child in tree.children(rank).into_iter().rev() {
            let bytes = float(sums[(child.first + child.width) as usize] - sums[child.first as usize]);
            if bytes > 0.0 {
                way = Way { puts: way.puts + 1.0, bytes: way.bytes + turns * bytes, ..way };
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

/// Up a tree: the root's link in carries all, and the deepest path must be walked; a rank that has blocks of
/// others copies its own to them first.
pub(super) fn up(a: &Arguments, tree: &dyn Tree, path: &mut Path<'_>) {
    if a.counts.len() != a.size as usize {
        return;
    }
    let sums = sums(a, tree);
    let (n, bytes) = foreign(a);
    path.relayed(q(a.size).into());
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
