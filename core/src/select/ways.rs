//! The ways of a call that are worth a trial.

use super::choice::{Selection, Way, agreed, is_alike, refused, uncrowded};
use super::memory::Bound;
use crate::machine::Groups;
use crate::plan::hops::neighbors;
use crate::plan::registry::cost::Cost;
use crate::plan::registry::{Algorithm, Arguments, Operation};

/// Ways that are worth a trial, at most. Chosen, for a bound of what a trial costs: two more algorithms, and another number of blocks.
pub const MAX_WAYS: usize = 4;
/// Algorithms beside the cheapest, at most. Chosen: of the choices of `xtask choices` that are wrong nearly all are right in the second place.
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

impl Selection {
    /// The ways that are worth a trial, the cheapest first: other algorithms, one of which spares the links between groups of nodes where these
    /// are not known, then the cheapest one in half and twice as many blocks, or in a hop more and a hop less; at most [`MAX_WAYS`], of at most [`MAX_PRICE_PERCENT`] of the lowest price or at
    /// most [`MAX_MORE_NS`] more.
    pub fn ways(&self, operation: Operation, arguments: &Arguments) -> Vec<Way> {
        let arguments = agreed(operation, arguments);
        let fits =
            |a: &&'static Algorithm| is_alike(a, &arguments) && refused(a, &arguments, false).is_none();
        let fitting = uncrowded(operation, &arguments, self.machine(), fits);
        let priced = fitting.into_iter().map(|a| (a, a.cost(&arguments, self.machine())));
        let mut priced: Vec<_> = priced.filter(|(_, cost)| cost.ns.is_finite()).collect();
        // Stable: of equal prices the first in the registry stays first.
        priced.sort_by(|(_, a), (_, b)| a.ns.total_cmp(&b.ns));
        let Some(&(best, lowest)) = priced.first() else { return Vec::new() };
        let most_ns =
            (lowest.ns * f64::from(MAX_PRICE_PERCENT) / 100.0).max(lowest.ns + f64::from(MAX_MORE_NS));
        let mut others: Vec<_> = priced.iter().take_while(|(_, cost)| cost.ns <= most_ns).collect();
        if arguments.size == 2 {
            others.dedup_by(|(_, a), (_, b)| is_same_path(a, b));
        }
        let near = self.best_if_tapered(&arguments, others.iter().map(|(a, _)| *a));
        let others = others.into_iter().map(|(a, _)| *a).skip(1).take(MAX_OTHER_ALGORITHMS);
        let mut tried: Vec<_> = std::iter::once(best).chain(others).collect();
        if let Some(near) = near {
            tried.truncate(MAX_OTHER_ALGORITHMS);
            tried.push(near);
        }
        let mut ways: Vec<_> = tried.into_iter().map(|a| Way::new(a, &arguments, self.machine())).collect();
        let scaled = |blocks: u32| {
            let asked = Arguments { blocks: Some(blocks), ..arguments.clone() };
            let fits = refused(best, &asked, false).is_none()
                && Bound::USUAL.exceeded(best, operation, &asked, self.machine()).is_none();
            (fits && best.cost(&asked, self.machine()).ns <= most_ns)
                .then_some(Way { algorithm: best, blocks: Some(blocks) })
        };
        if lowest.blocks > 1 || best.messages.is_some() {
            let more = match best.messages {
                Some(messages) => neighbors(arguments.size, lowest.blocks, messages.fewest_hops),
                None => vec![lowest.blocks.saturating_mul(2), lowest.blocks.div_ceil(2)],
            };
            ways.extend(more.into_iter().filter(|n| *n != lowest.blocks).filter_map(scaled));
        }
        ways.truncate(MAX_WAYS);
        ways
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
