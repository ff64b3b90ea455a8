//! Every plan, proved for every p up to 300: each byte exactly once, one-ported, in the promised rounds,
//! and right under any legal order of deliveries; and again after lowering to what wires of different
//! limits allow, run in random order. A failing case prints its seed; `PLAN_PROOF_SEED` repeats it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "tests may panic"
)]

use circulant::plan::allgather::circulant::Allgather;
use circulant::plan::allgatherv::circulant::{Allgatherv, Blocks};
use circulant::plan::barrier::dissemination::Barrier;
use circulant::plan::bcast::circulant::Bcast;
use circulant::plan::interpret::{Goal, Report, check, prove, run_without};
use circulant::plan::lower::{Program, WireLimits, lower};
use circulant::plan::split::ALIGN;
use circulant::plan::{Kind, Plan, Step, Wait};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

/// Every p up to this is proved.
const MOST: u32 = 300;

fn seed() -> u64 {
    let now = || SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos().into();
    std::env::var("PLAN_PROOF_SEED").map_or_else(|_| now(), |text| text.parse().unwrap())
}

/// Splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[usize::try_from(self.below(list.len() as u64)).unwrap()]
    }
}

/// Runs `body` for every p up to [`MOST`] on all cores, longest first, each p with randomness of its own.
fn every_p(name: &str, body: impl Fn(u32, &mut Random) -> Report + Sync) {
    let (seed, began) = (seed(), Instant::now());
    println!("{name}: p = 1..={MOST}, PLAN_PROOF_SEED={seed}");
    let (next, steps, bytes) = (AtomicU32::new(MOST), AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        while let Ok(p) = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |p| p.checked_sub(1)) {
            if p == 0 {
                break;
            }
            let report = body(p, &mut Random(seed ^ u64::from(p) << 32));
            steps.fetch_add(report.steps, Ordering::Relaxed);
            bytes.fetch_add(report.bytes, Ordering::Relaxed);
            if p % 50 == 0 {
                println!("{name}: p = {p} done after {:.1} s", began.elapsed().as_secs_f64());
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    let time = began.elapsed().as_secs_f64();
    println!("{name}: {} steps, {} bytes put, {time:.1} s", steps.into_inner(), bytes.into_inner());
}

fn add(total: &mut Report, one: Report) {
    total.steps += one.steps;
    total.bytes += one.bytes;
}

fn q(p: u32) -> u32 {
    p.next_power_of_two().ilog2()
}

/// Proves a plan; a plan whose blocks are all there needs exactly the rounds that it promises.
fn proved(plan: &dyn Plan, goal: &Goal, full: bool, case: &dyn std::fmt::Debug) -> Report {
    let report = prove(plan, goal).unwrap_or_else(|v| panic!("p = {}, {case:?}: {v}", plan.size()));
    if full && plan.size() > 1 {
        assert_eq!(report.rounds, plan.rounds(), "p = {}, {case:?}", plan.size());
    }
    report
}

fn programs(plan: &dyn Plan, limits: &WireLimits) -> Vec<Program> {
    (0..plan.size()).map(|rank| lower(plan, rank, limits).unwrap()).collect()
}

/// Checks the plan's programs on a wire of random limits; its largest blocks have `block` bytes.
fn checked(
    plan: &dyn Plan,
    goal: &Goal,
    block: u64,
    random: &mut Random,
    case: &dyn std::fmt::Debug,
) -> Report {
    let limits = WireLimits {
        max_put: random.one_of(&[block / 3 + 1, block / 2 + 1, 2 * block + 1, 1 << 40]),
        gather: random.one_of(&[1, 4, 8]),
        light: random.one_of(&[0, block / 10, block, 1 << 20]),
    };
    check(plan, &programs(plan, &limits), goal, random.below(1 << 60))
        .unwrap_or_else(|v| panic!("p = {}, {case:?}, {limits:?}: {v}", plan.size()))
}

/// n to test: all up to 3q+3, or those around the phase borders.
fn block_numbers(p: u32, all: bool) -> Vec<u32> {
    let q = q(p);
    if all {
        return (1..=3 * q + 3).collect();
    }
    let mut list = vec![1, 2, q - 1, q, q + 1, 2 * q + 1, 3 * q + 3];
    list.sort_unstable();
    list.dedup();
    list
}

#[test]
fn bcast() {
    every_p("bcast", |p, random| {
        let mut total = Report::default();
        let some = [0, 1 % p, p - 1, u32::try_from(random.below(p.into())).unwrap()];
        let roots = if p <= 40 { (0..p).collect() } else { some.to_vec() };
        for root in roots {
            for n in block_numbers(p, true) {
                let blocks = u64::from(n);
                let short = random.one_of(&[0, 1, blocks / 2, blocks, 3 * blocks + 1]);
                let shorts = u32::from(p <= 40 || random.below(4) == 0);
                let long = blocks * ALIGN + random.below(1000);
                for bytes in [long].into_iter().chain((0..shorts).map(|_| short)) {
                    let plan = Bcast::new(p, root, bytes, n).unwrap();
                    let case = (root, bytes, n);
                    add(&mut total, proved(&plan, &Goal::bcast(root, bytes), bytes >= blocks, &case));
                    if random.below(20) == 0 || n > 2 * q(p) && random.below(5) == 0 {
                        add(
                            &mut total,
                            checked(&plan, &Goal::bcast(root, bytes), bytes / blocks, random, &case),
                        );
                    }
                }
            }
        }
        total
    });
}

/// Counts in one of several shapes, and displacements with or without gaps and in any order.
fn irregular(p: u32, n: u32, random: &mut Random) -> (Vec<u64>, Vec<u64>) {
    let shape = random.below(6);
    let size = random.one_of(&[1, u64::from(n), 20 * u64::from(n), ALIGN * u64::from(n)]);
    let giant = random.below(p.into());
    let counts: Vec<u64> = (0..u64::from(p))
        .map(|j| match shape {
            0 => size,
            1 => random.below(2 * size + 1),
            2 if random.below(2) == 0 => 0,
            2 => random.below(2 * size + 1),
            3 => u64::from(j == giant) * 100 * size,
            4 if j == giant => 100 * size + 1,
            4 => random.below(size + 1),
            _ => (j % 3) * size,
        })
        .collect();
    let gap = random.one_of(&[0, 0, 7]);
    let mut order: Vec<usize> = (0..counts.len()).collect();
    if random.below(3) == 0 {
        for i in 1..order.len() {
            order.swap(i, usize::try_from(random.below(i as u64 + 1)).unwrap());
        }
    }
    let (mut displs, mut at) = (vec![0; counts.len()], random.one_of(&[0, 5]));
    for j in order {
        displs[j] = at;
        at += counts[j] + gap;
    }
    (counts, displs)
}

/// The same number of blocks for all owners, or for each in proportion to its bytes.
fn cut(counts: &[u64], n: u32, random: &mut Random) -> Blocks {
    if random.below(2) == 0 {
        return Blocks::Equal(n);
    }
    let most = counts.iter().copied().max().unwrap().max(1);
    let share = |&count: &u64| u32::try_from((u64::from(n) * count).div_ceil(most)).unwrap().max(1);
    Blocks::PerOwner(counts.iter().map(share).collect())
}

#[test]
fn allgatherv() {
    every_p("allgatherv", |p, random| {
        let mut total = Report::default();
        for n in block_numbers(p.max(3), p <= 64) {
            for _ in 0..if p <= 64 { 4 } else { 1 } {
                let (counts, displs) = irregular(p, n, random);
                let (blocks, in_place) = (cut(&counts, n, random), random.below(2) == 0);
                let plan = Allgatherv::new(&counts, &displs, &blocks, in_place).unwrap();
                let goal = Goal::allgatherv(&counts, &displs, in_place);
                let case = (&counts, &displs, &blocks, in_place);
                let largest = counts.iter().copied().max().unwrap();
                let full = largest >= n.into();
                add(&mut total, proved(&plan, &goal, full && plan.blocks() == n, &case));
                if p <= 40 || u64::from(n) * u64::from(p).pow(2) < 200_000 && random.below(2) == 0 {
                    add(&mut total, checked(&plan, &goal, largest / u64::from(n), random, &case));
                }
            }
        }
        total
    });
}

#[test]
fn allgather() {
    every_p("allgather", |p, random| {
        let mut total = Report::default();
        for in_place in [false, true] {
            let count = random.one_of(&[0, 1, 8, 100, 1000]);
            let plan = Allgather::new(p, count, in_place).unwrap();
            let counts = vec![count; p as usize];
            let displs: Vec<u64> = (0..u64::from(p)).map(|j| j * count).collect();
            let goal = Goal::allgatherv(&counts, &displs, in_place);
            let report = proved(&plan, &goal, count > 0, &(count, in_place));
            assert!(report.puts <= 2 * u64::from(p * q(p)));
            assert_eq!(report.bytes, u64::from(p) * u64::from(p - 1) * count);
            add(&mut total, report);
            add(&mut total, checked(&plan, &goal, count * u64::from(p) / 8, random, &(count, in_place)));
        }
        total
    });
}

#[test]
fn barrier() {
    every_p("barrier", |p, random| {
        let plan = Barrier::new(p).unwrap();
        let report = proved(&plan, &Goal::default(), true, &"");
        let limits = WireLimits { max_put: 1, gather: 1, light: 0 };
        let programs = programs(&plan, &limits);
        check(&plan, &programs, &Goal::default(), random.below(1 << 60)).unwrap();
        // Whoever stays away keeps everybody from leaving.
        let some = (0..20).map(|_| u32::try_from(random.below(p.into())).unwrap()).collect();
        let late: Vec<u32> = if p <= 100 { (0..p).collect() } else { some };
        for absent in late.into_iter().filter(|_| p > 1) {
            let left = run_without(&programs, absent, random.below(1 << 60)).unwrap();
            assert!(left.is_empty(), "p = {p}: {left:?} leave though {absent} has not entered");
        }
        report
    });
}

/// Lazy plans of very many ranks: what a few random ranks do is what their peers expect.
#[test]
fn a_billion_ranks() {
    let seed = seed();
    println!("a_billion_ranks: PLAN_PROOF_SEED={seed}");
    let mut random = Random(seed);
    for p in [1_000_000, (1 << 20) + 1, (1 << 30) - 1, 1 << 30, i32::MAX.cast_unsigned()] {
        let root = u32::try_from(random.below(p.into())).unwrap();
        let plans: [&dyn Plan; 3] = [
            &Bcast::new(p, root, 1 << 40, 45).unwrap(),
            &Allgather::new(p, 8, false).unwrap(),
            &Barrier::new(p).unwrap(),
        ];
        for plan in plans {
            for _ in 0..50 {
                let rank = u32::try_from(random.below(p.into())).unwrap();
                for step in plan.steps(rank) {
                    let kind = match step.kind {
                        Kind::Put => Kind::Expect,
                        Kind::Notify => Kind::ExpectNotify,
                        _ => continue,
                    };
                    let mirror = Step { kind, peer: rank, waits: [Wait::NONE; 2], ..step };
                    assert!(plan.steps(step.peer).any(|s| s == mirror), "p = {p}, rank {rank}: {step:?}");
                }
                let program = lower(plan, rank, &WireLimits { max_put: 8 << 20, gather: 1, light: 0 });
                assert!(program.unwrap().arrivals > 0 || rank == root);
            }
        }
    }
}

#[test]
fn beyond_four_gigabytes() {
    let bytes = (10 << 32) + 77;
    for p in [2, 9, 33] {
        let plan = Bcast::new(p, 1, bytes, 13).unwrap();
        let goal = Goal::bcast(1, bytes);
        proved(&plan, &goal, true, &bytes);
        checked(&plan, &goal, bytes / 13, &mut Random(1), &bytes);
        let counts: Vec<u64> = (0..p).map(|j| u64::from(j % 3) << 33).collect();
        let displs: Vec<u64> = (0..p).map(|j| u64::from(j) << 35).collect();
        let plan = Allgatherv::new(&counts, &displs, &Blocks::Equal(5), false).unwrap();
        let goal = Goal::allgatherv(&counts, &displs, false);
        proved(&plan, &goal, true, &counts);
        checked(&plan, &goal, 1 << 32, &mut Random(1), &counts);
    }
}

#[test]
fn bad_arguments_are_errors() {
    Bcast::new(0, 0, 1, 1).unwrap_err();
    Bcast::new(4, 4, 1, 1).unwrap_err();
    Bcast::new(4, 0, 1, 0).unwrap_err();
    Bcast::new(4, 0, 1, u32::MAX).unwrap_err();
    Barrier::new(0).unwrap_err();
    Allgather::new(u32::MAX, 1, false).unwrap_err();
    Allgather::new(4, u64::MAX / 2, false).unwrap_err();
    let gather = |counts: &[u64], displs: &[u64], blocks| Allgatherv::new(counts, displs, &blocks, false);
    gather(&[], &[], Blocks::Equal(1)).unwrap_err();
    gather(&[1, 2], &[0], Blocks::Equal(1)).unwrap_err();
    gather(&[1, 2], &[0, 1], Blocks::Equal(0)).unwrap_err();
    gather(&[1, 2], &[0, 1], Blocks::PerOwner(vec![1])).unwrap_err();
    gather(&[1, 2], &[0, 1], Blocks::Equal(1 << 24)).unwrap_err();
    gather(&[1, 2], &[0, u64::MAX], Blocks::Equal(1)).unwrap_err();
    let overlap = gather(&[5, 0, 3], &[2, 3, 6], Blocks::Equal(1)).unwrap_err();
    assert!(overlap.to_string().contains("ranks 0 and 2 overlap"), "{overlap}");
}
