//! An allgather in which the blocks of groups go as a whole: few puts for short contributions of many nodes.
//!
//! First the nodes of a group gather its block, on the circulant graph. What a group needs of the others is its *string*: their blocks, in the
//! order of groups from the one behind it on, round the end; in the output it is contiguous but for that end. It is cut into n *stretches*,
//! and each of these into a *window* for each node of the group. A node gets of each other group what of its block is in the node's windows, from the
//! node at the same position, which by then has the whole block; and then the group gathers each stretch on the circulant graph, one
//! while the next comes from other groups. So each byte comes to a group once, and to a node once.
//!
//! With equal groups a node puts as much to others as it gets of them. It makes about (M−1)/G + n puts between groups, and for a stretch within its own
//! G−1, or fewer where windows are short enough to share one, where [`spread`](super::super::spread) makes G−1 for each group's contribution to its lane.
//!
//! Groups are neighbouring ranks, and contributions lie one after the other.
//!
//! # Rounds and counters
//!
//! q rounds of the first gathering, q that of the largest group; then n+1 phases. Phase t has a round (or several, where groups are unequal) for each distance
//! between groups, in which stretch t comes, and q in which stretch t−1 is gathered. Counters: one for each position in a group and gathering; then one for
//! each stretch and distance; then joins.

use super::super::{Nodes, count, sketched};
use crate::error::{Result, argument};
use crate::plan::partial::{Pieces, Sketch};
use crate::plan::registry::line::q;
use crate::plan::split::Split;
use crate::plan::{MAX_COUNTERS, Place, Region, Sizes, Wait};
use crate::schedule::Circulant;

/// Places and lengths in the output.
type Runs = Vec<(u64, u64)>;

/// An allgather(v) of blocks of groups.
#[derive(Debug)]
pub(super) struct Whole {
    name: &'static str,
    /// The groups.
    nodes: Nodes,
    /// By rank.
    pieces: Pieces,
    stretches: u32,
    in_place: bool,
    rounds: u32,
}

/// A gathering within a group: its first round, and the counter of the piece of position 0.
#[derive(Clone, Copy)]
struct Stage {
    round: u32,
    counter: u32,
}

impl Whole {
    /// Gathers `counts[j]` bytes of each rank j, one behind the other, each group's string in `stretches` stretches.
    ///
    /// # Errors
    /// If the ranks of a group do not follow each other, or there are too many stretches.
    pub(super) fn new(
        name: &'static str,
        nodes: Nodes,
        counts: &[u64],
        stretches: u32,
        in_place: bool,
    ) -> Result<Self> {
        if !follows(&nodes) {
            return Err(argument("the nodes of a group do not follow each other"));
        }
        let (stretches, pieces) = (stretches.max(1), Pieces::given(counts)?);
        let rounds = rounds(&nodes, stretches);
        let rounds = rounds.ok_or_else(|| argument("too many blocks").help("use fewer blocks"))?;
        Ok(Self { name, nodes, pieces, stretches, in_place, rounds })
    }

    fn gather_rounds(&self) -> u32 {
        q(self.nodes.most())
    }

    /// The rounds of a distance: where a group is larger than another its nodes get from one node in turns.
    fn turns(&self) -> u32 {
        turns(&self.nodes)
    }

    fn distances(&self) -> u32 {
        self.nodes.count() - 1
    }

    /// The first round of a phase.
    fn phase(&self, t: u32) -> u32 {
        self.gather_rounds() + t * (self.distances() * self.turns() + self.gather_rounds())
    }

    /// Where a group's block begins and ends in the output.
    fn block(&self, group: u32) -> (u64, u64) {
        let members = self.nodes.members(group);
        let first = members[0];
        (self.pieces.start(first), self.pieces.start(first + count(members.len())))
    }

    /// A group's string in windows: where it begins in the output, and its cuts.
    fn windows(&self, group: u32) -> (u64, Split) {
        let (begin, end) = self.block(group);
        let windows = count(self.nodes.members(group).len()).saturating_mul(self.stretches);
        (end, Split::new(self.pieces.bytes() - (end - begin), windows))
    }

