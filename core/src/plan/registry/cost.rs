//! What an algorithm costs, in closed form: the critical path as latencies, puts and bytes.
//!
//! A registry line's `Formula` walks its critical path on a [`Path`], which adds up a [`Cost`] by the rules of the
//! [simulator](crate::plan::price): a put holds a link for o + β·bytes and arrives L later; reductions take
//! γ per byte and copies a fixed time. Irregular counts cost O(p log p), all else O(log p) or (the circulant tree, halving among nodes) O(p)
//! of the cheapest kind; no plan is made. `core/tests/pure/selection.rs` holds the formulas against the simulator.
//!
//! Only + − × ÷, maxima and square roots on numbers that all ranks know alike: the same bits on every rank.

use super::arguments::Arguments;
use crate::machine::{COPY_PS, Groups, LogGp, Machine};
use crate::plan::lower::{coalesce, light_bytes};
use crate::plan::rules;
use crate::plan::topology::log2_ceil;
use crate::schedule::Circulant;

/// Adds up the critical path of an algorithm.
pub(crate) type Formula = fn(&Arguments, &mut Path<'_>);

/// Where p is no power of two a tree or a doubling ends in a put of a whole vector that others hide in part: what of it is not hidden,
/// as a share. The mean over p = 3 … 64, simulated with long vectors on three wires: 0.79 (trees), 0.77 (doubling), 0.80 (scan by
/// doubling), 0.83 (one-two-three); `core/tests/pure/formulas.rs` holds the formulas to it.
pub(in crate::plan) const NOT_HIDDEN: f64 = 0.8;

/// Of this many distances between ranks at most the mean is taken for that of all: a fair sample. Chosen, so that a
/// price takes no longer where p is large; `core/tests/pure/selection.rs` holds the prices to the simulator.
const SAMPLED_DISTANCES: u64 = 64;

/// So many bytes of a vector that is combined are taken to be in a cache; of a longer one the rest is not, so that prices have no cliff. A core's
/// own cache of Zen 4: two ranks combine 1 MiB in 49 µs by `doubling` and 55 by `direct`, 2 MiB in 96 and 80 (docs/design.md, "Shared memory of
/// our own").
const CACHED_BYTES: f64 = 1_048_576.0;

/// A critical path, added up. Averages over ranks and rounds may not be whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Latencies one after the other.
    pub hops: f64,
    /// Puts one after the other.
    pub puts: f64,
    /// Bytes that follow each other on links.
    pub bytes: f64,
    /// Bytes that are reduced.
    pub reduced: f64,
    /// Bytes that are copied.
    pub copied: f64,
    /// The time of all that, in nanoseconds.
    pub ns: f64,
    /// Blocks per message (of the longest contribution), where the algorithm has a choice; else 1.
    pub blocks: u32,
}

/// Sums over links: of latencies in ns, and of what a byte takes on each in ns.
#[derive(Clone, Copy, Debug, Default)]
struct Links {
    count: u64,
    latency: f64,
    /// On links of nodes.
    node: f64,
    /// On links of groups of nodes.
    group: f64,
    /// On the slower of both, at each.
    slower: f64,
}

/// Walks a critical path.
#[derive(Clone, Debug)]
pub struct Path<'a> {
    machine: &'a Machine,
    size: u32,
    /// One rank of a node puts at a time.
    alone: bool,
    /// Puts stay within groups of nodes.
    within_group: bool,
    /// One rank moves all bytes.
    one: bool,
    /// One rank puts or gets, and the others wait.
    others_wait: bool,
    /// How often bytes change hands, where that is not what takes the time.
    relays: f64,
    /// Nanoseconds of the puts' overheads between nodes; part of the cost.
    posted: f64,
    /// Nanoseconds of the bytes on links between nodes; part of the cost.
    carried: f64,
    /// Nanoseconds for which ranks wait for their turns on cores that they share.
    turns: f64,
    cost: Cost,
}

impl<'a> Path<'a> {
    /// An empty path among `size` ranks.
    pub(crate) fn new(machine: &'a Machine, size: u32) -> Self {
        Self {
            machine,
            size,
            alone: false,
            within_group: false,
            one: false,
            others_wait: false,
            relays: 1.0,
            posted: 0.0,
            carried: 0.0,
            turns: 0.0,
            cost: Cost { blocks: 1, ..Cost::default() },
        }
    }

