//! The ways of a call that are worth a trial.

use super::choice::{Selection, Way, agreed, is_alike, refused, uncrowded};
use super::memory::Bound;
use crate::machine::Groups;
use crate::plan::hops::neighbors;
use crate::plan::registry::cost::Cost;
use crate::plan::registry::{Algorithm, Arguments, Operation};

/// Ways of one trial, at most. Chosen, for a bound of what a trial costs: two more algorithms, and another number of blocks.
pub const MAX_WAYS: usize = 4;
/// Trials of a class of calls that follow each other, at most: the first, and others of what is kept and the next ways. Chosen, so that
/// nearly all algorithms of an operation have their turn.
pub const MAX_TRIALS: usize = 4;
/// Ways of later trials, at most: what is kept is in each of them.
const MAX_LATER_WAYS: usize = (MAX_TRIALS - 1) * (MAX_WAYS - 1);
/// Algorithms beside the cheapest in the first trial, at most. Chosen: of the choices of `xtask choices` that are wrong nearly all are right in the second place.
const MAX_OTHER_ALGORITHMS: usize = 2;
/// Where groups of nodes are not known, the way that would be the best if half of them were behind a link tapered 1:4 is worth a trial as well.
/// Chosen: 1:4 is what fat trees are tapered by at most.
const SUPPOSED_TAPER: u32 = 4;
/// Of fewer nodes it is not supposed. Chosen: two switches of four.
const MIN_SUPPOSED_NODES: u32 = 8;
/// It must then take less than this, in percent of the others that are tried. Chosen: at 75 a mesh kept a ring out, which took 0.73 times as long.
const SUPPOSED_GAIN_PERCENT: f64 = 90.0;
/// A way of a higher price, in percent of the lowest, is not worth a trial of more than [`MAX_MORE_NS`]. Chosen: of the choices of `xtask choices` the worst takes 1.74
/// times the best time, and 98 of 100 at most 1.1.
pub const MAX_PRICE_PERCENT: u32 = 150;

/// A way whose price is higher by no more than this, in nanoseconds (0.5 ms), is worth a trial. Chosen: nine calls of it take 5 ms more, and prices of short calls are furthest off, as what a put
/// costs a processor depends on what else that has to do (a barrier of 16 ranks on two cores takes 0.3 ms by `linear` and 0.6 by `n-way`, whose price is less than half).
pub const MAX_MORE_NS: u32 = 500_000;

/// In later trials the price must not be higher than this, in percent of the lowest, and its bytes alone must take no longer than the lowest price. Chosen: what
/// hops and puts cost prices know worst where ranks wait for a core (16 on two: a scan of 10 KB takes 1.0 ms by `pipeline`, by price 4.7, and 2.6 by `doubling`, by price, too).
const MAX_LATER_PRICE_PERCENT: u32 = 400;

/// The way that would be the best if bytes took no time is tried as well, up to this price in percent of the lowest. A link that is metered by a token bucket, as those of virtual
/// machines are, lets some bytes through at once, and prices know only its rate. Chosen: 16 ranks on two cores, whose links let 20 KB through, do an irregular allgatherv of 1 KB
/// in 0.43 ms by `linear`, which costs 4.3 times the lowest price, and in 0.64 by the next one; nine calls of one such way take 63 calls' time more.
const MAX_BURST_PRICE_PERCENT: u32 = 800;
/// Its bytes one after the other on links must be no more than this (64 KiB). Chosen: three times what the buckets of `ci/cluster` let through at once.
const MAX_BURST_BYTES: f64 = 65_536.0;
/// A pipelined algorithm is tried with its number of blocks divided by this, too, between nodes: a link that lets a burst through needs fewer blocks than prices say, and so do ranks that share
/// cores. Chosen: 16 ranks on two cores, whose links let 20 KB through, broadcast 10 KB by `two_tree` in 0.59 ms so and in 1.55 in as many blocks as by price, 30 KB in 1.62 and 2.67, and scan 30 KB by
/// `pipeline` in 2.00 and 3.92 (times of trials, November 29, 2026).
const FEWER_BLOCKS: u32 = 8;
/// The longest put for that, in bytes (16 KiB). Chosen: less than the 20 KB that links of `ci/cluster` let through at once.
const MAX_BURST_PUT_BYTES: u64 = 16_384;

/// Ways of a call that are worth trials.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    /// The cheapest first.
    pub all: Vec<Way>,
    /// How many of them are in the first trial: at most [`MAX_WAYS`].
    pub first: usize,
}

