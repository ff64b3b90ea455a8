//! What all handles of one world share, one thread at a time.

use super::agreeing::Agreeing;
use super::places::Places;
use super::program::Cache;
use super::short::ShortCalls;
use super::trials::Learned;
use crate::buffer::Arena;
use crate::engine::Engine;
use crate::select::{Adapt, Figures, Selection};
use crate::trace::Log;
use std::time::Duration;

/// What all handles of one world share.
pub(super) struct Shared {
    pub(super) engine: Engine,
    pub(super) arena: Arena,
    pub(super) cache: Cache,
    /// Whether choices by price are tried.
    pub(super) adapt: Adapt,
    /// Times of trials that are on their way, each with the place of the class of calls that asks for it; `None`: nothing does any more.
    pub(super) agreeing: Vec<(Option<usize>, Agreeing)>,
    /// What trials have found, of each class of calls and number of ranks the last.
    pub(super) learned: Vec<Learned>,
    pub(super) figures: Figures,
    pub(super) deadline: Duration,
    /// The settings' choices, for calls whose options leave it open.
    pub(super) blocks: Option<u32>,
    pub(super) selection: Selection,
    /// Where the ranks of the world are.
    pub(super) places: Places,
    /// How many communicators we have begun to make.
    pub(super) led: u32,
    pub(super) short_calls: ShortCalls,
    /// Ranks compare what they call before each blocking call.
    pub(super) check: bool,
    /// What this rank says on standard error.
    pub(super) log: Log,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Programs and counters would fill pages.
        f.debug_struct("Shared").field("engine", &self.engine).finish_non_exhaustive()
    }
}
