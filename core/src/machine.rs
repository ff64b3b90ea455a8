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

/// A byte copied, in picoseconds: of the order of what `circulant tune` measures, 20 in a cache (copy-cached-ps) and 118 from memory
/// (copy-cold-ps) on an AMD EPYC of 2026.
pub(crate) const COPY_PS: u64 = 100;

/// A byte combined into another in a core's cache, in picoseconds: of the order of what `circulant tune` measures (reduce-cached-ps), 22 on an
/// AMD EPYC of 2026.
pub(crate) const REDUCE_CACHED_PS: u64 = 25;

/// Picoseconds in a millisecond.
const MILLISECOND_PS: u64 = 1_000_000_000;
/// Two segments of TCP on Ethernet (1500 bytes less headers and time stamps).
const BURST_MIN_BYTES: u64 = 2 * 1448;
/// The longest packet that the kernel cuts up by itself, in bytes: `GSO_LEGACY_MAX_SIZE` of Linux, 65 536.
const BURST_MAX_BYTES: u64 = 64 << 10;

impl LogGp {
    /// Bytes that a connection sends before others have their turn: what the link carries in a millisecond, from two segments to
    /// the longest one that is offloaded, as Linux cuts TCP's (tcp_tso_autosize, sk_pacing_shift 10, tcp_min_tso_segs 2).
    pub const fn burst_bytes(&self) -> u64 {
        match MILLISECOND_PS.checked_div(self.byte_ps) {
            Some(bytes) if bytes < BURST_MIN_BYTES => BURST_MIN_BYTES,
            Some(bytes) if bytes < BURST_MAX_BYTES => bytes,
            _ => BURST_MAX_BYTES,
        }
    }

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
    /// Bytes that a link carries to one peer before it turns to the next; `u64::MAX`: whole puts, one after the other.
    pub turn_bytes: u64,
    /// The cores that ranks of a node share.
    pub cores: Cores,
    /// Processor time of a put as a multiple of o, with its receiver's and that of ranks on the same cores. While links are busy longer with
    /// the bytes, a put adds o to an operation's time; where bytes are few it adds all of this. 1: a put takes no more than o.
    pub unhidden: u32,
    /// Processor time of a put, in nanoseconds, at a rank that alone puts, or gets from all, while the others wait: where ranks share cores
    /// these are free for it then.
    /// `u64::MAX`: as much as while all put, which is o times `unhidden`; so it is where ranks have cores of their own.
    pub alone_ns: u64,
    /// Groups of nodes, and the links between them.
    pub groups: Groups,
    /// γ of vectors that stay in a cache, where ranks share memory: picoseconds per byte that is combined into what no other rank reads.
    pub reduce_cached_ps: u64,
}

/// Groups of nodes (the nodes of a switch, a group of a Dragonfly) and their links to each other. A group has one link up and one down,
/// which all its nodes share: together as fast as the links of all its nodes, divided by the taper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Groups {
    /// Nodes per group: 0 to G−1 are in the first one, and so on. 0: the network is not divided.
    pub nodes: u32,
    /// How many times the links of a group's nodes carry what its link to other groups does: 1, 2, 4.
    pub taper: u32,
    /// Nanoseconds by which L is more from group to group than within one.
    pub latency_ns: u64,
}

impl Groups {
    /// A network that is not divided.
    pub const NONE: Self = Self { nodes: 0, taper: 1, latency_ns: 0 };
}

/// Cores that ranks of a node share, and what that costs. The defaults were fitted to times of 8 ranks on 2 cores over our own shared
/// memory; `ci/race choice --figure shm-8` tells how well choices by them do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cores {
    /// The cores of a node for all of its ranks; 0: each rank has one to itself.
    pub per_node: u32,
    /// Nanoseconds in which a core passes from a rank to the next one, which may have nothing to do: a `sched_yield` takes 520 to 570
    /// (`ci/cost waits`). A rank that finds something to do takes 1400 to 1700.
    pub turn_ns: u64,
    /// Nanoseconds that a put costs besides o: its ready message, and the caches that others have used meanwhile.
    pub put_ns: u64,
    /// Percent by which bytes take longer that their sender got from another rank before: they are read out of the
    /// cache of another core. (Of one operation, an allgather of 1 MB in 3 rounds, 75 % were measured.)
    pub relay_percent: u64,
}

impl Cores {
    /// Each rank has a core to itself.
    pub const OWN: Self = Self::shared(0);

    /// So many cores for all ranks of a node.
    pub const fn shared(per_node: u32) -> Self {
        Self { per_node, turn_ns: 500, put_ns: 475, relay_percent: 60 }
    }
}

impl Machine {
    /// Every rank on a node of its own.
    pub const fn flat(wire: LogGp) -> Self {
        Self {
            wire,
            near: wire,
            per_node: 0,
            readers: false,
            turn_bytes: u64::MAX,
            cores: Cores::OWN,
            unhidden: 1,
            alone_ns: u64::MAX,
            groups: Groups::NONE,
            reduce_cached_ps: REDUCE_CACHED_PS,
        }
    }

    /// `per_node` ranks to a node, within which they put over the same provider.
    pub const fn nodes(wire: LogGp, per_node: u32) -> Self {
        Self { per_node, ..Self::flat(wire) }
    }

    /// Ranks of a group of nodes; 0: there are none.
    pub(crate) const fn group_ranks(&self) -> u32 {
        let per_node = if self.per_node == 0 { 1 } else { self.per_node };
        self.groups.nodes.saturating_mul(per_node)
    }

    /// Nodes of `per_node` ranks which share memory: within them readers copy.
    pub const fn shared(wire: LogGp, near: LogGp, per_node: u32) -> Self {
        Self { near, per_node, readers: true, ..Self::flat(wire) }
    }

    /// The same, with links that carry puts to several peers in turns.
    pub const fn in_turns(self) -> Self {
        Self { turn_bytes: self.wire.burst_bytes(), ..self }
    }

    /// The same in groups of `nodes` nodes whose links to each other are tapered 1:`taper`.
    pub const fn in_groups(self, nodes: u32, taper: u32) -> Self {
        Self { groups: Groups { nodes, taper, latency_ns: 0 }, ..self }
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: u32) -> u32 {
        rank.checked_div(self.per_node).unwrap_or(rank)
    }

    /// The group of the node of each of `size` ranks; nothing: the network is not divided.
    pub fn groups_of(&self, size: u32) -> Vec<u32> {
        match self.groups.nodes {
            0 => Vec::new(),
            nodes => (0..size).map(|rank| self.node_of(rank) / nodes).collect(),
        }
    }

    /// The most ranks of `size` that are on one node.
    pub fn most_on_a_node(&self, size: u32) -> u32 {
        self.per_node.clamp(1, size.max(1))
    }
}
