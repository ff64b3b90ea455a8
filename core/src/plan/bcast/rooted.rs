//! What all broadcasts check and count with: ranks by their distance from the root.

use crate::error::{Result, argument};
use crate::plan::MAX_COUNTERS;
use crate::plan::topology::{ahead, behind};
use crate::schedule::MAX_P;

/// Checks what every broadcast asks for.
pub(super) fn check(size: u32, root: u32) -> Result<()> {
    if size == 0 || size > MAX_P {
        return Err(argument(format!("bcast among {size} ranks")));
    }
    if root >= size {
        return Err(argument(format!("root {root} is not one of the {size} ranks")));
    }
    Ok(())
}

/// Checks a number of blocks.
pub(super) fn check_blocks(blocks: u32) -> Result<()> {
    if blocks == 0 || blocks > MAX_COUNTERS {
        return Err(argument(format!("bcast in {blocks} blocks"))
            .help(format!("the number of blocks must be 1 to {MAX_COUNTERS}")));
    }
    Ok(())
}

/// A rank's distance from the root: (rank − root) mod p.
pub(super) const fn relative(rank: u32, root: u32, size: u32) -> u32 {
    behind(size, rank, root)
}

/// The rank at a distance < p from the root.
pub(super) const fn absolute(relative: u32, root: u32, size: u32) -> u32 {
    ahead(size, root, relative)
}