    /// The sum.
    pub(crate) fn cost(&self) -> Cost {
        let mut cost = self.cost;
        if self.crowd() > 1.0 {
            let beta = float(self.machine.wire.byte_ps) / 1000.0 * self.crowd();
            let relayed = 1.0 - 1.0 / cost.hops.max(self.relays);
            cost.ns += float(self.machine.cores.relay_percent) / 100.0 * relayed * cost.bytes * beta;
        }
        cost.ns += self.uncovered();
        cost
    }

    /// What processors add where they are busy longer than the links. With u = [`Machine::unhidden`], W = u·o for each put and B the time of all bytes,
    /// puts and bytes take max(W, B) + min(W, B)/u, of which W/u + B is in the cost already. Turns add to that what bytes leave uncovered.
    fn uncovered(&self) -> f64 {
        let times = f64::from(self.machine.unhidden.max(1));
        let busy = times * self.posted;
        let turns = (self.turns - (self.carried - busy).max(0.0)).max(0.0);
        (busy - self.carried).max(0.0) * (1.0 - 1.0 / times) + turns
    }

    /// L, o and β of puts within a node: hops, puts and bytes one after the other.
    pub(crate) fn near(&mut self, hops: f64, puts: f64, bytes: f64) {
        let near = &self.machine.near;
        self.cost.hops += hops;
        self.cost.puts += puts;
        self.cost.bytes += bytes;
        let beta = float(near.byte_ps) / 1000.0;
        self.cost.ns += hops * float(near.latency_ns) + puts * float(near.overhead_ns) + bytes * beta;
    }

    /// A part among `size` ranks that have a link of `wire` each.
    pub(crate) fn among(&mut self, size: u32, wire: LogGp, part: impl FnOnce(&mut Path<'_>)) {
        let Machine { turn_bytes, unhidden, alone_ns, .. } = *self.machine;
        let machine = Machine { turn_bytes, unhidden, alone_ns, ..Machine::flat(wire) };
        self.on(&machine, size, part);
    }

    /// A part among `size` ranks of another machine.
    pub(crate) fn on(&mut self, machine: &Machine, size: u32, part: impl FnOnce(&mut Path<'_>)) {
        let mut path = Path::new(machine, size);
        part(&mut path);
        let cost = path.cost();
        self.cost = Cost {
            hops: self.cost.hops + cost.hops,
            puts: self.cost.puts + cost.puts,
            bytes: self.cost.bytes + cost.bytes,
            reduced: self.cost.reduced + cost.reduced,
            copied: self.cost.copied + cost.copied,
            ns: self.cost.ns + cost.ns,
            blocks: cost.blocks,
        };
    }

    /// The wire's figures, for rules of n.
    pub(crate) fn model(&self) -> &'a LogGp {
        &self.machine.wire
    }

    /// The machine.
    pub(in crate::plan) fn machine(&self) -> &'a Machine {
        self.machine
    }

    /// The number of ranks.
    pub(in crate::plan) fn size(&self) -> u32 {
        self.size
    }

    /// How many times as long as its bytes a message of many unequal pieces takes, which are combined or passed on only when all are there:
    /// the next round waits for that, at one rank earlier than at another, and links carry those of two rounds in turns. Seen where
    /// each rank has a node to itself.
    pub(in crate::plan) fn in_turns(&self) -> f64 {
        if self.machine.per_node < 2 { self.turns() } else { 1.0 }
    }

    /// The same of messages that are all alike, which only links between groups of nodes carry in turns: those of ranks that are not equally far. On links of
    /// their own ranks keep in step in some calls only. (A reduce-scatter of 1 MB by 16 ranks without latency: 75.6 ms at best, 86 in the median; round a ring 74.9.)
    pub(in crate::plan) fn alike_in_turns(&self) -> f64 {
        if self.machine.groups.nodes > 0 { self.in_turns() } else { self.at_once() }
    }

    /// How many times as long as their bytes the puts of many ranks to one take that come at the same time, where each rank has a node to
    /// itself and links carry them in turns.
    pub(in crate::plan) fn at_once(&self) -> f64 {
        if self.in_turns() > 1.0 { rules::AT_ONCE } else { 1.0 }
    }

    /// Says how many blocks there are.
    pub(crate) fn blocks(&mut self, n: u32) {
        self.cost.blocks = n;
    }

    /// Latencies, puts and bytes on links of these distances, on all alike, one after the other: at each the slower of links counts.
    pub(crate) fn over(&mut self, distances: &[u32], hops: f64, puts: f64, bytes: f64) {
        self.over_each(distances.iter().copied(), hops, puts, bytes);
    }

