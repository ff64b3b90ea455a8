//! Shapes that some algorithms lay over the ranks, and what they ask of p.

pub(in crate::plan) mod bine;

use crate::error::{Result, argument};

/// The sides (a, b) of the mesh of p = a·b ranks in row-major order: a rows of b ranks, a ≤ b, as square as
/// possible.
///
/// # Errors
/// If p is a prime: its only mesh is a line. (One rank is a mesh.)
pub(crate) fn sides(size: u32) -> Result<(u32, u32)> {
    let a = (1..=size.isqrt()).rev().find(|a| size.is_multiple_of(*a));
    match a {
        Some(a) if a > 1 || size == 1 => Ok((a, size / a)),
        _ => Err(argument(format!("{size} ranks are no mesh of a·b ranks"))
            .help("choose an algorithm for any number of ranks")),
    }
}

/// The dimension d of the hypercube of 2^d ranks.
///
/// # Errors
/// If p is not a power of two.
pub(crate) fn dimension(size: u32) -> Result<u32> {
    if size.is_power_of_two() {
        return Ok(size.ilog2());
    }
    Err(argument(format!("{size} ranks are no hypercube: that takes a power of two"))
        .help("choose an algorithm for any number of ranks"))
}

/// The rank `distance` ≤ p further on, round the end.
pub(crate) const fn ahead(size: u32, rank: u32, distance: u32) -> u32 {
    // Both are below 2^31.
    let at = rank + distance;
    if at >= size { at - size } else { at }
}

/// The rank `distance` ≤ p before, round the end; of a rank, from a root, its distance.
pub(crate) const fn behind(size: u32, rank: u32, distance: u32) -> u32 {
    if rank >= distance { rank - distance } else { rank + size - distance }
}

/// ⌈log2 p⌉, the q of the formulas.
pub(crate) const fn log2_ceil(size: u32) -> u32 {
    if size <= 1 { 0 } else { (size - 1).ilog2() + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meshes_and_cubes() {
        assert_eq!(sides(1).unwrap(), (1, 1));
        assert_eq!(sides(36).unwrap(), (6, 6));
        assert_eq!(sides(40).unwrap(), (5, 8));
        assert_eq!(sides(0x7FFF_FFFE).unwrap().0 % 2, 0);
        for p in [0, 2, 3, 5, 31, i32::MAX.cast_unsigned()] {
            sides(p).unwrap_err();
        }
        assert_eq!(dimension(64).unwrap(), 6);
        for p in [0, 3, 65] {
            dimension(p).unwrap_err();
        }
        assert_eq!([0, 1, 2, 3, 4, 5, 1 << 30].map(log2_ceil), [0, 0, 1, 2, 2, 3, 30]);
    }
}
