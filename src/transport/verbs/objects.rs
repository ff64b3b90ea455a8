//! libibverbs' objects of one endpoint: made in one order, destroyed in the other.

use super::device::{Device, Port};
use super::handshake::End;
use super::library::{check, made};
use super::support::Support;
use super::wire::Card;
use crate::error::Result;
use libfabric_sys::verbs as ib;
use std::mem::zeroed;
use std::ptr::null_mut;

/// Until a packet that was not acknowledged is sent again: 4.096 µs · 2^18 = 1.07 s, which outlasts what switches take to
/// find another way (UCX takes 1 s).
const TIMEOUT_EXPONENT: u8 = 18;
/// How often, then: one less than the most, which soft-RoCE (rxe_comp.c) takes for "for ever". A peer that is gone is noticed after
/// about 7 times the time above.
const RETRIES: u8 = 6;
/// A peer whose receives are used up is asked again for ever (that is what 7 means): it may be busy, and is watched otherwise.
const RNR_RETRIES: u8 = 7;
/// After what time it is asked again: 12 stands for 0.64 ms (InfiniBand specification, table of RNR NAK timers), in which a
/// rank that polls posts some hundred receives.
const RNR_TIMER: u8 = 12;
/// Routers that a packet may pass. Chosen: 64, as Linux sends IP packets (`net.ipv4.ip_default_ttl`).
const HOPS: u8 = 64;
/// Inline bytes that are asked for: what fits into a work request that has room for [`super::device::MAX_GATHER`] pieces of
/// 16 bytes each. Where that is too much, half of it, and so on.
const MAX_INLINE: u32 = 16 * super::device::MAX_GATHER - 4;

/// How many of what an endpoint has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Depths {
    /// Receives posted.
    pub(super) receives: u32,
    /// Work requests of one queue pair.
    pub(super) sends: u32,
    /// Entries of the completion queue.
    pub(super) completions: u32,
}

/// Reading this file does not wait from now on.
fn no_waiting(file: libc::c_int) -> libc::c_int {
    // SAFETY: changes how a file is read; of none it is an error.
    unsafe { libc::fcntl(file, libc::F_SETFL, libc::O_NONBLOCK) }
}

/// Device, protection domain, completion channel and queue, shared receive queue; null where not there.
pub(super) struct Objects {
    pub(super) device: Device,
    pub(super) port: Port,
    pub(super) pd: *mut ib::ibv_pd,
    pub(super) channel: *mut ib::ibv_comp_channel,
    pub(super) cq: *mut ib::ibv_cq,
    pub(super) srq: *mut ib::ibv_srq,
    pub(super) depths: Depths,
    /// Bytes that a work request may carry itself.
    pub(super) inline: u32,
    /// Which memory the device registers.
    pub(super) memory: Support,
    pub(super) partition: u16,
    service_level: u8,
}

impl Objects {
    pub(super) fn open(
        (device, port): (Device, Port),
        depths: Depths,
        (partition, service_level): (u16, u8),
    ) -> Result<Self> {
        let (pd, channel, cq, srq) = (null_mut(), null_mut(), null_mut(), null_mut());
        let (inline, memory) = (MAX_INLINE, Support::default());
        let mut o =
            Self { device, port, pd, channel, cq, srq, depths, inline, memory, partition, service_level };
        match o.try_open() {
            Ok(()) => Ok(o),
            Err(e) => {
                // The first error is the one to tell.
                let _ = o.close();
                Err(e)
            }
        }
    }

