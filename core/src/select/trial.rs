//! Choosing by measuring. A trial knows some [ways](super::Way) of one kind of call, the first by price, and tries a few at a time. It says which way each call takes,
//! takes this rank's time of it, and keeps the way in which the slowest rank was fastest. Later it looks now and then whether that is
//! still so.
//!
//! All ranks must take the same way in the same call. So a trial counts calls, and nothing else but what all ranks know alike decides:
//!
//! | calls | way | |
//! |---|---|---|
//! | the first | the first | as many as `begin_after`, so that what is called a few times is not tried |
//! | the next | those of the trial, in turns | of each `TURNS` of one call that is not measured, and makes its program the first time, and `FIRST_RUNS` that are |
//! | the next | the kept one | [`CALLS_TO_AGREE`], while the ranks' times are on their way to each other |
//! | the next | the two fastest | only if they are close: as before, but `CLOSE_RUNS` are measured in each turn; then times go their way once more |
//! | the next | the kept one, then it and the next ways | where there are more ways: after 256 calls, or at once where the first trial began at once, another trial as the first, until all ways had one |
//! | the next | the kept one | after some hundreds, then twice as many, `LOOK_RUNS` are measured, and compared with those of the trial |
//!
//! What the first trial costs, by price: of at most [`MAX_WAYS`] ways all but one take at most [`MAX_PRICE_PERCENT`](super::MAX_PRICE_PERCENT) of the lowest price, or
//! [`MAX_MORE_NS`](super::MAX_MORE_NS) more, in 9 calls, so at most 13.5 calls' time or 13.5 ms more than without; then, of the two fastest, the slower one takes at most `CLOSE_PERCENT` more in 12 calls: 2.4 calls' time. A later one
//! has three ways of up to four times the lowest price: at most 81 calls' time, and 2.4. One way of all later trials may cost up to eight times the lowest price: 36 calls' time more. A first trial that has one way by price has ways of the later ones with it, and costs as much as they do.
//! So all together take, by price, at most 370 calls' time more than without, or 13.5 ms and 290 calls' time, in 1088 calls, or in 256 where they follow each other at once.

use super::choice::Way;
use super::ways::{MAX_TRIALS, MAX_WAYS, Ways};
use std::fmt::{self, Display, Formatter};

/// Turns of each way. Chosen: few, but what holds up one of them does not hold up all.
const TURNS: usize = 3;
/// Calls of a turn that are measured when the ways of a trial are. One ahead of them is not: it meets what the other ways have left in caches. Of
/// all that are measured the lower quartile counts (`lower_quartile`). Chosen, for what a trial costs.
const FIRST_RUNS: usize = 2;
/// The same where two are close. Chosen.
const CLOSE_RUNS: usize = 3;
/// Calls that are measured to see whether the kept way is still right. Chosen odd, and few.
const LOOK_RUNS: usize = 5;
/// Calls of a trial, from the first that is measured to the first that takes what it has found, at most.
pub const TRIAL_CALLS: usize =
    TURNS * (MAX_WAYS * (1 + FIRST_RUNS) + 2 * (1 + CLOSE_RUNS)) + 2 * CALLS_TO_AGREE as usize;
/// Calls from a trial to the next one of other ways, where the first begins after `begin_after`: none, or as many as to the first look, as a later one has ways that cost more by price.
const fn later_after(begin_after: u32) -> u32 {
    if begin_after == 0 { 0 } else { FIRST_INTERVAL_CALLS }
}
/// Calls from the first of a class to the first that takes what all its trials have found, at most, where the first begins after `begin_after` calls.
pub const fn calls_to_settle(begin_after: u32) -> usize {
    let later = later_after(begin_after) as usize + TRIAL_CALLS;
    begin_after as usize + TRIAL_CALLS + (MAX_TRIALS - 1) * later
}
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

/// This rank's times of the ways of a trial, in nanoseconds: of each the lower quartile of its calls; of a look the first only.
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
    /// Those of this trial.
    Entered,
    /// The two fastest, to see which of them it is.
    Closest([usize; 2]),
    /// The kept way, to see whether its time has changed.
    Kept,
}

