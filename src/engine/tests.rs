//! The engine against peers that lie, direct algorithms on a narrow window, and calls that fail.

use super::message::{CallId, Mark, Message, NONE, SLOTS, Status, WORD_RAW, WORD_TEST, kind_code, word};
use super::{Directory, Engine, Flow, Liveness, Meta, ProcessState, Setup, Task, Waiting};
use crate::buffer::{Arena, Binding, Block, Grant, Loan, Wire, lend};
use crate::config::FOR_EVER;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::allgatherv::circulant::{Allgatherv, Blocks};
use crate::plan::lower::{WireLimits, lower};
use crate::plan::{NO_COUNTER, Place, Plan, Region, Sizes, Step, Wait};
use crate::transport::{Borrow, Clock, Sink, sim};
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod acknowledgements;
mod closing;
mod late;
mod survivors;
mod waits;
mod warnings;

const CODE: u8 = 1;

fn engines(size: u32, window: u64, borrow: Borrow) -> Vec<Engine> {
    engines_of(
        size,
        Flow {
            window,
            acknowledged: window,
            bandwidth_bound: u64::MAX,
            order_timeout: Duration::from_millis(1),
        },
        borrow,
    )
}

fn engines_of(size: u32, flow: Flow, borrow: Borrow) -> Vec<Engine> {
    engines_on(size, flow, &sim::Faults { borrow, ..sim::Faults::default() }, true)
}

/// Engines that all are neighbours, or none. They are driven by one thread, in a virtual time: each rest of one of them moves
/// it on.
fn engines_on(size: u32, flow: Flow, faults: &sim::Faults, near: bool) -> Vec<Engine> {
    let (wires, clock) = (sim::group(size as usize, faults), Clock::group(1).remove(0));
    let engine = |(rank, wire): (u32, sim::Sim)| {
        let neighbours = (0..size).filter(|r| near && *r != rank).collect();
        let setup = Setup {
            rank,
            size,
            neighbours,
            node_groups: Arc::default(),
            flow,
            warn_after: FOR_EVER,
            names: |_| "test",
            record_events: None,
        };
        let mut engine = Engine::new(setup, Some(Box::new(wire)));
        engine.look_up_in(Box::new(Addresses));
        engine.clock = clock.clone();
        engine
    };
    (0..size).zip(wires).map(engine).collect()
}

#[derive(Debug)]
struct Addresses;

impl Directory for Addresses {
    fn address(&mut self, rank: u32) -> Result<Vec<u8>> {
        Ok(u64::from(rank).to_le_bytes().to_vec())
    }
}

fn meta(sequence: u32) -> Meta {
    Meta { name: "test", code: CODE, call: CallId { comm: 0, sequence }, hash: 7, rounds: 1, bytes: 0 }
}

/// A task of `plan` at the engine's rank, with memory.
fn task(engine: &mut Engine, arena: &Arena, plan: &dyn Plan, light: u64) -> (Box<Task>, Binding, Vec<Block>) {
    let rank = engine.core.setup.rank;
    let program =
        lower(plan, rank, &WireLimits { max_put: u64::MAX, gather: 4, light, ..WireLimits::PLAIN }).unwrap();
    let sizes = plan.sizes(rank);
    let mut blocks = Vec::new();
    let mut bound = |n: u64| {
        let n = usize::try_from(n).unwrap();
        blocks.push(arena.alloc(n, engine.transport()).unwrap());
        blocks.last().unwrap().bound(n)
    };
    let given = [sizes.input, sizes.output].map(&mut bound);
    let binding = Binding::new(given, [program.work, program.land].map(&mut bound));
    (Task::new(Arc::new(program), |r| r), binding, blocks)
}

/// Every rank puts some small pieces to every other: more targets than the circulant graph has.
#[derive(Debug)]
struct Direct(u32);
const PIECES: u32 = 10;
const PIECE: u64 = 20;

