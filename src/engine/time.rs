//! Timers of waits. No clock is read here: the time is a parameter, and the next time of interest a result.

use crate::config::FOR_EVER;
use std::time::{Duration, Instant};

/// When a rank that waits for another tells it in which call, for the first time: the other rank compares the call with
/// its own. Chosen: longer than ranks are apart in calls that match, and short for a person;
/// `a_rank_that_is_awaited_is_told_at_intervals` shows both times.
const TELL_AFTER: Duration = Duration::from_millis(200);
/// The interval from then on. Chosen: a message in 5 s loads no wire.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// When a rank that waits sends a status query to all ranks: ranks whose calls do not match may all be waiting. Chosen.
/// `answers_are_asked_for_before_they_are_needed` shows both times.
const QUERY_AFTER: Duration = Duration::from_secs(10);
/// Ranks of a world in which a query is sent so soon, at most; among more it is sent later in proportion, as each rank takes the answers of all p from each
/// of its 2⌈log₂ p⌉ neighbours. Chosen: 4000 messages.
const SOON_RANKS: u32 = 256;
/// How long before they are used the answers to a status query are requested. Chosen: far longer than ⌈log₂ p⌉ hops
/// take; what has not come by then is missing in the warning.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// How long at most a rank lingers before it closes, so that its messages leave and the others learn of the error.
/// Chosen: shorter than `SUSPICION`, in which the others wait for that news; `lingering_ends` shows it.
const LINGER: Duration = Duration::from_millis(400);
/// After the last message was posted, how long the provider gets to deliver it. Chosen: 30 times the latency of the
/// slowest wire that is emulated (1 ms); `lingering_ends` shows it.
pub(super) const SETTLE: Duration = Duration::from_millis(30);

/// What the time between two looks counts for at most where it is said how long a rank is doubted. Chosen: some ten times what a wait that has the
/// processor lets pass.
const LOOK: Duration = Duration::from_millis(50);

/// Time since an event, counted from the first look at it: code that records events reads no clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Since(Option<Instant>);

impl Since {
    pub(super) fn lasts(&mut self, now: Instant) -> Duration {
        now.duration_since(*self.0.get_or_insert(now))
    }
}

/// The same, of which this rank has looked: while it does not run, on a busy machine, others may not either.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watched {
    last: Option<Instant>,
    lasts: Duration,
}

impl Watched {
    pub(super) fn lasts(&mut self, now: Instant) -> Duration {
        let passed = now.duration_since(*self.last.get_or_insert(now));
        self.last = Some(now);
        self.lasts += passed.min(LOOK);
        self.lasts
    }
}

/// How long a rank waits in a world of `size` ranks before it asks all.
pub(super) fn query_after(size: u32) -> Duration {
    QUERY_AFTER * many(size)
}

/// How many times as late or as seldom all ranks of a world of `size` are asked.
pub(super) fn many(size: u32) -> u32 {
    (size / SOON_RANKS).max(1)
}

/// The timers of one wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alarms {
    deadline: Duration,
    warn_after: Duration,
    since: Instant,
    tell_at: Instant,
    ask_at: Instant,
    warn_at: Instant,
    give_up: Instant,
}

/// Timers that have expired; to be served in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    /// Tell the rank that we wait for.
    pub(super) tell: bool,
    /// Send a status query to all.
    pub(super) ask: bool,
    /// End the wait.
    pub(super) give_up: bool,
    /// Warn for which ranks we wait, and that for so long.
    pub(super) warn: Option<Duration>,
}

