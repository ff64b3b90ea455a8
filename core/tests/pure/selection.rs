//! How good the selection is: the simulated time of the algorithm that the prices choose beside that of the best of
//! all, where each rank has a node to itself, where ranks share nodes, and where they share memory and cores; and that prices
//! have no cliffs. `SELECTION=full` goes over the whole grid (half a minute) and prints it with `--nocapture`.

use crate::grid::{self, BYTES, Judged, Point, RANKS, Score, WIRES, distributions};
use circulant_core::machine::{Cores, LogGp, Machine};
use circulant_core::plan::registry::{Algorithm, Arguments, Operation, algorithm, algorithms};
use circulant_core::select::{
    MAX_MORE_NS, MAX_PRICE_PERCENT, PROBED_UNHIDDEN, Selection, Settings, Way, machine,
};
use std::collections::{BTreeMap, BTreeSet};

fn full() -> bool {
    std::env::var("SELECTION").is_ok_and(|v| v == "full")
}

/// A call by ranks that have a node each.
fn point(
    operation: Operation,
    distribution: &'static str,
    size: u32,
    bytes: u64,
    wire: &'static str,
) -> Point {
    Point { operation, distribution, size, per_node: 0, cores: 0, bytes, wire }
}

#[test]
fn the_choice_is_near_the_best_of_the_simulator() {
    let judged = grid::judge(&match full() {
        true => grid::flat(&RANKS, &BYTES),
        false => grid::flat(&[2, 3, 5, 8, 12, 17, 32, 36], &[8, 512, 16 << 10, 256 << 10, 4 << 20]),
    });
    let (mut scores, mut all) = (BTreeMap::<String, Score>::new(), Score::default());
    for judged in &judged {
        let Point { operation, distribution, .. } = judged.point;
        scores.entry(format!("{operation}/{distribution}")).or_default().add(judged, judged.chosen);
        all.add(judged, judged.chosen);
    }
    for (name, score) in scores {
        println!("{name:24} {:5.1} % within a tenth; worst {}", score.share(), score.at);
        assert!(score.share() >= 90.0 && score.worst < 1.75, "{name}: {:.1} %, {}", score.share(), score.at);
    }
    println!("all: {:.1} % of {} points", all.share(), all.points);
    assert!(all.share() >= 98.5, "{:.1} %", all.share());
    prices_are_near_the_simulator(&judged);
}

/// Price by simulated time of every candidate.
fn prices_are_near_the_simulator(judged: &[Judged]) {
    let candidates = judged.iter().flat_map(|judged| &judged.candidates).filter(|c| c.simulated > 0);
    let mut ratios: Vec<f64> = candidates.map(|c| c.price / c.simulated as f64).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: usize| ratios[(ratios.len() - 1) * share / 100];
    let [low, median, high] = [5, 50, 95].map(at);
    println!("price/simulated {low:.2} (5 %), {median:.2}, {high:.2} (95 %) of {} prices", ratios.len());
    // Circulant reductions of equal pieces and allgathers by way of several peers are priced 7 % over the simulator: they were measured so.
    assert!(low > 0.8 && high < 1.3 && (median - 1.0).abs() < 0.03);
}

#[test]
fn the_choice_is_near_the_best_where_ranks_share_nodes() {
    let (mut score, mut taken) = (Score::default(), 0);
    for judged in grid::judge(&grid::nodes()) {
        let knows_nodes = |line: &Algorithm| line.restrictions.contains("several nodes");
        let chosen = judged.candidates.iter().find(|c| c.line.name == judged.chosen).unwrap();
        taken += usize::from(knows_nodes(chosen.line));
        add(&mut score, &judged);
    }
    println!("{:.1} % of {}; {taken} know nodes; worst {}", score.share(), score.points, score.at);
    assert!(score.share() >= 93.0 && score.worst < 1.5, "{:.1} %, {}", score.share(), score.at);
    // Full nodes take them mostly.
    assert!(taken > score.points / 2, "{taken} of {}", score.points);
}

