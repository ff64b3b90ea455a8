//! Every plan that reduces, proved: no two conflicting steps without an order, every contribution in
//! every result exactly once (in the order of ranks where the plan promises it), in the promised rounds
//! and volume; and again after lowering to wires of random limits. All p up to 64 and some more, all
//! roots for p up to 16. A failing case prints its seed; `PLAN_PROOF_SEED` repeats it.
#![allow(clippy::unwrap_used)] // the helpers' too

use circulant::plan::allreduce::{doubling::Doubling, scattered::Scattered};
use circulant::plan::interpret::{Fold, Report, check_fold, prove_fold};
use circulant::plan::lower::{WireLimits, lower};
use circulant::plan::partial::Pieces;
use circulant::plan::price::Model;
use circulant::plan::reduce::circulant::Reduce;
use circulant::plan::reduce::gathered::Gathered;
use circulant::plan::reduce::tree::{Kind, Tree};
use circulant::plan::reduce_scatter::{core::Way, plain::ReduceScatter};
use circulant::plan::registry::{Arguments, Operation, algorithm, all};
use circulant::plan::scan::{pipeline::Pipeline, prefix::Prefix};
use circulant::plan::{Place, Plan, Region, Side, Sizes, Step, Wait};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Instant, SystemTime};

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

/// Runs `body` for all p up to 64 and some more on all cores, longest first.
fn every_p(name: &str, body: impl Fn(u32, &mut Random) + Sync) {
    let (seed, began) = (seed(), Instant::now());
    println!("{name}: PLAN_PROOF_SEED={seed}");
    let sizes: Vec<u32> = (1..=65).chain([100, 127, 128, 129]).rev().collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(&p) = sizes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    body(p, &mut Random(seed ^ u64::from(p) << 32));
                }
            });
        }
    });
    println!("{name}: {:.1} s", began.elapsed().as_secs_f64());
}

fn q(p: u32) -> u32 {
    p.next_power_of_two().ilog2()
}

/// Proves the plan and, lowered, on a wire of random limits.
fn proved(plan: &dyn Plan, goal: &Fold, random: &mut Random, case: &dyn std::fmt::Debug) -> Report {
    let name = || format!("{} p = {}, {case:?}", plan.algorithm(), plan.size());
    let report = prove_fold(plan, goal).unwrap_or_else(|v| panic!("{}: {v}", name()));
    if plan.size() <= 40 || random.below(4) == 0 {
        let block = report.bytes / report.puts.max(1);
        let limits = WireLimits {
            max_put: random.one_of(&[block / 3 + 1, block / 2 + 1, 2 * block + 1, 1 << 40]),
            gather: random.one_of(&[1, 4, 8]),
            light: random.one_of(&[0, block / 10, block, 1 << 20]),
        };
        let programs: Vec<_> = (0..plan.size()).map(|rank| lower(plan, rank, &limits).unwrap()).collect();
        let seed = random.below(1 << 60) + 1;
        check_fold(plan, &programs, goal, seed).unwrap_or_else(|v| panic!("{} {limits:?}: {v}", name()));
    }
    report
}

/// Bytes that a rank receives, at the rank that receives most.
fn received(plan: &dyn Plan) -> u64 {
    let of = |rank| plan.steps(rank).filter(|s| s.kind == circulant::plan::Kind::Expect).map(|s| s.len).sum();
    (0..plan.size()).map(of).max().unwrap()
}

/// (bytes, element) to test.
fn vectors(p: u32, random: &mut Random) -> Vec<(u64, u64)> {
    let element = random.one_of(&[1, 4, 8, 12, 16]);
    let p = u64::from(p);
    let some = random.below(5 * p + 3);
    [0, 1, p / 2, p * 70, some].iter().map(|elements| (elements * element, element)).collect()
}

#[test]
fn scans() {
    every_p("scans", |p, random| {
        for (bytes, element) in vectors(p, random) {
            for in_place in [false, true] {
                let case = (bytes, element, in_place);
                let scan = Prefix::doubling(p, bytes, element, in_place).unwrap();
                let goal = Fold::scan(p, bytes, element, in_place);
                let report = proved(&scan, &goal, random, &case);
                assert_eq!(scan.rounds(), q(p));
                assert!(bytes == 0 || report.rounds == q(p));
                let goal = Fold::exscan(p, bytes, element, in_place);
                let circulant = Prefix::circulant(p, bytes, element, in_place).unwrap();
                let report = proved(&circulant, &goal, random, &case);
                assert!(bytes == 0 || report.rounds == q(p));
                let other = Prefix::one_two_three(p, bytes, element, in_place).unwrap();
                let report = proved(&other, &goal, random, &case);
                assert_eq!(other.rounds(), Prefix::one_two_three_rounds(p));
                assert!(bytes == 0 || report.rounds == other.rounds());
            }
        }
    });
}

