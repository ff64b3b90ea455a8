//! `CIRCULANT_MPI_TAKE=auto`: a communicator's first calls of each operation and size run by the MPI, until they get no faster, and then here and by
//! the MPI in turn; what was faster then is what all later ones take.
//!
//! All ranks must decide alike, but each has measured times of its own, and one that others wait for has measured the least. So two calls
//! end with the greatest time of all ranks for each batch before, by a reduction here: all ranks are in that call. Which call is how far is
//! known alike, as the collectives of a communicator have one order at all its ranks.
//!
//! What counts is the time in the calls of a batch together. A single one tells little: ranks leave a barrier one after
//! the other, and those that leave late find a broadcast's data there; a root goes on at once, and its next call pays for it. A batch begins
//! with a barrier here, so that none pays for calls of the other side.
//!
//! Where ranks share cores, some calls take a thousand times as long as others, on either side. So neither sums nor medians
//! are compared but each batch here with each of the MPI's. What they say for calls here is tried once more, behind calls that are all here.

use crate::report::Operation;
use circulant::{Communicator, Result, ops};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Calls whose time is one.
const BATCH: u32 = 4;
/// The batches that are measured, at most. As many run here as by the MPI.
const BATCHES: u32 = 16;
/// It ends after so many already, where they leave no doubt.
const EARLY: u32 = 8;
/// Calls here ahead of these; the first makes what later ones use.
const WARM_UPS: u32 = 2;
/// Calls here behind a comparison that says so, ahead of a second one, which decides. Chosen: most trials that went on at the same time have
/// ended then, as two comparisons have [`BATCH`] × [`BATCHES`] calls each; a call that follows a barrier tells something else where that one is
/// the MPI's in one of two calls.
const SETTLING: u32 = 128;
/// Calls by the MPI, ahead of these, that are measured together: a window. MPICH and Intel MPI change to another algorithm within a node behind
/// the fifth call of some operations on a communicator (`MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD`), and take milliseconds to set it up. Intel MPI passes
/// through so much shared memory that its calls of 64 KB touch new pages for a hundred calls and more, and take up to four times as long meanwhile.
const WINDOW: u32 = 4 * BATCH;
/// The first window ends behind so many calls, and each further one behind twice as many.
const FIRST_END: u32 = 18;
/// Windows, at most: 576 calls.
const WINDOWS: u32 = 6;
/// A batch runs by the MPI if its number has an odd number of these bits. Each of these sequences has as many batches of either side among
/// eight, so that neither gets more of what a program does in turns; and as many of each where another one has them, as programs call
/// operations in turns whose trials go on together.
const ORDERS: [u32; 4] = [0b111, 0b011, 0b101, 0b110];
/// Sizes up to each power of two of bytes, and at last calls of which not all ranks know a size.
const CLASSES: usize = usize::BITS as usize + 2;

/// What the trials of a communicator have found. A communicator's collectives follow each other, so nothing here is changed by two
/// threads at a time.
#[derive(Debug, Default)]
pub(crate) struct Trials([OnceLock<Box<[Class; CLASSES]>>; Operation::ALL.len()]);

/// Calls of one operation and class of sizes.
#[derive(Debug)]
struct Class {
    verdict: AtomicU8,
    open: Mutex<Open>,
}

const OPEN: u8 = 0;
const OURS: u8 = 1;
const THEIRS: u8 = 2;

