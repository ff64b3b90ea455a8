//! The pipelined ring for irregular allgathers (Träff, Ripke, Siebert, Balaji, Thakur, Gropp, A Pipelined
//! Algorithm for Large, Irregular All-gather Problems, 2010), complete: b − min b_i rounds if all ranks
//! contribute, m−m_r bytes to rank r, any p.
//!
//! Contributions are cut into blocks of B bytes, the last one shorter: b_i = ⌈m_i/B⌉, b their sum. Every rank
//! puts its own blocks to the next rank of the ring, one in a round, and then passes on what comes, in the
//! order in which it comes: that of its predecessor, the one before it, and so on. Empty blocks are not sent.
//! A block's number is its counter.
//!
//! # When
//!
//! The y-th block that position i sends does not wait as long as blocks came in time: it leaves in round
//! y. Where ranks without data precede in the ring, it leaves later: with S(h) the number of blocks of
//! positions i, i−1, …, i−h+1, a block that began h positions back can not be here before round h, and after
//! it there are y − S(h) to send. So the y-th block leaves in round
//!
//! > T(y) = y + max { h − S(h) : S(h) ≤ y }, h ≥ 0,
//!
//! which is walked with two integers. If all contribute, T(y) = y, and the paper's equation (1) is exact;
//! else it is a bound, taking empty contributions for one block each.
//!
//! # In which order
//!
//! The ring may be any permutation of the ranks. [`spread`] spaces the ranks without data evenly between the
//! others (section 2.3: all the delays that a rank's own blocks can hide are hidden), [`by_node`] keeps the
//! ranks of a node together (figure 1), so that one rank of each sends to and one receives from another node.

use super::contributions::Contributions;
use crate::error::{Result, argument};
use crate::machine::LogGp;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{line, of_all, q};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::rules;
use crate::plan::{MAX_COUNTERS, Plan, Sizes, Step, Wait};
use std::collections::VecDeque;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Allgather,
    "pipelined_ring",
    ["any p, n", "n(p-1); n = ceil(m_i/B), B = ceil(m_i/n)", "m - m/p", "Träff et al. 2010"],
    |a, n| {
        let blocks = a.bytes.div_ceil(block_of(&[a.bytes], n)).max(1);
        u32::try_from(blocks * u64::from(a.size.saturating_sub(1))).unwrap_or(u32::MAX)
    },
    |a, model| {
        let data = Contributions::equal(a.size, a.bytes, a.in_place)?;
        build(a, data, &vec![a.bytes; a.size as usize], model)
    },
)
.costs(regular_cost)
.puts_blocks(of_all);

pub(in crate::plan) const IRREGULAR: Algorithm = line(
    Operation::Allgatherv,
    "pipelined_ring",
    [
        "any p, n",
        "b - min b_i, b_i = max(1, ceil(m_i/B)), b = sum b_i, B = max m_i/n; less if some m_i = 0",
        "m - min m_i",
        "Träff et al. 2010, equation (1)",
    ],
    rounds_of,
    |a, model| build(a, Contributions::new(&a.counts, &a.displs, a.in_place)?, &a.counts, model),
)
.costs(cost)
.puts_blocks(of_all);

/// The length of blocks of which the longest contribution has `n`.
fn block_of(counts: &[u64], n: u32) -> u64 {
    counts.iter().copied().max().unwrap_or(0).div_ceil(u64::from(n.max(1))).max(1)
}

fn build(a: &Arguments, data: Contributions, counts: &[u64], model: &LogGp) -> Result<Box<dyn Plan>> {
    let block = a.blocks.map_or_else(|| rules::ring_block(counts, model), |n| block_of(counts, n));
    if !a.nodes.is_empty() && a.nodes.len() != counts.len() {
        return Err(argument(format!("the nodes of {} ranks, of {}", a.nodes.len(), counts.len())));
    }
    let ring = match a.nodes[..] {
        [] => spread(counts),
        _ => by_node(counts, &a.nodes),
    };
    Ok(Box::new(Allgatherv::new(data, block, ring)?))
}

/// Equation (1): b − min b_i.
fn rounds_of(a: &Arguments, n: u32) -> u32 {
    let block = block_of(&a.counts, n);
    let blocks = || a.counts.iter().map(|count| count.div_ceil(block).max(1));
    u32::try_from(blocks().sum::<u64>() - blocks().min().unwrap_or(0)).unwrap_or(u32::MAX)
}

fn regular_cost(a: &Arguments, path: &mut Path<'_>) {
    let n = a.blocks.unwrap_or(1).max(1);
    path.blocks(n);
    let (hops, bytes) = (a.others(), a.largest());
    let block = float(bytes.div_ceil(n.into()));
    path.longer(
        |path| path.ring(hops, 1.0, block),
        |path| path.over(&[1], hops.min(1.0), hops * f64::from(n), hops * float(bytes)),
    );
    path.relayed(hops);
}

