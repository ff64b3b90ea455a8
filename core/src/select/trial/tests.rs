use super::*;
use crate::machine::{LogGp, Machine};
use crate::plan::registry::{Arguments, Operation};
use crate::select::{Selection, Settings};

const WIRE: LogGp = LogGp { latency_ns: 1_000_000, overhead_ns: 20_000, byte_ps: 80_000, reduce_ps: 100 };

fn arguments(bytes: u64) -> Arguments {
    Arguments { size: 16, bytes, ..Arguments::default() }
}

fn all_ways() -> Ways {
    let selection = Selection::of(&Settings::default(), Machine::flat(WIRE)).unwrap();
    selection.ways(Operation::Bcast, &arguments(100_000))
}

/// Of one trial.
fn ways() -> Vec<Way> {
    let ways = all_ways();
    ways.all[..ways.first].to_vec()
}

fn trial(ways: Vec<Way>, begin_after: u32) -> Trial {
    let first = ways.len();
    Trial::new(Ways { all: ways, first }, begin_after)
}

/// Runs `calls` calls at all ranks, whose times are `ns(rank, way)`, and gives the ways of each; all must be the same at all ranks.
fn run(trials: &mut [Trial], calls: usize, ns: impl Fn(usize, usize) -> u64) -> Vec<usize> {
    let (mut slowest, mut late): (Option<Times>, Option<Turn>) = (None, None);
    let mut taken = Vec::new();
    for call in 0..calls {
        let mut heard = 0;
        let rests: Vec<Option<Way>> =
            trials.iter().map(|t| t.ways().iter().copied().find(|way| t.rests_on(way))).collect();
        for (trial, rests) in trials.iter_mut().zip(&rests) {
            match trial.due() {
                Due::Nothing => {}
                due if rests.is_some() => {
                    panic!("call {call}: {due:?} ahead of a call that goes on as before")
                }
                Due::Tell(times) => {
                    let greatest = slowest.get_or_insert([0; MAX_WAYS]);
                    greatest.iter_mut().zip(times).for_each(|(g, t)| *g = t.max(*g));
                    trial.told();
                }
                Due::Hear => heard += 1,
            }
        }
        assert!(heard == 0 || heard == trials.len(), "call {call}: {heard} ranks hear");
        if heard > 0 {
            let greatest = slowest.take().unwrap();
            for trial in trials.iter_mut() {
                trial.hear(greatest);
            }
        }
        let turns: Vec<Turn> = trials.iter_mut().map(|t| t.turn().unwrap()).collect();
        for (rests, turn) in rests.into_iter().zip(&turns) {
            assert!(rests.is_none_or(|way| way == turn.way && !turn.is_timed()), "call {call}: {turn:?}");
        }
        assert!(turns.iter().all(|turn| *turn == turns[0]), "call {call}: {turns:?}");
        taken.push(turns[0].at);
        // At rank 1 calls end later than others begin.
        for (rank, trial) in trials.iter_mut().enumerate() {
            let late = late.get_or_insert(turns[0]);
            let turn = if rank == 1 { std::mem::replace(late, turns[0]) } else { turns[0] };
            trial.ended(&turn, ns(rank, turn.at));
        }
    }
    taken
}

/// Rank 2 is slow in the first way, all others in the third: the slowest counts.
#[test]
fn ranks_with_other_times_keep_the_same_way() {
    let ways = ways();
    assert!(ways.len() >= 3, "{ways:?}");
    for fastest in 0..ways.len() {
        let mut trials = vec![trial(ways.clone(), 16); 4];
        let ns = |rank: usize, way: usize| {
            let base = if way == fastest { 600 } else { 1000 };
            if rank == 2 { base } else { base / 2 + 10 * rank as u64 }
        };
        let trial_calls = ways.len() * Measured::Entered.runs().0;
        let taken = run(&mut trials, 16 + trial_calls + 200, ns);
        assert_eq!(taken[..16], [0; 16]);
        assert!(trials.iter().all(|trial| trial.rests_on(&ways[fastest])), "calls go on as before");
        for way in 0..ways.len() {
            let tried = taken[16..16 + trial_calls].iter().filter(|at| **at == way).count();
            assert_eq!(tried, Measured::Entered.runs().0, "way {way}");
        }
        assert!(taken[16 + trial_calls + CALLS_TO_AGREE as usize..].iter().all(|at| *at == fastest));
        assert_eq!(trials[0].kept(), Some(ways[fastest]));
        let found: Vec<_> = trials[3].found().unwrap().map(|(_, ns)| ns).collect();
        assert_eq!(found[fastest], Some(600));
    }
}

