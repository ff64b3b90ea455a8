//! Communicators.

use crate::buffer::Registered;
use crate::call::{Call, Runs, Sides};
use crate::neighbors::Neighborhood;
use crate::operator::Reducer;
use crate::request::Request;
use crate::wait::released;
use circulant::comm::Cartesian;
use circulant::{Communicator, Error, ErrorKind, Options};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::time::Duration;

/// A root as a caller says it. One below 0 is no rank, which the call refuses as any other.
pub(crate) struct Root(usize);

impl<'a, 'py> FromPyObject<'a, 'py> for Root {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        object.extract::<isize>().map(|root| Self(root.cast_unsigned()))
    }
}

/// A communicator, on bytes.
#[pyclass(frozen, module = "circulant._circulant")]
pub(crate) struct Comm(pub(crate) Communicator);

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
    #[pyo3(signature = (operation, sides, op=None, root=Root(0)))]
    fn run(
        &self,
        py: Python<'_>,
        operation: &str,
        sides: Sides<'_>,
        op: Option<&Bound<'_, Reducer>>,
        root: Root,
    ) -> PyResult<()> {
        let call = Call::new(operation, sides, op.map(|op| op.get().0.clone()), root.0)?;
        released(py, || self.0.run(&call))
    }

    /// Runs a call whose buffers are memory alone, or in place, and whose operator has met their elements. False: it is another one, or wrong,
    /// and nothing was done.
    #[pyo3(signature = (operation, send, recv, op=None, root=Root(0)))]
    fn run_plain(
        &self,
        py: Python<'_>,
        operation: &str,
        send: &Bound<'_, PyAny>,
        recv: &Bound<'_, PyAny>,
        op: Option<&Bound<'_, PyAny>>,
        root: Root,
    ) -> PyResult<bool> {
        let call = Call::plain(operation, [send, recv], op, (root.0, self.0.rank()))?;
        call.map_or(Ok(false), |call| released(py, || self.0.run(&call)).map(|()| true))
    }

    /// Begins a call, which the request then waits for.
    #[pyo3(signature = (operation, sides, op=None, root=Root(0)))]
    fn begin(
        &self,
        py: Python<'_>,
        operation: &str,
        sides: Sides<'_>,
        op: Option<&Bound<'_, Reducer>>,
        root: Root,
    ) -> PyResult<Request> {
        let call = Call::new(operation, sides, op.map(|op| op.get().0.clone()), root.0)?;
        released(py, || Request::begin(&self.0, call))
    }

    /// Plans a call, to be started many times.
    #[pyo3(signature = (operation, sides, op=None, root=Root(0)))]
    fn prepare(
        &self,
        py: Python<'_>,
        operation: &str,
        sides: Sides<'_>,
        op: Option<&Bound<'_, Reducer>>,
        root: Root,
    ) -> PyResult<Request> {
        let call = Call::new(operation, sides, op.map(|op| op.get().0.clone()), root.0)?;
        released(py, || Request::prepare(&self.0, call))
    }

    /// The same communicator with other options; those that are `None` are as the settings say. The deadline is in seconds.
    #[pyo3(signature = (*, deadline=None, blocks=None, algorithm=None, reproducible=false))]
    fn options(
        &self,
        deadline: Option<f64>,
        blocks: Option<i64>,
        algorithm: Option<&str>,
        reproducible: bool,
    ) -> PyResult<Self> {
        let time = deadline.map(Duration::try_from_secs_f64).transpose();
        let time = time.map_err(|e| PyValueError::new_err(format!("deadline: {e}")))?;
        let count = |count: i64| {
            u32::try_from(count).ok().filter(|count| *count > 0).ok_or_else(|| {
                PyValueError::new_err(format!("blocks: {count}, and a message has 1 to {}", u32::MAX))
            })
        };
        let blocks = blocks.map(count).transpose()?;
        let options = Options::new().deadline(time).blocks(blocks).algorithm(algorithm);
        Ok(Self(self.0.with(options.reproducible(reproducible))))
    }

    /// A copy, whose calls never mix with ours.
    fn dup(&self, py: Python<'_>) -> PyResult<Self> {
        released(py, || self.0.dup()).map(Self)
    }

    /// Ends all calls here, at all ranks.
    fn revoke(&self, py: Python<'_>) -> PyResult<()> {
        released(py, || self.0.revoke())
    }

    /// Whether it is known to be revoked.
    fn is_revoked(&self, py: Python<'_>) -> PyResult<bool> {
        released(py, || self.0.is_revoked())
    }

    /// The ranks that are known to be gone.
    fn gone(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        released(py, || self.0.gone())
    }

    /// The flags that all have set that live.
    fn agree(&self, py: Python<'_>, flags: u64) -> PyResult<u64> {
        Ok(released(py, || self.0.agree(flags))?.flags)
    }

    /// The ranks that live.
    fn shrink(&self, py: Python<'_>) -> PyResult<Self> {
        released(py, || self.0.shrink()).map(Self)
    }

    /// The ranks that name the same colour; without one, none.
    fn split(&self, py: Python<'_>, color: Option<i64>, key: i64) -> PyResult<Option<Self>> {
        Ok(released(py, || self.0.split(color, key))?.map(Self))
    }

    /// The ranks of our node.
    fn split_by_node(&self, py: Python<'_>) -> PyResult<Self> {
        released(py, || self.0.split_by_node()).map(Self)
    }

    /// These ranks, in this order, made by them alone; `allgather(bytes)` gives what all of them pass, in this order.
    fn assemble(&self, py: Python<'_>, ranks: Vec<usize>, allgather: Py<PyAny>) -> PyResult<Self> {
        let failed = |what: String| Error::new(ErrorKind::Launch, what);
        let exchange = |ours: &[u8; 16]| {
            let all: PyResult<Vec<[u8; 16]>> =
                Python::attach(|py| allgather.call1(py, (PyBytes::new(py, ours),))?.extract(py));
            all.map_err(|e| failed(format!("the allgather of the program failed: {e}")))
        };
        released(py, || self.0.assemble(&ranks, exchange)).map(Self)
    }

    /// The neighbours of a graph.
    fn dist_graph(
        &self,
        py: Python<'_>,
        sources: Vec<usize>,
        destinations: Vec<usize>,
    ) -> PyResult<Neighborhood> {
        released(py, || self.0.dist_graph(&sources, &destinations)).map(Neighborhood)
    }

    /// The neighbours of a grid of all ranks.
    fn cartesian(&self, py: Python<'_>, dims: Vec<usize>, periodic: Vec<bool>) -> PyResult<Neighborhood> {
        released(py, || self.0.cartesian(&Cartesian::new(&dims, &periodic)?)).map(Neighborhood)
    }

    /// Zeroed registered memory.
    fn alloc(&self, py: Python<'_>, bytes: usize) -> PyResult<Registered> {
        released(py, || self.0.alloc(bytes)).map(Registered::new)
    }
}
