//! Communicators.

use crate::buffer::Registered;
use crate::call::{Call, Side};
use crate::error::raised;
use crate::operator::Reducer;
use crate::request::Request;
use circulant::{Communicator, Options};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::time::Duration;

/// A communicator, on bytes.
#[pyclass(frozen, module = "circulant._circulant")]
pub(crate) struct Comm(pub(crate) Communicator);

type Sides<'py> = (Option<Side<'py>>, Option<Side<'py>>);

#[pymethods]
impl Comm {
    #[getter]
    fn rank(&self) -> usize {
        self.0.rank()
    }

    #[getter]
    fn size(&self) -> usize {
        self.0.size()
    }

    /// Runs a call to its end; others may use the interpreter meanwhile.
    #[pyo3(signature = (operation, sides, op=None, root=0))]
    fn run(
        &self,
        py: Python<'_>,
        operation: &str,
        sides: Sides<'_>,
        op: Option<&Bound<'_, Reducer>>,
        root: usize,
    ) -> PyResult<()> {
        let call = Call::new(operation, sides, op.map(|op| op.get().0.clone()), root)?;
        py.detach(|| call.run(&self.0)).map_err(|e| raised(py, &e))
    }

    /// Begins a call, which the request then waits for.
    #[pyo3(signature = (operation, sides, op=None, root=0))]
    fn begin(
        &self,
        py: Python<'_>,
        operation: &str,
        sides: Sides<'_>,
        op: Option<&Bound<'_, Reducer>>,
        root: usize,
    ) -> PyResult<Request> {
        let call = Call::new(operation, sides, op.map(|op| op.get().0.clone()), root)?;
        py.detach(|| Request::begin(&self.0, call)).map_err(|e| raised(py, &e))
    }

    /// Plans a call, to be started many times.
    #[pyo3(signature = (operation, sides, op=None, root=0))]
    fn prepare(
        &self,
        py: Python<'_>,
        operation: &str,
        sides: Sides<'_>,
        op: Option<&Bound<'_, Reducer>>,
        root: usize,
    ) -> PyResult<Request> {
        let call = Call::new(operation, sides, op.map(|op| op.get().0.clone()), root)?;
        py.detach(|| Request::prepare(&self.0, call)).map_err(|e| raised(py, &e))
    }

    /// The same communicator with other options; those that are `None` are as the settings say. The deadline is in seconds.
    #[pyo3(signature = (*, deadline=None, blocks=None, algorithm=None, reproducible=false))]
    fn options(
        &self,
        deadline: Option<f64>,
        blocks: Option<u32>,
        algorithm: Option<&str>,
        reproducible: bool,
    ) -> PyResult<Self> {
        let time = deadline.map(Duration::try_from_secs_f64).transpose();
        let time = time.map_err(|e| PyValueError::new_err(format!("deadline: {e}")))?;
        let options = Options::new().deadline(time).blocks(blocks).algorithm(algorithm);
        Ok(Self(self.0.with(options.reproducible(reproducible))))
    }

    /// A copy, whose calls never mix with ours.
    fn dup(&self, py: Python<'_>) -> PyResult<Self> {
        py.detach(|| self.0.dup()).map(Self).map_err(|e| raised(py, &e))
    }

    /// The ranks that name the same colour; without one, none.
    fn split(&self, py: Python<'_>, color: Option<i64>, key: i64) -> PyResult<Option<Self>> {
        py.detach(|| self.0.split(color, key)).map(|made| made.map(Self)).map_err(|e| raised(py, &e))
    }

    /// The ranks of our node.
    fn split_by_node(&self, py: Python<'_>) -> PyResult<Self> {
        py.detach(|| self.0.split_by_node()).map(Self).map_err(|e| raised(py, &e))
    }

    /// Zeroed registered memory.
    fn alloc(&self, py: Python<'_>, bytes: usize) -> PyResult<Registered> {
        py.detach(|| self.0.alloc(bytes)).map(Registered::new).map_err(|e| raised(py, &e))
    }
}