    /// The same on links of distances that lie in no list.
    pub(in crate::plan) fn over_each(
        &mut self,
        distances: impl ExactSizeIterator<Item = u32>,
        hops: f64,
        puts: f64,
        bytes: f64,
    ) {
        let links = self.links(distances);
        self.moved(&links, links.slower, hops, puts, bytes);
    }

    /// The same in a pipeline, where puts of one distance wait for the links between groups while those of others go: of the work of both
    /// kinds of links in all the longer counts.
    pub(in crate::plan) fn piped(&mut self, distances: &[u32], hops: f64, puts: f64, bytes: f64) {
        let links = self.links(distances.iter().copied());
        self.moved(&links, links.node.max(links.group), hops, puts, bytes);
    }

    /// The same where each byte comes `times` times from other groups to a group, whichever its rank.
    pub(in crate::plan) fn piped_in(
        &mut self,
        times: f64,
        distances: &[u32],
        hops: f64,
        puts: f64,
        bytes: f64,
    ) {
        let Machine { wire, groups, .. } = self.machine;
        let share = times * f64::from(groups.taper) / f64::from(groups.nodes.max(1));
        let group = if groups.nodes > 0 { share * float(wire.byte_ps) / 1000.0 } else { 0.0 };
        let links = self.links(distances.iter().copied());
        self.moved(&links, links.node.max(group * float(links.count)), hops, puts, bytes);
    }

    /// The sums of these links.
    fn links(&self, distances: impl ExactSizeIterator<Item = u32>) -> Links {
        let count = distances.len() as u64;
        if self.has_links_alike() {
            let (n, (latency, node, group)) = (float(count), self.link(1));
            return Links { count, latency: n * latency, node: n * node, group: n * group, slower: n * node };
        }
        let mut links = Links { count, ..Links::default() };
        for distance in distances {
            let (latency, node, group) = self.link(distance);
            links.latency += latency;
            links.node += node;
            links.group += group;
            links.slower += node.max(group);
        }
        links
    }

    /// Whether a link is like any other, however far it goes.
    fn has_links_alike(&self) -> bool {
        let Machine { per_node, groups, .. } = *self.machine;
        groups.nodes == 0 && per_node < 2 || per_node > 0 && self.size <= per_node
    }

    /// What a byte takes on all these links together is `beta`.
    fn moved(&mut self, links: &Links, beta: f64, hops: f64, puts: f64, bytes: f64) {
        let n = float(links.count.max(1));
        let overhead = self.overhead();
        self.cost.hops += hops;
        self.cost.puts += puts;
        self.cost.bytes += bytes;
        let (crowd, moving) = (self.crowd(), self.moving());
        let cores = &self.machine.cores;
        let latency = links.latency / n + (crowd - 1.0) * float(cores.turn_ns);
        let overhead = if crowd > 1.0 { overhead + float(cores.put_ns) } else { overhead };
        let (posted, carried) = (puts * overhead * moving, bytes * beta / n * moving);
        self.posted += posted;
        self.carried += carried;
        self.turns += hops * self.turn();
        self.cost.ns += hops * latency + posted + carried;
    }

    /// How long a rank to which something comes waits for ranks of its core, in nanoseconds: for a put of each, as far as the probe has seen
    /// that it takes longer while all put.
    fn turn(&self) -> f64 {
        let Machine { wire, unhidden, alone_ns, .. } = *self.machine;
        float(wire.overhead_ns.saturating_mul(unhidden.into()).saturating_sub(alone_ns))
    }

    /// o of a put, in nanoseconds, as one of those that put at the same time.
    fn overhead(&self) -> f64 {
        let Machine { wire, unhidden, alone_ns, .. } = *self.machine;
        let among = float(wire.overhead_ns);
        // The time of a processor is `unhidden` times as much.
        if self.others_wait { among.min(float(alone_ns) / f64::from(unhidden.max(1))) } else { among }
    }

