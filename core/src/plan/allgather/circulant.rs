//! The allgather in q rounds of at most two runs each (Träff 2022, Algorithm 7, without its rotated
//! buffer: a window of ranks mod p is at most two contiguous runs of the output).
//!
//! After round k rank r holds the contributions of ranks `r .. r+skips[k+1]`, and in round k it puts the
//! first `skips[k+1]−skips[k]` of them to `r−skips[k]`. Optimal rounds and optimal volume at once, for any p;
//! O(q) steps. A run leaves when all of it is there: right for light contributions. Heavy ones do better
//! piece by piece, with [`allgatherv`](crate::plan::allgatherv::circulant) and one block.
//!
//! Contributions may have a length each, where they lie one after the other in the order of ranks: O(q) steps with 10^5 ranks, too.
//!
//! Counter k counts the arrivals of round k, counter q our own copy to the output, and q+1+k is the join
//! of that copy with the arrivals of rounds 0..=k.

use super::check::check;
use crate::error::{Result, argument};
use crate::plan::partial::Pieces;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{by_q, line};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::{NO_COUNTER, Place, Plan, Region, Sizes, Step, Wait};
use crate::schedule::{Circulant, MAX_P};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Allgather,
    "circulant",
    ["any p; n = 1", "q", "m - m/p", "Träff 2022, Algorithm 7"],
    by_q,
    |a, _| Ok(Box::new(Allgather::new(a.size, a.bytes, a.in_place)?)),
)
.costs(cost);

/// q rounds in lock-step, of two runs where they wrap and are not light.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    let (graph, bytes) = (Circulant::new(a.size.max(1)), path.alike_in_turns() * float(a.bytes));
    for k in 0..graph.q() {
        let width = f64::from(graph.skip(k + 1) - graph.skip(k));
        let wraps = width > 1.0 && !path.shared(2.0, width / 2.0 * bytes);
        path.hop(graph.skip(k), if wraps { 2.0 } else { 1.0 }, width * bytes);
    }
}

/// An allgather of contributions that lie one after the other.
#[derive(Clone, Debug)]
pub struct Allgather {
    graph: Circulant,
    pieces: Pieces,
    in_place: bool,
}

impl Allgather {
    /// Gathers `count` bytes of each of `size` ranks, rank j's at j·`count` of every rank's output.
    ///
    /// # Errors
    /// If there are 0 or more than [`MAX_P`] ranks, or the output is beyond 2^64 bytes.
    pub fn new(size: u32, count: u64, in_place: bool) -> Result<Self> {
        check(size, count)?;
        Ok(Self { graph: Circulant::new(size), pieces: Pieces::Equal { count, parts: size }, in_place })
    }

    /// Gathers `counts[j]` bytes of each rank j, one behind the other.
    ///
    /// # Errors
    /// If there are 0 or more than [`MAX_P`] ranks, or the output is beyond 2^64 bytes.
    pub fn irregular(counts: &[u64], in_place: bool) -> Result<Self> {
        let size = u32::try_from(counts.len()).ok().filter(|p| (1..=MAX_P).contains(p));
        let size = size.ok_or_else(|| argument(format!("allgatherv among {} ranks", counts.len())))?;
        Ok(Self { graph: Circulant::new(size), pieces: Pieces::given(counts)?, in_place })
    }

    /// How many ranks' contributions move in round `k`.
    fn width(&self, k: u32) -> u32 {
        self.graph.skip(k + 1) - self.graph.skip(k)
    }

    /// What stands for "own copy done and the rounds before `k` arrived", as two waits.
    fn held(&self, rank: u32, k: u32) -> [Wait; 2] {
        let q = self.graph.q();
        if k == 0 {
            let copied = !self.in_place && self.pieces.len(rank) > 0;
            return [if copied { Wait::once(q) } else { Wait::NONE }, Wait::NONE];
        }
        // Round k-1 came in as many runs as its window has at this rank.
        let runs = self.pieces.runs(self.graph.to(rank, k - 1), self.width(k - 1)).count();
        let before = if k == 1 { self.held(rank, 0)[0] } else { Wait::once(q + k - 1) };
        match u32::try_from(runs) {
            Ok(at_least @ 1..) => [Wait { counter: k - 1, at_least }, before],
            _ => [before, Wait::NONE],
        }
    }

    fn place(&self, rank: u32) -> Place {
        Place::new(Region::Output, self.pieces.start(rank))
    }

    fn round(&self, rank: u32, k: u32) -> impl Iterator<Item = Step> + '_ {
        let (to, from) = (self.graph.from(rank, k), self.graph.to(rank, k));
        let (q, held) = (self.graph.q(), self.held(rank, k));
        // The first round sends our contribution before its copy is made.
        let source = move |at| if k == 0 && !self.in_place { Place::new(Region::Input, 0) } else { at };
        let join = (k > 0).then(|| Step::join(k, held, q + k));
        let puts = self.pieces.runs(rank, self.width(k)).map(move |(at, len)| {
            let place = Place::new(Region::Output, at);
            let waits = if k == 0 { [Wait::NONE; 2] } else { held };
            Step { waits, ..Step::put(k, to, source(place), place, len, Wait::NONE, k) }
        });
        let expects = self.pieces.runs(from, self.width(k)).map(move |(at, len)| {
            let place = Place::new(Region::Output, at);
            Step::expect(k, from, source(place), place, len, k)
        });
        puts.chain(join).chain(expects)
    }
}

impl Plan for Allgather {
    fn algorithm(&self) -> &'static str {
        "circulant"
    }

    fn size(&self) -> u32 {
        self.graph.p()
    }

    fn rounds(&self) -> u32 {
        self.graph.q()
    }

    fn counters(&self, _rank: u32) -> u32 {
        2 * self.graph.q() + 1
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let input = if self.in_place { 0 } else { self.pieces.len(rank) };
        Sizes { input, output: self.pieces.bytes(), ..Sizes::default() }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        if self.pieces.is_empty() {
            return Box::new(std::iter::empty());
        }
        let bump = if self.size() == 1 { NO_COUNTER } else { self.graph.q() };
        let (own, len) = (Place::new(Region::Input, 0), self.pieces.len(rank));
        let own = Step::copy(0, own, self.place(rank), len, [Wait::NONE; 2], bump);
        let own = (!self.in_place && len > 0).then_some(own);
        // The copy comes second: the first put does not need it.
        let first = (0..self.graph.q().min(1)).flat_map(move |k| self.round(rank, k));
        let rest = (1..self.graph.q()).flat_map(move |k| self.round(rank, k));
        Box::new(first.chain(own).chain(rest))
    }
}
