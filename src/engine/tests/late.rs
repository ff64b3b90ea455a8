//! Ranks that come late to calls that others have left, and operations that end before their messages have left.

use super::*;
use crate::engine::credits::{CREDITS, portion};

/// Rank 0 sends `pieces` pieces to rank 1, each short enough to go eagerly; together they are too long for
/// that, so rank 1 sends a ready message.
#[derive(Debug)]
struct Stream {
    pieces: u32,
}

const STREAMED: u64 = 4000;

impl Plan for Stream {
    fn algorithm(&self) -> &'static str {
        "stream"
    }
    fn size(&self) -> u32 {
        2
    }
    fn rounds(&self) -> u32 {
        self.pieces
    }
    fn counters(&self, rank: u32) -> u32 {
        self.pieces * rank
    }
    fn sizes(&self, rank: u32) -> Sizes {
        let bytes = u64::from(self.pieces) * STREAMED;
        match rank {
            0 => Sizes { input: bytes, ..Sizes::default() },
            _ => Sizes { output: bytes, ..Sizes::default() },
        }
    }
    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new((0..self.pieces).map(move |i| {
            let at = u64::from(i) * STREAMED;
            let (from, to) = (Place::new(Region::Input, at), Place::new(Region::Output, at));
            match rank {
                0 => Step::put(i, 1, from, to, STREAMED, Wait::NONE, i),
                _ => Step::expect(i, 0, from, to, STREAMED, i),
            }
        }))
    }
}

/// All but rank 0 put a piece to it.
#[derive(Debug)]
struct FanIn(u32);

impl Plan for FanIn {
    fn algorithm(&self) -> &'static str {
        "fan-in"
    }
    fn size(&self) -> u32 {
        self.0
    }
    fn rounds(&self) -> u32 {
        1
    }
    fn counters(&self, rank: u32) -> u32 {
        if rank == 0 { self.0 } else { 0 }
    }
    fn sizes(&self, rank: u32) -> Sizes {
        match rank {
            0 => Sizes { output: u64::from(self.0) * PIECE, ..Sizes::default() },
            _ => Sizes { input: PIECE, ..Sizes::default() },
        }
    }
    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let piece = |from: u32| {
            let target = Place::new(Region::Output, u64::from(from) * PIECE);
            (Place::new(Region::Input, 0), target)
        };
        match rank {
            0 => Box::new((1..self.0).map(move |from| {
                let (source, target) = piece(from);
                Step::expect(0, from, source, target, PIECE, from)
            })),
            _ => {
                let (source, target) = piece(rank);
                Box::new(std::iter::once(Step::put(0, 0, source, target, PIECE, Wait::NONE, rank)))
            }
        }
    }
}

const FOR_LONG: Duration = Duration::from_secs(3600);

fn call(comm: u64, sequence: u32) -> Meta {
    Meta { call: CallId { comm, sequence }, ..meta(0) }
}

/// A call that was entered, and its memory.
struct Running {
    slot: u8,
    waiting: Waiting,
    _blocks: Vec<Block>,
}

fn enter(engine: &mut Engine, arena: &Arena, plan: &dyn Plan, meta: Meta) -> Running {
    let (t, binding, blocks) = task(engine, arena, plan, 0);
    let slot = engine.start(t, meta, binding).unwrap();
    Running { slot, waiting: Waiting::new(meta, FOR_LONG), _blocks: blocks }
}

/// An arena for each engine: registrations are its own.
fn arenas(world: &[Engine]) -> Vec<Arena> {
    world.iter().map(|_| Arena::default()).collect()
}

impl Running {
    fn is_over(&mut self, engine: &mut Engine) -> bool {
        engine.test(self.slot, &mut self.waiting).unwrap()
    }

    fn complete(mut self, engine: &mut Engine) {
        let mut left = 10_000;
        while !self.is_over(engine) {
            left -= 1;
            assert!(left > 0, "it does not end: {:?}", engine.core.task_ref(self.slot).unwrap().missing());
        }
        engine.leave(self.slot).unwrap();
    }
}

