//! How many blocks: pure functions of the wire's [`LogGp`], the same on every rank (only + - * / and the
//! square root, which IEEE 754 rounds alike everywhere).
//!
//! How far from the best n they are, in the [pricing](super::price) (`core/tests/pure/plan_rules.rs`, all cases): time
//! by the rule / time of the best n, mean and worst. m = 1 KB to 64 MB; allgatherv over six distributions
//! (regular, spike, half, linear, geometric, irr3), the best of all n in proportion.
//!
//! | | L, o, β | p = 2 | 3 | 8 | 16 | 36 | 100 |
//! |---|---|---|---|---|---|---|---|
//! | bcast | 8 µs, 2 µs, 0.35 ns/B | 1.00 1.00 | 1.00 1.00 | 1.00 1.02 | 1.00 1.03 | 1.00 1.01 | 1.01 1.03 |
//! | | 1.5 µs, 0.2 µs, 0.08 ns/B | 1.00 1.00 | 1.00 1.03 | 1.01 1.04 | 1.01 1.02 | 1.00 1.04 | 1.01 1.04 |
//! | | 1 ms, 20 µs, 80 ns/B | 1.00 1.00 | 1.01 1.03 | 1.00 1.01 | 1.01 1.03 | 1.01 1.03 | 1.00 1.02 |
//! | | 1 ms, 20 µs, 160 ns/B | 1.00 1.00 | 1.01 1.04 | 1.00 1.04 | 1.01 1.03 | 1.00 1.02 | 1.00 1.01 |
//! | allgatherv | 8 µs, 2 µs, 0.35 ns/B | 1.00 1.00 | 1.01 1.19 | 1.02 1.28 | 1.02 1.14 | 1.02 1.12 | 1.02 1.18 |
//! | | 1.5 µs, 0.2 µs, 0.08 ns/B | 1.00 1.00 | 1.01 1.11 | 1.02 1.15 | 1.02 1.24 | 1.01 1.07 | 1.02 1.11 |
//! | | 1 ms, 20 µs, 80 ns/B | 1.00 1.00 | 1.01 1.07 | 1.01 1.16 | 1.02 1.29 | 1.02 1.16 | 1.02 1.14 |
//! | | 1 ms, 20 µs, 160 ns/B | 1.00 1.00 | 1.01 1.07 | 1.01 1.06 | 1.02 1.26 | 1.03 1.25 | 1.04 1.31 |
//!
//! The worst cases of allgatherv: where half of the ranks hold everything (`half`), two blocks happen to
//! fill just the rounds that one block wastes, and the rule does not see that; and one large owner among
//! many small ones (`spike`) on a wire of very long latency would like more blocks still.

use super::MAX_COUNTERS;
use super::allgatherv::Blocks;
use super::lower::{coalesce, light_bytes};
use super::split::ALIGN;
use crate::machine::LogGp;
use crate::schedule::Circulant;

/// Puts that a rank posts or gets for the blocks of a message, at most about: of a number of blocks that would take more, fewer are made. It bounds a
/// rank's memory (docs/scale.md has the bytes of a put). Chosen: a broadcast takes n−1+q rounds for n blocks, so with infinitely many blocks one among 10⁶ ranks
/// would be 0.03 % shorter.
pub const MAX_BLOCK_PUTS: u32 = 1 << 16;

// Factors were fitted to the simulator; the table above says how good they are.

/// Up to this many ranks the one-block broadcast is timed exactly, in O(p); beyond it as q hops. Chosen, to bound the
/// time of a choice: the memory is 24 bytes a rank, 1.5 MiB.
const EXACT_TREE_MAX_RANKS: u32 = 1 << 16;

/// Blocks of a broadcast where they are few, as a share of √((q−1)βm/o). Fitted to the simulator: the table above says
/// how good it is.
const FEW_BLOCKS: f64 = 0.8;
/// How much the share grows where blocks are many. Fitted with it.
const MANY_BLOCKS_MORE: f64 = 0.8;
/// The number of blocks at which it has grown by half of that. Fitted with it.
const MANY_BLOCKS: f64 = 30.0;