    /// The runs in the output of a window, which may lie round the end.
    fn runs(&self, group: u32, window: u32) -> Runs {
        let (origin, split) = self.windows(group);
        let all = self.pieces.bytes();
        let (from, to) = (split.start(window), split.start(window + 1));
        // The end of the output is at this place of the string.
        let end = (all - origin).clamp(from, to);
        let mut out = vec![(origin + from, end - from), ((origin + end) % all.max(1), to - end)];
        out.retain(|&(_, len)| len > 0);
        out
    }

    /// What comes in a stretch to a position of a group from the one `distance` + 1 groups on: place and length.
    fn comes(&self, group: u32, position: u32, t: u32, distance: u32) -> Option<(u64, u64)> {
        let (origin, split) = self.windows(group);
        let size = count(self.nodes.members(group).len());
        let (begin, end) = self.block((group + 1 + distance) % self.nodes.count());
        let at = if begin >= origin { begin - origin } else { begin + (self.pieces.bytes() - origin) };
        let window = t * size + position;
        let from = split.start(window).max(at);
        let len = split.start(window + 1).min(at + (end - begin)).checked_sub(from).filter(|&len| len > 0)?;
        Some((begin + (from - at), len))
    }

    /// A gathering on the circulant graph of `rank`'s group. The piece of each position lies in `runs` and has a counter; that of the rank is there
    /// after `own`, or in the input. What to wait for to have a piece.
    fn gather(
        &self,
        s: &mut Sketch,
        rank: u32,
        stage: Stage,
        own: Wait,
        (from_input, runs): (bool, &dyn Fn(u32) -> Runs),
    ) -> Vec<Wait> {
        let members = self.nodes.members(self.nodes.of(rank));
        let (graph, me) = (Circulant::new(count(members.len())), self.nodes.position(rank));
        let place = |at| Place::new(Region::Output, at);
        let source = |sender, position, at| match from_input && sender == position {
            true => Place::new(Region::Input, 0),
            false => place(at),
        };
        let held = |position: u32| match position == me {
            true if from_input => Wait::NONE,
            true => own,
            false => Wait { counter: stage.counter + position, at_least: count(runs(position).len()) },
        };
        let window = |first, k| {
            let further = move |i| (first + i) % count(members.len());
            (0..graph.skip(k + 1) - graph.skip(k)).map(further)
        };
        for k in 0..graph.q() {
            let (round, to, from) = (stage.round + k, graph.from(me, k), graph.to(me, k));
            for position in window(me, k) {
                for (at, len) in runs(position) {
                    let (source, bump) = (source(me, position, at), stage.counter + position);
                    s.put(round, members[to as usize], source, place(at), len, &[held(position)], bump);
                }
            }
            for position in window(from, k) {
                for (at, len) in runs(position) {
                    let (source, bump) = (source(from, position, at), stage.counter + position);
                    s.expect(round, members[from as usize], source, place(at), len, bump);
                }
            }
        }
        let there = |position| if position == me { own } else { held(position) };
        (0..count(members.len())).map(there).collect()
    }

    /// A stretch between groups, of a block that is there after `held`; what to wait for to have this node's window.
    fn exchange(&self, s: &mut Sketch, rank: u32, t: u32, held: Wait) -> Wait {
        let (group, position, groups) = (self.nodes.of(rank), self.nodes.position(rank), self.nodes.count());
        let mine = count(self.nodes.members(group).len());
        let first = (self.stretches + 1) * self.nodes.most() + t * self.distances();
        let mut arrived = Vec::new();
        for distance in 0..self.distances() {
            let round = self.phase(t) + distance * self.turns();
            let target = (group + (groups - 1 - distance)) % groups;
            let to = self.nodes.members(target);
            for turn in 0..self.turns() {
                let at = position + turn * mine;
                let Some(&peer) = to.get(at as usize) else { break };
                if let Some((at, len)) = self.comes(target, at, t, distance) {
                    let place = Place::new(Region::Output, at);
                    s.put(round + turn, peer, place, place, len, &[held], first + distance);
                }
            }
            if let Some((at, len)) = self.comes(group, position, t, distance) {
                let from = self.nodes.members((group + 1 + distance) % groups);
                let (turn, peer) = (position / count(from.len()), from[position as usize % from.len()]);
                let place = Place::new(Region::Output, at);
                s.expect(round + turn, peer, place, place, len, first + distance);
                arrived.push(Wait::once(first + distance));
            }
        }
        s.one(self.phase(t + 1), &arrived)
    }