#[test]
fn the_choice_is_near_the_best_where_ranks_share_cores() {
    let mut score = Score::default();
    for judged in grid::judge(&grid::cores()) {
        add(&mut score, &judged);
    }
    println!("{:.1} % of {}; worst {}", score.share(), score.points, score.at);
    assert!(score.share() >= 83.0 && score.worst < 1.8, "{:.1} %, {}", score.share(), score.at);
}

fn add(score: &mut Score, judged: &Judged) {
    score.add(judged, judged.chosen);
    if judged.ratio() > 1.1 {
        println!(
            "{}: {} for {}, x{:.2}",
            judged.point,
            judged.chosen,
            judged.best().line.name,
            judged.ratio()
        );
    }
}

fn selection(wire: &'static str) -> Selection {
    Selection::of(&Settings::default(), point(Operation::Bcast, "-", 2, 8, wire).machine()).unwrap()
}

/// The price of what is chosen.
fn chosen_time(s: &Selection, op: Operation, a: &Arguments) -> (f64, &'static str) {
    let line = s.choose(op, a, None, false).unwrap().way.algorithm;
    (line.cost(a, s.machine()).ns, line.name)
}

/// More bytes never cost less, but for what whole numbers of blocks make.
#[test]
fn no_cliffs_over_the_sizes() {
    let mut worst = (1.0, String::new());
    for (wire, _) in WIRES {
        let s = selection(wire);
        for op in Operation::ALL.into_iter().filter(|op| !op.is_between_groups()) {
            for distribution in distributions(op) {
                for p in RANKS {
                    let (mut bytes, mut before) = (8, (0.0, ""));
                    while bytes <= 16 << 20 {
                        let now = chosen_time(&s, op, &point(op, distribution, p, bytes, wire).arguments());
                        let drop = before.0 / now.0.max(1.0);
                        if drop > worst.0 {
                            let at = format!("{op}/{distribution} p = {p}, {bytes} bytes, {wire}");
                            worst = (
                                drop,
                                format!("{at}: {:.0} {} before {:.0} {}", before.0, before.1, now.0, now.1),
                            );
                        }
                        (bytes, before) = (bytes * 9 / 8 / 8 * 8 + 8, now);
                    }
                }
            }
        }
    }
    println!("worst: x{:.3}, {}", worst.0, worst.1);
    assert!(worst.0 < 1.125, "x{:.3}: {}", worst.0, worst.1);
}

/// A rank more or less changes little: a restricted algorithm may be what is chosen for its p, but only if it is
/// cheaper than what its neighbours take. What jumps are the algorithms: the circulant tree of 9 ranks has a hop less
/// than that of 8. Where only one of the two can do what it takes, as on a hypercube, the jump is not judged.
#[test]
fn no_cliffs_over_the_ranks() {
    let mut worst = (1.0, String::new());
    for (wire, _) in WIRES {
        let s = selection(wire);
        for op in Operation::ALL.into_iter().filter(|op| !op.is_between_groups()) {
            for bytes in BYTES {
                for p in 8..=129 {
                    let m = |p: u32| point(op, distributions(op)[0], p, bytes, wire).arguments();
                    let (one, other) = (chosen_time(&s, op, &m(p)), chosen_time(&s, op, &m(p + 1)));
                    let jump = f64::max(one.0 / other.0.max(1.0), other.0 / one.0.max(1.0));
                    let can = |a: Arguments, name| {
                        algorithms(op).any(|line| line.name == name && (line.fits)(&a).is_ok())
                    };
                    if jump > worst.0 && can(m(p), other.1) && can(m(p + 1), one.1) {
                        let at = format!("{op} p = {p}, {bytes} bytes, {wire}");
                        worst =
                            (jump, format!("{at}: {:.0} {} before {:.0} {}", one.0, one.1, other.0, other.1));
                    }
                    // What the neighbour takes would not have been cheaper.
                    let a = m(p);
                    for line in algorithms(op).filter(|l| l.name == other.1 && (l.fits)(&a).is_ok()) {
                        assert!(one.0 <= 1.031 * line.cost(&a, s.machine()).ns, "{op} p = {p}: {}", one.1);
                    }
                }
            }
        }
    }
    println!("worst: x{:.3}, {}", worst.0, worst.1);
    assert!(worst.0 < 1.6, "x{:.3}: {}", worst.0, worst.1);
}

