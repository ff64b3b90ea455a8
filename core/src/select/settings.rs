//! What is said of the choice by hand.

/// Settings of the choice; the default says nothing. They must be the same on all ranks.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Algorithms by name: one for all operations that have it, or `operation=name`, separated by commas; empty or `auto`: none.
    pub algorithm: String,
    /// Rules for choosing algorithms, one per line.
    pub rules: String,
    /// Whether reductions and scans fold in one order whatever the size, the blocks and the nodes.
    pub reproducible: bool,
    /// A [tuning file](super::Tuning), as text.
    pub tuning: String,
    /// L, in nanoseconds.
    pub latency_ns: Option<u64>,
    /// o, in nanoseconds per put.
    pub overhead_ns: Option<u64>,
    /// β, in picoseconds per byte.
    pub byte_ps: Option<u64>,
    /// Pieces below this many bytes share a put.
    pub light_bytes: Option<u64>,
    /// Whether to measure L, o and β at start-up.
    pub probe: Probing,
}

/// Whether calls that are chosen by price are [tried](super::Trial) in other ways, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adapt {
    /// Once they have been made a number of times; but no reduction whose result depends on the order, so that the same call gives the same
    /// bits each time.
    #[default]
    Auto,
    /// From the first call on, and all reductions.
    On,
    /// Never.
    Off,
}

/// When L, o and β are measured at start-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Probing {
    /// Where neither settings nor a tuning file say them, and the built-in table only guesses.
    #[default]
    Unmeasured,
    /// Where neither settings nor a tuning file say them.
    On,
    /// Never.
    Off,
}
