//! `CIRCULANT_MPI_TAKE=auto`: a communicator's first calls of each operation and size run here and by the MPI in turn; what was faster
//! then is what all later ones take.
//!
//! All ranks must decide alike, but each has measured times of its own, and one that others wait for has measured the least. So the last
//! call of a trial ends with the greatest times of all ranks, by a reduction here: all ranks are in that call. Each call of a trial begins
//! with a barrier here, so what is measured is the operation and not how late ranks come. Which call is how far is known alike, as the
//! collectives of a communicator have one order at all its ranks.

use crate::report::Operation;
use circulant::{Communicator, Result, ops};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// Calls of a trial: even ones run here, odd ones by the MPI. The first of each only warms up, and the least time of the others counts.
const CALLS: u32 = 8;
const WARM_UPS: u32 = 2;
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
    /// The least time here, and that of the MPI, in nanoseconds.
    least: [AtomicU64; 2],
}

const OPEN: u8 = 0;
const OURS: u8 = 1;
const THEIRS: u8 = 2;

impl Class {
    const fn new() -> Self {
        Self {
            verdict: AtomicU8::new(OPEN),
            calls: AtomicU32::new(0),
            least: [AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)],
        }
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

/// Whether calls are taken, by the greatest times here and of the MPI: if it saves more than 5 %.
fn takes([ours, theirs]: [u64; 2]) -> bool {
    ours.saturating_mul(20) < theirs.saturating_mul(19)
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

    /// The call has ended. The last of a trial is collective: it decides.
    ///
    /// # Errors
    /// Those of an allreduce.
    pub(crate) fn ended(&self, comm: &Communicator, trial: Trial) -> Result<()> {
        let time = u64::try_from(trial.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let found = self.class(trial.operation, trial.class);
        if trial.number >= WARM_UPS {
            found.least[usize::from(!trial.is_ours())].fetch_min(time, Relaxed);
        }
        if trial.number + 1 < CALLS {
            return Ok(());
        }
        let (mine, mut all) = (found.least.each_ref().map(|least| least.load(Relaxed)), [0; 2]);
        comm.allreduce(&mine, &mut all, ops::Max)?;
        found.verdict.store(if takes(all) { OURS } else { THEIRS }, Relaxed);
        note(trial.operation, trial.class, all);
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
    fn what_saves_no_more_than_a_twentieth_stays_with_the_mpi() {
        assert!(takes([94, 100]) && !takes([95, 100]) && !takes([100, 100]) && !takes([0, 0]));
        assert!(!takes([u64::MAX, 1]) && takes([1, u64::MAX]));
    }

    #[test]
    fn sizes_of_a_class_differ_by_less_than_a_factor_of_two() {
        let of = |bytes| class(Some(bytes));
        assert_eq!([0, 1, 2, 3, 4, 5, 8, 9, 1 << 20].map(of), [0, 0, 1, 2, 2, 3, 3, 4, 20]);
        assert_eq!((of(usize::MAX), class(None)), (64, 65));
    }
}
