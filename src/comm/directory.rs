//! The address of every rank: neighbours' come from the launcher, those of all by an allgather of our own. So a
//! rank asks the launcher for O(log p) values, and for none once it is up.

use super::communicator::Communicator;
use super::members::to_u32;
use super::options::Options;
use crate::engine::Directory;
use crate::error::{Error, ErrorKind, Result};

/// The address of every rank.
#[derive(Debug)]
pub(super) struct Table {
    bytes: Vec<u8>,
    /// Where each address ends.
    ends: Vec<usize>,
}

impl Table {
    /// Gathers the addresses of all. Collective; talks to neighbours only.
    ///
    /// # Errors
    /// As [`Communicator::allgather`].
    pub(super) fn gather(comm: &Communicator, own: &[u8]) -> Result<Self> {
        let comm = comm.with(Options::new().algorithm("circulant"));
        let mut lengths = vec![0u32; comm.size()];
        comm.allgather(&[to_u32(own.len())?], &mut lengths)?;
        let counts: Vec<usize> = lengths.iter().map(|n| *n as usize).collect();
        let mut end = 0usize;
        let ends: Vec<usize> = counts
            .iter()
            .map(|n| {
                end += n;
                end
            })
            .collect();
        let mut bytes = vec![0u8; end];
        comm.allgatherv(own, &mut bytes, &counts)?;
        Ok(Self { bytes, ends })
    }
}

impl Directory for Table {
    fn address(&mut self, rank: u32) -> Result<Vec<u8>> {
        let at = |rank: usize| self.ends.get(rank).copied();
        let start = (rank as usize).checked_sub(1).map_or(Some(0), at);
        let address = start.zip(at(rank as usize)).and_then(|(start, end)| self.bytes.get(start..end));
        let missing = || Error::new(ErrorKind::Launch, format!("there is no rank {rank}"));
        address.map(<[u8]>::to_vec).ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_by_rank() {
        let mut table = Table { bytes: b"abcdef".to_vec(), ends: vec![2, 2, 6] };
        let found = [0, 1, 2].map(|rank| table.address(rank).unwrap());
        assert_eq!(found, [b"ab".to_vec(), Vec::new(), b"cdef".to_vec()]);
        assert!(table.address(3).is_err());
    }
}
