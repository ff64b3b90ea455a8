//! What is registered here, by our own number (sources) and by key (targets), and how peers name a source.

use crate::error::{Error, Result, argument};
use crate::transport::{Access, Lent, Registration, Remote, Source, random};
use std::fs::File;
use std::os::fd::AsRawFd;

/// The number of no chunk: the bytes are in memory of the process alone.
pub(super) const PRIVATE: u32 = u32::MAX;
/// The number of the chunk through which such bytes go.
pub(super) const BOUNCE: u32 = 0;
/// Chunks that a peer keeps mapped. What is registered beyond goes as private memory does. Chosen;
/// `more_chunks_than_can_be_mapped_do_no_harm` shows the rest.
pub(super) const MAX_CHUNKS: u32 = if cfg!(test) { 6 } else { 1 << 16 };

#[derive(Debug)]
struct Range {
    start: usize,
    len: usize,
    /// Its key, where peers may put there.
    key: Option<u64>,
    /// The shared file behind it, and the number by which peers know it.
    chunk: Option<(u32, File)>,
}

#[derive(Clone, Copy, Debug)]
struct Key {
    key: u64,
    base: u64,
    start: usize,
    len: usize,
}

/// All ranges.
#[derive(Debug)]
pub(super) struct Registrations {
    ranges: Vec<Option<Range>>,
    free: Vec<u32>,
    /// Sorted by key.
    keys: Vec<Key>,
    /// Where those begin that peers can map, and their index: sorted, as they share no byte.
    shared: Vec<(usize, u32)>,
    /// Never given twice, so that a key for memory that is gone opens no other memory.
    next_key: u64,
    /// How many numbers of chunks were given; none is given again.
    chunks: u32,
}

impl Default for Registrations {
    fn default() -> Self {
        let (ranges, free, keys, shared) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // So far from the end that they never get there.
        Self { ranges, free, keys, shared, next_key: random() >> 1, chunks: 0 }
    }
}

impl Registrations {
    /// Registers `len` bytes at `start`, which peers call by `remote`, or by a key of our own.
    pub(super) fn register(
        &mut self,
        start: *mut u8,
        len: usize,
        access: Access,
        remote: Option<Remote>,
        file: Option<File>,
    ) -> Result<(Registration, Remote)> {
        let start = start.expose_provenance();
        if start.checked_add(len).is_none() {
            return Err(argument(format!("{len} bytes at {start:#x} are no memory")));
        }
        let remote = remote.unwrap_or_else(|| {
            self.next_key += 1;
            Remote { base: start as u64, key: self.next_key }
        });
        let key = (len > 0 && access == Access::Target).then_some(remote.key);
        if key.is_some() {
            match self.keys.binary_search_by_key(&remote.key, |k| k.key) {
                Ok(_) => return Err(argument(format!("key {:#x} is in use", remote.key))),
                Err(i) => self.keys.insert(i, Key { key: remote.key, base: remote.base, start, len }),
            }
        }
        let chunk = file.and_then(|file| Some((self.number()?, file)));
        let is_shared = chunk.is_some();
        let range = Some(Range { start, len, key, chunk });
        let index = match self.free.pop() {
            Some(i) => {
                self.ranges[i as usize] = range;
                i
            }
            None => {
                self.ranges.push(range);
                u32::try_from(self.ranges.len() - 1).unwrap_or(u32::MAX)
            }
        };
        if is_shared {
            let place = self.shared.partition_point(|(at, _)| *at < start);
            self.shared.insert(place, (start, index));
        }
        Ok((Registration(index), remote))
    }

    /// Where peers find these bytes, if they are all in one range that they can map.
    pub(super) fn lend(&self, bytes: &[u8]) -> Option<Lent> {
        let at = bytes.as_ptr().addr();
        let place = self.shared.partition_point(|(start, _)| *start <= at).checked_sub(1)?;
        let range = self.ranges.get(self.shared.get(place)?.1 as usize)?.as_ref()?;
        let (chunk, file) = range.chunk.as_ref()?;
        let offset = at - range.start;
        let inside = offset <= range.len && bytes.len() <= range.len - offset;
        let fd = file.as_raw_fd().cast_unsigned();
        inside.then_some(Lent { chunk: *chunk, fd, at: offset as u64 })
    }

    /// A number for a chunk, which no other has had.
    fn number(&mut self) -> Option<u32> {
        let number = self.chunks + 1;
        (number < MAX_CHUNKS).then(|| {
            self.chunks = number;
            number
        })
    }

