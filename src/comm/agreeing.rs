//! The times of a trial at all ranks, while they are on their way.

use super::context::Context;
use super::run::Running;
use crate::buffer::Buf;
use std::sync::Arc;

/// The times of all ranks, on their way.
pub(super) struct Agreeing {
    pub(super) context: Arc<Context>,
    /// None once puts may still come to them, though the run has ended.
    pub(super) times: Option<Buf<u64>>,
    pub(super) run: Running,
    pub(super) has_ended: bool,
}

impl Agreeing {
    /// Where a run ended half way its memory is not used again, as puts may still come to it.
    pub(super) fn set_aside(&mut self) {
        self.run.leak();
        std::mem::forget(self.times.take());
    }
}

impl Drop for Agreeing {
    fn drop(&mut self) {
        if !self.has_ended {
            self.set_aside();
        }
    }
}
