//! Two binary trees at once (Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast, reduction and
//! scan, Parallel Computing 35, 2009): at most n + 2⌊log2(p−1)⌋ rounds, m bytes to every rank, any p and n.
//!
//! A pipelined binary tree sends every block twice and leaves its leaves idle. Here each of the m = p−1 ranks behind the
//! root is an inner node of one tree at most, and a leaf of the other: even blocks go down the first, odd ones down the
//! second. The distances 1..m from the root are the positions of the first tree in symmetric order: position i with
//! lowest set bit 2^k has its children 2^(k−1) before and behind it, or, at the end, where there is one. The second tree is
//! the mirror of the first on the last even number of positions; if m is odd, position m is its last one, too.
//!
//! So that a rank receives from one and sends to one in a round, edges have colours, and in round t those of colour t mod 2
//! are used: the two edges into a rank differ, and so do the two out of it. See `colour`.

use super::rooted::{absolute, check, check_blocks, relative};
use crate::error::Result;
use crate::machine::LogGp;
use crate::plan::registry::cost::{Path, float, floor_log, powers};
use crate::plan::registry::line::{any, line};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::rules;
use crate::plan::split::Split;
use crate::plan::{Place, Plan, Region, Sizes, Step, Wait};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Bcast,
    "two_tree",
    ["any p, root, n", "<= n + 2*floor(log2(p-1))", "m", "Sanders, Speck, Träff 2009"],
    |a, n| most_rounds(a.size, n),
    |a, model| Ok(Box::new(Bcast::new(a.size, a.root, a.bytes, blocks(a, model))?)),
)
.only(any)
.costs(cost);

/// √(βm/o · 2⌊log2(p−1)⌋), from T(n) = (n + 2⌊log2(p−1)⌋)(o + βm/n) + hops·L.
fn blocks(a: &Arguments, model: &LogGp) -> u32 {
    a.blocks.unwrap_or_else(|| rules::pipeline_blocks(2 * depth(a.size), a.bytes, model))
}

/// Puts that a block waits for at a level, at most: that to the first child of a tree goes at once, that to the second after it (Sanders, Speck, Träff 2009). The last
/// blocks meet such a one at nearly every level: with 1.5, the mean, prices are 1.5 to 4 % below the simulator's times (9 to 64 ranks, 100 KB to 1 MB, L = 1 ms, o = 20 and
/// 40 µs).
const PUTS_PER_LEVEL: f64 = 2.0;

/// A block takes a hop per level; of those that follow each other, the last leaves the root in round n−1, and is passed on in
/// the next round or in the one after that.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    if a.size < 2 {
        return;
    }
    let n = blocks(a, path.model());
    path.blocks(n);
    let levels = f64::from(floor_log(a.size - 1));
    let puts = f64::from(n) + PUTS_PER_LEVEL * levels;
    path.piped_in(
        crossings(a.size, path),
        &powers(a.size),
        1.0 + levels,
        puts,
        puts * float(a.bytes) / f64::from(n),
    );
}

/// How often a byte comes to a group of ranks that follow each other from others: of the edges between positions 2^k apart every second border of a
/// group has one, which leads in or out, in each of two trees that carry every second block; and once from above.
fn crossings(size: u32, path: &Path<'_>) -> f64 {
    let ranks = path.machine().groups.nodes.saturating_mul(path.machine().per_node.max(1));
    let borders = if ranks.saturating_mul(2) < size { 2.0 } else { 1.0 };
    1.0 + borders * f64::from(floor_log(ranks.max(1))) / 4.0
}

/// The levels of a tree below its root.
fn depth(size: u32) -> u32 {
    size.saturating_sub(1).checked_ilog2().unwrap_or(0)
}

fn most_rounds(size: u32, n: u32) -> u32 {
    if size <= 1 { 0 } else { n.saturating_add(2 * depth(size)) }
}

/// A broadcast down two trees in n blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bcast {
    size: u32,
    root: u32,
    split: Split,
}

/// The blocks that an edge carries: block `tree` + 2j in round `first` + 2j.
#[derive(Clone, Copy, Debug)]
struct Edge {
    /// The rank at the other end.
    peer: u32,
    tree: u32,
    first: u32,
}

