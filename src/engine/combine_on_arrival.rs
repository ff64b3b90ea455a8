//! Combine on arrival: where the receiver itself moves the bytes of a put and only a reduction reads them, they go right into
//! its result and never into landing memory.

use super::task::Task;
use crate::buffer;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::lower::{NO_OP, OpKind};
use crate::transport::Delivery;

impl Task {
    /// The reduction that consumes what arrives with `counter`.
    fn reduction(&self, counter: u32) -> Option<u32> {
        self.program.folds.get(counter as usize).copied().filter(|op| *op != NO_OP)
    }

    /// Where the bytes of a put go: one of `len` bytes with `counter`.
    pub(super) fn delivery(&mut self, counter: u32, len: u64) -> Delivery {
        let (Some(op), Some(reducer)) = (self.reduction(counter), &self.reducer) else {
            return Delivery::Land;
        };
        if self.program.ops[op as usize].len != len || self.awaits(counter).is_none() {
            return Delivery::Land;
        }
        // The arrival itself is one of its waits.
        if self.waits_left[op as usize] > 1 {
            return Delivery::Later;
        }
        Delivery::Pieces(reducer.element())
    }

    /// Combines a piece of a put that [`Task::delivery`] asks for in pieces.
    ///
    /// # Errors
    /// When it is not what was announced, and the operator's own.
    pub(super) fn consume(&mut self, counter: u32, offset: u64, bytes: &[u8]) -> Result<()> {
        let unasked = || Error::new(ErrorKind::Transport, "bytes are handed over that were not asked for");
        let index = self.reduction(counter).filter(|_| self.awaits(counter).is_some()).ok_or_else(unasked)?;
        let op = self.program.ops[index as usize];
        let (OpKind::Reduce(side), Some(reducer)) = (op.kind, &self.reducer) else { return Err(unasked()) };
        let end = offset.checked_add(bytes.len() as u64);
        if self.waits_left[index as usize] != 1 || end.is_none_or(|end| end > op.len) {
            return Err(unasked());
        }
        self.combined[index as usize] = true;
        let mut target = op.target;
        target.offset += offset;
        buffer::fold(&self.binding, bytes, target, side, reducer).map_err(|e| e.in_round(op.round))
    }
}
