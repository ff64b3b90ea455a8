//! libfabric's objects of one endpoint: opened in one order, closed in the other.

use super::library::{Info, Library};
use crate::error::{Error, Result};
use libfabric_sys as fi;
use std::mem::{MaybeUninit, zeroed};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// At close, completions are taken to have ended when none came for so long. Chosen: 100 ms in all at most, fifty times
/// this.
const QUIET: Duration = Duration::from_millis(2);

/// What to do where memory cannot be registered.
pub(super) const LOCKED: &str = "the limit on locked memory is likely too low: raise it (ulimit -l unlimited), or take a wire that locks none \
    (CIRCULANT_PROVIDER=tcp)";

/// Fabric, domain, address vector, completion queue, endpoint; null where not open.
pub(super) struct Objects {
    fabric: *mut fi::fid_fabric,
    pub(super) domain: *mut fi::fid_domain,
    pub(super) av: *mut fi::fid_av,
    pub(super) cq: *mut fi::fid_cq,
    pub(super) ep: *mut fi::fid_ep,
    /// One may sleep until the completion queue has something.
    pub(super) blocks: bool,
}

impl Objects {
    /// Opens and enables an endpoint as `info` describes it.
    /// `blocks`: so that one can sleep until something completes, if the provider can do that.
    pub(super) fn open(lib: &Library, info: &Info, blocks: bool) -> Result<Self> {
        let (fabric, domain, av) = (null_mut(), null_mut(), null_mut());
        let mut o = Self { fabric, domain, av, cq: null_mut(), ep: null_mut(), blocks };
        match o.try_open(lib, info) {
            Ok(()) => Ok(o),
            Err(e) => {
                // The first error is the one to tell.
                let _ = o.close_endpoint(lib);
                let _ = o.close_rest(lib);
                Err(e)
            }
        }
    }

    fn try_open(&mut self, lib: &Library, info: &Info) -> Result<()> {
        let check = |what: &str, code: i32| match code {
            0 => Ok(()),
            code => Err(advise(lib.error(what, code.into()), what, code)),
        };
        let entry = info.as_ptr();
        // SAFETY: `entry` is a whole entry of fi_getinfo's that `info` owns, so it and its attributes can be
        // read; each object is used only after the call that opens it succeeded; all-zero attributes are
        // valid (every field is an integer or a pointer), and mean "the provider's choice".
        unsafe {
            check("fi_fabric", lib.api.fabric((*entry).fabric_attr, &mut self.fabric))?;
            check("fi_domain", fi::fi_domain(self.fabric, entry, &mut self.domain))?;
            let mut av: fi::fi_av_attr = zeroed();
            av.type_ = match (*(*entry).domain_attr).av_type {
                fi::FI_AV_UNSPEC => fi::FI_AV_TABLE,
                theirs => theirs,
            };
            check("fi_av_open", fi::fi_av_open(self.domain, &mut av, &mut self.av))?;
            let mut cq: fi::fi_cq_attr = zeroed();
            cq.format = fi::FI_CQ_FORMAT_DATA;
            cq.wait_obj = fi::FI_WAIT_NONE;
            cq.size = (*(*entry).tx_attr).size.saturating_add((*(*entry).rx_attr).size).clamp(1024, 1 << 16);
            if self.blocks {
                cq.wait_obj = fi::FI_WAIT_UNSPEC;
                self.blocks = fi::fi_cq_open(self.domain, &mut cq, &mut self.cq) == 0;
                cq.wait_obj = fi::FI_WAIT_NONE;
            }
            if !self.blocks {
                check("fi_cq_open", fi::fi_cq_open(self.domain, &mut cq, &mut self.cq))?;
            }
            check("fi_endpoint", fi::fi_endpoint(self.domain, entry, &mut self.ep))?;
            check("fi_ep_bind (address vector)", fi::fi_ep_bind(self.ep, &raw mut (*self.av).fid, 0))?;
            let both = fi::FI_TRANSMIT | fi::FI_RECV;
            check("fi_ep_bind (completion queue)", fi::fi_ep_bind(self.ep, &raw mut (*self.cq).fid, both))?;
            check("fi_enable", fi::fi_enable(self.ep))
        }
    }

    /// The endpoint's own name, raw.
    pub(super) fn name(&self, lib: &Library) -> Result<Vec<u8>> {
        let mut name = vec![0u8; 512];
        let mut len = name.len();
        // SAFETY: the endpoint is enabled; the pointer and `len` describe the vector.
        let code = unsafe { fi::fi_getname(self.ep, name.as_mut_ptr().cast(), &mut len) };
        if code != 0 || len > name.len() {
            return Err(lib.error("fi_getname", code.into()));
        }
        name.truncate(len);
        Ok(name)
    }

    /// Reads and forgets what completes, until nothing has for a while.
    pub(super) fn drain(&mut self) {
        let start = Instant::now();
        let mut last = start;
        let mut entries = [const { MaybeUninit::<fi::fi_cq_data_entry>::uninit() }; 16];
        // SAFETY: all-zero is a valid entry (integers and null pointers).
        let mut error: fi::fi_cq_err_entry = unsafe { zeroed() };
        while last.elapsed() < QUIET && start.elapsed() < QUIET * 50 {
            // SAFETY: the queue is open, there is room for what is asked for, and what is read is not used.
            let some = unsafe {
                fi::fi_cq_read(self.cq, entries.as_mut_ptr().cast(), entries.len()) > 0
                    || fi::fi_cq_readerr(self.cq, &mut error, 0) > 0
            };
            if some {
                last = Instant::now();
            }
        }
    }

    /// Closes the endpoint: with it ends what peers can do.
    pub(super) fn close_endpoint(&mut self, lib: &Library) -> Result<()> {
        if self.ep.is_null() {
            return Ok(());
        }
        // SAFETY: not null, so open; it is forgotten at once when closed.
        match unsafe { fi::fi_close(&raw mut (*self.ep).fid) } {
            0 => {
                self.ep = null_mut();
                Ok(())
            }
            code => Err(lib.error("closing the endpoint", code.into())),
        }
    }

    /// Closes what remains after the endpoint and the registrations.
    pub(super) fn close_rest(&mut self, lib: &Library) -> Result<()> {
        let mut outcome = Ok(());
        let mut close = |what: &str, object: *mut fi::fid| {
            // SAFETY: not null, so open; each is forgotten below and never closed again.
            let code = if object.is_null() { 0 } else { unsafe { fi::fi_close(object) } };
            if code != 0 && outcome.is_ok() {
                outcome = Err(lib.error(what, code.into()));
            }
        };
        // Every object begins with its fid, so that null stays null.
        close("closing the completion queue", self.cq.cast());
        close("closing the address vector", self.av.cast());
        close("closing the domain", self.domain.cast());
        close("closing the fabric", self.fabric.cast());
        (self.cq, self.av, self.domain, self.fabric) = (null_mut(), null_mut(), null_mut(), null_mut());
        outcome
    }
}

/// Says what to do about failures that are likely.
fn advise(e: Error, what: &str, code: i32) -> Error {
    match (what, code) {
        ("fi_enable" | "fi_endpoint", code) if code == -fi::FI_EINVAL => e.help(
            "on verbs the likely cause is a completion queue larger than the device allows: \
             set FI_UNIVERSE_SIZE to the number of ranks, at most 64 on soft-RoCE",
        ),
        (_, code) if code == -fi::FI_ENOMEM => e.help(LOCKED),
        _ => e.help("FI_LOG_LEVEL=warn shows libfabric's own words; CIRCULANT_PROVIDER chooses another wire"),
    }
}
