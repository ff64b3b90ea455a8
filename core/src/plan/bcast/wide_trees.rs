//! Every block down its own tree, which is the best one for the wire's latency: fewer hops than
//! ⌈log2 p⌉ where many blocks fit on the wire. m bytes to every rank, any p and n.
//!
//! # How fast it can be
//!
//! Let a put of a block hold a link for s = o + βm/n, its *slot*. The root's link is busy for n slots, as each block must
//! leave it once. A block that has left the root alone is passed on among P = p−1 ranks, at best down the tree in which
//! every rank that has it sends it on without a pause (Karp, Sahay, Santos, Schauser, Optimal broadcast and summation in
//! the LogP model, 1993; they call such broadcasts of many items single-sending). If that takes B(P), all takes
//!
//! > T = n·s + L + B(P)
//!
//! and no broadcast in which the root sends each block once takes less. With L = 0 the tree is binomial, and B = ⌈log2 P⌉
//! slots; with L ≥ P slots it is a star, B = L + (P−1)·s, and T = βm + 2L plus small terms: below C = βm + q(L+o).
//!
//! # The trees
//!
//! With λ = L/s slots, rounded, the tree is one of a family: its root's children are the positions
//!
//! > s_0 = 1, s_{k+1} = s_k + s_{max(k−λ, 0)}
//!
//! (λ = 0: the powers of two; λ = 1: Fibonacci's numbers; large λ: 1, 2, 3, …) cut off at the number of positions. The
//! child at distance s_k has a subtree of s_{max(k−λ, 0)} positions, and children at the first max(k−λ, 0) of these distances from it,
//! and so on. Those with the largest subtrees are sent to first. So with K = the number of s_k < P the last position has its
//! block K slots and a latency after the tree's root, and others earlier.
//!
//! Block b has its tree's root at rank b mod P of the P ranks behind the root, and all other positions by as much further on: every
//! rank is in each position once in P blocks, so all send equally much, and a rank has K peers to send to, not P−1.
//!
//! # One put at a time
//!
//! The edge into position x has a *label* t(x), larger than that of its parent, and block b takes it in round 2b + t(x). The
//! rank in position x then is ρ = x + b mod P, so 2b + t(x) − 2ρ = t(x) − 2x modulo 2P. Two puts of a rank cannot be in the same round if
//! t(x) − 2·parent(x) differ for all x modulo 2P, nor two to it if t(x) − 2x do. Labels are given from the top, each the first that is
//! free. There is always one: of 2P residues the P−1 other edges take two at most, which leaves two.
//!
//! Rounds are but priorities when it runs. Puts to leaves are P blocks late in them: what others wait for goes first.

use super::rooted::{absolute, check, check_blocks, relative};
use crate::error::Result;
use crate::machine::LogGp;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{line, q};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::rules;
use crate::plan::split::Split;
use crate::plan::{Kind, Place, Plan, Region, Sizes, Step, Wait};
use std::collections::VecDeque;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Bcast,
    "wide_trees",
    ["any p, root, n", "<= 2n + 2(q+2)(p-1)", "m", "Karp, Sahay, Santos, Schauser 1993"],
    |a, n| most_rounds(a.size, n),
    |a, model| {
        let n = blocks(a, model);
        Ok(Box::new(Bcast::new(a.size, a.root, a.bytes, n, rules::wide_lag(a.bytes, n, model))?))
    },
)
.costs(cost);

fn blocks(a: &Arguments, model: &LogGp) -> u32 {
    a.blocks.unwrap_or_else(|| rules::wide_blocks(a.size, a.bytes, model))
}

/// A label is at most 2P beyond that of its parent or the slot in which it would be sent, whichever is later, a leaf's 4P; there are
/// q levels at most, and the slots end before 2P.
fn most_rounds(size: u32, n: u32) -> u32 {
    let others = size.saturating_sub(1);
    if others == 0 { 0 } else { n.saturating_add((q(size) + 2).saturating_mul(others)).saturating_mul(2) }
}

fn cost(a: &Arguments, path: &mut Path<'_>) {
    let n = blocks(a, path.model());
    path.blocks(n);
    let [hops, puts] = rules::wide_shape(a.size, n, a.bytes, path.model());
    path.with_all(hops, puts, puts * float(a.bytes) / f64::from(n));
}

/// No position.
const NONE: u32 = u32::MAX;

/// The tree of block 0; those of others are the same further on.
#[derive(Clone, Debug)]
struct Tree {
    positions: u32,
    /// By position: its parent, and the label of the edge into it.
    parent: Vec<u32>,
    label: Vec<u32>,
    /// All positions but the first by their parents; and by position where its children begin, and the end of all.
    children: Vec<u32>,
    first: Vec<u32>,
}

/// By residue modulo 2P: whether a rank sends over an edge of such a label, and whether it receives over one.
struct Taken {
    out: Vec<bool>,
    into: Vec<bool>,
}

impl Tree {
    /// The tree of `positions` ranks, at least 1, where a put arrives `lag` slots after it has left.
    fn new(positions: u32, lag: u32) -> Self {
        let skips = rules::wide_skips(positions, lag);
        let (parent, label) = (vec![NONE; positions as usize], vec![0; positions as usize]);
        let mut tree = Self { positions, parent, label, children: Vec::new(), first: Vec::new() };
        let free = || vec![false; 2 * positions as usize];
        let mut taken = Taken { out: free(), into: free() };
        // The edge from the broadcast's root.
        taken.into[0] = true;
        // Position, how many of the distances have children, and twice the slot of the first one.
        let mut nodes = VecDeque::from([(0, skips.len() - 1, 1)]);
        while let Some((from, children, first)) = nodes.pop_front() {
            let present = (0..children).rev().filter(|k| skips[*k] < positions - from);
            for (late, k) in (0..).zip(present) {
                let (to, grandchildren) = (from + skips[k], k.saturating_sub(lag as usize));
                let sent = first + 2 * late;
                let wanted = sent + if grandchildren == 0 { 2 * positions } else { 0 };
                tree.add(from, to, wanted, &mut taken);
                nodes.push_back((to, grandchildren, sent + 2 + 2 * lag.min(positions)));
            }
        }
        tree.list_children();
        tree
    }

