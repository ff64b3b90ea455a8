//! Irregular reduce-scatter in n−1+q rounds: the circulant n-block allgatherv (Träff 2022, Algorithm 9)
//! backwards.
//!
//! The paths of an owner's block in the allgatherv are a spanning tree; backwards every rank sends its partial of
//! the block to its parent after all its children's have come in, and the owner gets the sum. So every rank sends
//! exactly what is not for itself, m−m_r bytes, however unequal the pieces are: where the
//! [q-round algorithm](super::core) receives up to q·m, this one receives m(1+(q−1)/n) at most. The order of ranks
//! is that of the trees: for commutative operators.
//!
//! Owner j's pieces move in n_j−1+q rounds, the first ones; what comes of them in round i lands in the owner's slot
//! i and bumps its counter i. The first slot of a block takes in our contribution and then the later slots, and
//! is sent on; the owner adds up in its output.

use crate::error::{Result, argument};
use crate::plan::allgatherv::circulant::{self, Blocks, columns};
use crate::plan::allgatherv::window;
use crate::plan::partial::{Held, Pieces, Sketch, check};
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{by_blocks, commutative, line, of_all, q};
use crate::plan::registry::{Algorithm, Arguments, Operation, order};
use crate::plan::rules;
use crate::plan::{MAX_COUNTERS, Place, Plan, Region, Side, Sizes, Step, Wait};
use crate::schedule::{Circulant, Round, block};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::ReduceScatter,
    "reversed",
    ["any p; commutative", "n-1+q", "<= (n-1+q) * sum of ceil(m_j/n)", "Träff 2022, Algorithm 9 reversed"],
    by_blocks,
    |a, model| {
        commutative(a)?;
        let blocks = a.blocks.map_or_else(|| rules::allgatherv_blocks(&a.counts, model), Blocks::Equal);
        Ok(Box::new(Reversed::new(&a.counts, a.element, &blocks)?))
    },
)
.commutative()
.receives(|a| Reversed::most(&a.counts, a.element, a.blocks.unwrap_or(1)))
.costs(cost)
.puts_blocks(of_all)
.ordered(order::PIECEWISE_BLOCKS);

/// The allgatherv backwards, with as many blocks: the pace is that of the slower of putting and combining, and a block
/// is combined at every hop.
fn cost(a: &Arguments, path: &mut Path<'_>) {
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
    path.beside(
        |path| {
            match n {
                1 => {
                    path.blocks(1);
                    window::backwards(a, path);
                }
                _ => circulant::cost(a, path),
            }
            path.reduce(last.min(total));
        },
        |path| path.reduce(total),
    );
}

/// A reduce-scatter in blocks.
#[derive(Clone, Debug)]
pub(crate) struct Reversed {
    graph: Circulant,
    owners: Vec<Owner>,
    /// The largest number of blocks, and the rounds of the allgatherv.
    blocks: u32,
    rounds: Vec<Round>,
    /// Of all ranks' contributions, and of the slots and counters of arrivals.
    bytes: u64,
    land: u64,
    counters: u32,
    /// Receive schedules by column: entry k of relative rank r at k·p + r.
    columns: Vec<i8>,
}

#[derive(Clone, Debug)]
struct Owner {
    /// Where its piece begins in a contribution, and how it is cut.
    start: u64,
    pieces: Pieces,
    /// The first of its slots and counters, and the first of its blocks among all.
    slot: u64,
    counter: u32,
    block: u32,
}