/// Where the probe has found o, puts that no bytes cover count in full: short operations take few of them, and prices of long ones stay
/// as they are.
#[test]
fn short_puts_count_in_full_where_o_was_probed() {
    let wire = LogGp { latency_ns: 1_070_000, overhead_ns: 80_000, byte_ps: 80_900, reduce_ps: 100 };
    let known = Machine::flat(wire);
    let probed = Machine { unhidden: PROBED_UNHIDDEN, ..known };
    let chosen = |machine: Machine, op: Operation, bytes: u64| {
        let s = Selection::of(&Settings::default(), machine).unwrap();
        let a = point(op, "-", 36, bytes, "unused").arguments();
        let line = s.choose(op, &a, None, false).unwrap().way.algorithm;
        (line.name, line.cost(&a, &known), line.cost(&a, &probed))
    };
    let (few, many) = (chosen(probed, Operation::Bcast, 1000), chosen(known, Operation::Bcast, 1000));
    let puts = (few.1.puts, many.1.puts);
    assert!(puts.0 < puts.1 / 2.0, "{} puts by {}, {} by {}", puts.0, few.0, puts.1, many.0);
    assert!(few.2.ns < many.2.ns, "{} for {}", few.0, many.0);
    for op in [Operation::Bcast, Operation::Allgather, Operation::Allreduce, Operation::Alltoall] {
        let (name, plain, full) = chosen(probed, op, 40 << 20);
        assert!(full.ns == plain.ns, "{op}/{name}: {} and {} ns", plain.ns, full.ns);
    }
}

/// Where each rank passes blocks on all the time the latencies of a pipelined ring are hidden, though contributions differ: its price is that of the simulator, and for
/// long vectors it is taken. (Before, it was p − 1 latencies more, and 36 nodes took 1.2 times as long for 1 MB, of which one rank had half.)
#[test]
fn a_pipelined_ring_has_the_price_of_its_blocks() {
    let wire = LogGp { latency_ns: 1_000_000, overhead_ns: 45_000, byte_ps: 80_000, reduce_ps: 100 };
    let machine = Machine::flat(wire).in_turns();
    let line = algorithm(Operation::Allgatherv, "pipelined_ring").unwrap();
    for distribution in ["spike", "half", "linear", "geometric"] {
        let a = point(Operation::Allgatherv, distribution, 16, 64 << 10, "unused").arguments();
        let price = line.cost(&a, &machine).ns;
        let simulated = grid::simulated(line, &a, &Machine::flat(wire)) as f64;
        assert!(
            (0.95..1.1).contains(&(price / simulated)),
            "{distribution}: {price} ns, simulated {simulated}"
        );
        let chosen = Selection::of(&Settings::default(), machine).unwrap().choose(
            Operation::Allgatherv,
            &a,
            None,
            false,
        );
        assert_eq!(chosen.unwrap().way.algorithm.name, "pipelined_ring", "{distribution}");
    }
}

