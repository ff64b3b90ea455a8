//! What an engine counts.

/// What was done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) puts: u64,
    pub(crate) put_bytes: u64,
    /// Those of them that went to nodes of other groups, of operations completed here.
    pub(crate) global_bytes: u64,
    pub(crate) arrivals: u64,
    pub(crate) messages: u64,
    pub(crate) copied_bytes: u64,
    pub(crate) reduced_bytes: u64,
    pub(crate) rounds: u64,
    pub(crate) operations: u64,
}

impl Counts {
    /// Counts a completed call of `rounds` rounds.
    #[inline]
    pub(super) fn completes(&mut self, rounds: u32) {
        self.rounds += u64::from(rounds);
        self.operations += 1;
    }

    /// Grows with all that moves in operations.
    pub(super) fn moves(&self) -> u64 {
        self.puts.wrapping_add(self.arrivals).wrapping_add(self.operations)
    }
}
