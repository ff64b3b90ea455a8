//! Choosing by measuring. A trial knows a few [ways](super::Way) of one kind of call, the first by price. It says which way each call takes,
//! takes this rank's time of it, and keeps the way in which the slowest rank was fastest. Later it looks now and then whether that is
//! still so.
//!
//! All ranks must take the same way in the same call. So a trial counts calls, and nothing else but what all ranks know alike decides:
//!
//! | calls | way | |
//! |---|---|---|
//! | the first | the first | as many as `begin_after`, so that what is called a few times is not tried |
//! | the next | all, in turns | of each `TURNS` of one call that is not measured, and makes its program the first time, and `FIRST_RUNS` that are |
//! | the next | the kept one | [`CALLS_TO_AGREE`], while the ranks' times are on their way to each other |
//! | the next | the two fastest | only if they are close: as before, but `CLOSE_RUNS` are measured in each turn; then times go their way once more |
//! | the next | the kept one | after some hundreds, then twice as many, `LOOK_RUNS` are measured, and compared with those of the trial |
//!
//! What a trial costs, by price: of at most [`MAX_WAYS`] ways all but one take at most [`MAX_PRICE_PERCENT`](super::MAX_PRICE_PERCENT) of the lowest price, or
//! [`MAX_MORE_NS`](super::MAX_MORE_NS) more, in 9 calls, so at most 13.5 calls' time or 13.5 ms more than without; then, of the two fastest, the slower one takes at most `CLOSE_PERCENT` more in 12 calls: 2.4 calls' time.

use super::choice::Way;
use super::ways::MAX_WAYS;
use std::fmt::{self, Display, Formatter};

/// Turns of each way. Chosen: few, but what holds up one of them does not hold up all.
const TURNS: usize = 3;
/// Calls of a turn that are measured when all ways are tried. One ahead of them is not: it meets what the other ways have left in caches. Of
/// all that are measured the lower quartile counts (`lower_quartile`). Chosen, for what a trial costs.
const FIRST_RUNS: usize = 2;
/// The same where two are close. Chosen.
const CLOSE_RUNS: usize = 3;
/// Calls that are measured to see whether the kept way is still right. Chosen odd, and few.
const LOOK_RUNS: usize = 5;
/// Calls of a trial, from the first that is measured to the first that takes what it has found, at most.
pub const TRIAL_CALLS: usize =
    TURNS * (MAX_WAYS * (1 + FIRST_RUNS) + 2 * (1 + CLOSE_RUNS)) + 2 * CALLS_TO_AGREE as usize;
/// Two ways whose times differ by less than this, in percent, are measured again. Chosen above what times of six calls differ by where nothing has
/// changed, on a machine that others use as well.
const CLOSE_PERCENT: u64 = 20;
/// A close way takes the place of the one that is kept if it saves more than this, in percent. Chosen above what times of
/// nine calls differ by where nothing has changed.
const LEAST_SAVING_PERCENT: u64 = 2;
/// Calls from the one before which a rank's times leave to the one before which all ranks' times must be there. Chosen: an allreduce of 32 bytes that goes beside
/// takes about as long as a call.
pub const CALLS_TO_AGREE: u32 = 2;
/// Calls from a trial to the first look whether it is still right. Chosen: a look costs a small allreduce beside them.
const FIRST_INTERVAL_CALLS: u32 = 256;
/// Between two looks there are twice as many as between the last two, up to this. Chosen, so that a long job notices.
const MAX_INTERVAL_CALLS: u32 = 1 << 14;
/// A look that finds less than the reciprocal or more than this many times the time of the trial begins another one. Chosen above the noise of a
/// shared machine.
const DRIFT: u64 = 2;
/// The time, in nanoseconds, of a way that could not do the call, or whose calls have not ended: no way of that time is kept.
const NEVER_NS: u64 = u64::MAX >> 1;

impl Display for Way {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.blocks {
            None => f.write_str(self.algorithm.name),
            Some(blocks) => write!(f, "{} blocks={blocks}", self.algorithm.name),
        }
    }
}

/// This rank's times by way, in nanoseconds: of each the lower quartile of its calls; of a look the first only.
pub type Times = [u64; MAX_WAYS];

/// What the next call does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// The way to take.
    pub way: Way,
    /// Its place among the ways.
    pub at: usize,
    /// Where its time goes; none: it is not wanted.
    place: Option<(usize, usize)>,
}

impl Turn {
    /// Whether its time is wanted.
    pub fn is_timed(&self) -> bool {
        self.place.is_some()
    }
}