/// Sixteen ranks on two cores, as the probe finds them, and on a core each. Where they share cores what all do at the same time takes as many times
/// longer, and what one does while the others wait does not: by way of one rank short operations are the fastest. (Barrier, by dissemination and
/// `linear`: 0.54 and 0.26 ms.)
#[test]
fn where_ranks_share_cores_one_of_them_does_the_work_of_short_operations() {
    let wire = |latency_ns, overhead_ns| LogGp { latency_ns, overhead_ns, byte_ps: 57_000, reduce_ps: 100 };
    let probed =
        |wire, alone_ns| Machine { unhidden: PROBED_UNHIDDEN, alone_ns, ..Machine::flat(wire).in_turns() };
    let chosen = |machine: Machine, op: Operation, bytes: u64| {
        let s = Selection::of(&Settings::default(), machine).unwrap();
        s.choose(op, &point(op, "-", 16, bytes, "unused").arguments(), None, false)
            .unwrap()
            .way
            .algorithm
            .name
    };
    let short = [Operation::Barrier, Operation::Bcast, Operation::Allgather, Operation::Allreduce];
    let by = |machine| short.map(|op| chosen(machine, op, 8));
    assert_eq!(by(probed(wire(17_000, 16_000), 5600)), ["linear"; 4]);
    // As the probe finds o at times.
    assert_eq!(chosen(probed(wire(6000, 11_700), 6100), Operation::Barrier, 0), "linear");
    let as_busy = by(probed(wire(17_000, 16_000), u64::MAX));
    assert!(!as_busy.contains(&"linear"), "a put takes a rank alone as much: {as_busy:?}");
    let own = probed(wire(2000, 300), 300);
    assert!(
        chosen(own, Operation::Barrier, 0) != "linear" && chosen(own, Operation::Allreduce, 8) != "linear"
    );
    for op in [Operation::Bcast, Operation::Allgather, Operation::Allreduce, Operation::Gather] {
        let [one, other] =
            [5600, u64::MAX].map(|alone| chosen(probed(wire(17_000, 16_000), alone), op, 40 << 20));
        assert_eq!(one, other, "{op}");
    }
}

/// An allreduce by two ranks that share memory.
fn pair(bytes: u64) -> Arguments {
    Arguments { size: 2, bytes, element: 4, commutative: true, exact: true, ..Arguments::default() }
}

/// The price of an algorithm for it.
fn pair_price(name: &str, bytes: u64, machine: &Machine) -> f64 {
    algorithm(Operation::Allreduce, name).unwrap().cost(&pair(bytes), machine).ns
}

/// What is combined to be kept was in this core's cache, and what is passed on in another's: so one exchange of whole vectors is the fastest
/// way as long as these fit in a cache.
#[test]
fn two_ranks_exchange_once_what_fits_in_a_cache() {
    let machine = machine("shm", &Settings::default()).unwrap();
    let s = Selection::of(&Settings::default(), machine).unwrap();
    let once = ["census", "doubling", "one-hop"];
    for bytes in [4 << 10, 16 << 10, 128 << 10, 1 << 20] {
        let chosen = s.choose(Operation::Allreduce, &pair(bytes), None, false).unwrap().way.algorithm.name;
        assert!(once.contains(&chosen), "{bytes} bytes: {chosen}");
    }
    for bytes in [4 << 20, 64 << 20] {
        let chosen = s.choose(Operation::Allreduce, &pair(bytes), None, false).unwrap().way.algorithm.name;
        assert_eq!(chosen, "direct", "{bytes} bytes");
    }
    // Where both are about as fast a trial knows both.
    for bytes in [1 << 20, 3 << 19] {
        let ways = first_ways(&s, Operation::Allreduce, &pair(bytes));
        let of_one = ways.iter().filter(|way| once.contains(&way.algorithm.name)).count();
        assert!((1..ways.len()).contains(&of_one), "{bytes} bytes: {ways:?}");
    }
    for name in once {
        let prices: Vec<f64> = (0..2000).map(|i| pair_price(name, 4096 + i * i * 16, &machine)).collect();
        let slope = |two: &[f64]| two[1] / two[0];
        assert!(prices.windows(2).all(|two| (1.0..1.05).contains(&slope(two))), "{name}: {prices:?}");
    }
}

/// The γ of a cache counts only where ranks share memory and each has a core.
#[test]
fn caches_count_where_ranks_share_memory_and_have_cores() {
    let near = machine("shm", &Settings::default()).unwrap();
    let shared = |cores| Machine { cores: Cores::shared(cores), ..near };
    let far = Machine { readers: false, ..near };
    let slow = |machine| Machine { reduce_cached_ps: near.wire.reduce_ps, ..machine };
    for name in ["census", "doubling", "one-hop", "direct"] {
        let price = |machine: Machine| pair_price(name, 100_000, &machine);
        let is_kept = name != "direct";
        assert_eq!(price(shared(2)) < price(slow(shared(2))), is_kept, "{name}");
        assert_eq!(price(near) < price(slow(near)), is_kept, "{name}");
        assert!(price(shared(1)).to_bits() == price(slow(shared(1))).to_bits(), "{name}");
        assert!(price(far).to_bits() == price(slow(far)).to_bits(), "{name}");
        // A machine whose memory is as fast as its caches.
        let fast = Machine { wire: LogGp { reduce_ps: 10, ..near.wire }, ..near };
        assert!(price(fast).to_bits() == price(slow(fast)).to_bits(), "{name}");
    }
}

