//! Ranks as a grid: plain arithmetic, as of `MPI_Cart_create` without reordering.

use crate::error::{Result, argument};

/// A grid of ranks of any number of dimensions, each periodic (a ring) or not. Rank 0 has the coordinates 0, 0, …; the last
/// coordinate runs fastest (row-major), as in MPI.
///
/// ```
/// use circulant::comm::Cartesian;
///
/// // 2 by 3, the rows of 3 closed to rings:  0 1 2
/// //                                         3 4 5
/// let grid = Cartesian::new(&[2, 3], &[false, true])?;
/// assert_eq!((grid.coords(5), grid.rank(&[1, 2])), (Some(vec![1, 2]), Some(5)));
/// // For each dimension the neighbour in negative, then the one in positive direction.
/// assert_eq!(grid.neighbors(5), [Some(2), None, Some(4), Some(3)]);
/// assert_eq!(grid.shift(5, 1, 2), (Some(3), Some(4)));
/// # Ok::<(), circulant::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cartesian {
    dims: Vec<usize>,
    periodic: Vec<bool>,
}

impl Cartesian {
    /// A grid of `dims[d]` ranks in dimension d.
    ///
    /// # Errors
    /// When the lists differ in length, a dimension is 0, or there are more ranks than a `usize` can count.
    pub fn new(dims: &[usize], periodic: &[bool]) -> Result<Self> {
        if dims.len() != periodic.len() {
            return Err(argument(format!(
                "{} dimensions, {} of them periodic or not",
                dims.len(),
                periodic.len()
            )));
        }
        if dims.contains(&0) {
            return Err(argument(format!("a grid of {dims:?} ranks")).help("no dimension may be 0"));
        }
        if dims.iter().try_fold(1usize, |ranks, dim| ranks.checked_mul(*dim)).is_none() {
            return Err(argument(format!(
                "a grid of {dims:?} ranks, which are more than a number can count"
            )));
        }
        Ok(Self { dims: dims.to_vec(), periodic: periodic.to_vec() })
    }

    /// The ranks in each dimension.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Its number of ranks.
    pub fn size(&self) -> usize {
        self.dims.iter().product()
    }

    /// The coordinates of a rank; `None` when it is beyond the grid.
    pub fn coords(&self, rank: usize) -> Option<Vec<usize>> {
        if rank >= self.size() {
            return None;
        }
        let mut rest = rank;
        let mut coords: Vec<usize> = self
            .dims
            .iter()
            .rev()
            .map(|dim| {
                let at = rest % dim;
                rest /= dim;
                at
            })
            .collect();
        coords.reverse();
        Some(coords)
    }

    /// The rank at these coordinates; `None` when they are beyond the grid.
    pub fn rank(&self, coords: &[usize]) -> Option<usize> {
        let inside =
            coords.len() == self.dims.len() && coords.iter().zip(&self.dims).all(|(at, dim)| at < dim);
        inside.then(|| coords.iter().zip(&self.dims).fold(0, |rank, (at, dim)| rank * dim + at))
    }

    /// As `MPI_Cart_shift`: the ranks `by` steps before and behind `rank` in a dimension; `None` beyond a border that is not
    /// periodic, and where there is no such rank or dimension.
    pub fn shift(&self, rank: usize, dimension: usize, by: isize) -> (Option<usize>, Option<usize>) {
        (self.moved(rank, dimension, by.checked_neg()), self.moved(rank, dimension, Some(by)))
    }

    fn moved(&self, rank: usize, dimension: usize, by: Option<isize>) -> Option<usize> {
        let mut coords = self.coords(rank)?;
        let (by, dim) = (by?, *self.dims.get(dimension)?);
        let at = coords.get_mut(dimension)?;
        *at = match self.periodic[dimension] {
            // The remainder is below the dimension, and so is the coordinate.
            true => (*at + by.unsigned_abs() % dim * if by < 0 { dim - 1 } else { 1 }) % dim,
            false => at.checked_add_signed(by).filter(|at| *at < dim)?,
        };
        self.rank(&coords)
    }

    /// The neighbours of a rank in MPI's order: for each dimension the one in negative, then the one in positive direction; `None`
    /// beyond a border that is not periodic. In a ring of two both are the same rank, in a ring of one the rank itself.
    pub fn neighbors(&self, rank: usize) -> Vec<Option<usize>> {
        (0..self.dims.len()).flat_map(|d| <[_; 2]>::from(self.shift(rank, d, 1))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_lead_back() {
        for (dims, periodic) in
            [(vec![3, 4, 5], vec![true, false, true]), (vec![1, 2], vec![true; 2]), (vec![], vec![])]
        {
            let grid = Cartesian::new(&dims, &periodic).unwrap();
            for rank in 0..grid.size() {
                assert_eq!(grid.rank(&grid.coords(rank).unwrap()), Some(rank));
                for (d, ring) in periodic.iter().enumerate() {
                    for by in [-7, -3, -1, 0, 1, 2, 9] {
                        let (before, behind) = grid.shift(rank, d, by);
                        assert_eq!(behind.map(|r| grid.shift(r, d, by).0), behind.map(|_| Some(rank)));
                        assert_eq!(before.map(|r| grid.shift(r, d, by).1), before.map(|_| Some(rank)));
                        assert!(!ring || before.is_some());
                    }
                }
            }
            assert_eq!((grid.coords(grid.size()), grid.shift(0, dims.len(), 1)), (None, (None, None)));
        }
        Cartesian::new(&[2, 0], &[true; 2]).unwrap_err();
        Cartesian::new(&[2], &[true; 2]).unwrap_err();
        Cartesian::new(&[usize::MAX, 2], &[true; 2]).unwrap_err();
    }
}