    fn try_open(&mut self) -> Result<()> {
        let (lib, context) = (self.device.lib, self.device.context);
        // SAFETY: the context is open, and so is its file of events, which `events` reads without waiting.
        check("opening the device's events", unsafe { no_waiting((*context).async_fd) })?;
        // SAFETY: the context is open; each object is used only if it was made; all-zero attributes are valid (numbers and
        // pointers), and the calls read and write no more than these.
        unsafe {
            self.pd = made("making a protection domain", lib.ibv_alloc_pd(context))?;
            self.memory = Support::ask(lib, self.pd);
            self.channel = made("making a completion channel", lib.ibv_create_comp_channel(context))?;
            check("opening the completion channel", no_waiting((*self.channel).fd))?;
            let entries = i32::try_from(self.depths.completions).unwrap_or(i32::MAX);
            let cq = lib.ibv_create_cq(context, entries, null_mut(), self.channel, 0);
            self.cq = made(&format!("making a completion queue of {entries}"), cq)?;
            let mut srq: ib::ibv_srq_init_attr = zeroed();
            srq.attr.max_wr = self.depths.receives;
            srq.attr.max_sge = 1;
            let what = format!("making a shared receive queue of {}", self.depths.receives);
            self.srq = made(&what, lib.ibv_create_srq(self.pd, &mut srq))?;
        }
        // Finds out how many bytes may be inline.
        let qp = loop {
            match self.queue_pair() {
                Err(_) if self.inline > 0 => self.inline /= 2,
                made => break made?,
            }
        };
        self.destroy(qp)
    }

    /// A reliable connected queue pair.
    pub(super) fn queue_pair(&self) -> Result<*mut ib::ibv_qp> {
        // SAFETY: all-zero attributes are valid; the objects are there.
        unsafe {
            let mut init: ib::ibv_qp_init_attr = zeroed();
            init.qp_type = ib::IBV_QPT_RC;
            (init.send_cq, init.recv_cq, init.srq) = (self.cq, self.cq, self.srq);
            init.cap.max_send_wr = self.depths.sends;
            init.cap.max_send_sge = self.port.max_gather;
            init.cap.max_inline_data = self.inline;
            let made = made("making a queue pair", self.device.lib.ibv_create_qp(self.pd, &mut init))?;
            match self.initialise(made) {
                Ok(()) => Ok(made),
                Err(e) => {
                    // The first error is the one to tell.
                    let _ = self.destroy(made);
                    Err(e)
                }
            }
        }
    }

    fn initialise(&self, qp: *mut ib::ibv_qp) -> Result<()> {
        // SAFETY: all-zero attributes are valid; the queue pair is there.
        unsafe {
            let mut attr: ib::ibv_qp_attr = zeroed();
            attr.qp_state = ib::IBV_QPS_INIT;
            attr.pkey_index = self.partition;
            attr.port_num = self.port.number;
            attr.qp_access_flags = ib::IBV_ACCESS_REMOTE_WRITE;
            let mask = ib::IBV_QP_STATE | ib::IBV_QP_PKEY_INDEX | ib::IBV_QP_PORT | ib::IBV_QP_ACCESS_FLAGS;
            self.modify("initialising a queue pair", qp, &mut attr, mask)
        }
    }

    /// Connects it to a peer's, from `ours` to `theirs`.
    ///
    /// # Safety
    /// `qp` is from [`Objects::queue_pair`], and was not connected yet.
    pub(super) unsafe fn connect(
        &self,
        qp: *mut ib::ibv_qp,
        peer: &Card,
        (ours, theirs): (End, End),
        mtu: u8,
    ) -> Result<()> {
        // SAFETY: all-zero attributes are valid; the queue pair is there (the caller's promise).
        unsafe {
            let mut attr: ib::ibv_qp_attr = zeroed();
            attr.qp_state = ib::IBV_QPS_RTR;
            attr.path_mtu = mtu.min(peer.mtu).into();
            attr.dest_qp_num = theirs.queue_pair;
            attr.rq_psn = theirs.packet;
            attr.max_dest_rd_atomic = 1;
            attr.min_rnr_timer = RNR_TIMER;
            attr.ah_attr = self.path(peer);
            let mask = ib::IBV_QP_STATE
                | ib::IBV_QP_AV
                | ib::IBV_QP_PATH_MTU
                | ib::IBV_QP_DEST_QPN
                | ib::IBV_QP_RQ_PSN
                | ib::IBV_QP_MAX_DEST_RD_ATOMIC
                | ib::IBV_QP_MIN_RNR_TIMER;
            self.modify("connecting a queue pair", qp, &mut attr, mask)?;
            let mut attr: ib::ibv_qp_attr = zeroed();
            attr.qp_state = ib::IBV_QPS_RTS;
            attr.sq_psn = ours.packet;
            (attr.timeout, attr.retry_cnt, attr.rnr_retry) = (TIMEOUT_EXPONENT, RETRIES, RNR_RETRIES);
            attr.max_rd_atomic = 1;
            let mask = ib::IBV_QP_STATE
                | ib::IBV_QP_TIMEOUT
                | ib::IBV_QP_RETRY_CNT
                | ib::IBV_QP_RNR_RETRY
                | ib::IBV_QP_SQ_PSN
                | ib::IBV_QP_MAX_QP_RD_ATOMIC;
            self.modify("making a queue pair ready to send", qp, &mut attr, mask)
        }
    }