impl Edge {
    /// The block of a round.
    fn block(&self, round: u32) -> Option<u32> {
        let since = round.checked_sub(self.first)?;
        since.is_multiple_of(2).then_some(self.tree + since)
    }
}

impl Bcast {
    /// Broadcasts `bytes` bytes from `root` to all of `size` ranks in `blocks` blocks.
    ///
    /// # Errors
    /// If there is no such root, or `blocks` is 0 or above [`MAX_COUNTERS`](crate::plan::MAX_COUNTERS).
    pub(crate) fn new(size: u32, root: u32, bytes: u64, blocks: u32) -> Result<Self> {
        check(size, root)?;
        check_blocks(blocks)?;
        Ok(Self { size, root, split: Split::new(bytes, blocks) })
    }

    /// Positions behind the root.
    fn last(&self) -> u32 {
        self.size - 1
    }

    /// The position of distance `r` in a tree, and the distance of a position.
    fn position(&self, tree: u32, r: u32) -> u32 {
        let mirrored = self.last() & !1;
        if tree == 0 || r > mirrored { r } else { mirrored + 1 - r }
    }

    fn rank_at(&self, tree: u32, position: u32) -> u32 {
        absolute(self.position(tree, position), self.root, self.size)
    }

    /// The round in which a position gets its first block; in the second tree all is a round later, in the other colour.
    fn first(&self, tree: u32, position: u32) -> u32 {
        let (last, mut at, mut round) = (self.last(), position, tree);
        while let Some(up) = parent(at, last) {
            round += if colour(at, last) == colour(up, last) { 2 } else { 1 };
            at = up;
        }
        round
    }

    /// What comes to distance `r` > 0 in a tree.
    fn from(&self, tree: u32, r: u32) -> Edge {
        let position = self.position(tree, r);
        let peer = parent(position, self.last()).map_or(self.root, |up| self.rank_at(tree, up));
        Edge { peer, tree, first: self.first(tree, position) }
    }

    /// What distance `r` passes on in a tree; the root feeds both.
    fn to(&self, tree: u32, r: u32) -> impl Iterator<Item = Edge> + use<> {
        let this = *self;
        let to: [Option<u32>; 2] = match r {
            0 => [(self.last() > 0).then(|| top(self.last())), None],
            _ => children(self.position(tree, r), self.last()),
        };
        let edge = move |at| Edge { peer: this.rank_at(tree, at), tree, first: this.first(tree, at) };
        to.into_iter().flatten().map(edge)
    }
}

/// The root's position in a tree of `last` positions.
fn top(last: u32) -> u32 {
    1 << last.ilog2()
}

/// The parent of a position; none of the root's.
fn parent(position: u32, last: u32) -> Option<u32> {
    let mut at = position;
    while at != top(last) {
        let bit = at & at.wrapping_neg();
        at = if at & (bit << 1) == 0 { at + bit } else { at - bit };
        if at <= last {
            return Some(at);
        }
    }
    None
}

/// The children of a position.
fn children(position: u32, last: u32) -> [Option<u32>; 2] {
    let bit = position & position.wrapping_neg();
    let behind = std::iter::successors(Some(bit >> 1), |b| Some(b >> 1)).take_while(|b| *b > 0);
    let mut behind = behind.map(|b| position + b).filter(|at| *at <= last);
    [(bit > 1).then(|| position - bit / 2), behind.next()]
}

