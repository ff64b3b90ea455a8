//! A last resort for providers that can hang in a call, where no deadline of ours is looked at: libfabric's shared memory keeps spin
//! locks in memory that ranks share, and a rank that dies or stops while it holds one stops its neighbours; psm3 waits in a put or a
//! message until the peer's queue has room. A thread notices that, says which rank is gone, and ends the process.

use super::liveness::process_state;
use super::thread::OwnThread;
use crate::engine::{Heartbeat, Liveness, ProcessState};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How often it looks. It counts looks, not time: a process that was stopped itself must not be taken for stuck.
/// Chosen: four wake-ups a second.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// A process in one call for this many looks, while a rank is known to be gone or the world ends, is stuck: after 2 s. Chosen: longer
/// than a call of a provider takes on a busy machine; `a_process_that_is_stuck_says_who_is_gone_and_ends` shows it.
const MIN_STUCK_LOOKS: u32 = 8;

/// What the watchdog says of its own process.
#[derive(Debug)]
pub(super) struct Watchdog {
    pub(super) beat: Arc<Heartbeat>,
    pub(super) liveness: Box<dyn Liveness>,
    /// (rank, process) of the neighbours on this host.
    pub(super) same_host: Vec<(u32, u32)>,
    pub(super) rank: usize,
    pub(super) provider: String,
    pub(super) deadline: Duration,
}

/// How often a process was seen in one and the same call, and whether a rank is gone meanwhile.
#[derive(Debug, Default)]
struct Looks {
    last: Option<u64>,
    same: u32,
    gone: Option<(u32, String)>,
}

impl Looks {
    /// One look at the call that the engine is in, if it is in one. Says whether the process is stuck, which it also is after
    /// `max_looks` looks with all ranks there.
    fn stuck(&mut self, beat: &Heartbeat, max_looks: u32, liveness: &mut dyn Liveness) -> bool {
        let inside = beat.inside();
        self.same = if inside.is_some() && inside == self.last { self.same.saturating_add(1) } else { 0 };
        self.last = inside;
        if self.same < MIN_STUCK_LOOKS {
            return false;
        }
        self.gone = self.gone.take().or_else(|| liveness.gone());
        self.gone.is_some() || beat.error().is_some() || self.same >= max_looks
    }
}

/// After how many looks a call is stuck whatever it waits for. Where calls have no deadline, never (34 years).
fn max_looks(deadline: Duration) -> u32 {
    let looks = deadline.as_millis() / LOOK_INTERVAL.as_millis();
    u32::try_from(looks).unwrap_or(u32::MAX).max(MIN_STUCK_LOOKS)
}

/// The thread, which ends with this: when the sender is gone.
#[derive(Debug)]
pub(super) struct Watching {
    _running: Option<(Sender<()>, OwnThread)>,
}

impl Watchdog {
    /// Starts the thread.
    pub(super) fn start(self) -> Watching {
        let (alive, ended) = channel();
        let builder = std::thread::Builder::new().name("circulant-watchdog".to_owned());
        match builder.spawn(move || self.watch(&ended)) {
            Ok(thread) => Watching { _running: Some((alive, OwnThread::new(thread))) },
            Err(e) => {
                tracing::warn!("no watchdog: {e}");
                Watching { _running: None }
            }
        }
    }

