//! Waits that nothing ends but the time: deadlines, questions, suspicion, lingering. The time is virtual.

use super::*;
use crate::engine::waiting::{HOOKED_REST, LONG_REST, LONGEST_NAP, longest_nap};
use crate::plan::barrier::dissemination::Barrier;

/// Not that which counts as completed from the start.
const CALL: u32 = 7;
const SECOND: Duration = Duration::from_secs(1);
/// How long an engine goes on talking when all its messages have left.
const TALKS: Duration = Duration::from_millis(31);
/// As long as a wait rests, and as processes are not looked at.
const COARSE: Duration = Duration::from_millis(20);

/// More turns than any wait here takes.
const MANY: u32 = 100_000;

/// A rank in a barrier.
struct Waits {
    engine: Engine,
    slot: u8,
    waiting: Waiting,
    begun: Instant,
    _memory: (Arena, Vec<Block>),
}

impl Waits {
    fn new(mut engine: Engine, deadline: Duration) -> Self {
        let (size, arena) = (engine.size(), Arena::default());
        let (t, binding, blocks) = task(&mut engine, &arena, &Barrier::new(size).unwrap(), 0);
        let slot = engine.start(t, meta(CALL), binding).unwrap();
        let begun = engine.clock.now();
        Self { engine, slot, waiting: Waiting::new(meta(CALL), deadline), begun, _memory: (arena, blocks) }
    }

    fn so_far(&self) -> Duration {
        self.engine.clock.now() - self.begun
    }

    fn turn(&mut self) -> Result<bool> {
        self.engine.turn(self.slot, &mut self.waiting)
    }

    /// Waits on until `end` since the begin, in vain.
    fn until(&mut self, end: Duration) {
        while self.so_far() < end {
            assert!(!self.turn().unwrap(), "the others have not come");
            assert!(self.waiting.turns() < MANY, "the time stands still");
        }
    }

    /// The error that ends the wait, and after what time.
    fn ends(&mut self) -> (Error, Duration) {
        loop {
            if let Err(e) = self.turn() {
                return (e, self.so_far());
            }
            assert!(self.waiting.turns() < MANY, "it does not end");
        }
    }
}

/// The first of two ranks waits, the other one does nothing.
fn alone(deadline: Duration) -> (Waits, Engine) {
    let mut two = engines(2, 1000, Borrow::Direct);
    let other = two.remove(1);
    (Waits::new(two.remove(0), deadline), other)
}

#[test]
fn a_deadline_passes_to_the_nanosecond() {
    for deadline in [Duration::ZERO, Duration::from_nanos(10_000_001), SECOND / 3, 12 * SECOND] {
        let (mut waits, _other) = alone(deadline);
        let (e, after) = waits.ends();
        assert_eq!(e.kind(), ErrorKind::Timeout, "{e}");
        assert_eq!(after, deadline + TALKS, "{e}");
    }
}

/// A rank that only asks has a deadline, too. It begins anew when an operation moves, but not with what the rank says itself.
#[test]
fn the_deadline_of_questions_begins_anew_when_something_moves() {
    let (mut waits, mut other) = alone(10 * SECOND);
    let (clock, arena, barrier) = (waits.engine.clock.clone(), Arena::default(), Barrier::new(2).unwrap());
    for sequence in 8..=12 {
        for _ in 0..9 {
            assert!(!waits.engine.test(waits.slot, &mut waits.waiting).unwrap());
            clock.sleep(SECOND);
        }
        let both = [&mut waits.engine, &mut other];
        let mut slots = both.map(|engine| {
            let (t, binding, blocks) = task(engine, &arena, &barrier, 0);
            (engine.start(t, meta(sequence), binding).unwrap(), blocks)
        });
        for engine in [&mut other, &mut waits.engine] {
            engine.progress().unwrap();
        }
        for (engine, (slot, _)) in [&mut waits.engine, &mut other].into_iter().zip(&mut slots) {
            assert!(engine.test(*slot, &mut Waiting::new(meta(sequence), FOR_EVER)).unwrap());
            engine.leave(*slot).unwrap();
        }
    }
    let last = waits.so_far();
    let mut asked = 0;
    let e = loop {
        match waits.engine.test(waits.slot, &mut waits.waiting) {
            Ok(done) => assert!(!done),
            Err(e) => break e,
        }
        asked += 1;
        assert!(asked < 1000, "no end of asking");
        clock.sleep(SECOND / 10);
    };
    assert_eq!(e.kind(), ErrorKind::Timeout, "{e}");
    assert_eq!(waits.so_far() - last, 10 * SECOND + TALKS);
}

