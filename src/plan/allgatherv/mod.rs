//! Irregular allgather: every rank's contribution, each of its own length, at every rank.
//!
//! [`Region::Input`](super::Region::Input) is a rank's contribution (in place: it lies in `Output`
//! already), [`Region::Output`](super::Region::Output) is where all contributions go, each at its
//! owner's displacement, the same at every rank.

pub mod circulant;

use crate::error::{Result, argument};

/// Checks that there is one displacement per count and that no two contributions overlap; gives the
/// length that the output must have.
///
/// # Errors
/// If the lists differ in length, are empty, or describe overlapping or impossibly long ranges.
pub fn extent(counts: &[u64], displs: &[u64]) -> Result<u64> {
    if counts.len() != displs.len() || counts.is_empty() {
        return Err(argument(format!("{} counts and {} displacements", counts.len(), displs.len()))
            .help("give one of each per rank"));
    }
    let mut used: Vec<_> = (0..counts.len()).filter(|&i| counts[i] > 0).collect();
    used.sort_by_key(|&i| displs[i]);
    let mut end = 0;
    for (nth, &i) in used.iter().enumerate() {
        if nth > 0 && displs[i] < end {
            return Err(argument(format!(
                "the contributions of ranks {} and {i} overlap in the output",
                used[nth - 1]
            )));
        }
        end = displs[i]
            .checked_add(counts[i])
            .ok_or_else(|| argument(format!("the contribution of rank {i} ends beyond 2^64 bytes")))?;
    }
    Ok(end)
}