impl Reversed {
    /// Rank j gets `counts[j]` bytes.
    ///
    /// # Errors
    /// If there are no or too many ranks or blocks, or no whole elements.
    pub(crate) fn new(counts: &[u64], element: u64, blocks: &Blocks) -> Result<Self> {
        let size = u32::try_from(counts.len()).unwrap_or(u32::MAX);
        let all = Pieces::given(counts)?;
        for &count in counts {
            check("reduce_scatter", size, count, element)?;
        }
        check("reduce_scatter", size, all.bytes(), element)?;
        if matches!(blocks, Blocks::PerOwner(list) if list.len() != counts.len()) {
            return Err(argument("not one number of blocks per rank"));
        }
        let graph = Circulant::new(size);
        let (mut owners, mut most) = (Vec::with_capacity(counts.len()), 1);
        let (mut slot, mut counter, mut first) = (0u64, 0u32, 0u32);
        for (j, &count) in (0..).zip(counts) {
            let n = match blocks {
                Blocks::Equal(n) => *n,
                Blocks::PerOwner(list) => list[j as usize],
            };
            if n == 0 {
                return Err(argument(format!("rank {j}'s piece in 0 blocks")));
            }
            let n = if count == 0 { 1 } else { n };
            let pieces = Pieces::even(count, element, n);
            owners.push(Owner { start: all.start(j), slot, counter, block: first, pieces });
            let moves = n.saturating_add(graph.q());
            let next = counter.checked_add(moves).filter(|&c| c <= MAX_COUNTERS / 4);
            counter = next.ok_or_else(|| {
                argument("reduce_scatter in more blocks than there are counters").help("use fewer blocks")
            })?;
            let len = owners.last().map_or(0, |owner: &Owner| owner.pieces.largest());
            let end = len.checked_mul(moves.into()).and_then(|len| slot.checked_add(len));
            slot = end.ok_or_else(|| argument("reduce_scatter beyond 2^64 bytes of memory"))?;
            (first, most) = (first + n, most.max(n));
        }
        Ok(Self {
            graph,
            owners,
            blocks: most,
            rounds: graph.rounds(most).collect(),
            bytes: all.bytes(),
            land: slot,
            counters: counter,
            columns: columns(&graph),
        })
    }

    /// Bytes that no rank receives more than, if every piece is cut into `n` blocks.
    pub(crate) fn most(counts: &[u64], element: u64, n: u32) -> u64 {
        let size = u32::try_from(counts.len()).unwrap_or(u32::MAX);
        let moves = u64::from(n - 1 + Circulant::new(size).q());
        let largest = |&count: &u64| Pieces::even(count, element, n).largest();
        if size < 2 { 0 } else { counts.iter().map(|count| largest(count) * moves).sum() }
    }

    fn p(&self) -> u32 {
        self.graph.p()
    }

    /// The block of `owner` that `rank` gets in a round of the allgatherv, so that it sends a partial of it
    /// here.
    fn block(&self, rank: u32, owner: u32, round: Round) -> Option<u32> {
        if rank == owner {
            return None;
        }
        let p = self.p();
        let relative = if rank >= owner { rank - owner } else { rank + p - owner };
        let entry = self.columns[round.k as usize * p as usize + relative as usize];
        let pieces = &self.owners[owner as usize].pieces;
        let late = i64::from(self.blocks - pieces.parts());
        block(entry, round.offset - late, pieces.parts()).filter(|&b| pieces.len(b) > 0)
    }

    /// What `rank` sends in round `i`: (owner, block).
    fn sent(&self, rank: u32, i: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let round = self.forward(i);
        (0..self.p()).filter_map(move |j| Some((j, self.block(rank, j, round)?)))
    }

    /// Round `i` as a round of the allgatherv.
    fn forward(&self, i: u32) -> Round {
        self.rounds[self.rounds.len() - 1 - i as usize]
    }

    /// The first round in which `rank` gets a partial of a block of another one's.
    fn first_arrival(&self, rank: u32, (owner, b): (u32, u32)) -> Option<u32> {
        let (q, rounds) = (self.graph.q(), i64::from(self.rounds()));
        let p = self.p();
        let late = i64::from(self.blocks - self.owners[owner as usize].pieces.parts());
        let of = |k: u32| {
            let child = self.graph.to(rank, k);
            let relative = if child >= owner { child - owner } else { child + p - owner };
            let entry = self.columns[k as usize * p as usize + relative as usize];
            // In the allgatherv b goes along this edge in one round of its own or, as the last block, in
            // the last phase.
            let exact = i64::from(b) - i64::from(entry) + i64::from(k) + late;
            let last = rounds - 1 - i64::from(q - 1 - k);
            let there = [exact, last].into_iter().filter(move |&f| {
                let round = usize::try_from(f).ok().and_then(|f| self.rounds.get(f));
                round.is_some_and(|&r| r.k == k && self.block(child, owner, r) == Some(b))
            });
            there.max()
        };
        let f = (0..q).filter_map(of).max()?;
        u32::try_from(rounds - 1 - f).ok()
    }

