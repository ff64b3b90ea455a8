//! The levels of a call, and what follows from them for its blocks.

use super::super::Nodes;
use crate::error::{Result, argument};
use crate::machine::LogGp;
use crate::plan::registry::Arguments;
use crate::plan::rules;

/// The levels, from the lowest: the ranks' nodes, if some are shared, and the nodes' groups.
pub(super) fn levels(a: &Arguments) -> Result<Vec<Nodes>> {
    if a.groups.is_empty() {
        let unknown = argument("no groups of nodes are known");
        return Err(unknown.help("choose an algorithm for any nodes"));
    }
    match Nodes::new(a.size, &a.nodes) {
        Ok(nodes) => {
            let groups = nodes.grouped(&a.groups)?;
            Ok(vec![nodes, groups])
        }
        Err(_) => Ok(vec![Nodes::grouping(a.size, &a.groups)?]),
    }
}

/// A put for each rank of a group.
pub(super) fn of_group(a: &Arguments) -> u32 {
    let most =
        |levels: Vec<Nodes>| levels.iter().fold(1u32, |ranks, level| ranks.saturating_mul(level.most()));
    levels(a).map_or(1, most)
}

/// The number of groups.
pub(super) fn groups(levels: &[Nodes]) -> u32 {
    levels.last().map_or(1, Nodes::count)
}

/// The wire with the puts within a group in o.
pub(super) fn with_others(levels: &[Nodes], model: &LogGp) -> LogGp {
    let most = levels.last().map_or(1, Nodes::most);
    LogGp { overhead_ns: model.overhead_ns.saturating_mul(most.into()), ..*model }
}

/// As among twice as many ends as there are groups, where the carrier of a block puts it within the group, too: one round more, in which
/// the carriers pass on what comes last. By the simulator no number of blocks is over 4 % faster (32 nodes in groups of 16, and 128 in groups
/// of 32; 64 KiB to 8 MiB; without a taper and at 1:4).
pub(super) fn blocks(a: &Arguments, levels: &[Nodes], model: &LogGp) -> u32 {
    let by_rule = || rules::bcast_blocks(ends(levels), a.bytes, &with_others(levels, model));
    a.blocks.unwrap_or_else(by_rule)
}

/// The ends of [`blocks`].
pub(super) fn ends(levels: &[Nodes]) -> u32 {
    groups(levels).saturating_mul(2)
}

/// The fewest nodes of a root's group, beside it, that carry what is reduced to it. With k others a carrier gets (1 + 1/k)m and adds that up; with the root
/// among them it gets (2 − 1/(k+1))m: from three on that is more.
const MIN_OTHERS: usize = 3;

/// Whether the root of a reduce carries a share in its group.
pub(super) fn root_carries(groups: &Nodes, root: u32) -> bool {
    groups.lanes(Some(root)).len() < MIN_OTHERS
}

/// The lanes of a reduce to a rank among groups.
pub(super) fn reduce_lanes(levels: &[Nodes], root: u32) -> u32 {
    let root = match levels {
        [ranks, _] => ranks.of(root),
        _ => root,
    };
    let Some(groups) = levels.last() else { return 1 };
    let apart = (!root_carries(groups, root)).then_some(root);
    u32::try_from(groups.lanes(apart).len()).unwrap_or(u32::MAX)
}
