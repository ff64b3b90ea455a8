//! Operators on the bytes of buffers.

use crate::buffer::Format;
use circulant::ops;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyTuple};
use std::alloc::Layout;
use std::sync::{Mutex, PoisonError};

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

/// The types of elements that an operator has met, and it on each: the class that `circulant.Op` derives from.
#[pyclass(frozen, subclass, module = "circulant._circulant")]
#[derive(Default)]
pub(crate) struct Met(Mutex<Vec<OnType>>);

/// An operator on elements of a type.
struct OnType {
    /// Of the buffer protocol, with the bytes of an element.
    format: Vec<u8>,
    item: usize,
    reducer: Py<Reducer>,
}

/// Types that are kept of an operator. Chosen: programs reduce elements of a few types, and all are looked through.
const MAX_MET: usize = 16;

#[pymethods]
impl Met {
    #[new]
    #[pyo3(signature = (*_arguments, **_named))]
    fn new(_arguments: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> Self {
        Self::default()
    }

    /// Elements of this format and size are combined by `reducer`.
    fn meet(&self, format: &str, item: usize, reducer: Py<Reducer>) {
        let mut met = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if met.len() < MAX_MET && !met.iter().any(|on| on.is((format.as_bytes(), item))) {
            met.push(OnType { format: format.as_bytes().to_vec(), item, reducer });
        }
    }
}

impl OnType {
    fn is(&self, (format, item): Format<'_>) -> bool {
        self.item == item && self.format == format
    }
}

impl Met {
    /// It on elements of this type, if it has met them, and is the same on those of the other.
    pub(crate) fn on(&self, ty: Format<'_>, other: Option<Format<'_>>) -> Option<ops::Reducer> {
        let met = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |ty| met.iter().find(|on| on.is(ty)).map(|on| &on.reducer);
        let reducer = find(ty)?;
        let same = match other {
            Some(other) => find(other)?.as_ptr() == reducer.as_ptr(),
            None => true,
        };
        same.then(|| reducer.get().0.clone())
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