    fn sketch(&self, rank: u32) -> Sketch {
        // No more than `new` allows.
        let mut s = Sketch::new(u32::try_from(arrivals(&self.nodes, self.stretches)).unwrap_or(u32::MAX));
        if self.pieces.is_empty() {
            return s;
        }
        let (group, own) = (self.nodes.of(rank), self.pieces.len(rank));
        let mut held = Wait::NONE;
        if !self.in_place && own > 0 {
            let to = Place::new(Region::Output, self.pieces.start(rank));
            held = s.copy(1, Place::new(Region::Input, 0), to, own, &[]);
        }
        let members = self.nodes.members(group);
        let contribution = |position: u32| -> Runs {
            let owner = members[position as usize];
            let (at, len) = (self.pieces.start(owner), self.pieces.len(owner));
            if len > 0 { vec![(at, len)] } else { Vec::new() }
        };
        let stage = Stage { round: 0, counter: 0 };
        let block = self.gather(&mut s, rank, stage, held, (!self.in_place, &contribution));
        let block = s.one(self.phase(0), &block);
        let size = count(members.len());
        for t in 0..self.stretches {
            let window = self.exchange(&mut s, rank, t, block);
            let round = self.phase(t + 1) + self.distances() * self.turns();
            let stage = Stage { round, counter: (t + 1) * self.nodes.most() };
            let runs = |position| self.runs(group, t * size + position);
            self.gather(&mut s, rank, stage, window, (false, &runs));
        }
        s.by_rounds();
        s
    }

    fn memory(&self, rank: u32) -> Sizes {
        let input = if self.in_place { 0 } else { self.pieces.len(rank) };
        Sizes { input, output: self.pieces.bytes(), ..Sizes::default() }
    }
}

/// Whether groups are neighbouring ranks.
pub(super) fn follows(nodes: &Nodes) -> bool {
    (1..nodes.size()).all(|rank| nodes.of(rank) >= nodes.of(rank - 1))
}

fn turns(nodes: &Nodes) -> u32 {
    nodes.most().div_ceil(nodes.least())
}

/// How many counters peers bump.
fn arrivals(nodes: &Nodes, stretches: u32) -> u64 {
    let (stretches, most, distances) = (u64::from(stretches), nodes.most(), nodes.count() - 1);
    (stretches + 1) * u64::from(most) + stretches * u64::from(distances)
}

/// The rounds with this many stretches, unless these or the counters are more than a plan may have.
pub(super) fn rounds(nodes: &Nodes, stretches: u32) -> Option<u32> {
    let q = q(nodes.most());
    let phase = (nodes.count() - 1).checked_mul(turns(nodes))?.checked_add(q)?;
    let rounds = stretches.checked_add(1)?.checked_mul(phase)?.checked_add(q)?;
    (arrivals(nodes, stretches) <= u64::from(MAX_COUNTERS / 2)).then_some(rounds)
}