/// What is to be done before the next call takes its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// Tell the other ranks these times, and say so ([`Trial::told`]): of each the greatest of all ranks is to be heard.
    Tell(Times),
    /// [Hear](Trial::hear) what the greatest times are.
    Hear,
}

/// The most calls of one way that are measured in a row of times.
const MOST_RUNS: usize = TURNS * CLOSE_RUNS;
const _: () = assert!(FIRST_RUNS <= CLOSE_RUNS && LOOK_RUNS <= MOST_RUNS);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measured {
    AllWays,
    /// The two fastest, to see which of them it is.
    Closest([usize; 2]),
    /// The kept way, to see whether its time has changed.
    Kept,
}

impl Measured {
    /// Turns, calls of each that are not measured, and those behind them that are.
    fn turns(self) -> (usize, usize, usize) {
        match self {
            Self::AllWays => (TURNS, 1, FIRST_RUNS),
            Self::Closest(_) => (TURNS, 1, CLOSE_RUNS),
            Self::Kept => (1, 0, LOOK_RUNS),
        }
    }

    /// Calls of each way, and those that are measured.
    fn runs(self) -> (usize, usize) {
        let (turns, ahead, runs) = self.turns();
        (turns * (ahead + runs), turns * runs)
    }

    /// Where the time of the call after `made` goes, of `rows` ways: its row, and its place there if it is wanted.
    fn place(self, made: usize, rows: usize) -> (usize, Option<usize>) {
        let (_, ahead, runs) = self.turns();
        let (turn, call) = (made / (ahead + runs), made % (ahead + runs));
        (turn % rows, call.checked_sub(ahead).map(|run| turn / rows * runs + run))
    }
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// So many calls are left.
    Idle { left: u32, then: Measured },
    /// So many calls have had their turn.
    Measuring { made: usize, what: Measured },
    /// The times are to leave.
    Telling { what: Measured },
    /// So many calls are left.
    Agreeing { left: u32, what: Measured },
}

/// A trial of one kind of call, at one rank.
#[derive(Clone, Debug)]
pub struct Trial {
    ways: Vec<Way>,
    kept: usize,
    stage: Stage,
    /// By way that is measured, of this rank, in nanoseconds.
    times: [[u64; MOST_RUNS]; MAX_WAYS],
    /// Of the slowest rank, when a way was kept last; none before.
    found: Option<Times>,
    interval_calls: u32,
}

impl Trial {
    /// Tries these ways from the call after `begin_after` on. With fewer than two there is nothing to try.
    pub fn new(mut ways: Vec<Way>, begin_after: u32) -> Self {
        ways.truncate(MAX_WAYS);
        Self {
            ways,
            kept: 0,
            stage: Stage::Idle { left: begin_after, then: Measured::AllWays },
            times: [[NEVER_NS; MOST_RUNS]; MAX_WAYS],
            found: None,
            interval_calls: FIRST_INTERVAL_CALLS,
        }
    }

    /// The way that is kept: the first until a trial has ended.
    pub fn kept(&self) -> Option<Way> {
        self.ways.get(self.kept).copied()
    }

    /// The ways.
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// The time of each way at the slowest rank in nanoseconds, once a trial has ended; `None` where it could not do the call.
    pub fn found(&self) -> Option<impl Iterator<Item = (Way, Option<u64>)>> {
        let found = self.found?;
        Some(self.ways.iter().copied().zip(found.map(|ns| Some(ns).filter(|ns| *ns < NEVER_NS))))
    }

    /// What is to be done before the next [turn](Trial::turn).
    pub fn due(&self) -> Due {
        match self.stage {
            Stage::Telling { what } => Due::Tell(self.typical(what)),
            Stage::Agreeing { left: 0, .. } => Due::Hear,
            _ => Due::Nothing,
        }
    }

    /// The times that were due are on their way.
    pub fn told(&mut self) {
        if let Stage::Telling { what } = self.stage {
            self.stage = Stage::Agreeing { left: CALLS_TO_AGREE, what };
        }
    }

