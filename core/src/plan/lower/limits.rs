//! What a wire allows, and what is worth joining on it.

use crate::machine::LogGp;

/// Neighbouring pieces are made one put up to at most this many bytes. Simulated: 8 to 64 KiB are about equally good,
/// from TCP to fast fabrics; shorter runs pay too many overheads, and longer ones hold back what has arrived (up to
/// half as slow again; [`WireLimits::new`] has a case).
pub const MAX_RUN_BYTES: u64 = 32 << 10;

/// A run of neighbours keeps back what has arrived while the link carries the rest of it: that may take this many overheads
/// ([`WireLimits::new`] says what was simulated).
const COALESCE_OVERHEADS: u64 = 10;

/// The longest run of neighbours on such a link in bytes, at most [`MAX_RUN_BYTES`].
pub(in crate::plan) fn coalesce(wire: &LogGp) -> u64 {
    let run_ns = wire.overhead_ns.max(1).saturating_mul(COALESCE_OVERHEADS);
    (run_ns.saturating_mul(1000) / wire.byte_ps.max(1)).clamp(1, MAX_RUN_BYTES)
}

/// No longer piece ever shares a put, in bytes: packing and unpacking delay the ranks that wait for it. Chosen;
/// `CIRCULANT_LIGHT` sets the limit itself, so `circulant bench` shows the effect of any.
const LIGHT_MAX_BYTES: u64 = 4096;

/// Pieces of fewer bytes share a put unless a setting or a file says otherwise. A shared put saves its pieces one overhead
/// each and costs them a copy; at a nanosecond per byte for that, with the delay of unpacking in it, they break even at o
/// nanoseconds' worth of bytes.
pub fn light_bytes(wire: &LogGp) -> u64 {
    wire.overhead_ns.min(LIGHT_MAX_BYTES)
}

/// What the wire allows and what pieces are worth; equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WireLimits {
    /// The longest single put in bytes (≥ 1).
    pub max_put: u64,
    /// Local segments per put (≥ 1).
    pub gather: usize,
    /// Pieces of fewer bytes than this, of one round and to one peer, share a put to a landing slot; 0 puts every piece by
    /// itself.
    pub light: u64,
    /// At least this many do, and never one alone: fewer puts are not worth a wait for the last piece.
    pub few: usize,
    /// Neighbouring pieces are made one put up to this many bytes.
    pub coalesce: u64,
}

impl WireLimits {
    /// Puts of any length from one segment, none shared.
    pub const PLAIN: Self = Self { max_put: u64::MAX, gather: 1, light: 0, few: 2, coalesce: MAX_RUN_BYTES };

    /// What is worth joining on a wire like `model`, whose puts are of at most `max_put` bytes from at most `gather`
    /// segments; pieces below `light` bytes are light.
    ///
    /// To share a put, pieces wait for the last of them, which may be a latency behind the others: that is worth it
    /// from L/o pieces on. A run of neighbours keeps back what has arrived while the wire carries the rest of it: that
    /// may take ten overheads. (16 ranks, 100 KB, L = 1 ms, β = 80 ns/B, o = 30 us, simulated: allgatherv of seven
    /// distributions in 10.3 to 11.8 ms; with runs of 32 KiB 10.6 to 13.3, sharing from two pieces on 11.2 to 17.7.)
    pub fn new(max_put: u64, gather: usize, light: u64, model: &LogGp) -> Self {
        let overhead = model.overhead_ns.max(1);
        let few = usize::try_from(model.latency_ns.div_ceil(overhead)).unwrap_or(usize::MAX).max(2);
        Self { max_put, gather, light, few, coalesce: coalesce(model) }
    }
}
