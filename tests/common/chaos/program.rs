//! A program of all ranks, as data.

use crate::collective::cover::Random;

/// What a rank does otherwise than the others in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Odd {
    Length,
    Root,
    Type,
    Operator,
    Operation,
    /// A root that there is not: an error of the rank's own.
    BadRoot,
}

pub const ODD: [Odd; 6] = [Odd::Length, Odd::Root, Odd::Type, Odd::Operator, Odd::Operation, Odd::BadRoot];

/// What becomes of a node's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Down,
    /// Some packets pass, then hardly any.
    Slow,
}

/// What the ranks of a program are, and what is between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Threads in turns, on the simulated wire.
    Sim,
    /// Processes on one node, over shared memory.
    Shm,
    /// The same over tcp.
    Tcp,
    /// Processes on nodes with a network between them: over tcp, with or without shared memory within nodes.
    Nodes,
    /// Processes on one node that has a device of RDMA.
    Verbs,
}

impl Wire {
    pub const ALL: [Self; 5] = [Self::Sim, Self::Shm, Self::Tcp, Self::Nodes, Self::Verbs];

    /// What tests call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            Self::Nodes => "nodes",
            Self::Verbs => "ibverbs",
        }
    }
}

/// One thing that ranks do, or that happens to them. Communicators have numbers; 0 is the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Of 256 posts so many are refused.
    Refuse(u8),
    /// Deliveries wait for up to so many polls.
    Delay(u32),
    Reorder,
    /// The longest put.
    MaxPut(u64),
    /// What is borrowed is copied.
    Staged,
    /// A setting.
    Setting(&'static str, &'static str),
    /// The wire does not tell of deaths.
    DeathsHidden,
    /// Posts to the dead are errors.
    DeathsRefuse,
    /// The launcher tells of none.
    LauncherSilent,
    /// A communicator of ranks of one colour, which is `(rank / every) % colours`; one colour may be left out.
    Split {
        id: usize,
        parent: usize,
        every: usize,
        colours: usize,
        left_out: Option<usize>,
    },
    Dup {
        id: usize,
        parent: usize,
    },
    /// A call that follows from the seed and the size of the communicator.
    Call {
        comm: usize,
        seed: u64,
    },
    /// One that goes on while others begin.
    Begin {
        comm: usize,
        seed: u64,
    },
    /// The oldest of them ends.
    Finish,
    /// A call of all in which one rank does otherwise, then a barrier.
    Odd {
        seed: u64,
        rank: usize,
        how: Odd,
    },
    /// The rank dies after so many posts; a process soon after this, the more of them the later.
    Kill {
        rank: usize,
        posts: u32,
    },
    /// The rank does nothing for so long.
    Stop {
        rank: usize,
        milliseconds: u64,
    },
    /// Nothing comes from or to the rank any more.
    CutOff {
        rank: usize,
    },
    /// The link of a node is cut or slow for so long, or to the end; its lowest rank rests meanwhile.
    Link {
        node: u32,
        how: Link,
        milliseconds: Option<u64>,
        rest_milliseconds: u64,
    },
    /// Nothing comes from one rank to the other any more.
    Cut {
        one: usize,
        other: usize,
    },
    /// The rank comes to no further call, but to finalize.
    Finalize {
        rank: usize,
    },
    /// The rank ends without finalize.
    Leave {
        rank: usize,
    },
    /// The process dies that has started the ranks.
    Launcher,
}

/// Ranks of one node, too, talk by tcp.
pub const ONLY_TCP: Item = Item::Setting("provider", "tcp");

/// Ranks compare their calls before data moves.
pub const CHECK: Item = Item::Setting("check", "yes");

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub seed: u64,
    pub wire: Wire,
    /// The node of each rank.
    pub nodes: Vec<u32>,
    /// Ranks go on without those that are gone.
    pub survives: bool,
    /// The place of each item in the program as it was drawn.
    pub places: Vec<usize>,
    pub items: Vec<Item>,
}

