//! Runs a program: each rank is a thread, on the simulated wire, in turns.

use super::program::{Item, Odd, Program};
use crate::collective::cover::Random;
use crate::collective::{Case, Data, Flying, Mode};
use crate::traffic::{begin_some, check_some, draw};
use circulant::launch::{Gone, Launch, threads};
use circulant::ops::{Op, Type};
use circulant::transport::{Borrow, Clock, sim};
use circulant::{Communicator, Error, ErrorKind, Result, World};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Of each wait, in virtual time. Chosen: more than a rank is doubted for (0.6 s), and not many sleeps of 4 ms.
pub const DEADLINE: Duration = Duration::from_secs(2);

/// What became of a rank.
#[derive(Debug)]
pub struct End {
    pub result: Result<()>,
    /// The text of a panic.
    pub panic: Option<String>,
    /// Virtual time at its end, from the beginning of all.
    pub at: Duration,
    /// When it met its last fault: it was to die, woke up, was cut off or called something else.
    pub fault_at: Option<Duration>,
    /// A call in which one rank did otherwise ended well here, or with other bytes.
    pub unnoticed: Option<(Odd, Case)>,
    /// The ranks of the last communicator.
    pub size: usize,
}

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

fn one_rank(program: &Program, wire: sim::Sim, launch: Box<dyn Launch>) -> End {
    let (net, rank) = (wire.net(), launch.rank());
    let start = net.clock(rank).now();
    let mut walk = Walk::new(program, Arc::clone(&net), rank);
    let silent = program.items.contains(&Item::LauncherSilent);
    let launch = Box::new(Timed { launch, clock: net.clock(rank), silent });
    net.enter(rank);
    let ended = catch_unwind(AssertUnwindSafe(|| world(program, wire, launch, &mut walk)));
    let at = net.clock(rank).now() - start;
    // What is left of the world ends in this rank's turn.
    let left = catch_unwind(AssertUnwindSafe(|| walk.drop_all()));
    net.leave(rank);
    let text = |panic: Box<dyn std::any::Any + Send>| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()
    };
    let (result, panic) = match (ended, left) {
        (Ok(result), Ok(())) => (result, None),
        (Err(panic), _) | (_, Err(panic)) => (Ok(()), Some(text(panic))),
    };
    let fault_at = walk.fault_at.map(|t| t - start);
    End { result, panic, at, fault_at, unnoticed: walk.unnoticed, size: walk.size }
}

/// The whole life of a rank's world.
fn world(program: &Program, wire: sim::Sim, launch: Box<dyn Launch>, walk: &mut Walk<'_>) -> Result<()> {
    let deadline = format!("{}", DEADLINE.as_secs());
    let mut builder = World::builder().launch(launch).transport(Box::new(wire)).set("deadline", &deadline);
    for item in &program.items {
        if let Item::Setting(name, value) = item {
            builder = builder.set(name, value);
        }
    }
    if program.survives {
        builder = builder.set("on-failure", "continue");
    }
    let world = builder.init()?;
    let goes_on = match program.survives {
        true => walk.go_on(world.comm()).map(|()| true),
        false => walk.walk(world.comm()),
    };
    if goes_on? { world.finalize() } else { Ok(()) }
}

