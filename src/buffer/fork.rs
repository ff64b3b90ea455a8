//! Noticing that this process is a forked child, without a system call.

use crate::error::{Error, ErrorKind};
use memmap2::MmapMut;

/// A page that is wiped in forked children. Without the kernel's help (before Linux 4.14) it notices nothing.
#[derive(Debug)]
pub(crate) struct ForkMark(Option<MmapMut>);

impl ForkMark {
    /// A mark of this process.
    pub(crate) fn new() -> Self {
        let marked = || {
            let mut page = MmapMut::map_anon(1).ok()?;
            // SAFETY: a private anonymous mapping of our own; what children see is no concern of ours here.
            let done = unsafe { libc::madvise(page.as_mut_ptr().cast(), page.len(), libc::MADV_WIPEONFORK) };
            if done != 0 {
                return None;
            }
            page[0] = 1;
            Some(page)
        };
        // Miri has neither this advice nor children.
        Self(if cfg!(miri) { None } else { marked() })
    }

    /// What a call on a world in a forked child gets.
    pub(crate) fn refusal() -> Error {
        Error::new(ErrorKind::Aborted, "the world belongs to the process that this one was forked from")
            .help("call exec in the child, or fork before the world is made")
    }

    /// Whether this is a child of the process that made it.
    pub(crate) fn forked(&self) -> bool {
        self.0.as_ref().is_some_and(|page| page[0] == 0)
    }
}
