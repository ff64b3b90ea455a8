//! The memory that an algorithm takes on a node of very many ranks: for its connections, where every rank puts to all others, and for what it
//! forwards.
//!
//! A connection between two ranks of a node is a ring for each of them to write to and what both keep of the other. So an
//! algorithm in which all ranks of a node of m meet takes m² of them, which no bound on a rank's own memory holds: with 1024 ranks
//! 15 GB by the figure below. An alltoall in q rounds lands (p/2)q blocks at each rank, and packs as many; a scan or an allreduce in q rounds of whole vectors lands q of them.
//! Where another algorithm can do the call, one that takes too much is not chosen.

use crate::machine::Machine;
use crate::plan::registry::{Algorithm, Arguments, Operation};

/// What an algorithm would take too much of at each rank, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    /// Of memory for connections.
    Connections(u64),
    /// Of memory for what is forwarded.
    Forwarded(u64),
}

impl std::fmt::Display for Excess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, bytes) = match self {
            Self::Connections(bytes) => ("its connections take", bytes),
            Self::Forwarded(bytes) => ("there land", bytes),
        };
        write!(f, "{what} {} MB at each rank", bytes >> 20)
    }
}

/// What connections may take, and what is forwarded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// Bytes of a connection with a rank of the same node over shared memory of our own, at each of both.
    each: u64,
    /// Bytes of all connections of a rank, at most, if the call's own data is less.
    most: u64,
    /// Bytes that land at all ranks of a node together, at most, if that is not less than `FORWARDED_TIMES` the call's own data.
    node: u64,
}

/// What is forwarded in q rounds, of one message each, is at most q times the call's data. Chosen: ranks are fewer than 2^32.
const MAX_ROUNDS: u64 = 32;

/// Of a call's data what lands at a rank may be as many times as much. Chosen: more than an alltoall in two hops needs ([`bruck`](crate::plan::alltoall::bruck)).
const FORWARDED_TIMES: u64 = 3;

impl Bound {
    /// `each`: a page of a ring, what is kept of a peer, and pages of tables for its memory (docs/scale.md has what was measured).
    /// `most`: chosen: what a call's own data may take anyhow, so `direct` is for up to 293 ranks on a node.
    /// `node`: chosen: as much again is packed, and a machine of 24 GB has room for both.
    pub(super) const USUAL: Self = Self { each: 14 << 10, most: 4 << 20, node: 4 << 30 };

