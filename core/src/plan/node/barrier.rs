//! The barrier through leaders: a node's ranks notify theirs, the leaders hold the dissemination barrier, and each
//! notifies its node.
//!
//! S−1 + q + S−1 rounds, S the ranks of the largest node and q = ⌈log2⌉ of the number of nodes. A leader's counters
//! are first those of its node's ranks, then those of the rounds among leaders, and then joins.

use super::Nodes;
use super::line::{LEADERS, leaders, nodes, others};
use crate::plan::barrier::dissemination;
use crate::plan::partial::Sketch;
use crate::plan::registry::cost::Path;
use crate::plan::registry::line::{line, q};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::{Plan, Sizes, Step, Wait};
use crate::schedule::Circulant;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Barrier,
    "node_dissemination",
    [LEADERS, "q_N + 2(S-1)", "0", "dissemination among the nodes' leaders"],
    |a, _| nodes(a).map_or(0, |nodes| q(nodes.count()) + 2 * (nodes.most() - 1)),
    |a, _| Ok(Box::new(Barrier::new(nodes(a)?))),
)
.only(leaders)
.costs(cost);

fn cost(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = nodes(a) else { return };
    let wire = path.machine().wire;
    path.near(1.0, 1.0, 0.0);
    let leaders = Arguments { size: nodes.count(), ..Arguments::default() };
    path.among(nodes.count(), wire, |path| dissemination::cost(&leaders, path));
    path.near(1.0, others(&nodes), 0.0);
}

/// A barrier among all ranks of these nodes.
#[derive(Debug)]
pub(crate) struct Barrier {
    nodes: Nodes,
    graph: Circulant,
}

impl Barrier {
    /// The barrier of these nodes.
    pub(crate) fn new(nodes: Nodes) -> Self {
        let graph = Circulant::new(nodes.count());
        Self { nodes, graph }
    }

    /// The rounds within a node.
    fn within(&self) -> u32 {
        self.nodes.most() - 1
    }

    fn leader(&self, node: u32) -> u32 {
        self.nodes.members(node)[0]
    }

    fn lead(&self, node: u32) -> Sketch {
        let (first, q) = (self.within(), self.graph.q());
        let mut s = Sketch::new(first + q);
        let others = || (0..).zip(&self.nodes.members(node)[1..]);
        for (i, &rank) in others() {
            s.steps.push(Step::expect_notify(i, rank, i));
        }
        let entered: Vec<Wait> = others().map(|(i, _)| Wait::once(i)).collect();
        let mut held = s.one(first, &entered);
        for k in 0..q {
            let (to, from) = (self.graph.to(node, k), self.graph.from(node, k));
            s.notify(first + k, self.leader(to), &[held], first + k);
            s.steps.push(Step::expect_notify(first + k, self.leader(from), first + k));
            held = s.one(first + k + 1, &[Wait::once(first + k), held]);
        }
        for (i, &rank) in others() {
            s.notify(first + q + i, rank, &[held], 0);
        }
        s
    }
}

impl Plan for Barrier {
    fn algorithm(&self) -> &'static str {
        "node_dissemination"
    }

    fn size(&self) -> u32 {
        self.nodes.size()
    }

    fn rounds(&self) -> u32 {
        2 * self.within() + self.graph.q()
    }

    fn counters(&self, rank: u32) -> u32 {
        if self.nodes.position(rank) > 0 { 1 } else { self.lead(self.nodes.of(rank)).counters() }
    }

    fn sizes(&self, _rank: u32) -> Sizes {
        Sizes::default()
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let (node, position) = (self.nodes.of(rank), self.nodes.position(rank));
        let Some(i) = position.checked_sub(1) else { return Box::new(self.lead(node).steps.into_iter()) };
        let leader = self.leader(node);
        let enter = Step::notify(i, leader, [Wait::NONE; 2], i);
        let last = self.within() + self.graph.q() + i;
        Box::new([enter, Step::expect_notify(last, leader, 0)].into_iter())
    }
}