impl Selection {
    /// The ways that are worth a trial. Those of the first trial come first, at
    /// most [`MAX_WAYS`], the cheapest ahead of all: other algorithms, one of which spares the links between groups of nodes where these
    /// are not known, then the cheapest one in half and twice as many blocks, or in a hop more and a hop less, of at most [`MAX_PRICE_PERCENT`] of the lowest price or at most [`MAX_MORE_NS`] more. Behind them
    /// are those of later trials: the one that would be the best if bytes took no time, of at most eight times the lowest price and 64 KiB; the other algorithms by price, as far as
    /// their bytes alone take no longer than the lowest price; pipelined ones in an eighth of their blocks, in puts of up to 16 KiB between nodes; and those of before in half and twice as many.
    pub fn ways(&self, operation: Operation, arguments: &Arguments) -> Ways {
        let arguments = agreed(operation, arguments);
        let fits =
            |a: &&'static Algorithm| is_alike(a, &arguments) && refused(a, &arguments, false).is_none();
        let fitting = uncrowded(operation, &arguments, self.machine(), fits);
        let priced = fitting.into_iter().map(|a| (a, a.cost(&arguments, self.machine())));
        let mut priced: Vec<_> = priced.filter(|(_, cost)| cost.ns.is_finite()).collect();
        // Stable: of equal prices the first in the registry stays first.
        priced.sort_by(|(_, a), (_, b)| a.ns.total_cmp(&b.ns));
        let Some(&(best, lowest)) = priced.first() else { return Ways::default() };
        let percent = |percent: u32| lowest.ns * f64::from(percent) / 100.0;
        let most_ns = percent(MAX_PRICE_PERCENT).max(lowest.ns + f64::from(MAX_MORE_NS));
        if arguments.size == 2 {
            priced.dedup_by(|(_, a), (_, b)| is_same_path(a, b));
        }
        let machine = self.machine();
        #[allow(clippy::cast_precision_loss)] // prices need no more than 53 bits
        let byte_ns = machine.wire.byte_ps.min(machine.near.byte_ps) as f64 / 1000.0;
        let most_later_ns = percent(MAX_LATER_PRICE_PERCENT);
        let burst = self.best_in_burst(&arguments, &priced, percent(MAX_BURST_PRICE_PERCENT));
        let is_worth_later = |cost: &Cost| cost.ns <= most_later_ns && cost.bytes * byte_ns <= lowest.ns;
        let later: Vec<_> = priced.iter().filter(|(_, cost)| is_worth_later(cost)).copied().collect();
        let in_fewer = |of: &_| self.in_fewer_blocks(*of, operation, &arguments, most_later_ns);
        let in_fewer: Vec<_> = priced.iter().filter_map(in_fewer).collect();
        let is_worth = |cost: &Cost| cost.ns <= most_ns;
        priced.retain(|(_, cost)| is_worth(cost));
        let near = self.best_if_tapered(&arguments, priced.iter().map(|(a, _)| *a));
        let others = priced.iter().skip(1).take(MAX_OTHER_ALGORITHMS);
        let mut ways: Vec<_> = std::iter::once(best)
            .chain(others.map(|(a, _)| *a))
            .map(|a| self.way_of(a, &arguments))
            .collect();
        if let Some(near) = near {
            ways.truncate(MAX_OTHER_ALGORITHMS);
            ways.push(self.way_of(near, &arguments));
        }
        ways.extend(self.scaled((best, lowest), operation, &arguments, &is_worth));
        ways.truncate(MAX_WAYS);
        let first = ways.len();
        // A first trial of one way has others with it.
        let most = first.max(if first < 2 { MAX_WAYS } else { 0 }) + MAX_LATER_WAYS;
        let others = later.iter().map(|(a, _)| self.way_of(a, &arguments));
        let scaled = later.iter().flat_map(|of| self.scaled(*of, operation, &arguments, &is_worth_later));
        for way in burst.into_iter().chain(others).chain(in_fewer).chain(scaled) {
            if ways.len() == most {
                break;
            }
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        Ways { all: ways, first }
    }

    /// Of these algorithms that cost at most so much and put few bytes, the one that would be the best in as many blocks if bytes took no time. Within a node they take none either,
    /// as prices of puts between nodes have the slower one of both kinds of links. Ranks of one node have no link that is metered.
    fn best_in_burst(
        &self,
        arguments: &Arguments,
        priced: &[(&'static Algorithm, Cost)],
        most_ns: f64,
    ) -> Option<Way> {
        if arguments.size <= self.machine().per_node {
            return None;
        }
        let mut machine = *self.machine();
        (machine.wire.byte_ps, machine.near.byte_ps) = (0, 0);
        let ns = |a: &Algorithm, blocks: u32| {
            let asked = Arguments { blocks: Some(blocks), ..arguments.clone() };
            a.cost(&asked, &machine).ns
        };
        let is_worth = |cost: &Cost| cost.ns <= most_ns && cost.bytes <= MAX_BURST_BYTES;
        let worth = priced.iter().filter(|(_, cost)| is_worth(cost));
        let in_burst = worth.map(|(a, cost)| (*a, ns(a, cost.blocks)));
        let (best, _) = in_burst.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        Some(self.way_of(best, arguments))
    }

    fn way_of(&self, algorithm: &'static Algorithm, arguments: &Arguments) -> Way {
        Way::new(algorithm, arguments, self.machine())
    }

    /// The same algorithm in half and twice as many blocks, or in a hop more and a hop less, where that is worth it by price.
    fn scaled(
        &self,
        (algorithm, cost): (&'static Algorithm, Cost),
        operation: Operation,
        arguments: &Arguments,
        is_worth: impl Fn(&Cost) -> bool,
    ) -> impl Iterator<Item = Way> {
        let more = match algorithm.messages {
            Some(messages) => neighbors(arguments.size, cost.blocks, messages.fewest_hops),
            None if cost.blocks > 1 => vec![cost.blocks.saturating_mul(2), cost.blocks.div_ceil(2)],
            None => Vec::new(),
        };
        let scaled = move |blocks| self.in_blocks(algorithm, blocks, operation, arguments, &is_worth);
        more.into_iter().filter(move |n| *n != cost.blocks).filter_map(scaled)
    }

    /// The same algorithm in an eighth of its blocks, between nodes, where that costs at most `most_ns` and its puts are short.
    fn in_fewer_blocks(
        &self,
        (algorithm, cost): (&'static Algorithm, Cost),
        operation: Operation,
        arguments: &Arguments,
        most_ns: f64,
    ) -> Option<Way> {
        if arguments.size <= self.machine().per_node || algorithm.messages.is_some() || cost.blocks < 2 {
            return None;
        }
        let is_worth = |cost: &Cost| {
            let put = arguments.largest().div_ceil(cost.blocks.max(1).into());
            cost.ns <= most_ns && put <= MAX_BURST_PUT_BYTES
        };
        self.in_blocks(algorithm, cost.blocks.div_ceil(FEWER_BLOCKS), operation, arguments, is_worth)
    }

    /// This algorithm with this number of blocks, if it accepts that, its plan is not too large, and `is_worth` accepts its price.
    fn in_blocks(
        &self,
        algorithm: &'static Algorithm,
        blocks: u32,
        operation: Operation,
        arguments: &Arguments,
        is_worth: impl Fn(&Cost) -> bool,
    ) -> Option<Way> {
        let asked = Arguments { blocks: Some(blocks), ..arguments.clone() };
        let fits = refused(algorithm, &asked, false).is_none()
            && Bound::USUAL.exceeded(algorithm, operation, &asked, self.machine()).is_none();
        (fits && is_worth(&algorithm.cost(&asked, self.machine())))
            .then_some(Way { algorithm, blocks: Some(blocks) })
    }

    /// Where groups of nodes are not known: of these algorithms, the cheapest first, the one that would be the best if they were tapered, unless those that
    /// are tried anyhow come close.
    fn best_if_tapered(
        &self,
        arguments: &Arguments,
        algorithms: impl Iterator<Item = &'static Algorithm>,
    ) -> Option<&'static Algorithm> {
        let nodes = arguments.size / self.machine().per_node.max(1);
        if nodes < MIN_SUPPOSED_NODES || !arguments.groups.is_empty() {
            return None;
        }
        let groups = Groups { nodes: nodes / 2, taper: SUPPOSED_TAPER, latency_ns: 0 };
        let cost = |a: &'static Algorithm| (a, a.cost_if(arguments, self.machine(), groups).ns);
        let costs: Vec<_> = algorithms.map(cost).collect();
        let tried =
            costs.iter().take(1 + MAX_OTHER_ALGORITHMS).map(|(_, ns)| *ns).fold(f64::INFINITY, f64::min);
        let (best, ns) = costs.into_iter().min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        (ns < tried * SUPPOSED_GAIN_PERCENT / 100.0).then_some(best)
    }
}

/// Whether two paths are alike in all that they are made of. Between two ranks, which have one link, they are the same puts then.
fn is_same_path(a: &Cost, b: &Cost) -> bool {
    let parts = |cost: &Cost| [cost.hops, cost.puts, cost.bytes, cost.reduced, cost.copied];
    parts(a) == parts(b) && a.blocks == b.blocks
}
