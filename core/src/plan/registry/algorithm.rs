//! One line of the registry: what an algorithm is.

use super::arguments::Arguments;
use super::cost::{Cost, Formula, Path, float};
use super::operation::Operation;
use super::order::Order;
use crate::error::Result;
use crate::machine::{Groups, LogGp, Machine};
use crate::plan::Plan;
use crate::plan::rules::MAX_BLOCK_PUTS;

/// Builds a plan for all ranks; the same at every rank from the same arguments and model.
pub type Build = fn(&Arguments, &LogGp) -> Result<Box<dyn Plan>>;

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
    /// Every rank has all others for peers: p−1 connections.
    pub all_pairs: bool,
    /// Puts that a rank posts or gets for each block of a message, about: 1 where a block takes one way, more where it is one of every rank.
    pub puts_per_block: fn(&Arguments) -> u32,
    /// Where blocks are the messages of a rank in a hop: how many there are.
    pub messages: Option<Messages>,
}

/// How many messages a rank puts in a hop.
#[derive(Clone, Copy, Debug)]
pub struct Messages {
    /// The least number of hops: with fewer, messages go from all to all as by another algorithm.
    pub fewest_hops: u32,
    /// The cheapest number of messages on a machine: what a call takes that does not name a number.
    pub cheapest: fn(&Arguments, &Machine) -> u32,
}

impl Algorithm {
    /// Bytes that the rank which receives most receives (at most, where the formula says ≤).
    pub fn volume_of(&self, arguments: &Arguments) -> u64 {
        self.received.map_or_else(|| arguments.volume(self.operation), |received| received(arguments))
    }

    /// The number of blocks of a call: the named one, or fewer where a rank would have more than [`MAX_BLOCK_PUTS`] puts for them; at least one.
    pub fn blocks(&self, arguments: &Arguments) -> Option<u32> {
        let named = arguments.blocks?;
        if named <= MAX_BLOCK_PUTS / arguments.size.max(1) {
            return Some(named);
        }
        let puts = (self.puts_per_block)(arguments).max(1);
        Some(named.min((MAX_BLOCK_PUTS / puts).max(1)))
    }

    /// The number of blocks of a call on a machine: the named one or, of messages in a hop, the cheapest; `None`: by the rule of the plan.
    pub fn blocks_on(&self, arguments: &Arguments, machine: &Machine) -> Option<u32> {
        arguments.blocks.or_else(|| self.messages.map(|messages| (messages.cheapest)(arguments, machine)))
    }

    /// Its critical path, without making a plan.
    pub fn cost(&self, arguments: &Arguments, machine: &Machine) -> Cost {
        // Ranks that are all in one group have its links only.
        let groups = if arguments.groups.is_empty() { Groups::NONE } else { machine.groups };
        self.cost_if(arguments, machine, groups)
    }

    /// The same if the nodes were in such groups, whatever is known of them.
    pub fn cost_if(&self, arguments: &Arguments, machine: &Machine, groups: Groups) -> Cost {
        let (blocks, bounded);
        blocks = self.blocks(arguments);
        let arguments = if blocks == arguments.blocks {
            arguments
        } else {
            bounded = Arguments { blocks, ..arguments.clone() };
            &bounded
        };
        let machine = Machine { groups, ..*machine };
        let mut path = Path::new(&machine, arguments.size);
        match self.cost {
            Some(formula) => formula(arguments, &mut path),
            None => self.by_rounds(arguments, &mut path),
        }
        path.cost()
    }

    /// What a line without a formula costs: its rounds in lock-step, and its volume.
    fn by_rounds(&self, a: &Arguments, path: &mut Path<'_>) {
        let n = a.blocks.unwrap_or(1);
        path.blocks(n);
        let (rounds, bytes) = (f64::from((self.rounds_of)(a, n)), float(self.volume_of(a)));
        path.with_all(rounds, rounds, bytes);
        if self.operation.reduces() {
            path.reduce(bytes);
        }
    }
}