#[test]
fn census() {
    every_p("census", |p, random| {
        for (bytes, element) in vectors(p, random) {
            for in_place in [false, true] {
                let plan = Prefix::census(p, bytes, element, in_place).unwrap();
                let goal = Fold::allreduce(p, bytes, element, in_place);
                let report = proved(&plan, &goal, random, &(bytes, element, in_place));
                assert!(bytes == 0 || report.rounds == q(p));
                assert_eq!(received(&plan), u64::from(q(p)) * bytes);
                assert!(p < 3 || bytes == 0 || prove_fold(&plan, &goal.in_order()).is_err());
            }
        }
    });
}

#[test]
fn allreduce() {
    every_p("allreduce", |p, random| {
        for (bytes, element) in vectors(p, random) {
            for in_place in [false, true] {
                let case = (bytes, element, in_place);
                let goal = Fold::allreduce(p, bytes, element, in_place);
                for way in [Way::Circulant, Way::Ring] {
                    if way == Way::Ring && p > 16 && random.below(12) > 0 {
                        continue;
                    }
                    let plan = Scattered::new(p, bytes, element, in_place, way).unwrap();
                    let report = proved(&plan, &goal, random, &case);
                    assert_eq!(report.bytes, 2 * u64::from(p - 1) * bytes);
                    let rounds = 2 * if way == Way::Ring { p - 1 } else { q(p) };
                    assert_eq!(plan.rounds(), rounds);
                    assert!(bytes < u64::from(p) * element || report.rounds == rounds);
                }
                let plan = Doubling::new(p, bytes, element, in_place).unwrap();
                let report = proved(&plan, &goal.in_order(), random, &case);
                assert!(bytes == 0 || report.rounds == plan.rounds());
                assert!(plan.rounds() <= q(p) + 1);
            }
        }
    });
}

/// Counts of whole elements in several shapes.
fn counts(p: u32, element: u64, random: &mut Random) -> Vec<u64> {
    let (shape, giant) = (random.below(4), random.below(p.into()));
    (0..u64::from(p))
        .map(|j| match shape {
            0 => random.below(20),
            1 => 500 * u64::from(j == giant),
            2 => random.below(3) + 1000 * u64::from(j == giant),
            _ => j % 3,
        })
        .map(|n| n * element)
        .collect()
}

#[test]
fn reduce_scatter() {
    every_p("reduce_scatter", |p, random| {
        let element = random.one_of(&[1, 4, 8, 12, 16]);
        for in_place in [false, true] {
            for way in [Way::Circulant, Way::Ring] {
                let rounds = if way == Way::Ring { p - 1 } else { q(p) };
                if way == Way::Ring && p > 16 && random.below(8) > 0 {
                    continue;
                }
                for count in [0, 1, 7, 100].map(|n| n * element) {
                    let plan = ReduceScatter::block(p, count, element, in_place, way).unwrap();
                    let equal = vec![count; p as usize];
                    let goal = Fold::reduce_scatter(&equal, element, in_place);
                    let report = proved(&plan, &goal, random, &(count, in_place, way));
                    assert_eq!(plan.rounds(), rounds);
                    assert!(count == 0 || report.rounds == rounds);
                    assert_eq!(received(&plan), u64::from(p - 1) * count);
                }
                for _ in 0..if p <= 24 { 4 } else { 1 } {
                    let counts = counts(p, element, random);
                    let plan = ReduceScatter::new(&counts, element, in_place, way).unwrap();
                    let goal = Fold::reduce_scatter(&counts, element, in_place);
                    let report = proved(&plan, &goal, random, &(&counts, in_place, way));
                    // Every rank sends exactly what is not for itself.
                    assert_eq!(report.bytes, u64::from(p - 1) * counts.iter().sum::<u64>());
                }
            }
        }
    });
}

/// All roots up to p = 16, then some.
fn roots(p: u32, random: &mut Random) -> Vec<u32> {
    if p <= 16 { (0..p).collect() } else { vec![0, p - 1, u32::try_from(random.below(p.into())).unwrap()] }
}

