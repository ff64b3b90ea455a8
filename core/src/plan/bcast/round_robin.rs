//! The pipelined round-robin broadcast (Axida, Viet, Yoshinaga, figures 3 to 5): p−1 rounds, and for each of
//! S segments another p−1 (p even) or p (p odd); m bytes to every rank, any p.
//!
//! A segment is p−1 blocks, block d−1 of it for the rank at distance d from the root. The root scatters
//! segment 0; then in iteration K every rank is paired with every other as in a tournament (the circle method; the root is the
//! player that stays): two destinations swap their blocks of segment K, and the root gives its partner its
//! block of segment K+1. If p is odd, a virtual player sits out. A block's number is its counter.
//!
//! The circulant broadcast needs n−1+q rounds for the same n = S(p−1) blocks; this is for comparison.

use super::rooted::{absolute, check, check_blocks, relative};
use crate::error::{Result, argument};
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::rules;
use crate::plan::split::Split;
use crate::plan::{MAX_COUNTERS, Place, Plan, Region, Sizes, Step, Wait};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Bcast,
    "round_robin",
    [
        "any p, root; n a multiple of p-1 (rounded up)",
        "n+p-1 (p even), n+p-1+n/(p-1) (p odd)",
        "m",
        "Axida, Viet, Yoshinaga",
    ],
    |a, n| rounds(a.size, segments(a.size, n)),
    |a, model| {
        let n = a.blocks.unwrap_or_else(|| rules::round_robin_blocks(a.size, a.bytes, model));
        Ok(Box::new(Bcast::new(a.size, a.root, a.bytes, n)?))
    },
)
.costs(cost)
.meets_all();

/// S+1 times p−1 puts; two hops are not hidden.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    let n = a.blocks.unwrap_or_else(|| rules::round_robin_blocks(a.size, a.bytes, path.model()));
    let others = a.size.saturating_sub(1);
    if others == 0 {
        return;
    }
    let segments = f64::from(n.div_ceil(others));
    path.blocks(n.div_ceil(others).saturating_mul(others));
    let n = segments * f64::from(others);
    let puts = if others == 1 { n } else { n + f64::from(others) - 1.0 };
    path.with_all(f64::from(others.min(2)), puts, puts * float(a.bytes) / n);
}

/// A broadcast by tournaments.
#[derive(Clone, Copy, Debug)]
pub struct Bcast {
    size: u32,
    root: u32,
    segments: u32,
    split: Split,
}

/// The number of segments for at least `blocks` blocks.
pub(crate) fn segments(size: u32, blocks: u32) -> u32 {
    blocks.div_ceil(size.saturating_sub(1).max(1))
}

/// The number of rounds for S segments among p ranks. Among two or three, the last tournament has but 0 or 1
/// rounds in which any two are partners.
pub(crate) fn rounds(size: u32, segments: u32) -> u32 {
    let tournament = if size.is_multiple_of(2) { size - 1 } else { size };
    match size {
        1 => 0,
        2 => segments,
        3 => 3 * segments,
        p => p - 1 + segments * tournament,
    }
}

impl Bcast {
    /// Broadcasts `bytes` bytes from `root` to all of `size` ranks in `blocks` blocks, rounded up to whole
    /// segments of p−1.
    ///
    /// # Errors
    /// If there is no such root, or the number of blocks is 0 or above [`MAX_COUNTERS`].
    pub fn new(size: u32, root: u32, bytes: u64, blocks: u32) -> Result<Self> {
        check(size, root)?;
        check_blocks(blocks)?;
        let segments = segments(size, blocks);
        let blocks = segments.checked_mul((size - 1).max(1)).filter(|&n| n <= MAX_COUNTERS);
        let blocks = blocks.ok_or_else(|| {
            argument(format!("round-robin in more than {MAX_COUNTERS} blocks")).help("use fewer blocks")
        })?;
        Ok(Self { size, root, segments, split: Split::new(bytes, blocks) })
    }

    /// The rounds of a tournament.
    fn meetings(&self) -> u32 {
        self.size - 1 + self.size % 2
    }

    /// The partner of distance `r` in round `t` of a tournament, unless that is the virtual player.
    fn partner(&self, r: u32, t: u32) -> Option<u32> {
        let m = u64::from(self.meetings());
        let partner = match u64::from(r).checked_sub(1) {
            None => t + 1,
            Some(player) => match (2 * u64::from(t) + m - player) % m {
                other if other == player => 0,
                other => u32::try_from(other).ok()? + 1,
            },
        };
        (partner < self.size).then_some(partner)
    }

    /// What distance `from` puts to distance `to` when they are partners in iteration `k`: block, place, length.
    fn message(&self, k: u32, from: u32, to: u32) -> Option<(u32, Place, u64)> {
        let (segment, whose) = if from == 0 { (k + 1, to) } else { (k, from) };
        if to == 0 || segment == self.segments {
            return None;
        }
        self.block(segment, whose)
    }

    /// The block of a segment that the root gives to distance `d`.
    fn block(&self, segment: u32, d: u32) -> Option<(u32, Place, u64)> {
        let b = segment * (self.size - 1) + d - 1;
        let (offset, len) = self.split.block(b);
        (len > 0).then_some((b, Place::new(Region::Output, offset), len))
    }

    /// The steps of distance `r` when it puts `out` to, and gets `incoming` from, distance `partner`.
    fn exchange(
        &self,
        round: u32,
        r: u32,
        partner: u32,
        [out, incoming]: [Option<(u32, Place, u64)>; 2],
    ) -> impl Iterator<Item = Step> + use<> {
        let peer = absolute(partner, self.root, self.size);
        let put = out.map(|(b, place, len)| {
            let wait = if r == 0 { Wait::NONE } else { Wait::once(b) };
            Step::put(round, peer, place, place, len, wait, b)
        });
        let expect = incoming.map(|(b, place, len)| Step::expect(round, peer, place, place, len, b));
        [put, expect].into_iter().flatten()
    }
}

impl Plan for Bcast {
    fn algorithm(&self) -> &'static str {
        "round_robin"
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn rounds(&self) -> u32 {
        rounds(self.size, self.segments)
    }

    fn counters(&self, rank: u32) -> u32 {
        if rank == self.root { 0 } else { self.split.blocks() }
    }

    fn sizes(&self, _rank: u32) -> Sizes {
        Sizes { output: self.split.bytes(), ..Sizes::default() }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        if self.size == 1 {
            return Box::new(std::iter::empty());
        }
        let (r, first) = (relative(rank, self.root, self.size), self.size - 1);
        let scattered = if r == 0 { 1..self.size } else { r..r + 1 };
        let scatter = scattered.flat_map(move |d| {
            let block = self.block(0, d);
            let (partner, message) = if r == 0 { (d, [block, None]) } else { (0, [None, block]) };
            self.exchange(d - 1, r, partner, message)
        });
        let all = (0..self.segments).flat_map(|k| (0..self.meetings()).map(move |t| (k, t)));
        let tournaments = all.flat_map(move |(k, t)| {
            // Among three ranks the last tournament is its last round, the only one with a meeting.
            let skipped = if self.size == 3 && k + 1 == self.segments { t.min(2) } else { 0 };
            let round = first + k * self.meetings() + t - skipped;
            let partner = self.partner(r, t);
            partner.into_iter().flat_map(move |partner| {
                self.exchange(round, r, partner, [self.message(k, r, partner), self.message(k, partner, r)])
            })
        });
        Box::new(scatter.chain(tournaments))
    }
}