    /// L in ns and β in ns per byte between ranks `distance` apart, of their nodes' links and of their groups'. If all ranks put that far at
    /// once, of a node's ranks as many as the distance leave it, all together over one link, and of a group's nodes likewise.
    fn link(&self, distance: u32) -> (f64, f64, f64) {
        let Machine { wire, near, per_node, groups, .. } = self.machine;
        let groups = if self.within_group { &Groups::NONE } else { groups };
        let distance = distance.min(self.size.saturating_sub(distance)).max(1);
        let beta = |wire: &LogGp| float(wire.byte_ps) / 1000.0;
        if *per_node > 0 && self.size <= *per_node {
            return (float(near.latency_ns), beta(near), 0.0);
        }
        let share = if self.alone { 1.0 } else { f64::from(distance.min((*per_node).max(1))) };
        let node = beta(wire) * share;
        let (latency, node_or_memory) = match *per_node {
            0 => (wire.latency_ns, node),
            _ => (wire.latency_ns.max(near.latency_ns), node.max(beta(near))),
        };
        if groups.nodes == 0 {
            return (float(latency), node_or_memory, 0.0);
        }
        let leaving = (distance / (*per_node).max(1)).clamp(1, groups.nodes);
        let leaving = if self.alone { 1 } else { leaving };
        // On as many times less of the group's link as its taper says.
        let group = node * f64::from(leaving) * f64::from(groups.taper) / f64::from(groups.nodes);
        // The share of puts that go from group to group, and come later.
        let leaves = f64::from(distance / (*per_node).max(1)) / f64::from(groups.nodes);
        (float(latency) + float(groups.latency_ns) * leaves.min(1.0), node_or_memory, group)
    }

    /// Whether all ranks share memory, so that a put is copied by its reader.
    pub(in crate::plan) fn readers(&self) -> bool {
        self.machine.readers && self.size <= self.machine.per_node
    }

    /// How many of this many busy ranks share a core, where they do.
    fn per_core(&self, busy: f64) -> f64 {
        let cores = self.machine.cores.per_node;
        if self.readers() && cores > 0 { (busy / f64::from(cores)).max(1.0) } else { 1.0 }
    }

    /// Ranks per core.
    fn crowd(&self) -> f64 {
        self.per_core(self.size.into())
    }

    /// Those of them that move bytes at a time: down a tree twice as many in each round, on average.
    fn moving(&self) -> f64 {
        if self.one {
            return 1.0;
        }
        let rounds = log2_ceil(self.size);
        if !self.alone || rounds == 0 {
            return self.crowd();
        }
        let busy = |k: u32| self.per_core(f64::from((1u32 << k).min(self.size - (1 << k))));
        (0..rounds).map(busy).sum::<f64>() / f64::from(rounds)
    }

    /// One message of `bytes` bytes in `puts` puts to the rank `distance` further on, and its arrival.
    pub(crate) fn hop(&mut self, distance: u32, puts: f64, bytes: f64) {
        self.over(&[distance], 1.0, puts, bytes);
    }

    /// A message of `bytes` bytes each way between ranks whose numbers differ in one bit, of which this distance is the value. Where nodes or groups of
    /// nodes have a power of two of ranks, `in_order`, it stays within them if it goes less far. Where they are not in order, each is taken to leave them.
    pub(in crate::plan) fn exchange(&mut self, distance: u32, in_order: bool, bytes: f64) {
        let machine = *self.machine;
        let stays_in = |ranks: u32| in_order && ranks.is_power_of_two() && distance < ranks;
        if stays_in(machine.per_node) && machine.per_node < self.size {
            self.near(1.0, 1.0, bytes);
        } else if stays_in(machine.group_ranks()) {
            self.within_group = true;
            self.hop(distance, 1.0, bytes);
            self.within_group = false;
        } else {
            let leaves = if in_order { 0 } else { machine.per_node.max(machine.group_ranks()) };
            self.hop(distance.max(leaves), 1.0, bytes);
        }
    }

