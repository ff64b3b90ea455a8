//! Credits: how many eager messages a rank may have on their way to, or kept at, each other rank.

use crate::hash::NumberMap;

/// Eager messages (of up to `LONG_MESSAGE_MAX` bytes) that one rank may have on their way to, or kept at, a neighbour of the
/// circulant graph. Chosen: 12 of 16 KB from each of 2⌈log₂ p⌉ neighbours are 4 MB at p = 1000.
/// `credits_run_out_and_come_back` shows what happens without.
pub(super) const CREDITS: u32 = if cfg!(test) { 4 } else { 12 };
/// Eager messages that one rank accepts from all ranks that are no neighbours, each at most [`CREDITS`]. This bounds the memory for messages
/// whose call is not entered yet to 256 MiB (at `LONG_MESSAGE_MAX` bytes each) for any number of ranks. With more than 16 384 ranks
/// only neighbours send eagerly; the others ask for the ready message first.
pub(super) const SHARED_CREDITS: u32 = if cfg!(test) { 64 } else { 1 << 14 };

/// How many credits a receiver returns at a time to a sender that has `credits` in all: three quarters. Chosen: this takes fewer messages than a half, and the sender has
/// some credits left until they arrive. (16 ranks on two cores: calls of 1 KB take 2 to 12 % less with 12 of 16 at a time than with 6 of 12.)
pub(super) const fn portion(credits: u32) -> u32 {
    let three_quarters = credits - credits / 4;
    if three_quarters > 0 { three_quarters } else { 1 }
}

/// Eager messages in flight, by rank.
#[derive(Debug)]
pub(super) struct Credits {
    /// Eager messages that a rank that is no neighbour may have in flight here.
    pub(super) others: u32,
    /// By rank: messages of ours that it has not given back.
    pub(super) spent: NumberMap<u32, u32>,
    /// By rank: messages of its that we have not given back.
    pub(super) owed: NumberMap<u32, u32>,
}

impl Credits {
    /// Of a world of `size` ranks.
    pub(super) fn new(size: u32) -> Self {
        let others = (SHARED_CREDITS / size.max(1)).min(CREDITS);
        Self { others, spent: NumberMap::default(), owed: NumberMap::default() }
    }

    /// A message to `peer` has left.
    pub(super) fn spend(&mut self, peer: u32) {
        *self.spent.entry(peer).or_default() += 1;
    }

    /// `peer` gave `n` back.
    pub(super) fn returned(&mut self, peer: u32, n: u32) {
        if let Some(spent) = self.spent.get_mut(&peer) {
            *spent = spent.saturating_sub(n);
        }
    }

    /// A message of `peer` is used up; says how many to give back now, in portions of `portion`.
    pub(super) fn used(&mut self, peer: u32, portion: u32) -> Option<u32> {
        let owed = self.owed.entry(peer).or_default();
        *owed += 1;
        (*owed >= portion).then(|| std::mem::take(owed))
    }
}
