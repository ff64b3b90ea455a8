//! Allreduce in hops of groups (after Ruefenacht, Bull and Booth, "Generalisation of recursive doubling for allreduce", Parallel Computing 69,
//! 2017): in each hop the ranks of up to n+1 groups of neighbours exchange partials of whole vectors, each rank with one of every
//! other group, and fold them in the order of groups, from the left. So the order of ranks is kept, and all ranks compute the same tree: the same bits
//! everywhere. On a wire of long latency n messages in a hop cost less than log2(n+1) hops.
//!
//! First each rank is a group of its own; a hop makes one group of up to n+1 neighbours. Where p has no such factors they differ by one rank at
//! most, and the last of a larger one gets what it lacks from some other rank of the smaller. So there are ⌈log_(n+1) p⌉ hops for every p, where
//! doubling folds some ranks first and tells them last. One-ported: what goes j groups further on goes in round j−1 of the hop; to those last
//! ranks in as many rounds more, if there are any.

use crate::error::{Result, argument};
use crate::machine::Machine;
use crate::plan::hops::{self, Hop, hops};
use crate::plan::partial::{Held, Sketch, check};
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Operation, order};
use crate::plan::{MAX_COUNTERS, Place, Plan, Region, Side, Sizes, Step, Wait};
use std::ops::Range;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Allreduce,
    "multiplying",
    [
        "any p, n; keeps the order of ranks",
        "<= 2n*ceil(log(p)/log(n+1))",
        "<= n*ceil(log(p)/log(n+1))*m",
        "Ruefenacht et al. 2017, groups of any size",
    ],
    |a, n| Nesting::new(a.size, n).rounds(),
    |a, model| {
        Ok(Box::new(Multiplying::new(
            a.size,
            messages(a, &Machine::flat(*model)),
            a.bytes,
            a.element,
            a.in_place,
        )?))
    },
)
.receives(|a| u64::from(Nesting::new(a.size, a.blocks.unwrap_or(1)).slots()) * a.bytes)
.costs(cost)
.ordered(order::GROUPS)
.in_messages(FEWEST_HOPS, messages);

/// With one, all ranks exchange with all, as by [`one_hop`](crate::plan::reduce::one_hop).
const FEWEST_HOPS: u32 = 2;

fn messages(a: &Arguments, machine: &Machine) -> u32 {
    hops::messages(a, machine, FEWEST_HOPS, |n, path| cost_by(a, n, path))
}

fn cost(a: &Arguments, path: &mut Path<'_>) {
    let n = messages(a, path.machine());
    path.blocks(n);
    cost_by(a, n, path);
}

/// What a few ranks put besides, to the last of larger groups, is not counted.
fn cost_by(a: &Arguments, n: u32, path: &mut Path<'_>) {
    let (nesting, bytes) = (Nesting::new(a.size, n), float(a.bytes));
    let mut reach = 1;
    for (hop, groups) in nesting.list.iter().enumerate() {
        let others = f64::from(groups - 1);
        Hop { reach, puts: groups - 1 }.over(path, others, others * bytes);
        // Sums that no rank reads stay in a cache.
        match hop + 1 == nesting.list.len() {
            true => path.keep(others, bytes),
            false => path.reduce(others * bytes),
        }
        reach = reach.saturating_mul(*groups);
    }
}

/// How ranks are in groups of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Nesting {
    size: u32,
    /// By hop, the nearest first: how many groups become one; in the first, of as many ranks as the largest group has then.
    list: Vec<u32>,
}

impl Nesting {
    /// Of at most n + 1 groups each, in as few hops as that allows.
    fn new(size: u32, n: u32) -> Self {
        let (mut rest, mut list) = (size, Vec::new());
        for left in (1..=hops(size, n).count()).rev() {
            let groups = match left {
                1 => rest,
                left => hops::root(rest, u32::try_from(left).unwrap_or(u32::MAX)),
            };
            list.push(groups);
            rest = rest.div_ceil(groups);
        }
        list.reverse();
        Self { size, list }
    }

    /// The group with `rank` in it ahead of a hop: ranks that follow each other.
    fn group(&self, hop: usize, rank: u32) -> Range<u32> {
        if hop == 0 {
            return rank..rank + 1;
        }
        // How many groups there are, and which of them this is.
        let all: u64 = self.list[hop..].iter().map(|groups| u64::from(*groups)).product();
        let begin = |i: u64| u32::try_from(i * u64::from(self.size) / all).unwrap_or(self.size);
        let i = ((u64::from(rank) + 1) * all - 1) / u64::from(self.size);
        begin(i)..begin(i + 1)
    }

