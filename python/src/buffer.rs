//! Memory of Python objects, held by the buffer protocol, and registered memory that Python sees by it.

use circulant::Buf;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_int};
use std::ops::Range;

/// What a call does with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Reads,
    Writes,
}

/// A contiguous range of the memory of a Python object, which is held until this is dropped: the object lives on, and cannot move or resize
/// its memory.
pub(crate) struct Memory {
    // Boxed: exporters may point into it.
    view: Box<ffi::Py_buffer>,
    range: Range<usize>,
    access: Access,
}

// SAFETY: a `Py_buffer` is a struct of numbers and pointers; what it points to may be read from any thread. It is released with the
// interpreter attached, which is all that Python asks for.
unsafe impl Send for Memory {}
// SAFETY: as above; shared access only reads the fields.
unsafe impl Sync for Memory {}

/// What elements of a memory are, in the words of the buffer protocol: the format of one, and its bytes.
pub(crate) type Format<'a> = (&'a [u8], usize);

impl Memory {
    /// All memory of an object that lends some which is contiguous, and may be written if it is to be; else nothing.
    pub(crate) fn all(object: &Bound<'_, PyAny>, access: Access) -> Option<Self> {
        let view = exported(object, access, ffi::PyBUF_FORMAT).ok()?;
        let len = usize::try_from(view.len).unwrap_or(0);
        Some(Self { view, range: 0..len, access })
    }

    /// What its elements are, if it was held by [`Memory::all`].
    pub(crate) fn format(&self) -> Format<'_> {
        let item = usize::try_from(self.view.itemsize).unwrap_or(0);
        if self.view.format.is_null() {
            return (b"B", item);
        }
        // SAFETY: a string of C, which lives as long as the view.
        (unsafe { CStr::from_ptr(self.view.format) }.to_bytes(), item)
    }

    /// `len` bytes from byte `offset` on of the memory of `object`.
    ///
    /// # Errors
    /// When the object has no memory, or none that is contiguous, or it must not be written; when it is shorter.
    pub(crate) fn hold(
        object: &Bound<'_, PyAny>,
        (offset, len): (usize, usize),
        access: Access,
    ) -> PyResult<Self> {
        let view = exported(object, access, 0)?;
        // From here on it is released when it is dropped.
        let memory = Self { view, range: offset..offset.saturating_add(len), access };
        let room = usize::try_from(memory.view.len).unwrap_or(0);
        if memory.range.end > room {
            return Err(PyValueError::new_err(format!(
                "bytes {offset} to {} of a buffer of {room} bytes",
                memory.range.end
            )));
        }
        Ok(memory)
    }

    /// Whether both have a byte in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let of = |memory: &Self| {
            let start = memory.view.buf.addr() + memory.range.start;
            start..start + memory.range.len()
        };
        let (a, b) = (of(self), of(other));
        !a.is_empty() && !b.is_empty() && a.start < b.end && b.start < a.end
    }

    fn ptr(&self) -> *mut u8 {
        self.view.buf.cast::<u8>().wrapping_add(self.range.start)
    }

    /// The bytes.
    ///
    /// # Safety
    /// Nothing writes to them while the result is in use: no other thread of the program, and no call that is under way.
    pub(crate) unsafe fn bytes(&self) -> &[u8] {
        if self.range.is_empty() {
            return &[];
        }
        // SAFETY: the range lies in the exported memory (checked in `hold`), which is contiguous and stays where it is until it is released.
        unsafe { std::slice::from_raw_parts(self.ptr(), self.range.len()) }
    }

    /// The bytes, to be written; of memory that is held to be read none.
    ///
    /// # Safety
    /// Nothing else reads or writes them while the result is in use.
    #[allow(
        clippy::mut_from_ref,
        reason = "the memory is the Python object's, not of this value; see the contract"
    )]
    pub(crate) unsafe fn bytes_mut(&self) -> &mut [u8] {
        if self.range.is_empty() || self.access == Access::Reads {
            return &mut [];
        }
        // SAFETY: as in `bytes`; and it was exported as writable.
        unsafe { std::slice::from_raw_parts_mut(self.ptr(), self.range.len()) }
    }
}

/// Contiguous memory of an object, to be released by its caller; `more` are flags of the buffer protocol.
fn exported(object: &Bound<'_, PyAny>, access: Access, more: c_int) -> PyResult<Box<ffi::Py_buffer>> {
    let mut view = Box::new(ffi::Py_buffer::new());
    let write = if access == Access::Writes { ffi::PyBUF_WRITABLE } else { 0 };
    let flags = ffi::PyBUF_ANY_CONTIGUOUS | write | more;
    // SAFETY: the interpreter is attached (`object` is bound), and `view` is a `Py_buffer` to be filled.
    match unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } {
        0 => Ok(view),
        _ => Err(PyErr::fetch(object.py())),
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Without an interpreter there is nothing to give back to.
        let _ = Python::try_attach(|_| {
            // SAFETY: filled by `PyObject_GetBuffer`, released here only, with the interpreter attached.
            unsafe { ffi::PyBuffer_Release(&raw mut *self.view) };
        });
    }
}

/// The type of `IN_PLACE`.
#[pyclass(frozen, module = "circulant")]
pub(crate) struct InPlace;

#[pymethods]
impl InPlace {
    #[new]
    fn new() -> Self {
        Self
    }

    fn __repr__(&self) -> &'static str {
        "circulant.IN_PLACE"
    }
}

/// Registered memory: collectives move it without a copy and without registering anything. Its bytes are seen by the buffer protocol.
#[pyclass(frozen, name = "Memory", module = "circulant")]
pub(crate) struct Registered {
    /// Kept for as long as anything sees the bytes, and not touched: they belong to Python.
    _buf: Buf<u8>,
    ptr: *mut u8,
    len: usize,
}

// SAFETY: `ptr` points into `_buf`, which is owned by the same value and may go to any thread.
unsafe impl Send for Registered {}
// SAFETY: shared access only reads `ptr` and `len`; the bytes are Python's, as those of a bytearray.
unsafe impl Sync for Registered {}

impl Registered {
    pub(crate) fn new(mut buf: Buf<u8>) -> Self {
        let (ptr, len) = (buf.as_mut_ptr(), buf.len());
        Self { _buf: buf, ptr, len }
    }
}

#[pymethods]
impl Registered {
    fn __len__(&self) -> usize {
        self.len
    }

    /// # Safety
    /// Python's: `view` is a `Py_buffer` to be filled.
    unsafe fn __getbuffer__(this: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let (ptr, len) = (this.get().ptr, this.get().len);
        let len = ffi::Py_ssize_t::try_from(len)?;
        // SAFETY: `len` bytes at `ptr` are ours for as long as this object lives, of which the view gets a reference.
        match unsafe { ffi::PyBuffer_FillInfo(view, this.as_ptr(), ptr.cast(), len, 0, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(this.py())),
        }
    }
}
