//! Random collectives in random order on many communicators, in all kinds of calls, each checked.
#![allow(dead_code, reason = "each test uses a part of this")]

use crate::collective::cover::{Random, cover};
use crate::collective::element::{Affine, Element, Fill, Odd};
use crate::collective::{Begun, Case, Data, Flying, Mode, check};
use circulant::comm::{Pending, wait_all, wait_any};
use circulant::diagnostics::live_allocations;
use circulant::ops::{Op, Type};
use circulant::plan::registry::{Algorithm, Arguments, Operation, algorithms, all};
use circulant::{Communicator, Result, World};

/// What is on the way at most.
const IN_FLIGHT: usize = 30;
/// Persistent operations of one communicator.
const KEPT: usize = 2;

const DATA: [Data; 6] = [
    Data::BuiltIn(Type::U64, Op::Sum),
    Data::BuiltIn(Type::F32, Op::Sum),
    Data::BuiltIn(Type::F32, Op::Max),
    Data::Affine(false),
    Data::Odd,
    Data::Raw,
];

/// As [`check`], of any of `DATA`.
pub fn check_some(comm: &Communicator, case: &Case) -> Result<()> {
    match case.data {
        Data::Affine(_) => check::<Affine>(comm, case),
        Data::Odd => check::<Odd>(comm, case),
        Data::Raw => check::<u8>(comm, case),
        Data::BuiltIn(Type::F32, _) => check::<f32>(comm, case),
        _ => check::<u64>(comm, case),
    }
}

pub fn begin_some(comm: &Communicator, case: &Case) -> Result<Box<dyn Flying>> {
    fn begun<T: Element>(comm: &Communicator, case: &Case) -> Result<Box<dyn Flying>> {
        Ok(Box::new(Begun::<T>::new(comm, case)?))
    }
    match case.data {
        Data::Affine(_) => begun::<Affine>(comm, case),
        Data::Odd => begun::<Odd>(comm, case),
        Data::Raw => begun::<u8>(comm, case),
        Data::BuiltIn(Type::F32, _) => begun::<f32>(comm, case),
        _ => begun::<u64>(comm, case),
    }
}

/// A random call on `p` ranks: the same on all that draw the same.
pub fn draw(mut random: Random, p: usize) -> Case {
    let operations: Vec<_> = Operation::ALL.into_iter().filter(|op| !op.is_between_groups()).collect();
    let operation = operations[random.below(operations.len())];
    let data = DATA[random.below(DATA.len())];
    let a = Arguments { size: p as u32, commutative: data.commutative(), ..Arguments::default() };
    let fitting: Vec<_> = algorithms(operation).filter(|x| (x.fits)(&a).is_ok()).collect();
    let algorithm = (random.below(3) > 0).then(|| fitting[random.below(fitting.len())].name);
    let modes = [Mode::Slices, Mode::Arena, Mode::Request, Mode::Request, Mode::Scoped, Mode::Persistent];
    Case {
        operation,
        algorithm,
        data,
        fill: [Fill::Exact, Fill::Real, Fill::Special][random.below(3)],
        mode: modes[random.below(modes.len())],
        in_place: random.below(2) == 0,
        root: random.below(p),
        len: [0, 1, 2, 7, 100, 900, 3001][random.below(7)] * data.unit(),
        blocks: [None, None, Some(2), Some(5)][random.below(4)],
        seed: random.draw(),
    }
}