impl Program {
    /// The program of this seed.
    pub fn draw(seed: u64, wire: Wire) -> Self {
        let mut random = Random(seed);
        let sim = wire == Wire::Sim;
        let ranks: usize = match wire {
            Wire::Sim => [2, 2, 3, 3, 4, 5, 6, 8],
            Wire::Nodes => [3, 3, 4, 4, 5, 5, 6, 6],
            Wire::Verbs => [2, 2, 3, 3, 3, 4, 4, 5],
            Wire::Shm | Wire::Tcp => [4, 4, 4, 5, 5, 6, 7, 8],
        }[random.below(8)];
        let nodes: Vec<u32> = match random.below(3) {
            0 if sim => (0..ranks).map(|rank| (rank / 2) as u32).collect(),
            1 if sim => (0..ranks).map(|rank| (rank % 2) as u32).collect(),
            0 | 1 if wire == Wire::Nodes => (0..ranks).map(|rank| (rank / 2) as u32).collect(),
            _ if wire == Wire::Nodes => (0..ranks).map(|rank| (rank / ranks.div_ceil(2)) as u32).collect(),
            _ => vec![0; ranks],
        };
        let survives = random.below(if sim { 4 } else { 2 }) == 0;
        let mut items = if sim { simulated(&mut random) } else { settings(&mut random) };
        if wire == Wire::Nodes && random.below(2) == 0 {
            items.push(ONLY_TCP);
        }
        // Where the launcher tells of no death, ranks may wait for their deadline, which ends the world.
        items.retain(|item| !survives || *item != Item::LauncherSilent);
        let begin = items.len();
        let count = 3 + random.below(12);
        items.extend(steps(&mut random, count, survives));
        let mut faults = match (sim, survives) {
            (true, true) => deaths(&mut random, ranks),
            (false, true) => struck_processes(&mut random, ranks),
            _ => faults(&mut random, ranks, sim),
        };
        if wire == Wire::Nodes {
            // Mostly of the link alone.
            faults.retain(|_| survives || random.below(4) == 0);
            faults.extend(link(&mut random, &nodes, survives));
        }
        for fault in faults {
            let at = begin + random.below(items.len() - begin + 1);
            items.insert(at, fault);
        }
        Self { seed, wire, nodes, survives, places: (0..items.len()).collect(), items }
    }

    /// The same with these of its items alone.
    pub fn keep(&self, kept: &[usize]) -> Self {
        let pick = |i: &usize| self.places.iter().position(|place| place == i);
        let items = kept.iter().filter_map(pick).map(|at| self.items[at].clone()).collect();
        Self { places: kept.to_vec(), items, ..self.clone() }
    }

    /// How to run it again.
    pub fn reproduce(&self) -> String {
        let kept: Vec<String> = self.places.iter().map(usize::to_string).collect();
        format!("CHAOS_SEED={} CHAOS_KEEP={} ci/chaos {}", self.seed, kept.join(","), self.wire.name())
    }

    /// The items that are faults.
    pub fn faults(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.culprits(&self.nodes).is_some())
    }
}

impl Item {
    /// The ranks that are at fault, of a fault, where these are the nodes of all.
    pub fn culprits(&self, nodes: &[u32]) -> Option<Vec<usize>> {
        match self {
            Self::Link { node, .. } => Some((0..nodes.len()).filter(|&rank| nodes[rank] == *node).collect()),
            Self::Odd { rank, .. }
            | Self::Kill { rank, .. }
            | Self::Stop { rank, .. }
            | Self::CutOff { rank }
            | Self::Finalize { rank }
            | Self::Leave { rank } => Some(vec![*rank]),
            Self::Cut { one, other } => Some(vec![*one, *other]),
            Self::Launcher => Some(Vec::new()),
            _ => None,
        }
    }
}

