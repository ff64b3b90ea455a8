//! The time that an engine goes by: the system's, or a virtual one, in which tests wait for hours at once; and counts of ticks, which
//! are cheaper to read than the time.

use crate::record::Reading;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What an engine reads the time from and sleeps by; the default is the system's monotonic clock.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Virtual>);

/// A thread's part in a virtual time.
#[derive(Clone, Debug)]
struct Virtual {
    shared: Arc<Shared>,
    thread: usize,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    now: Instant,
    threads: Vec<Thread>,
    turns: Option<Turns>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thread {
    Runs,
    SleepsUntil(Instant),
    /// The time does not wait for it.
    Left,
}

/// Threads of which one runs at a time, in an order that follows from a seed.
#[derive(Debug)]
struct Turns {
    random: u64,
    /// Threads that have not entered yet: until all have, all run.
    outside: Vec<bool>,
    running: Option<usize>,
    /// Threads that wait for their turns.
    parked: Vec<Option<std::thread::Thread>>,
    /// Turns so far, and a digest of their order and times.
    count: u64,
    digest: u64,
}

/// What a look at the wire takes in a virtual time of turns: so it goes on also where no thread sleeps. Chosen: like a network of some 10 us.
const LOOK: Duration = Duration::from_micros(10);
/// Of so many looks one ends a turn. Chosen: it mixes ranks well, and leaves threads time between the system's switches.
const LOOKS_PER_TURN: u64 = 4;

impl Turns {
    /// SplitMix64.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

impl State {
    /// Whether threads run in turns by now.
    fn in_turns(&self) -> bool {
        self.turns.as_ref().is_some_and(|turns| !turns.outside.contains(&true))
    }

    /// Gives the turn to a thread that runs; the time goes on if all sleep.
    fn pass(&mut self) {
        self.advance();
        let runs = |thread: &Thread| *thread == Thread::Runs;
        let count = self.threads.iter().filter(|thread| runs(thread)).count() as u64;
        let Some(turns) = &mut self.turns else { return };
        turns.running = None;
        if count == 0 {
            return;
        }
        let nth = usize::try_from(turns.draw() % count).unwrap_or(0);
        let ready = self.threads.iter().enumerate().filter(|(_, thread)| runs(thread));
        turns.running = ready.map(|(i, _)| i).nth(nth);
        turns.count += 1;
        let who = turns.running.map_or(0, |i| i as u64 + 1);
        turns.digest = (turns.digest ^ who).wrapping_mul(0x100_0000_01B3);
    }

    /// When all threads sleep, the time becomes that of the first that wakes up.
    fn advance(&mut self) {
        let ends = self.threads.iter().filter_map(|thread| match thread {
            Thread::SleepsUntil(end) => Some(*end),
            _ => None,
        });
        if let Some(first) = ends.min().filter(|_| !self.threads.contains(&Thread::Runs)) {
            self.move_to(first);
        }
    }

    fn move_to(&mut self, now: Instant) {
        self.now = self.now.max(now);
        for thread in &mut self.threads {
            if matches!(thread, Thread::SleepsUntil(end) if *end <= self.now) {
                *thread = Thread::Runs;
            }
        }
    }
}

impl Clock {
    /// The clocks of this many threads in one virtual time. It stands still while one of them runs, and goes on to the first
    /// end of a sleep when all of them sleep. (A thread that blocks elsewhere runs: another that sleeps meanwhile does so in real
    /// time, and takes the virtual time along.)
    #[must_use]
    pub fn group(threads: usize) -> Vec<Self> {
        Self::of(threads, None)
    }

    /// The same of threads that run in turns from when all of them have [entered](Clock::enter) on: which one runs follows from
    /// the seed, so what they do is the same each time. Each [look](Clock::look) takes a moment of this time.
    #[must_use]
    pub fn group_in_turns(threads: usize, seed: u64) -> Vec<Self> {
        let (outside, parked) = (vec![true; threads], vec![None; threads]);
        Self::of(threads, Some(Turns { random: seed, outside, running: None, parked, count: 0, digest: 0 }))
    }

    fn of(threads: usize, turns: Option<Turns>) -> Vec<Self> {
        let state = State { now: Instant::now(), threads: vec![Thread::Runs; threads], turns };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        (0..threads).map(|thread| Self(Some(Virtual { shared: Arc::clone(&shared), thread }))).collect()
    }