    fn slot(&self, owner: u32, i: u32) -> Place {
        let owner = &self.owners[owner as usize];
        Place::new(Region::Land, owner.slot + u64::from(i) * owner.pieces.largest())
    }

    fn counter(&self, owner: u32, i: u32) -> u32 {
        self.owners[owner as usize].counter + i
    }

    /// Where a rank's own contribution to a block lies.
    fn contribution(&self, (owner, b): (u32, u32)) -> Place {
        let owner = &self.owners[owner as usize];
        Place::new(Region::Input, owner.start + owner.pieces.start(b))
    }

    fn len(&self, (owner, b): (u32, u32)) -> u64 {
        self.owners[owner as usize].pieces.len(b)
    }

    /// Takes in what came in round `i`.
    fn add(&self, s: &mut Sketch, rank: u32, i: u32, piece: (u32, u32), held: &mut Option<Held>) {
        let (slot, len, mine) = (self.slot(piece.0, i), self.len(piece), self.contribution(piece));
        let arrived = Wait::once(self.counter(piece.0, i));
        let side = Side::SourceLeft;
        let before = held.or_else(|| {
            (piece.0 == rank).then(|| {
                let place = Place::new(Region::Output, self.owners[rank as usize].pieces.start(piece.1));
                Held { place, ready: s.copy(i + 1, mine, place, len, &[]) }
            })
        });
        *held = Some(match before {
            None => Held { place: slot, ready: s.reduce(i + 1, side, mine, slot, len, &[arrived]) },
            Some(Held { place, ready }) => {
                Held { place, ready: s.reduce(i + 1, side, slot, place, len, &[arrived, ready]) }
            }
        });
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let mut s = Sketch::new(self.counters);
        if self.bytes == 0 {
            return s;
        }
        if self.p() == 1 {
            s.copy(0, self.contribution((0, 0)), Place::new(Region::Output, 0), self.bytes, &[]);
            return s;
        }
        let blocks = self.owners.last().map_or(0, |owner| owner.block + owner.pieces.parts());
        let mut held: Vec<Option<Held>> = vec![None; blocks as usize];
        let number = |(j, b): (u32, u32)| (self.owners[j as usize].block + b) as usize;
        for i in 0..self.rounds() {
            let k = self.forward(i).k;
            let (to, from) = (self.graph.from(rank, k), self.graph.to(rank, k));
            for piece in self.sent(rank, i) {
                let mine = Held { place: self.contribution(piece), ready: Wait::NONE };
                let Held { place, ready } = held[number(piece)].unwrap_or(mine);
                let bump = self.counter(piece.0, i);
                s.put(i, to, place, self.slot(piece.0, i), self.len(piece), &[ready], bump);
            }
            for piece in self.sent(from, i) {
                let first = self.first_arrival(from, piece);
                let source =
                    first.map_or_else(|| self.contribution(piece), |first| self.slot(piece.0, first));
                let bump = self.counter(piece.0, i);
                s.expect(i, from, source, self.slot(piece.0, i), self.len(piece), bump);
            }
            for piece in self.sent(from, i) {
                self.add(&mut s, rank, i, piece, &mut held[number(piece)]);
            }
        }
        // The additions are of the next round.
        s.steps.sort_by_key(|step| step.round);
        s
    }
}

impl Plan for Reversed {
    fn algorithm(&self) -> &'static str {
        "reversed"
    }

    fn size(&self) -> u32 {
        self.p()
    }

    fn rounds(&self) -> u32 {
        u32::try_from(self.rounds.len()).unwrap_or(u32::MAX)
    }

    fn counters(&self, rank: u32) -> u32 {
        self.sketch(rank).counters()
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let (bytes, land) = (self.bytes, if self.p() == 1 { 0 } else { self.land });
        Sizes { input: bytes, output: self.owners[rank as usize].pieces.bytes(), work: 0, land }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