#[test]
fn reduce_circulant() {
    every_p("reduce circulant", |p, random| {
        let q = q(p);
        let mut ns = vec![1, 2, q.max(2) - 1, q.max(1), q + 1, 2 * q + 1, 3 * q + 3];
        ns.sort_unstable();
        ns.dedup();
        for root in roots(p, random) {
            for &n in &ns {
                let element = random.one_of(&[1, 4, 8, 12, 16]);
                let few = random.below(2 * u64::from(n));
                let elements = if random.below(3) == 0 { few } else { u64::from(n) * 70 + few };
                let (bytes, in_place) = (elements * element, random.below(2) == 0);
                let plan = Reduce::new(p, root, bytes, element, n, in_place).unwrap();
                let goal = Fold::reduce(p, root, bytes, element, in_place);
                let report = proved(&plan, &goal, random, &(root, bytes, element, n, in_place));
                assert_eq!(plan.rounds(), if p == 1 { 0 } else { n - 1 + q });
                assert!(elements < n.into() || report.rounds == plan.rounds());
                // Everyone but the root sends everything once.
                assert_eq!(report.bytes, u64::from(p - 1) * bytes);
            }
        }
    });
}

#[test]
fn trees() {
    every_p("trees", |p, random| {
        for root in roots(p, random) {
            for (bytes, element) in vectors(p, random) {
                let in_place = random.below(2) == 0;
                let case = (root, bytes, element, in_place);
                let goal = Fold::reduce(p, root, bytes, element, in_place);
                let binomial = Tree::new(p, bytes, element, in_place, Kind::Binomial(root)).unwrap();
                let report = proved(&binomial, &goal, random, &case);
                assert!(bytes == 0 || report.rounds == q(p));
                assert_eq!(received(&binomial), u64::from(q(p)) * bytes);
                let gathered = Gathered::new(p, root, bytes, element, in_place).unwrap();
                let report = proved(&gathered, &goal, random, &case);
                assert!(bytes < u64::from(p) * element || report.rounds == 2 * q(p));
                let ordered = Tree::new(p, bytes, element, in_place, Kind::Ordered(root)).unwrap();
                let report = proved(&ordered, &goal.in_order(), random, &case);
                assert!(bytes == 0 || report.rounds == ordered.rounds());
                assert_eq!(ordered.rounds(), q(p) + u32::from(root > 0));
            }
        }
        for in_place in [false, true] {
            for (bytes, element) in vectors(p, random) {
                let plan = Tree::new(p, bytes, element, in_place, Kind::All).unwrap();
                let goal = Fold::allreduce(p, bytes, element, in_place).in_order();
                let report = proved(&plan, &goal, random, &(bytes, element, in_place));
                assert!(bytes == 0 || report.rounds == 2 * q(p));
            }
            for _ in 0..3 {
                let element = random.one_of(&[1, 4, 8, 12, 16]);
                let counts = counts(p, element, random);
                let pieces = Pieces::given(&counts).unwrap();
                let plan = Tree::new(p, pieces.bytes(), element, in_place, Kind::Scatter(pieces)).unwrap();
                let goal = Fold::reduce_scatter(&counts, element, in_place).in_order();
                proved(&plan, &goal, random, &(&counts, element, in_place));
            }
        }
    });
}

const MODEL: Model = Model { latency_ns: 1500, overhead_ns: 200, byte_ps: 80, reduce_ps: 100 };

/// What the registry says of every line is so: rounds, volume, in which order.
#[test]
fn every_line_of_the_registry() {
    for p in [1, 2, 3, 7, 8, 9, 17, 33] {
        for line in all().filter(|line| line.operation.reduces()) {
            for commutative in [true, false] {
                let (root, element, elements) = (p / 2, 8, 1000 * u64::from(p));
                let counts: Vec<u64> = (0..u64::from(p)).map(|j| j % 3 * 800).collect();
                let bytes = elements * element;
                let arguments = Arguments {
                    size: p,
                    root,
                    bytes,
                    counts: counts.clone(),
                    element,
                    commutative,
                    blocks: Some(5),
                    ..Arguments::default()
                };
                let built = (line.build)(&arguments, &MODEL);
                assert_eq!(built.is_ok(), (line.fits)(&arguments).is_ok(), "{line:?}");
                let Ok(plan) = built else { continue };
                let goal = match line.operation {
                    Operation::Reduce => Fold::reduce(p, root, bytes, element, false),
                    Operation::Allreduce => Fold::allreduce(p, bytes, element, false),
                    Operation::ReduceScatter => Fold::reduce_scatter(&counts, element, false),
                    Operation::ReduceScatterBlock => {
                        Fold::reduce_scatter(&vec![bytes; p as usize], element, false)
                    }
                    Operation::Scan => Fold::scan(p, bytes, element, false),
                    _ => Fold::exscan(p, bytes, element, false),
                };
                let goal = if commutative { goal } else { goal.in_order() };
                prove_fold(&*plan, &goal).unwrap_or_else(|v| panic!("p = {p}, {line:?}: {v}"));
                assert_eq!(plan.algorithm(), line.name);
                let hop =
                    u32::from(line.operation == Operation::Reduce && line.name == "ordered" && root == 0);
                assert_eq!(plan.rounds() + hop, (line.rounds_of)(&arguments, 5), "p = {p}, {line:?}");
                let (most, says) = (received(&*plan), line.volume_of(&arguments));
                let bound = line.volume.starts_with("<=");
                assert!(most == says || bound && most < says, "p = {p}, {line:?}: {most}, not {says}");
            }
        }
    }
    assert!(algorithm(Operation::Scan, "auto").is_ok());
}

