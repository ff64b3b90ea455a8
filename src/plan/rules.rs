//! How many blocks: pure functions of the wire's [`Model`], the same on every rank (only + - * / and the
//! square root, which IEEE 754 rounds alike everywhere).

use super::allgatherv::circulant::Blocks;
use super::price::Model;
use super::split::ALIGN;
use super::MAX_COUNTERS;
use crate::schedule::Circulant;

/// Up to this many ranks the one-block broadcast is timed exactly, in O(p).
const EXACT: u32 = 1 << 16;

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
pub fn bcast_blocks(size: u32, bytes: u64, model: &Model) -> u32 {
    if size < 3 {
        return 1;
    }
    let graph = Circulant::new(size);
    let q = f64::from(graph.q());
    let latency = float(model.latency_ns);
    let overhead = float(model.overhead_ns).max(1.0);
    let wire = float(bytes) * float(model.byte_ps) / 1000.0;
    let plain = ((q - 1.0) * wire / overhead).sqrt();
    let n = clamp(plain * (0.8 + 0.8 * plain / (plain + 30.0)), bytes);
    let (tree, hops) = tree(&graph, overhead + wire, latency);
    // Among three ranks the only block that is passed on late is the last but one.
    let rounds = f64::from(n) - 1.0 + q - if size == 3 { 1.0 } else { 0.0 };
    let many = rounds * (overhead + wire / f64::from(n)) + (hops + 1.0) * latency;
    if tree <= many { 1 } else { n }
}

/// The time of the broadcast in one block, where a put takes `put` and L besides; and its most hops.
fn tree(graph: &Circulant, put: f64, latency: f64) -> (f64, f64) {
    let (p, q) = (graph.p(), graph.q());
    if p > EXACT {
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

#[allow(clippy::cast_precision_loss)] // a rule needs no more than 53 bits
fn float(n: u64) -> f64 {
    n as f64
}

/// A number of blocks: at least 1, none shorter than [`ALIGN`].
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped
fn clamp(n: f64, bytes: u64) -> u32 {
    let most = float((bytes / ALIGN).clamp(1, u64::from(MAX_COUNTERS)));
    (n + 0.5).clamp(1.0, most) as u32
}