    fn watch(mut self, ended: &Receiver<()>) {
        let max_looks = max_looks(self.deadline);
        let mut looks = Looks::default();
        while ended.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            if looks.stuck(&self.beat, max_looks, self.liveness.as_mut()) {
                self.end(looks.gone.as_ref());
            }
        }
    }

    /// A neighbour whose process is stopped.
    fn stopped(&self) -> Option<u32> {
        let still = |(_, pid): &&(u32, u32)| process_state(*pid) == Some(ProcessState::Stopped);
        self.same_host.iter().find(still).map(|(rank, _)| *rank)
    }

    fn end(&self, gone: Option<&(u32, String)>) -> ! {
        // A stopped rank first: one that is gone may only have been ended by its own watchdog because of that.
        let cause = match (self.stopped(), gone, self.beat.error()) {
            (Some(rank), ..) => format!("rank {}: rank {rank} is stopped", self.rank),
            (None, _, Some(error)) => error.to_owned(),
            (None, Some((rank, how)), None) => format!("rank {}: rank {rank} is gone ({how})", self.rank),
            (None, None, None) => format!("rank {}: a peer died or stopped", self.rank),
        };
        let call = match self.beat.peer() {
            Some(peer) => format!("a put or message to rank {peer}"),
            None => "a call".to_owned(),
        };
        eprintln!(
            "circulant: {cause}; provider {} does not come back from {call}: ending this process (CIRCULANT_PROVIDER=tcp waits in no call)",
            self.provider
        );
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, FOR_EVER};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    const INSIDE: &str = "WATCHDOG_TEST_INSIDE";

    #[derive(Debug)]
    struct Rank3;

    impl Liveness for Rank3 {
        fn gone(&mut self) -> Option<(u32, String)> {
            Some((3, "killed by signal 9".to_owned()))
        }
    }

    fn watch(beat: &Arc<Heartbeat>) -> Watching {
        let (beat, liveness) = (Arc::clone(beat), Box::new(Rank3));
        let deadline = Duration::from_secs(30);
        Watchdog { beat, liveness, same_host: Vec::new(), rank: 1, provider: "fi_shm".to_owned(), deadline }
            .start()
    }

    /// In a process of its own, since it ends it.
    #[test]
    fn a_process_that_is_stuck_says_who_is_gone_and_ends() {
        if std::env::var_os(INSIDE).is_some() {
            let beat = Arc::default();
            let _watching = watch(&beat);
            let _inside = Heartbeat::enter(&beat);
            std::thread::sleep(Duration::from_secs(20));
            return;
        }
        let me = std::env::current_exe().unwrap();
        let test = "comm::watchdog::tests::a_process_that_is_stuck_says_who_is_gone_and_ends";
        let out = Command::new(me).args(["--exact", "--nocapture", test]).env(INSIDE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.signal(), Some(6), "{said}");
        assert!(said.contains("rank 1: rank 3 is gone (killed by signal 9); provider fi_shm"), "{said}");
    }

    /// A deadline of none is no short one.
    #[test]
    fn without_a_deadline_a_call_may_take_for_ever() {
        let none = Config::defaults().deadline.unwrap_or(FOR_EVER);
        assert!(max_looks(none) == u32::MAX && max_looks(Duration::MAX) == u32::MAX);
        assert_eq!(max_looks(Duration::from_secs(20)), 80);
        assert_eq!(max_looks(Duration::from_millis(1)), MIN_STUCK_LOOKS);
    }

    /// After how many looks a process is stuck that begins a new call every `each` looks.
    fn stuck_after(each: usize, max_looks: u32, liveness: &mut dyn Liveness) -> Option<usize> {
        let (beat, mut looks): (Arc<Heartbeat>, _) = (Arc::default(), Looks::default());
        let mut inside = None;
        (0..1000).find(|look| {
            if look % each == 0 {
                drop(inside.take());
                inside = Some(Heartbeat::enter(&beat));
            }
            looks.stuck(&beat, max_looks, liveness)
        })
    }

    #[test]
    fn only_one_call_that_does_not_end_is_stuck() {
        #[derive(Debug)]
        struct AllThere;
        impl Liveness for AllThere {
            fn gone(&mut self) -> Option<(u32, String)> {
                None
            }
        }
        let looks = MIN_STUCK_LOOKS as usize;
        assert_eq!(stuck_after(1, u32::MAX, &mut Rank3), None, "calls come and go");
        assert_eq!(stuck_after(looks, u32::MAX, &mut Rank3), None, "the last look is of the next call");
        assert_eq!(stuck_after(1000, u32::MAX, &mut Rank3), Some(looks));
        assert_eq!(stuck_after(1000, u32::MAX, &mut AllThere), None, "a long call");
        assert_eq!(stuck_after(1000, 100, &mut AllThere), Some(100), "longer than any deadline");
        let (mut looks, mut none, beat) = (Looks::default(), Rank3, Heartbeat::default());
        assert!((0..1000).all(|_| !looks.stuck(&beat, 100, &mut none)), "in no call");
    }
}
