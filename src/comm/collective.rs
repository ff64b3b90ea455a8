//! What is called, under the name that its callers know.

use crate::plan::registry::Operation;

/// An operation of the registry, or a call that goes by the algorithms of another one: of an alltoallv along a graph or of pieces, of
/// an allreduce the check before a call, and the times of a [trial](super::adapt).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collective {
    Registered(Operation),
    NeighborAllgather,
    NeighborAllgatherv,
    NeighborAlltoall,
    NeighborAlltoallv,
    GathervRooted,
    ScattervRooted,
    Alltoallw,
    Check,
    Times,
}

/// Those that go by the algorithms of another operation. Their codes count on from [`FIRST_CODE`].
const DERIVED: [(Collective, &str); 9] = [
    (Collective::NeighborAllgather, "neighbor_allgather"),
    (Collective::NeighborAllgatherv, "neighbor_allgatherv"),
    (Collective::NeighborAlltoall, "neighbor_alltoall"),
    (Collective::NeighborAlltoallv, "neighbor_alltoallv"),
    (Collective::GathervRooted, "gatherv_rooted"),
    (Collective::ScattervRooted, "scatterv_rooted"),
    (Collective::Alltoallw, "alltoallw"),
    (Collective::Check, "check"),
    (Collective::Times, "times of a trial"),
];

/// Above the codes of registered operations, below those that mean something else.
const FIRST_CODE: u8 = 64;

impl From<Operation> for Collective {
    fn from(operation: Operation) -> Self {
        Self::Registered(operation)
    }
}

impl Collective {
    /// Whose algorithms it goes by.
    pub(super) fn operation(self) -> Operation {
        match self {
            Self::Registered(operation) => operation,
            Self::Check | Self::Times => Operation::Allreduce,
            _ => Operation::Alltoallv,
        }
    }

    /// Its number among those that go by another operation.
    fn derived(self) -> Option<usize> {
        match self {
            Self::Registered(_) => None,
            _ => DERIVED.iter().position(|(collective, _)| *collective == self),
        }
    }

    /// The name of its method.
    pub(super) fn name(self) -> &'static str {
        self.derived().map_or_else(|| self.operation().name(), |i| DERIVED[i].1)
    }

    /// A number for the wire.
    pub(super) fn code(self) -> u8 {
        let derived = self.derived().and_then(|i| u8::try_from(i).ok());
        derived.map_or_else(|| self.operation().code(), |i| FIRST_CODE + i)
    }

    /// The name of the call with this code, for messages about other ranks.
    pub(super) fn name_of(code: u8) -> &'static str {
        let derived = code.checked_sub(FIRST_CODE).and_then(|i| DERIVED.get(usize::from(i)));
        derived.map_or_else(|| Operation::name_of(code), |(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_lead_to_names() {
        let registered = Operation::ALL.into_iter().map(Collective::from);
        let all: Vec<Collective> = registered.chain(DERIVED.iter().map(|(call, _)| *call)).collect();
        for call in &all {
            assert_eq!(Collective::name_of(call.code()), call.name());
            assert_eq!(all.iter().filter(|other| other.code() == call.code()).count(), 1, "{call:?}");
        }
        assert_eq!(Collective::NeighborAlltoall.operation(), Operation::Alltoallv);
        assert_eq!((Collective::name_of(0), Collective::name_of(63)), ("no operation", "no operation"));
    }
}
