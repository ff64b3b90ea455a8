//! The ranks of a node.

use std::collections::{BTreeMap, HashMap};

/// The node-local ranks of `rank`, with it.
pub(super) fn locals(nodes: &[u32], rank: u32) -> Vec<u32> {
    let mine = nodes.get(rank as usize);
    (0u32..).zip(nodes).filter(|(_, n)| Some(*n) == mine).map(|(r, _)| r).collect()
}

/// Ranks of the node that has most.
pub(super) fn largest_node(nodes: &[u32]) -> usize {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap_or(0)
}

/// The first rank and all ranks of each node.
pub(super) fn firsts(nodes: &[u32]) -> BTreeMap<u32, Vec<u32>> {
    let mut by_node: HashMap<u32, Vec<u32>> = HashMap::new();
    for (rank, node) in (0u32..).zip(nodes) {
        by_node.entry(*node).or_default().push(rank);
    }
    by_node.into_values().map(|ranks| (ranks[0], ranks)).collect()
}

/// Whether all ranks share a node.
pub(super) fn one_node(nodes: &[u32]) -> bool {
    nodes.iter().all(|node| *node == nodes[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locals_are_the_ranks_of_our_node() {
        assert_eq!(locals(&[0, 0, 1], 1), [0, 1]);
        assert_eq!(locals(&[0, 0, 1], 2), [2]);
        assert_eq!(firsts(&[7, 3, 7]).into_iter().collect::<Vec<_>>(), [(0, vec![0, 2]), (1, vec![1])]);
        assert_eq!([largest_node(&[]), largest_node(&[4, 1, 4, 1, 4])], [0, 3]);
        assert_eq!([one_node(&[4, 4]), one_node(&[4, 1])], [true, false]);
    }
}