#[test]
fn bad_arguments_are_errors() {
    Reduce::new(4, 4, 8, 8, 1, false).unwrap_err();
    Reduce::new(4, 0, 8, 8, 0, false).unwrap_err();
    Reduce::new(4, 0, 9, 8, 1, false).unwrap_err();
    Tree::new(0, 8, 8, false, Kind::All).unwrap_err();
    Tree::new(4, 8, 8, false, Kind::Ordered(4)).unwrap_err();
    Tree::new(2, 8, 8, false, Kind::Scatter(Pieces::given(&[8, 8]).unwrap())).unwrap_err();
    Gathered::new(4, 7, 8, 8, false).unwrap_err();
    Scattered::new(4, u64::MAX / 8 * 8, 8, false, Way::Ring).unwrap_err();
    ReduceScatter::new(&[8, 9], 8, false, Way::Ring).unwrap_err();
    ReduceScatter::new(&[], 8, false, Way::Ring).unwrap_err();
    ReduceScatter::block(1 << 20, 1 << 60, 8, false, Way::Circulant).unwrap_err();
    Prefix::doubling(u32::MAX, 8, 8, false).unwrap_err();
    Doubling::new(0, 8, 8, false).unwrap_err();
}

#[test]
fn pipelines() {
    every_p("pipelines", |p, random| {
        for n in [1, 2, 5, q(p) + 1] {
            let element = random.one_of(&[1, 4, 8, 12, 16]);
            for elements in [random.below(2 * u64::from(n)), 70 * u64::from(n) + random.below(9)] {
                let (bytes, in_place) = (elements * element, random.below(2) == 0);
                for inclusive in [false, true] {
                    let plan = Pipeline::new(p, bytes, element, n, in_place, inclusive).unwrap();
                    let goal = if inclusive { Fold::scan } else { Fold::exscan };
                    let goal = goal(p, bytes, element, in_place);
                    let report = proved(&plan, &goal, random, &(bytes, element, n, in_place, inclusive));
                    assert!(elements < n.into() || report.rounds == plan.rounds());
                    assert_eq!(report.bytes, u64::from(p - 1) * bytes);
                }
            }
        }
    });
}

/// Steps by hand, of 64 bytes of each region.
#[derive(Debug)]
struct ByHand(Vec<Vec<Step>>);

impl Plan for ByHand {
    fn algorithm(&self) -> &'static str {
        "by hand"
    }
    fn size(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap()
    }
    fn rounds(&self) -> u32 {
        4
    }
    fn counters(&self, _rank: u32) -> u32 {
        8
    }
    fn sizes(&self, _rank: u32) -> Sizes {
        Sizes { input: 64, output: 64, work: 64, land: 32 }
    }
    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.0[rank as usize].iter().copied())
    }
}

fn at(region: Region, offset: u64) -> Place {
    Place::new(region, offset)
}

/// Rank 1's two halves come to rank 0 through one slot; a credit says when it is free again.
fn through_one_slot() -> ByHand {
    use Region::{Input, Land, Output};
    let reduce = |round, half: u64, waits, bump| {
        Step::reduce(round, Side::SourceRight, at(Land, 0), at(Output, 32 * half), 32, waits, bump)
    };
    let slot = at(Land, 0);
    ByHand(vec![
        vec![
            Step::copy(0, at(Input, 0), at(Output, 0), 64, [Wait::NONE; 2], 4),
            Step::expect(0, 1, at(Input, 0), slot, 32, 0),
            reduce(1, 0, [Wait::once(0), Wait::once(4)], 5),
            Step::notify(1, 1, [Wait::once(5), Wait::NONE], 0),
            Step::expect(2, 1, at(Input, 32), slot, 32, 1),
            reduce(3, 1, [Wait::once(1), Wait::once(4)], 6),
        ],
        vec![
            Step::put(0, 0, at(Input, 0), slot, 32, Wait::NONE, 0),
            Step::expect_notify(1, 0, 0),
            Step::put(2, 0, at(Input, 32), slot, 32, Wait::once(0), 1),
        ],
    ])
}