/// Where there are more ways than a trial takes, the next ones have their trials beside what is kept, each after as many calls, until all had one.
#[test]
fn all_ways_have_a_trial() {
    let Ways { all: ways, first } = all_ways();
    assert!(first == MAX_WAYS && ways.len() > first + MAX_WAYS - 1, "{ways:?}");
    let one = |ways: usize| ways * Measured::Entered.runs().0;
    for fastest in 0..ways.len() {
        let mut trials = vec![Trial::new(Ways { all: ways.clone(), first }, 16); 3];
        let ns = |_: usize, way: usize| if way == fastest { 500 } else { 1000 + 300 * way as u64 };
        let taken = run(&mut trials, calls_to_settle(16), ns);
        let (begun, later) = (&taken[16..16 + one(first)], &taken[16 + one(first)..]);
        assert!(begun.iter().all(|way| *way < first), "{taken:?}");
        let kept = if fastest < first { fastest } else { 0 };
        let rest = CALLS_TO_AGREE as usize + FIRST_INTERVAL_CALLS as usize;
        assert!(later[CALLS_TO_AGREE as usize..rest].iter().all(|way| *way == kept), "{taken:?}");
        let next = first..first + MAX_WAYS - 1;
        let of_next = later[rest..][..one(MAX_WAYS)].iter().filter(|way| next.contains(way)).count();
        assert_eq!(of_next, one(MAX_WAYS - 1), "{taken:?}");
        assert_eq!(trials[0].kept(), Some(ways[fastest]));
        let found: Vec<_> = trials[0].found().unwrap().collect();
        let all: Vec<_> = ways.iter().enumerate().map(|(at, way)| (*way, Some(ns(0, at)))).collect();
        assert_eq!(found, all);
    }
}

/// What is kept becomes slow: each way is tried once more, that one too, and nothing goes on for ever.
#[test]
fn all_ways_are_tried_once_more() {
    let ways = all_ways().all;
    for (first, begin_after) in [(MAX_WAYS, 0), (2, 0), (3, 16)] {
        let mut ways = ways.clone();
        ways.truncate(first + (MAX_TRIALS - 1) * (MAX_WAYS - 1));
        for fastest in 0..ways.len() {
            let mut trials = vec![Trial::new(Ways { all: ways.clone(), first }, begin_after); 2];
            let ns = |way: usize| if way == fastest { 500 } else { 1000 + 300 * way as u64 };
            run(&mut trials, calls_to_settle(begin_after), |_, way| ns(way));
            assert_eq!(trials[0].kept(), Some(ways[fastest]));
            let late = |_: usize, way: usize| if way == fastest { 9000 } else { ns(way) };
            let best = usize::from(fastest == 0);
            let taken = run(
                &mut trials,
                FIRST_INTERVAL_CALLS as usize + LOOK_RUNS + calls_to_settle(begin_after),
                late,
            );
            assert_eq!(trials[0].kept(), Some(ways[best]));
            let most = Measured::Entered.runs().0 + Measured::Closest([0; 2]).runs().0;
            for way in (0..ways.len()).filter(|way| *way != fastest && *way != best) {
                let calls = taken.iter().filter(|at| **at == way).count();
                // What is kept for a while has more.
                let is_tried = calls >= Measured::Entered.runs().0 && (way < MAX_WAYS || calls <= most);
                assert!(is_tried, "{fastest} of {first}: {way} {calls} times");
            }
            // From then on only what is kept.
            let rest = run(&mut trials, 600, late);
            assert!(rest.iter().all(|at| *at == best), "{fastest} of {first}: {rest:?}");
        }
    }
}