/// Cases on p ranks in which every algorithm meets every kind of call, data, length, number of blocks and root, and
/// these each other.
pub fn subset(p: usize, seed: u64) -> Vec<Case> {
    const MODES: [Mode; 6] =
        [Mode::Slices, Mode::Arena, Mode::Scoped, Mode::Request, Mode::Polled, Mode::Persistent];
    const FILLS: [Fill; 3] = [Fill::Exact, Fill::Real, Fill::Special];
    // The last is more bytes than lowering merges into one put.
    const LENGTHS: [usize; 4] = [0, 1, 501, 11_001];
    let fits = |a: &Algorithm, data: Data| {
        let a =
            (a.fits)(&Arguments { size: p as u32, commutative: data.commutative(), ..Arguments::default() });
        a.is_ok()
    };
    let here: Vec<&Algorithm> = all()
        .filter(|a| !a.operation.is_between_groups())
        .filter(|a| DATA.iter().any(|d| fits(a, *d)))
        .collect();
    let possible = |f, v: usize, g, w: usize| (f, g) != (0, 1) || fits(here[v], DATA[w]);
    let mut random = Random(seed);
    let sizes = [here.len(), DATA.len(), MODES.len(), 2, FILLS.len(), LENGTHS.len(), 3, 3];
    let cases = cover(&sizes, possible, &mut random);
    let case = |v: Vec<usize>| Case {
        operation: here[v[0]].operation,
        algorithm: Some(here[v[0]].name),
        data: DATA[v[1]],
        fill: FILLS[v[4]],
        mode: MODES[v[2]],
        in_place: v[3] == 1,
        root: [0, p - 1, p / 2][v[6]],
        len: LENGTHS[v[5]] * DATA[v[1]].unit(),
        blocks: [None, Some(1), Some(5)][v[7]],
        seed: random.draw(),
    };
    cases.into_iter().map(case).collect()
}

/// World, copies and parts of it of several shapes, which overlap; `None` where this rank is in none.
pub fn communicators(world: &Communicator) -> Result<Vec<Option<Communicator>>> {
    let (r, p) = (world.rank() as i64, world.size() as i64);
    let halves = world.split(Some(r % 2), 0)?;
    let again = halves.as_ref().map(Communicator::dup).transpose()?;
    let backwards: Vec<usize> = (0..world.size()).rev().collect();
    Ok(vec![
        Some(world.clone()),
        Some(world.dup()?),
        halves,
        world.split(Some(r / 3), -r)?,
        // Everyone alone.
        world.split(Some(r), 0)?,
        world.split((r > 0 || p == 1).then_some(7), 0)?,
        world.split((r % 3 != 1).then_some(-1), p - r)?,
        again,
        world.create(&world.group().include(&backwards)?)?,
    ])
}

/// The calls of one rank.
pub struct Traffic {
    comms: Vec<Option<Communicator>>,
    /// Equal on all ranks.
    shared: Random,
    /// This rank's own.
    own: Random,
    flying: Vec<Box<dyn Flying>>,
    /// By communicator; whether it is running.
    kept: Vec<Vec<(Box<dyn Flying>, bool)>>,
    /// Calls of communicators of several ranks in which this is rank 0.
    pub led: u64,
}

impl Traffic {
    /// On communicators made of `comm`. Collective.
    pub fn new(comm: &Communicator, seed: u64) -> Result<Self> {
        let comms = communicators(comm)?;
        let kept = comms.iter().map(|_| Vec::new()).collect();
        let own = Random(seed ^ (comm.rank() as u64 + 1) << 32);
        Ok(Self { comms, shared: Random(seed), own, flying: Vec::new(), kept, led: 0 })
    }

    /// A call.
    pub fn step(&mut self) -> Result<()> {
        let class = self.shared.below(self.comms.len());
        let random = Random(self.shared.draw());
        let Some(comm) = &self.comms[class] else { return Ok(()) };
        let case = draw(random, comm.size());
        self.led += u64::from(comm.size() > 1 && comm.rank() == 0);
        match case.mode {
            Mode::Request | Mode::Polled => self.flying.push(begin_some(comm, &case)?),
            Mode::Persistent => {
                let kept = &mut self.kept[class];
                if kept.len() == KEPT && case.seed.is_multiple_of(4) {
                    kept.remove(0);
                }
                if kept.len() < KEPT {
                    kept.push((begin_some(comm, &case)?, false));
                }
                let one = case.seed as usize / 4 % kept.len();
                let (flying, running) = &mut kept[one];
                if *running {
                    flying.finish()?;
                }
                flying.again()?;
                *running = true;
            }
            Mode::Slices | Mode::Arena | Mode::Scoped | Mode::Unscoped | Mode::UnscopedPersistent => {
                check_some(comm, &case)?
            }
        }
        self.complete()
    }

