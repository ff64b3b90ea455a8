//! `CIRCULANT_MPI_TAKE=auto`: a communicator's first calls of each operation and size run here and by the MPI in turn; what was faster
//! then is what all later ones take.
//!
//! All ranks must decide alike, but each has measured times of its own, and one that others wait for has measured the least. So some calls
//! end with the greatest time of all ranks for each call before, by a reduction here: all ranks are in that call. Of these times the median
//! counts, on a machine with other work, too. Each call of a trial begins
//! with a barrier here, so what is measured is the operation and not how late ranks come. Which call is how far is known alike, as the
//! collectives of a communicator have one order at all its ranks.

use crate::report::Operation;
use circulant::{Communicator, Result, ops};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Calls of a trial, at most: even ones run here, odd ones by the MPI. Where the machine has other work, medians of fewer times went wrong.
const CALLS: u32 = 32;
/// It ends behind these already, where the times leave no doubt.
const EARLY: [u32; 2] = [8, 16];
/// The first of each side only warms up.
const WARM_UPS: u32 = 2;
/// No doubt: the least time of one side is at least this many quarters of the other's greatest. Of three and three times that are alike those of one
/// side are below all of the other's by chance in one of ten trials.
const CLEAR_QUARTERS: u64 = 5;
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
    calls: AtomicU32,
    /// The times here, and those of the MPI, in nanoseconds, while it is open.
    times: Mutex<[Vec<u64>; 2]>,
}

const OPEN: u8 = 0;
const OURS: u8 = 1;
const THEIRS: u8 = 2;

impl Class {
    const fn new() -> Self {
        Self {
            verdict: AtomicU8::new(OPEN),
            calls: AtomicU32::new(0),
            times: Mutex::new([const { Vec::new() }; 2]),
        }
    }

    fn times(&self) -> MutexGuard<'_, [Vec<u64>; 2]> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a call goes.
#[derive(Debug)]
pub(crate) enum Way {
    Ours,
    Theirs,
    Try(Trial),
}

/// A call that is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    operation: Operation,
    class: usize,
    /// Which call of the trial it is.
    number: u32,
    start: Instant,
}

impl Trial {
    pub(crate) fn is_ours(&self) -> bool {
        self.number.is_multiple_of(2)
    }
}

/// The class of a size that all ranks know, if there is one.
fn class(size: Option<usize>) -> usize {
    size.map_or(CLASSES - 1, |bytes| (usize::BITS - bytes.saturating_sub(1).leading_zeros()) as usize)
}

/// Whether calls are taken, by a time here and one of the MPI: if it saves more than 10 %. Medians of short calls that are equally fast
/// differ by so much from trial to trial (bcast of 4 KB, 2 ranks, MPICH 5.0.2: 0.8 to 1.5 us here, 0.8 to 1.5 by the MPI).
fn takes([ours, theirs]: [u64; 2]) -> bool {
    ours.saturating_mul(10) < theirs.saturating_mul(9)
}

/// The medians of as many times on both sides, if these decide: without doubt, or as they are where it is the `last` look.
fn decisive([mut ours, mut theirs]: [Vec<u64>; 2], last: bool) -> Option<[u64; 2]> {
    ours.sort_unstable();
    theirs.sort_unstable();
    let below = |less: &[u64], more: &[u64]| match (less.last(), more.first()) {
        (Some(less), Some(more)) => less.saturating_mul(CLEAR_QUARTERS) <= more.saturating_mul(4),
        _ => false,
    };
    let decides = last || below(&ours, &theirs) || below(&theirs, &ours);
    let median = |sorted: &[u64]| sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    decides.then(|| [median(&ours), median(&theirs)])
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
            _ => comm.barrier()?,
        }
        let number = found.calls.fetch_add(1, Relaxed);
        Ok(Way::Try(Trial { operation, class, number, start: Instant::now() }))
    }

    /// The call has ended. Some are collective here: they decide, or go on trying.
    ///
    /// # Errors
    /// Those of an allreduce.
    pub(crate) fn ended(&self, comm: &Communicator, trial: Trial) -> Result<()> {
        let time = u64::try_from(trial.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let found = self.class(trial.operation, trial.class);
        if trial.number >= WARM_UPS {
            found.times()[usize::from(!trial.is_ours())].push(time);
        }
        let calls = trial.number + 1;
        if calls < CALLS && !EARLY.contains(&calls) {
            return Ok(());
        }
        let mine = found.times().concat();
        let mut slowest = vec![0; mine.len()];
        comm.allreduce(&mine, &mut slowest, ops::Max)?;
        let theirs = slowest.split_off(slowest.len() / 2);
        let Some(medians) = decisive([slowest, theirs], calls >= CALLS) else { return Ok(()) };
        *found.times() = [const { Vec::new() }; 2];
        found.verdict.store(if takes(medians) { OURS } else { THEIRS }, Relaxed);
        note(trial.operation, trial.class, medians);
        Ok(())
    }
}

