//! This library's own use of the MPI.

use crate::abi::Abi;
use crate::on::On;
use crate::real::Real;
use std::ffi::c_int;

/// How this library itself uses the MPI: on a communicator of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    pub(crate) real: &'static Real,
    pub(crate) abi: &'static Abi,
    pub(crate) comm: usize,
}

impl Wire {
    /// The communicator, for the MPI's functions that need one.
    pub(crate) fn on(&self) -> On {
        On { real: self.real, abi: self.abi, handle: self.comm }
    }

    /// Lets the MPI make progress: MPI promises it inside every call that blocks (MPI 4.1, section 3.9), and ours stands for one.
    pub(crate) fn progress(&self) {
        let mut flag = 0;
        // SAFETY: room for an int; nothing is ever sent on our communicator, and nothing is received by this.
        unsafe { self.real.Iprobe(self.abi.any_source, 0, self.comm, &raw mut flag, self.abi.status_ignore) };
    }

    /// Whether all ranks say yes.
    pub(crate) fn all(&self, yes: bool) -> bool {
        let (mine, mut all) = (c_int::from(yes), 0);
        // SAFETY: an int of ours and room for one; all ranks make this call.
        let code = unsafe {
            let (from, to) = ((&raw const mine).cast(), (&raw mut all).cast());
            self.real.Allreduce(from, to, 1, self.abi.int, self.abi.min, self.comm)
        };
        code == 0 && all == 1
    }

    /// Rank 0's text, at all ranks.
    pub(crate) fn agreed(&self, text: &str) -> String {
        let mut length = c_int::try_from(text.len()).unwrap_or(0);
        // SAFETY: an int; all ranks make this call.
        unsafe { self.real.Bcast((&raw mut length).cast(), 1, self.abi.int, 0, self.comm) };
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(usize::try_from(length).unwrap_or(0), 0);
        if bytes.is_empty() {
            // Its pointer could be taken for MPI_IN_PLACE, which is 1 in some ABIs.
            return String::new();
        }
        // SAFETY: as many bytes as rank 0 has.
        unsafe { self.real.Bcast(bytes.as_mut_ptr().cast(), length, self.abi.byte, 0, self.comm) };
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
