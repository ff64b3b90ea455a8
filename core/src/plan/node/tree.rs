//! A tree among nodes, made one among all ranks: of each node one rank, its leader, is in it, and has the others of its
//! node for leaves. For [`scatter`](crate::plan::scatter), where a node's blocks then leave the root in one message.
//!
//! Positions are node by node in the order of the tree among nodes, ascending within a node, wherever the ranks are: what
//! a leader holds for its node, and for the nodes behind it, is one range. The rounds within nodes are those of a gather:
//! S−1, S the ranks of the largest node, and then those of the tree among nodes.

use super::{Nodes, count};
use crate::error::{Result, argument};
use crate::plan::tree::{Branch, Tree};

/// A tree through leaders.
#[derive(Debug)]
pub(crate) struct NodeTree {
    name: &'static str,
    nodes: Nodes,
    /// By node; the root on its own.
    leaders: Vec<u32>,
    among: Box<dyn Tree>,
    /// By position among nodes, and one more: the first position of the node's ranks.
    firsts: Vec<u32>,
    root: u32,
}

impl NodeTree {
    /// `among` is a tree among the nodes whose root is the node of `root`.
    ///
    /// # Errors
    /// If there is no such root, or the tree is not one among these nodes.
    pub(crate) fn new(name: &'static str, nodes: Nodes, root: u32, among: Box<dyn Tree>) -> Result<Self> {
        if root >= nodes.size() {
            return Err(argument(format!("root {root} is not one of the {} ranks", nodes.size())));
        }
        if among.size() != nodes.count() || among.root() != nodes.of(root) {
            return Err(argument("the tree among nodes has other nodes, or another root"));
        }
        let mut firsts = vec![0];
        for position in 0..nodes.count() {
            let ranks = count(nodes.members(among.rank(position)).len());
            firsts.push(firsts[position as usize] + ranks);
        }
        Ok(Self { name, leaders: nodes.leaders(Some(root)), nodes, among, firsts, root })
    }

    fn is_leader(&self, rank: u32) -> bool {
        self.leaders[self.nodes.of(rank) as usize] == rank
    }

    /// The edge between a leader and another rank of its node, with `peer` at the other end.
    fn leaf(&self, peer: u32, rank: u32) -> Branch {
        let leader = self.leaders[self.nodes.of(rank) as usize];
        let behind = self.nodes.position(rank) > self.nodes.position(leader);
        let round = self.nodes.position(rank) - u32::from(behind);
        Branch { peer, round, first: self.position(rank), width: 1 }
    }

    /// An edge among nodes.
    fn edge(&self, edge: Branch) -> Branch {
        let [first, end] = [edge.first, edge.first + edge.width].map(|at| self.firsts[at as usize]);
        let peer = self.leaders[edge.peer as usize];
        Branch { peer, round: self.nodes.most() - 1 + edge.round, first, width: end - first }
    }
}

impl Tree for NodeTree {
    fn name(&self) -> &'static str {
        self.name
    }

    fn size(&self) -> u32 {
        self.nodes.size()
    }

    fn root(&self) -> u32 {
        self.root
    }

    fn rounds(&self) -> u32 {
        self.nodes.most() - 1 + self.among.rounds()
    }

    fn rank(&self, position: u32) -> u32 {
        let at = self.firsts.partition_point(|&first| first <= position) - 1;
        self.nodes.members(self.among.rank(count(at)))[(position - self.firsts[at]) as usize]
    }

    fn position(&self, rank: u32) -> u32 {
        let at = self.among.position(self.nodes.of(rank));
        self.firsts[at as usize] + self.nodes.position(rank)
    }

    fn parent(&self, rank: u32) -> Option<Branch> {
        let node = self.nodes.of(rank);
        match self.is_leader(rank) {
            true => self.among.parent(node).map(|edge| self.edge(edge)),
            false => Some(self.leaf(self.leaders[node as usize], rank)),
        }
    }

    fn children(&self, rank: u32) -> Vec<Branch> {
        if !self.is_leader(rank) {
            return Vec::new();
        }
        let node = self.nodes.of(rank);
        let others = self.nodes.members(node).iter().filter(|&&other| other != rank);
        let further = self.among.children(node).into_iter().map(|edge| self.edge(edge));
        others.map(|&other| self.leaf(other, other)).chain(further).collect()
    }

    fn consecutive(&self, first: u32, most: u32) -> u32 {
        let rank = self.rank(first);
        let next = |&i: &u32| self.rank(first + i) == rank + i;
        1 + count((1..most).take_while(next).count())
    }
}
