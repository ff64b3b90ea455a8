//! What users see: [`World`], [`Communicator`], registered buffers and the collectives.
//!
//! ```
//! use circulant::World;
//!
//! let world = World::init()?;
//! let comm = world.comm();
//! let mut data = comm.alloc::<f64>(1_000_000)?;
//! if comm.rank() == 0 {
//!     data.fill(1.0);
//! }
//! comm.bcast(&mut data, 0)?;
//! world.finalize()?;
//! # Ok::<(), circulant::Error>(())
//! ```
//!
//! Every operation comes in three forms: a call on slices, which blocks until it has finished *here*; a [`Request`]
//! (`ibcast`, …), which owns its buffers and is waited for, or in a [`Scope`] borrows slices; a [`Persistent`] operation (`bcast_init`, …), set up once
//! and started often. Memory of other languages, for which the caller vouches: [`Unscoped`]. In place is a type, [`InPlace`]. Communicators are copied and split
//! ([`Communicator::dup`], [`Communicator::split`], [`Communicator::create`]), or made by their members alone
//! ([`Communicator::assemble`]), also into two groups that send to each
//! other ([`Intercommunicator`]). `docs/mpi.md` says what stands for which call of MPI.
//!
//! Exchanges with neighbours only, on a graph or a grid of ranks: [`Neighborhood`].
//!
//! An error is final for the world: every rank gets
//! it, with the culprit's name, and nothing can write into borrowed memory after the call returned.

mod adapt;
mod again;
mod agreeing;
mod builder;
mod call;
mod calling;
mod cartesian;
mod check;
mod collective;
mod collectives;
mod communicator;
mod context;
mod device;
mod directory;
mod fence;
mod finalize;
mod group;
mod hook;
mod inter;
mod latency;
mod launcher;
mod layout;
mod lent;
mod list;
mod liveness;
mod lock;
pub mod measure;
mod members;
mod neighborhood;
mod options;
mod owned;
mod partition;
mod persistent;
mod place;
mod places;
mod program;
mod progress;
mod recording;
mod request;
mod run;
mod running;
mod scope;
mod shadow;
mod shared;
mod short;
mod split;
mod startup_log;
mod survive;
mod thread;
mod trials;
mod tried;
mod unscoped;
mod watchdog;
pub mod wire_check;
mod wireup;
mod world;

pub use builder::Builder;
pub use cartesian::Cartesian;
pub use collectives::Scalar;
pub use communicator::Communicator;
pub use finalize::Finalizing;
pub use group::Group;
pub use inter::{Intercommunicator, Root};
pub use latency::Latency;
pub use layout::Layout;
pub use neighborhood::Neighborhood;
pub use options::Options;
pub use owned::Done;
pub use partition::{Local, Partition, Parts};
pub use persistent::{Persistent, Planned};
pub use place::{Contribution, Destination, InPlace, Owned};
pub use request::{Pending, Request, wait_all, wait_any};
pub use scope::{Scope, ScopedRequest};
pub use survive::Agreed;
pub use trials::Learned;
pub use unscoped::{Unscoped, UnscopedPersistent, UnscopedRequest};
pub use world::{Stats, World};

pub use crate::buffer::{AnyMemory, Buf, HostMemory, MemoryPlace};