/// The share of an allgatherv's excess and of its rounds of the longest contribution, divided by n, that a link is busy
/// with. Fitted to the simulator: the table above says how good it is.
const EXCESS_LEFT: f64 = 0.3;
/// The share of the shorter of a block's way and a link's work that the longer does not hide. Fitted to the simulator:
/// the table above says how good it is.
pub(super) const OF_THE_SHORTER: f64 = 0.5;
/// Slots by which a put of a wide tree is held up by those of other blocks, by those of the K that are not to leaves of the
/// star. Fitted to the simulator, where it is 0.3 to 1.2 among 16 and 36 ranks (L = 1 ms, o = 20 and 50 µs, 80 and 160 ns/B,
/// 10 KB to 1 MB), and none where the tree is a star.
const WIDE_HELD_UP: f64 = 0.7;
/// The search for n ends at this many blocks of the longest contribution. Chosen, to bound the time of a choice.
const MAX_SEARCHED_BLOCKS: u64 = 4096;
/// The search goes on by n divided by this, so it takes some 60 prices. Chosen: n may be 1/8 off, which the table above
/// includes.
const SEARCH_STEPS: u32 = 8;

/// The number of blocks for a broadcast of `bytes` bytes among `size` ranks.
///
/// The paper's √((q−1)βm/α) takes a round to last α + βm/n from its first byte sent to its last received.
/// On a wire where puts overlap only o is paid per block, and the latency once per hop: in the
/// [pricing](super::price) n blocks take
///
/// > T(n) ≈ (n−1+q)(o + βm/n) + (h+1)·L,  T(1) = the binomial-like tree, exactly; at least h hops,
///
/// where h is the most hops any rank is away at n = 1. So n ≈ √((q−1)βm/o), and 1 if T(1) is less: there
/// a block has fewer hops to go. For many blocks the price of waiting for one that is still on its way
/// adds to it, which smaller blocks make cheaper: the factor 0.8 + 0.8·n/(n+30) was fitted to it.
pub fn bcast_blocks(size: u32, bytes: u64, model: &LogGp) -> u32 {
    if size < 3 {
        return 1;
    }
    let graph = Circulant::new(size);
    let q = f64::from(graph.q());
    let latency = float(model.latency_ns);
    let overhead = float(model.overhead_ns).max(1.0);
    let wire = float(bytes) * float(model.byte_ps) / 1000.0;
    let plain = ((q - 1.0) * wire / overhead).sqrt();
    let n = clamp(plain * (FEW_BLOCKS + MANY_BLOCKS_MORE * plain / (plain + MANY_BLOCKS)), bytes);
    let (tree, hops) = tree(&graph, overhead + wire, latency);
    // Among three ranks the only block that is passed on late is the last but one.
    let rounds = f64::from(n) - 1.0 + q - if size == 3 { 1.0 } else { 0.0 };
    let many = rounds * (overhead + wire / f64::from(n)) + (hops + 1.0) * latency;
    if tree <= many { 1 } else { n }
}

/// The time of the broadcast in one block, where a put takes `put` and L besides; and its most hops.
pub(super) fn tree(graph: &Circulant, put: f64, latency: f64) -> (f64, f64) {
    let (p, q) = (graph.p(), graph.q());
    if p > EXACT_TREE_MAX_RANKS {
        return (f64::from(q) * (put + latency), f64::from(q));
    }
    // Rank r of the tree: (when it has the block, how many hops away it is, how many puts it made).
    let mut ranks = vec![(0.0f64, 0.0f64, 0.0f64); p as usize];
    for k in 0..q {
        let skip = graph.skip(k) as usize;
        for r in 0..(graph.skip(k + 1) as usize - skip) {
            ranks[r].2 += 1.0;
            let (time, hops, puts) = ranks[r];
            ranks[r + skip] = (time + puts * put + latency, hops + 1.0, 0.0);
        }
    }
    ranks.iter().fold((0.0, 0.0), |(time, hops), r| (r.0.max(time), r.1.max(hops)))
}

