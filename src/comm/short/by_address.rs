//! Calls of two ranks in which long posts may be posted by address.

use super::cross_memory::{Kind, MIN_BYTES};
use super::run::Run;
use crate::error::Result;
use crate::transport::call_slots::Place;

impl Run<'_, '_> {
    /// Decides whether this call of two ranks posts by address, and whether the rank `measuring` times it. That rank reads `len` bytes; the other one reads no more.
    #[inline]
    pub(super) fn may_attach(&mut self, measuring: usize, kind: Kind, len: usize) -> Result<()> {
        if len >= MIN_BYTES && !self.is_alone() {
            let state = self.state()?;
            let choices = state.choices.as_mut();
            self.attach = choices.and_then(|c| c.attach(&mut state.slots, (measuring, kind), len));
        }
        Ok(())
    }

    /// Whether `member` has posted by address.
    pub(super) fn has_posted_by_address(&mut self, member: usize) -> Result<bool> {
        let number = self.number;
        Ok(matches!(self.slots()?.place(member, number), Place::Lent(lent) if lent.is_unmapped()))
    }

    /// Waits for a post of `member`. Returns whether it is lent.
    pub(super) fn await_lent(&mut self, member: usize) -> Result<bool> {
        self.await_post(member)?;
        self.attach_began(member)?;
        self.has_lent(member)
    }

    /// To be called when the other rank has posted; in later steps of a call it changes nothing.
    #[inline]
    pub(super) fn attach_began(&mut self, other: usize) -> Result<()> {
        if let Some(mut attach) = self.attach {
            let (number, state) = (self.number, self.state()?);
            if let Some(choices) = &mut state.choices {
                choices.began(&state.slots, (other, number), &mut attach);
            }
            self.attach = Some(attach);
        }
        Ok(())
    }

    /// To be called when all bytes have come.
    #[inline]
    pub(super) fn attach_ended(&mut self) -> Result<()> {
        if let Some(attach) = self.attach.take()
            && let Some(choices) = &mut self.state()?.choices
        {
            choices.ended(attach);
        }
        Ok(())
    }
}