    fn list_children(&mut self) {
        let mut first = vec![0; self.positions as usize + 1];
        self.parent
            .iter()
            .filter(|parent| **parent != NONE)
            .for_each(|parent| first[*parent as usize + 1] += 1);
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        self.children = (1..self.positions).collect();
        self.children.sort_by_key(|child| self.parent[*child as usize]);
        self.first = first;
    }

    /// The children of a position.
    fn children(&self, position: u32) -> &[u32] {
        let at = position as usize;
        &self.children[self.first[at] as usize..self.first[at + 1] as usize]
    }

    /// Gives the edge between two positions the first label that is free, from `wanted` on.
    fn add(&mut self, from: u32, to: u32, wanted: u32, taken: &mut Taken) {
        let mut label = wanted.max(self.label[from as usize] + 1);
        let (out, into) = loop {
            let [out, into] = [from, to].map(|position| self.residue(position, label));
            if !taken.out[out] && !taken.into[into] {
                break (out, into);
            }
            label += 1;
        };
        (taken.out[out], taken.into[into]) = (true, true);
        (self.parent[to as usize], self.label[to as usize]) = (from, label);
    }

    /// (`label` − 2·`position`) mod 2P.
    fn residue(&self, position: u32, label: u32) -> usize {
        let all = 2 * self.positions;
        ((label % all + all - 2 * position) % all) as usize
    }
}

/// A broadcast down a tree per block.
#[derive(Clone, Debug)]
pub(crate) struct Bcast {
    size: u32,
    root: u32,
    split: Split,
    tree: Tree,
}

impl Bcast {
    /// Broadcasts `bytes` bytes from `root` to all of `size` ranks in `blocks` blocks, where a put of a block arrives `lag` times as
    /// long after it has left as its sender's link is busy with it.
    ///
    /// # Errors
    /// If there is no such root, or `blocks` is 0 or above [`MAX_COUNTERS`](crate::plan::MAX_COUNTERS).
    pub(crate) fn new(size: u32, root: u32, bytes: u64, blocks: u32, lag: u32) -> Result<Self> {
        check(size, root)?;
        check_blocks(blocks)?;
        let tree = Tree::new((size - 1).max(1), lag);
        Ok(Self { size, root, split: Split::new(bytes, blocks), tree })
    }

    /// The blocks that are not empty: number, place and length.
    fn blocks(&self) -> impl Iterator<Item = (u32, Place, u64)> + '_ {
        let block = move |b| {
            let (offset, len) = self.split.block(b);
            (b, Place::new(Region::Output, offset), len)
        };
        (0..self.split.blocks()).map(block).filter(|(.., len)| *len > 0)
    }

    /// The round in which block `b` takes the edge into a position.
    fn round(&self, b: u32, position: u32) -> u32 {
        self.tree.label[position as usize] + 2 * b
    }

    /// The rank in a position of the tree of block `b`.
    fn rank(&self, position: u32, b: u32) -> u32 {
        let ring = self.tree.positions;
        absolute(1 + (position + b % ring) % ring, self.root, self.size)
    }
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
        let Some(r) = relative(rank, self.root, self.size).checked_sub(1) else {
            let blocks = self.blocks().filter(move |_| self.size > 1);
            return Box::new(blocks.map(move |(b, place, len)| {
                Step::put(2 * b, self.rank(0, b), place, place, len, Wait::NONE, b)
            }));
        };
        let positions = self.tree.positions;
        let mut steps = Vec::new();
        for (b, place, len) in self.blocks() {
            // Where this rank is in the tree of the block.
            let at = (r + positions - b % positions) % positions;
            let from = match self.tree.parent[at as usize] {
                NONE => self.root,
                parent => self.rank(parent, b),
            };
            steps.push(Step::expect(self.round(b, at), from, place, place, len, b));
            steps.extend(self.tree.children(at).iter().map(|&to| {
                Step::put(self.round(b, to), self.rank(to, b), place, place, len, Wait::once(b), b)
            }));
        }
        // No two puts of a rank are in one round, nor two arrivals.
        steps.sort_by_key(|step| (step.round, step.kind == Kind::Expect));
        Box::new(steps.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every position has a parent before it, one of the tree's distances away. Where a latency is longer than all puts the tree is a
    /// star, without one it is binomial.
    #[test]
    fn trees_are_as_deep_as_the_lag_allows() {
        for positions in 1..200 {
            for lag in [positions, 9, 3, 1, 0] {
                let (tree, skips) = (Tree::new(positions, lag), rules::wide_skips(positions, lag));
                let mut depth = vec![0u32; positions as usize];
                for to in 1..positions {
                    let from = tree.parent[to as usize];
                    assert!(from < to && skips.contains(&(to - from)), "{to} of {positions}, lag {lag}");
                    assert!(tree.label[from as usize] < tree.label[to as usize]);
                    depth[to as usize] = depth[from as usize] + 1;
                }
                let deepest = depth.into_iter().max().unwrap_or(0);
                assert!(deepest <= q(positions), "{positions}, lag {lag}");
                if lag == positions {
                    assert!(deepest <= 1, "a star of {positions}");
                }
                if lag == 0 {
                    assert_eq!(deepest, positions.ilog2(), "a binomial tree of {positions}");
                }
            }
        }
    }
}
