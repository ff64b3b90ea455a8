//! Who is gone: what the launcher says, and the processes of neighbours on our own host.

use super::world::{SharedLaunch, lock};
use crate::engine::Liveness;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Watches the launcher's word and the neighbours' processes.
#[derive(Debug)]
pub(super) struct Watch {
    launch: SharedLaunch,
    ranks: Vec<u32>,
    processes: Vec<OwnedFd>,
}

impl Watch {
    /// Watches the `(rank, process)` pairs, as far as the kernel lets us.
    pub(super) fn new(launch: SharedLaunch, same_host: Vec<(u32, u32)>) -> Self {
        let mut watch = Self { launch, ranks: Vec::new(), processes: Vec::new() };
        for (rank, pid) in same_host {
            let pid =
                i32::try_from(pid).ok().filter(|p| *p as u32 != std::process::id()).and_then(Pid::from_raw);
            // A process that is gone already shows by its silence.
            if let Some(Ok(fd)) = pid.map(|p| pidfd_open(p, PidfdFlags::empty())) {
                watch.ranks.push(rank);
                watch.processes.push(fd);
            }
        }
        watch
    }
}

impl Liveness for Watch {
    fn gone(&mut self) -> Option<(u32, String)> {
        if let Some(gone) = lock(&self.launch).gone() {
            return Some((u32::try_from(gone.rank).ok()?, gone.how));
        }
        let mut fds: Vec<PollFd<'_>> =
            self.processes.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if fds.is_empty() || poll(&mut fds, Some(&now)).unwrap_or(0) == 0 {
            return None;
        }
        let ended = fds.iter().position(|fd| !fd.revents().is_empty())?;
        Some((self.ranks[ended], "ended".to_owned()))
    }
}
