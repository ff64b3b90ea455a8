//! The queue pair of the handshake: unreliable datagrams, of which some are lost.

use super::library::{check, made};
use super::objects::Objects;
use super::requests::{DATAGRAM_RECEIVED, DATAGRAM_SENT};
use super::wire::{Card, MESSAGE_BYTES};
use crate::error::Result;
use libfabric_sys::verbs as ib;
use std::mem::zeroed;
use std::ptr::null_mut;

/// Receives posted. Chosen: with more at once the rest is lost, and sent again (`handshake.rs`).
pub(super) const RECEIVES: u32 = 128;
/// Datagrams on their way out at once. Chosen; further ones wait.
pub(super) const SENDS: u32 = 32;
/// Bytes in front of what was received: the global routing header (40, InfiniBand specification), or nothing of
/// meaning.
const HEADER_BYTES: usize = 40;
/// Bytes of a buffer, either way.
pub(super) const BUFFER_BYTES: usize = 128;
/// The same as verbs count.
const BUFFER_LEN: u32 = 128;
/// Bytes of a message ([`MESSAGE_BYTES`]) as verbs count.
const MESSAGE_LEN: u32 = 75;
const _: () = assert!(MESSAGE_LEN as usize == MESSAGE_BYTES && BUFFER_LEN as usize == BUFFER_BYTES);
const _: () = assert!(HEADER_BYTES + MESSAGE_BYTES <= BUFFER_BYTES);
/// Bytes of all buffers.
pub(super) const BYTES: usize = (RECEIVES + SENDS) as usize * BUFFER_BYTES;

pub(super) struct Datagrams {
    qp: *mut ib::ibv_qp,
    /// Of the receives, then of the sends.
    start: *mut u8,
    local: u32,
    free: Vec<u32>,
}

impl Datagrams {
    /// # Safety
    /// [`BYTES`] bytes from `start` are registered under `local`, and live until this is destroyed.
    pub(super) unsafe fn open(objects: &Objects, start: *mut u8, local: u32, key: u32) -> Result<Self> {
        // SAFETY: all-zero attributes are valid; the objects are there.
        let qp = unsafe {
            let mut init: ib::ibv_qp_init_attr = zeroed();
            init.qp_type = ib::IBV_QPT_UD;
            (init.send_cq, init.recv_cq) = (objects.cq, objects.cq);
            (init.cap.max_send_wr, init.cap.max_recv_wr) = (SENDS, RECEIVES);
            (init.cap.max_send_sge, init.cap.max_recv_sge) = (1, 1);
            let made_qp = objects.device.lib.ibv_create_qp(objects.pd, &mut init);
            made("making a queue pair of datagrams", made_qp)?
        };
        let mut this = Self { qp, start, local, free: (0..SENDS).collect() };
        match this.prepare(objects, key) {
            Ok(()) => Ok(this),
            Err(e) => {
                // The first error is the one to tell.
                let _ = this.close(objects);
                Err(e)
            }
        }
    }

    fn prepare(&mut self, objects: &Objects, key: u32) -> Result<()> {
        let number = objects.port.number;
        // SAFETY: all-zero attributes are valid; the queue pair is there.
        unsafe {
            let mut attr: ib::ibv_qp_attr = zeroed();
            attr.qp_state = ib::IBV_QPS_INIT;
            (attr.port_num, attr.qkey, attr.pkey_index) = (number, key, objects.partition);
            let mask = ib::IBV_QP_STATE | ib::IBV_QP_PKEY_INDEX | ib::IBV_QP_PORT | ib::IBV_QP_QKEY;
            objects.modify("initialising datagrams", self.qp, &mut attr, mask)?;
            attr.qp_state = ib::IBV_QPS_RTR;
            objects.modify("receiving datagrams", self.qp, &mut attr, ib::IBV_QP_STATE)?;
            attr.qp_state = ib::IBV_QPS_RTS;
            let mask = ib::IBV_QP_STATE | ib::IBV_QP_SQ_PSN;
            objects.modify("sending datagrams", self.qp, &mut attr, mask)?;
        }
        (0..RECEIVES).try_for_each(|i| self.receive(i))
    }

