//! What the proofs of plans share: seeded randomness, all p on all cores, layouts and wires at random.
//!
//! A failing case prints its seed; `PLAN_PROOF_SEED` repeats it. `PLAN_PROOF=full` proves more.
#![allow(dead_code, reason = "each test uses a part")]

use circulant_core::machine::LogGp;
use circulant_core::plan::Plan;
use circulant_core::plan::lower::{MAX_RUN_BYTES, Program, WireLimits, lower};
use circulant_core::plan::registry::{self, Algorithm, Operation};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Instant, SystemTime};

/// A fast fabric.
pub(crate) const MODEL: LogGp = LogGp { latency_ns: 1500, overhead_ns: 200, byte_ps: 80, reduce_ps: 100 };

/// Every registry line is proved for the p up to this (in the quick tier a part of them, see [`is_drawn`]),
pub(crate) const ALL: u32 = 128;
/// and for these.
pub(crate) const SOME: [u32; 6] = [129, 255, 256, 257, 500, 1000];

/// Whether all is to be proved, however long it takes.
pub(crate) fn full() -> bool {
    std::env::var("PLAN_PROOF").is_ok_and(|what| what == "full")
}

/// Beyond [`ALL`] ranks, plans of more steps than this are proved in the full tier only: those of a thousand ranks that
/// share nodes have 650 000 and more, and take up to a minute each; an alltoall of theirs has millions, and takes many.
const LONG_STEPS: usize = 200_000;

/// Whether this plan is for the full tier, and this run is not of it.
pub(crate) fn too_long(plan: &dyn Plan) -> bool {
    let steps = || (0..plan.size()).map(|rank| plan.steps(rank).count()).sum::<usize>();
    !full() && plan.size() > ALL && steps() > LONG_STEPS
}

/// Whether this run proves anything for p: for each up to 24 and beside powers of two up to [`ALL`], of the rest for a
/// quarter at random, beyond [`ALL`] for half; for all in the full tier.
fn is_drawn(p: u32, random: &mut Random) -> bool {
    let special = p <= 24 || p <= ALL && (p.is_power_of_two() || (p + 1).is_power_of_two());
    special || full() || random.yes(if p > ALL { 2 } else { 4 })
}

/// The lines whose proofs this run makes: all, or those of `PROOF_OF`, an operation (`bcast`) or one of its algorithms
/// (`bcast/two_tree`).
pub(crate) fn all() -> impl Iterator<Item = &'static Algorithm> {
    let wanted = std::env::var("PROOF_OF").ok();
    let is_wanted = move |line: &&Algorithm| {
        let (operation, name) = (line.operation.name(), line.name);
        wanted.as_ref().is_none_or(|text| text == operation || *text == format!("{operation}/{name}"))
    };
    let mut lines = registry::all().filter(is_wanted).peekable();
    assert!(lines.peek().is_some(), "PROOF_OF names no algorithm: say OPERATION or OPERATION/ALGORITHM");
    lines
}

/// Those of an operation.
pub(crate) fn algorithms(operation: Operation) -> impl Iterator<Item = &'static Algorithm> {
    all().filter(move |line| line.operation == operation)
}

pub(crate) fn seed() -> u64 {
    let now = || SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos().into();
    std::env::var("PLAN_PROOF_SEED").map_or_else(|_| now(), |text| text.parse().unwrap())
}

/// Splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    pub(crate) fn rank(&mut self, p: u32) -> u32 {
        u32::try_from(self.below(p.into())).unwrap()
    }

    pub(crate) fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[usize::try_from(self.below(list.len() as u64)).unwrap()]
    }

    pub(crate) fn yes(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    /// Displacements in any order, with or without gaps.
    pub(crate) fn displs(&mut self, counts: &[u64]) -> Vec<u64> {
        let mut order: Vec<usize> = (0..counts.len()).collect();
        if self.yes(3) {
            for i in 1..order.len() {
                order.swap(i, usize::try_from(self.below(i as u64 + 1)).unwrap());
            }
        }
        let (gap, mut at) = (self.one_of(&[0, 0, 7]), self.one_of(&[0, 5]));
        let mut displs = vec![0; counts.len()];
        for j in order {
            displs[j] = at;
            at += counts[j] + gap;
        }
        displs
    }

    /// The nodes of so many ranks: unknown, unequal, in blocks, round-robin, or equal in any order.
    pub(crate) fn nodes(&mut self, p: u32) -> Arc<[u32]> {
        let divisors: Vec<u32> = (2..p).filter(|k| p.is_multiple_of(*k)).collect();
        let each = if divisors.is_empty() { 2 } else { self.one_of(&divisors) };
        let mut nodes: Vec<u32> = match self.below(6) {
            0 => return Arc::default(),
            1 => (0..p).map(|_| self.rank(5)).collect(),
            2 => (0..p).map(|_| self.rank(p / 2 + 1)).collect(),
            3 => (0..p).map(|rank| 3 * (rank / each)).collect(),
            4 => (0..p).map(|rank| rank % p.div_ceil(each)).collect(),
            _ => (0..p).map(|rank| rank / each).collect(),
        };
        if self.yes(3) {
            for i in (1..nodes.len()).rev() {
                nodes.swap(i, usize::try_from(self.below(i as u64 + 1)).unwrap());
            }
        }
        nodes.into()
    }

    /// The groups of these nodes, and of ranks that have one each: unknown, in blocks, round-robin, or one only.
    pub(crate) fn groups(&mut self, p: u32, nodes: &[u32]) -> Arc<[u32]> {
        let (way, k) = (self.below(5), self.one_of(&[2, 3, 4, 7, 16]));
        let group = |node: u32| match way {
            1 => node / k,
            2 => node % k,
            3 => node / k / 2,
            _ => node * node % k,
        };
        match (way, nodes) {
            (0, _) => Arc::default(),
            (_, []) => (0..p).map(group).collect(),
            _ => nodes.iter().map(|node| group(*node)).collect(),
        }
    }

    /// Counts in one of several shapes, around `size`: equal, any, half of them zero, one giant among zeros or
    /// small ones, rising, in threes.
    pub(crate) fn counts(&mut self, p: u32, size: u64) -> Vec<u64> {
        let (shape, giant) = (self.below(7), self.below(p.max(1).into()));
        let count = |j: u64| match shape {
            0 => size,
            1 => self.below(2 * size + 1),
            2 => self.below(2) * self.below(2 * size + 1),
            3 => u64::from(j == giant) * 100 * size,
            4 if j == giant => 100 * size + 1,
            4 => self.below(size + 1),
            5 => size + j,
            _ => j % 3 * size,
        };
        (0..u64::from(p)).map(count).collect()
    }

    /// A wire, for blocks of so many bytes.
    pub(crate) fn limits(&mut self, block: u64) -> WireLimits {
        WireLimits {
            max_put: self.one_of(&[block / 3 + 1, block / 2 + 1, 2 * block + 1, 1 << 40]),
            gather: self.one_of(&[1, 2, 4, 30]),
            light: self.one_of(&[0, block / 10, block, 1 << 20]),
            few: self.one_of(&[2, 2, 4]),
            coalesce: self.one_of(&[1, 2 * block, MAX_RUN_BYTES]),
        }
    }
}

/// Runs `body` for these p, as far as they are drawn, on all cores, longest first, each p with randomness of its own.
pub(crate) fn every_p(
    name: &str,
    sizes: impl IntoIterator<Item = u32>,
    body: impl Fn(u32, &mut Random) + Sync,
) {
    let (seed, began) = (seed(), Instant::now());
    println!("{name}: PLAN_PROOF_SEED={seed}");
    let mut draw = Random(seed);
    let mut sizes: Vec<u32> = sizes.into_iter().filter(|p| is_drawn(*p, &mut draw)).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(&p) = sizes.get(next.fetch_add(1, Ordering::Relaxed)) {
            body(p, &mut Random(seed ^ u64::from(p) << 32));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    println!("{name}: {} sizes, {:.1} s", sizes.len(), began.elapsed().as_secs_f64());
}

/// ⌈log2 p⌉.
pub(crate) fn q(p: u32) -> u32 {
    p.next_power_of_two().ilog2()
}

/// The programs of all ranks.
pub(crate) fn programs(plan: &dyn Plan, limits: &WireLimits) -> Vec<Program> {
    (0..plan.size()).map(|rank| lower(plan, rank, limits).unwrap()).collect()
}
