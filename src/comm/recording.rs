//! Flight records as files, and the signal that asks for them.
//!
//! The signal's handler writes one byte to a socket and nothing else. A thread that sleeps on that socket marks that a record is
//! wanted: a call that waits writes it at its next look, and where no call has the engine the thread does.

use super::lock::Lock;
use super::thread::OwnThread;
use crate::engine::Keeper;
use crate::error::{Error, ErrorKind, Result};
use crate::record::{EXTENSION, Record};
use rustix::net::{Shutdown, shutdown};
use signal_hook::SigId;
use signal_hook::consts::SIGUSR1;
use signal_hook::low_level::{pipe, unregister};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tracing::level_filters::LevelFilter;

/// How often the thread tries to take the engine while a call has it: such a call looks every 10 ms whether a record is wanted.
const TRY_INTERVAL: Duration = Duration::from_millis(20);
/// How often it tries: for 10 s. A call that computes for longer (an operator, a copy) writes when it waits again.
const TRIES: u32 = 500;

/// Listens for the signal until this is dropped.
#[derive(Debug)]
pub(super) struct Recording {
    handler: SigId,
    /// Our end of the socket: when it is shut the thread ends.
    stream: UnixStream,
    _thread: OwnThread,
}

impl Recording {
    /// Has the records of this world written to `folder`, which is made if need be.
    ///
    /// # Errors
    /// When there can be no such folder, no socket, or no thread.
    pub(super) fn start(folder: &str, lock: &Arc<Lock>) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(|e| {
            let what = format!("CIRCULANT_RECORD: {folder}: {e}");
            Error::new(ErrorKind::Config, what).help("name a folder that this process may write to")
        })?;
        let refused = |e: io::Error| {
            Error::new(ErrorKind::System, format!("flight records cannot be asked for by a signal: {e}"))
        };
        let (stream, theirs) = UnixStream::pair().map_err(refused)?;
        let asked = Arc::new(AtomicBool::new(false));
        let files = Files { folder: folder.into(), asked: Arc::clone(&asked) };
        lock.hold()?.engine.keep_records(Box::new(files));
        let (lock, mut signals) = (Arc::downgrade(lock), stream.try_clone().map_err(refused)?);
        let thread = std::thread::Builder::new().name("circulant-record".to_owned());
        let thread = thread.spawn(move || listen(&mut signals, &asked, &lock)).map_err(refused)?;
        let thread = OwnThread::new(thread);
        let handler = pipe::register(SIGUSR1, theirs);
        if handler.is_err() {
            // Else the thread would be waited for in vain.
            let _ = shutdown(&stream, Shutdown::Both);
        }
        Ok(Self { handler: handler.map_err(refused)?, stream, _thread: thread })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        unregister(self.handler);
        // The thread, which goes next, ends by this.
        let _ = shutdown(&self.stream, Shutdown::Both);
    }
}

/// What the thread does.
fn listen(signals: &mut UnixStream, asked: &AtomicBool, lock: &Weak<Lock>) {
    let mut bytes = [0; 64];
    loop {
        match signals.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        }
        asked.store(true, Ordering::Release);
        for _ in 0..TRIES {
            if !asked.load(Ordering::Acquire) {
                break;
            }
            let Some(lock) = lock.upgrade() else { return };
            if let Some(mut held) = lock.try_hold() {
                held.engine.record_if_asked(None);
            }
            drop(lock);
            std::thread::sleep(TRY_INTERVAL);
        }
    }
}

/// A folder of records.
#[derive(Debug)]
struct Files {
    folder: PathBuf,
    asked: Arc<AtomicBool>,
}

impl Keeper for Files {
    fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed) && self.asked.swap(false, Ordering::AcqRel)
    }

    fn keep(&mut self, record: Record) {
        let record = located(record);
        let path = self.folder.join(format!("rank-{}.{EXTENSION}", record.rank));
        // A reader finds the one before meanwhile, whole.
        let fresh = path.with_extension(format!("{EXTENSION}.new"));
        let written =
            std::fs::write(&fresh, record.to_string()).and_then(|()| std::fs::rename(&fresh, &path));
        if let Err(e) = written {
            let line = format!("rank {}: no flight record in {}: {e}", record.rank, path.display());
            crate::trace::warn(&line, LevelFilter::WARN);
        }
    }
}

/// The record with the node that it was made on.
pub(super) fn located(mut record: Record) -> Record {
    const NAME: &str = "/proc/sys/kernel/hostname";
    let name = std::fs::read_to_string(NAME).unwrap_or_default();
    // Nodes of one name are told apart by what shared memory tells them apart by.
    record.host = format!("{} {:016x}", name.trim(), crate::transport::shm::host());
    record
}