/// Traits of the simulated wire, and settings.
fn simulated(random: &mut Random) -> Vec<Item> {
    let all = [
        Item::Refuse(60),
        Item::Delay(5),
        Item::Reorder,
        Item::MaxPut(2000),
        Item::Staged,
        Item::Setting("light", "200"),
        Item::Setting("window", "3000"),
        Item::Setting("limits", "gather=1"),
        CHECK,
        Item::DeathsHidden,
        Item::DeathsRefuse,
        Item::LauncherSilent,
    ];
    all.into_iter().filter(|_| random.below(3) == 0).collect()
}

/// Settings of processes.
fn settings(random: &mut Random) -> Vec<Item> {
    let all = [
        Item::Setting("light", "200"),
        Item::Setting("window", "3000"),
        Item::Setting("limits", "gather=1"),
        CHECK,
        Item::Setting("progress", "thread"),
        Item::Setting("wait", "block"),
    ];
    all.into_iter().filter(|_| random.below(4) == 0).collect()
}

fn steps(random: &mut Random, count: usize, survives: bool) -> Vec<Item> {
    let mut comms = 1;
    let mut step = || {
        let (comm, seed) = (random.below(comms), random.draw());
        let kind = if survives { 9 } else { random.below(12) };
        match kind {
            0 => {
                comms += 1;
                let colours = 1 + random.below(3);
                let left_out = (random.below(3) == 0).then(|| random.below(colours));
                Item::Split { id: comms - 1, parent: comm, every: 1 + random.below(2), colours, left_out }
            }
            1 => {
                comms += 1;
                Item::Dup { id: comms - 1, parent: comm }
            }
            2..=4 => Item::Begin { comm, seed },
            5 => Item::Finish,
            _ => Item::Call { comm, seed },
        }
    };
    (0..count).map(|_| step()).collect()
}

fn kill(random: &mut Random, rank: usize) -> Item {
    Item::Kill { rank, posts: random.below(40) as u32 }
}

/// Ranks that die, where the others go on.
fn deaths(random: &mut Random, ranks: usize) -> Vec<Item> {
    let rank = random.below(ranks);
    (0..random.below(ranks)).map(|i| kill(random, (rank + i) % ranks)).collect()
}

/// The same of processes, some of which stop for less than a deadline.
fn struck_processes(random: &mut Random, ranks: usize) -> Vec<Item> {
    let mut all = deaths(random, ranks);
    if random.below(3) == 0 {
        all.push(Item::Stop { rank: random.below(ranks), milliseconds: 100 + random.below(800) as u64 });
    }
    all
}

/// A link that is cut or slow: for a while, which disturbs nothing, or for good.
fn link(random: &mut Random, nodes: &[u32], survives: bool) -> Option<Item> {
    let node = nodes[random.below(nodes.len())];
    let how = if random.below(3) == 0 { Link::Slow } else { Link::Down };
    let short = survives || random.below(3) == 0;
    let milliseconds = short.then(|| 1000 + random.below(2000) as u64);
    // Chosen: until it has happened some 10 ms pass.
    let rest_milliseconds = random.below(40) as u64;
    (random.below(8) > 0).then_some(Item::Link { node, how, milliseconds, rest_milliseconds })
}

/// What happens where an error ends the world: to a process no connection can be cut.
fn faults(random: &mut Random, ranks: usize, sim: bool) -> Vec<Item> {
    let rank = random.below(ranks);
    let mut fault = |rank| match random.below(12) {
        0..=2 => kill(random, rank),
        3 => Item::Stop { rank, milliseconds: 100 + random.below(800) as u64 },
        4 => Item::Stop { rank, milliseconds: 4000 + random.below(8000) as u64 },
        5 if sim => Item::CutOff { rank },
        6 if sim => Item::Cut { one: rank, other: (rank + 1) % ranks },
        5 => Item::Launcher,
        6 => kill(random, rank),
        7 => Item::Finalize { rank },
        8 => Item::Leave { rank },
        9 | 10 => Item::Odd { seed: random.draw(), rank, how: ODD[random.below(ODD.len())] },
        _ => Item::Finish,
    };
    let first = fault(rank);
    let other = fault((rank + 1) % ranks);
    match random.below(5) {
        0 => vec![],
        1 => vec![first, other],
        _ => vec![first],
    }
}