    /// This thread runs only in its turns from when all have come here on.
    pub fn enter(&self) {
        if let Some(time) = &self.0 {
            time.enter();
        }
    }

    /// This thread has looked at what comes from others: its turn may be over.
    pub fn look(&self) {
        if let Some(time) = &self.0 {
            time.look();
        }
    }

    /// How many turns there were, and a digest of their order.
    #[must_use]
    pub fn turns(&self) -> (u64, u64) {
        let state = self.0.as_ref().map(Virtual::state);
        let turns = state.as_ref().and_then(|state| state.turns.as_ref());
        turns.map_or((0, 0), |turns| (turns.count, turns.digest))
    }

    /// Whether this is not the system's clock.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        self.0.is_some()
    }

    /// The time. Times of different groups, or of a group and the system, have nothing to do with each other.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.0.as_ref().map_or_else(Instant::now, |time| time.state().now)
    }

    /// Counts that follow this clock.
    pub(crate) fn ticks(&self) -> Ticks {
        Ticks(match &self.0 {
            Some(time) => Source::Virtual(time.clone(), time.state().now),
            None if counter_is_steady() => Source::Counter,
            None => Source::System(Instant::now()),
        })
    }

    /// Sleeps.
    pub fn sleep(&self, length: Duration) {
        match &self.0 {
            None => std::thread::sleep(length),
            Some(time) => time.sleep(length),
        }
    }

    /// From now on a virtual time does not wait for the thread that this clock is of.
    pub fn leave(&self) {
        let Some(time) = &self.0 else { return };
        let mut state = time.state();
        state.threads[time.thread] = Thread::Left;
        if let Some(turns) = &mut state.turns {
            turns.outside[time.thread] = false;
        }
        if state.in_turns() {
            let turns = state.turns.as_ref();
            if turns.is_some_and(|t| t.running.is_none_or(|running| running == time.thread)) {
                state.pass();
                time.wake(state);
            }
            return;
        }
        state.advance();
        time.shared.changed.notify_all();
    }
}

/// A count that grows evenly with the time.
#[derive(Clone, Debug)]
pub(crate) struct Ticks(Source);

#[derive(Clone, Debug)]
enum Source {
    /// The processor's own counter.
    Counter,
    /// Nanoseconds since then.
    System(Instant),
    Virtual(Virtual, Instant),
}

impl Ticks {
    /// Whether these are counts of the processor, [`Ticks::counter`].
    pub(crate) fn is_counter(&self) -> bool {
        matches!(self.0, Source::Counter)
    }

    /// The processor's own count.
    #[inline]
    pub(crate) fn counter() -> u64 {
        counter()
    }

    /// The count now: the processor's is one instruction; else it takes some 25 ns, as long as a look at the clock.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        match &self.0 {
            Source::Counter => counter(),
            other => other.since_start(),
        }
    }

    /// The count now, and the time of day.
    pub(crate) fn reading(&self) -> Reading {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Reading { ticks: self.now(), unix_ns: nanoseconds(unix) }
    }
}

impl Source {
    #[cold]
    fn since_start(&self) -> u64 {
        match self {
            Self::Counter => 0,
            Self::System(start) => nanoseconds(start.elapsed()),
            Self::Virtual(time, start) => nanoseconds(time.state().now - *start),
        }
    }
}

/// Of 584 years at most.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether [`counter`] grows evenly and is the same on all processors. The kernel finds that out, and offers the counter as a source
/// of its clock no longer when it is not.
fn counter_is_steady() -> bool {
    const SOURCES: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    static STEADY: OnceLock<bool> = OnceLock::new();
    let offered =
        || std::fs::read_to_string(SOURCES).is_ok_and(|all| all.split_whitespace().any(|s| s == "tsc"));
    cfg!(all(target_arch = "x86_64", not(miri))) && *STEADY.get_or_init(offered)
}

/// The processor's time-stamp counter.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has this instruction, and it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn counter() -> u64 {
    0
}

