//! Every plan that reduces, proved: no two conflicting steps without an order, every contribution in
//! every result exactly once (in the order of ranks where the plan promises it), in the promised rounds
//! and volume; and again after lowering to wires of random limits. Every line of the registry for the p that `proof` draws;
//! the constructors, with more of their arguments, for p up to 40 and all roots up to 16. `PLAN_PROOF=full`: all p, more cases, and the slow lines also among many ranks. A failing case
//! prints its seed; `PLAN_PROOF_SEED` repeats it.

use crate::proof;

use circulant_core::plan::allreduce::{doubling::Doubling, multiplying::Multiplying, scattered::Scattered};
use circulant_core::plan::interpret::{Fold, Report, check_fold, prove_fold};
use circulant_core::plan::partial::Pieces;
use circulant_core::plan::reduce::circulant::Reduce;
use circulant_core::plan::reduce::gathered::Gathered;
use circulant_core::plan::reduce::tree::{Kind, Tree};
use circulant_core::plan::reduce_scatter::direct::{Direct, Results};
use circulant_core::plan::reduce_scatter::{core::Way, plain::ReduceScatter};
use circulant_core::plan::registry::{Algorithm, Arguments, Operation};
use circulant_core::plan::scan::{pipeline::Pipeline, prefix::Prefix};
use circulant_core::plan::{Place, Plan, Region, Side, Sizes, Step, Wait};
use proof::{ALL, MODEL, Random, SOME, full, programs, q, too_long};

/// For the constructors: all p up to 40 and some more.
fn every_p(name: &str, body: impl Fn(u32, &mut Random) + Sync) {
    proof::every_p(name, (1..=40).chain([64, 65, 127, 129]), body);
}

/// Proves the plan and, lowered, on a wire of random limits.
fn proved(plan: &dyn Plan, goal: &Fold, random: &mut Random, case: &dyn std::fmt::Debug) -> Report {
    let name = || format!("{} p = {}, {case:?}", plan.algorithm(), plan.size());
    let report = prove_fold(plan, goal).unwrap_or_else(|v| panic!("{}: {v}", name()));
    if plan.size() <= 24 || full() || random.yes(4) && plan.size() <= ALL {
        let limits = random.limits(report.bytes / report.puts.max(1));
        let programs = programs(plan, &limits);
        let seed = random.below(1 << 60) + 1;
        check_fold(plan, &programs, goal, seed).unwrap_or_else(|v| panic!("{} {limits:?}: {v}", name()));
    }
    report
}

/// Bytes that a rank receives, at the rank that receives most.
fn received(plan: &dyn Plan) -> u64 {
    let of =
        |rank| plan.steps(rank).filter(|s| s.kind == circulant_core::plan::Kind::Expect).map(|s| s.len).sum();
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
            let case = (bytes, element);
            let scan = Prefix::doubling(p, bytes, element).unwrap();
            let report = proved(&scan, &Fold::scan(p, bytes, element), random, &case);
            assert_eq!(scan.rounds(), q(p));
            assert!(bytes == 0 || report.rounds == q(p));
            let goal = Fold::exscan(p, bytes, element);
            let circulant = Prefix::circulant(p, bytes, element).unwrap();
            let report = proved(&circulant, &goal, random, &case);
            assert!(bytes == 0 || report.rounds == q(p));
            let other = Prefix::one_two_three(p, bytes, element).unwrap();
            let report = proved(&other, &goal, random, &case);
            assert_eq!(other.rounds(), Prefix::one_two_three_rounds(p));
            assert!(bytes == 0 || report.rounds == other.rounds());
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
                for way in [Way::Circulant, Way::Ring, Way::Bine, Way::Halving] {
                    if matches!(way, Way::Bine | Way::Halving) && !p.is_power_of_two() {
                        Scattered::new(p, bytes, element, in_place, way).unwrap_err();
                        continue;
                    }
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
                let goal = goal.in_order();
                let report = proved(&plan, &goal, random, &case);
                assert!(bytes == 0 || report.rounds == plan.rounds());
                assert!(plan.rounds() <= q(p) + 1);
                let n = 1 + random.rank(p);
                let plan = Multiplying::new(p, n, bytes, element, in_place).unwrap();
                proved(&plan, &goal, random, &case);
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
        for way in [Way::Circulant, Way::Ring] {
            let rounds = if way == Way::Ring { p - 1 } else { q(p) };
            if way == Way::Ring && p > 16 && random.below(8) > 0 {
                continue;
            }
            for count in [0, 1, 7, 100].map(|n| n * element) {
                let plan = ReduceScatter::block(p, count, element, way).unwrap();
                let goal = Fold::reduce_scatter(&vec![count; p as usize], element);
                let report = proved(&plan, &goal, random, &(count, way));
                assert_eq!(plan.rounds(), rounds);
                assert!(count == 0 || report.rounds == rounds);
                assert_eq!(received(&plan), u64::from(p - 1) * count);
            }
            for _ in 0..if p <= 24 { 4 } else { 1 } {
                let counts = counts(p, element, random);
                let plan = ReduceScatter::new(&counts, element, way).unwrap();
                let report = proved(&plan, &Fold::reduce_scatter(&counts, element), random, &(&counts, way));
                // Every rank sends exactly what is not for itself.
                assert_eq!(report.bytes, u64::from(p - 1) * counts.iter().sum::<u64>());
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
        }
        for _ in 0..3 {
            let element = random.one_of(&[1, 4, 8, 12, 16]);
            let counts = counts(p, element, random);
            let pieces = Pieces::given(&counts).unwrap();
            let plan = Tree::new(p, pieces.bytes(), element, false, Kind::Scatter(pieces)).unwrap();
            let goal = Fold::reduce_scatter(&counts, element).in_order();
            proved(&plan, &goal, random, &(&counts, element));
        }
    });
}

