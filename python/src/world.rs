//! The world of this process.

use crate::comm::Comm;
use crate::error::raised;
use crate::launch::Exchange;
use crate::wait::{calls, look_for_signals, released};
use circulant::{Error, ErrorKind};
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// All ranks of the job, connected; `None` once it was left.
#[pyclass(frozen, module = "circulant._circulant")]
pub(crate) struct World(Mutex<Option<circulant::World>>);

impl World {
    /// Takes it out. Called without the interpreter, as another thread may be in here and want it.
    fn take(&self) -> Option<circulant::World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn with<R: Send>(&self, py: Python<'_>, look: impl FnOnce(&circulant::World) -> R + Send) -> PyResult<R> {
        let found = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(look));
        found.ok_or_else(|| raised(py, &Error::new(ErrorKind::Argument, "the world has been left")))
    }
}

#[pymethods]
impl World {
    /// Connects; `settings` by their names and texts. With rank, size and an allgather of bytes the launcher is the program itself.
    #[new]
    #[pyo3(signature = (settings, exchange=None, signals=true))]
    fn new(
        py: Python<'_>,
        settings: Vec<(String, String)>,
        exchange: Option<(usize, usize, Py<PyAny>)>,
        signals: bool,
    ) -> PyResult<Self> {
        let world = released(py, || {
            let named = circulant::World::builder();
            let named = settings.iter().fold(named, |builder, (name, text)| builder.set(name, text));
            match exchange {
                Some((rank, size, allgather)) => named.launch(Box::new(Exchange::new(rank, size, allgather))),
                None => named,
            }
            .init()
        })?;
        if signals {
            world.while_waiting(look_for_signals);
        }
        Ok(Self(Mutex::new(Some(world))))
    }

    /// Calls `function` while calls wait; signals end them, too.
    fn while_waiting(&self, py: Python<'_>, function: Py<PyAny>) -> PyResult<()> {
        self.with(py, |world| world.while_waiting(calls(function)))
    }

    /// The communicator of all ranks.
    fn comm(&self, py: Python<'_>) -> PyResult<Comm> {
        self.with(py, |world| Comm(world.comm()))
    }

    /// The wire in use.
    #[getter]
    fn provider(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |world| world.provider().to_owned())
    }

    /// How the ranks were started.
    #[getter]
    fn launcher(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |world| world.launcher().to_owned())
    }

    /// The node of each rank.
    #[getter]
    fn nodes(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.with(py, |world| world.nodes().to_vec())
    }

    /// Counters of what this process has done, by name.
    fn stats(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, u64)>> {
        let s = self.with(py, circulant::World::stats)?;
        Ok(vec![
            ("buffers", s.buffers),
            ("puts", s.puts),
            ("put_bytes", s.put_bytes),
            ("bytes_between_groups", s.bytes_between_groups),
            ("arrivals", s.arrivals),
            ("messages", s.messages),
            ("copied_bytes", s.copied_bytes),
            ("reduced_bytes", s.reduced_bytes),
            ("rounds", s.rounds),
            ("operations", s.operations),
        ])
    }

    /// Waits for all ranks, and closes. Of a world that has been left it does nothing.
    fn finalize(&self, py: Python<'_>) -> PyResult<()> {
        released(py, || self.take().map_or(Ok(()), circulant::World::finalize))
    }

    /// Leaves at once: the other ranks get an error.
    fn leave(&self, py: Python<'_>) {
        py.detach(|| drop(self.take()));
    }

    /// Asks the launcher to end the whole job.
    fn abort(&self, py: Python<'_>, code: i32, message: &str) {
        py.detach(|| self.take().map(|world| world.abort(code, message)));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let world = self.take();
        // Its drop may wait for the engine's lock, which a thread may have that waits for the interpreter.
        let _ = Python::try_attach(|py| py.detach(move || drop(world)));
    }
}