    /// Ends it: what was posted to it fails, and nothing more comes by it.
    ///
    /// # Safety
    /// The queue pair is there.
    pub(super) unsafe fn end(&self, qp: *mut ib::ibv_qp) -> Result<()> {
        // SAFETY: all-zero attributes are valid; the queue pair is there (the caller's promise).
        unsafe {
            let mut attr: ib::ibv_qp_attr = zeroed();
            attr.qp_state = ib::IBV_QPS_ERR;
            self.modify("ending a queue pair", qp, &mut attr, ib::IBV_QP_STATE)
        }
    }

    /// # Safety
    /// The queue pair is there, and the attributes of `mask` are set.
    pub(super) unsafe fn modify(
        &self,
        what: &str,
        qp: *mut ib::ibv_qp,
        attr: &mut ib::ibv_qp_attr,
        mask: ib::ibv_qp_attr_mask,
    ) -> Result<()> {
        // SAFETY: the caller's promise. A set of few bits.
        check(what, unsafe { self.device.lib.ibv_modify_qp(qp, attr, mask.cast_signed()) })
    }

    /// The way to a peer.
    pub(super) fn path(&self, peer: &Card) -> ib::ibv_ah_attr {
        // SAFETY: all-zero attributes are valid (numbers only).
        let mut attr: ib::ibv_ah_attr = unsafe { zeroed() };
        attr.port_num = self.port.number;
        attr.dlid = peer.lid;
        attr.sl = self.service_level;
        let subnet = |gid: &[u8; 16]| gid.first_chunk::<8>().copied();
        let here = self.port.gid;
        let elsewhere = here.is_some_and(|g| subnet(&g.raw) != subnet(&peer.gid));
        if self.port.ethernet() || self.port.global_required() || peer.global || elsewhere {
            attr.is_global = 1;
            attr.grh.dgid = ib::ibv_gid { raw: peer.gid };
            attr.grh.hop_limit = HOPS;
            // A table of at most some hundred.
            attr.grh.sgid_index = here.map_or(0, |g| u8::try_from(g.index).unwrap_or(0));
        }
        attr
    }

    /// # Errors
    /// When the device refuses: it then goes on.
    pub(super) fn destroy(&self, qp: *mut ib::ibv_qp) -> Result<()> {
        // SAFETY: made by this library and not destroyed before: its owner forgets it when this succeeds.
        check("destroying a queue pair", unsafe { self.device.lib.ibv_destroy_qp(qp) })
    }

    /// Destroys all but the device, which goes with this value. No queue pair and no registration may be left.
    pub(super) fn close(&mut self) -> Result<()> {
        let lib = self.device.lib;
        let mut outcome = Ok(());
        let mut note = |what: &str, code: i32| {
            if outcome.is_ok() {
                outcome = check(what, code);
            }
        };
        // SAFETY: not null, so there; each is forgotten at once. Its events were acknowledged when they were read.
        unsafe {
            if !self.srq.is_null() {
                note("destroying the receive queue", lib.ibv_destroy_srq(self.srq));
            }
            if !self.cq.is_null() {
                note("destroying the completion queue", lib.ibv_destroy_cq(self.cq));
            }
            if !self.channel.is_null() {
                note("destroying the completion channel", lib.ibv_destroy_comp_channel(self.channel));
            }
            if !self.pd.is_null() {
                note("destroying the protection domain", lib.ibv_dealloc_pd(self.pd));
            }
        }
        (self.srq, self.cq, self.channel, self.pd) = (null_mut(), null_mut(), null_mut(), null_mut());
        outcome
    }
}