#[test]
fn ready_messages_for_calls_that_were_left_are_not_kept() {
    let mut world = engines(2, 1 << 20, Borrow::Direct);
    let arenas = arenas(&world);
    let (plan, alone) = (Stream { pieces: portion(CREDITS) }, Direct(1));
    assert!(u64::from(plan.pieces) * STREAMED > 8000, "rank 1 sends a ready message");
    let mut elsewhere = 0;
    // Miri takes its time.
    for i in 0..if cfg!(miri) { 4 } else { 200 } {
        enter(&mut world[0], &arenas[0], &plan, call(1, i)).complete(&mut world[0]);
        assert_eq!(world[0].core.history.due(), 1);
        for _ in 0..5 {
            enter(&mut world[0], &arenas[0], &alone, call(2, elsewhere)).complete(&mut world[0]);
            elsewhere += 1;
        }
        enter(&mut world[1], &arenas[1], &plan, call(1, i)).complete(&mut world[1]);
        world[0].progress().unwrap();
        assert_eq!((world[0].core.unexpected.len(), world[0].core.history.due()), (0, 0));
    }
}

/// A late ready message of another call than ours is still noticed.
#[test]
fn a_call_that_was_left_long_ago_is_compared() {
    let mut world = engines(2, 1 << 20, Borrow::Direct);
    let arenas = arenas(&world);
    let (plan, alone) = (Stream { pieces: portion(CREDITS) }, Direct(1));
    enter(&mut world[0], &arenas[0], &plan, call(1, 0)).complete(&mut world[0]);
    for i in 0..5 {
        enter(&mut world[0], &arenas[0], &alone, call(2, i)).complete(&mut world[0]);
    }
    let other = Meta { hash: 8, ..call(1, 0) };
    let (t, binding, _blocks) = task(&mut world[1], &arenas[1], &plan, 0);
    // Either may notice first; then they try to find out what differs.
    let mut found = world[1].start(t, other, binding).err();
    for _ in 0..1000 {
        found = found.or_else(|| world.iter_mut().find_map(|engine| engine.progress().err()));
        world[0].clock.sleep(Duration::from_millis(10));
    }
    let e = found.expect("a mismatch");
    assert_eq!(e.kind(), ErrorKind::Mismatch, "{e}");
    assert!(e.to_string().contains("with other arguments than rank"), "{e}");
    assert_eq!(world[0].core.history.due(), 0);
}

#[test]
fn a_root_may_come_late_to_gathers_of_many() {
    let (p, calls) = if cfg!(miri) { (20, 5) } else { (40, 10) };
    let flow = Flow {
        window: 1 << 20,
        acknowledged: 1 << 20,
        bandwidth_bound: u64::MAX,
        order_timeout: Duration::from_millis(1),
    };
    let mut world = engines_on(p, flow, &sim::Faults::default(), false);
    let (arenas, plan) = (arenas(&world), FanIn(p));
    let mut others: Vec<Vec<Running>> = Vec::new();
    for (engine, arena) in world.iter_mut().zip(&arenas).skip(1) {
        others.push((0..calls).map(|i| enter(engine, arena, &plan, call(1, i))).collect());
    }
    for _ in 0..100 {
        world[0].progress().unwrap();
        for (engine, running) in world.iter_mut().skip(1).zip(&mut others) {
            running.iter_mut().for_each(|r| _ = r.is_over(engine));
        }
    }
    let early = world[0].core.unexpected.len();
    assert!(early >= (p - 1) as usize, "{early} messages");
    for i in 0..calls {
        let mut root = enter(&mut world[0], &arenas[0], &plan, call(1, i));
        let mut left = 10_000;
        while !root.is_over(&mut world[0]) {
            for (engine, running) in world.iter_mut().skip(1).zip(&mut others) {
                running.iter_mut().for_each(|r| _ = r.is_over(engine));
            }
            left -= 1;
            assert!(left > 0, "gather {i} does not end");
        }
        world[0].leave(root.slot).unwrap();
    }
    assert_eq!(world[0].core.unexpected.len(), 0);
}

