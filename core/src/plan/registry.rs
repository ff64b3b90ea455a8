//! The registry: every algorithm as data. A new one is a file of its own, with its line, and a word in its operation's list;
//! [`all`] goes through the lists. (Broadcasts are written so; the lines of the others still stand here and in `registry/`.)

pub mod cost;
mod moves;
mod operation;
mod order;
mod reductions;

mod cube;
mod direct;
mod inter;
pub(in crate::plan) mod line;
mod nodes;
mod reversed;

use super::allgather::circulant::Allgather;
use super::allgather::runs::Allgather as Runs;
use super::allgatherv::circulant::{Allgatherv, Blocks};
use super::allgatherv::{
    Contributions, bruck, hypercube, mesh, pipelined_ring, ring, window::Pattern, window::Windows,
};
use super::barrier::dissemination::Barrier;
use super::topology::sides;
use super::{Plan, bcast, rules};
use crate::error::{Result, argument};
use crate::plan::price::Model;

pub use operation::{Arguments, Operation};
pub use order::Order;

use cost::{Cost, Formula, Machine, Path, spread};
use line::{any, by_blocks, composite, power_of_two, q};

/// Builds a plan for all ranks; the same at every rank from the same arguments and model.
pub type Build = fn(&Arguments, &Model) -> Result<Box<dyn Plan>>;

/// One line of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// What it does.
    pub operation: Operation,
    /// Its name; unique within the operation. Of equally cheap ones the first of an operation is taken.
    pub name: &'static str,
    /// When it can be used, for people.
    pub restrictions: &'static str,
    /// Communication rounds, as a formula in p, n and q = ⌈log2 p⌉.
    pub rounds: &'static str,
    /// Bytes that a rank receives, as a formula.
    pub volume: &'static str,
    /// The source.
    pub source: &'static str,
    /// Whether it can do this: what [`Algorithm::restrictions`] says, for machines.
    pub fits: fn(&Arguments) -> Result<()>,
    /// The number of rounds with `n` blocks (of the longest contribution): a bound; exact if no block is empty, unless
    /// [`Algorithm::rounds`] begins with `<=`.
    pub rounds_of: fn(&Arguments, n: u32) -> u32,
    /// The constructor.
    pub build: Build,
    /// What it costs; without one it is priced by its rounds and its volume.
    pub cost: Option<Formula>,
    /// Bytes that the rank which receives most receives, at most; without one it is the least that the operation needs.
    pub received: Option<fn(&Arguments) -> u64>,
    /// In what order it folds (operations that reduce).
    pub order: Option<Order>,
}

impl Algorithm {
    /// Bytes that the rank which receives most receives (at most, where the formula says ≤).
    pub fn volume_of(&self, arguments: &Arguments) -> u64 {
        let special = self.received.map(|received| received(arguments));
        let special = special.or_else(|| reversed::volume(self, arguments));
        let special = special.or_else(|| nodes::volume(self, arguments));
        let special = special.or_else(|| direct::volume(self, arguments));
        let special = special.or_else(|| reductions::volume(self.operation, self.name, arguments));
        let special = special.or_else(|| moves::relayed(self, arguments));
        let special = special.or_else(|| inter::rooted(self, arguments));
        special.unwrap_or_else(|| arguments.volume(self.operation))
    }

    /// Its critical path, without making a plan.
    pub fn cost(&self, arguments: &Arguments, machine: &Machine) -> Cost {
        let mut path = Path::new(machine, arguments.size);
        match self.cost {
            Some(formula) => formula(arguments, &mut path),
            None => path.by_rounds(self, arguments),
        }
        path.cost()
    }

    /// The time of its critical path in nanoseconds.
    pub fn time(&self, arguments: &Arguments, model: &Model) -> u64 {
        self.cost(arguments, &Machine::flat(*model)).nanoseconds()
    }
}

/// The lists. An operation's lines need not stand together; the first of them is its default.
const LISTS: &[&[Algorithm]] = &[
    bcast::ALGORITHMS,
    LINES,
    moves::GATHER,
    moves::GATHERV,
    moves::SCATTER,
    moves::SCATTERV,
    moves::ALLTOALL,
    moves::ALLTOALLV,
    reductions::LINES,
    reversed::LINES,
    cube::LINES,
    inter::LINES,
    nodes::LINES,
    direct::LINES,
];

/// All algorithms.
pub fn all() -> impl Iterator<Item = &'static Algorithm> {
    LISTS.iter().copied().flatten()
}