impl Class {
    const fn new() -> Self {
        Self { verdict: AtomicU8::new(OPEN), open: Mutex::new(Open::new()) }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far a trial is; alike at all ranks, but for the times.
#[derive(Debug)]
struct Open {
    calls: u32,
    /// So many windows of the MPI have ended.
    windows: u32,
    /// The last one's times, each of the slowest rank, in nanoseconds.
    earlier: Vec<u64>,
    /// The call from which on both sides have calls: the MPI's got no faster before.
    compared_from: Option<u32>,
    /// A comparison has said that calls are taken.
    is_second: bool,
    /// The times of batches here, and of those of the MPI, at this rank, in nanoseconds.
    times: [Vec<u64>; 2],
}

impl Open {
    const fn new() -> Self {
        Self {
            calls: 0,
            windows: 0,
            earlier: Vec::new(),
            compared_from: None,
            is_second: false,
            times: [const { Vec::new() }; 2],
        }
    }

    /// What the next call is.
    fn step(&self) -> Step {
        let Some(from) = self.compared_from else {
            let begin = (FIRST_END << self.windows) - WINDOW;
            return self.calls.checked_sub(begin).map_or(Step::Unmeasured { ours: false }, Step::Alone);
        };
        let unmeasured = if self.is_second { SETTLING } else { WARM_UPS };
        (self.calls - from).checked_sub(unmeasured).map_or(Step::Unmeasured { ours: true }, Step::Both)
    }

    /// So many calls of both sides were compared. Where calls go from now on, if it is decided.
    fn compared(&mut self, calls: u32, found: Found) -> Option<u8> {
        if calls < BATCHES * BATCH && !found.is_clear() {
            return None;
        }
        if found.takes() && !self.is_second {
            *self =
                Self { calls: self.calls, compared_from: Some(self.calls), is_second: true, ..Self::new() };
            return None;
        }
        Some(if found.takes() { OURS } else { THEIRS })
    }

    /// A window of the MPI has ended, with these times, each of the slowest rank.
    fn window(&mut self, slowest: Vec<u64>) {
        let is_first = self.windows == 0;
        let earlier = std::mem::replace(&mut self.earlier, slowest);
        self.windows += 1;
        let gets_faster = is_first || Found::of([self.earlier.clone(), earlier]).takes();
        if !gets_faster || self.windows == WINDOWS {
            self.compared_from = Some(self.calls);
        }
    }
}

/// What a call of a trial is.
#[derive(Clone, Copy, Debug)]
enum Step {
    Unmeasured {
        ours: bool,
    },
    /// The call of this number of a window of the MPI.
    Alone(u32),
    /// The call of this number of those that are compared.
    Both(u32),
}

/// Where a call goes.
#[derive(Debug)]
pub(crate) enum Way {
    Ours,
    Theirs,
    Try(Trial),
}

/// A call of a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    operation: Operation,
    class: usize,
    step: Step,
    start: Instant,
}

impl Trial {
    pub(crate) fn is_ours(&self) -> bool {
        match self.step {
            Step::Unmeasured { ours } => ours,
            Step::Alone(_) => false,
            Step::Both(i) => {
                let order = ORDERS[self.operation as usize % ORDERS.len()];
                ((i / BATCH) & order).count_ones().is_multiple_of(2)
            }
        }
    }
}

/// The class of a size that all ranks know, if there is one.
fn class(size: Option<usize>) -> usize {
    size.map_or(CLASSES - 1, |bytes| (usize::BITS - bytes.saturating_sub(1).leading_zeros()) as usize)
}

/// How the times of both sides compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    /// Of all pairs of a batch here and one of the MPI's so many save more than 10 % here.
    ahead: usize,
    pairs: usize,
    /// Of each side, in nanoseconds.
    medians: [u64; 2],
}

impl Found {
    fn of([mut ours, mut theirs]: [Vec<u64>; 2]) -> Self {
        ours.sort_unstable();
        theirs.sort_unstable();
        let saves = |here: u64| {
            theirs.iter().filter(|there| here.saturating_mul(10) < there.saturating_mul(9)).count()
        };
        let ahead = ours.iter().map(|here| saves(*here)).sum();
        let median = |sorted: &[u64]| sorted.get(sorted.len() / 2).copied().unwrap_or(0);
        Self { ahead, pairs: ours.len() * theirs.len(), medians: [median(&ours), median(&theirs)] }
    }

    /// Calls are taken if three of four pairs say so: of eight batches and eight that are alike, by chance in one of 20 trials.
    fn takes(&self) -> bool {
        self.pairs > 0 && self.ahead * 4 >= self.pairs * 3
    }

    /// No further call is likely to change that: nearly all pairs say so, or few.
    fn is_clear(&self) -> bool {
        self.ahead * 16 >= self.pairs * 15 || self.ahead * 4 <= self.pairs
    }
}

impl Trials {
    fn class(&self, operation: Operation, class: usize) -> &Class {
        let made = || Box::new([const { Class::new() }; CLASSES]);
        &self.0[operation as usize].get_or_init(made)[class]
    }

    /// Whether calls of this size are taken, once that has been tried. All ranks find the same.
    pub(crate) fn verdict(&self, operation: Operation, size: Option<usize>) -> Option<bool> {
        match self.class(operation, class(size)).verdict.load(Relaxed) {
            OURS => Some(true),
            THEIRS => Some(false),
            _ => None,
        }
    }

    /// Where the next call of this size goes. Collective while it is tried.
    ///
    /// # Errors
    /// Those of a barrier.
    pub(crate) fn way(&self, comm: &Communicator, operation: Operation, size: Option<usize>) -> Result<Way> {
        let class = class(size);
        let found = self.class(operation, class);
        match found.verdict.load(Relaxed) {
            OURS => return Ok(Way::Ours),
            THEIRS => return Ok(Way::Theirs),
            _ => {}
        }
        let mut open = found.open();
        let step = open.step();
        open.calls += 1;
        drop(open);
        if matches!(step, Step::Both(i) if i.is_multiple_of(BATCH)) {
            comm.barrier()?;
        }
        Ok(Way::Try(Trial { operation, class, step, start: Instant::now() }))
    }