/// The number of blocks for a [chain](super::bcast::chain): √((p−2)βm/o), from T(n) = (n+p−2)(o + βm/n) + (p−1)L.
pub(crate) fn chain_blocks(size: u32, bytes: u64, model: &LogGp) -> u32 {
    pipeline_blocks(size.saturating_sub(2), bytes, model)
}

/// The number of blocks for a pipeline in which the last block comes `more` rounds after it has left: √(`more`·βm/o), from
/// T(n) = (n + `more`)(o + βm/n), latencies aside.
pub(super) fn pipeline_blocks(more: u32, bytes: u64, model: &LogGp) -> u32 {
    let (wire, overhead) = wire(bytes, model);
    clamp((f64::from(more) * wire / overhead).sqrt(), bytes)
}

/// The number of blocks for a [round-robin](super::bcast::round_robin) broadcast: p−1 times the
/// S = √(βm/((p−1)o)) of least (S+1)((p−1)o + βm/S).
pub(crate) fn round_robin_blocks(size: u32, bytes: u64, model: &LogGp) -> u32 {
    let (wire, overhead) = wire(bytes, model);
    let others = f64::from(size.saturating_sub(1).max(1));
    let most = f64::from(MAX_COUNTERS) / others;
    let segments = ((wire / (others * overhead)).sqrt() + 0.5).floor().min(most.floor()).max(1.0);
    clamp(segments * others, u64::MAX)
}

/// The distances from a tree's root to its children in a [broadcast down wide trees](super::bcast::wide_trees): s_0 = 1,
/// s_{k+1} = s_k + s_{max(k−λ, 0)}, until there are `positions` of them. The last one is at least `positions`, and no child.
pub(super) fn wide_skips(positions: u32, lag: u32) -> Vec<u32> {
    let (mut skips, mut last) = (vec![1u32], 1);
    while last < positions {
        // At most twice the last one, so below 2^32.
        last += skips[(skips.len() - 1).saturating_sub(lag as usize)];
        skips.push(last);
    }
    skips
}

/// λ of wide trees: the latency by the time for which a put of a block holds a link, rounded.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped
pub(super) fn wide_lag(bytes: u64, n: u32, model: &LogGp) -> u32 {
    let (wire, overhead) = wire(bytes, model);
    let slot = overhead + wire / f64::from(n.max(1));
    (float(model.latency_ns) / slot + 0.5).min(f64::from(MAX_COUNTERS)) as u32
}

/// Hops and puts one after the other of a broadcast down wide trees in n blocks: two hops, and what rounding λ down leaves of each
/// further one; the root's n puts, as many as if every rank were the root of as many trees, and the tree's K.
pub(super) fn wide_shape(size: u32, n: u32, bytes: u64, model: &LogGp) -> [f64; 2] {
    let others = size.saturating_sub(1);
    if others == 0 {
        return [0.0; 2];
    }
    let (wire, overhead) = wire(bytes, model);
    let slot = overhead + wire / f64::from(n.max(1));
    let lag = wide_lag(bytes, n, model);
    let width = float(wide_skips(others, lag).len() as u64 - 1);
    let (latency, lag) = (float(model.latency_ns).max(1.0), f64::from(lag));
    let deeper = (width / (lag + 1.0)).min(f64::from(others.ilog2())).floor();
    let hops = f64::from(others.min(2)) + (1.0 - lag * slot / latency).max(0.0) * deeper;
    let even = if n < others { f64::from(n) } else { f64::from(n.div_ceil(others)) * f64::from(others) };
    [hops, even + width + WIDE_HELD_UP * (width - lag).max(0.0)]
}

