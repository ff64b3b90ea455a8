//! Memory: the registered arena, regions bound to an operation, and closure-scoped loans of user slices.
//! The only `unsafe` code above the transports is here.
//!
//! The rule that everything here serves: when a call on borrowed memory returns, also with an error,
//! no peer can still write to that memory, or read from it through our endpoint.

mod arena;
mod bound;
mod buf;
mod count;
mod fork;
mod lend;
mod scope;
mod vouched;

pub(crate) use arena::{Arena, Block, MAX_ALIGN_BYTES};
pub(crate) use bound::{
    Binding, Bound, Destination, Grant, MAX_GATHER, copy, fold, put, read, reduce, write,
};
pub(crate) use buf::{Adopted, Release};
pub use buf::{AnyMemory, Buf, HostMemory, MemoryPlace};
pub use count::{CountingAllocator, allocations, heap_growth, live_allocations};
pub(crate) use fork::ForkMark;
pub(crate) use lend::{Lent, Loan, Wire, lend};
pub(crate) use scope::{Borrowed, Loans, OnLoan, scope};
pub(crate) use vouched::Vouched;
