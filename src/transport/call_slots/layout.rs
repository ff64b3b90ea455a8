//! Where in a member's area its slots lie.
//!
//! There are a few *long* slots, each for a post of any length, and many *short* ones. Where each rank has a core of its own, calls use the long ones in turn. Where ranks
//! share cores, calls use the short ones in turn, and a post that is too long for its own lies in a long one: so a rank makes many short calls before another one has to have
//! its turn on the core.

/// The longest post that a long slot holds, in bytes. Chosen: as much as a call copies through a slot sooner than a plan moves it
/// (docs/design.md, "Short calls on one node"); small under loom and Miri, which walk each byte.
pub(crate) const MAX_POST_BYTES: usize = match () {
    _ if cfg!(loom) => 16,
    _ if cfg!(miri) => 512,
    _ => 16 << 10,
};
/// The longest part of a result, in bytes, that a member shares. Chosen for reductions in which each member folds a part: there are at least two, so a part is at most half of the
/// longest post, and what rounding up to whole elements adds. Longer results of scans are not shared.
pub(super) const MAX_PART_BYTES: usize = MAX_POST_BYTES / 2 + 128;
/// Long slots of an area: calls that a member can be ahead of another where each has a core of its own, and long posts elsewhere. Chosen: an area stays below 256 KiB; a
/// member that is further ahead waits, which unit tests reach with 2.
pub(crate) const LONG_SLOTS: usize = if cfg!(test) { 2 } else { USUAL_LONG_SLOTS };
/// The same outside of unit tests.
const USUAL_LONG_SLOTS: usize = 8;
/// Short slots of an area: calls that a member can be ahead where ranks share cores. Chosen: they take an eighth of what the long ones take; what 64 calls in place of 8 are worth:
/// docs/design.md, "Short calls on one node". More were not tried.
pub(crate) const SHORT_SLOTS: usize = if cfg!(test) { 4 } else { USUAL_SHORT_SLOTS };
/// The same outside of unit tests.
const USUAL_SHORT_SLOTS: usize = 64;
/// Offset of the first short slot.
const FIRST_SHORT: usize = 256;
/// Offset in a slot, in bytes, of the bytes that are posted.
pub(super) const BYTES: usize = 32;
/// The longest post, in bytes, that a short slot holds. Chosen: what is left of one; small under loom and Miri, as above.
pub(crate) const MAX_SHORT_BYTES: usize = match () {
    _ if cfg!(loom) => 8,
    _ if cfg!(miri) => 32,
    _ => SHORT_SLOT_BYTES - BYTES,
};
/// Bytes of a short slot. Chosen: whole pairs of cache lines, which processors prefetch together, and room for the blocks of a few words that 16 ranks exchange.
const SHORT_SLOT_BYTES: usize = 384;
/// Offset in a long slot of the part of a result that is shared.
const PART_BYTES: usize = BYTES + MAX_POST_BYTES + 32;
/// Bytes of a long slot: an odd number of cache lines, so that slots do not fall on the same sets of a cache.
const LONG_SLOT_BYTES: usize = PART_BYTES + MAX_PART_BYTES;
/// Bytes of an area: whole pages.
pub(crate) const AREA_BYTES: usize = area_bytes(SHORT_SLOTS, LONG_SLOTS);
/// The same outside of unit tests.
#[cfg(test)]
pub(super) const USUAL_AREA_BYTES: usize = area_bytes(USUAL_SHORT_SLOTS, USUAL_LONG_SLOTS);

const fn first_long(short: usize) -> usize {
    FIRST_SHORT + short * SHORT_SLOT_BYTES
}

const fn area_bytes(short: usize, long: usize) -> usize {
    (first_long(short) + long * LONG_SLOT_BYTES).next_multiple_of(4096)
}

const _: () = assert!(
    cfg!(loom)
        || (LONG_SLOT_BYTES / 64) % 2 == 1 && LONG_SLOT_BYTES.is_multiple_of(64) && AREA_BYTES <= 256 << 10
);
const _: () =
    assert!(SHORT_SLOTS.is_power_of_two() && LONG_SLOTS.is_power_of_two() && SHORT_SLOTS > LONG_SLOTS);

/// Which slots calls use in turn. The same at all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Offset of the first one.
    first: usize,
    /// Bytes from one to the next.
    stride: usize,
    /// How many there are: a power of two.
    slots: usize,
    /// The longest post, in bytes, that one holds.
    holds: usize,
}

/// Members share cores.
const SHORT: Layout =
    Layout { first: FIRST_SHORT, stride: SHORT_SLOT_BYTES, slots: SHORT_SLOTS, holds: MAX_SHORT_BYTES };
/// Each has a core of its own, or the members have not agreed on whether they share any.
const LONG: Layout = Layout {
    first: first_long(SHORT_SLOTS),
    stride: LONG_SLOT_BYTES,
    slots: LONG_SLOTS,
    holds: MAX_POST_BYTES,
};

impl Layout {
    pub(super) fn new(crowded: bool) -> Self {
        if crowded { SHORT } else { LONG }
    }

    /// How many there are.
    #[inline]
    pub(super) fn slots(self) -> usize {
        self.slots
    }

    /// The longest post, in bytes, that one holds.
    #[inline]
    pub(super) fn holds(self) -> usize {
        self.holds
    }

    /// Whether a call's own slot is a long one.
    pub(super) fn is_long(self) -> bool {
        self == LONG
    }

    /// Which one call `sequence` uses: below [`SHORT_SLOTS`].
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "below SHORT_SLOTS")]
    pub(super) fn turn(self, sequence: u64) -> usize {
        sequence as usize & (self.slots - 1)
    }

    /// Its offset.
    #[inline]
    pub(super) fn slot(self, sequence: u64) -> usize {
        self.first + self.turn(sequence) * self.stride
    }

    /// Offset of a part of a result, of `len` bytes, that is shared in call `sequence`: in the long slot that a post of `posted` bytes has taken, or at the next word behind those bytes in
    /// the call's own slot. Nothing if it has no room there.
    #[inline]
    pub(super) fn part(self, sequence: u64, posted: usize, len: usize) -> Option<usize> {
        if self.is_long() || posted > self.holds {
            (len <= MAX_PART_BYTES).then(|| long_slot(sequence) + PART_BYTES)
        } else {
            let behind = posted.next_multiple_of(size_of::<u64>());
            (behind + len <= self.holds).then(|| self.slot(sequence) + BYTES + behind)
        }
    }
}

/// Which long slot call `sequence` uses, if it uses one.
#[allow(clippy::cast_possible_truncation, reason = "below LONG_SLOTS")]
pub(super) fn long_turn(sequence: u64) -> usize {
    (sequence % LONG_SLOTS as u64) as usize
}

/// Its offset.
pub(super) fn long_slot(sequence: u64) -> usize {
    first_long(SHORT_SLOTS) + long_turn(sequence) * LONG_SLOT_BYTES
}

/// Offsets of all slots.
pub(super) fn all() -> impl Iterator<Item = usize> {
    let of = |layout: Layout| (0..layout.slots() as u64).map(move |sequence| layout.slot(sequence));
    of(SHORT).chain(of(LONG))
}
