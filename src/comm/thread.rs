//! Threads of the library's own.

use std::thread::JoinHandle;

/// A thread that is waited for when this is dropped. In a forked child there is no such thread, and nothing to wait for.
#[derive(Debug)]
pub(super) struct OwnThread {
    handle: Option<JoinHandle<()>>,
    process: u32,
}

impl OwnThread {
    pub(super) fn new(handle: JoinHandle<()>) -> Self {
        Self { handle: Some(handle), process: std::process::id() }
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        if self.process == std::process::id() {
            let _ = handle.join();
        } else {
            std::mem::forget(handle);
        }
    }
}