/// All ask after 10 s: one question is enough for all. Then one before each warning.
#[test]
#[cfg_attr(miri, ignore = "50 000 turns")]
fn questions_are_asked_once_for_all_and_before_they_are_needed() {
    let mut world = engines(4, 1000, Borrow::Direct);
    world.iter_mut().for_each(|engine| engine.core.setup.warn_after = 30 * SECOND);
    let _late = world.pop();
    let mut all: Vec<_> = world.into_iter().map(|engine| Waits::new(engine, FOR_EVER)).collect();
    let mut asked = Vec::new();
    while all[0].so_far() < 65 * SECOND {
        all.iter_mut().for_each(|waits| assert!(!waits.turn().unwrap()));
        if all[0].engine.core.query_round as usize > asked.len() {
            asked.push(all[0].so_far().as_secs_f64().round());
        }
    }
    assert_eq!(asked, [10.0, 29.0, 59.0]);
    let waiting = all[0].waiting;
    let said = all[0].engine.warning(&waiting, 60 * SECOND).unwrap();
    assert!(said.contains("rank 3 has not come to test #7 for 60 s"), "{said}");
    assert_eq!(all[1].engine.warning(&waiting, 60 * SECOND), None, "rank 0 says it");
}

#[test]
fn a_lost_rank_is_named_when_no_news_explains_it() {
    let (mut waits, _other) = alone(FOR_EVER);
    waits.until(SECOND);
    waits.engine.core.lost(Some(1), "reset");
    let (e, after) = waits.ends();
    assert_eq!((e.kind(), e.peer()), (ErrorKind::PeerLost, Some(1)), "{e}");
    let suspected = after - TALKS - SECOND;
    let least = Duration::from_millis(600);
    assert!(least <= suspected && suspected <= least + 2 * COARSE, "{suspected:?}");
}

/// Its connection breaks first, then another rank tells why.
#[test]
fn news_that_comes_in_time_is_the_reason() {
    // Also of a connection that broke while this rank computed: the news may lie there unread as well.
    for computes in [Duration::ZERO, 3600 * SECOND] {
        let mut three = engines(3, 1000, Borrow::Direct);
        let (mut teller, _lost) = (three.pop().unwrap(), three.pop());
        let mut waits = Waits::new(three.remove(0), FOR_EVER);
        waits.engine.core.lost(Some(1), "reset");
        waits.engine.clock.sleep(computes);
        waits.until(computes + SECOND / 2);
        let abort = Message::Abort {
            origin: 1,
            culprit: NONE,
            ended: false,
            kind: kind_code(ErrorKind::Argument),
            mark: Mark::default(),
            round: NONE,
            text: "root 9 is out of range".to_owned(),
        };
        teller.send(0, &abort).unwrap();
        let (e, after) = waits.ends();
        assert_eq!(e.kind(), ErrorKind::Argument, "after {computes:?}: {e}");
        assert!(after - computes < SECOND / 2 + TALKS + COARSE, "{after:?}");
    }
}

/// What two ranks called otherwise is compared in words; a rank that has no words for it does not answer.
#[test]
fn a_disagreement_is_raised_without_an_answer() {
    let (mut waits, mut other) = alone(FOR_EVER);
    waits.until(SECOND);
    other.send(0, &Message::Awaited { call: meta(CALL).call, code: CODE, hash: 8 }).unwrap();
    let (e, after) = waits.ends();
    assert_eq!(e.kind(), ErrorKind::Mismatch, "{e}");
    let answered = after - TALKS - SECOND;
    assert!(SECOND <= answered && answered <= SECOND + COARSE, "{answered:?}");
}

/// Where all others have closed there is nothing to wait for; where messages cannot leave, not for long.
#[test]
fn an_engine_that_fails_talks_on_for_a_moment() {
    let mut engine = engines(2, 1000, Borrow::Direct).remove(0);
    let clock = engine.clock.clone();
    let start = clock.now();
    engine.fail(Error::new(ErrorKind::System, "the disk is full"));
    assert_eq!(clock.now() - start, TALKS);
}

/// Where a core has hundreds of ranks, they look less often.
#[test]
fn naps_are_longer_where_many_ranks_share_a_core() {
    assert_eq!(
        [(1024, 0), (8, 2), (16, 1), (63, 2)].map(|(p, cores)| longest_nap(p, cores)),
        [LONGEST_NAP; 4]
    );
    assert_eq!([(1024, 2), (usize::MAX, 1)].map(|(p, cores)| longest_nap(p, cores)), [32 * LONGEST_NAP; 2]);
    assert_eq!(longest_nap(1024, 16), 4 * LONGEST_NAP);
}

