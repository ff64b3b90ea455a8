//! What a rank says of a file. No module of the tool is needed: the fuzz target takes this file as it is.

/// One file of some rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) size: u64,
    pub(crate) mode: u32,
}

impl Entry {
    /// Appends it, as it travels.
    pub(crate) fn pack(&self, out: &mut Vec<u8>) {
        out.extend(self.size.to_le_bytes());
        out.extend(self.mode.to_le_bytes());
        out.extend(u32::try_from(self.name.len()).unwrap_or(0).to_le_bytes());
        out.extend(&self.name);
    }

    /// The entries in `bytes`, which come from elsewhere; `None` when they make no sense.
    pub(crate) fn unpack(mut bytes: &[u8]) -> Option<Vec<Self>> {
        let mut entries = Vec::new();
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at_checked(16)?;
            let size = u64::from_le_bytes(head[..8].try_into().ok()?);
            let mode = u32::from_le_bytes(head[8..12].try_into().ok()?);
            let len = u32::from_le_bytes(head[12..].try_into().ok()?);
            let (name, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            if !is_leaf(name) || size >= 1 << 48 {
                return None;
            }
            entries.push(Self { name: name.to_vec(), size, mode });
            bytes = rest;
        }
        Some(entries)
    }
}

/// Whether bytes from elsewhere can be the name of a file in a folder of ours.
pub(crate) fn is_leaf(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
}
