//! A job that something else has started: rank, size and an allgather in Python, such as mpi4py's.

use circulant::launch::{Gone, Launch};
use circulant::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::time::Duration;

/// Rank and size, and `allgather(bytes) -> list[bytes]` among all ranks.
#[derive(Debug)]
pub(crate) struct Exchange {
    rank: usize,
    size: usize,
    allgather: Py<PyAny>,
    /// Put since the last fence.
    put: Vec<u8>,
    known: HashMap<Vec<u8>, Vec<u8>>,
}

impl Exchange {
    pub(crate) fn new(rank: usize, size: usize, allgather: Py<PyAny>) -> Self {
        Self { rank, size, allgather, put: Vec::new(), known: HashMap::new() }
    }
}

fn failed(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Launch, what)
}

/// Appends `bytes`, with their length before them.
fn append(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend((bytes.len() as u64).to_le_bytes());
    to.extend(bytes);
}

/// Takes what [`append`] has appended off the front.
fn take<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = from.split_first_chunk()?;
    let (taken, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
    *from = rest;
    Some(taken)
}

impl Launch for Exchange {
    fn name(&self) -> &str {
        "python"
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        append(&mut self.put, key.as_bytes());
        append(&mut self.put, value);
        Ok(())
    }

    fn fence(&mut self, _deadline: Duration) -> Result<()> {
        let put = std::mem::take(&mut self.put);
        let all: PyResult<Vec<Vec<u8>>> =
            Python::attach(|py| self.allgather.call1(py, (PyBytes::new(py, &put),))?.extract(py));
        let all = all.map_err(|e| failed(format!("the allgather of the program failed: {e}")))?;
        if all.len() != self.size {
            let size = self.size;
            return Err(failed(format!(
                "the allgather of the program gave {} values for {size} ranks",
                all.len()
            )));
        }
        for values in &all {
            let mut rest = &values[..];
            while !rest.is_empty() {
                let (Some(key), Some(value)) = (take(&mut rest), take(&mut rest)) else {
                    return Err(failed("the allgather of the program has changed what was given to it"));
                };
                self.known.insert(key.to_vec(), value.to_vec());
            }
        }
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        self.known.get(key.as_bytes()).cloned().ok_or_else(|| failed(format!("no rank put the key {key}")))
    }

    fn nodes(&self) -> Option<Vec<u32>> {
        None
    }

    fn gone(&mut self) -> Option<Gone> {
        None
    }

    fn abort(&mut self, code: i32, message: &str) {
        if !message.is_empty() {
            eprintln!("circulant: {message}");
        }
        std::process::exit(code);
    }

    fn finalize(&mut self) -> Result<()> {
        Ok(())
    }
}