impl Measured {
    /// Turns, calls of each that are not measured, and those behind them that are.
    fn turns(self) -> (usize, usize, usize) {
        match self {
            Self::Entered => (TURNS, 1, FIRST_RUNS),
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
    /// How many of them the first trial has.
    first: usize,
    kept: usize,
    /// Ways of this trial, by their places.
    entered: Vec<usize>,
    /// Calls ahead of a later trial.
    later_after: u32,
    stage: Stage,
    /// By way that is measured, of this rank, in nanoseconds.
    times: [[u64; MOST_RUNS]; MAX_WAYS],
    /// By way, of the slowest rank, when it was measured last; none before.
    found: Vec<Option<u64>>,
    interval_calls: u32,
}

impl Trial {
    /// Tries these ways, from the call after `begin_after` on. With fewer than two there is nothing to try.
    pub fn new(ways: Ways, begin_after: u32) -> Self {
        let mut trial = Self {
            found: vec![None; ways.all.len()],
            // One alone is no trial.
            first: if ways.first < 2 { MAX_WAYS } else { ways.first },
            ways: ways.all,
            kept: 0,
            entered: Vec::new(),
            later_after: later_after(begin_after),
            stage: Stage::Idle { left: begin_after, then: Measured::Entered },
            times: [[NEVER_NS; MOST_RUNS]; MAX_WAYS],
            interval_calls: FIRST_INTERVAL_CALLS,
        };
        trial.enter();
        trial
    }

    /// The ways of the next trial: the kept one and the next that have had none.
    fn enter(&mut self) {
        let is_first = self.found.iter().all(Option::is_none);
        let end = if is_first { self.first.min(self.ways.len()) } else { self.ways.len() };
        let waiting = (0..end).filter(|way| self.waits(*way)).take(MAX_WAYS - 1);
        self.entered = std::iter::once(self.kept).chain(waiting).collect();
    }

    /// Whether a way is still to have a trial.
    fn waits(&self, way: usize) -> bool {
        way != self.kept && self.found[way].is_none()
    }

    /// The way that is kept: the first until a trial has ended.
    pub fn kept(&self) -> Option<Way> {
        self.ways.get(self.kept).copied()
    }

    /// The ways.
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// The time of each way that had a trial, at the slowest rank in nanoseconds, once one has ended; `None` where it could not do the call.
    pub fn found(&self) -> Option<impl Iterator<Item = (Way, Option<u64>)>> {
        let found = self.ways.iter().copied().zip(&self.found);
        let tried = found.filter_map(|(way, ns)| Some((way, Some((*ns)?).filter(|ns| *ns < NEVER_NS))));
        self.found.iter().any(Option::is_some).then_some(tried)
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
                    Measured::Entered => self.entered.len(),
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
                    Measured::Entered => self.entered[row],
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

    /// Whether the next call takes this way, and neither is measured nor has anything to be done ahead of it.
    pub fn rests_on(&self, way: &Way) -> bool {
        let rests = matches!(self.stage, Stage::Idle { left: 1.., .. } | Stage::Agreeing { left: 1.., .. });
        rests && self.ways.get(self.kept) == Some(way)
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

    /// The greatest times of all ranks have come. Whether a trial has ended by that.
    pub fn hear(&mut self, slowest: Times) -> bool {
        let Stage::Agreeing { what, .. } = self.stage else { return false };
        let close = match what {
            Measured::Entered => self.first_times(slowest),
            Measured::Closest(two) => {
                self.close_times(two, slowest);
                None
            }
            Measured::Kept if self.has_drifted(slowest[0]) => {
                // All of them once more.
                self.found.fill(None);
                self.enter();
                self.stage = Stage::Idle { left: 0, then: Measured::Entered };
                return false;
            }
            Measured::Kept => {
                self.rest();
                return false;
            }
        };
        if let Some(two) = close {
            self.stage = Stage::Idle { left: 0, then: Measured::Closest(two) };
        } else if (0..self.ways.len()).any(|way| self.waits(way)) {
            self.enter();
            self.stage = Stage::Idle { left: self.later_after, then: Measured::Entered };
        } else {
            self.rest();
        }
        close.is_none()
    }

    /// Until the next look.
    fn rest(&mut self) {
        self.stage = Stage::Idle { left: self.interval_calls, then: Measured::Kept };
        self.interval_calls = self.interval_calls.saturating_mul(2).min(MAX_INTERVAL_CALLS);
    }

    /// Of this trial's ways, in their order: keeps the best one, or tells the two that are close.
    fn first_times(&mut self, slowest: Times) -> Option<[usize; 2]> {
        for (way, ns) in self.entered.iter().zip(slowest) {
            self.found[*way] = Some(ns);
        }
        let mut order: Vec<(usize, u64)> = self.entered.iter().copied().zip(slowest).collect();
        // What is kept was entered first.
        let kept = order[0];
        order.sort_by_key(|(_, ns)| *ns);
        // What is kept is one of the two where it is as good as the best.
        let best = order[0];
        let second = if saves(best.1, kept.1) || best.0 == kept.0 { order[1] } else { kept };
        let close = best.1.saturating_mul(100 + CLOSE_PERCENT) / 100;
        if second.1 < close.min(NEVER_NS) {
            return Some([best.0, second.0]);
        }
        if best.1 < NEVER_NS {
            self.kept = best.0;
        }
        None
    }

    /// Of the two fastest.
    fn close_times(&mut self, two: [usize; 2], slowest: Times) {
        // What is kept has to be beaten; else the one that was faster before.
        let (held, other) = if two[1] == self.kept { (1, 0) } else { (0, 1) };
        self.kept = two[if saves(slowest[other], slowest[held]) { other } else { held }];
        two.iter().zip(slowest).for_each(|(way, ns)| self.found[*way] = Some(ns));
    }

    /// Whether the kept way takes another time than in its trial.
    fn has_drifted(&self, ns: u64) -> bool {
        let trial_ns = self.found[self.kept].unwrap_or(ns).max(1);
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
mod tests;
