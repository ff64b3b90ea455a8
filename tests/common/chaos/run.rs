//! Runs a program: each rank is a thread, on the simulated wire, in turns.

use super::program::{Item, Program};
use super::walk::{End, Strikes, Walk, configured, live};
use circulant::launch::{Gone, Launch, threads};
use circulant::transport::{Borrow, Clock, sim};
use circulant::{Error, ErrorKind, Result, World, measure};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Of each wait, in virtual time. Chosen: more than a rank is doubted for (0.6 s), and not many sleeps of 4 ms.
const DEADLINE: Duration = Duration::from_secs(2);

/// The same of programs whose window is narrow: puts wait for acknowledgements, and a reduce_scatter of 57 rounds took 4.0 s (seed 6500).
const DEADLINE_OF_NARROW_WINDOW: Duration = Duration::from_secs(10);

/// How long a call of this program may take, in virtual time.
pub fn deadline(program: &Program) -> Duration {
    let narrow = program.items.iter().any(|item| matches!(item, Item::Setting("window", _)));
    if narrow { DEADLINE_OF_NARROW_WINDOW } else { DEADLINE }
}

/// What ranks may take beyond the deadline: a rank is doubted for 0.6 s, lingers for 0.4 s, asks for statuses for 1 s.
pub const SLACK: Duration = Duration::from_secs(2);

/// What became of all, and a digest of the order in which ranks ran.
#[derive(Debug)]
pub struct Course {
    pub ends: Vec<End>,
    pub digest: (u64, u64),
}

fn faults(program: &Program) -> sim::Faults {
    let mut faults = sim::Faults { seed: program.seed, turns: true, ..sim::Faults::default() };
    for item in &program.items {
        match item {
            Item::Refuse(n) => faults.refuse = *n,
            Item::Delay(n) => faults.delay = *n,
            Item::Reorder => faults.reorder = true,
            Item::MaxPut(n) => faults.max_put = *n,
            Item::Staged => faults.borrow = Borrow::Staged,
            Item::DeathsHidden => faults.deaths_show = false,
            Item::DeathsRefuse => faults.deaths_refuse = true,
            _ => {}
        }
    }
    faults
}

/// A launcher whose fences wait by a virtual time, and that may tell of no end.
#[derive(Debug)]
struct Timed {
    launch: Box<dyn Launch>,
    clock: Clock,
    silent: bool,
}

impl Launch for Timed {
    fn name(&self) -> &str {
        self.launch.name()
    }
    fn rank(&self) -> usize {
        self.launch.rank()
    }
    fn size(&self) -> usize {
        self.launch.size()
    }
    fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.launch.put(key, value)
    }
    fn fence(&mut self, deadline: Duration) -> Result<()> {
        let end = self.clock.now() + deadline;
        self.launch.start_fence()?;
        while !self.launch.test_fence()? {
            if self.clock.now() >= end {
                return Err(Error::new(ErrorKind::Timeout, "not all ranks came to the fence"));
            }
            self.clock.sleep(Duration::from_millis(1));
        }
        Ok(())
    }
    fn start_fence(&mut self) -> Result<bool> {
        self.launch.start_fence()
    }
    fn test_fence(&mut self) -> Result<bool> {
        self.launch.test_fence()
    }
    fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        self.launch.get(key)
    }
    fn nodes(&self) -> Option<Vec<u32>> {
        self.launch.nodes()
    }
    fn gone(&mut self) -> Option<Gone> {
        self.launch.gone().filter(|_| !self.silent)
    }
    fn abort(&mut self, code: i32, message: &str) {
        self.launch.abort(code, message);
    }
    fn finalize(&mut self) -> Result<()> {
        self.launch.finalize()
    }
}

/// Runs it.
pub fn run(program: &Program) -> Course {
    let wires = sim::group(program.nodes.len(), &faults(program));
    let launches = threads::group_on(program.nodes.clone());
    let net = wires[0].net();
    let ends = std::thread::scope(|scope| {
        let ranks: Vec<_> = wires
            .into_iter()
            .zip(launches)
            .map(|(wire, launch)| scope.spawn(move || one_rank(program, wire, launch)))
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    Course { ends, digest: net.clock(0).turns() }
}

/// Latency (ns), overhead (ns) and time per byte (ps) that each of `ranks` ranks has measured when its world has started. The ranks run one at a time, in an order drawn from
/// `seed`.
pub fn measured(ranks: usize, seed: u64) -> Vec<(u64, u64, u64)> {
    let faults = sim::Faults { seed, turns: true, ..sim::Faults::default() };
    let wires = sim::group(ranks, &faults);
    let launches = threads::group_on((0..ranks as u32).collect());
    std::thread::scope(|scope| {
        let started: Vec<_> = wires
            .into_iter()
            .zip(launches)
            .map(|(wire, launch)| {
                scope.spawn(move || {
                    let (net, rank) = (wire.net(), launch.rank());
                    let launch = Box::new(Timed { launch, clock: net.clock(rank), silent: false });
                    net.enter(rank);
                    let world = World::builder().launch(launch).transport(Box::new(wire)).init().unwrap();
                    let wire = measure::machine(&world.comm()).unwrap().0.wire;
                    world.finalize().unwrap();
                    net.leave(rank);
                    (wire.latency_ns, wire.overhead_ns, wire.byte_ps)
                })
            })
            .collect();
        started.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// Faults of the simulated wire.
struct Net {
    net: Arc<sim::Net>,
    rank: usize,
    ranks: usize,
    start: Instant,
}

impl Strikes for Net {
    fn now(&self) -> Duration {
        self.net.clock(self.rank).now() - self.start
    }
    fn strike(&mut self, item: &Item) {
        match *item {
            Item::Kill { rank, posts } => self.net.kill_after(rank, posts),
            Item::Stop { rank, milliseconds } => self.net.sleep(rank, Duration::from_millis(milliseconds)),
            Item::CutOff { rank } => {
                let others = (0..self.ranks).filter(|r| *r != rank);
                others.for_each(|r| self.net.cut(rank, r));
            }
            Item::Cut { one, other } => self.net.cut(one, other),
            _ => {}
        }
    }
}

fn one_rank(program: &Program, wire: sim::Sim, launch: Box<dyn Launch>) -> End {
    let (net, rank) = (wire.net(), launch.rank());
    let clock = net.clock(rank);
    let silent = program.items.contains(&Item::LauncherSilent);
    let strikes = Net { net: Arc::clone(&net), rank, ranks: program.nodes.len(), start: clock.now() };
    let launch = Box::new(Timed { launch, clock, silent });
    let life = |walk: &mut Walk<'_, Net>| {
        let builder = World::builder().launch(launch).transport(Box::new(wire));
        let world = configured(program, builder, deadline(program)).init()?;
        if walk.all(world.comm())? { world.finalize() } else { Ok(()) }
    };
    net.enter(rank);
    // What is left of the world ends in this rank's turn.
    live(program, rank, strikes, life, || net.leave(rank))
}