    /// Its number.
    pub(super) fn number(&self) -> u32 {
        // SAFETY: it is there until `close`, after which nothing is asked.
        unsafe { (*self.qp).qp_num }
    }

    fn buffer(&self, i: u32) -> *mut u8 {
        self.start.wrapping_add(i as usize * BUFFER_BYTES)
    }

    /// Posts receive `i`, whose buffer is free.
    pub(super) fn receive(&mut self, i: u32) -> Result<()> {
        let mut piece = ib::ibv_sge {
            addr: self.buffer(i).expose_provenance() as u64,
            length: BUFFER_LEN,
            lkey: self.local,
        };
        let mut request = ib::ibv_recv_wr {
            wr_id: DATAGRAM_RECEIVED | u64::from(i),
            next: null_mut(),
            sg_list: &mut piece,
            num_sge: 1,
        };
        let mut bad = null_mut();
        // SAFETY: the queue pair is there and has room for all; request and piece are copied.
        check("posting a receive", unsafe { ib::ibv_post_recv(self.qp, &mut request, &mut bad) })
    }

    /// What came into receive `i`, in `len` bytes with the header; to be [received](Self::receive) again.
    pub(super) fn received(&self, i: u32, len: u32) -> Option<[u8; MESSAGE_BYTES]> {
        if i >= RECEIVES || len as usize != HEADER_BYTES + MESSAGE_BYTES {
            return None;
        }
        let mut out = [0; MESSAGE_BYTES];
        let from = self.buffer(i).wrapping_add(HEADER_BYTES);
        // SAFETY: the receive is complete, so the device writes there only when it is posted again; within the buffer.
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), MESSAGE_BYTES) };
        Some(out)
    }

    /// Sends, if there is a buffer; what is not sent is as good as lost.
    ///
    /// # Safety
    /// `ah` is there.
    pub(super) unsafe fn send(&mut self, ah: *mut ib::ibv_ah, to: &Card, message: &[u8]) -> Result<()> {
        debug_assert_eq!(message.len(), MESSAGE_BYTES);
        let Some(i) = self.free.pop() else { return Ok(()) };
        let buffer = self.buffer(RECEIVES + i);
        // SAFETY: a buffer of BUFFER_BYTES that the device does not read: it was free. All-zero requests are valid.
        let mut request: ib::ibv_send_wr = unsafe {
            std::ptr::copy_nonoverlapping(message.as_ptr(), buffer, message.len().min(BUFFER_BYTES));
            zeroed()
        };
        let mut piece =
            ib::ibv_sge { addr: buffer.expose_provenance() as u64, length: MESSAGE_LEN, lkey: self.local };
        request.wr_id = DATAGRAM_SENT | u64::from(i);
        (request.sg_list, request.num_sge) = (&mut piece, 1);
        (request.opcode, request.send_flags) = (ib::IBV_WR_SEND, ib::IBV_SEND_SIGNALED);
        request.wr.ud =
            ib::ibv_send_wr__bindgen_ty_2__bindgen_ty_3 { ah, remote_qpn: to.datagrams, remote_qkey: to.key };
        let mut bad = null_mut();
        // SAFETY: the queue pair is there and has room for all that have a buffer; request and piece are copied.
        let code = unsafe { ib::ibv_post_send(self.qp, &mut request, &mut bad) };
        if code != 0 {
            self.free.push(i);
        }
        check("sending a datagram", code)
    }

    /// Send `i` is complete.
    pub(super) fn sent(&mut self, i: u32) {
        self.free.push(i);
    }

    pub(super) fn close(&mut self, objects: &Objects) -> Result<()> {
        if self.qp.is_null() {
            return Ok(());
        }
        objects.destroy(self.qp)?;
        self.qp = null_mut();
        Ok(())
    }
}