impl Virtual {
    fn state(&self) -> MutexGuard<'_, State> {
        // Changed by single assignments: whole even after a panic.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self) {
        let mut state = self.state();
        let Some(turns) = &mut state.turns else { return };
        turns.outside[self.thread] = false;
        if state.in_turns() {
            state.pass();
        }
        self.wait_for_turn(state);
    }

    fn look(&self) {
        let mut state = self.state();
        if !state.in_turns() || state.threads[self.thread] != Thread::Runs {
            return;
        }
        let next = state.now + LOOK;
        state.move_to(next);
        if state.turns.as_mut().is_some_and(|turns| turns.draw().is_multiple_of(LOOKS_PER_TURN)) {
            state.pass();
            self.wait_for_turn(state);
        }
    }

    /// Wakes the thread whose turn it is, where it is not this one. The lock is free then: else it would sleep again, for the lock.
    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let turns = state.turns.as_mut();
        let next = turns.and_then(|Turns { running, parked, .. }| parked.get_mut((*running)?)?.take());
        drop(state);
        if let Some(next) = next {
            next.unpark();
        }
    }

    /// Lets the thread run whose turn it is, until it is this one's.
    fn wait_for_turn<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        while state.threads[self.thread] != Thread::Left
            && let Some(turns) = &mut state.turns
            && turns.running != Some(self.thread)
        {
            turns.parked[self.thread] = Some(std::thread::current());
            self.wake(state);
            std::thread::park();
            state = self.state();
        }
    }

    fn sleep(&self, length: Duration) {
        let mut state = self.state();
        let end = state.now + length;
        if state.in_turns() {
            if state.threads[self.thread] == Thread::Left {
                return;
            }
            state.threads[self.thread] = Thread::SleepsUntil(end);
            state.pass();
            return self.wait_for_turn(state);
        }
        let before = std::mem::replace(&mut state.threads[self.thread], Thread::SleepsUntil(end));
        state.advance();
        self.shared.changed.notify_all();
        while state.now < end {
            let waited = self.shared.changed.wait_timeout(state, length);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if timeout.timed_out() {
                state.move_to(end);
                self.shared.changed.notify_all();
            }
        }
        state.threads[self.thread] = before;
        state.advance();
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn ticks_follow_their_clock() {
        let clock = Clock::group(1).remove(0);
        let ticks = clock.ticks();
        clock.sleep(HOUR);
        assert_eq!(ticks.now(), 3_600_000_000_000);
        let ticks = Clock::default().ticks();
        let first = ticks.reading();
        Clock::default().sleep(Duration::from_millis(1));
        let second = ticks.reading();
        assert!(first.ticks < second.ticks && first.unix_ns <= second.unix_ns, "{first:?} {second:?}");
    }

    #[test]
    fn one_thread_sleeps_without_waiting() {
        let clock = Clock::group(1).remove(0);
        let start = clock.now();
        (0..1000).for_each(|_| clock.sleep(HOUR));
        assert_eq!(clock.now() - start, HOUR * 1000);
        clock.sleep(Duration::ZERO);
        assert_eq!(clock.now() - start, HOUR * 1000);
    }

    /// Threads that sleep for different lengths wake up in the order of time.
    #[test]
    fn time_goes_on_when_all_sleep() {
        let clocks = Clock::group(3);
        let (start, woken) = (clocks[0].now(), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for (i, clock) in clocks.iter().enumerate() {
                let woken = &woken;
                scope.spawn(move || {
                    for _ in 0..6 / (i + 1) {
                        clock.sleep(HOUR * u32::try_from(i + 1).unwrap());
                        woken.lock().unwrap().push((clock.now() - start, i));
                    }
                    clock.leave();
                });
            }
        });
        let mut woken = woken.into_inner().unwrap();
        assert!(woken.is_sorted_by_key(|(at, _)| *at), "{woken:?}");
        woken.sort_unstable();
        let hours: Vec<_> = woken.iter().map(|(at, i)| (at.as_secs() / 3600, *i)).collect();
        let expected =
            [(1, 0), (2, 0), (2, 1), (3, 0), (3, 2), (4, 0), (4, 1), (5, 0), (6, 0), (6, 1), (6, 2)];
        assert_eq!(hours, expected);
    }

    /// A thread that waits for another by other means than this clock is not stuck.
    #[test]
    fn a_thread_that_blocks_elsewhere_does_not_stop_the_time() {
        let clocks = Clock::group(2);
        let (start, length) = (clocks[0].now(), Duration::from_millis(1));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| clocks[1].sleep(length));
            sleeper.join().unwrap();
        });
        assert_eq!(clocks[0].now() - start, length);
    }
}
