//! The memory that an algorithm's connections take, where every rank puts to all others.
//!
//! A connection between two ranks of a node is a ring for each of them to write to and what both keep of the other. So an
//! algorithm in which all ranks of a node of m meet takes m² of them, which no bound on a rank's own memory holds: with 1024 ranks
//! 15 GB. Where another algorithm can do the call it is not chosen then.

use crate::machine::Machine;
use crate::plan::registry::{Algorithm, Arguments, Operation};

/// What connections may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// Bytes of a connection with a rank of the same node over shared memory of our own, at each of both.
    each: u64,
    /// Bytes of all connections of a rank, at most, if the call's own data is less.
    most: u64,
}

impl Bound {
    /// `each`: a page of a ring, what is kept of a peer, and pages of tables for its memory (docs/scale.md has what was measured).
    /// `most`: chosen: what a call's own data may take anyhow, so `direct` is for up to 293 ranks on a node.
    pub(super) const USUAL: Self = Self { each: 14 << 10, most: 4 << 20 };

    /// The bytes that an algorithm's connections would take at each rank, if that is too much.
    pub(super) fn exceeded(
        self,
        algorithm: &Algorithm,
        operation: Operation,
        arguments: &Arguments,
        machine: &Machine,
    ) -> Option<u64> {
        let here = if machine.readers { arguments.size.min(machine.per_node) } else { 0 };
        let bytes = u64::from(here.saturating_sub(1)).saturating_mul(self.each);
        let most = self.most.max(arguments.total(operation));
        (algorithm.all_pairs && bytes > most).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::LogGp;
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
        let bound = Bound { each: 100, most: 1000 };
        let alltoall = Operation::Alltoall;
        let direct = algorithm(alltoall, "direct").unwrap();
        let exceeded = |bound: Bound, name: &str, size, bytes, machine: &Machine| {
            bound.exceeded(algorithm(alltoall, name).unwrap(), alltoall, &arguments(size, bytes), machine)
        };
        assert_eq!(exceeded(bound, "direct", 11, 8, &machine), None);
        assert_eq!(exceeded(bound, "direct", 12, 8, &machine), Some(1100));
        assert_eq!(exceeded(bound, "direct", 12, 92, &machine), None, "1104 bytes of data");
        assert_eq!(exceeded(bound, "circulant", 1000, 8, &machine), None);
        // Ten ranks on a node, or no memory in common.
        assert_eq!(exceeded(bound, "direct", 1000, 0, &Machine { per_node: 10, ..machine }), None);
        assert_eq!(exceeded(bound, "direct", 1000, 0, &Machine { readers: false, ..machine }), None);
        assert!(direct.all_pairs);
        assert_eq!(exceeded(Bound::USUAL, "direct", 256, 8, &machine), None);
        assert!(exceeded(Bound::USUAL, "direct", 1024, 1000, &machine).is_some());
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
