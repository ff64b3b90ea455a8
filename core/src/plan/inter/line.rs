//! What the lines of the algorithms between two groups have in common. m_A and m_B are all bytes of the groups' ranks, q_A and
//! q_B the ⌈log2⌉ of their sizes a and b.

use super::groups::{Groups, equal};
use crate::error::{Result, argument};
use crate::plan::registry::Arguments;

pub(super) const ANY: &str = "any two groups";

pub(super) fn groups(a: &Arguments) -> Result<Groups> {
    Groups::new(a.first, a.size)
}

/// What [`ANY`] says.
pub(super) fn fits(a: &Arguments) -> Result<()> {
    groups(a).map(|_| ())
}

/// Bytes of a rank of A and of a rank of B (inter_allgather).
pub(super) fn each(a: &Arguments) -> Result<[u64; 2]> {
    match a.counts[..] {
        [] => Ok([a.bytes; 2]),
        [first, second] => Ok([first, second]),
        _ => Err(argument(format!("{} counts for two groups of equal contributions", a.counts.len()))
            .help("give one for each group, or choose inter_allgatherv")),
    }
}

/// The arguments of an inter_allgather as those of an inter_allgatherv: counts and displacements of all ranks.
pub(super) fn as_irregular(a: &Arguments) -> Result<Arguments> {
    let (counts, displs) = equal(groups(a)?, each(a)?)?;
    Ok(Arguments { counts, displs, ..a.clone() })
}