/// The number of blocks for a broadcast down wide trees: of those up to p−1, and of the multiples of p−1, in which all ranks send
/// equally much, the one of the least time by [`wide_shape`].
pub(super) fn wide_blocks(size: u32, bytes: u64, model: &LogGp) -> u32 {
    let others = size.saturating_sub(1).max(1);
    let (wire, overhead) = wire(bytes, model);
    let latency = float(model.latency_ns);
    let most = clamp(f64::INFINITY, bytes);
    let (mut best, mut n) = ((f64::INFINITY, 1), 1);
    // More blocks cannot be faster when the root's puts alone take longer.
    while n <= most && f64::from(n) * overhead + wire < best.0 {
        let [hops, puts] = wide_shape(size, n, bytes, model);
        let time = hops * latency + puts * (overhead + wire / f64::from(n));
        if time < best.0 {
            best = (time, n);
        }
        let segments = n / others;
        n = match segments {
            0 => (n + (n / SEARCH_STEPS).max(1)).min(others),
            _ => others.saturating_mul(segments + (segments / SEARCH_STEPS).max(1)),
        };
    }
    best.1
}

/// The block size of the [pipelined ring](super::allgatherv::pipelined_ring) in bytes, by formula (2) of the paper
/// with α = o, as latencies overlap: B = √(mo/β / ((p+z)/2 − 1 + ⌊z/(p−z)⌋)), z of the p ranks without data;
/// whole contributions if all are equal, and as in a [chain](chain_blocks) if there is but one.
pub(crate) fn ring_block(counts: &[u64], model: &LogGp) -> u64 {
    let (p, z) = (counts.len(), counts.iter().filter(|&&count| count == 0).count());
    let largest = counts.iter().copied().max().unwrap_or(0).max(1);
    if counts.iter().all(|&count| count == largest) || z == p {
        return largest;
    }
    let total = counts.iter().sum::<u64>();
    let fewest = total.div_ceil(u64::from(MAX_COUNTERS).saturating_sub(p as u64).max(1));
    if z + 1 == p {
        let n = chain_blocks(u32::try_from(p).unwrap_or(u32::MAX), largest, model);
        return largest.div_ceil(u64::from(n)).max(fewest);
    }
    let (wire, overhead) = wire(total, model);
    let rounds = float((p + z) as u64) / 2.0 - 1.0 + float((z / (p - z)) as u64);
    let blocks = (rounds * wire / overhead).sqrt().max(1.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most `total`
    let block = (float(total) / blocks) as u64;
    block.next_multiple_of(ALIGN).max(fewest).min(largest)
}

/// How much longer rounds of unequal messages take than their bytes in a row where links carry puts in turns
/// ([`Machine::turn_bytes`](crate::machine::Machine::turn_bytes)): those of several rounds are ready at once. (16 ranks on an
/// emulated network of 100 Mbit/s, 1 MB, `irr3` and `linear`, reduce-scatters and allgathers in one block: 1.06 to 1.4; the simulator, `core/tests/pure/selection.rs`: 1.05 to 1.47.)
pub(super) const IN_TURNS: f64 = 1.25;

/// How much longer puts of several ranks to one take than their bytes, where links carry those that come at the same time in turns
/// ([`Machine::turn_bytes`](crate::machine::Machine::turn_bytes)). (A reduce-scatter of 1 MB by 16 ranks on an emulated network of
/// 100 Mbit/s, `ci/race choice --figure others-natural-16`: 80.7 ms so, 75.3 round a ring; at 1 ms of latency 87.8, and 80.5 and 15 latencies.
/// Allgathers of 1 MB by 16 ranks there: 76.6 to 84 ms by way of several peers, 74.9 round a ring; of `irr3` by 36 ranks 173 and 162.)
pub(super) const AT_ONCE: f64 = 1.07;

/// βm and o in nanoseconds, o at least 1.
fn wire(bytes: u64, model: &LogGp) -> (f64, f64) {
    (float(bytes) * float(model.byte_ps) / 1000.0, float(model.overhead_ns).max(1.0))
}

/// The numbers of blocks for an allgatherv of `counts`: for each owner in proportion to its bytes.
///
/// With n blocks for the longest contribution, and in proportion for the others, a block's *way* to the last rank takes
/// W(n) = (q+1)L + q·o + q·β·m_max/n, and the *work* of a link
/// A(n) = L + o(q + N(n)) + β(m − m_min) + 0.3·β(X + q·m_max)/n. Half of the shorter goes on during the longer:
///
/// > T(n) ≈ max(W, A) + min(W, A)/2,  T(1) ≈ q(L + o) + 1.25·β(m − m_min + X)
///
/// X is the *excess*, what irregularity costs with one block: X = Σ_k W_k − (m − m_min), W_k the heaviest
/// `skips[k+1]−skips[k]` consecutive owners. N(n) counts the puts that a rank posts: owners of one block share runs, all
/// other pieces are puts of their own. As these overlap, less than X/n of the excess is left in n blocks; 0.3 was fitted to
/// the [pricing](super::price). One block is dearer than there: real links carry the puts to several peers in turns. The
/// n of least T(n) is searched for; a single owner is a broadcast; and where all contributions are equal one block is both
/// round- and volume-optimal.
///
/// In proportion is never much worse than n for all, and up to 1.8 times as fast: an owner of little
/// spends no overhead on tiny pieces.
pub fn allgatherv_blocks(counts: &[u64], model: &LogGp) -> Blocks {
    let n = allgatherv_n(counts, model);
    if n == 1 {
        return Blocks::Equal(1);
    }
    let largest = counts.iter().copied().max().unwrap_or(0);
    Blocks::PerOwner(counts.iter().map(|&count| share(count, n, largest)).collect())
}

/// The number of blocks for the longest contribution.
pub(super) fn allgatherv_n(counts: &[u64], model: &LogGp) -> u32 {
    let size = u32::try_from(counts.len()).unwrap_or(u32::MAX);
    let largest = counts.iter().copied().max().unwrap_or(0);
    if counts.iter().all(|&count| count == largest) {
        return 1;
    }
    match counts.iter().filter(|&&count| count > 0).count() {
        0 => 1,
        1 => bcast_blocks(size, largest, model),
        _ if size < 3 => 1,
        _ => search(counts, largest, model),
    }
}

/// ⌈n·count/largest⌉, at least 1.
#[allow(clippy::cast_possible_truncation)] // at most n
fn share(count: u64, n: u32, largest: u64) -> u32 {
    // Division of 128 bits takes ten times as long, and this is done for every rank and every n.
    if let Some(product) = count.checked_mul(u64::from(n)) {
        return product.div_ceil(largest).max(1) as u32;
    }
    (u128::from(count) * u128::from(n)).div_ceil(u128::from(largest)).max(1) as u32
}

fn search(counts: &[u64], largest: u64, model: &LogGp) -> u32 {
    let rule = Irregular::new(counts);
    let byte = float(model.byte_ps) / 1000.0;
    let (latency, overhead) = (float(model.latency_ns), float(model.overhead_ns));
    let time = |[hops, puts, bytes]: [f64; 3]| hops * latency + puts * overhead + bytes * byte;
    let most = (largest / ALIGN).clamp(1, MAX_SEARCHED_BLOCKS);
    let (mut best, mut n) = ((f64::INFINITY, 1), 1);
    while u64::from(n) <= most {
        let Some(puts) = rule.puts(n, model) else { break };
        let time = if n == 1 {
            time([rule.q, rule.q, IN_TURNS * (rule.volume + rule.excess)])
        } else {
            let [way, work] = rule.way_and_work(n, puts).map(time);
            way.max(work) + OF_THE_SHORTER * way.min(work)
        };
        if time < best.0 {
            best = (time, n);
        }
        n += (n / SEARCH_STEPS).max(1);
    }
    best.1
}

/// What the time of an allgatherv of unequal counts consists of; bytes.
pub(super) struct Irregular {
    /// The different counts, and how many ranks have each: often few, and much is asked of each.
    alike: Vec<(u64, u64)>,
    q: f64,
    largest: u64,
    volume: f64,
    excess: f64,
}

impl Irregular {
    pub(super) fn new(counts: &[u64]) -> Self {
        let mut sorted = counts.to_vec();
        sorted.sort_unstable();
        let alike: Vec<_> = sorted.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u64)).collect();
        let graph = Circulant::new(u32::try_from(counts.len()).unwrap_or(1));
        let width = |k| (graph.skip(k + 1) - graph.skip(k)) as usize;
        let heaviest = (0..graph.q()).map(|k| heaviest_window(counts, width(k))).sum::<u64>();
        let volume = counts.iter().sum::<u64>() - sorted.first().copied().unwrap_or(0);
        Self {
            alike,
            q: graph.q().into(),
            largest: sorted.last().copied().unwrap_or(0),
            volume: float(volume),
            excess: float(heaviest.saturating_sub(volume)),
        }
    }

    /// The way of one of n blocks and the work of a link, each as hops, puts and bytes.
    pub(super) fn way_and_work(&self, n: u32, puts: f64) -> [[f64; 3]; 2] {
        let (q, rounds) = (self.q, self.q * float(self.largest));
        let left = EXCESS_LEFT * (self.excess + rounds) / f64::from(n);
        [[q + 1.0, q, rounds / f64::from(n)], [1.0, q + puts, self.volume + left]]
    }

    /// The puts of a rank, about: pieces of owners with several blocks, of which light ones share puts, and runs of the others. `None`: too
    /// many counters.
    pub(super) fn puts(&self, n: u32, model: &LogGp) -> Option<f64> {
        let (mut pieces, mut light, mut singles, mut bytes, mut ranks) = (0, 0, 0, 0, 0);
        for &(count, owners) in &self.alike {
            ranks += owners;
            if count == 0 {
                continue;
            }
            match share(count, n, self.largest) {
                1 => (singles, bytes) = (singles + owners, bytes + owners * count),
                blocks => {
                    pieces += owners * u64::from(blocks);
                    if count.div_ceil(u64::from(blocks)) < light_bytes(model) {
                        light += owners * u64::from(blocks);
                    }
                }
            }
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 32
        let runs = 2 * self.q as u64 + bytes / coalesce(model);
        // Those of a round that are here when its puts go.
        let share =
            (float(light) / f64::from(n) / PIECES_OF_A_ROUND_PER_SHARED).clamp(1.0, SHARED_PIECES_PER_PUT);
        let packed = float(self.largest) / f64::from(n) / float(model.overhead_ns.max(1));
        let puts = float(pieces - light) + float(light) * (1.0 / share + packed).min(1.0);
        (pieces + ranks <= u64::from(MAX_COUNTERS)).then_some(puts + float(runs.min(singles)))
    }
}