/// By way of one rank there are the fewest puts in all, which count where many ranks share a core, and nowhere else.
#[test]
fn short_calls_go_by_way_of_one_rank_where_many_share_a_core() {
    let near = machine("shm", &Settings::default()).unwrap();
    let of = |cores, size| {
        let machine = Machine { cores: Cores::shared(cores), ..near };
        let s = Selection::of(&Settings::default(), machine).unwrap();
        [Operation::Barrier, Operation::Allreduce].map(|operation| {
            let a = Arguments { size, bytes: 8, element: 8, ..Arguments::default() };
            s.choose(operation, &a, None, false).unwrap().way.algorithm.name
        })
    };
    for size in [256, 1000] {
        assert_eq!(of(2, size), ["linear"; 2], "{size}");
        assert!(!of(0, size).contains(&"linear"), "{size}");
    }
    let far = Selection::of(&Settings::default(), machine("verbs", &Settings::default()).unwrap()).unwrap();
    for size in 2..200 {
        let a = Arguments { size, bytes: 8, element: 8, ..Arguments::default() };
        for operation in [Operation::Barrier, Operation::Allreduce] {
            assert_ne!(
                far.choose(operation, &a, None, false).unwrap().way.algorithm.name,
                "linear",
                "{size}"
            );
        }
    }
}

/// The ways of the first trial.
fn first_ways(s: &Selection, operation: Operation, a: &Arguments) -> Vec<Way> {
    let ways = s.ways(operation, a);
    ways.all[..ways.first].to_vec()
}

/// What a trial has beside the cheapest way is not the same puts by another name.
#[test]
fn between_two_ranks_no_puts_are_tried_twice() {
    let s = Selection::of(&Settings::default(), machine("shm", &Settings::default()).unwrap()).unwrap();
    for bytes in [1 << 10, 16 << 10, 128 << 10] {
        let ways = s.ways(Operation::Allreduce, &pair(bytes)).all;
        let tried: BTreeSet<_> = ways.iter().map(|way| way.algorithm.name).collect();
        let is_of = |names: &[&str]| names.iter().filter(|name| tried.contains(**name)).count();
        assert!(is_of(&["census", "doubling", "one-hop"]) <= 1, "{ways:?}");
        assert!(is_of(&["circulant", "ring", "halving", "direct"]) <= 1, "{ways:?}");
    }
    // Among more ranks each goes its own way.
    let more = Arguments { size: 4, ..pair(1 << 20) };
    let two = first_ways(&s, Operation::Allreduce, &more);
    assert!(
        two.iter().filter(|way| ["circulant", "halving"].contains(&way.algorithm.name)).count() == 2,
        "{two:?}"
    );
}

/// What a put costs where its processor has other work prices do not know. So a trial of short calls has what is far more expensive by price, but never by long.
#[test]
fn a_trial_has_far_prices_of_short_calls() {
    let (latency_ns, overhead_ns, byte_ps) = (Some(20_000), Some(15_000), Some(80_000));
    let settings = Settings { latency_ns, overhead_ns, byte_ps, ..Settings::default() };
    let s = Selection::of(&settings, machine("tcp", &settings).unwrap()).unwrap();
    let mut beyond = 0;
    for (size, bytes) in [(16, 8), (16, 1000), (16, 1 << 20), (100, 8), (1000, 8), (1000, 1 << 20)] {
        for operation in [Operation::Barrier, Operation::Bcast, Operation::Allreduce, Operation::Alltoall] {
            let a = Arguments { size, bytes, ..pair(bytes) };
            let ways = first_ways(&s, operation, &a);
            let prices: Vec<f64> = ways
                .iter()
                .map(|way| {
                    let asked = Arguments { blocks: way.blocks, ..a.clone() };
                    way.algorithm.cost(&asked, s.machine()).ns
                })
                .collect();
            let most =
                (prices[0] * f64::from(MAX_PRICE_PERCENT) / 100.0).max(prices[0] + f64::from(MAX_MORE_NS));
            assert!(prices.iter().all(|ns| *ns <= most), "{operation} {size} {bytes}: {ways:?} {prices:?}");
            beyond += prices.iter().filter(|ns| **ns > 2.0 * prices[0]).count();
        }
    }
    assert!(beyond > 0, "none was far");
    let linear = |size| {
        let ways = first_ways(&s, Operation::Barrier, &Arguments { size, ..Arguments::default() });
        ways.iter().any(|way| way.algorithm.name == "linear")
    };
    assert_eq!([16, 100].map(linear), [true, false]);
}

