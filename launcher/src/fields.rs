//! The fields of messages: numbers, bytes and lists of them, as they travel.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Writes the fields of a message.
#[derive(Debug, Default)]
pub(super) struct Fields(pub(super) Vec<u8>);

impl Fields {
    pub(super) fn number(mut self, n: usize) -> Self {
        self.0.extend_from_slice(&(n as u64).to_le_bytes());
        self
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        let mut more = self.number(bytes.len());
        more.0.extend_from_slice(bytes);
        more
    }

    pub(super) fn os(self, text: &OsStr) -> Self {
        self.bytes(text.as_bytes())
    }

    /// A list: its length, and each item by `write`.
    pub(super) fn list<T>(self, items: &[T], write: impl Fn(Self, &T) -> Self) -> Self {
        let begun = self.number(items.len());
        items.iter().fold(begun, write)
    }

    pub(super) fn signed(self, n: i32) -> Self {
        self.bytes(n.to_string().as_bytes())
    }

    pub(super) fn pairs(self, pairs: &[Pair]) -> Self {
        self.list(pairs, |f, (key, value)| f.bytes(key).bytes(value))
    }
}

/// Reads the fields of a message. Whatever is missing or makes no sense is `None`.
#[derive(Debug)]
pub(super) struct Read<'a>(pub(super) &'a [u8]);

impl<'a> Read<'a> {
    pub(super) fn number(&mut self) -> Option<usize> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        usize::try_from(u64::from_le_bytes(*head)).ok()
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    pub(super) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    pub(super) fn os(&mut self) -> Option<OsString> {
        Some(OsString::from_vec(self.bytes()?.to_vec()))
    }

    pub(super) fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        // An item takes at least a byte, so a number that is too great ends with the bytes.
        let count = self.number().filter(|&n| n <= self.0.len())?;
        (0..count).map(|_| read(self)).collect()
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        Some(self.number()? != 0)
    }

    pub(super) fn signed(&mut self) -> Option<i32> {
        std::str::from_utf8(self.bytes()?).ok()?.parse().ok()
    }

    pub(super) fn pairs(&mut self) -> Option<Vec<Pair>> {
        self.list(|r| Some((r.bytes()?.to_vec(), r.bytes()?.to_vec())))
    }

    pub(super) fn process(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// The whole is read, and nothing is left.
    pub(super) fn end<T>(self, whole: T) -> Option<T> {
        self.0.is_empty().then_some(whole)
    }
}
