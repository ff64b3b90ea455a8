//! The machine by its parameters, as the simulator and the cost formulas take it. Equal on all ranks.
//!
//! Links are described by LogGP (Alexandrov, Ionescu, Schauser, Scheiman 1995): L, o and G, which is called β here, as in the
//! papers of Träff; the gap g between messages is taken as o. γ is the time to combine a byte into another.
#![forbid(unsafe_code)]

/// The parameters of a link: a put of m bytes arrives after o + L + β·m.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogGp {
    /// L: nanoseconds from the end of sending a byte to its arrival.
    pub latency_ns: u64,
    /// o: nanoseconds that a put costs besides its bytes.
    pub overhead_ns: u64,
    /// β: picoseconds per byte.
    pub byte_ps: u64,
    /// γ: picoseconds per byte that is combined into another, at the end of the link.
    pub reduce_ps: u64,
}

impl LogGp {
    /// The reference time of a broadcast of `bytes` bytes among `size` ranks, C = β·m + q·(L + o), in
    /// nanoseconds. Not a lower bound.
    pub fn reference_ns(&self, size: u32, bytes: u64) -> u64 {
        let q = u64::from(size.max(1).next_power_of_two().ilog2());
        bytes.saturating_mul(self.byte_ps) / 1000 + q * (self.latency_ns + self.overhead_ns)
    }
}

/// Nodes, the ranks on them, and the links between and within nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    /// Between nodes, of a node's link out and its link in; γ of all ranks.
    pub wire: LogGp,
    /// Within a node. The same as `wire` where one provider does both.
    pub near: LogGp,
    /// Ranks per node: 0 to K−1 are on the first one, and so on; they share its links to others. 0: each rank has a node to
    /// itself; `u32::MAX`: all are on one.
    pub per_node: u32,
    /// Within a node the receiver moves the bytes of a put, as in shared memory of our own: its sender only says where they are.
    pub readers: bool,
    /// The cores of a node that its ranks share; 0: each rank has one to itself.
    pub cores: u32,
}

impl Machine {
    /// Every rank on a node of its own.
    pub const fn flat(wire: LogGp) -> Self {
        Self { wire, near: wire, per_node: 0, readers: false, cores: 0 }
    }

    /// `per_node` ranks to a node, within which they put over the same provider.
    pub const fn nodes(wire: LogGp, per_node: u32) -> Self {
        Self { per_node, ..Self::flat(wire) }
    }

    /// Nodes of `per_node` ranks which share memory: within them readers copy.
    pub const fn shared(wire: LogGp, near: LogGp, per_node: u32) -> Self {
        Self { near, per_node, readers: true, ..Self::flat(wire) }
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: u32) -> u32 {
        rank.checked_div(self.per_node).unwrap_or(rank)
    }

    /// The most ranks of `size` that are on one node.
    pub fn most_on_a_node(&self, size: u32) -> u32 {
        self.per_node.clamp(1, size.max(1))
    }
}