/// Arguments at random, the goal, and whether no block is empty in `n` blocks.
fn case(operation: Operation, size: u32, random: &mut Random) -> (Arguments, Fold, bool) {
    let p = u64::from(size);
    let (n, element) = (random.one_of(&[1, 2, 3, 5, 8, 13]), random.one_of(&[1, 4, 8, 12, 16]));
    let some = random.below(5 * p + 3);
    let elements = random.one_of(&[0, 1, p / 2, some, p.max(n.into()) * 70]);
    let bytes = elements * element;
    let around = random.one_of(&[1, u64::from(n), 60 * u64::from(n)]);
    let counts: Vec<u64> = random.counts(size, around).into_iter().map(|count| count * element).collect();
    let (root, in_place, commutative) = (random.rank(size), random.yes(2), !random.yes(3));
    let (goal, filled) = match operation {
        Operation::Reduce => (Fold::reduce(size, root, bytes, element, in_place), elements),
        Operation::Allreduce => (Fold::allreduce(size, bytes, element, in_place), elements),
        Operation::ReduceScatter => {
            (Fold::reduce_scatter(&counts, element), counts.iter().min().unwrap() * p / element)
        }
        Operation::ReduceScatterBlock => {
            (Fold::reduce_scatter(&vec![bytes; size as usize], element), elements * p)
        }
        Operation::Scan => (Fold::scan(size, bytes, element), elements),
        Operation::Exscan => (Fold::exscan(size, bytes, element), elements),
        other => panic!("{other} does not reduce"),
    };
    let goal = if commutative { goal } else { goal.in_order() };
    // Pieces are cut where memory is aligned: just enough elements for all blocks need not fill them.
    let filled = filled >= 5 * p * u64::from(n);
    let blocks = Some(n);
    let nodes = random.nodes(size);
    let groups = random.groups(size, &nodes);
    let a = Arguments {
        size,
        root,
        bytes,
        counts,
        element,
        in_place,
        commutative,
        blocks,
        nodes,
        groups,
        ..Arguments::default()
    };
    (a, goal, filled)
}

/// What the registry says of a line is so: rounds, volume, restrictions, in which order.
fn keeps_its_promises(line: &Algorithm, size: u32, random: &mut Random) {
    let (a, goal, filled) = case(line.operation, size, random);
    let built = (line.build)(&a, &MODEL);
    assert_eq!(built.is_ok(), (line.fits)(&a).is_ok(), "{line:?}");
    let Ok(plan) = built else {
        let restricted =
            ["power of two", "several nodes", "several groups"].iter().any(|s| line.restrictions.contains(s));
        assert!(!a.commutative || restricted, "{line:?} refuses {a:?}");
        return;
    };
    let name = || format!("{} {} {a:?}", line.operation, line.name);
    assert_eq!((plan.algorithm(), plan.size()), (line.name, size), "{}", name());
    if too_long(&*plan) {
        return;
    }
    let report = proved(&*plan, &goal, random, &a);
    let hop = u32::from(line.operation == Operation::Reduce && line.name == "ordered" && a.root == 0);
    let (rounds, formula) = (plan.rounds() + hop, (line.rounds_of)(&a, a.blocks.unwrap()));
    // Where blocks are empty the formula is a bound.
    let filled = filled && !line.rounds.starts_with("<=");
    assert!(rounds == formula || !filled && rounds < formula, "{}: {rounds}, not {formula}", name());
    if filled {
        assert_eq!(report.rounds, plan.rounds(), "{}", name());
    }
    let says = line.volume_of(&a);
    let bound = line.volume.starts_with("<=");
    assert!(report.most == says || bound && report.most < says, "{}: {}, not {says}", name(), report.most);
    if size > 40 && !random.yes(8) {
        return;
    }
    // And when the rule chooses the blocks.
    let plan = (line.build)(&Arguments { blocks: None, ..a.clone() }, &MODEL).unwrap();
    prove_fold(&*plan, &goal).unwrap_or_else(|v| panic!("by rule, {}: {v}", name()));
}