/// One rank's way through a program.
struct Walk<'a> {
    program: &'a Program,
    net: Arc<sim::Net>,
    rank: usize,
    comms: BTreeMap<usize, Communicator>,
    flying: VecDeque<Box<dyn Flying>>,
    fault_at: Option<std::time::Instant>,
    unnoticed: Option<(Odd, Case)>,
    size: usize,
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program, net: Arc<sim::Net>, rank: usize) -> Self {
        let (comms, flying) = (BTreeMap::new(), VecDeque::new());
        let size = program.nodes.len();
        Self { program, net, rank, comms, flying, fault_at: None, unnoticed: None, size }
    }

    fn drop_all(&mut self) {
        self.flying.clear();
        self.comms.clear();
    }

    /// Whether the rank goes on to finalize.
    fn walk(&mut self, world: Communicator) -> Result<bool> {
        self.comms.insert(0, world);
        for item in &self.program.items {
            match item {
                Item::Finalize { rank } if *rank == self.rank => break,
                Item::Leave { rank } if *rank == self.rank => {
                    self.struck();
                    return Ok(false);
                }
                other => self.item(other)?,
            }
        }
        while let Some(mut begun) = self.flying.pop_front() {
            begun.finish()?;
        }
        Ok(true)
    }

    fn struck(&mut self) {
        self.fault_at = Some(self.net.clock(self.rank).now());
    }

    fn item(&mut self, item: &Item) -> Result<()> {
        match *item {
            Item::Split { id, parent, every, colours, left_out } => {
                let Some(parent) = self.comms.get(&parent) else { return Ok(()) };
                let colour = parent.rank() / every % colours;
                let colour_of = (left_out != Some(colour)).then_some(colour as i64);
                if let Some(part) = parent.split(colour_of, 0)? {
                    self.comms.insert(id, part);
                }
            }
            Item::Dup { id, parent } => {
                let Some(parent) = self.comms.get(&parent) else { return Ok(()) };
                let copy = parent.dup()?;
                self.comms.insert(id, copy);
            }
            Item::Call { comm, seed } => {
                let Some(comm) = self.comms.get(&comm) else { return Ok(()) };
                check_some(comm, &draw(Random(seed), comm.size()))?;
            }
            Item::Begin { comm, seed } => {
                let Some(comm) = self.comms.get(&comm) else { return Ok(()) };
                let case = Case { mode: Mode::Request, ..draw(Random(seed), comm.size()) };
                self.flying.push_back(begin_some(comm, &case)?);
            }
            Item::Finish => {
                if let Some(mut begun) = self.flying.pop_front() {
                    begun.finish()?;
                }
            }
            Item::Odd { seed, rank, how } => self.odd(seed, rank, how)?,
            _ => self.happens(item),
        }
        Ok(())
    }

    /// What happens to this rank.
    fn happens(&mut self, item: &Item) {
        match *item {
            Item::Kill { rank, posts } if rank == self.rank => {
                self.struck();
                self.net.kill_after(rank, posts);
            }
            Item::Stop { rank, milliseconds } if rank == self.rank => {
                self.net.sleep(rank, Duration::from_millis(milliseconds));
                self.struck();
            }
            Item::CutOff { rank } if rank == self.rank => {
                self.struck();
                (0..self.program.nodes.len()).filter(|r| *r != rank).for_each(|r| self.net.cut(rank, r));
            }
            Item::Cut { one, other } if one == self.rank && one != other => {
                self.struck();
                self.net.cut(one, other);
            }
            _ => {}
        }
    }

    /// All make a call, `rank` another one.
    fn odd(&mut self, seed: u64, rank: usize, how: Odd) -> Result<()> {
        let Some(comm) = self.comms.get(&0).cloned() else { return Ok(()) };
        let mut case = odd_case(seed, comm.size(), how);
        if rank == self.rank {
            self.struck();
            if how == Odd::BadRoot {
                return comm.bcast(&mut [0u8; 8], comm.size() + 3);
            }
            case = changed(&case, comm.size(), how);
        }
        // Where it is not noticed the bytes are others.
        let done = catch_unwind(AssertUnwindSafe(|| check_some(&comm, &case)));
        done.unwrap_or(Ok(()))?;
        comm.barrier()?;
        self.unnoticed = Some((how, case));
        Ok(())
    }

    /// The calls, again among those that are left where ranks are lost.
    fn go_on(&mut self, world: Communicator) -> Result<()> {
        let mut comm = world;
        for item in &self.program.items {
            let Item::Call { seed, .. } = *item else {
                self.happens(item);
                continue;
            };
            loop {
                let done = check_some(&comm, &draw(Random(seed), comm.size()));
                if let Err(e) = &done {
                    if !e.is_survived() {
                        return Err(Error::clone(e));
                    }
                    comm.revoke()?;
                }
                let agreed = comm.agree(u64::from(done.is_ok()))?;
                if agreed.flags == 1 && agreed.gone.is_empty() {
                    break;
                }
                comm = comm.shrink()?;
                self.size = comm.size();
            }
        }
        Ok(())
    }
}

/// A call that can be changed in this way.
fn odd_case(seed: u64, size: usize, how: Odd) -> Case {
    let mut random = Random(seed);
    loop {
        let case = draw(Random(random.draw()), size);
        if how == Odd::BadRoot || changed(&case, size, how) != case {
            return Case { mode: Mode::Slices, algorithm: None, ..case };
        }
    }
}

/// The same call, but for this.
fn changed(case: &Case, size: usize, how: Odd) -> Case {
    let name = case.operation.name();
    let reduces = name.contains("reduce") || name.contains("scan");
    let mut odd = case.clone();
    match how {
        // Irregular operations make counts of the length that may be the same ones.
        Odd::Length if name != "barrier" && !name.ends_with('v') && name != "reduce_scatter" => {
            odd.len += case.data.unit();
        }
        Odd::Root if ["bcast", "gather", "gatherv", "scatter", "scatterv", "reduce"].contains(&name) => {
            odd.root = (case.root + 1) % size
        }
        Odd::Type if name != "barrier" && case.data == Data::BuiltIn(Type::F32, Op::Sum) => {
            odd.data = Data::BuiltIn(Type::U64, Op::Sum);
        }
        Odd::Operator if reduces && case.data == Data::BuiltIn(Type::F32, Op::Sum) => {
            odd.data = Data::BuiltIn(Type::F32, Op::Max);
        }
        Odd::Operation => odd = Case { seed: case.seed, ..draw(Random(case.seed), size) },
        _ => {}
    }
    odd
}
