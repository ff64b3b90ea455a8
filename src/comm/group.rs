//! Groups: ordered sets of ranks of the world.

use crate::error::{Result, argument};

/// An ordered set of ranks, named by their world ranks. Pure arithmetic: no call here talks to other ranks.
/// A communicator is made of one by [`Communicator::create`](super::Communicator::create).
///
/// ```
/// use circulant::comm::Group;
///
/// let all = Group::world(8);
/// let even = all.include(&[0, 2, 4, 6])?;
/// let low = all.include(&[0, 1, 2, 3])?;
/// assert_eq!(even.union(&low).ranks(), [0, 2, 4, 6, 1, 3]);
/// assert_eq!(even.intersection(&low).ranks(), [0, 2]);
/// assert_eq!(low.exclude(&[0, 1])?.ranks(), [2, 3]);
/// assert_eq!(even.translate(1, &low)?, Some(2));
/// # Ok::<(), circulant::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Group(Vec<u32>);

impl Group {
    /// All ranks of a world of `size` ranks.
    ///
    /// # Panics
    /// When `size` is 2^32 or more: no world has as many.
    pub fn world(size: usize) -> Self {
        assert!(u32::try_from(size).is_ok(), "no world has {size} ranks");
        #[allow(clippy::cast_possible_truncation, reason = "checked above")]
        Self((0..size as u32).collect())
    }

    pub(super) fn of(ranks: Vec<u32>) -> Self {
        Self(ranks)
    }

    pub(super) fn members(&self) -> &[u32] {
        &self.0
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// The world ranks, in the group's order.
    pub fn ranks(&self) -> Vec<usize> {
        self.0.iter().map(|r| *r as usize).collect()
    }

    /// The position of a world rank in the group.
    pub fn position(&self, world_rank: usize) -> Option<usize> {
        self.0.iter().position(|r| *r as usize == world_rank)
    }

    /// All of `self`, then those of `other` that are not in it.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let seen: std::collections::HashSet<u32> = self.0.iter().copied().collect();
        Self(self.0.iter().chain(other.0.iter().filter(|r| !seen.contains(r))).copied().collect())
    }

    /// Those of `self` that are in `other`, in the order of `self`.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let there: std::collections::HashSet<u32> = other.0.iter().copied().collect();
        Self(self.0.iter().filter(|r| there.contains(r)).copied().collect())
    }

    /// Those of `self` that are not in `other`, in the order of `self`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let there: std::collections::HashSet<u32> = other.0.iter().copied().collect();
        Self(self.0.iter().filter(|r| !there.contains(r)).copied().collect())
    }

    /// The ranks at `positions` of the group, in that order.
    ///
    /// # Errors
    /// When a position is out of range, or named twice.
    pub fn include(&self, positions: &[usize]) -> Result<Self> {
        self.check(positions)?;
        Ok(Self(positions.iter().map(|p| self.0[*p]).collect()))
    }

    /// The group without those at `positions`.
    ///
    /// # Errors
    /// When a position is out of range, or named twice.
    pub fn exclude(&self, positions: &[usize]) -> Result<Self> {
        self.check(positions)?;
        let mut keep = vec![true; self.0.len()];
        positions.iter().for_each(|p| keep[*p] = false);
        Ok(Self(self.0.iter().zip(keep).filter(|(_, keep)| *keep).map(|(r, _)| *r).collect()))
    }

    /// Where in `other` the rank at `position` of `self` is.
    ///
    /// # Errors
    /// When the position is out of range.
    pub fn translate(&self, position: usize, other: &Self) -> Result<Option<usize>> {
        self.check(&[position])?;
        Ok(other.position(self.0[position] as usize))
    }

    fn check(&self, positions: &[usize]) -> Result<()> {
        let mut seen = vec![false; self.0.len()];
        for p in positions {
            match seen.get_mut(*p) {
                None => {
                    let size = self.0.len();
                    return Err(argument(format!(
                        "position {p} is out of range: the group has {size} ranks"
                    )));
                }
                Some(true) => return Err(argument(format!("position {p} is named twice"))),
                Some(seen) => *seen = true,
            }
        }
        Ok(())
    }
}
