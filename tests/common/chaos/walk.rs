//! One rank's way through a program, on any wire.

use super::program::{Item, Odd, Program};
use crate::collective::cover::Random;
use crate::collective::{Case, Data, Flying, Mode};
use crate::traffic::{begin_some, check_some, draw};
use circulant::comm::Builder;
use circulant::ops::{Op, Type};
use circulant::{Communicator, Error, Result};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// What became of a rank.
#[derive(Debug)]
pub struct End {
    pub result: Result<(), Told>,
    /// The text of a panic.
    pub panic: Option<String>,
    /// When it ended: in virtual time from the beginning of all, or of the day of the system's clock.
    pub at: Duration,
    /// When it met its last fault: it was to die, woke up, was cut off or called something else.
    pub fault_at: Option<Duration>,
    /// A call in which one rank did otherwise ended well here, or with other bytes; its text.
    pub unnoticed: Option<(Odd, String)>,
    /// The ranks of the last communicator.
    pub size: usize,
}

/// The kind of error of a rank of which nothing was heard.
pub const SILENCE: &str = "Silence";

/// An error, as a rank has told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The name of its [`circulant::ErrorKind`].
    pub kind: String,
    pub peer: Option<usize>,
    pub text: String,
}

impl From<Error> for Told {
    fn from(e: Error) -> Self {
        Self { kind: format!("{:?}", e.kind()), peer: e.peer(), text: e.to_string() }
    }
}

/// How faults come to a rank.
pub trait Strikes {
    /// The time.
    fn now(&self) -> Duration;
    /// Has a fault happen, of the rank that calls this.
    fn strike(&mut self, item: &Item);
}

/// The settings of a program's worlds.
pub fn configured(program: &Program, builder: Builder, deadline: Duration) -> Builder {
    let mut builder = builder.set("deadline", &deadline.as_secs().to_string());
    for item in &program.items {
        if let Item::Setting(name, value) = item {
            builder = builder.set(name, value);
        }
    }
    if program.survives { builder.set("on-failure", "continue") } else { builder }
}

/// Runs `life`, a rank's world from its beginning to its end, and says what became of it. `after` follows when nothing of it is left.
pub fn live<S: Strikes>(
    program: &Program,
    rank: usize,
    strikes: S,
    life: impl FnOnce(&mut Walk<'_, S>) -> Result<()>,
    after: impl FnOnce(),
) -> End {
    let mut walk = Walk::new(program, strikes, rank);
    let ended = catch_unwind(AssertUnwindSafe(|| life(&mut walk)));
    let at = walk.strikes.now();
    let left = catch_unwind(AssertUnwindSafe(|| walk.drop_all()));
    after();
    let text = |panic: Box<dyn std::any::Any + Send>| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()
    };
    let (result, panic) = match (ended, left) {
        (Ok(result), Ok(())) => (result.map_err(Told::from), None),
        (Err(panic), _) | (_, Err(panic)) => (Ok(()), Some(text(panic))),
    };
    End { result, panic, at, fault_at: walk.fault_at, unnoticed: walk.unnoticed, size: walk.size }
}

/// One rank's way through a program.
pub struct Walk<'a, S> {
    program: &'a Program,
    strikes: S,
    rank: usize,
    comms: BTreeMap<usize, Communicator>,
    flying: VecDeque<Box<dyn Flying>>,
    fault_at: Option<Duration>,
    unnoticed: Option<(Odd, String)>,
    size: usize,
}

impl<'a, S: Strikes> Walk<'a, S> {
    fn new(program: &'a Program, strikes: S, rank: usize) -> Self {
        let (comms, flying) = (BTreeMap::new(), VecDeque::new());
        let size = program.nodes.len();
        Self { program, strikes, rank, comms, flying, fault_at: None, unnoticed: None, size }
    }

    fn drop_all(&mut self) {
        self.flying.clear();
        self.comms.clear();
    }

    /// All calls of the program; whether the rank goes on to finalize.
    pub fn all(&mut self, world: Communicator) -> Result<bool> {
        match self.program.survives {
            // A rank that is gone before all have come through start-up ends the world; of those that go later this fails for none.
            true => {
                world.agree(0)?;
                self.go_on(world).map(|()| true)
            }
            false => self.walk(world),
        }
    }

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
        self.fault_at = Some(self.strikes.now());
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
        let ours = match *item {
            Item::Kill { rank, .. } | Item::Stop { rank, .. } | Item::CutOff { rank } => rank == self.rank,
            Item::Cut { one, other } => one == self.rank && one != other,
            Item::Launcher => self.rank == 0,
            Item::Link { node, .. } => {
                self.program.nodes.iter().position(|&other| other == node) == Some(self.rank)
            }
            _ => false,
        };
        if ours {
            self.strikes.strike(item);
            self.struck();
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
        self.unnoticed = Some((how, format!("{case:?}")));
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
