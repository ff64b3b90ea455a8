//! The links between groups of nodes: one up and one down for each group.

use super::turns::Stage;
use crate::error::{Result, argument};
use crate::machine::Machine;
use std::collections::HashMap;

/// The groups of nodes and their links.
#[derive(Debug)]
pub(super) struct Global {
    /// By node: its group.
    of: Vec<u32>,
    groups: Vec<Group>,
    /// Picoseconds for a byte on as many links of nodes as the taper says.
    byte_ps: u64,
    bytes: u64,
}

#[derive(Clone, Debug, Default)]
struct Group {
    nodes: u64,
    /// When the link up and the link down are free again.
    up_until: u64,
    down_until: u64,
}

impl Global {
    /// The groups of a machine, if it has any.
    pub(super) fn regular(machine: &Machine, size: u32) -> Option<Self> {
        let nodes = machine.groups.nodes;
        (nodes > 0).then(|| Self::new(machine, (0..node_count(machine, size)).map(|node| node / nodes)))
    }

    /// Groups of any sizes, by node.
    pub(super) fn given(machine: &Machine, size: u32, groups: &[u32]) -> Result<Self> {
        let nodes = node_count(machine, size);
        match groups.len() == nodes as usize {
            true => Ok(Self::new(machine, groups.iter().copied())),
            false => Err(argument(format!("the groups of {} nodes, of {nodes}", groups.len()))),
        }
    }

    fn new(machine: &Machine, numbers: impl Iterator<Item = u32>) -> Self {
        let (mut of, mut groups, mut found) = (Vec::new(), Vec::<Group>::new(), HashMap::new());
        for number in numbers {
            let group = *found.entry(number).or_insert(groups.len());
            if group == groups.len() {
                groups.push(Group::default());
            }
            groups[group].nodes += 1;
            // No more than nodes.
            of.push(u32::try_from(group).unwrap_or(u32::MAX));
        }
        let byte_ps = machine.wire.byte_ps.saturating_mul(machine.groups.taper.into());
        Self { of, groups, byte_ps, bytes: 0 }
    }

    /// Bytes that came from group to group so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether two nodes are in different groups.
    pub(super) fn crosses(&self, from: u32, to: u32) -> bool {
        self.of[from as usize] != self.of[to as usize]
    }

    /// How long these bytes hold a link of the group.
    fn takes(&self, group: u32, bytes: u64) -> u64 {
        bytes.saturating_mul(self.byte_ps) / self.groups[group as usize].nodes
    }

    /// Bytes come to the link up or down of a node's group: when it begins to carry them.
    pub(super) fn pass(&mut self, stage: Stage, now: u64, node: u32, bytes: u64) -> u64 {
        let group = self.of[node as usize];
        let takes = self.takes(group, bytes);
        let group = &mut self.groups[group as usize];
        let until = if stage == Stage::Up { &mut group.up_until } else { &mut group.down_until };
        let begins = now.max(*until);
        *until = begins.saturating_add(takes);
        begins
    }

    /// Bytes have come from node to node: how long the slower one of their groups' links took.
    pub(super) fn arrived(&mut self, nodes: (u32, u32), bytes: u64) -> u64 {
        self.bytes += bytes;
        let takes = |node: u32| self.takes(self.of[node as usize], bytes);
        takes(nodes.0).max(takes(nodes.1))
    }
}

fn node_count(machine: &Machine, size: u32) -> u32 {
    size.checked_sub(1).map_or(0, |last| machine.node_of(last) + 1)
}
