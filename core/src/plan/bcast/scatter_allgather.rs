//! Scatter and allgather (van de Geijn): 2q rounds, m bytes to every rank, any p.
//!
//! The message is cut into p pieces, one for every distance from the root. A binomial tree scatters them:
//! distance r gets the pieces of its whole subtree, r .. r+extent(r), in one put. Then the circulant
//! allgather (Träff 2022, Algorithm 7) collects them: in its round k distance r puts the first
//! skips[k+1]−skips\[k\] pieces of r .. r+skips\[k\] to r−skips\[k\]. As puts are to the final memory, a rank that
//! has pieces of others from the scatter is not sent them again, and the root is sent nothing: the volume is
//! m instead of the textbook's up to 2m.
//!
//! Counter 0 is the scatter's arrival, 1+k counts the arrivals of round k of the allgather, and 1+q+k is the
//! join of all that comes before them.

use super::binomial::Binomial;
use super::rooted::{absolute, check, relative};
use super::tree::Shape;
use crate::error::Result;
use crate::plan::registry::cost::{Path, float, floor_log, powers, skips};
use crate::plan::registry::line::{line, q};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::split::Split;
use crate::plan::{NO_COUNTER, Place, Plan, Region, Sizes, Step, Wait};
use crate::schedule::Circulant;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Bcast,
    "scatter_allgather",
    ["any p, root; n = 1", "2q", "m", "van de Geijn; the allgather is Träff 2022, Algorithm 7"],
    |a, _| 2 * q(a.size),
    |a, _| Ok(Box::new(Bcast::new(a.size, a.root, a.bytes)?)),
)
.costs(cost);

/// All but a piece twice: down the tree, and around.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    let (rounds, bytes) = (f64::from(q(a.size)), float(a.bytes));
    let rest = bytes - bytes / f64::from(a.size.max(1));
    path.alone(|path| path.over(&powers(a.size), floor_log(a.size).into(), rounds, rest));
    path.over(&skips(a.size), (rounds - 1.0).max(0.0), rounds, rest);
}

/// A broadcast by scatter and allgather.
#[derive(Clone, Copy, Debug)]
pub struct Bcast {
    graph: Circulant,
    root: u32,
    /// Over the distances from the root.
    tree: Binomial,
    pieces: Split,
}

impl Bcast {
    /// Broadcasts `bytes` bytes from `root` to all of `size` ranks.
    ///
    /// # Errors
    /// If there is no such root.
    pub fn new(size: u32, root: u32, bytes: u64) -> Result<Self> {
        check(size, root)?;
        let tree = Binomial { size, root: 0 };
        Ok(Self { graph: Circulant::new(size), root, tree, pieces: Split::new(bytes, size) })
    }

    /// The bytes of pieces `first..end`, unless there are none.
    fn run(&self, first: u32, end: u32) -> Option<(Place, u64)> {
        let (begin, end) = (self.pieces.start(first), self.pieces.start(end));
        (begin < end).then_some((Place::new(Region::Output, begin), end - begin))
    }

    /// What distance `r` gets in the scatter.
    fn scattered(&self, r: u32) -> Option<(Place, u64)> {
        self.run(r, r + self.tree.extent(r))
    }

    /// What distance `r` gets in round `k` of the allgather: at most two runs.
    fn gathered(&self, r: u32, k: u32) -> impl Iterator<Item = (Place, u64)> {
        let p = self.size();
        // Pieces at these distances from r on are wanted; those of the subtree are here already.
        let begin = self.graph.skip(k).max(self.tree.extent(r));
        let end = self.graph.skip(k + 1).max(begin);
        let wrap = (p - r).clamp(begin, end);
        let head = self.run(r + begin.min(p - r), r + wrap.min(p - r));
        let tail = if wrap < end { self.run(wrap - (p - r), end - (p - r)) } else { None };
        head.into_iter().chain(tail)
    }

    fn rank(&self, r: u32) -> u32 {
        absolute(r, self.root, self.size())
    }

    fn scatter(&self, r: u32, steps: &mut Vec<Step>) {
        if let Some((from, round)) = self.tree.parent(r)
            && let Some((place, len)) = self.scattered(r)
        {
            steps.push(Step::expect(round, self.rank(from), place, place, len, 0));
        }
        let wait = if r == 0 { Wait::NONE } else { Wait::once(0) };
        for (to, round) in self.tree.children(r) {
            if let Some((place, len)) = self.scattered(to) {
                steps.push(Step::put(round, self.rank(to), place, place, len, wait, 0));
            }
        }
    }

    fn allgather(&self, r: u32, steps: &mut Vec<Step>) {
        let (p, q) = (self.size(), self.graph.q());
        let mut held = [Wait::NONE; 2];
        if r > 0 && self.scattered(r).is_some() {
            held[0] = Wait::once(0);
        }
        for k in 0..q {
            let (round, skip) = (q + k, self.graph.skip(k));
            let (to, from) = ((r + p - skip) % p, (r + skip) % p);
            for (place, len) in self.gathered(to, k) {
                let put = Step::put(round, self.rank(to), place, place, len, Wait::NONE, 1 + k);
                steps.push(Step { waits: held, ..put });
            }
            let mut runs = 0;
            let before = steps.len();
            for (place, len) in self.gathered(r, k) {
                steps.push(Step::expect(round, self.rank(from), place, place, len, 1 + k));
                runs += 1;
            }
            if runs == 0 {
                continue;
            }
            // What is held from now on: this round's arrivals and all that was held.
            if held[1] != Wait::NONE {
                steps.insert(before, Step::join(round, held, 1 + q + k));
                held = [Wait::once(1 + q + k), Wait::NONE];
            }
            let arrived = Wait { counter: 1 + k, at_least: runs };
            held = if held[0].counter == NO_COUNTER { [arrived, Wait::NONE] } else { [held[0], arrived] };
        }
    }
}

impl Plan for Bcast {
    fn algorithm(&self) -> &'static str {
        "scatter_allgather"
    }

    fn size(&self) -> u32 {
        self.graph.p()
    }

    fn rounds(&self) -> u32 {
        2 * self.graph.q()
    }

    fn counters(&self, rank: u32) -> u32 {
        if rank == self.root { 0 } else { 1 + 2 * self.graph.q() }
    }

    fn sizes(&self, _rank: u32) -> Sizes {
        Sizes { output: self.pieces.bytes(), ..Sizes::default() }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let r = relative(rank, self.root, self.size());
        let mut steps = Vec::new(); // O(q)
        self.scatter(r, &mut steps);
        self.allgather(r, &mut steps);
        Box::new(steps.into_iter())
    }
}
