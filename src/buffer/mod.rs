//! Memory: the registered arena, regions bound to an operation, and closure-scoped loans of user slices.
//! The only `unsafe` above the transports lives here.
//!
//! The rule that everything here serves: when a call on borrowed memory returns, also with an error,
//! nobody can still write into that memory or read from it on our behalf.

mod arena;
mod bound;
mod count;
mod fork;
mod lend;

pub use arena::Buf;
pub(crate) use arena::{ALIGN, Arena, Block};
pub(crate) use bound::{
    Binding, Bound, Destination, GATHER_MAX, Grant, copy, fold, put, read, reduce, write,
};
pub use count::{CountingAllocator, allocations, live_allocations};
pub(crate) use fork::ForkMark;
pub(crate) use lend::{Loan, Wire, lend};
