//! What was taken and what was passed on: by operation and size, with the time in each. `CIRCULANT_MPI_REPORT=1` prints it at the end.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// An enum of things that are counted.
macro_rules! counted {
    ($(#[$doc:meta])* $enum:ident: $($variant:ident $name:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $enum { $($variant),* }

        impl $enum {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

counted! {
    /// The operations.
    Operation:
    Barrier "barrier",
    Bcast "bcast",
    Gather "gather",
    Gatherv "gatherv",
    Scatter "scatter",
    Scatterv "scatterv",
    Allgather "allgather",
    Allgatherv "allgatherv",
    Alltoall "alltoall",
    Alltoallv "alltoallv",
    Alltoallw "alltoallw",
    Reduce "reduce",
    Allreduce "allreduce",
    ReduceScatter "reduce_scatter",
    ReduceScatterBlock "reduce_scatter_block",
    Scan "scan",
    Exscan "exscan",
}

counted! {
    /// Why a call goes to the MPI.
    Reason:
    SingleRank "a communicator of one rank",
    Intercommunicator "an intercommunicator",
    Foreign "ranks outside MPI_COMM_WORLD",
    Selection "not chosen by CIRCULANT_MPI_TAKE",
    Trial "tried",
    Slower "tried, and not faster here",
    Operator "an operator on a type that it is not defined for here",
    Arguments "arguments that the MPI refuses",
    Within "an operator of the MPI's, which only calls of the program may call",
    Requests "this MPI's progress calls no other library",
    Untried "blocking calls have not tried this size yet",
    New "a communicator of MPI_Comm_idup or of a session, before its first blocking collective",
}

impl Reason {
    /// A call with the same arguments on the same communicator goes to the MPI for the same reason again.
    pub(crate) fn is_final(self) -> bool {
        match self {
            Self::SingleRank | Self::Intercommunicator | Self::Foreign => true,
            Self::Selection | Self::Slower | Self::Requests => true,
            Self::Trial | Self::Untried | Self::New => false,
            // Not of what is looked at alone.
            Self::Operator | Self::Arguments | Self::Within => false,
        }
    }
}

/// Size classes end at these numbers of bytes; the last has no end.
const SIZES: [(usize, &str); 5] =
    [(64, "<=64"), (1 << 10, "<=1K"), (8 << 10, "<=8K"), (64 << 10, "<=64K"), (1 << 20, "<=1M")];
const CLASSES: usize = SIZES.len() + 1;
const OPERATIONS: usize = Operation::ALL.len();
/// Blocking operations, then non-blocking ones.
const LINES: usize = 2 * OPERATIONS;
const REASONS: usize = Reason::ALL.len();

/// Calls, and the time in them in nanoseconds.
#[derive(Debug)]
struct Calls {
    calls: AtomicU64,
    ns: AtomicU64,
}

impl Calls {
    const fn new() -> Self {
        Self { calls: AtomicU64::new(0), ns: AtomicU64::new(0) }
    }

    fn add(&self, time: Option<Duration>) {
        self.calls.fetch_add(1, Relaxed);
        if let Some(time) = time {
            self.ns.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        }
    }

    fn get(&self) -> (u64, u64) {
        (self.calls.load(Relaxed), self.ns.load(Relaxed))
    }
}

/// The counts of this process.
#[derive(Debug)]
pub(crate) struct Counts {
    taken: [[Calls; CLASSES]; LINES],
    passed: [[Calls; REASONS]; LINES],
}

/// One for the process, as there is one MPI.
pub(crate) static COUNTS: Counts = Counts::new();

/// The line of an operation, blocking or not.
fn index((operation, blocks): (Operation, bool)) -> usize {
    if blocks { operation as usize } else { OPERATIONS + operation as usize }
}

impl Counts {
    const fn new() -> Self {
        Self {
            taken: [const { [const { Calls::new() }; CLASSES] }; LINES],
            passed: [const { [const { Calls::new() }; REASONS] }; LINES],
        }
    }

    pub(crate) fn took(&self, line: (Operation, bool), bytes: usize, time: Option<Duration>) {
        let class = SIZES.iter().position(|(most, _)| bytes <= *most).unwrap_or(CLASSES - 1);
        self.taken[index(line)][class].add(time);
    }

    pub(crate) fn passed(&self, line: (Operation, bool), reason: Reason, time: Option<Duration>) {
        self.passed[index(line)][reason as usize].add(time);
    }

    /// The report, of rank 0 alone: a line for each operation that was called, and its parts.
    pub(crate) fn text(&self) -> String {
        let sum = |lines: &[Calls]| lines.iter().map(|c| c.get().0).sum::<u64>();
        let taken: u64 = self.taken.iter().map(|lines| sum(lines)).sum();
        let passed: u64 = self.passed.iter().map(|lines| sum(lines)).sum();
        let mut text = format!("circulant: rank 0: taken {taken}, passed on {passed}\n");
        let blocking = Operation::ALL.iter().map(|operation| (*operation, true));
        for line in blocking.chain(Operation::ALL.iter().map(|operation| (*operation, false))) {
            let (taken, passed) = (&self.taken[index(line)], &self.passed[index(line)]);
            if sum(taken) + sum(passed) == 0 {
                continue;
            }
            let _ = writeln!(
                text,
                "circulant: {}{}: taken {}, passed on {}",
                if line.1 { "" } else { "i" },
                line.0.name(),
                sum(taken),
                sum(passed)
            );
            let sizes = SIZES.iter().map(|(_, name)| *name).chain([">1M"]);
            let lines = sizes.zip(taken).map(|(name, calls)| ("taken", name, calls));
            let reasons = Reason::ALL.iter().map(|r| r.name());
            let lines = lines.chain(reasons.zip(passed).map(|(name, calls)| ("passed on", name, calls)));
            for (what, name, calls) in lines.filter(|(.., calls)| calls.get().0 > 0) {
                let (calls, ns) = calls.get();
                let (seconds, us) = (ns / 1_000_000_000, ns / 1000 % 1_000_000);
                let _ = writeln!(text, "circulant:   {what} {name}: {calls} calls, {seconds}.{us:06} s");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_says_what_went_where() {
        let counts = Counts::new();
        counts.took((Operation::Bcast, true), 64, Some(Duration::from_micros(1_000_002)));
        counts.took((Operation::Bcast, true), 65, None);
        counts.took((Operation::Bcast, false), 0, None);
        counts.took((Operation::Exscan, true), 2 << 20, None);
        counts.passed((Operation::Bcast, true), Reason::Selection, None);
        let wanted = "circulant: rank 0: taken 4, passed on 1\n\
                      circulant: bcast: taken 2, passed on 1\n\
                      circulant:   taken <=64: 1 calls, 1.000002 s\n\
                      circulant:   taken <=1K: 1 calls, 0.000000 s\n\
                      circulant:   passed on not chosen by CIRCULANT_MPI_TAKE: 1 calls, 0.000000 s\n\
                      circulant: exscan: taken 1, passed on 0\n\
                      circulant:   taken >1M: 1 calls, 0.000000 s\n\
                      circulant: ibcast: taken 1, passed on 0\n\
                      circulant:   taken <=64: 1 calls, 0.000000 s\n";
        assert_eq!(counts.text(), wanted);
    }
}