/// Allgathers and barriers.
const LINES: &[Algorithm] = &[
    Algorithm {
        operation: Operation::Allgather,
        name: "circulant",
        restrictions: "any p; n = 1",
        rounds: "q",
        volume: "m - m/p",
        source: "Träff 2022, Algorithm 7",
        fits: any,
        rounds_of: |a, _| q(a.size),
        build: |a, _| Ok(Box::new(Allgather::new(a.size, a.bytes, a.in_place)?)),
        received: None,
        cost: Some(spread::allgather),
        order: None,
    },
    Algorithm {
        operation: Operation::Allgather,
        name: "pieces",
        restrictions: "any p, n",
        rounds: "n-1+q",
        volume: "m - m/p",
        source: "Träff 2022, Algorithm 9, with equal counts",
        fits: any,
        rounds_of: by_blocks,
        build: pieces,
        received: None,
        cost: Some(spread::allgather_pieces),
        order: None,
    },
    Algorithm {
        operation: Operation::Allgather,
        name: "ring",
        restrictions: "any p; n = 1",
        rounds: "p-1",
        volume: "m - m/p",
        source: "folklore; Grama et al., chapter 4, ALL_TO_ALL_BC_RING",
        fits: any,
        rounds_of: |a, _| a.size.saturating_sub(1),
        build: |a, _| windows::<ring::Ring>(equal(a)?),
        received: None,
        cost: Some(spread::allgather_ring),
        order: None,
    },
    Algorithm {
        operation: Operation::Allgather,
        name: "pipelined_ring",
        restrictions: "any p, n",
        rounds: "n(p-1); n = ceil(m_i/B), B = ceil(m_i/n)",
        volume: "m - m/p",
        source: "Träff et al. 2010",
        fits: any,
        rounds_of: |a, n| {
            let blocks = a.bytes.div_ceil(block_of(&[a.bytes], n)).max(1);
            u32::try_from(blocks * u64::from(a.size.saturating_sub(1))).unwrap_or(u32::MAX)
        },
        build: |a, model| pipelined(a, equal(a)?, &vec![a.bytes; a.size as usize], model),
        received: None,
        cost: Some(spread::allgather_pipelined),
        order: None,
    },
    Algorithm {
        operation: Operation::Allgather,
        name: "bruck",
        restrictions: "any p; n = 1",
        rounds: "q",
        volume: "m - m/p",
        source: "Bruck et al. 1997, without the rotation",
        fits: any,
        rounds_of: |a, _| q(a.size),
        build: |a, _| windows::<bruck::Bruck>(equal(a)?),
        received: None,
        cost: Some(spread::allgather_bruck),
        order: None,
    },
    Algorithm {
        operation: Operation::Allgather,
        name: "mesh",
        restrictions: "p = a*b, not prime; n = 1",
        rounds: "a+b-2",
        volume: "m - m/p",
        source: "Grama et al., chapter 4, ALL_TO_ALL_BC_MESH",
        fits: composite,
        rounds_of: |a, _| sides(a.size).map_or(0, |(a, b)| a + b - 2),
        build: |a, _| windows::<mesh::Mesh>(equal(a)?),
        received: None,
        cost: Some(spread::allgather_mesh),
        order: None,
    },
    Algorithm {
        operation: Operation::Allgather,
        name: "hypercube",
        restrictions: "p a power of two; n = 1",
        rounds: "q",
        volume: "m - m/p",
        source: "Grama et al., chapter 4, ALL_TO_ALL_BC_HCUBE",
        fits: power_of_two,
        rounds_of: |a, _| q(a.size),
        build: |a, _| windows::<hypercube::Hypercube>(equal(a)?),
        received: None,
        cost: Some(spread::allgather_bruck),
        order: None,
    },
    Algorithm {
        operation: Operation::Allgatherv,
        name: "circulant",
        restrictions: "any p, n, counts; all ranks know all counts",
        rounds: "n-1+q",
        volume: "m - m_r",
        source: "Träff 2022, Algorithm 9",
        fits: any,
        rounds_of: by_blocks,
        build: allgatherv,
        received: None,
        cost: Some(spread::allgatherv),
        order: None,
    },
    Algorithm {
        operation: Operation::Allgatherv,
        name: "ring",
        restrictions: "any p; n = 1",
        rounds: "p-1",
        volume: "m - min m_i",
        source: "folklore; Grama et al., chapter 4, ALL_TO_ALL_BC_RING",
        fits: any,
        rounds_of: |a, _| a.size.saturating_sub(1),
        build: |a, _| windows::<ring::Ring>(unequal(a)?),
        received: None,
        cost: Some(spread::allgatherv_ring),
        order: None,
    },
    Algorithm {
        operation: Operation::Allgatherv,
        name: "pipelined_ring",
        restrictions: "any p, n",
        rounds: "b - min b_i, b_i = max(1, ceil(m_i/B)), b = sum b_i, B = max m_i/n; less if some m_i = 0",
        volume: "m - min m_i",
        source: "Träff et al. 2010, equation (1)",
        fits: any,
        rounds_of: pipelined_rounds,
        build: |a, model| pipelined(a, unequal(a)?, &a.counts, model),
        received: None,
        cost: Some(spread::allgatherv_pipelined),
        order: None,
    },
    Algorithm {
        operation: Operation::Allgatherv,
        name: "bruck",
        restrictions: "any p; n = 1",
        rounds: "q",
        volume: "m - min m_i",
        source: "Bruck et al. 1997, without the rotation",
        fits: any,
        rounds_of: |a, _| q(a.size),
        build: |a, _| windows::<bruck::Bruck>(unequal(a)?),
        received: None,
        cost: Some(spread::allgatherv_bruck),
        order: None,
    },
    Algorithm {
        operation: Operation::Allgatherv,
        name: "mesh",
        restrictions: "p = a*b, not prime; n = 1",
        rounds: "a+b-2",
        volume: "m - min m_i",
        source: "Grama et al., chapter 4, ALL_TO_ALL_BC_MESH",
        fits: composite,
        rounds_of: |a, _| sides(a.size).map_or(0, |(a, b)| a + b - 2),
        build: |a, _| windows::<mesh::Mesh>(unequal(a)?),
        received: None,
        cost: Some(spread::allgatherv_mesh),
        order: None,
    },
    Algorithm {
        operation: Operation::Allgatherv,
        name: "hypercube",
        restrictions: "p a power of two; n = 1",
        rounds: "q",
        volume: "m - min m_i",
        source: "Grama et al., chapter 4, ALL_TO_ALL_BC_HCUBE",
        fits: power_of_two,
        rounds_of: |a, _| q(a.size),
        build: |a, _| windows::<hypercube::Hypercube>(unequal(a)?),
        received: None,
        cost: Some(spread::allgatherv_bruck),
        order: None,
    },
    Algorithm {
        operation: Operation::Barrier,
        name: "dissemination",
        restrictions: "any p",
        rounds: "q",
        volume: "0",
        source: "dissemination on circulant skips",
        fits: any,
        rounds_of: |a, _| q(a.size),
        build: |a, _| Ok(Box::new(Barrier::new(a.size)?)),
        received: None,
        cost: Some(spread::barrier),
        order: None,
    },
];

