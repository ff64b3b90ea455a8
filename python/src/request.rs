//! Calls under way, and persistent operations.

use crate::call::{Call, Runs};
use crate::wait::released;
use circulant::comm::{UnscopedPersistent, UnscopedRequest};
use circulant::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

enum Flight {
    Once(UnscopedRequest),
    Often(UnscopedPersistent),
}

/// A call with the memory that it holds. The fields are dropped in this order: the memory goes back after the call has ended.
struct Held {
    flight: Flight,
    _call: Call,
}

/// A call under way, or a persistent operation; `None` once it has ended, or was freed.
#[pyclass(frozen, module = "circulant._circulant")]
pub(crate) struct Request(Mutex<Option<Held>>);

impl Request {
    pub(crate) fn begin(on: &impl Runs, call: Call) -> Result<Self> {
        // SAFETY: the call is kept beside the request, and dropped after it; the rest is the rule that the module states.
        let flight = Flight::Once(unsafe { on.begin(&call)? });
        Ok(Self(Mutex::new(Some(Held { flight, _call: call }))))
    }

    pub(crate) fn prepare(on: &impl Runs, call: Call) -> Result<Self> {
        // SAFETY: as in `begin`.
        let flight = Flight::Often(unsafe { on.prepare(&call)? });
        Ok(Self(Mutex::new(Some(Held { flight, _call: call }))))
    }

    /// Called without the interpreter, as another thread may be in here and want it.
    fn held(&self) -> MutexGuard<'_, Option<Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_here(&self) -> Result<()> {
        let mut held = self.held();
        if let Some(Held { flight: Flight::Often(often), .. }) = &mut *held {
            return often.wait();
        }
        match held.take() {
            Some(Held { flight: Flight::Once(once), _call }) => once.wait(),
            _ => Ok(()),
        }
    }

    fn test_here(&self) -> Result<bool> {
        let mut held = self.held();
        match &mut *held {
            None => return Ok(true),
            Some(Held { flight: Flight::Often(often), .. }) => return often.test(),
            Some(Held { flight: Flight::Once(once), .. }) => {
                if !once.test()? {
                    return Ok(false);
                }
            }
        }
        *held = None;
        Ok(true)
    }

    fn start_here(&self) -> Result<()> {
        match &mut *self.held() {
            Some(Held { flight: Flight::Often(often), .. }) => often.start(),
            Some(_) => Err(Error::new(ErrorKind::Argument, "only a persistent operation is started")),
            None => Err(Error::new(ErrorKind::Argument, "the operation was freed")),
        }
    }
}

#[pymethods]
impl Request {
    /// Waits until it has finished here.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        released(py, || self.wait_here())
    }

    /// Whether it has finished here; moves on everything that is under way, once.
    fn test(&self, py: Python<'_>) -> PyResult<bool> {
        released(py, || self.test_here())
    }

    /// Starts a persistent operation.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        released(py, || self.start_here())
    }

    /// Waits for it, and gives its memory back.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        released(py, || {
            drop(self.held().take());
            Ok(())
        })
    }
}

/// Waits until one of them has finished, and says which.
#[pyfunction]
pub(crate) fn wait_any(py: Python<'_>, requests: Vec<Py<Request>>) -> PyResult<usize> {
    loop {
        for (i, request) in requests.iter().enumerate() {
            if released(py, || request.get().test_here())? {
                return Ok(i);
            }
        }
        py.check_signals()?;
        // Ranks may be more than cores.
        py.detach(std::thread::yield_now);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let held = self.held().take();
        // It waits, and may wait for the engine's lock, which a thread may have that waits for the interpreter.
        let _ = Python::try_attach(|py| {
            let dropped = released(py, move || {
                drop(held);
                Ok(())
            });
            if let Err(exception) = dropped {
                exception.write_unraisable(py, None);
            }
        });
    }
}