    /// What the next call does; none: there is no choice. Calls are counted here, so a rank may begin one before another has ended.
    pub fn turn(&mut self) -> Option<Turn> {
        if self.ways.len() < 2 {
            return None;
        }
        if let Stage::Idle { left: 0, then } = self.stage {
            self.times = [[NEVER_NS; MOST_RUNS]; MAX_WAYS];
            self.stage = Stage::Measuring { made: 0, what: then };
        }
        let mut place = None;
        let at = match &mut self.stage {
            Stage::Measuring { made, what } => {
                let what = *what;
                let rows = match what {
                    Measured::AllWays => self.ways.len(),
                    Measured::Closest(two) => two.len(),
                    Measured::Kept => 1,
                };
                let (row, run) = what.place(*made, rows);
                *made += 1;
                place = run.map(|run| (row, run));
                if *made == rows * what.runs().0 {
                    self.stage = Stage::Telling { what };
                }
                match what {
                    Measured::AllWays => row,
                    Measured::Closest(two) => two[row],
                    Measured::Kept => self.kept,
                }
            }
            Stage::Idle { left, .. } | Stage::Agreeing { left, .. } => {
                *left = left.saturating_sub(1);
                self.kept
            }
            Stage::Telling { .. } => self.kept,
        };
        Some(Turn { way: *self.ways.get(at)?, at, place })
    }

    /// The call of a turn has ended, and took this many nanoseconds.
    pub fn ended(&mut self, turn: &Turn, ns: u64) {
        let place = turn.place.and_then(|(row, run)| self.times.get_mut(row)?.get_mut(run));
        if let Some(time) = place {
            *time = ns.min(NEVER_NS);
        }
    }

    /// Of each row, [`NEVER_NS`] where nothing was measured.
    fn typical(&self, what: Measured) -> Times {
        let runs = what.runs().1;
        self.times.map(|mut times| lower_quartile(&mut times[..runs]))
    }

    /// The greatest times of all ranks have come. Whether a trial of all ways has ended by that.
    pub fn hear(&mut self, slowest: Times) -> bool {
        let Stage::Agreeing { what, .. } = self.stage else { return false };
        let (next, has_ended) = match what {
            Measured::AllWays => self.first_times(slowest),
            Measured::Closest(two) => {
                self.close_times(two, slowest);
                (None, true)
            }
            Measured::Kept => (self.has_drifted(slowest[0]).then_some(Measured::AllWays), false),
        };
        self.stage = match next {
            Some(then) => Stage::Idle { left: 0, then },
            None => Stage::Idle { left: self.interval_calls, then: Measured::Kept },
        };
        if !matches!(next, Some(Measured::Closest(_))) {
            self.interval_calls = self.interval_calls.saturating_mul(2).min(MAX_INTERVAL_CALLS);
        }
        has_ended
    }

    /// Of all ways: what is measured next, and whether the trial has ended.
    fn first_times(&mut self, slowest: Times) -> (Option<Measured>, bool) {
        let mut order: Vec<usize> = (0..self.ways.len()).collect();
        order.sort_by_key(|way| slowest[*way]);
        // What is kept is one of the two where it is as good as the best.
        let saves = saves(slowest[order[0]], slowest[self.kept]);
        let (best, second) = (order[0], if saves || order[0] == self.kept { order[1] } else { self.kept });
        self.found = Some(slowest);
        let close = slowest[best].saturating_mul(100 + CLOSE_PERCENT) / 100;
        if slowest[second] < close.min(NEVER_NS) {
            return (Some(Measured::Closest([best, second])), false);
        }
        if slowest[best] < NEVER_NS {
            self.kept = best;
        }
        (None, true)
    }

    /// Of the two fastest.
    fn close_times(&mut self, two: [usize; 2], slowest: Times) {
        // What is kept has to be beaten; else the one that was faster before.
        let (held, other) = if two[1] == self.kept { (1, 0) } else { (0, 1) };
        self.kept = two[if saves(slowest[other], slowest[held]) { other } else { held }];
        if let Some(found) = &mut self.found {
            two.iter().zip(slowest).for_each(|(way, ns)| found[*way] = ns);
        }
    }

    /// Whether the kept way takes another time than in its trial.
    fn has_drifted(&self, ns: u64) -> bool {
        let trial_ns = self.found.map_or(ns, |found| found[self.kept]).max(1);
        ns > trial_ns.saturating_mul(DRIFT) || ns.saturating_mul(DRIFT) < trial_ns
    }
}

/// The lower quartile of these times: of six the second, of nine the third. What holds a call up only ever adds to its time, so the slower ones say
/// more of the machine than of the way; and the least may be luck, where this has come about twice at least. (docs/algorithms.md has what was
/// measured.)
fn lower_quartile(times: &mut [u64]) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 4).copied().unwrap_or(NEVER_NS)
}

/// Whether a way that takes `ns` saves enough beside one that takes `other`.
fn saves(ns: u64, other: u64) -> bool {
    ns.saturating_mul(100) / (100 - LEAST_SAVING_PERCENT) < other
}

#[cfg(test)]
mod tests {
    use super::super::{Selection, Settings};
    use super::*;
    use crate::machine::{LogGp, Machine};
    use crate::plan::registry::{Arguments, Operation};