/// Of equal counts, one after the other, and in one block each, by steps for runs instead of pieces.
fn allgatherv(a: &Arguments, model: &Model) -> Result<Box<dyn Plan>> {
    match spread::regular(a).filter(|_| in_order(a)) {
        Some(regular) => pieces(&Arguments { in_place: a.in_place, ..regular }, model),
        None => irregular(a, model),
    }
}

/// Of the same number of bytes each.
fn pieces(a: &Arguments, model: &Model) -> Result<Box<dyn Plan>> {
    if a.blocks.unwrap_or(1) == 1 {
        let cut = model.cut(a.bytes);
        return Ok(Box::new(Runs::new(a.size, a.bytes, model.coalesce(), cut, a.in_place)?));
    }
    let end = a.bytes.checked_mul(a.size.into()).ok_or_else(|| argument("beyond 2^64 bytes"))?;
    let displs = (0..u64::from(a.size)).map(|j| j * (end / u64::from(a.size))).collect();
    let counts = vec![a.bytes; a.size as usize];
    irregular(&Arguments { counts, displs, ..a.clone() }, model)
}

/// Whether equal contributions lie one after the other from the start of the output.
fn in_order(a: &Arguments) -> bool {
    let bytes = a.counts.first().copied().unwrap_or(0);
    let places = (0..).map(|j: u64| j.checked_mul(bytes));
    a.counts.len() == a.size as usize
        && a.displs.len() == a.counts.len()
        && places.zip(&a.displs).all(|(place, d)| place == Some(*d))
}

fn irregular(a: &Arguments, model: &Model) -> Result<Box<dyn Plan>> {
    let blocks = a.blocks.map_or_else(|| rules::allgatherv_blocks(&a.counts, model), Blocks::Equal);
    Ok(Box::new(Allgatherv::new(&a.counts, &a.displs, &blocks, a.in_place)?))
}

fn equal(a: &Arguments) -> Result<Contributions> {
    Contributions::equal(a.size, a.bytes, a.in_place)
}

fn unequal(a: &Arguments) -> Result<Contributions> {
    Contributions::new(&a.counts, &a.displs, a.in_place)
}

fn windows<P: Pattern + 'static>(data: Contributions) -> Result<Box<dyn Plan>> {
    Ok(Box::new(Windows::<P>::new(data)?))
}

