//! libcirculant: the C interface of the crate `circulant`.
//!
//! `include/circulant.h` documents every function; the Rust side says only what the header cannot. A test compares both. The rules:
//!
//! - Each function catches what panics ([`status::guard`]), and returns a status. What went wrong is kept for the thread.
//! - Pointers are looked at before they are used: null, or two buffers that overlap, are errors. That a pointer which is neither leads to
//!   what the header says is the caller's promise, on which every `unsafe` here rests.
//! - Buffers are bytes to the library: C programs may align them as they like, and types that Rust does not know are sizes.

mod bootstrap;
mod collectives;
mod comm;
mod device;
mod layout;
mod memory;
mod neighbors;
mod ops;
mod request;
mod setting;
mod slices;
mod status;
mod types;
mod world;