sketched!(Whole);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::interpret::{Goal, check, prove};
    use crate::plan::lower::{WireLimits, lower};
    use crate::plan::{Kind, Plan};

    /// Ranks in groups of these sizes, unless there is one only or one for each rank.
    fn grouped(sizes: &[u32]) -> Option<Nodes> {
        let groups: Vec<u32> =
            (0..).zip(sizes).flat_map(|(group, &size)| vec![group; size as usize]).collect();
        Nodes::new(count(groups.len()), &groups).ok()
    }

    /// All groups that neighbouring ranks can be in, by their sizes.
    fn all_groups(ranks: u32) -> impl Iterator<Item = Vec<u32>> {
        (0..1u32 << (ranks - 1)).map(move |borders| {
            let mut sizes = vec![1];
            for rank in 1..ranks {
                match borders >> (rank - 1) & 1 {
                    0 => *sizes.last_mut().unwrap() += 1,
                    _ => sizes.push(1),
                }
            }
            sizes
        })
    }

    fn proved(sizes: &[u32], nodes: &Nodes, counts: &[u64], stretches: u32, in_place: bool) {
        let case = format!("groups of {sizes:?}, {counts:?}, {stretches} stretches, in place: {in_place}");
        let plan = Whole::new("whole", nodes.clone(), counts, stretches, in_place).unwrap();
        let displs: Vec<u64> = (0..counts.len()).map(|rank| counts[..rank].iter().sum()).collect();
        let goal = Goal::allgatherv(counts, &displs, in_place);
        let all: u64 = counts.iter().sum();
        let report = prove(&plan, &goal).unwrap_or_else(|v| panic!("{case}: {v}"));
        assert!(report.rounds <= plan.rounds(), "{case}: {report:?}");
        assert_eq!(report.bytes, (u64::from(nodes.size()) - 1) * all, "{case}");
        let crossing: u64 = (0..nodes.size())
            .flat_map(|rank| plan.steps(rank).map(move |step| (rank, step)))
            .filter(|(rank, step)| step.kind == Kind::Put && nodes.of(*rank) != nodes.of(step.peer))
            .map(|(_, step)| step.len)
            .sum();
        assert_eq!(crossing, u64::from(nodes.count() - 1) * all, "{case}");
        let wires = [
            WireLimits { max_put: 300, ..WireLimits::PLAIN },
            WireLimits { gather: 4, light: 1 << 20, ..WireLimits::PLAIN },
            WireLimits { gather: 30, light: 50, coalesce: 1, ..WireLimits::PLAIN },
        ];
        for limits in wires {
            let programs: Vec<_> =
                (0..nodes.size()).map(|rank| lower(&plan, rank, &limits).unwrap()).collect();
            check(&plan, &programs, &goal, u64::from(stretches)).unwrap_or_else(|v| panic!("{case}: {v}"));
        }
    }

    fn proved_for_all_counts(sizes: &[u32], stretches: u32) {
        let Some(nodes) = grouped(sizes) else { return };
        let ranks = u64::from(nodes.size());
        let shapes: [fn(u64, u64) -> u64; 6] = [
            |_, _| 0,
            |_, _| 1,
            |_, _| 2048,
            |rank, _| rank % 3 * 7,
            |rank, ranks| u64::from(rank == ranks / 2) * 5000,
            |rank, ranks| u64::from(rank + 1 < ranks) * (rank + 100),
        ];
        for shape in shapes {
            let counts: Vec<u64> = (0..ranks).map(|rank| shape(rank, ranks)).collect();
            for in_place in [false, true] {
                proved(sizes, &nodes, &counts, stretches, in_place);
            }
        }
    }

    #[test]
    fn all_small_groups() {
        for sizes in (3..=7).flat_map(all_groups) {
            (1..=5).for_each(|stretches| proved_for_all_counts(&sizes, stretches));
        }
    }

    #[test]
    fn larger_groups() {
        for (size, groups) in [(2, 16), (3, 11), (4, 8), (5, 7), (7, 5), (8, 4), (16, 2), (16, 5), (33, 3)] {
            (1..=5).for_each(|n| proved_for_all_counts(&vec![size; groups], n));
        }
        for sizes in [vec![1, 40], vec![16, 16, 16, 3], vec![7, 1, 12, 30, 2], vec![9, 8, 9, 8, 9]] {
            (1..=5).for_each(|n| proved_for_all_counts(&sizes, n));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |groups: &[u32], counts: &[u64], stretches| {
            let nodes = Nodes::new(4, groups).unwrap();
            Whole::new("whole", nodes, counts, stretches, false).unwrap_err().to_string()
        };
        assert!(refused(&[0, 1, 0, 1], &[1; 4], 1).contains("follow"));
        assert!(refused(&[0, 0, 1, 1], &[1; 4], MAX_COUNTERS).contains("blocks"));
        assert!(refused(&[0, 0, 1, 1], &[u64::MAX; 4], 1).contains("2^64"));
    }
}