    /// The groups that become that of `rank` in a hop, in order.
    fn joined(&self, hop: usize, rank: u32) -> Vec<Range<u32>> {
        let whole = self.group(hop + 1, rank);
        let mut groups = Vec::new();
        let mut begin = whole.start;
        while begin < whole.end {
            let group = self.group(hop, begin);
            begin = group.end;
            groups.push(group);
        }
        groups
    }

    /// The rank of group `from` whose partial the rank `rank` of group `to` gets.
    fn source(groups: &[Range<u32>], from: usize, to: usize, rank: u32) -> u32 {
        let (theirs, place) = (groups[from].len(), (rank - groups[to].start) as usize);
        // The last of a larger group: from one place for each group, so that no rank has all of them.
        let place = if place < theirs { place } else { to % theirs };
        groups[from].start + u32::try_from(place).unwrap_or(0)
    }

    /// Whether there are groups of two sizes ahead of a hop.
    fn is_uneven(&self, hop: usize) -> bool {
        let all: u64 = self.list[hop..].iter().map(|groups| u64::from(*groups)).product();
        hop > 0 && !u64::from(self.size).is_multiple_of(all)
    }

    /// Rounds of a hop.
    fn rounds_of(&self, hop: usize) -> u32 {
        (self.list[hop] - 1) * if self.is_uneven(hop) { 2 } else { 1 }
    }

    fn rounds(&self) -> u32 {
        (0..self.list.len()).map(|hop| self.rounds_of(hop)).sum()
    }

    /// The most vectors that come to a rank.
    fn slots(&self) -> u32 {
        self.list.iter().map(|groups| groups - 1).sum()
    }
}

/// An allreduce of any associative operator.
#[derive(Clone, Debug)]
pub struct Multiplying {
    nesting: Nesting,
    bytes: u64,
    in_place: bool,
}

impl Multiplying {
    /// Reduces `bytes` bytes of elements of `element` bytes, with up to `n` messages of a rank in a hop, and some more of a few.
    ///
    /// # Errors
    /// If there are no or too many ranks, or no whole elements, or more than 2^64 bytes of memory would be needed.
    pub fn new(size: u32, n: u32, bytes: u64, element: u64, in_place: bool) -> Result<Self> {
        check("allreduce", size, bytes, element)?;
        let nesting = Nesting::new(size, n);
        if bytes.checked_mul(u64::from(nesting.slots()) + 1).is_none() {
            return Err(argument(format!("allreduce of {bytes} bytes is beyond 2^64 bytes of memory")));
        }
        // An arrival, a reduce and joins of each round.
        if nesting.rounds() > MAX_COUNTERS / 4 {
            return Err(argument(format!("allreduce among {size} ranks in {} rounds", nesting.rounds()))
                .help("give it fewer messages in a hop"));
        }
        Ok(Self { nesting, bytes, in_place })
    }

    /// Where lands at a rank of group `to` what comes from group `from` in a hop: in the order of the other groups.
    fn slot(&self, hop: usize, from: usize, to: usize) -> Place {
        let at = u32::try_from(if from < to { from } else { from - 1 }).unwrap_or(u32::MAX);
        if at == 0 && hop + 1 == self.nesting.list.len() && !self.in_place {
            return Place::new(Region::Output, 0);
        }
        let before: u32 = self.nesting.list[..hop].iter().map(|groups| groups - 1).sum();
        Place::new(Region::Land, u64::from(before + at) * self.bytes)
    }

    /// Where the partial of a rank lies ahead of a hop: where the first of what came in the last one landed, if anything did.
    fn partial(&self, hop: usize, rank: u32) -> Place {
        if hop == 0 || self.nesting.group(hop, rank).len() == 1 {
            return Place::new(if self.in_place { Region::Work } else { Region::Input }, 0);
        }
        self.slot(hop - 1, 1, 0)
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let mut s = Sketch::new(self.rounds());
        if self.bytes == 0 {
            return s;
        }
        let own = s.own(self.bytes, self.in_place);
        let (mut w, mut first) = (own, 0);
        for hop in 0..self.nesting.list.len() {
            w = self.exchange(&mut s, rank, hop, first, w);
            first += self.nesting.rounds_of(hop);
        }
        let output = Place::new(Region::Output, 0);
        if w.place != output && !(self.in_place && self.size() == 1) {
            s.copy(self.rounds(), w.place, output, self.bytes, &[w.ready, own.ready]);
        }
        s
    }