impl Plan for Direct {
    fn algorithm(&self) -> &'static str {
        "direct"
    }
    fn size(&self) -> u32 {
        self.0
    }
    fn rounds(&self) -> u32 {
        PIECES * (self.0 - 1)
    }
    fn counters(&self, _: u32) -> u32 {
        PIECES * self.0
    }
    fn sizes(&self, _: u32) -> Sizes {
        let input = u64::from(PIECES) * PIECE;
        Sizes { input, output: input * u64::from(self.0), ..Sizes::default() }
    }
    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let p = self.0;
        Box::new((0..self.rounds()).flat_map(move |round| {
            let (piece, ahead) = (round / (p - 1), round % (p - 1) + 1);
            let (to, from) = ((rank + ahead) % p, (rank + p - ahead) % p);
            let source = Place::new(Region::Input, u64::from(piece) * PIECE);
            let target = |owner| Place::new(Region::Output, u64::from(owner * PIECES + piece) * PIECE);
            let counter = |owner| owner * PIECES + piece;
            [
                Step::put(round, to, source, target(rank), PIECE, Wait::NONE, counter(rank)),
                Step::expect(round, from, source, target(from), PIECE, counter(from)),
            ]
        }))
    }
}

#[test]
fn many_targets_on_a_narrow_window_do_not_starve() {
    let (p, arena) = (30, Arena::default());
    let mut world: Vec<_> = engines(p, 1000, Borrow::Direct)
        .into_iter()
        .map(|mut engine| {
            let arena = Arena::default();
            let (t, binding, blocks) = task(&mut engine, &arena, &Direct(p), 0);
            let slot = engine.start(t, meta(0), binding).unwrap();
            (engine, slot, Waiting::new(meta(0), Duration::from_secs(3600)), (arena, blocks))
        })
        .collect();
    let mut left = 10_000;
    while !world.iter_mut().map(|(e, s, w, _)| e.test(*s, w).unwrap()).fold(true, |a, b| a & b) {
        left -= 1;
        assert!(left > 0, "all wait for all");
    }
    drop((world, arena));
}

/// Rank 0 puts to rank 1: two puts in round 0, which are one message, and one in round 1.
#[derive(Debug)]
struct InRuns {
    /// The second put waits for one of rank 2.
    late: bool,
}
/// Too long for an eager message.
const RUN: u64 = 15_000;
/// Short enough for one.
const WORD: u64 = 8;

impl Plan for InRuns {
    fn algorithm(&self) -> &'static str {
        "in runs"
    }
    fn size(&self) -> u32 {
        if self.late { 3 } else { 2 }
    }
    fn rounds(&self) -> u32 {
        2
    }
    fn counters(&self, _: u32) -> u32 {
        3
    }
    fn sizes(&self, _: u32) -> Sizes {
        Sizes { input: 3 * RUN, output: 3 * RUN + WORD, ..Sizes::default() }
    }
    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let places = |piece| [Region::Input, Region::Output].map(|region| Place::new(region, piece * RUN));
        let word = [Place::new(Region::Input, 0), Place::new(Region::Output, 3 * RUN)];
        if rank == 2 {
            return Box::new(std::iter::once(Step::put(0, 0, word[0], word[1], WORD, Wait::NONE, 2)));
        }
        let awaited = (rank == 0 && self.late).then(|| Step::expect(0, 2, word[0], word[1], WORD, 2));
        // Not in the order in which they lie: they are not made one put.
        let runs = [(0, 2, false), (0, 0, self.late), (1, 1, false)].into_iter();
        let runs = runs.map(move |(round, piece, waits)| {
            let ([source, target], wait) = (places(piece), if waits { Wait::once(2) } else { Wait::NONE });
            match rank {
                0 => Step::put(round, 1, source, target, RUN, wait, round),
                _ => Step::expect(round, 0, source, target, RUN, round),
            }
        });
        Box::new(awaited.into_iter().chain(runs))
    }
}

/// It grows to twice its size for long puts, and two are too many for that.
const NARROW: u64 = RUN * 3 / 4;