/// Short naps grow with the wait, where they are wanted, and the transport does not sleep until something comes.
#[test]
fn long_waits_nap() {
    for case in 0..8 {
        let [naps, hooked, wakes] = [1, 2, 4].map(|bit| case & bit != 0);
        let (mut waits, _other) = alone(FOR_EVER);
        waits.engine.limits.as_mut().unwrap().wakes = wakes;
        waits.engine.longest_nap = if naps { LONGEST_NAP } else { Duration::ZERO };
        waits.until(11 * SECOND);
        if hooked {
            waits.engine.rest_briefly();
        }
        let (before, turns) = (waits.so_far(), 10);
        (0..turns).for_each(|_| assert!(!waits.turn().unwrap()));
        let rest = match (hooked, naps && !wakes) {
            (true, _) => HOOKED_REST,
            (false, true) => LONGEST_NAP,
            (false, false) => LONG_REST,
        };
        let case = format!("naps: {naps}, with a hook: {hooked}, a transport that wakes: {wakes}");
        assert_eq!(waits.so_far() - before, rest * turns, "{case}");
    }
}

/// Without a deadline nothing that passes an hour ends a wait: not the alarms, nor the questions, nor where it is looked at once a
/// minute, as by a program that only asks.
#[test]
fn a_rank_that_comes_an_hour_late_is_waited_for() {
    let hour = 3600 * SECOND;
    for asks in [false, true] {
        let (mut waits, mut late) = alone(FOR_EVER);
        waits.engine.core.setup.warn_after = 1000 * SECOND;
        // Past the first question, turn by turn.
        waits.until(15 * SECOND);
        let clock = waits.engine.clock.clone();
        while waits.so_far() < hour {
            clock.sleep(60 * SECOND);
            let done = match asks {
                true => waits.engine.test(waits.slot, &mut waits.waiting),
                false => waits.turn(),
            };
            assert!(!done.unwrap(), "rank 1 has not come");
        }
        late.clock = clock;
        let mut late = Waits::new(late, FOR_EVER);
        let mut left = 1000;
        while !(waits.turn().unwrap() & late.turn().unwrap()) {
            left -= 1;
            assert!(left > 0, "both are there");
        }
        assert!(waits.so_far() >= hour);
    }
}

/// A message of no operation that the wire did not take leaves between calls where a thread looks after it.
#[test]
fn what_is_queued_leaves_between_calls() {
    let [mut engine, mut other]: [Engine; 2] = engines(2, 1000, Borrow::Direct).try_into().unwrap();
    assert!(!engine.nudge().unwrap(), "there is nothing to do");
    engine.core.queue(1, Message::Query { origin: 0, round: 1 });
    assert!(engine.core.idle());
    assert!(engine.nudge().unwrap());
    assert!(engine.core.outbox.is_empty() && !engine.nudge().unwrap());
    other.progress().unwrap();
    assert_eq!(other.core.query_round, 1, "it has come");
    // One that is never taken is tried again, but is not worth a busy loop.
    let faults = sim::Faults { refuse: 255, seed: 5, ..sim::Faults::default() };
    let flow = Flow {
        window: 1000,
        acknowledged: 1000,
        bandwidth_bound: u64::MAX,
        order_timeout: Duration::from_millis(1),
    };
    let mut engine = engines_on(2, flow, &faults, true).remove(0);
    engine.core.queue(1, Message::Query { origin: 0, round: 1 });
    let mut tries = 0;
    while !engine.nudge().unwrap() {
        tries += 1;
        assert!(tries < 100_000 && !engine.core.outbox.is_empty());
    }
    assert!(tries > 0 && engine.core.outbox.is_empty());
}

#[test]
fn an_idle_engine_that_looks_at_the_wire_finds_what_came_unasked() {
    let [mut engine, mut other]: [Engine; 2] = engines(2, 1000, Borrow::Direct).try_into().unwrap();
    other.core.queue(0, Message::Query { origin: 1, round: 1 });
    assert_eq!(other.nudge_or_poll().unwrap(), (true, true));
    assert!(other.core.outbox.is_empty(), "what is queued leaves at once");
    assert_eq!(engine.nudge_or_poll().unwrap(), (true, true));
    assert_eq!(engine.core.query_round, 1);
}
