//! How calls wait: with the interpreter released, and ended by what a signal handler raises (Ctrl-C), or a hook of the program.

use crate::error::raised;
use circulant::Result;
use pyo3::prelude::*;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Between two looks for signals of one thread: short for a person, long beside what taking the interpreter costs.
const PAUSE: Duration = Duration::from_millis(20);

/// Turns of a wait between two looks at the clock. While a hook is set a turn rests 0.1 ms at most.
const TURNS: u32 = 64;

thread_local! {
    static TURN: Cell<u32> = const { Cell::new(0) };
    static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs `call`, which may wait, with the interpreter released.
///
/// # Errors
/// Those of the call; the exception that ended it, if one did: the world is broken then.
pub(crate) fn released<R: Send>(py: Python<'_>, call: impl FnOnce() -> Result<R> + Send) -> PyResult<R> {
    match py.detach(|| catch_unwind(AssertUnwindSafe(call))) {
        Ok(done) => done.map_err(|e| raised(py, &e)),
        Err(panic) => match panic.downcast::<PyErr>() {
            Ok(exception) => Err(*exception),
            Err(panic) => resume_unwind(panic),
        },
    }
}

/// Leaves the call that waits by this exception.
fn leave(exception: PyErr) -> ! {
    // Through the library, which ends the world then, to `released`; no message is printed.
    resume_unwind(Box::new(exception))
}

/// The hook of a world in which signals end calls.
pub(crate) fn look_for_signals() {
    let turn = TURN.replace(TURN.get().wrapping_add(1));
    if !turn.is_multiple_of(TURNS) {
        return;
    }
    let now = Instant::now();
    let recent = LOOKED.get().is_some_and(|looked| now - looked < PAUSE);
    if recent {
        return;
    }
    LOOKED.set(Some(now));
    // Handlers run in Python's main thread: in others this does nothing. Without an interpreter there is none to raise anything.
    if let Some(Err(exception)) = Python::try_attach(|py| py.check_signals()) {
        leave(exception);
    }
}

/// A hook that calls a function of the program, too.
pub(crate) fn calls(function: Py<PyAny>) -> impl Fn() + Send + Sync {
    move || {
        let called = Python::try_attach(|py| {
            py.check_signals()?;
            function.call0(py).map(drop)
        });
        if let Some(Err(exception)) = called {
            leave(exception);
        }
    }
}