    /// The call has ended. Some are collective here: they decide, or go on trying.
    ///
    /// # Errors
    /// Those of an allreduce.
    pub(crate) fn ended(&self, comm: &Communicator, trial: Trial) -> Result<()> {
        let time = u64::try_from(trial.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let found = self.class(trial.operation, trial.class);
        let (Step::Alone(i) | Step::Both(i)) = trial.step else { return Ok(()) };
        let is_alone = matches!(trial.step, Step::Alone(_));
        let mut open = found.open();
        let times = &mut open.times[usize::from(!trial.is_ours())];
        match times.last_mut() {
            Some(batch) if !i.is_multiple_of(BATCH) => *batch = batch.saturating_add(time),
            _ => times.push(time),
        }
        let calls = i + 1;
        let may_end: &[u32] = if is_alone { &[WINDOW] } else { &[EARLY * BATCH, BATCHES * BATCH] };
        if !may_end.contains(&calls) {
            return Ok(());
        }
        let mine = open.times.concat();
        let mut slowest = vec![0; mine.len()];
        comm.allreduce(&mine, &mut slowest, ops::Max)?;
        if is_alone {
            open.window(slowest);
            open.times[1].clear();
            return Ok(());
        }
        let theirs = slowest.split_off(slowest.len() / 2);
        let comparison = Found::of([slowest, theirs]);
        if let Some(verdict) = open.compared(calls, comparison) {
            *open = Open::new();
            found.verdict.store(verdict, Relaxed);
            note(trial.operation, trial.class, comparison);
        }
        Ok(())
    }
}

/// What was chosen, on how many communicators, and what was found on the last.
#[derive(Clone, Copy, Debug, Default)]
struct Choice {
    taken: u64,
    passed: u64,
    last: Found,
}

/// For the report, by operation and class.
static CHOICES: Mutex<Vec<((usize, usize), Choice)>> = Mutex::new(Vec::new());

fn note(operation: Operation, class: usize, found: Found) {
    let mut choices = CHOICES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (operation as usize, class);
    let at = choices.binary_search_by_key(&key, |(key, _)| *key).unwrap_or_else(|at| {
        choices.insert(at, (key, Choice::default()));
        at
    });
    let choice = &mut choices[at].1;
    *(if found.takes() { &mut choice.taken } else { &mut choice.passed }) += 1;
    choice.last = found;
}

/// A line for each operation and class that was tried to the end.
pub(crate) fn text() -> String {
    let mut text = String::new();
    for ((operation, class), choice) in CHOICES.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let size = match *class {
            last if last == CLASSES - 1 => "of any size".to_owned(),
            class => format!("of up to {} bytes", 1u128 << class),
        };
        let Choice { taken, passed, last } = choice;
        let [ours, theirs] = last.medians.map(|ns| ns as f64 / 1000.0 / f64::from(BATCH));
        let _ = writeln!(
            text,
            "circulant: tried {} {size}: taken on {taken} communicators, passed on of {passed}; last {ours:.1} us here, {theirs:.1} us by \
             the MPI, {} of {} pairs faster here",
            Operation::ALL[*operation].name(),
            last.ahead,
            last.pairs,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ours: &[u64], theirs: &[u64]) -> Found {
        Found::of([ours.to_vec(), theirs.to_vec()])
    }

    #[test]
    fn what_saves_no_more_than_a_tenth_stays_with_the_mpi() {
        assert!(of(&[89], &[100]).takes() && !of(&[90], &[100]).takes() && !of(&[0], &[0]).takes());
        assert!(!of(&[u64::MAX], &[1]).takes() && of(&[1], &[u64::MAX]).takes());
        assert!(!of(&[], &[]).takes());
    }

    #[test]
    fn three_of_four_pairs_decide_however_slow_the_others_are() {
        assert!(of(&[1, 1, 1, 9000], &[2, 2, 2, 2]).takes(), "one of four calls here was slow");
        assert!(!of(&[1, 1, 9000, 9000], &[2, 2, 2, 2]).takes());
        // The medians say 1 and 4000.
        assert!(!of(&[1, 1, 1, 9000], &[1, 1, 4000, 4000]).takes(), "equally fast where neither was slow");
    }

    #[test]
    fn it_ends_early_only_where_nearly_all_pairs_agree() {
        let (low, high) = ([10; 8], [20; 8]);
        assert!(of(&low, &high).is_clear() && of(&high, &low).is_clear());
        assert!(!of(&[10, 10, 10, 10, 10, 10, 10, 20], &high).is_clear(), "seven of eight");
        assert!(of(&[10, 10, 20, 20, 20, 20, 20, 20], &high).is_clear(), "two of eight");
    }

    #[test]
    fn both_sides_get_as_many_batches_whatever_a_program_does_in_turns() {
        let is_ours = |operation, step| Trial { operation, class: 0, step, start: Instant::now() }.is_ours();
        // Whether each batch runs here; all calls of one do.
        let order = |operation, batches: u32| -> Vec<bool> {
            let all = |batch| {
                let calls = (0..BATCH).map(|i| is_ours(operation, Step::Both(batch * BATCH + i)));
                let calls: Vec<bool> = calls.collect();
                assert!(calls.iter().all(|ours| *ours == calls[0]), "{operation:?} {batch}");
                calls[0]
            };
            (0..batches).map(all).collect()
        };
        for batches in [EARLY, BATCHES] {
            let half = batches as usize / 2;
            for operation in Operation::ALL.iter().copied() {
                let one = order(operation, batches);
                assert_eq!(one.iter().filter(|ours| **ours).count(), half, "{operation:?}");
                let second = one.iter().step_by(2).filter(|ours| **ours).count();
                assert_eq!(second, half / 2, "{operation:?}");
                for other in Operation::ALL.iter().copied() {
                    if operation as usize % ORDERS.len() != other as usize % ORDERS.len() {
                        let both = one.iter().zip(order(other, batches)).filter(|(a, b)| **a == *b).count();
                        assert_eq!(both, half, "{operation:?} and {other:?}");
                    }
                }
            }
        }
    }

    /// Runs a trial until both sides have calls, with windows whose batches take so long by the MPI; gives the number of calls.
    fn alone(times: impl Fn(u32) -> u64) -> u32 {
        let mut open = Open::new();
        loop {
            let step = open.step();
            open.calls += 1;
            match step {
                Step::Unmeasured { ours: false } => {}
                Step::Alone(i) if i + 1 < WINDOW => {}
                Step::Alone(_) => open.window(vec![times(open.calls); 4]),
                Step::Unmeasured { ours: true } | Step::Both(_) => return open.calls - 1,
            }
        }
    }

    #[test]
    fn both_are_compared_once_the_mpi_gets_no_faster() {
        assert_eq!(alone(|_| 50), 36);
        assert_eq!(alone(u64::from), 36, "it gets slower");
        assert_eq!(alone(|calls| if calls < 85 { 220 - 2 * u64::from(calls) } else { 50 }), 288);
        assert_eq!(alone(|calls| 1_000_000 / u64::from(calls)), 576, "it never ends");
    }

    /// A trial whose calls here and by the MPI take so long in each comparison; gives the number of calls, and what was decided.
    fn decided(times: [[u64; 2]; 2]) -> (u32, Option<u8>) {
        let mut open = Open { compared_from: Some(0), ..Open::new() };
        for calls in 1..1000 {
            let step = open.step();
            open.calls += 1;
            let Step::Both(i) = step else { continue };
            if ![EARLY * BATCH, BATCHES * BATCH].contains(&(i + 1)) {
                continue;
            }
            let [ours, theirs] = times[usize::from(open.is_second)];
            let found = of(&[ours; 4], &[theirs; 4]);
            if let Some(verdict) = open.compared(i + 1, found) {
                return (calls, Some(verdict));
            }
        }
        (1000, None)
    }

    #[test]
    fn what_is_faster_here_is_compared_twice() {
        let (once, again) = (WARM_UPS + EARLY * BATCH, SETTLING + EARLY * BATCH);
        let (faster, slower) = ([50, 100], [100, 50]);
        assert_eq!(decided([faster, faster]), (once + again, Some(OURS)));
        assert_eq!(decided([faster, slower]), (once + again, Some(THEIRS)), "the first was chance");
        assert_eq!(decided([slower, faster]), (once, Some(THEIRS)), "there is no second");
    }

    #[test]
    fn sizes_of_a_class_differ_by_less_than_a_factor_of_two() {
        let of = |bytes| class(Some(bytes));
        assert_eq!([0, 1, 2, 3, 4, 5, 8, 9, 1 << 20].map(of), [0, 0, 1, 2, 2, 3, 3, 4, 20]);
        assert_eq!((of(usize::MAX), class(None)), (64, 65));
    }
}
