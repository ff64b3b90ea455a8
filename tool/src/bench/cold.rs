//! Cold buffers: before a repetition each rank reads memory of its own that is larger than the caches, so that
//! what the operation touches has to come from memory. `ci/racetrack/rival.c` does the same.

use std::hint::black_box;
use std::path::Path;

/// Where Linux describes the caches of the first core.
const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";
/// The largest where it does not.
const UNKNOWN: u64 = 64 << 20;
/// More than the caches that a core has to itself.
const LEAST: u64 = 8 << 20;
/// Words in a cache line.
const LINE: usize = 8;

/// Memory to read.
#[derive(Debug)]
pub(crate) struct Cold {
    words: Vec<u64>,
}

impl Cold {
    /// So many bytes; of 0 what is twice the largest cache together with the other `ranks` of a node.
    pub(crate) fn new(bytes: u64, ranks: u64) -> Self {
        let share = || 2 * largest(Path::new(CACHES)).unwrap_or(UNKNOWN) / ranks.max(1);
        let bytes = if bytes > 0 { bytes } else { share().max(LEAST) };
        // Of ones: pages of zeros that were never written are all the same one.
        Self { words: vec![1; usize::try_from(bytes / 8).unwrap_or(usize::MAX)] }
    }

    /// How much it is, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        8 * self.words.len() as u64
    }

    /// Reads every line of it.
    pub(crate) fn sweep(&self) {
        black_box(self.words.iter().step_by(LINE).fold(0, |all, word| all ^ word));
    }
}

/// The size of the largest of these caches.
fn largest(caches: &Path) -> Option<u64> {
    let entries = std::fs::read_dir(caches).ok()?.filter_map(Result::ok);
    let sizes = entries.filter_map(|e| std::fs::read_to_string(e.path().join("size")).ok());
    sizes.filter_map(|text| kibibytes(&text)).max()
}

/// A size as Linux writes it, such as `32768K`.
fn kibibytes(text: &str) -> Option<u64> {
    text.trim().strip_suffix('K')?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_cache_is_swept_twice_over() {
        let dir = tempfile::tempdir().unwrap();
        for (name, size) in [("index0", "32K\n"), ("index3", "32768K\n"), ("index9", "much\n")] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            std::fs::write(dir.path().join(name).join("size"), size).unwrap();
        }
        assert_eq!(largest(dir.path()), Some(32 << 20));
        assert_eq!(largest(&dir.path().join("nowhere")), None);
        let cold = Cold::new(1 << 20, 1);
        assert_eq!(cold.bytes(), 1 << 20);
        assert!(Cold::new(0, 1 << 40).bytes() == LEAST);
        cold.sweep();
    }
}