impl Alarms {
    /// The timers of a wait that begins `now`. `ask_after`: [`query_after`].
    pub(super) fn new(
        now: Instant,
        (deadline, warn_after): (Duration, Duration),
        ask_after: Duration,
    ) -> Self {
        let mut alarms = Self {
            deadline,
            warn_after,
            since: now,
            tell_at: now + (deadline / 8).min(TELL_AFTER),
            ask_at: now + ask_after,
            warn_at: now + warn_after,
            give_up: now + deadline,
        };
        alarms.ask_at = alarms.ask_at.min(alarms.before_use());
        alarms
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Instant {
        self.tell_at.min(self.ask_at).min(self.warn_at).min(self.give_up)
    }

    /// The timers that have expired by `now`. Intervals that were slept through are not made up for.
    pub(super) fn due(&mut self, now: Instant) -> Due {
        let mut due = Due { tell: now >= self.tell_at, ask: now >= self.ask_at, ..Due::default() };
        if due.tell {
            self.tell_at = now + TELL_EVERY;
        }
        if due.ask {
            self.asked(now);
        }
        due.give_up = now >= self.give_up;
        if now >= self.warn_at && !due.give_up {
            due.warn = Some(now.duration_since(self.since));
            self.warn_at = now + self.warn_after;
            self.ask_at = self.before_use().max(now);
        }
        due
    }

    /// When to send the query, for answers to be there when they are next used.
    fn before_use(&self) -> Instant {
        let before = |at: Instant| at - (at.duration_since(self.since) / 4).min(ANSWER_TIME);
        before(self.warn_at).min(before(self.give_up))
    }

    /// The query is sent now: what uses the answers waits for them.
    fn asked(&mut self, now: Instant) {
        let soonest = now + (self.deadline / 4).min(ANSWER_TIME);
        self.warn_at = self.warn_at.max(soonest);
        self.give_up = self.give_up.max(soonest);
        let used_soon = self.warn_at.min(self.give_up) <= now + 2 * ANSWER_TIME;
        self.ask_at = if used_soon { now + FOR_EVER } else { self.before_use() };
    }
}

/// The time that a rank lingers before it closes.
#[derive(Debug)]
pub(super) struct Linger {
    end: Instant,
    all_sent: Since,
}

impl Linger {
    /// It begins `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self { end: now + LINGER, all_sent: Since::default() }
    }

    /// Whether it is over, if messages are left to be sent, or none.
    pub(super) fn is_over(&mut self, now: Instant, left: bool) -> bool {
        now >= self.end || !left && self.all_sent.lasts(now) > SETTLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn time_without_a_look_counts_for_little() {
        let (start, mut doubt) = (Instant::now(), Watched::default());
        let mut at = |milliseconds| doubt.lasts(start + Duration::from_millis(milliseconds)).as_millis();
        assert_eq!([0, 4, 14, 1014, 1016].map(&mut at), [0, 4, 14, 64, 66]);
    }

    /// When a wait asks, warns and gives up, in milliseconds since its begin, before `end`; each alarm is heard in time.
    fn course(
        deadline: Duration,
        warn_after: Duration,
        end: Duration,
    ) -> (Vec<u128>, Vec<u128>, Option<u128>) {
        let start = Instant::now();
        let mut alarms = Alarms::new(start, (deadline, warn_after), QUERY_AFTER);
        let (mut asks, mut warns) = (Vec::new(), Vec::new());
        while alarms.next() < start + end {
            let now = alarms.next();
            let due = alarms.due(now);
            assert_ne!(due, Due::default(), "woken for nothing");
            let at = (now - start).as_millis();
            asks.extend(due.ask.then_some(at));
            warns.extend(due.warn.map(|since| since.as_millis()));
            if due.give_up {
                return (asks, warns, Some(at));
            }
        }
        (asks, warns, None)
    }

    #[test]
    fn answers_are_asked_for_before_they_are_needed() {
        let hour = 60 * MINUTE;
        // No deadline: a question after 10 s, then one before each warning.
        let minutes = 2 * MINUTE + SECOND;
        assert_eq!(
            course(FOR_EVER, MINUTE, minutes),
            (vec![10_000, 59_000, 119_000], vec![60_000, 120_000], None)
        );
        assert_eq!(course(FOR_EVER, FOR_EVER, hour), (vec![10_000], vec![], None));
        // Before the end, by a second or a quarter of the wait.
        assert_eq!(course(4 * SECOND, MINUTE, hour), (vec![3000], vec![], Some(4000)));
        assert_eq!(course(SECOND, FOR_EVER, hour), (vec![750], vec![], Some(1000)));
        assert_eq!(
            course(61 * SECOND, MINUTE, hour),
            (vec![10_000, 59_000, 60_000], vec![60_000], Some(61_000))
        );
        // Warnings that come as fast as answers.
        let (_, warns, _) = course(FOR_EVER, SECOND, 10 * SECOND);
        assert!(warns.len() > 4, "{warns:?}");
    }

    #[test]
    fn deadlines_are_kept_to_the_nanosecond() {
        for deadline in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(7), 3 * MINUTE] {
            let start = Instant::now();
            let mut alarms = Alarms::new(start, (deadline, FOR_EVER), QUERY_AFTER);
            let end = loop {
                let now = alarms.next();
                if alarms.due(now).give_up {
                    break now;
                }
            };
            assert_eq!(end - start, deadline);
        }
    }

