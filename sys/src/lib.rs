//! libfabric bindings.
