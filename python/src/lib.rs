//! The extension module `circulant._circulant`: calls on memory that Python objects lend by the buffer protocol.
//!
//! What users see is the Python package `circulant` beside this folder: it has the names and the rules of mpi4py for what stands for a
//! buffer, and the object forms. Here is what needs the library: communicators, calls on bytes, requests, registered memory.
//!
//! # Threads
//! Whatever takes the engine's lock, or waits, does so with the interpreter released ([`pyo3::Python::detach`]), and locks of this
//! module are taken and given back inside of that, or held where nothing of Python runs: so no thread waits for one of the two while it has the other, but an operator
//! in Python, which is called with the engine's lock and waits for the interpreter, which no thread keeps for long.
//!
//! # Signals
//! Python notes a signal and runs its handler when it gets to it, which a call that waits never does: so a hook of the world looks
//! (module `wait`). What the handler raises unwinds through the library, as a panic in an operator would, and ends the world.
//!
//! # Memory
//! A buffer is held (`buffer::Memory`) until the call, or the request, that uses it has ended. That keeps the memory where it is. It does not
//! keep other threads of the program from writing there meanwhile: as with mpi4py, that is the program's part.

mod buffer;
mod call;
mod comm;
mod error;
mod launch;
mod neighbors;
mod operator;
mod request;
mod wait;
mod world;

use pyo3::prelude::*;

/// What `import circulant._circulant` runs.
#[pymodule]
fn _circulant(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", module.py().get_type::<error::Error>())?;
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<world::World>()?;
    module.add_class::<comm::Comm>()?;
    module.add_class::<neighbors::Neighborhood>()?;
    module.add_class::<request::Request>()?;
    module.add_function(wrap_pyfunction!(request::wait_any, module)?)?;
    module.add_class::<operator::Reducer>()?;
    module.add_class::<operator::Met>()?;
    module.add_class::<buffer::InPlace>()?;
    module.add_class::<buffer::Registered>()
}
