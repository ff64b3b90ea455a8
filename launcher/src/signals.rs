//! Signals to the launcher, as bytes in sockets.

use super::poll::{Interest, Poll};
use rustix::process::Signal;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;

/// Those that end programs (passed on once), those with a meaning of their own (passed on each time).
const ALL: [Signal; 6] = [Signal::CHILD, Signal::INT, Signal::TERM, Signal::HUP, Signal::USR1, Signal::USR2];

/// The signals we listen to; their tokens are 0 to 5.
#[derive(Debug)]
pub(super) struct Signals {
    streams: Vec<Option<UnixStream>>,
    handlers: Vec<signal_hook::SigId>,
}

/// Tokens below this belong to [`Signals`].
pub(super) const TOKENS: u64 = ALL.len() as u64;

impl Signals {
    /// Listens, except to what our parent told us to ignore (`nohup`, background jobs of scripts).
    pub(super) fn listen(poll: &Poll) -> io::Result<Self> {
        let ignored = ignored();
        let mut signals = Self { streams: Vec::new(), handlers: Vec::new() };
        for (token, signal) in (0u64..).zip(ALL) {
            if signal != Signal::CHILD && ignored & (1 << (signal.as_raw() - 1)) != 0 {
                signals.streams.push(None);
                continue;
            }
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            signals.handlers.push(signal_hook::low_level::pipe::register(signal.as_raw(), theirs)?);
            poll.add(&ours, token, Interest::Read)?;
            signals.streams.push(Some(ours));
        }
        Ok(signals)
    }

    /// Which signal a token stands for, and how many times it came since the last look.
    pub(super) fn take(&mut self, token: u64) -> Option<(Signal, usize)> {
        let index = usize::try_from(token).ok()?;
        let stream = self.streams.get_mut(index)?.as_mut()?;
        let mut buffer = [0; 256];
        let count = stream.read(&mut buffer).unwrap_or(0);
        Some((ALL[index], count))
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            signal_hook::low_level::unregister(handler);
        }
    }
}

/// The set of ignored signals, bit s-1 for signal s; empty where it cannot be known.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok()).unwrap_or(0)
}
