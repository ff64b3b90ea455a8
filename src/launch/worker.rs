//! A thread for a launcher's library: its calls may wait for ever, ours have deadlines.

use crate::error::{Error, ErrorKind, Result};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

type Request<L> = Box<dyn FnOnce(&mut L) + Send>;

/// The thread that has the library `L`. It ends with this; one that hangs in a call is left alone.
pub(super) struct Worker<L> {
    requests: Sender<Request<L>>,
    /// Whose library it is, as errors say.
    pub(super) name: String,
    /// Our rank, once it is known.
    pub(super) rank: usize,
    timeout: Duration,
    /// Why no further call can be made.
    broken: Option<String>,
}

impl<L> std::fmt::Debug for Worker<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("broken", &self.broken).finish_non_exhaustive()
    }
}

impl<L: 'static> Worker<L> {
    /// Opens the library in a thread of its own, within `timeout`, which [`Worker::call`] has, too.
    ///
    /// # Errors
    /// What `open` says, or that it takes too long.
    pub(super) fn start<E: Send + 'static>(
        name: &str,
        open: impl FnOnce() -> Result<L, E> + Send + 'static,
        timeout: Duration,
        late: impl FnOnce() -> E,
    ) -> Result<Self, E> {
        let (requests, todo) = channel::<Request<L>>();
        let (told, opened) = channel();
        let work = move || {
            let mut library = match open() {
                Ok(library) => library,
                Err(e) => return drop(told.send(Err(e))),
            };
            // The caller has left after its timeout.
            if told.send(Ok(())).is_ok() {
                todo.into_iter().for_each(|request| request(&mut library));
            }
        };
        // One that cannot be started drops `told`, as if it were late.
        let _ = std::thread::Builder::new().name("launcher".to_owned()).spawn(work);
        match opened.recv_timeout(timeout) {
            Ok(Ok(())) => Ok(Self { requests, name: name.to_owned(), rank: 0, timeout, broken: None }),
            Ok(Err(e)) => Err(e),
            Err(_) => Err(late()),
        }
    }

    /// [`Worker::within`] the timeout that it was started with.
    ///
    /// # Errors
    /// As there.
    pub(super) fn call<T: Send + 'static>(
        &mut self,
        what: &str,
        call: impl FnOnce(&mut L) -> T + Send + 'static,
    ) -> Result<T> {
        self.within(self.timeout, what, call)
    }

    /// Makes a call. After one that was too late none can be made, as it may still be under way.
    ///
    /// # Errors
    /// When it does not come back within `deadline`, or an earlier one did not.
    pub(super) fn within<T: Send + 'static>(
        &mut self,
        deadline: Duration,
        what: &str,
        call: impl FnOnce(&mut L) -> T + Send + 'static,
    ) -> Result<T> {
        self.usable()?;
        let (told, answer) = channel();
        let request: Request<L> = Box::new(move |library| drop(told.send(call(library))));
        let _ = self.requests.send(request);
        answer.recv_timeout(deadline).map_err(|e| {
            let (kind, why) = match e {
                RecvTimeoutError::Timeout => {
                    (ErrorKind::Timeout, format!("the launcher did not answer {what} in time"))
                }
                RecvTimeoutError::Disconnected => {
                    (ErrorKind::Launch, format!("the launcher's library ended in {what}"))
                }
            };
            let e = self.error(kind, &why);
            self.broken = Some(why);
            e
        })
    }

    /// Whether calls can be made.
    ///
    /// # Errors
    /// When one was too late, or [`Worker::close`] said why there is none.
    pub(super) fn usable(&self) -> Result<()> {
        self.broken.as_ref().map_or(Ok(()), |why| Err(self.error(ErrorKind::Launch, why)))
    }

    /// An error of this launcher's at our rank.
    pub(super) fn error(&self, kind: ErrorKind, message: &str) -> Error {
        Error::new(kind, format!("{}: {message}", self.name)).at_rank(self.rank)
    }

    /// What the library answered, as an error of ours where it refused.
    pub(super) fn checked<T>(&self, answer: Result<T, String>) -> Result<T> {
        answer.map_err(|why| self.error(ErrorKind::Launch, &why))
    }

    /// The value under `key`, which `call` gets; its inner error says that it is none of ours, its outer one that there
    /// is none.
    ///
    /// # Errors
    /// As [`Worker::within`], and those of `call`.
    pub(super) fn value(
        &mut self,
        what: &str,
        key: &str,
        call: impl FnOnce(&mut L) -> Result<Result<Vec<u8>, String>, String> + Send + 'static,
    ) -> Result<Vec<u8>> {
        let found = match self.call(&format!("{what} of {key}"), call)? {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(why)) => Err(format!("the value under the key {key} {why}")),
            Err(why) => Err(format!("nothing under the key {key}: {why}")),
        };
        self.checked(found)
    }

    /// Ends the job by `call`, whose answer may be our end.
    pub(super) fn abort(&mut self, call: fn(&mut L, i32, &str), code: i32, message: &str) {
        if !message.is_empty() {
            eprintln!("circulant: rank {} aborts the job: {message}", self.rank);
        }
        let text = message.to_owned();
        let _ = self.within(Duration::from_secs(5), "the end of the job", move |l| call(l, code, &text));
        self.close("the job was aborted");
    }

    /// No further call: `why`.
    pub(super) fn close(&mut self, why: &str) {
        self.broken.get_or_insert_with(|| why.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn calls_have_deadlines() {
        let mut worker = Worker::start("x", || Ok::<_, String>(1), LONG, String::new).unwrap();
        assert_eq!(worker.within(LONG, "add", |n| *n + 1).unwrap(), 2);
        let (hold, held) = channel::<()>();
        let late = worker.within(Duration::from_millis(20), "wait", move |_| held.recv().is_err());
        assert_eq!(late.unwrap_err().kind(), ErrorKind::Timeout);
        drop(hold);
        let e = worker.within(LONG, "add", |n| *n + 1).unwrap_err();
        assert!(e.to_string().contains("did not answer wait in time"), "{e}");
    }

    #[test]
    fn a_library_that_does_not_open_is_an_error() {
        let refused = Worker::<()>::start("x", || Err("no"), LONG, || "late");
        assert_eq!(refused.err(), Some("no"));
        let (hold, held) = channel::<()>();
        let late = Worker::start("x", move || Ok(held.recv().is_err()), Duration::from_millis(20), || "late");
        assert_eq!(late.err(), Some("late"));
        drop(hold);
    }
}