/// Where ranks wait for a core hops and puts may cost far less than prices say: later trials have what would be best then, and nothing whose bytes alone take longer.
#[test]
fn later_trials_have_what_only_hops_and_puts_make_dear() {
    let wire = LogGp { latency_ns: 37_500, overhead_ns: 28_700, byte_ps: 57_000, reduce_ps: 100 };
    let machine = Machine { unhidden: PROBED_UNHIDDEN, alone_ns: 4000, ..Machine::flat(wire).in_turns() };
    let s = Selection::of(&Settings::default(), machine).unwrap();
    let mut later = 0;
    for (operation, bytes) in
        [(Operation::Scan, 10_000), (Operation::Allreduce, 1000), (Operation::Bcast, 1 << 20)]
    {
        let a = Arguments { size: 16, bytes, ..pair(bytes) };
        let ways = s.ways(operation, &a);
        let cost = |way: &Way| {
            let asked = Arguments { blocks: way.blocks, ..a.clone() };
            way.algorithm.cost(&asked, s.machine())
        };
        let lowest = cost(&ways.all[0]).ns;
        for (at, way) in ways.all[ways.first..].iter().enumerate() {
            let cost = cost(way);
            let is_few = way.blocks == Some(way.algorithm.cost(&a, s.machine()).blocks.div_ceil(8));
            let is_of_puts = cost.ns <= 4.0 * lowest && (cost.bytes * 57.0 <= lowest || is_few);
            let is_burst = cost.ns <= 8.0 * lowest && cost.bytes <= 65_536.0;
            assert!(is_of_puts || is_burst, "{operation} {bytes}: {way}");
            assert!(is_of_puts || at == 0, "{operation} {bytes}: {way} comes first");
        }
        later += ways.all.len() - ways.first;
        let first = |name| ways.all[..ways.first].iter().any(|way| way.algorithm.name == name);
        let any = |name| ways.all.iter().any(|way| way.algorithm.name == name);
        if operation == Operation::Scan {
            assert_eq!((first("pipeline"), any("pipeline"), any("linear")), (false, true, false));
        }
    }
    assert!(later > 3, "{later}");
}

/// A link that is metered may let some bytes through at once: the first of the later ways is what would be best if it did, unless it costs more than eight times the
/// lowest price or puts more than 64 KiB.
#[test]
fn a_way_that_is_the_best_if_bytes_take_no_time_is_tried() {
    let of = |latency_ns, overhead_ns, byte_ps, alone_ns, per_node| {
        let wire = LogGp { latency_ns, overhead_ns, byte_ps, reduce_ps: 100 };
        let flat = Machine::flat(wire).in_turns();
        let machine = Machine { unhidden: PROBED_UNHIDDEN, alone_ns, per_node, ..flat };
        Selection::of(&Settings::default(), machine).unwrap()
    };
    // The ways of an allgather, the algorithms of the later ones, and by how many times the price of `linear` is higher than the lowest.
    let later = |s: &Selection, bytes| {
        let a = Arguments { size: 16, bytes, ..Arguments::default() };
        let ways = s.ways(Operation::Allgather, &a);
        let ns = |algorithm: &Algorithm| algorithm.cost(&a, s.machine()).ns;
        let linear = algorithm(Operation::Allgather, "linear").unwrap();
        let names = ways.all[ways.first..].iter().map(|way| way.algorithm.name).collect::<Vec<_>>();
        (names, ns(linear) / ns(ways.all[0].algorithm))
    };
    let slow = of(36_000, 28_000, 57_300, 4400, 1);
    for bytes in [60, 120, 240] {
        assert_eq!(later(&slow, bytes).0[0], "linear", "{bytes}");
    }
    // 16 · 16 · 300 bytes.
    let (names, times) = later(&slow, 300);
    assert!(!names.contains(&"linear") && times < 8.0, "{names:?} {times}");
    // As few bytes as before, which take longer.
    let (names, times) = later(&of(1000, 10_000, 114_600, 1000, 1), 240);
    assert!(!names.contains(&"linear") && times > 8.0, "{names:?} {times}");
    let (names, times) = later(&of(1000, 10_000, 57_300, 1000, 1), 120);
    assert!(names[0] == "linear" && times > 4.0, "{names:?} {times}");
    // All ranks on one node have no such link.
    assert!(!later(&of(36_000, 28_000, 57_300, 4400, 16), 120).0.contains(&"linear"));
}

