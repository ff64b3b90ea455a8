//! Operators on the bytes of buffers.

use circulant::ops;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};
use std::alloc::Layout;

/// An operator on elements of one type.
#[pyclass(frozen, module = "circulant._circulant")]
pub(crate) struct Reducer(pub(crate) ops::Reducer);

#[pymethods]
impl Reducer {
    /// A built-in operator by the names of the library: `Reducer("f64", "sum")`.
    #[new]
    fn new(kind: &str, op: &str) -> PyResult<Self> {
        let made = kind.parse().and_then(|kind| ops::reducer(kind, op.parse()?));
        // Nothing was called: no rank hears of it.
        made.map(Self).map_err(|e| PyValueError::new_err(e.to_string()))
    }

    /// One that a Python function computes: `function(left: bytes, right: bytearray)` combines whole elements and leaves the result in `right`.
    #[staticmethod]
    fn user(name: &str, size: usize, align: usize, commutative: bool, function: Py<PyAny>) -> PyResult<Self> {
        let element =
            Layout::from_size_align(size, align).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let combine = move |left: &[u8], right: &mut [u8]| {
            if let Err(e) = Python::attach(|py| call(py, &function, left, right)) {
                // The library makes an error of it, which all ranks get.
                std::panic::resume_unwind(Box::new(e.to_string()));
            }
        };
        let made = ops::Reducer::raw(name, element, commutative, combine);
        made.map(Self).map_err(|e| PyValueError::new_err(e.to_string()))
    }

    /// Bytes of one element.
    #[getter]
    fn element(&self) -> usize {
        self.0.element()
    }
}

/// On copies: the function may keep what it is given.
fn call(py: Python<'_>, function: &Py<PyAny>, left: &[u8], right: &mut [u8]) -> PyResult<()> {
    let result = PyByteArray::new(py, right);
    function.call1(py, (PyBytes::new(py, left), &result))?;
    let result = result.to_vec();
    if result.len() != right.len() {
        return Err(PyValueError::new_err("the operator has changed the length of its result"));
    }
    right.copy_from_slice(&result);
    Ok(())
}