/// The colour of the edge into a position of the first tree; in the second tree it is the other one. In O(log p).
///
/// Siblings differ, and positions that are mirrored into each other are alike, as the two edges into a rank differ. So leaves,
/// the odd positions, are coloured as what they are mirrored into, and only the tree of even positions, half as large, is
/// left, where some neighbours must differ: those whose mirror images are siblings. A leaf of it has such a neighbour, of even
/// position, and again only half of the tree is left. Whether that neighbour is the one before or the one behind is the same on all levels.
fn colour(position: u32, last: u32) -> u32 {
    let mirrored = last & !1;
    if last == 1 {
        return 0;
    }
    if position > mirrored {
        // Not mirrored: the right child of the position before.
        return 1 ^ colour(sibling_of_last(mirrored), last);
    }
    let even = if position.is_multiple_of(2) { position } else { mirrored + 1 - position };
    let before = !mirrored.is_multiple_of(4);
    let (mut at, mut last, mut colour) = (even / 2, mirrored / 2, 0);
    while at != top(last) {
        if at.is_multiple_of(2) {
            (at, last) = (at / 2, last / 2);
        } else if before {
            // The first one has none before it; its sibling, the third, has the second.
            colour ^= u32::from(at > 1);
            (at, last) = ((at / 2).max(1), last / 2);
        } else if at < last {
            colour ^= 1;
            (at, last) = (at.div_ceil(2), last / 2);
        } else {
            colour ^= 1;
            at = sibling_of_last(last - 1);
        }
    }
    colour
}

/// The left child of an even position, whose right child is the last of the tree.
fn sibling_of_last(parent: u32) -> u32 {
    parent - (parent & parent.wrapping_neg()) / 2
}

impl Plan for Bcast {
    fn algorithm(&self) -> &'static str {
        LINE.name
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn rounds(&self) -> u32 {
        most_rounds(self.size, self.split.blocks())
    }

    fn counters(&self, rank: u32) -> u32 {
        if rank == self.root { 0 } else { self.split.blocks() }
    }

    fn sizes(&self, _rank: u32) -> Sizes {
        Sizes { output: self.split.bytes(), ..Sizes::default() }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let r = relative(rank, self.root, self.size);
        let to: Vec<Edge> = [0, 1].into_iter().flat_map(|tree| self.to(tree, r)).collect();
        let from: Vec<Edge> = [0, 1].into_iter().filter(|_| r > 0).map(|tree| self.from(tree, r)).collect();
        // What an edge carries in a round, if anything.
        let carried = |edge: Edge, round| {
            let b = edge.block(round).filter(|b| *b < self.split.blocks())?;
            let (offset, len) = self.split.block(b);
            (len > 0).then_some((edge.peer, b, Place::new(Region::Output, offset), len))
        };
        Box::new((0..self.rounds()).flat_map(move |round| {
            let puts = to.iter().filter_map(|edge| carried(*edge, round)).map(|(peer, b, place, len)| {
                let wait = if r == 0 { Wait::NONE } else { Wait::once(b) };
                Step::put(round, peer, place, place, len, wait, b)
            });
            let comes = from.iter().filter_map(|edge| carried(*edge, round));
            let expects = comes.map(|(peer, b, place, len)| Step::expect(round, peer, place, place, len, b));
            puts.chain(expects).collect::<Vec<_>>()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every position has a parent above it, whose child it is, and in the two trees no rank is an inner node of both.
    #[test]
    fn each_rank_is_an_inner_node_of_one_tree() {
        for size in 2..300 {
            let plan = Bcast::new(size, 0, 1, 1).unwrap();
            let last = plan.last();
            for r in 1..size {
                let inner = |tree| children(plan.position(tree, r), last).iter().flatten().count() > 0;
                assert!(!inner(0) || !inner(1), "distance {r} of {size}");
                match parent(r, last) {
                    Some(up) => assert!(children(up, last).contains(&Some(r)), "{r} of {last}"),
                    None => assert_eq!(r, top(last)),
                }
            }
        }
    }

    /// Colours of the edges at a rank differ, also where the trees are cut off.
    #[test]
    fn edges_into_a_rank_and_out_of_it_differ_in_colour() {
        for size in (2..1500).chain([(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 1_000_003]) {
            let plan = Bcast::new(size, 0, 1, 1).unwrap();
            let last = plan.last();
            for r in (1..size).step_by(if size < 1500 { 1 } else { 997 }) {
                let into = [0, 1].map(|tree| tree ^ colour(plan.position(tree, r), last));
                assert_ne!(into[0], into[1], "into distance {r} of {size}");
                if let [Some(one), Some(other)] = children(r, last) {
                    assert_ne!(colour(one, last), colour(other, last), "out of {r} of {size}");
                }
            }
        }
    }
}