    /// What an algorithm would take too much of.
    pub(super) fn exceeded(
        self,
        algorithm: &Algorithm,
        operation: Operation,
        arguments: &Arguments,
        machine: &Machine,
    ) -> Option<Excess> {
        let here = u64::from(if machine.readers { arguments.size.min(machine.per_node) } else { 0 });
        if algorithm.all_pairs {
            let bytes = here.saturating_sub(1).saturating_mul(self.each);
            let exceeds = bytes > self.most && bytes > arguments.total(operation);
            return exceeds.then_some(Excess::Connections(bytes));
        }
        // Others forward no more than their data, and to count what lands takes longer than a price.
        let forwards = matches!(
            operation,
            Operation::Alltoall | Operation::Allreduce | Operation::Scan | Operation::Exscan
        );
        if !forwards {
            return None;
        }
        let total = arguments.total(operation);
        let most = self.node.checked_div(here)?.max(total.saturating_mul(FORWARDED_TIMES));
        let bytes = match algorithm.messages {
            Some(_) => {
                let blocks = algorithm.blocks_on(arguments, machine);
                algorithm.volume_of(&Arguments { blocks, ..arguments.clone() })
            }
            None if total.saturating_mul(MAX_ROUNDS) > most => algorithm.volume_of(arguments),
            None => 0,
        };
        (bytes > most).then_some(Excess::Forwarded(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Cores, LogGp};
    use crate::plan::registry::{algorithm, all};
    use crate::plan::{Kind, Plan};
    use std::collections::HashSet;

    const MODEL: LogGp = LogGp { latency_ns: 350, overhead_ns: 75, byte_ps: 24, reduce_ps: 100 };

    fn arguments(size: u32, bytes: u64) -> Arguments {
        let counts = vec![bytes; size as usize];
        let displs = (0..u64::from(size)).map(|j| j * bytes).collect();
        Arguments { size, bytes, counts, displs, element: 8, commutative: true, ..Arguments::default() }
    }

    #[test]
    fn a_bound_is_what_all_connections_of_a_rank_take_or_the_data() {
        let machine = Machine { readers: true, per_node: u32::MAX, ..Machine::flat(MODEL) };
        let bound = Bound { each: 100, most: 1000, node: u64::MAX };
        let connections = |bytes| Some(Excess::Connections(bytes));
        let alltoall = Operation::Alltoall;
        let direct = algorithm(alltoall, "direct").unwrap();
        let exceeded = |bound: Bound, name: &str, size, bytes, machine: &Machine| {
            bound.exceeded(algorithm(alltoall, name).unwrap(), alltoall, &arguments(size, bytes), machine)
        };
        assert_eq!(exceeded(bound, "direct", 11, 8, &machine), None);
        assert_eq!(exceeded(bound, "direct", 12, 8, &machine), connections(1100));
        assert_eq!(exceeded(bound, "direct", 12, 92, &machine), None, "1104 bytes of data");
        assert_eq!(exceeded(bound, "circulant", 1000, 8, &machine), None);
        // Ten ranks on a node, or no memory in common.
        assert_eq!(exceeded(bound, "direct", 1000, 0, &Machine { per_node: 10, ..machine }), None);
        assert_eq!(exceeded(bound, "direct", 1000, 0, &Machine { readers: false, ..machine }), None);
        assert!(direct.all_pairs);
        assert_eq!(exceeded(Bound::USUAL, "direct", 256, 8, &machine), None);
        assert!(exceeded(Bound::USUAL, "direct", 1024, 1000, &machine).is_some());
    }

    /// What lands may be a node's share, or a few times the data; then an alltoall of two hops is chosen, which stays below.
    #[test]
    fn a_node_bounds_what_lands_at_its_ranks() {
        let machine = Machine { readers: true, per_node: u32::MAX, ..Machine::flat(MODEL) };
        let exceeded = |name: &str, size, bytes| {
            let line = algorithm(Operation::Alltoall, name).unwrap();
            Bound::USUAL.exceeded(line, Operation::Alltoall, &arguments(size, bytes), &machine)
        };
        for (size, bytes) in [(1024, 1024), (1024, 1 << 20), (3000, 1 << 10)] {
            for name in ["circulant", "mesh"] {
                let landed = algorithm(Operation::Alltoall, name).unwrap().volume_of(&arguments(size, bytes));
                assert_eq!(exceeded(name, size, bytes), Some(Excess::Forwarded(landed)), "{name}");
            }
            for cores in [0, 2, 16, 64] {
                let shared = Machine { cores: Cores::shared(cores), ..machine };
                let machine = if cores > 0 { shared } else { machine };
                let line = algorithm(Operation::Alltoall, "bruck").unwrap();
                let found =
                    Bound::USUAL.exceeded(line, Operation::Alltoall, &arguments(size, bytes), &machine);
                assert_eq!(found, None, "{cores} cores");
            }
            let line = algorithm(Operation::Alltoall, "bruck").unwrap();
            let twos = Arguments { blocks: Some(1), ..arguments(size, bytes) };
            let landed = Bound::USUAL.exceeded(line, Operation::Alltoall, &twos, &machine);
            assert_eq!(landed, Some(Excess::Forwarded(line.volume_of(&twos))));
        }
        assert_eq!(exceeded("circulant", 1024, 512), None);
        assert_eq!(exceeded("circulant", 64, 16 << 10), None);
        let vectors: [(_, &[&str], &str); 3] = [
            (Operation::Scan, &["hypercube", "doubling"], "pipeline"),
            (Operation::Exscan, &["hypercube", "one-two-three"], "pipeline"),
            (Operation::Allreduce, &["doubling", "multiplying", "ordered", "census"], "circulant"),
        ];
        for (operation, too_much, good) in vectors {
            let exceeded = |name: &str, bytes| {
                let line = algorithm(operation, name).unwrap();
                Bound::USUAL.exceeded(line, operation, &arguments(1024, bytes), &machine)
            };
            for name in too_much {
                assert!(
                    matches!(exceeded(name, 1_000_000), Some(Excess::Forwarded(_))),
                    "{operation} {name}"
                );
                assert_eq!(exceeded(name, 100_000), None, "{operation} {name}");
            }
            assert_eq!(exceeded(good, 1_000_000), None, "{operation} {good}");
        }
        let apart = Machine { readers: false, ..machine };
        let circulant = algorithm(Operation::Alltoall, "circulant").unwrap();
        assert_eq!(
            Bound::USUAL.exceeded(circulant, Operation::Alltoall, &arguments(1024, 1 << 20), &apart),
            None
        );
    }

    /// A line says of itself that all ranks meet if, and only if, they do.
    #[test]
    fn lines_know_whether_all_ranks_meet() {
        const RANKS: u32 = 16;
        for line in all().filter(|line| !line.operation.is_between_groups()) {
            let arguments = Arguments { nodes: [].into(), ..arguments(RANKS, 1024) };
            if (line.fits)(&arguments).is_err() || line.operation == Operation::Alltoallv {
                continue;
            }
            let Ok(plan) = (line.build)(&arguments, &MODEL) else { continue };
            let peers = |plan: &dyn Plan, rank: u32| {
                let met = plan.steps(rank).filter(|step| matches!(step.kind, Kind::Put | Kind::Expect));
                met.map(|step| step.peer).collect::<HashSet<_>>().len()
            };
            let meet = (0..RANKS).all(|rank| peers(&*plan, rank) + 1 == RANKS as usize);
            assert_eq!(line.all_pairs, meet, "{} {}", line.operation, line.name);
        }
    }
}