fn end(world: &mut [Entered]) {
    let mut left = 100;
    while !world.iter_mut().map(goes_on).fold(true, |a, b| a & b) {
        left -= 1;
        assert!(left > 0, "it does not end");
    }
    assert_eq!(world[0].0.stats().puts, 3);
}

/// What is left of a message does not wait for the acknowledgement of its begin: that stands behind what the peer itself puts, while our link is idle.
#[test]
fn the_window_lets_messages_go_whole() {
    let engines = engines(2, NARROW, Borrow::Direct).into_iter();
    let mut world: Vec<_> = engines.map(|engine| enters(engine, &InRuns { late: false })).collect();
    assert!(!goes_on(&mut world[1]), "nothing has come");
    goes_on(&mut world[0]);
    assert_eq!(world[0].0.stats().puts, 2, "the message, and nothing of the next round");
    end(&mut world);
}

/// Pieces that become ready one after the other do not fill the queues.
#[test]
fn the_window_holds_what_becomes_ready_later() {
    let plan = InRuns { late: true };
    let mut engines = engines(3, NARROW, Borrow::Direct).into_iter();
    let mut world: Vec<_> = engines.by_ref().take(2).map(|engine| enters(engine, &plan)).collect();
    goes_on(&mut world[0]);
    assert_eq!(world[0].0.stats().puts, 1);
    world.extend(engines.map(|engine| enters(engine, &plan)));
    assert!(!goes_on(&mut world[0]));
    assert_eq!(world[0].0.stats().puts, 1, "it is ready, and nothing is acknowledged");
    goes_on(&mut world[1]);
    goes_on(&mut world[0]);
    assert!(world[0].0.stats().puts > 1, "it is acknowledged");
    end(&mut world);
}

/// A rank in an operation, and what its memory is in.
type Entered = (Engine, u8, (Arena, Vec<Block>));

fn enters_an_alltoall(engine: Engine) -> Entered {
    enters(engine, &crate::plan::alltoall::direct::alltoall(3, 64 << 10).unwrap())
}

fn enters(engine: Engine, plan: &dyn Plan) -> Entered {
    enters_as(engine, plan, meta(0))
}

fn enters_as(mut engine: Engine, plan: &dyn Plan, meta: Meta) -> Entered {
    let arena = Arena::default();
    let (t, binding, blocks) = task(&mut engine, &arena, plan, 0);
    let slot = engine.start(t, meta, binding).unwrap();
    (engine, slot, (arena, blocks))
}

fn goes_on((engine, slot, _): &mut Entered) -> bool {
    engine.test(*slot, &mut Waiting::new(meta(0), Duration::from_secs(3600))).unwrap()
}

/// Rank 1 enters late; it comes first in rank 0's order.
#[test]
fn puts_wait_in_order_for_a_rank_that_is_late() {
    let flow = Flow {
        window: 1000,
        acknowledged: 1000,
        bandwidth_bound: u64::MAX,
        order_timeout: Duration::from_secs(3600),
    };
    let mut rest = engines_of(3, flow, Borrow::Direct).into_iter();
    let mut next = || rest.next().unwrap();
    let (first, late, third) = (next(), next(), next());
    let mut world = vec![enters_an_alltoall(first), enters_an_alltoall(third)];
    for _ in 0..1000 {
        assert!(!world.iter_mut().any(goes_on));
    }
    assert_eq!(world[0].0.stats().puts, 0, "rank 2 is served before rank 1 has entered");
    world.push(enters_an_alltoall(late));
    let mut left = 10_000;
    while !world.iter_mut().map(goes_on).fold(true, |a, b| a & b) {
        left -= 1;
        assert!(left > 0, "all wait for all");
    }
}

