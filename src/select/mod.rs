//! Choosing: model parameters per provider, the window, and the [algorithm](Selection) of a call. The same
//! decision on every rank, from what all ranks know alike.
//!
//! An algorithm is chosen by the first of these that says something: the call ([`Options`](crate::Options)), the setting
//! `algorithm`, the file of the setting `selection`, the prices ([`registry::cost`](crate::plan::registry::cost)).
//! `circulant select` shows what comes of it.
#![forbid(unsafe_code)]

mod choice;
mod rules;

pub use choice::{Candidate, Selection};

use crate::config::Config;
use crate::error::Result;
use crate::plan::price;

/// The wire as the rules see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    wire: price::Model,
    light: u64,
}

/// Built-in figures: (provider pattern, L in ns, o in ns, β in ps per byte). First match counts.
const BUILT_IN: &[(&str, u64, u64, u64)] = &[
    ("fi_shm", 800, 500, 110),
    ("shm", 350, 75, 24),
    ("verbs", 1500, 300, 80),
    ("psm", 1500, 300, 80),
    ("cxi", 1800, 300, 40),
    ("efa", 12_000, 500, 80),
    ("opx", 1500, 300, 80),
    ("", 8_000, 2_500, 350),
];

/// γ: one core's read-add-write of memory, in ps per byte.
const REDUCE_PS: u64 = 100;

impl Model {
    /// The built-in figures of `provider`, overridden by the settings.
    pub(crate) fn new(provider: &str, config: &Config) -> Result<Self> {
        // What is between the nodes counts more.
        let provider = provider.strip_suffix("+shm").unwrap_or(provider);
        let (_, l, o, b) =
            BUILT_IN.iter().find(|(p, ..)| provider.contains(p)).copied().unwrap_or(("", 0, 0, 0));
        let wire = price::Model {
            latency_ns: config.number("latency")?.unwrap_or(l),
            overhead_ns: config.number("overhead")?.unwrap_or(o),
            byte_ps: config.number("byte-time")?.unwrap_or(b),
            reduce_ps: REDUCE_PS,
        };
        // A shared put saves its pieces one overhead each and costs them a copy; at a nanosecond per byte for
        // that, with the delay of unpacking in it, they break even at o nanoseconds' worth of bytes.
        let light = config.bytes("light")?.unwrap_or(wire.overhead_ns.min(4096));
        Ok(Self { wire, light })
    }

    /// Bytes that may be unacknowledged: ten times what fits into the wire (measured best on a slow, long
    /// one), and never so little that acknowledgements cost more than they save.
    pub(crate) fn window(&self) -> u64 {
        let in_flight = self.wire.latency_ns.saturating_mul(1000) / self.wire.byte_ps.max(1);
        in_flight.saturating_mul(10).max(1 << 20)
    }

    /// Pieces below this many bytes share a put.
    pub(crate) fn light(&self) -> u64 {
        self.light
    }

    /// The figures, for the rules.
    pub(crate) fn wire(&self) -> &price::Model {
        &self.wire
    }
}

/// The built-in figures of a wire that a provider's name stands for; settings override them.
///
/// # Errors
/// When a setting is no number.
pub fn figures(provider: &str, config: &Config) -> Result<price::Model> {
    Model::new(provider, config).map(|model| model.wire)
}
