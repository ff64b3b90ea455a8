//! Where ranks are.

use super::members::Members;
use std::sync::Arc;

/// By rank: its node, and the group of nodes that this is in.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// By any number; of a communicator nothing where that says nothing: all are on one node, or each is on its own.
    pub(super) nodes: Arc<[u32]>,
    /// By any number; nothing: the network is not divided.
    pub(super) groups: Arc<[u32]>,
}

impl Places {
    /// Those of some ranks of the world, whose places these are. `shares`: some of the world's nodes have several ranks.
    pub(super) fn of(&self, members: &Members, shares: bool) -> Self {
        let picked = |all: &Arc<[u32]>| -> Arc<[u32]> {
            let one = |rank| all.get(members.world_rank(rank) as usize).copied().unwrap_or(0);
            let found: Arc<[u32]> = (0..members.size()).map(one).collect();
            if found.iter().all(|number| *number == found[0]) { Arc::default() } else { found }
        };
        let nodes = if shares { picked(&self.nodes) } else { Arc::default() };
        let groups = if self.groups.is_empty() { Arc::default() } else { picked(&self.groups) };
        Self { nodes, groups }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_places() {
        let world = Places { nodes: [0, 0, 1, 1, 2].into(), groups: [0, 0, 0, 0, 1].into() };
        let of = |ranks: &[u32], shares| {
            let places = world.of(&Members::List(ranks.to_vec()), shares);
            (places.nodes.to_vec(), places.groups.to_vec())
        };
        assert_eq!(of(&[4, 0, 1], true), (vec![2, 0, 0], vec![1, 0, 0]));
        // All in one group; all on one node.
        assert_eq!(of(&[3, 0], true), (vec![1, 0], vec![]));
        assert_eq!(of(&[1, 0], true), (vec![], vec![]));
        assert_eq!(of(&[0, 4], false), (vec![], vec![0, 1]));
        assert_eq!(*world.of(&Members::World(5), true).groups, [0, 0, 0, 0, 1]);
    }
}