/// At most this many light pieces share a put, on average; each is packed and unpacked at a nanosecond a byte ([`light_bytes`]). Measured: 2.1 of unequal
/// contributions, 3 to 3.6 of those of which many are equal (36 ranks, 1 MB, linear, irr3 and half in 16 blocks).
const SHARED_PIECES_PER_PUT: f64 = 2.0;
/// Of this many light pieces of a round one is there when another goes. Measured in the same runs: 18 pieces, by two and more.
const PIECES_OF_A_ROUND_PER_SHARED: f64 = 9.0;

/// The most bytes that `width` consecutive owners have, around the circle.
pub(super) fn heaviest_window(counts: &[u64], width: usize) -> u64 {
    let width = width.min(counts.len());
    let (head, tail) = counts.split_at(width);
    let mut window: u64 = head.iter().sum();
    let mut most = window;
    let mut slide = |leaves: &[u64], enters: &[u64]| {
        for (leaves, enters) in leaves.iter().zip(enters) {
            window = window - leaves + enters;
            most = most.max(window);
        }
    };
    slide(counts, tail);
    slide(&counts[tail.len()..], head);
    most
}

#[allow(clippy::cast_precision_loss)] // a rule needs no more than 53 bits
fn float(n: u64) -> f64 {
    n as f64
}

/// A number of blocks: at least 1, none shorter than [`ALIGN`].
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped
fn clamp(n: f64, bytes: u64) -> u32 {
    let most = float((bytes / ALIGN).clamp(1, u64::from(MAX_BLOCK_PUTS)));
    (n + 0.5).clamp(1.0, most) as u32
}