/// The length of blocks of which the longest contribution has `n`.
fn block_of(counts: &[u64], n: u32) -> u64 {
    counts.iter().copied().max().unwrap_or(0).div_ceil(u64::from(n.max(1))).max(1)
}

fn pipelined(a: &Arguments, data: Contributions, counts: &[u64], model: &Model) -> Result<Box<dyn Plan>> {
    let block = a.blocks.map_or_else(|| rules::ring_block(counts, model), |n| block_of(counts, n));
    if !a.nodes.is_empty() && a.nodes.len() != counts.len() {
        return Err(argument(format!("the nodes of {} ranks, of {}", a.nodes.len(), counts.len())));
    }
    let ring = match a.nodes[..] {
        [] => pipelined_ring::spread(counts),
        _ => pipelined_ring::by_node(counts, &a.nodes),
    };
    Ok(Box::new(pipelined_ring::Allgatherv::new(data, block, ring)?))
}

/// Equation (1): b − min b_i.
fn pipelined_rounds(a: &Arguments, n: u32) -> u32 {
    let block = block_of(&a.counts, n);
    let blocks = || a.counts.iter().map(|count| count.div_ceil(block).max(1));
    u32::try_from(blocks().sum::<u64>() - blocks().min().unwrap_or(0)).unwrap_or(u32::MAX)
}

/// The algorithms of an operation; the default one first.
pub fn algorithms(operation: Operation) -> impl Iterator<Item = &'static Algorithm> {
    all().filter(move |algorithm| algorithm.operation == operation)
}

/// The algorithm called `name` of an operation; `auto` is its default.
///
/// # Errors
/// If there is none; the message names those there are.
pub fn algorithm(operation: Operation, name: &str) -> Result<&'static Algorithm> {
    algorithms(operation).find(|a| a.name == name || name == "auto").ok_or_else(|| {
        let names: Vec<_> = algorithms(operation).map(|a| a.name).collect();
        argument(format!("{operation} has no algorithm {name:?}"))
            .help(format!("one of auto, {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::interpret::{Goal, prove};

    #[test]
    fn every_algorithm_keeps_its_promises() {
        let model = Model { latency_ns: 1500, overhead_ns: 200, byte_ps: 80, reduce_ps: 100 };
        // Those that reduce: core/tests/pure/plan_reduce.rs; between groups: core/tests/pure/plan_inter.rs.
        for algorithm in all().filter(|a| !a.operation.reduces() && !a.operation.is_between_groups()) {
            for size in [1u32, 2, 9, 33] {
                let counts = vec![640; size as usize];
                let displs: Vec<u64> = (0..u64::from(size)).map(|j| j * 640).collect();
                let goal = match algorithm.operation {
                    // core/tests/pure/plan_moves.rs
                    Operation::Gather
                    | Operation::Gatherv
                    | Operation::Scatter
                    | Operation::Scatterv
                    | Operation::Alltoall
                    | Operation::Alltoallv => continue,
                    Operation::Bcast => Goal::bcast(0, 640),
                    Operation::Barrier => Goal::default(),
                    _ => Goal::allgatherv(&counts, &displs, false),
                };
                let arguments =
                    Arguments { size, bytes: 640, counts, displs, blocks: Some(5), ..Arguments::default() };
                if (algorithm.fits)(&arguments).is_err() {
                    assert!((algorithm.build)(&arguments, &model).is_err(), "{algorithm:?}");
                    continue;
                }
                let plan = (algorithm.build)(&arguments, &model).unwrap();
                let report = prove(&*plan, &goal).unwrap();
                assert_eq!(plan.rounds(), (algorithm.rounds_of)(&arguments, 5), "{algorithm:?}");
                let bound = algorithm.rounds.starts_with("<=");
                assert!(report.rounds == plan.rounds() || bound, "{algorithm:?}");
                assert!(report.rounds <= plan.rounds(), "{algorithm:?}");
                let receivers = if algorithm.operation == Operation::Bcast { size - 1 } else { size };
                assert_eq!(
                    report.bytes,
                    u64::from(receivers) * algorithm.volume_of(&arguments),
                    "{algorithm:?}"
                );
            }
        }
    }

    #[test]
    fn names_are_unique_and_found() {
        for a in all() {
            assert_eq!(algorithms(a.operation).filter(|b| b.name == a.name).count(), 1, "{a:?}");
            assert_eq!(algorithm(a.operation, a.name).unwrap().name, a.name);
            assert_eq!(a.operation.name().parse::<Operation>().unwrap(), a.operation);
        }
        assert!(algorithm(Operation::Bcast, "rng").unwrap_err().to_string().contains("circulant"));
        assert!("bcats".parse::<Operation>().unwrap_err().to_string().contains("allgatherv"));
    }
}
