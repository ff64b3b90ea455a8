//! Which wires a job talks over, as far as its figures depend on that, and the figures that are built in for each.

use crate::machine::LogGp;

/// The name of our own shared memory, and what the name of a wire ends in whose node-local ranks talk over it.
const SHM: &str = "shm";
const AND_SHM: &str = "+shm";

/// Which wires a job talks over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wires {
    /// What carries data between nodes, or all of it: a provider, or `auto` for the one that a tuning file was measured over.
    pub provider: String,
    /// Node-local ranks talk over shared memory of our own beside that.
    pub shm_within_nodes: bool,
    /// All ranks copy what is put to them themselves: they share memory.
    pub readers: bool,
}

impl Wires {
    /// Those that a text names: a provider, with `+shm` behind it where node-local ranks talk over shared memory.
    pub fn named(text: &str) -> Self {
        let (provider, shm_within_nodes) = match text.strip_suffix(AND_SHM) {
            Some(far) => (far, true),
            None => (text, false),
        };
        Self { provider: provider.to_owned(), shm_within_nodes, readers: text == SHM }
    }

    /// Whether a tuning file of the wire `measured` is of these. (On nodes with several ranks it is of both wires.)
    pub(super) fn are_those_of(&self, measured: &str) -> bool {
        self.provider == "auto" || Self::named(measured).provider == self.provider
    }

    /// The built-in figures.
    pub(super) fn built_in(&self) -> &'static BuiltIn {
        BUILT_IN.iter().find(|known| self.provider.contains(known.pattern)).unwrap_or(&OTHERS)
    }
}

/// Built-in figures of the providers whose names contain a pattern.
pub(super) struct BuiltIn {
    pattern: &'static str,
    pub(super) wire: LogGp,
    /// Whether they only stand in until something is measured.
    pub(super) guessed: bool,
}

/// γ in picoseconds per byte: one core reads, adds and writes vectors longer than its cache. Of the order of what
/// `circulant tune` measures (docs/tuning.md: 120).
pub(super) const REDUCE_PS: u64 = 100;

const fn built_in(pattern: &'static str, latency_ns: u64, overhead_ns: u64, byte_ps: u64) -> BuiltIn {
    let wire = LogGp { latency_ns, overhead_ns, byte_ps, reduce_ps: REDUCE_PS };
    BuiltIn { pattern, wire, guessed: false }
}

const fn guess(pattern: &'static str, latency_ns: u64, overhead_ns: u64, byte_ps: u64) -> BuiltIn {
    BuiltIn { guessed: true, ..built_in(pattern, latency_ns, overhead_ns, byte_ps) }
}

/// Our own shared memory, as measured by two ranks on 2 cores (`circulant bench put`).
pub(super) const OWN_SHM: BuiltIn = built_in(SHM, 350, 75, 24);

/// The first whose pattern is in the provider's name counts. Those of shared memory were measured so; those of RDMA hardware are of
/// the order of what vendors print; the last one stands for all others, such as TCP.
const BUILT_IN: &[BuiltIn] = &[
    built_in("fi_shm", 800, 500, 110),
    OWN_SHM,
    guess("verbs", 1500, 300, 80),
    guess("psm", 1500, 300, 80),
    guess("cxi", 1800, 300, 40),
    guess("efa", 12_000, 500, 80),
    guess("opx", 1500, 300, 80),
    OTHERS,
];
/// Providers that the table does not know, and TCP.
const OTHERS: BuiltIn = guess("", 8_000, 2_500, 350);
