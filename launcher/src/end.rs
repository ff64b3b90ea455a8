//! How ranks end, in words and numbers.

use rustix::process::{Pid, WaitId, WaitIdOptions};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Exited with this code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

impl End {
    /// How the process `pid` ended, if it did; it stays to be reaped, so its number stays taken.
    pub(super) fn of(pid: Pid) -> Option<Self> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match rustix::process::waitid(WaitId::Pid(pid), options) {
            Ok(None) | Err(rustix::io::Errno::INTR) => None,
            Ok(Some(status)) => Some(match (status.terminating_signal(), status.exit_status()) {
                (Some(signal), _) => Self::Signal(signal),
                (None, code) => Self::Code(code.unwrap_or(1)),
            }),
            // Another process reaped it: its status is lost.
            Err(_) => Some(Self::Code(1)),
        }
    }

    /// The exit code that stands for it.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Code(code) => code_of(code),
            Self::Signal(signal) => code_of(128 + signal),
        }
    }

    pub(super) fn is_success(self) -> bool {
        self == Self::Code(0)
    }

    /// For a message: "killed by signal 9 (SIGKILL)".
    pub(super) fn words(self) -> String {
        match self {
            Self::Code(code) => format!("exited with code {code}"),
            Self::Signal(signal) => format!("killed by signal {signal} ({})", signal_name(signal)),
        }
    }
}

/// An exit code as the system keeps it: the low 8 bits; a failure stays one.
pub(super) fn code_of(code: i32) -> u8 {
    match u8::try_from(code & 255) {
        Ok(0) | Err(_) if code != 0 => 1,
        Ok(code) => code,
        Err(_) => 1,
    }
}

pub(super) fn signal_name(signal: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    match usize::try_from(signal - 1).ok().and_then(|i| NAMES.get(i)) {
        Some(name) => format!("SIG{name}"),
        None => format!("real-time signal {signal}"),
    }
}

/// Ranks for a message: "ranks 0-2, 5" or "rank 3".
pub(super) fn ranks_text(ranks: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some(run) if run.1 + 1 == rank => run.1 = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let text = |&(a, b): &(usize, usize)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    let list = runs.iter().map(text).collect::<Vec<_>>().join(", ");
    format!("rank{} {list}", if ranks.len() == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_codes() {
        assert_eq!(End::Signal(9).words(), "killed by signal 9 (SIGKILL)");
        assert_eq!((End::Signal(9).code(), End::Code(3).code()), (137, 3));
        assert_eq!([0, 7, 256, -1, 300].map(code_of), [0, 7, 1, 255, 44]);
        assert_eq!(ranks_text(&[3]), "rank 3");
        assert_eq!(ranks_text(&[0, 1, 2, 5, 7, 8]), "ranks 0-2, 5, 7-8");
        assert_eq!((signal_name(31), signal_name(40)), ("SIGSYS".into(), "real-time signal 40".into()));
    }
}
