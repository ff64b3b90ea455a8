//! One rank, no launcher.

use super::{Gone, Launch, check_key};
use crate::error::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

/// A job of size 1.
#[derive(Debug, Default)]
pub struct Single {
    values: HashMap<String, Vec<u8>>,
}

impl Single {
    /// Rank 0 of 1.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Launch for Single {
    fn name(&self) -> &str {
        "single"
    }

    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        check_key(key)?;
        match self.values.entry(key.to_owned()) {
            Entry::Vacant(place) => place.insert(value.to_vec()),
            Entry::Occupied(_) => {
                return Err(Error::new(ErrorKind::Launch, format!("the key {key} was put twice")));
            }
        };
        Ok(())
    }

    fn fence(&mut self, _deadline: Duration) -> Result<()> {
        Ok(())
    }

    fn start_fence(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn test_fence(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        let missing = || Error::new(ErrorKind::Launch, format!("no rank put the key {key}"));
        self.values.get(key).cloned().ok_or_else(missing)
    }

    fn nodes(&self) -> Option<Vec<u32>> {
        Some(vec![0])
    }

    fn gone(&mut self) -> Option<Gone> {
        None
    }

    fn abort(&mut self, _code: i32, message: &str) {
        if !message.is_empty() {
            eprintln!("circulant: {message}");
        }
    }

    fn finalize(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_it_is_given() {
        let mut one = Single::new();
        one.put("a", b"1").unwrap();
        one.fence(Duration::ZERO).unwrap();
        assert_eq!(one.get("a").unwrap(), b"1");
        assert!(one.put("a", b"2").is_err() && one.get("b").is_err() && one.put("A", b"").is_err());
        assert_eq!(one.get("a").unwrap(), b"1", "what was refused has no effect");
    }
}