    /// Waits for this and that, as this rank likes.
    fn complete(&mut self) -> Result<()> {
        while self.flying.len() > IN_FLIGHT {
            self.finish_one()?;
        }
        if self.flying.is_empty() {
            return Ok(());
        }
        match self.own.below(12) {
            0 | 1 => self.finish_one()?,
            2 | 3 => {
                let one = self.own.below(self.flying.len());
                self.flying[one].pending().test()?;
            }
            4 | 5 => {
                let mut all: Vec<&mut dyn Pending> = self.flying.iter_mut().map(|f| f.pending()).collect();
                let one = wait_any(&mut all)?.unwrap();
                self.flying.swap_remove(one).finish()?;
            }
            6 if self.own.below(10) == 0 => self.finish_all()?,
            // Dropping one waits for it.
            7 if self.own.below(10) == 0 => {
                let one = self.own.below(self.flying.len());
                drop(self.flying.swap_remove(one));
            }
            _ => {}
        }
        Ok(())
    }

    fn finish_one(&mut self) -> Result<()> {
        let one = self.own.below(self.flying.len());
        self.flying.swap_remove(one).finish()
    }

    fn finish_all(&mut self) -> Result<()> {
        let mut all: Vec<&mut dyn Pending> = self.flying.iter_mut().map(|f| f.pending()).collect();
        wait_all(&mut all)?;
        self.flying.drain(..).try_for_each(|mut f| f.finish())
    }

    /// Waits for all of them, and keeps none.
    pub fn rest(&mut self) -> Result<()> {
        self.finish_all()?;
        for (flying, running) in self.kept.iter_mut().flatten() {
            if *running {
                flying.finish()?;
            }
        }
        self.kept.iter_mut().for_each(Vec::clear);
        Ok(())
    }
}

/// Memory in use: pieces on the heap, resident bytes, pieces of the arena.
pub fn memory(world: &World) -> (i64, i64, u64) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: i64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    (live_allocations(), pages * 4096, world.stats().buffers)
}

/// `steps` random calls. Memory must not grow after the first fifth of them; `alone` says that ours is the only rank of
/// this process that looks at it.
pub fn traffic(world: &World, seed: u64, steps: usize, alone: bool) -> Result<()> {
    let mut traffic = Traffic::new(&world.comm(), seed)?;
    let mut before = (0, 0, 0);
    for step in 0..steps {
        traffic.step().unwrap_or_else(|e| panic!("{e} at step {step} of seed {seed}, rank {}", world.rank()));
        if step + 1 == steps / 5 || step + 1 == steps {
            traffic.rest()?;
            world.comm().barrier()?;
            if (alone || world.rank() == 0) && step + 1 < steps {
                before = memory(world);
            } else if alone || world.rank() == 0 {
                let after = memory(world);
                println!("from {before:?} to {after:?} (heap, resident, arena)");
                // What was in flight together, at the most, goes on growing; a page a call would be more than this.
                let ranks = if alone { 1 } else { world.size() as i64 };
                // Each of the 32 programs that are kept has two at the most.
                assert!(after.2 <= 64, "{} pieces of the arena are in use", after.2);
                assert!(after.0 - before.0 < 500 * ranks, "from {before:?} to {after:?} pieces on the heap");
                assert!(
                    after.1 - before.1 < ranks * (24 << 20),
                    "from {before:?} to {after:?} resident bytes"
                );
            }
            world.comm().barrier()?;
        }
    }
    Ok(())
}
