//! What all allgathers check.

use crate::error::{Result, argument};
use crate::schedule::MAX_P;

/// Whether a group of this size can gather `count` bytes of each rank.
pub(super) fn check(size: u32, count: u64) -> Result<()> {
    if size == 0 || size > MAX_P {
        return Err(argument(format!("allgather among {size} ranks")));
    }
    match count.checked_mul(u64::from(size)) {
        Some(_) => Ok(()),
        None => Err(argument(format!("{size} contributions of {count} bytes are beyond 2^64 bytes"))),
    }
}
