//! What the kernel counts at a port of packets that are sent again.

use std::path::{Path, PathBuf};

/// Requests that were answered by "receiver not ready", as soft-RoCE and mlx5 call them.
const NOT_READY: [&str; 2] = ["rcvd_rnr_err", "rnr_nak_retry_err"];
/// Requests that were not acknowledged in time, likewise.
const TIMED_OUT: [&str; 2] = ["completer_retry_err", "local_ack_timeout_err"];

/// The counters of a port, from when its endpoint was opened. Other processes that use the port count, too.
#[derive(Debug)]
pub(super) struct AskedAgain {
    folder: PathBuf,
    before: (u64, u64),
}

impl AskedAgain {
    pub(super) fn of(device: &str, port: u8) -> Self {
        Self::at(PathBuf::from(format!("/sys/class/infiniband/{device}/ports/{port}/hw_counters")))
    }

    fn at(folder: PathBuf) -> Self {
        let before = read(&folder);
        Self { folder, before }
    }

    /// Receivers not ready, and time-outs, since then.
    pub(super) fn since(&self) -> (u64, u64) {
        let now = read(&self.folder);
        (now.0.saturating_sub(self.before.0), now.1.saturating_sub(self.before.1))
    }
}

fn read(folder: &Path) -> (u64, u64) {
    let number = |name: &&str| -> u64 {
        let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    (NOT_READY.iter().map(number).sum(), TIMED_OUT.iter().map(number).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_before_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, n: u64| std::fs::write(dir.path().join(name), format!("{n}\n")).unwrap();
        write("rcvd_rnr_err", 5);
        let counters = AskedAgain::at(dir.path().to_owned());
        assert_eq!(counters.since(), (0, 0));
        write("rcvd_rnr_err", 7);
        write("local_ack_timeout_err", 3);
        assert_eq!(counters.since(), (2, 3));
        // A device that was taken away and is there again counts from 0.
        write("rcvd_rnr_err", 1);
        assert_eq!(counters.since(), (0, 3));
    }
}