#[test]
fn puts_do_not_wait_in_order_for_ever() {
    let mut rest = engines(3, 1000, Borrow::Direct).into_iter();
    let mut next = || rest.next().unwrap();
    let (first, _late, third) = (next(), next(), next());
    let mut world = [enters_an_alltoall(first), enters_an_alltoall(third)];
    let clock = world[0].0.clock.clone();
    // As long as puts wait in order.
    clock.sleep(Duration::from_micros(999));
    assert!(!world.iter_mut().any(goes_on));
    assert_eq!(world[0].0.stats().puts, 0, "it is too early");
    clock.sleep(Duration::from_micros(1));
    assert!(!world.iter_mut().any(goes_on));
    assert!(world[0].0.stats().puts > 0, "rank 2 is not served");
}

/// Blocks bound by bandwidth are put one at a time, each when that of the round before has come; shorter ones all at once.
#[test]
fn long_blocks_of_an_alltoall_keep_in_step() {
    const BANDWIDTH_BOUND: u64 = 64 << 10;
    for len in [BANDWIDTH_BOUND - 1, BANDWIDTH_BOUND] {
        let flow = Flow {
            window: 1 << 20,
            acknowledged: 1 << 20,
            bandwidth_bound: BANDWIDTH_BOUND,
            order_timeout: Duration::ZERO,
        };
        let plan = crate::plan::alltoall::direct::alltoall(4, len).unwrap();
        let mut world: Vec<_> =
            engines_of(4, flow, Borrow::Direct).into_iter().map(|engine| enters(engine, &plan)).collect();
        // All ranks are ready for rank 0, and nothing has come to it.
        assert!(!goes_on(&mut world[0]));
        let puts = |entered: &Entered| entered.0.stats().puts;
        assert_eq!(puts(&world[0]), if len < BANDWIDTH_BOUND { 3 } else { 1 }, "{len}");
        for _ in 0..1000 {
            let done = world.iter_mut().map(goes_on).fold(true, |a, b| a & b);
            let (least, most) = (world.iter().map(puts).min(), world.iter().map(puts).max());
            // A rank whose neighbours are all ahead by one is as far as they let it.
            assert!(len < BANDWIDTH_BOUND || most <= least.map(|n| n + 2), "{least:?} to {most:?} puts");
            if done {
                break;
            }
        }
        assert!(world.iter().all(|entered| puts(entered) == 3), "{len}");
    }
}

/// The process of rank 2 has ended.
#[derive(Debug)]
struct Ended;

impl Liveness for Ended {
    fn gone(&mut self) -> Option<(u32, String)> {
        Some((2, "ended".to_owned()))
    }
}

/// Some providers do not come back from a message to such a process, or crash.
#[test]
fn an_error_is_not_told_to_a_process_that_has_ended() {
    let mut three = engines(3, 1000, Borrow::Direct);
    three[0].watch(Box::new(Ended));
    let _ = three[0].fail(Error::new(ErrorKind::PeerLost, "rank 2 is gone").with_peer(2));
    let _ = three[1].progress();
    assert_eq!(three[1].healthy().unwrap_err().peer(), Some(2), "rank 1 is told, and passes it on");
    let _ = three[2].progress();
    assert!(three[2].core.failure.is_none(), "{:?}", three[2].core.failure);
}

#[test]
fn a_process_that_ended_is_named_however_often_that_is_said() {
    let mut engine = engines(3, 1000, Borrow::Direct).remove(0);
    engine.watch(Box::new(Ended));
    // Another connection broke, in consequence.
    engine.core.lost(Some(1), "reset");
    let start = engine.clock.now();
    let named = (0..200).find_map(|i| engine.check_liveness(start + i * Duration::from_millis(10))).unwrap();
    assert_eq!(named.peer(), Some(2), "{named}");
}

