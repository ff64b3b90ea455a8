//! In what order results are folded, and what that means for their bits.

/// The order of operations of an algorithm that reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The order, for people.
    pub text: &'static str,
    /// Whether all ranks get the same bits of what they share (allreduce); of results that one rank gets, yes.
    pub identical: bool,
    /// What must be the same for the same bits again.
    pub same_for: &'static str,
    /// Whether the tree is *the* tree of the operation: a function of p and nothing else. Those of reduce, allreduce,
    /// reduce_scatter and reduce_scatter_block are all the same one.
    pub canonical: bool,
}

const fn order(text: &'static str, same_for: &'static str) -> Order {
    Order { text, identical: true, same_for, canonical: false }
}

const fn canonical(text: &'static str) -> Order {
    Order { text, identical: true, same_for: "p", canonical: true }
}

pub(in crate::plan) const CANONICAL: Order = canonical("ranks ascending, binomial tree on rank 0");
pub(in crate::plan) const SCAN: Order = canonical("ranks ascending, by doubled distances");
pub(in crate::plan) const EXSCAN: Order = canonical("ranks ascending, by skips");
pub(in crate::plan) const LEFT: Order = order("ranks ascending, from the left", "p");
pub(in crate::plan) const THREES: Order = order("ranks ascending, by distances 1, 2, 3, 6, …", "p");
pub(in crate::plan) const PAIRS: Order = order("ranks ascending, by doubled distances", "p");
pub(in crate::plan) const GROUPS: Order = order("ranks ascending, groups of groups from the left", "p, n");
pub(in crate::plan) const FROM_ROOT: Order = order("ranks from the root, binomial tree", "p, root");
pub(in crate::plan) const BINE_FROM_ROOT: Order = order("Bine tree from the root", "p, root");
pub(in crate::plan) const BLOCKWISE: Order = order("of each block its own tree", "p, root, counts, n");
pub(in crate::plan) const PIECEWISE_BLOCKS: Order = order("of each block its own tree", "p, counts, n");
pub(in crate::plan) const NODEWISE_BLOCKS: Order =
    order("node by node, of each block its own tree", "p, nodes, root, counts, n");
pub(in crate::plan) const NODEWISE: Order =
    order("node by node, of each piece its own tree", "p, nodes, counts");
pub(in crate::plan) const NODES_IN_ORDER: Order = order("ranks ascending, node by node", "p, nodes");
pub(in crate::plan) const PIECEWISE: Order = order("of each piece its own tree", "p, counts");
pub(in crate::plan) const ROUND: Order =
    order("of each piece, round the ring from the rank behind its owner", "p, counts");
pub(in crate::plan) const CYCLIC: Order =
    Order { identical: false, ..order("at rank r: r, r+1, …, p−1, 0, …, r−1, by skips", "p") };