/// What is worth no first trial with others may be worth a later one.
#[test]
fn a_first_trial_of_one_way_has_the_next_ones() {
    let mut trials = vec![Trial::new(Ways { all: ways(), first: 1 }, 0); 2];
    run(&mut trials, 100, |_, way| if way == 2 { 500 } else { 1000 });
    assert_eq!(trials[0].kept(), Some(ways()[2]));
}

#[test]
fn what_saves_little_changes_nothing() {
    let mut trials = vec![trial(ways(), 0); 2];
    run(&mut trials, 100, |_, way| if way == 0 { 1000 } else { 990 });
    assert_eq!(trials[0].kept(), Some(ways()[0]));
}

/// The two fastest are measured again, in turns: what held up the better one at first does not count.
#[test]
fn close_ways_are_measured_again() {
    let ways = ways();
    let first = ways.len() * Measured::Entered.runs().0;
    for better in [0, 1, 2] {
        let mut trials = vec![trial(ways.clone(), 0); 3];
        let call = std::cell::Cell::new(0);
        let ns = |_: usize, way: usize| {
            let at = call.replace(call.get() + 1) / 3;
            match way == better {
                true => {
                    if at < first {
                        1040
                    } else {
                        960
                    }
                }
                false => 1000 + 100 * u64::from(way == 3),
            }
        };
        let taken = run(&mut trials, first + 30, ns);
        let again = &taken[first + CALLS_TO_AGREE as usize..][..2 * TURNS * (1 + CLOSE_RUNS)];
        let of: Vec<usize> = (0..ways.len()).filter(|way| again.contains(way)).collect();
        assert_eq!(of.len(), 2, "{again:?}");
        let kept = if of.contains(&better) { better } else { of[0] };
        assert_eq!(trials[0].kept(), Some(ways[kept]), "{better}: {taken:?}");
        assert!(taken[first + 28..].iter().all(|at| *at == kept));
    }
}

/// A way whose time triples is left at the next look; one whose time stays is looked at ever less often.
#[test]
fn times_that_drift_are_tried_again() {
    let mut trials = vec![trial(ways(), 0); 3];
    run(&mut trials, 100, |_, way| if way == 1 { 500 } else { 1000 });
    assert_eq!(trials[0].kept(), Some(ways()[1]));
    let taken = run(&mut trials, 2000, |_, way| if way == 1 { 500 } else { 1000 });
    assert!(taken.iter().all(|at| *at == 1), "no trial where nothing has changed");
    run(&mut trials, 4000, |_, way| if way == 1 { 3000 } else { 1000 });
    assert_eq!(trials[0].kept(), Some(ways()[0]));
}