    /// A process that was stopped beyond its deadline still asks, and gives answers their time.
    #[test]
    fn a_wait_that_is_looked_at_late_asks_before_it_gives_up() {
        let start = Instant::now();
        let (mut alarms, late) =
            (Alarms::new(start, (20 * SECOND, MINUTE), QUERY_AFTER), start + 30 * SECOND);
        assert_eq!(alarms.due(late), Due { tell: true, ask: true, ..Due::default() });
        assert_eq!(alarms.next(), late + ANSWER_TIME);
        assert!(alarms.due(late + ANSWER_TIME).give_up);
    }

    /// A year of warnings, then a sleep until all of 100 years are over.
    #[test]
    fn a_wait_of_a_hundred_years_warns_each_minute() {
        const DAYS: u32 = if cfg!(miri) { 1 } else { 365 };
        let start = Instant::now();
        let mut alarms = Alarms::new(start, (FOR_EVER, MINUTE), QUERY_AFTER);
        let (mut asks, mut warns) = (0u32, 0u32);
        let day = 24 * 60 * MINUTE;
        while alarms.next() <= start + day * DAYS {
            let due = alarms.due(alarms.next());
            assert!(!due.give_up);
            asks += u32::from(due.ask);
            if let Some(since) = due.warn {
                warns += 1;
                assert_eq!(since, MINUTE * warns);
            }
        }
        // One question after 10 s, and one before each warning.
        assert_eq!((warns, asks), (DAYS * 24 * 60, DAYS * 24 * 60 + 1));
        // The processes were stopped meanwhile: what was missed is said once, after all are asked.
        let late = alarms.due(start + FOR_EVER - MINUTE);
        assert_eq!(late, Due { tell: true, ask: true, ..Due::default() });
        let mut last = Vec::new();
        let end = loop {
            let now = alarms.next();
            let due = alarms.due(now);
            last.extend(due.warn);
            if due.give_up {
                break now;
            }
        };
        assert_eq!(last, [FOR_EVER - MINUTE + ANSWER_TIME]);
        assert_eq!(end, start + FOR_EVER);
    }

    #[test]
    fn a_rank_that_is_awaited_is_told_at_intervals() {
        let start = Instant::now();
        let mut alarms = Alarms::new(start, (FOR_EVER, FOR_EVER), QUERY_AFTER);
        let mut told = Vec::new();
        while alarms.next() <= start + 16 * SECOND {
            let now = alarms.next();
            if alarms.due(now).tell {
                told.push((now - start).as_millis());
            }
        }
        assert_eq!(told, [200, 5200, 10_200, 15_200]);
        // Where that would be late for a short deadline it is told sooner.
        assert_eq!(
            Alarms::new(start, (80 * SETTLE / 100, FOR_EVER), QUERY_AFTER).next(),
            start + SETTLE / 10
        );
    }

    #[test]
    fn many_ranks_are_asked_later() {
        assert_eq!([2, 256, 511].map(query_after), [QUERY_AFTER; 3]);
        assert_eq!(query_after(1024), 4 * QUERY_AFTER);
        assert_eq!(([2, 511].map(many), many(1024), many(1 << 20)), ([1, 1], 4, 4096));
    }

    /// How long a rank lingers that looks each millisecond, and whose last message leaves after `sent`.
    fn lingers(sent: Option<Duration>) -> Duration {
        let start = Instant::now();
        let mut linger = Linger::new(start);
        let mut after = Duration::ZERO;
        while !linger.is_over(start + after, sent.is_none_or(|sent| after < sent)) {
            after += Duration::from_millis(1);
        }
        after
    }

    #[test]
    fn lingering_ends() {
        let ms = Duration::from_millis;
        assert_eq!(lingers(Some(ms(0))), ms(31), "all has left: the provider moves it");
        assert_eq!(lingers(Some(ms(100))), ms(131));
        assert_eq!(lingers(Some(ms(390))), ms(400));
        assert_eq!(lingers(None), ms(400), "it cannot be sent");
    }

    #[test]
    fn what_lasts_begins_when_it_is_looked_at() {
        let start = Instant::now();
        let mut since = Since::default();
        assert_eq!(since.lasts(start + MINUTE), Duration::ZERO);
        assert_eq!(since.lasts(start + 3 * MINUTE), 2 * MINUTE);
    }
}
