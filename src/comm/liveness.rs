//! Which ranks are gone: what the launcher says, and the processes of neighbours on our own host.

use super::launcher::{SharedLaunch, lock};
use crate::engine::{Liveness, ProcessState};
use crate::error::Error;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::sync::{Arc, Mutex};

/// Watches what the launcher says and the neighbours' processes. Asking allocates nothing, unless a rank is gone. A clone knows what the
/// other one learns.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    launch: SharedLaunch,
    processes: Arc<Processes>,
    /// (rank, process) of the neighbours on our host.
    same_host: Arc<[(u32, u32)]>,
    /// What the launcher said last: it says each end once, and the engine, which hears it, may not come back from a call.
    told: Arc<Mutex<Option<(u32, String)>>>,
}

/// Processes of this host.
#[derive(Debug, Default)]
struct Processes {
    /// Readable when one of them has ended; the event says which rank.
    ended: Option<OwnedFd>,
    _all: Vec<OwnedFd>,
}

/// What the system says of a process of this host.
pub(super) fn process_state(pid: u32) -> Option<ProcessState> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The state follows the name, which is in parentheses and may hold anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    Some(if rest.starts_with(['T', 't']) { ProcessState::Stopped } else { ProcessState::Lives })
}

impl Watch {
    /// Watches the `(rank, process)` pairs, as far as the kernel lets us: one that cannot be watched still
    /// shows by its silence.
    pub(super) fn new(launch: SharedLaunch, same_host: &[(u32, u32)]) -> Self {
        let processes = Arc::new(Processes::of(same_host).unwrap_or_default());
        Self { launch, processes, same_host: same_host.into(), told: Arc::default() }
    }
}

impl Processes {
    fn of(same_host: &[(u32, u32)]) -> Option<Self> {
        let others = same_host.iter().filter(|(_, pid)| *pid != std::process::id());
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
        let mut all = Vec::new();
        for (rank, pid) in others {
            let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw) else { continue };
            let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            let data = epoll::EventData::new_u64(u64::from(*rank));
            if epoll::add(&poll, &fd, data, epoll::EventFlags::IN).is_ok() {
                all.push(fd);
            }
        }
        Some(Self { ended: Some(poll), _all: all })
    }
}

impl Liveness for Watch {
    fn gone(&mut self) -> Option<(u32, String)> {
        if let Some(gone) = lock(&self.launch).gone() {
            let gone = (u32::try_from(gone.rank).ok()?, gone.how);
            *lock(&self.told) = Some(gone.clone());
            return Some(gone);
        }
        if let Some(told) = &*lock(&self.told) {
            return Some(told.clone());
        }
        let none = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [none; 1];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let n = epoll::wait(self.processes.ended.as_ref()?, &mut events[..], Some(&now)).unwrap_or(0);
        let rank = events.get(..n)?.first()?.data.u64();
        Some((u32::try_from(rank).ok()?, "ended".to_owned()))
    }

    fn is_told_to_all(&self) -> bool {
        lock(&self.told).is_some()
    }

    fn state(&mut self, rank: u32) -> Option<ProcessState> {
        let (_, pid) = self.same_host.iter().find(|(known, _)| *known == rank)?;
        process_state(*pid)
    }

    fn report(&mut self, error: &Error) {
        // In finalize a fence holds it.
        if let Ok(mut launch) = self.launch.try_lock() {
            launch.report(error);
        }
    }
}
