//! The neighbours of a rank.

use crate::call::{Call, Runs, Sides};
use crate::request::Request;
use crate::wait::released;
use pyo3::prelude::*;

/// A neighbourhood, on bytes.
#[pyclass(frozen, module = "circulant._circulant")]
pub(crate) struct Neighborhood(pub(crate) circulant::comm::Neighborhood);

#[pymethods]
impl Neighborhood {
    /// The ranks that this one receives from.
    #[getter]
    fn sources(&self) -> Vec<Option<usize>> {
        self.0.sources().to_vec()
    }

    /// The ranks that this one sends to.
    #[getter]
    fn destinations(&self) -> Vec<Option<usize>> {
        self.0.destinations().to_vec()
    }

    /// Runs a call to its end; others may use the interpreter meanwhile.
    fn run(&self, py: Python<'_>, operation: &str, sides: Sides<'_>) -> PyResult<()> {
        let call = Call::new(operation, sides, None, 0)?;
        released(py, || self.0.run(&call))
    }

    /// Begins a call, which the request then waits for.
    fn begin(&self, py: Python<'_>, operation: &str, sides: Sides<'_>) -> PyResult<Request> {
        let call = Call::new(operation, sides, None, 0)?;
        released(py, || Request::begin(&self.0, call))
    }

    /// Plans a call, to be started many times.
    fn prepare(&self, py: Python<'_>, operation: &str, sides: Sides<'_>) -> PyResult<Request> {
        let call = Call::new(operation, sides, None, 0)?;
        released(py, || Request::prepare(&self.0, call))
    }
}
