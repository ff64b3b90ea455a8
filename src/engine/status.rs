//! What a rank is doing, as it tells others: the calls that it entered, completed and waits in.

/// The code of the last call of all, which is no operation.
pub(crate) const FINALIZE: u8 = u8::MAX;
/// The code of an agreement, which is no operation either.
pub(super) const AGREE: u8 = FINALIZE - 1;

/// Which call of which communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct CallId {
    /// Unlike that of any other communicator of the world: the world rank of its rank 0 in the top half, a number
    /// that this rank gave it in the low half. The world is 0.
    pub comm: u64,
    pub sequence: u32,
}

/// What a rank is doing: the last operation it entered and the last it completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Status {
    pub entered: Mark,
    /// The hash of what was entered; 0: it was refused before it had one.
    pub hash: u64,
    pub completed: Mark,
    /// What it waited in last: there it says for which ranks.
    pub waits: Mark,
}

/// An operation by code and call; code 0 is "none yet".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Mark {
    pub code: u8,
    pub call: CallId,
}
