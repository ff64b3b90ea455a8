//! What the plans that reduce have in common: pieces of whole elements, and steps written down in order.

use super::{NO_COUNTER, Place, Region, Side, Step, Wait};
use crate::error::{Result, argument};
use crate::schedule::MAX_P;

/// Pieces begin at multiples of this many bytes where elements and balance allow it, and so do slots: a cache line of
/// x86-64 and aarch64.
const CACHE_LINE_BYTES: u64 = 64;

/// The next place in a landing area where a slot may begin.
pub(super) fn slot_align(bytes: u64) -> u64 {
    bytes.next_multiple_of(CACHE_LINE_BYTES)
}

/// A vector of whole elements in pieces.
#[derive(Clone, Debug)]
pub enum Pieces {
    /// Pieces of the same number of bytes.
    Equal {
        /// Bytes of each.
        count: u64,
        /// How many there are.
        parts: u32,
    },
    /// Nearly equal pieces; with fewer elements than parts some are empty.
    Even {
        /// Bytes of the vector.
        bytes: u64,
        /// Bytes of the units that are not cut.
        unit: u64,
        /// How many pieces there are.
        parts: u32,
    },
    /// Any pieces: where each begins, and the end.
    Given(Vec<u64>),
}

impl Pieces {
    /// `parts` nearly equal pieces of whole elements.
    pub(crate) fn even(bytes: u64, element: u64, parts: u32) -> Self {
        let (element, parts) = (element.max(1), parts.max(1));
        let lines = CACHE_LINE_BYTES.is_multiple_of(element) && bytes / u64::from(parts) >= CACHE_LINE_BYTES;
        Self::Even { bytes, unit: if lines { CACHE_LINE_BYTES } else { element }, parts }
    }

    /// Pieces of these lengths.
    ///
    /// # Errors
    /// If they are beyond 2^64 bytes together.
    pub fn given(counts: &[u64]) -> Result<Self> {
        let mut starts = vec![0u64];
        for &count in counts {
            let end = starts[starts.len() - 1].checked_add(count);
            starts.push(end.ok_or_else(|| argument("the counts are beyond 2^64 bytes together"))?);
        }
        Ok(Self::Given(starts))
    }

    /// Where piece `j` begins; j = the number of pieces gives the end.
    #[allow(clippy::cast_possible_truncation)] // at most `bytes`
    pub(crate) fn start(&self, j: u32) -> u64 {
        match self {
            Self::Equal { count, .. } => count * u64::from(j),
            Self::Even { bytes, unit, parts } => {
                let units = u128::from(bytes.div_ceil(*unit));
                let at = u128::from(j) * units / u128::from(*parts) * u128::from(*unit);
                at.min(u128::from(*bytes)) as u64
            }
            Self::Given(starts) => starts[j as usize],
        }
    }

    /// How many pieces there are.
    #[allow(clippy::cast_possible_truncation)] // no more than ranks
    pub(crate) fn parts(&self) -> u32 {
        match self {
            Self::Equal { parts, .. } | Self::Even { parts, .. } => *parts,
            Self::Given(starts) => (starts.len() - 1) as u32,
        }
    }

    /// Bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        self.start(self.parts())
    }

    /// Bytes of piece `j`.
    pub(crate) fn len(&self, j: u32) -> u64 {
        self.start(j + 1) - self.start(j)
    }

    /// Bytes that no piece exceeds.
    pub(crate) fn largest(&self) -> u64 {
        match self {
            Self::Equal { count, .. } => *count,
            Self::Even { bytes, unit, parts } => {
                bytes.div_ceil(*unit).div_ceil((*parts).into()).saturating_mul(*unit)
            }
            Self::Given(starts) => starts.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0),
        }
    }

    /// Whether there is nothing in any piece.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// The runs of bytes of pieces `first` .. `first + n`, round the end: (offset, length), none empty.
    pub(super) fn runs(&self, first: u32, n: u32) -> impl Iterator<Item = (u64, u64)> {
        let head = n.min(self.parts() - first);
        let run = |a: u32, b: u32| (self.start(a), self.start(b) - self.start(a));
        [run(first, first + head), run(0, n - head)].into_iter().filter(|&(_, len)| len > 0)
    }

    /// Bytes of pieces `first` .. `first + n`, round the end.
    pub(super) fn span(&self, first: u32, n: u32) -> u64 {
        self.runs(first, n).map(|(_, len)| len).sum()
    }
}

/// Checks what all reductions need.
pub(super) fn check(operation: &str, size: u32, bytes: u64, element: u64) -> Result<()> {
    if size == 0 || size > MAX_P {
        return Err(argument(format!("{operation} among {size} ranks")));
    }
    if !bytes.is_multiple_of(element.max(1)) {
        return Err(argument(format!("{operation} of {bytes} bytes in elements of {element}"))
            .help("give whole elements"));
    }
    // Every whole-vector algorithm has a slot per round, and one to spare.
    if bytes.checked_mul(64).is_none() {
        return Err(argument(format!("{operation} of {bytes} bytes is beyond 2^64 bytes of memory")));
    }
    Ok(())
}