    /// A hop from round `first` on: `own` to the ranks of other groups that get it from here, and what comes from each group and
    /// `own` folded in the order of groups, into the first of what comes.
    fn exchange(&self, s: &mut Sketch, rank: u32, hop: usize, first: u32, own: Held) -> Held {
        let groups = self.nesting.joined(hop, rank);
        let Some(me) = groups.iter().position(|group| group.contains(&rank)) else { return own };
        let (count, bytes) = (groups.len(), self.bytes);
        let (most, place) = (self.nesting.list[hop] - 1, rank - groups[me].start);
        let len = |group: usize| groups[group].end - groups[group].start;
        let mut came = vec![Wait::NONE; count];
        // First at the same place of each group, then the last of larger ones.
        for late in [false, true].into_iter().take(if self.nesting.is_uneven(hop) { 2 } else { 1 }) {
            for ahead in 1..count {
                let round =
                    first + u32::try_from(ahead - 1).unwrap_or(u32::MAX) + if late { most } else { 0 };
                let (to, from) = ((me + ahead) % count, (me + count - ahead) % count);
                let target = match late {
                    false => (place < len(to)).then(|| groups[to].start + place),
                    true => (len(to) > len(me)).then(|| groups[to].end - 1),
                };
                if let Some(target) =
                    target.filter(|target| Nesting::source(&groups, me, to, *target) == rank)
                {
                    s.put(round, target, own.place, self.slot(hop, me, to), bytes, &[own.ready], round);
                }
                if (place >= len(from)) == late {
                    let source = Nesting::source(&groups, from, me, rank);
                    s.expect(
                        round,
                        source,
                        self.partial(hop, source),
                        self.slot(hop, from, me),
                        bytes,
                        round,
                    );
                    came[from] = Wait::once(round);
                }
            }
        }
        let end = first + self.nesting.rounds_of(hop);
        let held = (0..count).zip(came).map(|(from, came)| match from == me {
            true => own,
            false => Held { place: self.slot(hop, from, me), ready: came },
        });
        self.folded(s, end, own, held)
    }

    /// What is `held` of the groups folded in their order, from the left, into the first of what came; `own` is only read.
    fn folded(&self, s: &mut Sketch, round: u32, own: Held, held: impl Iterator<Item = Held>) -> Held {
        let sum = held.reduce(|left, next| {
            let (side, source, target) = match left.place == own.place {
                true => (Side::SourceLeft, left.place, next.place),
                false => (Side::SourceRight, next.place, left.place),
            };
            let ready = s.reduce(round, side, source, target, self.bytes, &[left.ready, next.ready]);
            Held { place: target, ready }
        });
        sum.unwrap_or(own)
    }
}

impl Plan for Multiplying {
    fn algorithm(&self) -> &'static str {
        "multiplying"
    }

    fn size(&self) -> u32 {
        self.nesting.size
    }

    fn rounds(&self) -> u32 {
        self.nesting.rounds()
    }

    fn counters(&self, rank: u32) -> u32 {
        self.sketch(rank).counters()
    }

    fn sizes(&self, _rank: u32) -> Sizes {
        let (input, work) = if self.in_place { (0, self.bytes) } else { (self.bytes, 0) };
        Sizes { input, output: self.bytes, work, land: u64::from(self.nesting.slots()) * self.bytes }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In every hop at most n + 1 groups become one, which are neighbours and differ by a rank at most; in the end all are one.
    #[test]
    fn groups_that_become_one_are_about_equal() {
        for size in (1..300).chain([1000, 1021, 1024]) {
            for n in [1, 2, 3, 4, 7, 15, 40, size] {
                let nesting = Nesting::new(size, n);
                assert_eq!(nesting.list.len(), hops(size, n).count(), "{nesting:?}");
                assert_eq!(nesting.group(nesting.list.len(), size / 2), 0..size, "{nesting:?}");
                for hop in 0..nesting.list.len() {
                    for rank in 0..size {
                        let groups = nesting.joined(hop, rank);
                        assert!((1..=nesting.list[hop] as usize).contains(&groups.len()), "{nesting:?}");
                        assert!(nesting.list[hop] <= n.max(1) + 1, "{nesting:?}");
                        assert!(groups.iter().any(|group| group.contains(&rank)), "{nesting:?}");
                        let lengths = || groups.iter().map(ExactSizeIterator::len);
                        assert!(lengths().max() <= lengths().min().map(|least| least + 1), "{nesting:?}");
                    }
                }
            }
        }
    }

    /// Beside a message for each other group a rank has at most two more in a hop, for the last ranks of larger ones.
    #[test]
    fn no_rank_has_many_more_puts() {
        for size in 1..300 {
            for n in [1, 2, 3, 5, 9, 17] {
                let plan = Multiplying::new(size, n, 8, 8, false).unwrap();
                for rank in 0..size {
                    let puts = plan.steps(rank).filter(|step| step.kind == crate::plan::Kind::Put).count();
                    let most = plan.nesting.slots() as usize + 2 * plan.nesting.list.len();
                    assert!(puts <= most, "{size} ranks, {n} messages: {puts} puts of rank {rank}");
                }
            }
        }
    }
}