    /// A part in which of a node's ranks only one puts to others at a time: trees whose far edges have their
    /// ends on nodes of their own, and what one rank does by itself.
    pub(crate) fn alone(&mut self, part: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.alone, true);
        part(self);
        self.alone = before;
    }

    /// A part in which one rank gets all bytes: where readers copy it does so by itself.
    fn through_one(&mut self, part: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.one, true);
        self.alone(part);
        self.one = before;
    }

    /// A part in which one rank puts to all others, or gets from them, while they wait: a put takes it [`Machine::alone_ns`].
    fn while_others_wait(&mut self, part: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.others_wait, true);
        part(self);
        self.others_wait = before;
    }

    /// By how much rounds of unequal messages take longer than their bytes. Two ranks have one peer each.
    pub(in crate::plan) fn turns(&self) -> f64 {
        if self.machine.turn_bytes < u64::MAX && self.size > 2 { rules::IN_TURNS } else { 1.0 }
    }

    /// Bytes by which whole vectors come later down the ranks that have early what they send: there `rounds` puts of `bytes` bytes are
    /// ready at once, at the next rank one less, and so on. A link that carries them in turns ends the first with the last.
    pub(in crate::plan) fn held_up(&self, rounds: f64, bytes: f64) -> f64 {
        let Machine { per_node, turn_bytes, .. } = *self.machine;
        let late = if per_node < 2 { (bytes - float(turn_bytes)).max(0.0) } else { 0.0 };
        late * rounds * (rounds - 1.0) / 2.0
    }

    /// Puts to all others, or from them: all distances alike.
    pub(crate) fn with_all(&mut self, hops: f64, puts: f64, bytes: f64) {
        let p = u64::from(self.size);
        let step = p.div_ceil(SAMPLED_DISTANCES).max(1);
        let links = self.links((1..self.size).step_by(usize::try_from(step).unwrap_or(1)));
        self.moved(&links, links.node.max(links.group), hops, puts, bytes);
    }

    /// As [`Path::with_all`], where one rank puts `out` bytes and another gets `got`: where readers copy, what is got counts.
    pub(crate) fn all_to_all(&mut self, hops: f64, puts: f64, out: f64, got: f64) {
        self.with_all(hops, puts, if self.readers() { got } else { out.max(got) });
    }

    /// Bytes change hands so often, though latencies do not add up.
    pub(crate) fn relayed(&mut self, hops: f64) {
        self.relays = self.relays.max(hops);
    }

    /// What follows is for memory that ranks share, and priceless elsewhere.
    pub(crate) fn for_readers(&mut self) {
        if !self.readers() {
            self.cost.ns = f64::INFINITY;
        }
    }

    /// A put of each of `others` ranks to one rank, at the same time, of `bytes` bytes together, which its link in carries. Where it is known what a put
    /// takes a rank alone, each takes that rank as much once more, as in LogP (the simulator has no time of receivers).
    pub(crate) fn fan_in(&mut self, others: f64, bytes: f64) {
        let hop = others.min(1.0);
        let puts = if self.machine.alone_ns < u64::MAX { others } else { hop };
        self.while_others_wait(|path| path.through_one(|path| path.with_all(hop, puts, bytes)));
    }

    /// The same, and that rank combines the bytes, while the others wait.
    pub(crate) fn fan_in_folded(&mut self, others: f64, bytes: f64) {
        self.fan_in(others, bytes);
        self.through_one(|path| path.reduce(bytes));
    }

    /// Puts of one rank to as many others, one after the other, of `bytes` bytes together; and the arrival of the last.
    pub(crate) fn fan(&mut self, puts: f64, bytes: f64) {
        if !self.readers() {
            return self
                .while_others_wait(|path| path.alone(|path| path.with_all(puts.min(1.0), puts, bytes)));
        }
        // Where readers copy, all do at the same time.
        let each = bytes / puts.max(1.0);
        self.with_all(puts.min(1.0), puts / self.crowd(), each * self.per_core(puts) / self.crowd());
    }

    /// Messages of `bytes` bytes that go round a ring, each in this many puts, in `hops` rounds. Of a node's ranks only the
    /// last puts to another, so a message takes a far hop once per node; but its link carries all of them.
    pub(crate) fn ring(&mut self, hops: f64, puts: f64, bytes: f64) {
        let per_node = self.machine.per_node;
        if per_node < 2 || self.size <= per_node {
            return self.over(&[1], hops, hops * puts, hops * bytes);
        }
        let far = hops / f64::from(per_node);
        self.longer(
            |path| path.over(&[1], 1.0, hops * puts, hops * bytes),
            |path| {
                path.over(&[1], far, far * puts, far * bytes);
                path.near(hops - far, (hops - far) * puts, (hops - far) * bytes);
            },
        );
    }

    /// Combines bytes.
    pub(crate) fn reduce(&mut self, bytes: f64) {
        self.cost.reduced += bytes;
        self.cost.ns += bytes * float(self.machine.wire.reduce_ps) / 1000.0 * self.moving();
    }

    /// Combines `vectors` vectors of `bytes` bytes each into a result that no other rank reads. Where each rank has a core of its own and all share
    /// memory, that result stays in the core's cache. A result that another rank reads is in that rank's cache too, and writing to it again costs about as much as memory does.
    pub(in crate::plan) fn keep(&mut self, vectors: f64, bytes: f64) {
        let (memory, cached) = (self.machine.wire.reduce_ps, self.machine.reduce_cached_ps);
        self.reduce(vectors * bytes);
        if self.readers() && self.crowd() <= 1.0 {
            self.cost.ns -= vectors * bytes.min(CACHED_BYTES) * float(memory.saturating_sub(cached)) / 1000.0;
        }
    }

    /// Copies bytes.
    pub(crate) fn copy(&mut self, bytes: f64) {
        self.cost.copied += bytes;
        self.cost.ns += bytes * copy_ns() * self.moving();
    }

    /// Goes both ways from here and keeps the longer.
    pub(crate) fn longer(&mut self, one: impl FnOnce(&mut Self), other: impl FnOnce(&mut Self)) {
        let mut second = self.clone();
        one(self);
        other(&mut second);
        if second.cost.ns > self.cost.ns {
            *self = second;
        }
    }

    /// Puts, and what is combined meanwhile: the longer of the two; where readers copy and share cores, one after the other.
    pub(crate) fn beside(&mut self, puts: impl FnOnce(&mut Self), combined: impl FnOnce(&mut Self)) {
        if !self.readers() || self.machine.cores.per_node == 0 {
            return self.longer(puts, combined);
        }
        puts(self);
        combined(self);
    }

    /// Pieces lighter than this share puts when lowered (the default of CIRCULANT_LIGHT).
    pub(in crate::plan) fn light(&self) -> f64 {
        float(light_bytes(self.model()))
    }

    /// Whether this many pieces of a message, of this many bytes each, share a put.
    pub(in crate::plan) fn shared(&self, pieces: f64, bytes: f64) -> bool {
        let model = self.model();
        bytes < self.light() && pieces * float(model.overhead_ns) >= float(model.latency_ns)
    }

    /// The most bytes that lowering makes one run of.
    pub(in crate::plan) fn coalesce(&self) -> f64 {
        float(coalesce(self.model()))
    }

    /// The runs of `pieces` neighbours of `bytes` bytes each.
    pub(in crate::plan) fn runs(&self, pieces: f64, bytes: f64) -> f64 {
        let joined = (self.coalesce() / bytes.max(1.0)).max(1.0);
        (pieces / joined.min(pieces.max(1.0))).max(1.0)
    }
}