/// Every block of every owner passes a link once, behind the latencies that no blocks hide; or the longest contribution goes all the way.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    if a.has_equal_counts() {
        return regular_cost(a, path);
    }
    let most = a.largest();
    let by_rule = || most.div_ceil(rules::ring_block(&a.counts, path.model()).max(1)).max(1);
    let n = a.blocks.unwrap_or_else(|| u32::try_from(by_rule()).unwrap_or(u32::MAX));
    path.blocks(n);
    let rounds = f64::from(rounds_of(a, n));
    let (hops, block) = (a.others(), float(block_of(&a.counts, n).min(most)));
    // Chosen: ⌈log2 p⌉ latencies more, as puts leave later than this sum says where ranks wait for a core. (16 and 36 nodes on two cores, five distributions: without
    // them the ring is chosen at 400 KB, too, where algorithms with fewer puts are up to 1.16 times as fast; with them from 1 MB on, where it is the fastest.)
    let seen = (bare_latencies(a, block, path.model()) + f64::from(q(a.size))).min(hops);
    path.longer(
        |path| path.over(&[1], hops, hops + f64::from(n) - 1.0, (hops + f64::from(n) - 1.0) * block),
        |path| path.over(&[1], seen, rounds.max(hops), float(a.of_others())),
    );
    path.relayed(hops);
}

/// The latencies that are not hidden: 1 for the last put, and those for which a rank waits with nothing to put. A block from h positions back arrives after h latencies and h rounds at the
/// earliest; until then the rank can put the blocks of the h positions before it in the ring. This is T(y) of the module's documentation where a hop takes a latency and a round. (The number
/// of rounds is that of equation (1), which counts one block for a rank without data.)
fn bare_latencies(a: &Arguments, block: f64, model: &LogGp) -> f64 {
    let latency = float(model.latency_ns);
    if latency == 0.0 {
        return 1.0;
    }
    let round = float(model.overhead_ns) + block * float(model.byte_ps) / 1000.0;
    let ring = if a.nodes.len() == a.counts.len() { by_node(&a.counts, &a.nodes) } else { spread(&a.counts) };
    let lacks = |rank: &u32| {
        let blocks = (float(a.counts[*rank as usize]) / block).ceil().max(1.0);
        latency - (blocks - 1.0) * round
    };
    // The largest sum over consecutive positions (Kadane's algorithm); twice round, as the ring is closed.
    let (mut ending, mut largest) = (0.0f64, 0.0f64);
    for lack in ring.iter().chain(&ring).map(lacks) {
        ending = (ending + lack).max(0.0);
        largest = largest.max(ending);
    }
    1.0 + largest / latency
}

/// An allgatherv around a ring, in blocks.
#[derive(Clone, Debug)]
pub struct Allgatherv {
    data: Contributions,
    block: u64,
    /// By rank: the first of its blocks; and the number of blocks.
    first: Vec<u32>,
    /// Rank by position in the ring, and position by rank.
    ring: Vec<u32>,
    position: Vec<u32>,
    rounds: u32,
}

/// Ranks in an order in which those without data lie evenly between the others.
/// Never more rounds than with those without data side by side, which is the worst order.
pub fn spread(counts: &[u64]) -> Vec<u32> {
    let ranks = |empty: bool| (0u32..).zip(counts).filter(move |(_, c)| (**c == 0) == empty).map(|(r, _)| r);
    let empty: Vec<u32> = ranks(true).collect();
    let others = counts.len() - empty.len();
    if others == 0 {
        return empty;
    }
    let mut out = Vec::with_capacity(counts.len());
    for (i, rank) in ranks(false).enumerate() {
        out.push(rank);
        out.extend_from_slice(&empty[i * empty.len() / others..(i + 1) * empty.len() / others]);
    }
    out
}

/// Ranks in an order of their nodes, and within a node those without data first, so that every node sends data
/// to the next from the first round on.
pub fn by_node(counts: &[u64], nodes: &[u32]) -> Vec<u32> {
    let mut out: Vec<u32> = (0u32..).zip(counts.iter().zip(nodes)).map(|(rank, _)| rank).collect();
    out.sort_by_key(|&rank| (nodes[rank as usize], counts[rank as usize] > 0));
    out
}

impl Allgatherv {
    /// Gathers all contributions in blocks of `block` bytes around `ring`, the ranks in the ring's order.
    ///
    /// # Errors
    /// If `ring` is not a permutation of the ranks, or there are no bytes in a block or more than [`MAX_COUNTERS`]
    /// blocks in all.
    pub fn new(data: Contributions, block: u64, ring: Vec<u32>) -> Result<Self> {
        let p = data.size() as usize;
        if block == 0 {
            return Err(argument("blocks of 0 bytes"));
        }
        let (mut first, mut blocks) = (vec![0], 0u64);
        for rank in 0..data.size() {
            blocks = blocks.saturating_add(data.count(rank).div_ceil(block));
            let fits = u32::try_from(blocks).ok().filter(|&blocks| blocks <= MAX_COUNTERS);
            first.push(fits.ok_or_else(|| {
                argument(format!("more than {MAX_COUNTERS} blocks of {block} bytes in all"))
                    .help("use larger blocks")
            })?);
        }
        let mut position = vec![u32::MAX; p];
        for (at, &rank) in (0..).zip(&ring) {
            if let Some(entry) = position.get_mut(rank as usize) {
                *entry = at;
            }
        }
        if ring.len() != p || position.contains(&u32::MAX) {
            return Err(argument("the ring is not a permutation of the ranks"));
        }
        let mut plan = Self { data, block, first, ring, position, rounds: 0 };
        plan.rounds = plan.last_round();
        Ok(plan)
    }