/// Something that lies somewhere as soon as a wait is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub place: Place,
    pub ready: Wait,
}

/// The steps of one rank, written down round by round. Counters from `arrivals` on are its own.
#[derive(Debug)]
pub(crate) struct Sketch {
    pub steps: Vec<Step>,
    next: u32,
}

impl Sketch {
    /// Counters below `arrivals` are bumped by peers.
    pub(super) fn new(arrivals: u32) -> Self {
        Self { steps: Vec::new(), next: arrivals }
    }

    /// How many counters are in use.
    pub(super) fn counters(&self) -> u32 {
        self.next
    }

    fn counter(&mut self) -> Wait {
        self.next += 1;
        Wait::once(self.next - 1)
    }

    /// Any number of waits as two.
    fn two(&mut self, round: u32, waits: &[Wait]) -> [Wait; 2] {
        let mut out = [Wait::NONE; 2];
        for &wait in waits.iter().filter(|w| w.counter != NO_COUNTER && w.at_least > 0) {
            if out.contains(&wait) {
                continue;
            }
            match out {
                [Wait::NONE, _] => out[0] = wait,
                [_, Wait::NONE] => out[1] = wait,
                _ => {
                    let join = self.counter();
                    self.steps.push(Step::join(round, out, join.counter));
                    out = [join, wait];
                }
            }
        }
        out
    }

    /// Sorts by rounds, and in a round what is local first: a message is lowered at its first put, where all joins that
    /// its puts wait for must be known.
    pub(super) fn by_rounds(&mut self) {
        self.steps.sort_by_key(|step| (step.round, !step.kind.is_local()));
    }

    /// Any number of waits as two.
    pub(super) fn both(&mut self, round: u32, waits: &[Wait]) -> [Wait; 2] {
        self.two(round, waits)
    }

    /// One wait for all of these.
    pub(super) fn one(&mut self, round: u32, waits: &[Wait]) -> Wait {
        let waits = self.two(round, waits);
        if waits[1] == Wait::NONE {
            return waits[0];
        }
        let join = self.counter();
        self.steps.push(Step::join(round, waits, join.counter));
        join
    }

    #[allow(clippy::too_many_arguments)] // those of a step
    pub(super) fn put(
        &mut self,
        round: u32,
        peer: u32,
        source: Place,
        target: Place,
        len: u64,
        waits: &[Wait],
        bump: u32,
    ) {
        if len > 0 {
            let waits = self.two(round, waits);
            let put = Step::put(round, peer, source, target, len, Wait::NONE, bump);
            self.steps.push(Step { waits, ..put });
        }
    }

    pub(super) fn notify(&mut self, round: u32, peer: u32, waits: &[Wait], bump: u32) {
        let waits = self.two(round, waits);
        self.steps.push(Step::notify(round, peer, waits, bump));
    }

    pub(super) fn expect(
        &mut self,
        round: u32,
        peer: u32,
        source: Place,
        target: Place,
        len: u64,
        bump: u32,
    ) {
        if len > 0 {
            self.steps.push(Step::expect(round, peer, source, target, len, bump));
        }
    }

    /// Copies; gives what to wait for to have it there.
    pub(super) fn copy(
        &mut self,
        round: u32,
        source: Place,
        target: Place,
        len: u64,
        waits: &[Wait],
    ) -> Wait {
        let waits = self.two(round, waits);
        let done = self.counter();
        self.steps.push(Step::copy(round, source, target, len, waits, done.counter));
        done
    }

    /// Combines `source` into `target`; gives what to wait for to have it there.
    pub(super) fn reduce(
        &mut self,
        round: u32,
        side: Side,
        source: Place,
        target: Place,
        len: u64,
        waits: &[Wait],
    ) -> Wait {
        let waits = self.two(round, waits);
        let done = self.counter();
        self.steps.push(Step::reduce(round, side, source, target, len, waits, done.counter));
        done
    }

    /// The contribution of `bytes` bytes; in place it is first copied to the beginning of `Work`, so that
    /// results may come to the output.
    pub(super) fn own(&mut self, bytes: u64, in_place: bool) -> Held {
        if !in_place {
            return Held { place: Place::new(Region::Input, 0), ready: Wait::NONE };
        }
        let place = Place::new(Region::Work, 0);
        Held { place, ready: self.copy(0, Place::new(Region::Output, 0), place, bytes, &[]) }
    }
}

/// The place `offset` bytes on.
pub(super) fn plus(place: Place, offset: u64) -> Place {
    Place::new(place.region, place.offset + offset)
}