    const WIRE: LogGp = LogGp { latency_ns: 1_000_000, overhead_ns: 20_000, byte_ps: 80_000, reduce_ps: 100 };

    fn arguments(bytes: u64) -> Arguments {
        Arguments { size: 16, bytes, ..Arguments::default() }
    }

    fn ways() -> Vec<Way> {
        let selection = Selection::of(&Settings::default(), Machine::flat(WIRE)).unwrap();
        selection.ways(Operation::Bcast, &arguments(100_000))
    }

    /// Runs `calls` calls at all ranks, whose times are `ns(rank, way)`, and gives the ways of each; all must be the same at all ranks.
    fn run(trials: &mut [Trial], calls: usize, ns: impl Fn(usize, usize) -> u64) -> Vec<usize> {
        let (mut slowest, mut late): (Option<Times>, Option<Turn>) = (None, None);
        let mut taken = Vec::new();
        for call in 0..calls {
            let mut heard = 0;
            for trial in trials.iter_mut() {
                match trial.due() {
                    Due::Nothing => {}
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
            let mut trials = vec![Trial::new(ways.clone(), 16); 4];
            let ns = |rank: usize, way: usize| {
                let base = if way == fastest { 600 } else { 1000 };
                if rank == 2 { base } else { base / 2 + 10 * rank as u64 }
            };
            let trial_calls = ways.len() * Measured::AllWays.runs().0;
            let taken = run(&mut trials, 16 + trial_calls + 200, ns);
            assert_eq!(taken[..16], [0; 16]);
            for way in 0..ways.len() {
                let tried = taken[16..16 + trial_calls].iter().filter(|at| **at == way).count();
                assert_eq!(tried, Measured::AllWays.runs().0, "way {way}");
            }
            assert!(taken[16 + trial_calls + CALLS_TO_AGREE as usize..].iter().all(|at| *at == fastest));
            assert_eq!(trials[0].kept(), Some(ways[fastest]));
            let found: Vec<_> = trials[3].found().unwrap().map(|(_, ns)| ns).collect();
            assert_eq!(found[fastest], Some(600));
        }
    }

    #[test]
    fn what_saves_little_changes_nothing() {
        let mut trials = vec![Trial::new(ways(), 0); 2];
        run(&mut trials, 100, |_, way| if way == 0 { 1000 } else { 990 });
        assert_eq!(trials[0].kept(), Some(ways()[0]));
    }

    /// The two fastest are measured again, in turns: what held up the better one at first does not count.
    #[test]
    fn close_ways_are_measured_again() {
        let ways = ways();
        let first = ways.len() * Measured::AllWays.runs().0;
        for better in [0, 1, 2] {
            let mut trials = vec![Trial::new(ways.clone(), 0); 3];
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
        let mut trials = vec![Trial::new(ways(), 0); 3];
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
        let mut trials = vec![Trial::new(ways(), 0); 2];
        let call = std::cell::Cell::new(0u64);
        run(&mut trials, 100, |_, way| {
            call.set(
                call.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407),
            );
            let held_up = if call.get() >> 62 > 1 { 5000 } else { 0 };
            held_up + if way == 1 { 500 } else { 1000 }
        });
        assert_eq!(trials[0].kept(), Some(ways()[1]));
    }

    #[test]
    fn a_way_that_cannot_is_not_kept() {
        let mut trial = Trial::new(ways(), 0);
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
        assert_eq!(Trial::new(Vec::new(), 0).turn(), None);
    }

    #[test]
    fn ways_are_few_and_not_dear() {
        let selection = Selection::of(&Settings::default(), Machine::flat(WIRE)).unwrap();
        for operation in Operation::ALL {
            for bytes in [8, 10_000, 1 << 20] {
                let counts = vec![bytes; 16];
                let a = Arguments { counts, commutative: true, exact: true, element: 8, ..arguments(bytes) };
                let ways = selection.ways(operation, &a);
                let price = |way: &Way| {
                    let asked = Arguments { blocks: way.blocks, ..a.clone() };
                    way.algorithm.cost(&asked, selection.machine()).ns
                };
                let chosen = selection.choose(operation, &a, None, false).map(|choice| choice.way);
                assert_eq!(ways.first().copied(), chosen.ok(), "{operation} {bytes}");
                assert!(ways.len() <= MAX_WAYS);
                for way in &ways {
                    assert!(price(way) <= price(&ways[0]) * 1.5, "{operation} {bytes}: {way}");
                    assert_eq!(ways.iter().filter(|other| *other == way).count(), 1);
                    assert!(selection.can(way, &a));
                }
            }
        }
    }
}