/// What was chosen, on how many communicators, and the times of the last.
#[derive(Clone, Copy, Debug, Default)]
struct Choice {
    taken: u64,
    passed: u64,
    times: [u64; 2],
}

/// For the report, by operation and class.
static CHOICES: Mutex<Vec<((usize, usize), Choice)>> = Mutex::new(Vec::new());

fn note(operation: Operation, class: usize, times: [u64; 2]) {
    let mut choices = CHOICES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (operation as usize, class);
    let at = choices.binary_search_by_key(&key, |(key, _)| *key).unwrap_or_else(|at| {
        choices.insert(at, (key, Choice::default()));
        at
    });
    let choice = &mut choices[at].1;
    *(if takes(times) { &mut choice.taken } else { &mut choice.passed }) += 1;
    choice.times = times;
}

/// A line for each operation and class that was tried to the end.
pub(crate) fn text() -> String {
    let mut text = String::new();
    for ((operation, class), choice) in CHOICES.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let size = match *class {
            last if last == CLASSES - 1 => "of any size".to_owned(),
            class => format!("of up to {} bytes", 1u128 << class),
        };
        let Choice { taken, passed, times } = choice;
        let [ours, theirs] = times.map(|ns| ns as f64 / 1000.0);
        let _ = writeln!(
            text,
            "circulant: tried {} {size}: taken on {taken} communicators, passed on of {passed}; last {ours:.1} us here, {theirs:.1} us by \
             the MPI",
            Operation::ALL[*operation].name(),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_saves_no_more_than_a_tenth_stays_with_the_mpi() {
        assert!(takes([89, 100]) && !takes([90, 100]) && !takes([100, 100]) && !takes([0, 0]));
        assert!(!takes([u64::MAX, 1]) && takes([1, u64::MAX]));
    }

    #[test]
    fn a_trial_ends_early_only_where_all_times_of_a_side_are_clearly_less() {
        let of = |ours: &[u64], theirs: &[u64], last| decisive([ours.to_vec(), theirs.to_vec()], last);
        assert_eq!(of(&[80, 70, 60], &[110, 100, 900], false), Some([70, 110]));
        assert_eq!(of(&[900, 110, 100], &[60, 80, 70], false), Some([110, 70]));
        assert_eq!(
            of(&[81, 70, 60], &[110, 100, 900], false),
            None,
            "81 and 100 are less than a quarter apart"
        );
        assert_eq!(of(&[60, 900, 60], &[110, 100, 900], false), None, "one call here was slow");
        assert_eq!(of(&[60, 900, 61], &[110, 100, 900], true), Some([61, 110]), "which does not decide");
        assert_eq!(of(&[], &[], true), Some([0, 0]));
    }

    #[test]
    fn sizes_of_a_class_differ_by_less_than_a_factor_of_two() {
        let of = |bytes| class(Some(bytes));
        assert_eq!([0, 1, 2, 3, 4, 5, 8, 9, 1 << 20].map(of), [0, 0, 1, 2, 2, 3, 3, 4, 20]);
        assert_eq!((of(usize::MAX), class(None)), (64, 65));
    }
}
