//! The receives that all queue pairs share: each takes a message, or the word of a put. They are posted in batches.

use super::library::check;
use crate::error::Result;
use crate::transport::MESSAGE_MAX;
use libfabric_sys::verbs as ib;
use std::mem::zeroed;

/// Bytes of a buffer, as verbs count.
#[allow(clippy::cast_possible_truncation)] // 8064
const BUFFER_LEN: u32 = MESSAGE_MAX as u32;

pub(super) struct Receives {
    requests: Box<[ib::ibv_recv_wr]>,
    pieces: Box<[ib::ibv_sge]>,
    /// Those to post.
    spent: Vec<u32>,
    /// How many are posted at once.
    batch: usize,
    /// Receives posted so far, and calls that did.
    posted: (u64, u64),
}

// SAFETY: the pointers in the requests are to the pieces and to the requests themselves.
unsafe impl Send for Receives {}

impl Receives {
    /// So many buffers of [`MESSAGE_MAX`] bytes, one after the other from `start` under the key `key`. None is posted.
    pub(super) fn new(count: u32, start: *mut u8, key: u32) -> Self {
        let piece = |i| ib::ibv_sge {
            addr: start.wrapping_add(i as usize * MESSAGE_MAX).expose_provenance() as u64,
            length: BUFFER_LEN,
            lkey: key,
        };
        // SAFETY: all-zero requests are valid (numbers and null pointers).
        let request: ib::ibv_recv_wr = unsafe { zeroed() };
        Self {
            requests: vec![request; count as usize].into(),
            pieces: (0..count).map(piece).collect(),
            spent: (0..count).collect(),
            batch: (count as usize / 16).max(1),
            posted: (0, 0),
        }
    }

    /// Receives posted so far, and calls of ibv_post_srq_recv that did.
    pub(super) fn posted(&self) -> (u64, u64) {
        self.posted
    }

    /// The receive of this number is to be posted again.
    pub(super) fn again(&mut self, number: u32) {
        // There is room for all, and each is posted or in here.
        self.spent.push(number);
    }

    /// Posts what is to be posted, if it is worth a doorbell or `all` are wanted.
    ///
    /// # Safety
    /// The queue is there, has room for all, and the buffers live as long as it.
    pub(super) unsafe fn post(&mut self, srq: *mut ib::ibv_srq, all: bool) -> Result<()> {
        if self.spent.is_empty() || (!all && self.spent.len() < self.batch) {
            return Ok(());
        }
        self.posted = (self.posted.0 + self.spent.len() as u64, self.posted.1 + 1);
        let (requests, pieces) = (self.requests.as_mut_ptr(), self.pieces.as_mut_ptr());
        let mut next = std::ptr::null_mut();
        for number in self.spent.drain(..) {
            // SAFETY: numbers are below the count of both.
            unsafe {
                let request = requests.add(number as usize);
                (*request).wr_id = number.into();
                (*request).next = next;
                (*request).sg_list = pieces.add(number as usize);
                (*request).num_sge = 1;
                next = request;
            }
        }
        let mut bad = std::ptr::null_mut();
        // SAFETY: a list that ends, of requests whose buffers are registered and free: their last receives are complete.
        check("posting receives", unsafe { ib::ibv_post_srq_recv(srq, next, &mut bad) })
    }
}
