//! Start-up over the MPI: keys and values of all ranks by its collectives, on a communicator of our own. No process manager is asked, so
//! any launcher will do.
//!
//! [`circulant`] calls these functions on the thread that began the world or ends it, which is inside `MPI_Init` or `MPI_Finalize`.

use crate::wire::Wire;
use circulant::launch::{Gone, Launch};
use circulant::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::ffi::c_int;
use std::time::Duration;

/// A rank of `MPI_COMM_WORLD`.
#[derive(Debug)]
pub(crate) struct OverMpi {
    wire: Wire,
    rank: usize,
    size: usize,
    /// What we have put since the last fence.
    put: Vec<(String, Vec<u8>)>,
    /// What all had put before it.
    known: HashMap<String, Vec<u8>>,
    /// The barrier that is under way.
    request: usize,
}

impl OverMpi {
    pub(crate) fn new(wire: Wire, rank: usize, size: usize) -> Self {
        Self { wire, rank, size, put: Vec::new(), known: HashMap::new(), request: 0 }
    }

    /// The bytes of all ranks, one behind the other.
    fn exchange(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let Wire { real, abi, comm } = self.wire;
        let (byte, int) = (abi.byte, abi.int);
        let own = c_int::try_from(mine.len()).map_err(|_| too_much())?;
        let mut lengths: Vec<c_int> = vec![0; self.size];
        // SAFETY: an int of ours and room for one of each rank; all ranks make the same calls.
        let code = unsafe {
            let all = lengths.as_mut_ptr().cast();
            real.Allgather((&raw const own).cast(), 1, int, all, 1, int, comm)
        };
        succeeded("MPI_Allgather", code)?;
        let mut places = Vec::with_capacity(lengths.len());
        let mut total: c_int = 0;
        for length in &lengths {
            places.push(total);
            total = total.checked_add(*length).ok_or_else(too_much)?;
        }
        let total = usize::try_from(total).map_err(|_| too_much())?;
        // The pointer of an empty slice could be taken for MPI_IN_PLACE, which is 1 in some ABIs.
        let mine = if mine.is_empty() { &[0] } else { mine };
        let mut all = vec![0u8; total.max(1)];
        // SAFETY: our bytes, and room for those of each rank at its place.
        let code = unsafe {
            let (to, counts, displs) = (all.as_mut_ptr().cast(), lengths.as_ptr(), places.as_ptr());
            real.Allgatherv(mine.as_ptr().cast(), own, byte, to, counts, displs, byte, comm)
        };
        succeeded("MPI_Allgatherv", code)?;
        all.truncate(total);
        Ok(all)
    }
}

fn too_much() -> Error {
    Error::new(ErrorKind::Launch, "the addresses of all ranks have more than 2 GiB")
}

/// What a call of the MPI returned.
fn succeeded(name: &str, code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::new(ErrorKind::Launch, format!("{name} returned {code}"))) }
}

/// Keys and values as bytes, each behind its length (4 bytes, little-endian).
fn encode(pairs: &[(String, Vec<u8>)]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for part in pairs.iter().flat_map(|(key, value)| [key.as_bytes(), value]) {
        let length = u32::try_from(part.len()).map_err(|_| too_much())?;
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(part);
    }
    Ok(bytes)
}

/// The next part of such bytes.
fn next<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *bytes = rest;
    Some(part)
}

impl Launch for OverMpi {
    fn name(&self) -> &str {
        "mpi"
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.put.push((key.to_owned(), value.to_vec()));
        Ok(())
    }

    /// The MPI's collectives have no deadline.
    fn fence(&mut self, _deadline: Duration) -> Result<()> {
        let mine = encode(&std::mem::take(&mut self.put))?;
        let all = self.exchange(&mine)?;
        let mut rest = &all[..];
        while let (Some(key), Some(value)) = (next(&mut rest), next(&mut rest)) {
            self.known.insert(String::from_utf8_lossy(key).into_owned(), value.to_vec());
        }
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        let missing = || Error::new(ErrorKind::Launch, format!("no rank put the key {key}"));
        self.known.get(key).cloned().ok_or_else(missing)
    }

    fn nodes(&self) -> Option<Vec<u32>> {
        None
    }

    /// The MPI does not say, and threads of the library may ask.
    fn gone(&mut self) -> Option<Gone> {
        None
    }

    fn start_fence(&mut self) -> Result<bool> {
        // SAFETY: room for a request; all ranks begin this barrier.
        let code = unsafe { self.wire.real.Ibarrier(self.wire.comm, &raw mut self.request) };
        succeeded("MPI_Ibarrier", code)?;
        Ok(true)
    }

    fn test_fence(&mut self) -> Result<bool> {
        let mut flag = 0;
        // SAFETY: the request of `start_fence`, which MPI_Test makes null at its end, and may then be asked again.
        let code =
            unsafe { self.wire.real.Test(&raw mut self.request, &raw mut flag, self.wire.abi.status_ignore) };
        succeeded("MPI_Test", code)?;
        Ok(flag != 0)
    }

    fn abort(&mut self, code: i32, message: &str) {
        eprintln!("circulant: {message}");
        // SAFETY: ends the job, and does not return.
        unsafe { self.wire.real.Abort(self.wire.comm, code) };
    }

    fn finalize(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_read_as_they_were_written() {
        let pairs = [("addr-3".to_owned(), vec![1, 2, 3]), ("settings".to_owned(), Vec::new())];
        let bytes = [encode(&pairs).unwrap(), encode(&pairs[..1]).unwrap()].concat();
        let mut rest = &bytes[..];
        let mut read = Vec::new();
        while let (Some(key), Some(value)) = (next(&mut rest), next(&mut rest)) {
            read.push((String::from_utf8(key.to_vec()).unwrap(), value.to_vec()));
        }
        assert_eq!(read, [pairs[0].clone(), pairs[1].clone(), pairs[0].clone()]);
        assert!(next(&mut &[9, 0, 0, 0, 1][..]).is_none(), "a length that nothing follows");
    }
}
