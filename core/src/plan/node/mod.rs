//! Plans that know nodes: the network carries what a node needs once, and within the node it is passed on.
//!
//! Of every node some ranks are *carriers*: they run a plan among nodes, one rank of each, and put what arrives to
//! the others of their node. What a rank of the node contributes comes to its carrier the same way. Nothing waits
//! for a stage to end: each block goes on as soon as it is there.
//!
//! - The *leader* variant has one carrier per node: the root on its own node, else the first rank. Nodes may be of
//!   any size.
//! - With *lanes* (full-lane decomposition; Träff and Hunold, Decomposing MPI Collectives for Exploiting Multi-lane
//!   Communication, 2020, arXiv 1910.13373) every rank is a carrier: the k-th ranks of all nodes are lane k, which
//!   moves a share of the message. All nodes have the same number of ranks.
//!
//! Which ranks share a node may be anything: placement in blocks, round-robin, or by chance. [`Nodes`] counts nodes
//! by their first ranks.
//!
//! Nodes may be in groups ([`levels`]): then the plan among nodes is one made the same way of a plan among groups.
//!
//! - [`spread`]: broadcast, allgather and allgatherv; [`fold`]: reduce, allreduce and reduce_scatter(_block); [`barrier`];
//!   [`tree`]: scatter(v); [`alltoall`]; [`scan`]: scan and exscan.

pub(in crate::plan) mod allgather;
pub(in crate::plan) mod allreduce;
pub(crate) mod alltoall;
pub(crate) mod barrier;
pub(in crate::plan) mod bcast;
pub(crate) mod fold;
pub(in crate::plan) mod levels;
mod line;
pub(in crate::plan) mod reduce;
pub(in crate::plan) mod reduce_scatter;
pub(crate) mod scan;
pub(in crate::plan) mod scatter;
pub(crate) mod spread;
pub(crate) mod tree;

use crate::error::{Result, argument};
use crate::schedule::MAX_P;
use std::collections::HashMap;

/// Makes a plan of a type that has `name`, `nodes` and `rounds`, a `sketch` of any rank and what `memory` it needs.
macro_rules! sketched {
    ($plan:ty) => {
        impl crate::plan::Plan for $plan {
            fn algorithm(&self) -> &'static str {
                self.name
            }

            fn size(&self) -> u32 {
                self.nodes.size()
            }

            fn rounds(&self) -> u32 {
                self.rounds
            }

            fn counters(&self, rank: u32) -> u32 {
                self.sketch(rank).counters()
            }

            fn sizes(&self, rank: u32) -> crate::plan::Sizes {
                self.memory(rank)
            }

            fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = crate::plan::Step> + '_> {
                Box::new(self.sketch(rank).steps.into_iter())
            }
        }
    };
}
use sketched;

/// Which ranks share nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nodes {
    /// By rank: its node, and its position among the ranks of the node.
    places: Vec<(u32, u32)>,
    /// By node: its ranks, ascending.
    members: Vec<Vec<u32>>,
}

impl Nodes {
    /// `nodes[r]` is the node of rank r, by any number.
    ///
    /// # Errors
    /// If it is not known of all `size` ranks, or says nothing: all are on one node, or each is alone on its own.
    pub(crate) fn new(size: u32, nodes: &[u32]) -> Result<Self> {
        if nodes.len() != size as usize && !nodes.is_empty() || size > MAX_P {
            return Err(argument(format!("the nodes of {} ranks, of {size}", nodes.len())));
        }
        let mut found = HashMap::new();
        let (mut places, mut members) = (Vec::with_capacity(nodes.len()), Vec::<Vec<u32>>::new());
        for (rank, node) in (0..).zip(nodes) {
            let next = count(members.len());
            let node = *found.entry(node).or_insert(next);
            if node == next {
                members.push(Vec::new());
            }
            let list = &mut members[node as usize];
            places.push((node, count(list.len())));
            list.push(rank);
        }
        if members.len() == nodes.len() {
            return Err(argument("every rank is alone on its node").help("choose an algorithm for any ranks"));
        }
        if members.len() == 1 {
            return Err(argument("all ranks are on one node").help("choose an algorithm for any ranks"));
        }
        Ok(Self { places, members })
    }

    /// The groups that the nodes are in, where `groups[r]` is that of rank r.
    ///
    /// # Errors
    /// If a node is in two groups, or there is one group only, or one for each node.
    pub(super) fn grouped(&self, groups: &[u32]) -> Result<Self> {
        let group = |rank: &u32| groups.get(*rank as usize).copied();
        let of_node: Option<Vec<u32>> = self.members.iter().map(|ranks| group(&ranks[0])).collect();
        let of_node = of_node.filter(|of| {
            let alike = |(ranks, of): (&Vec<u32>, &u32)| ranks.iter().all(|rank| group(rank) == Some(*of));
            self.members.iter().zip(of).all(alike)
        });
        Self::grouping(self.count(), &of_node.ok_or_else(|| argument("a node is in two groups"))?)
    }

