//! Cores that the ranks of a node share: each goes round its ranks, and works for one until that has nothing to do.

use crate::machine::Machine;

/// The cores of all nodes. Rank i of a node has the core i modulo their number.
#[derive(Debug)]
pub(super) struct Cores {
    turn_ps: u64,
    cores: Vec<Core>,
    /// By rank: its core, and its number among the ranks of that.
    of: Vec<(usize, usize)>,
}

#[derive(Clone, Debug, Default)]
struct Core {
    ranks: Vec<u32>,
    /// Which of them it works for, or was at last.
    at: usize,
    busy: bool,
    /// If it is not: since when it goes round in vain, in picoseconds.
    idle_since: u64,
}

impl Cores {
    /// Where ranks share cores.
    pub(super) fn new(machine: &Machine, size: u32) -> Option<Self> {
        let cores = machine.cores.per_node;
        let nodes = machine.node_of(size.checked_sub(1)?) + 1;
        let count = (nodes as usize).checked_mul(cores as usize).filter(|count| *count > 0)?;
        let turn_ps = machine.cores.turn_ns * 1000;
        let mut all = Self { turn_ps, cores: vec![Core::default(); count], of: Vec::new() };
        for rank in 0..size {
            let node = machine.node_of(rank);
            let within = rank - node * machine.per_node.clamp(1, size);
            let core = (node * cores + within % cores) as usize;
            all.of.push((core, all.cores[core].ranks.len()));
            all.cores[core].ranks.push(rank);
        }
        Some(all)
    }

    /// Whether the core of `rank` has other ranks, too.
    pub(super) fn has_others(&self, rank: u32) -> bool {
        self.cores[self.of[rank as usize].0].ranks.len() > 1
    }

    /// `rank` has something to do: when its core comes to it, if that had nothing to do for others.
    pub(super) fn claim(&mut self, now: u64, rank: u32) -> Option<u64> {
        let (core, number) = self.of[rank as usize];
        let core = &mut self.cores[core];
        if core.busy {
            return None;
        }
        let ranks = core.ranks.len() as u64;
        let passed = (now - core.idle_since).checked_div(self.turn_ps).unwrap_or(0) % ranks;
        let turns = (number as u64 + 2 * ranks - core.at as u64 - passed) % ranks;
        (core.busy, core.at) = (true, number);
        Some(now + turns * self.turn_ps)
    }

    /// `rank` has nothing to do any more: the next rank of its core for which there `is_work`, and when.
    pub(super) fn pass(&mut self, now: u64, rank: u32, is_work: impl Fn(u32) -> bool) -> Option<(u32, u64)> {
        let (core, number) = self.of[rank as usize];
        let core = &mut self.cores[core];
        let mut round = core.ranks.iter().enumerate().cycle().skip(number + 1).take(core.ranks.len() - 1);
        let mut at = now;
        let next = round.find(|(_, rank)| {
            at += self.turn_ps;
            is_work(**rank)
        });
        if let Some((number, rank)) = next {
            core.at = number;
            return Some((*rank, at));
        }
        (core.busy, core.idle_since) = (false, now);
        None
    }
}