type How = fn(&mut Vec<Vec<Step>>);

/// A prover that cannot fail proves nothing: every law of reductions is broken here once.
#[test]
fn broken_reductions_are_found_out() {
    let goal = Fold::reduce(2, 0, 64, 8, false).in_order();
    prove_fold(&through_one_slot(), &goal).unwrap();
    let cases: [(How, &str); 14] = [
        // Without the credit, or with one that is given too early.
        (|s| s[1][2].waits[0] = Wait::NONE, "nothing orders"),
        (|s| s[0][3].waits[0] = Wait::NONE, "nothing orders"),
        (|s| s[0][3].waits[0] = Wait::once(0), "nothing orders"),
        // A reduce that does not wait for what it combines, either of them.
        (|s| s[0][2].waits[0] = Wait::NONE, "nothing orders"),
        (|s| s[0][2].waits[1] = Wait::NONE, "nothing orders"),
        (|s| s[0][2].source.region = Region::Work, "nothing to read"),
        (|s| s[0][2].source.offset = 8, "out of bounds"),
        (|s| s[0][2].len = 31, "within an element"),
        (|s| s[0][2].target.offset = 32, "are combined with bytes"),
        (
            |s| {
                s[0][5].kind =
                    Step::reduce(3, Side::SourceLeft, s[0][5].source, s[0][5].target, 1, s[0][5].waits, 0)
                        .kind
            },
            "output at 32",
        ),
        (|s| s[0][4].round = 1, "mirrors"),
        (|s| s[0][5].waits[0] = Wait::once(7), "0 bumps"),
        (|s| s[0].truncate(5), "output at 32"),
        // Twice the same.
        (
            |s| {
                let again = Step { waits: [Wait::once(6), Wait::NONE], ..s[0][5] };
                s[0].push(again);
            },
            "2 bumps",
        ),
    ];
    for (i, (how, what)) in cases.into_iter().enumerate() {
        let mut plan = through_one_slot();
        how(&mut plan.0);
        let violation = prove_fold(&plan, &goal).unwrap_err();
        assert!(violation.0.contains(what), "case {i}: {violation} does not say {what:?}");
    }
    // A contribution twice, for operators that commute and for others; a written input; a partial that
    // is changed while it is on its way.
    let mut plan = through_one_slot();
    let again = Step { bump: 7, waits: [Wait::once(6), Wait::NONE], ..plan.0[0][5] };
    plan.0[0].push(again);
    let commutes = Fold::reduce(2, 0, 64, 8, false);
    assert!(prove_fold(&plan, &commutes).unwrap_err().0.contains("contribution twice"));
    prove_fold(&plan, &goal).unwrap_err();
    let mut plan = through_one_slot();
    plan.0[1].insert(1, Step::copy(0, at(Region::Input, 0), at(Region::Work, 0), 64, [Wait::NONE; 2], 5));
    prove_fold(&plan, &goal).unwrap();
    plan.0[1][1].target.region = Region::Input;
    assert!(prove_fold(&plan, &goal).unwrap_err().0.contains("is written"));
    let mut plan = through_one_slot();
    for (rank, i) in [(0, 1), (1, 0)] {
        plan.0[rank][i].source.region = Region::Work;
    }
    plan.0[1][0].waits[0] = Wait::once(5);
    plan.0[1].insert(0, Step::copy(0, at(Region::Input, 0), at(Region::Work, 0), 32, [Wait::NONE; 2], 5));
    plan.0[0][1].round = 1;
    plan.0[1][1].round = 1;
    plan.0[0][2].round = 2;
    plan.0[0][3].round = 2;
    plan.0[1][2].round = 2;
    plan.0[0][4].round = 3;
    plan.0[1][3].round = 3;
    plan.0[0][5].round = 4;
    prove_fold(&plan, &goal).unwrap();
    let change = Step::copy(4, at(Region::Input, 0), at(Region::Work, 0), 32, [Wait::once(5), Wait::NONE], 6);
    plan.0[1].push(change);
    assert!(prove_fold(&plan, &goal).unwrap_err().0.contains("nothing orders"));
    // Once the credit is here, it has been read.
    plan.0[1].last_mut().unwrap().waits[1] = Wait::once(0);
    prove_fold(&plan, &goal).unwrap();
}
