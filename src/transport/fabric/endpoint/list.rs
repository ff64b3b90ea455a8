//! Puts of several pieces, in a function of their own: one of a single piece, which most are, makes no list.

use super::super::limits::{MAX_GATHER, too_long, too_many};
use super::super::peers::Peer;
use super::super::slots::Kind;
use super::super::{Posted, Source};
use super::Fabric;
use crate::error::Result;
use libfabric_sys as fi;
use std::ffi::c_void;

impl Fabric {
    /// A put of several pieces.
    ///
    /// # Safety
    /// As [`put`](crate::transport::Transport::put).
    pub(super) unsafe fn put_list(
        &mut self,
        to: Peer,
        sources: &[Source],
        (address, key): (u64, u64),
        word: u32,
        token: u64,
    ) -> Result<Posted> {
        let mut list = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MAX_GATHER];
        let mut descriptors = [std::ptr::null_mut::<c_void>(); MAX_GATHER];
        let (mut count, mut total) = (0, 0usize);
        for s in sources.iter().filter(|s| s.len > 0) {
            // Providers answer a list that is too long with a hang or a crash.
            if count == self.limits.gather {
                return Err(too_many(sources.len(), self.limits.gather));
            }
            descriptors[count] = self.registrations.descriptor(s)?;
            list[count] = libc::iovec { iov_base: s.ptr.cast_mut().cast(), iov_len: s.len };
            total = total.saturating_add(s.len);
            count += 1;
        }
        if total as u64 > self.limits.max_put {
            return Err(too_long(total as u64, self.limits.max_put));
        }
        let Some(slot) = self.slots.take(Kind::Put, to.rank, token) else { return Ok(Posted::Again) };
        // The provider's length is of one segment: one is all that hardware takes.
        let target = fi::fi_rma_iov { addr: address, len: total, key };
        let msg = fi::fi_msg_rma {
            msg_iov: list.as_ptr(),
            desc: descriptors.as_mut_ptr(),
            iov_count: count,
            addr: to.to,
            rma_iov: &target,
            rma_iov_count: 1,
            context: self.slots.context(slot),
            data: word.into(),
        };
        // SAFETY: the endpoint is open. The sources are valid until the completion, which brings back the
        // slot, or the close (the caller's promise); they lie in their registrations, checked above. The
        // lists are copied by the provider before it returns; the context is this slot's, and free.
        let code =
            unsafe { fi::fi_writemsg(self.objects.ep, &msg, fi::FI_REMOTE_CQ_DATA | fi::FI_COMPLETION) };
        if code != 0 {
            self.slots.give_back(slot);
        }
        self.posted("fi_writemsg", to, code)
    }
}