/// About how many puts a plan of the line has, in thousands.
fn weight(line: &Algorithm, size: u32) -> u64 {
    let nodes = (0..size).map(|rank| rank / 2).collect();
    let a = Arguments { size, nodes, ..Arguments::default() };
    let each = u64::from((line.rounds_of)(&a, 4));
    u64::from(size) * each * if line.name == "reversed" { size.into() } else { 1 } / 1000
}

#[test]
fn every_line_of_the_registry() {
    let lines: Vec<_> = proof::all().filter(|line| line.operation.reduces()).collect();
    proof::every_p("every_line_of_the_registry", (1..=ALL).chain(SOME), |p, random| {
        for line in &lines {
            // Few puts often, many seldom.
            let (times, one_in) = match weight(line, p) {
                0 if p <= 64 => (3, 1),
                0..40 => (1, 1),
                40..150 => (1, 4),
                _ if !full() => continue,
                _ => (1, 16),
            };
            let times = if full() { 3 } else { times };
            for _ in 0..times {
                if random.yes(one_in) {
                    keeps_its_promises(line, p, random);
                }
            }
        }
    });
}

#[test]
fn bad_arguments_are_errors() {
    Reduce::new(4, 4, 8, 8, 1, false).unwrap_err();
    Reduce::new(4, 0, 8, 8, 0, false).unwrap_err();
    Reduce::new(4, 0, 9, 8, 1, false).unwrap_err();
    Tree::new(0, 8, 8, false, Kind::All).unwrap_err();
    Tree::new(4, 8, 8, false, Kind::Ordered(4)).unwrap_err();
    Tree::new(2, 8, 8, false, Kind::Scatter(Pieces::given(&[8, 8]).unwrap())).unwrap_err();
    Tree::new(2, 16, 8, true, Kind::Scatter(Pieces::given(&[8, 8]).unwrap())).unwrap_err();
    Gathered::new(4, 7, 8, 8, false).unwrap_err();
    Scattered::new(4, u64::MAX / 8 * 8, 8, false, Way::Ring).unwrap_err();
    ReduceScatter::new(&[8, 9], 8, Way::Ring).unwrap_err();
    ReduceScatter::new(&[], 8, Way::Ring).unwrap_err();
    ReduceScatter::new(&[8; 4], 8, Way::Halving).unwrap_err();
    ReduceScatter::block(4, 8, 8, Way::Halving).unwrap_err();
    ReduceScatter::block(1 << 20, 1 << 60, 8, Way::Circulant).unwrap_err();
    Direct::new(0, Results::Everywhere, 8, 8, None, false).unwrap_err();
    Direct::new(4, Results::At(4), 8, 8, None, false).unwrap_err();
    Direct::new(4, Results::Everywhere, 8, 8, Some(0), false).unwrap_err();
    Direct::new(4, Results::Everywhere, 9, 8, None, false).unwrap_err();
    Direct::scatter(&[8, 9], 8, None).unwrap_err();
    Direct::scatter(&[], 8, None).unwrap_err();
    Prefix::doubling(u32::MAX, 8, 8).unwrap_err();
    Doubling::new(0, 8, 8, false).unwrap_err();
}

#[test]
fn pipelines() {
    every_p("pipelines", |p, random| {
        for n in [1, 2, 5, q(p) + 1] {
            let element = random.one_of(&[1, 4, 8, 12, 16]);
            for elements in [random.below(2 * u64::from(n)), 70 * u64::from(n) + random.below(9)] {
                let bytes = elements * element;
                for inclusive in [false, true] {
                    let plan = Pipeline::new(p, bytes, element, n, inclusive).unwrap();
                    let goal = if inclusive { Fold::scan } else { Fold::exscan };
                    let goal = goal(p, bytes, element);
                    let report = proved(&plan, &goal, random, &(bytes, element, n, inclusive));
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