/// Calls that were held up do no harm, though they were most; nor does one that was lucky.
#[test]
fn the_lower_quartile_counts() {
    assert_eq!(lower_quartile(&mut [90_000, 1000, 70_000, 1010, 80_000, 60_000]), 1010);
    assert_eq!(lower_quartile(&mut [1000, 1000, 100, 1000, 1000, 1000]), 1000);
    assert_eq!(lower_quartile(&mut [9, 8, 7, 6, 5, 4, 3, 2, 1]), 3);
    assert_eq!(lower_quartile(&mut [NEVER_NS, 1000, NEVER_NS, NEVER_NS, NEVER_NS, NEVER_NS]), NEVER_NS);
    assert_eq!(lower_quartile(&mut []), NEVER_NS);
    // A way whose calls are held up more often than not is kept where it is the faster one otherwise.
    let mut trials = vec![trial(ways(), 0); 2];
    let call = std::cell::Cell::new(0u64);
    run(&mut trials, 100, |_, way| {
        call.set(call.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        let held_up = if call.get() >> 62 > 1 { 5000 } else { 0 };
        held_up + if way == 1 { 500 } else { 1000 }
    });
    assert_eq!(trials[0].kept(), Some(ways()[1]));
}

#[test]
fn a_way_that_cannot_is_not_kept() {
    let mut trial = Trial::new(Ways { all: ways(), first: MAX_WAYS }, 0);
    for _ in 0..100 {
        match trial.due() {
            Due::Tell(times) => {
                assert!(trial.found().is_some() || times[1] == NEVER_NS);
                trial.told();
            }
            Due::Hear if trial.found().is_some() => assert!(trial.hear([1002, 1000, NEVER_NS, NEVER_NS])),
            Due::Hear => assert!(!trial.hear([1000, NEVER_NS, 1002, 1003])),
            Due::Nothing => {}
        }
        let turn = trial.turn().unwrap();
        if turn.at != 1 {
            trial.ended(&turn, 1000 + turn.at as u64);
        }
    }
    assert_eq!(trial.kept(), Some(ways()[0]));
    assert_eq!(trial.found().unwrap().nth(1).unwrap().1, None);
    assert_eq!(Trial::new(Ways::default(), 0).turn(), None);
}

#[test]
fn ways_are_few_and_not_dear() {
    let fast = LogGp { latency_ns: 1500, overhead_ns: 300, byte_ps: 80, reduce_ps: 100 };
    let of = |wire| Selection::of(&Settings::default(), Machine::flat(wire)).unwrap();
    for ((selection, size), operation) in
        [(of(WIRE), 16), (of(fast), 100)].iter().flat_map(|s| Operation::ALL.map(|o| (s, o)))
    {
        for bytes in [8, 7000, 10_000, 1 << 20] {
            let counts = vec![bytes; *size as usize];
            let a = Arguments {
                size: *size,
                counts,
                commutative: true,
                exact: true,
                element: 8,
                ..arguments(bytes)
            };
            let Ways { all: ways, first } = selection.ways(operation, &a);
            let cost = |way: &Way| {
                let asked = Arguments { blocks: way.blocks, ..a.clone() };
                way.algorithm.cost(&asked, selection.machine())
            };
            let byte_ns = selection.machine().wire.byte_ps as f64 / 1000.0;
            let chosen = selection.choose(operation, &a, None, false).map(|choice| choice.way);
            assert_eq!(ways.first().copied(), chosen.ok(), "{operation} {bytes}");
            let tried_first = if first < 2 { MAX_WAYS } else { first };
            let trials = 1 + ways.len().saturating_sub(tried_first).div_ceil(MAX_WAYS - 1);
            assert!(first <= MAX_WAYS && trials <= MAX_TRIALS, "{operation} {bytes}: {ways:?}");
            let lowest = ways.first().map_or(0.0, |way| cost(way).ns);
            for (at, way) in ways.iter().enumerate() {
                let is_worth = if at < first {
                    cost(way).ns <= (lowest * 1.5).max(lowest + 500_000.0)
                } else {
                    let is_burst = at == first && cost(way).ns <= 8.0 * lowest && cost(way).bytes <= 65_536.0;
                    let usual = way.algorithm.cost(&a, selection.machine()).blocks;
                    let is_few = way.blocks == Some(usual.div_ceil(8))
                        && a.largest().div_ceil(cost(way).blocks.into()) <= 16_384;
                    let is_of_puts = cost(way).bytes * byte_ns <= lowest || is_few;
                    is_burst || cost(way).ns <= 4.0 * lowest && is_of_puts
                };
                assert!(is_worth, "{operation} {bytes}: {way}");
                assert_eq!(ways.iter().filter(|other| *other == way).count(), 1);
                assert!(selection.can(way, &a));
            }
        }
    }
}