    /// The blocks in all.
    pub fn blocks(&self) -> u32 {
        self.first.last().copied().unwrap_or(0)
    }

    /// How many blocks the rank at a position (mod p) of the ring has.
    fn blocks_at(&self, position: usize) -> u32 {
        let rank = self.ring[position % self.ring.len()] as usize;
        self.first[rank + 1] - self.first[rank]
    }

    /// The number of rounds: the greatest T of a last block, plus 1, over all positions in O(p).
    fn last_round(&self) -> u32 {
        let p = self.ring.len();
        if p < 2 || self.blocks() == 0 {
            return 0;
        }
        // E(k) = Σ_{j<k} (b_j − 1) around the ring twice; h − S(h) at position i is E(i+1−h) − E(i+1).
        let mut sums = vec![0i64];
        sums.extend((0..2 * p).scan(0, |sum, j| {
            *sum += i64::from(self.blocks_at(j)) - 1;
            Some(*sum)
        }));
        // The greatest E(k) over k from behind the owner of the last block up to i+1, in a sliding window.
        let (mut window, mut entered, mut rounds) = (VecDeque::<usize>::new(), 0, 0);
        let mut owner = 1; // of the last block: the first after position i+1 that has data, less p
        for next in p..2 * p {
            owner = owner.max(next + 1 - p);
            while owner < next && self.blocks_at(owner) == 0 {
                owner += 1;
            }
            while entered <= next {
                while window.back().is_some_and(|&k| sums[k] <= sums[entered]) {
                    window.pop_back();
                }
                window.push_back(entered);
                entered += 1;
            }
            while window.front().is_some_and(|&k| k <= owner) && window.len() > 1 {
                window.pop_front();
            }
            let sent = self.blocks() - self.blocks_at(next);
            if let Some(&k) = window.front().filter(|_| sent > 0) {
                rounds = rounds.max(i64::from(sent) + sums[k] - sums[next]);
            }
        }
        u32::try_from(rounds).unwrap_or(u32::MAX)
    }

    /// What the rank at `position` sends to the next: (round, owner, block), rounds ascending.
    fn walk(&self, position: u32) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
        let (p, position) = (self.ring.len(), position as usize);
        // How many blocks came before an owner's, S(h), and the delay so far.
        let start = move |(before, delay): &mut (u32, u32), h: usize| {
            let at = position + p - h;
            let blocks = self.blocks_at(at);
            if blocks > 0 {
                *delay = (*delay).max(u32::try_from(h).unwrap_or(0).saturating_sub(*before));
            }
            let first = *before + *delay;
            *before += blocks;
            Some((self.ring[at % p], first, blocks))
        };
        let owners = (0..p - 1).scan((0, 0), start);
        owners.flat_map(|(owner, first, blocks)| (0..blocks).map(move |b| (first + b, owner, b)))
    }

    fn range(&self, b: u32) -> std::ops::Range<u64> {
        let begin = u64::from(b) * self.block;
        begin..begin.saturating_add(self.block)
    }
}

impl Plan for Allgatherv {
    fn algorithm(&self) -> &'static str {
        "pipelined_ring"
    }

    fn size(&self) -> u32 {
        self.data.size()
    }

    fn fan_out(&self) -> Option<u32> {
        Some(1)
    }

    fn rounds(&self) -> u32 {
        self.rounds
    }

    fn counters(&self, _rank: u32) -> u32 {
        self.blocks()
    }

    fn sizes(&self, rank: u32) -> Sizes {
        self.data.sizes(rank)
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let (p, at) = (self.size(), self.position[rank as usize]);
        let before = (at + p - 1) % p;
        let (to, from) = (self.ring[((at + 1) % p) as usize], self.ring[before as usize]);
        let puts = self.walk(at).filter_map(move |(round, owner, b)| {
            let (source, target, len) = self.data.piece(rank, owner, self.range(b))?;
            let counter = self.first[owner as usize] + b;
            let wait = if owner == rank { Wait::NONE } else { Wait::once(counter) };
            Some(Step::put(round, to, source, target, len, wait, counter))
        });
        let expects = self.walk(before).filter_map(move |(round, owner, b)| {
            let (source, target, len) = self.data.piece(from, owner, self.range(b))?;
            Some(Step::expect(round, from, source, target, len, self.first[owner as usize] + b))
        });
        let (mut puts, mut expects) = (puts.peekable(), expects.peekable());
        let merged = std::iter::from_fn(move || match (puts.peek(), expects.peek()) {
            (Some(put), Some(expect)) if put.round > expect.round => expects.next(),
            (None, _) => expects.next(),
            _ => puts.next(),
        });
        Box::new(merged.chain(self.data.own(rank, self.rounds)))
    }
}