/// A rank that has ended its barrier and makes no call has nothing left that others wait for.
#[test]
fn an_operation_ends_when_its_messages_have_left() {
    let p = 5;
    let (seeds, refuse) = if cfg!(miri) { (1, 100) } else { (12, 246) };
    for seed in 0..seeds {
        let faults = sim::Faults { seed, refuse, ..sim::Faults::default() };
        let flow = Flow {
            window: 100,
            acknowledged: 100,
            bandwidth_bound: u64::MAX,
            order_timeout: Duration::from_millis(1),
        };
        let barrier = crate::plan::barrier::dissemination::Barrier::new(p).unwrap();
        let plans: [&dyn Plan; 2] = [&barrier, &Direct(p)];
        for plan in plans {
            let mut world = engines_on(p, flow, &faults, true);
            let arenas = arenas(&world);
            let mut running: Vec<_> = world
                .iter_mut()
                .zip(&arenas)
                .map(|(engine, arena)| Some(enter(engine, arena, plan, call(1, 0))))
                .collect();
            let mut left = 100_000;
            while running.iter().any(Option::is_some) {
                for (engine, running) in world.iter_mut().zip(&mut running) {
                    if running.as_mut().is_some_and(|r| r.is_over(engine)) {
                        *running = None;
                    }
                }
                left -= 1;
                assert!(
                    left > 0,
                    "seed {seed}, {}: the others wait for a rank that has ended",
                    plan.algorithm()
                );
            }
        }
    }
}

/// Ranks 1 and 2 wait for rank 0, which is in no call.
#[test]
fn a_wait_says_for_whom() {
    #[derive(Debug)]
    struct All(ProcessState);
    impl Liveness for All {
        fn gone(&mut self) -> Option<(u32, String)> {
            None
        }
        fn state(&mut self, rank: u32) -> Option<ProcessState> {
            (rank == 0).then_some(self.0)
        }
    }
    let mut world = engines(3, 1000, Borrow::Direct);
    let arenas = arenas(&world);
    let barrier = crate::plan::barrier::dissemination::Barrier::new(3).unwrap();
    for i in [1, 2] {
        let mut running = enter(&mut world[i], &arenas[i], &barrier, call(1, 7));
        for _ in 0..3 {
            assert!(!running.is_over(&mut world[i]));
            world[i].clock.sleep(Duration::from_secs(1));
        }
    }
    let now = world[1].clock.now();
    world[1].query_all(now);
    for _ in 0..10 {
        world[1].progress().unwrap();
        world[2].progress().unwrap();
    }
    let (waiting, minute) = (Waiting::new(call(1, 7), FOR_LONG), Duration::from_secs(60));
    let said = "rank 0 has not come to test #7 of communicator 0.1 for 60 s; it";
    assert_eq!(
        world[1].warning(&waiting, minute).unwrap(),
        format!("{said} does not answer: it computes, is stopped, or is cut off (rank 1 waits)")
    );
    for (state, is) in
        [(ProcessState::Lives, "lives, in no call"), (ProcessState::Stopped, "is stopped by a signal")]
    {
        world[1].watch(Box::new(All(state)));
        assert_eq!(world[1].warning(&waiting, minute).unwrap(), format!("{said} {is} (rank 1 waits)"));
    }
    assert_eq!(world[2].warning(&waiting, minute), None, "rank 1 says it");
    // Rank 0 is in another call.
    enter(&mut world[0], &arenas[0], &barrier, call(1, 6));
    for engine in &mut world {
        engine.core.queried = None;
    }
    let now = world[1].clock.now();
    world[1].query_all(now);
    for _ in 0..10 {
        world.iter_mut().for_each(|engine| _ = engine.progress().unwrap());
    }
    let said = world[1].warning(&waiting, minute).unwrap();
    assert!(said.contains("rank 0 is in test #6 of communicator 0.1 (completed nothing yet)"), "{said}");
}