#[test]
fn what_failed_is_closed_named_and_never_touched_again() {
    for borrow in [Borrow::Direct, Borrow::Staged] {
        for panics in [false, true] {
            let arena = Arena::default();
            let mut engine = engines(2, 1000, borrow).remove(0);
            let (t, binding, _blocks) = task(&mut engine, &arena, &Direct(2), 0);
            let mut mine = vec![3u8; 5000];
            let mut address = None;
            let mut left = Some(t);
            let result = catch_unwind(AssertUnwindSafe(|| {
                lend(&mut engine, &arena, Loan::Unique { bytes: &mut mine, fill: true }, |engine, lent| {
                    address = Some(lent.grant());
                    let [output, work, land] =
                        [Region::Output, Region::Work, Region::Land].map(|region| *binding.region(region));
                    let binding = Binding::new([lent, output], [work, land]);
                    engine.start(left.take().unwrap(), meta(4), binding)?;
                    assert!(!panics, "a panic in a call");
                    Err::<(), _>(Error::new(ErrorKind::System, "the disk is full").help("buy one"))
                })
            }));
            match result {
                Ok(r) => {
                    let e = r.unwrap_err();
                    assert_eq!((e.message(), e.operation()), ("the disk is full", Some(("test", 4))));
                }
                Err(_) => assert!(panics),
            }
            assert!(engine.transport().is_none(), "the endpoint is closed");
            assert!(mine.iter().all(|x| *x == 3));
            // Words that come late find no operation, and there is nothing left to do.
            engine.core.arrival(word(0, 0));
            let grant = Grant::default();
            let ready = Message::Ready {
                call: meta(4).call,
                word: 0,
                code: CODE,
                hash: 7,
                output: grant,
                land: grant,
            };
            let mut buffer = [0; crate::transport::LONG_MESSAGE_MAX];
            let n = ready.encode(1, &mut buffer);
            engine.core.message(&buffer[..n]);
            assert_eq!(engine.post_ready().unwrap(), 0);
            if borrow == Borrow::Staged {
                // A late put may still land where we staged: that is not handed out again.
                let next = arena.alloc(5000, None).unwrap().bound(1).grant();
                assert_ne!(Some(next), address);
            }
        }
    }
}

/// What a lying peer may do to us.
#[derive(Clone, Debug)]
enum Event {
    Word(u32),
    Done(u64),
    Message(u32, Message),
    Bytes(Vec<u8>),
    Lost(Option<u32>),
    Start(u32),
    Post,
    Ask,
    TimeOut,
}

fn messages() -> impl Strategy<Value = Message> {
    let small = || prop_oneof![6 => 0..6u32, 1 => any::<u32>(), 1 => Just(u32::MAX)];
    let call = || (small(), 0..4u32).prop_map(|(c, sequence)| CallId { comm: u64::from(c / 5), sequence });
    let grant = || any::<(u64, u64)>().prop_map(|(address, key)| Grant { address, key });
    let code = || prop_oneof![3 => Just(CODE), 1 => any::<u8>()];
    let hash = || prop_oneof![5 => Just(7u64), 1 => any::<u64>()];
    let mark = || (any::<u8>(), call()).prop_map(|(code, call)| Mark { code, call });
    prop_oneof![
        (grant(), any::<(u32, u64, u64)>()).prop_map(|(test, (pid, host, agreed))| Message::Hello {
            test,
            pid,
            host,
            agreed
        }),
        (call(), any::<u32>(), code(), hash(), grant(), grant()).prop_map(
            |(call, word, code, hash, output, land)| Message::Ready { call, word, code, hash, output, land }
        ),
        (call(), any::<u32>(), code(), hash()).prop_map(|(call, word, code, hash)| Message::ReadyAgain {
            call,
            word,
            code,
            hash
        }),
        (call(), code(), hash(), small()).prop_map(|(call, code, hash, counter)| Message::Notify {
            call,
            code,
            hash,
            counter
        }),
        (call(), prop_oneof![0..999u64, any::<u64>()]).prop_map(|(call, bytes)| Message::Ack { call, bytes }),
        (small(), small(), any::<bool>(), any::<u8>(), mark(), small(), ".{0,90}").prop_map(
            |(origin, culprit, ended, kind, mark, round, text)| Message::Abort {
                origin,
                culprit,
                ended,
                kind,
                mark,
                round,
                text
            }
        ),
        (small(), small()).prop_map(|(origin, round)| Message::Query { origin, round }),
        (small(), small(), mark(), any::<u64>(), mark()).prop_map(
            |(origin, round, entered, hash, completed)| {
                Message::Status {
                    origin,
                    round,
                    status: Status { entered, hash, completed, waits: Mark::default() },
                }
            }
        ),
        grant().prop_map(|grant| Message::Raw { grant }),
        Just(Message::Bye),
    ]
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0..4u8, 0..24u32).prop_map(|(slot, counter)| Event::Word(word(slot, counter))),
        1 => prop_oneof![any::<u32>(), Just(WORD_TEST | 3), Just(WORD_RAW), Just(NO_COUNTER)].prop_map(Event::Word),
        2 => prop_oneof![(0..4u64, 0..30u64).prop_map(|(s, t)| s << 32 | t), any::<u64>()].prop_map(Event::Done),
        9 => (prop_oneof![9 => 0..5u32, 1 => any::<u32>()], messages()).prop_map(|(r, m)| Event::Message(r, m)),
        1 => proptest::collection::vec(any::<u8>(), 0..80).prop_map(Event::Bytes),
        1 => proptest::option::of(any::<u32>()).prop_map(Event::Lost),
        3 => (0..4u32).prop_map(Event::Start),
        3 => Just(Event::Post),
        1 => Just(Event::Ask),
        1 => Just(Event::TimeOut),
    ]
}