    /// Groups of nodes, likewise: `groups[i]` is the group of node i.
    ///
    /// # Errors
    /// If it is not known of all nodes, or there is one group only, or one for each node.
    pub(super) fn grouping(nodes: u32, groups: &[u32]) -> Result<Self> {
        let one = |_| {
            argument("all nodes are in one group, or each is alone in its own")
                .help("choose an algorithm for any nodes")
        };
        Self::new(nodes, groups).map_err(one)
    }

    /// The number of ranks.
    pub(crate) fn size(&self) -> u32 {
        count(self.places.len())
    }

    /// The number of nodes, at least 2.
    pub(crate) fn count(&self) -> u32 {
        count(self.members.len())
    }

    /// The node of a rank: nodes count by their first ranks.
    pub(crate) fn of(&self, rank: u32) -> u32 {
        self.places[rank as usize].0
    }

    /// The position of a rank among those of its node.
    pub(crate) fn position(&self, rank: u32) -> u32 {
        self.places[rank as usize].1
    }

    /// The ranks of a node, ascending.
    pub(crate) fn members(&self, node: u32) -> &[u32] {
        &self.members[node as usize]
    }

    /// The rank `further` positions on in the node of `rank`, round its end.
    pub(crate) fn neighbour(&self, rank: u32, further: u32) -> u32 {
        let members = self.members(self.of(rank));
        members[(self.position(rank) + further) as usize % members.len()]
    }

    /// How many positions `to` is behind `from`, both on one node.
    fn distance(&self, from: u32, to: u32) -> u32 {
        let ranks = count(self.members(self.of(from)).len());
        (self.position(to) + ranks - self.position(from)) % ranks
    }

    /// The ranks of the largest node, at least 2.
    pub(crate) fn most(&self) -> u32 {
        count(self.members.iter().map(Vec::len).max().unwrap_or(0))
    }

    /// The ranks of the smallest node, at least 1.
    pub(crate) fn least(&self) -> u32 {
        count(self.members.iter().map(Vec::len).min().unwrap_or(1))
    }

    /// The ranks of every node.
    ///
    /// # Errors
    /// If they are not the same number.
    pub(crate) fn each(&self) -> Result<u32> {
        if self.members.iter().all(|members| members.len() == self.members[0].len()) {
            return Ok(self.most());
        }
        Err(argument("the nodes have unequal numbers of ranks").help("choose an algorithm for any nodes"))
    }

    /// One rank of each node: the first, or the root on its own.
    pub(crate) fn leaders(&self, root: Option<u32>) -> Vec<u32> {
        let leader = |members: &Vec<u32>| match root {
            Some(root) if self.of(root) == self.of(members[0]) => root,
            _ => members[0],
        };
        self.members.iter().map(leader).collect()
    }

    /// The carriers of as many lanes as can be, each by node: the k-th ranks of all nodes. `apart` carries none, where its node has
    /// another rank.
    fn lanes(&self, apart: Option<u32>) -> Vec<Vec<u32>> {
        let apart = apart.filter(|&rank| self.members(self.of(rank)).len() > 1);
        let carriers = |members: &Vec<u32>| -> Vec<u32> {
            members.iter().copied().filter(|rank| Some(*rank) != apart).collect()
        };
        let all: Vec<Vec<u32>> = self.members.iter().map(carriers).collect();
        let lanes = all.iter().map(Vec::len).min().unwrap_or(0);
        (0..lanes).map(|k| all.iter().map(|carriers| carriers[k]).collect()).collect()
    }

    /// The rank at a position on each node, if all have this many.
    fn lane(&self, position: u32) -> Vec<u32> {
        self.members.iter().filter_map(|members| members.get(position as usize).copied()).collect()
    }
}

fn count(n: usize) -> u32 {
    // No more than ranks.
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_placement() {
        let nodes = Nodes::new(7, &[5, 9, 5, 9, 9, 1, 5]).unwrap();
        assert_eq!((nodes.count(), nodes.most()), (3, 3));
        assert_eq!(
            [nodes.members(0), nodes.members(1), nodes.members(2)],
            [&[0, 2, 6][..], &[1, 3, 4], &[5]]
        );
        assert_eq!(nodes.leaders(None), [0, 1, 5]);
        assert_eq!(nodes.leaders(Some(4)), [0, 4, 5]);
        assert_eq!((nodes.neighbour(6, 1), nodes.neighbour(1, 2)), (0, 4));
        assert_eq!((nodes.distance(6, 0), nodes.distance(1, 4)), (1, 2));
        assert_eq!(nodes.lanes(None), [[0, 1, 5]]);
        // A rank that is alone on its node is its carrier, too.
        assert_eq!((nodes.lanes(Some(0)), nodes.lanes(Some(5))), (vec![vec![2, 1, 5]], vec![vec![0, 1, 5]]));
        assert_eq!(Nodes::new(5, &[0, 0, 1, 0, 1]).unwrap().lanes(Some(1)), [[0, 2], [3, 4]]);
        assert!(nodes.each().unwrap_err().to_string().contains("unequal"));
        assert_eq!(Nodes::new(4, &[0, 1, 0, 1]).unwrap().each().unwrap(), 2);
        for (size, wrong) in [(3, vec![0, 1, 2]), (3, vec![4, 4, 4]), (3, vec![0, 0]), (3, vec![])] {
            Nodes::new(size, &wrong).unwrap_err();
        }
    }
}