    /// Ends one registration: puts to it are refused from now on.
    pub(super) fn deregister(&mut self, registration: Registration) -> Result<()> {
        let Some(range) = self.ranges.get_mut(registration.0 as usize).and_then(Option::take) else {
            return Err(argument(format!("registration {} is not one of this endpoint's", registration.0)));
        };
        if let Some(key) = range.key
            && let Ok(i) = self.keys.binary_search_by_key(&key, |k| k.key)
        {
            self.keys.remove(i);
        }
        self.shared.retain(|(_, index)| *index != registration.0);
        self.free.push(registration.0);
        Ok(())
    }

    /// Ends all.
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.free.clear();
        self.shared.clear();
        self.keys.clear();
    }

    /// How peers find the bytes of `source`: number and descriptor of the chunk, and the offset in it; or [`PRIVATE`].
    ///
    /// # Errors
    /// When it lies in no registration.
    pub(super) fn locate(&self, source: &Source) -> Result<(u32, u32, u64)> {
        let Some(r) = self.ranges.get(source.registration.0 as usize).and_then(Option::as_ref) else {
            return Err(unknown(source));
        };
        let at = source.ptr.addr();
        if at < r.start || source.len > r.len || at - r.start > r.len - source.len {
            return Err(outside(source));
        }
        Ok(match &r.chunk {
            Some((number, file)) => (*number, file.as_raw_fd().cast_unsigned(), (at - r.start) as u64),
            None => (PRIVATE, 0, at as u64),
        })
    }

    /// Where a peer's put of `len` bytes to `address` under `key` goes; `None` when that is not all registered.
    pub(super) fn target(&self, key: u64, address: u64, len: usize) -> Option<*mut u8> {
        let k = &self.keys[self.keys.binary_search_by_key(&key, |k| k.key).ok()?];
        let offset = usize::try_from(address.checked_sub(k.base)?).ok()?;
        (offset <= k.len && len <= k.len - offset)
            .then(|| std::ptr::with_exposed_provenance_mut(k.start + offset))
    }
}

#[cold]
fn unknown(source: &Source) -> Error {
    argument(format!("registration {} of a source is unknown", source.registration.0))
}

#[cold]
fn outside(source: &Source) -> Error {
    argument(format!(
        "a source of {} bytes lies outside its registration {}",
        source.len, source.registration.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_checked_to_the_byte() {
        let mut memory = Registrations::default();
        let mut bytes = [0u8; 100];
        let start = bytes.as_mut_ptr();
        let (a, remote) = memory.register(start, 100, Access::Target, None, None).unwrap();
        let at = |offset: u64, len| memory.target(remote.key, remote.base.wrapping_add(offset), len);
        assert_eq!(at(0, 100), Some(start));
        assert_eq!(at(60, 40), Some(start.wrapping_add(60)));
        assert_eq!(at(100, 0), Some(start.wrapping_add(100)));
        for (offset, len) in [(0, 101), (61, 40), (101, 0), (u64::MAX, 1), (1, usize::MAX)] {
            assert_eq!(at(offset, len), None, "{offset} {len}");
        }
        assert_eq!(memory.target(remote.key + 1, remote.base, 1), None);
        memory.deregister(a).unwrap();
        assert_eq!(memory.target(remote.key, remote.base, 1), None);
        assert!(memory.deregister(a).is_err());
        let (_, again) = memory.register(start, 100, Access::Target, None, None).unwrap();
        assert_ne!(again.key, remote.key, "a key opens one range only, ever");
    }

    #[test]
    fn a_range_can_go_by_another_name() {
        let mut memory = Registrations::default();
        let mut bytes = [0u8; 100];
        let name = Remote { base: 0, key: 0xABCD };
        let (_, remote) = memory.register(bytes.as_mut_ptr(), 100, Access::Target, Some(name), None).unwrap();
        assert_eq!(remote, name);
        assert_eq!(memory.target(0xABCD, 7, 93), Some(bytes.as_mut_ptr().wrapping_add(7)));
        assert!(memory.register(bytes.as_mut_ptr(), 100, Access::Target, Some(name), None).is_err());
        // No bytes, no key.
        memory.register(bytes.as_mut_ptr(), 0, Access::Target, Some(name), None).unwrap();
        // What is only read has none either: a provider's name for it may be that of another.
        let (source, _) = memory.register(bytes.as_mut_ptr(), 100, Access::Source, Some(name), None).unwrap();
        memory.deregister(source).unwrap();
        assert!(memory.target(0xABCD, 7, 93).is_some());
    }

    #[test]
    fn puts_to_what_is_only_read_are_refused() {
        let mut memory = Registrations::default();
        let bytes = [0u8; 100];
        let (source, remote) =
            memory.register(bytes.as_ptr().cast_mut(), 100, Access::Source, None, None).unwrap();
        assert_eq!(memory.target(remote.key, remote.base, 1), None);
        let source = Source { ptr: bytes.as_ptr(), len: 100, registration: source };
        assert!(memory.locate(&source).is_ok());
    }
}