proptest! {
    #[test]
    fn lies_are_survived(
        seed in any::<u32>(),
        light in prop_oneof![Just(0u64), Just(64)],
        list in proptest::collection::vec(events(), 1..120),
    ) {
        let arena = Arena::default();
        let mut engine = engines(5, 100, Borrow::Direct).remove(1);
        let counts = [10, 0, 300, u64::from(seed % 50), 40];
        let plan = Allgatherv::new(&counts, &[0, 0, 10, 310, 400], &Blocks::Equal(3), false).unwrap();
        let mut memory = Vec::new();
        for event in list {
            match event {
                Event::Word(w) => engine.core.arrival(w),
                Event::Done(token) => engine.core.done(token),
                Event::Message(from, m) => {
                    let mut buffer = [0; crate::transport::LONG_MESSAGE_MAX];
                    let n = m.encode(from, &mut buffer);
                    engine.core.message(&buffer[..n]);
                }
                Event::Bytes(bytes) => engine.core.message(&bytes),
                Event::Lost(peer) => engine.core.lost(peer, "so it says"),
                Event::Start(sequence) => {
                    let (t, binding, blocks) = task(&mut engine, &arena, &plan, light);
                    memory.push(blocks);
                    let slots = engine.core.active.slots().count();
                    let started = engine.start(t, meta(sequence), binding);
                    // A lie may be a grant, and here nothing is there to put by.
                    let no_wire = |e: &Error| e.kind() == ErrorKind::Transport;
                    let refused = slots == SLOTS || started.as_ref().is_err_and(no_wire);
                    prop_assert!(started.is_ok() || refused, "{started:?}");
                }
                Event::Post => {
                    let _ = engine.flush();
                    let _ = engine.post_ready();
                }
                Event::Ask => {
                    engine.core.queried = None;
                    engine.query_all(engine.clock.now());
                }
                Event::TimeOut => {
                    let text = engine.timed_out(&Waiting::new(Meta::default(), Duration::from_secs(1))).to_string();
                    prop_assert!(text.len() < 3000);
                }
            }
            // In a real world the first lie that is noticed ends it; here they go on.
            engine.core.broken = None;
            engine.core.failure = None;
            engine.core.relay = None;
            for slot in 0..4 {
                if engine.core.task_ref(slot).is_some() && engine.core.finished(slot) {
                    engine.core.leave(slot).unwrap();
                }
            }
        }
    }
}