/// Prices of many short blocks are far off where a link lets a burst through: later trials between nodes have an eighth of them, unless puts are longer than 16 KiB.
#[test]
fn an_eighth_of_the_blocks_is_tried() {
    let few = |per_node, bytes| {
        let wire = LogGp { latency_ns: 10_200, overhead_ns: 14_000, byte_ps: 56_700, reduce_ps: 100 };
        let machine =
            Machine { unhidden: PROBED_UNHIDDEN, alone_ns: 4000, per_node, ..Machine::flat(wire).in_turns() };
        let s = Selection::of(&Settings::default(), machine).unwrap();
        let a = Arguments { size: 16, bytes, ..pair(bytes) };
        let ways = s.ways(Operation::Bcast, &a);
        assert!(
            ways.all[..ways.first].iter().any(|way| way.algorithm.name == "two_tree"),
            "{bytes}: its price is low"
        );
        let usual = algorithm(Operation::Bcast, "two_tree").unwrap().cost(&a, s.machine()).blocks;
        let few = |way: &&Way| way.algorithm.name == "two_tree" && way.blocks == Some(usual.div_ceil(8));
        ways.all[ways.first..].iter().find(few).and_then(|way| way.blocks)
    };
    assert_eq!([10_000, 30_000].map(|bytes| few(1, bytes)), [Some(2), Some(4)]);
    assert_eq!(few(1, 1 << 20), None, "puts are long");
    assert_eq!(few(16, 10_000), None, "one node");
}

/// Whether few links join groups of nodes, of which none is known, only a trial can tell: it knows a way that spares them, if that costs little.
#[test]
fn a_way_that_spares_links_between_groups_is_tried() {
    let (latency_ns, overhead_ns, byte_ps) = (Some(1_000_000), Some(20_000), Some(80_000));
    let settings = Settings { latency_ns, overhead_ns, byte_ps, ..Settings::default() };
    let s = Selection::of(&settings, machine("tcp", &settings).unwrap()).unwrap();
    let of = |nodes: u32, bytes: u64| Arguments { size: nodes, bytes, ..pair(bytes) };
    let spares = |operation, a: &Arguments| {
        let ways = first_ways(&s, operation, a);
        ways.iter().any(|way| ["ring", "pipelined_ring"].contains(&way.algorithm.name))
    };
    for nodes in [8, 16] {
        let each = of(nodes, (16 << 20) / u64::from(nodes));
        assert!(spares(Operation::Allgather, &each), "{nodes}");
        assert!(spares(Operation::Allreduce, &of(nodes, 16 << 20)), "{nodes}");
        assert!(!spares(Operation::Allgather, &of(nodes, 8)), "{nodes}: a ring takes too many rounds");
    }
    // A size at which the cheapest ways are others.
    let unknown = of(16, 128 << 10);
    assert!(spares(Operation::Allgather, &unknown));
    let known = Arguments { groups: (0..16).map(|rank| rank / 8).collect(), ..unknown };
    assert!(!spares(Operation::Allgather, &known), "known groups have prices");
}