/// A copy, in nanoseconds per byte.
pub(in crate::plan) fn copy_ns() -> f64 {
    float(COPY_PS) / 1000.0
}

/// ⌊log2 p⌋.
pub(in crate::plan) fn floor_log(size: u32) -> u32 {
    size.max(1).ilog2()
}

/// Distances of the circulant graph.
pub(in crate::plan) fn skips(size: u32) -> Vec<u32> {
    let graph = Circulant::new(size.max(1));
    graph.skips()[..graph.q() as usize].to_vec()
}

/// 1, 2, 4, … below `size`.
pub(in crate::plan) fn powers(size: u32) -> Vec<u32> {
    (0..log2_ceil(size)).map(|k| 1 << k).collect()
}

#[allow(clippy::cast_precision_loss)] // prices need no more than 53 bits
pub(in crate::plan) fn float(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_said_to_be_alike_are() {
        let wire = LogGp { latency_ns: 1000, overhead_ns: 300, byte_ps: 80, reduce_ps: 1 };
        let mut alike = 0;
        for (per_node, nodes, size) in
            (0..9).flat_map(|per_node| [0, 3].map(|nodes| (per_node, nodes, 8))).chain([(4, 3, 2), (4, 0, 4)])
        {
            let groups = Groups { nodes, taper: 4, latency_ns: 500 };
            let machine = Machine { per_node, groups, ..Machine::flat(wire) };
            for alone in [false, true] {
                let path = Path { alone, ..Path::new(&machine, size) };
                if path.has_links_alike() {
                    alike += 1;
                    let all = (1..size).map(|distance| path.link(distance));
                    assert!(
                        all.clone().all(|link| link == path.link(1)),
                        "{per_node} a node, {nodes} a group, {size}"
                    );
                    let sums = path.links(1..size);
                    assert_eq!(sums.count, u64::from(size - 1));
                    assert_eq!(sums.slower, all.map(|(_, node, group)| node.max(group)).sum::<f64>());
                }
            }
        }
        assert!(alike > 8, "{alike}");
    }
}
