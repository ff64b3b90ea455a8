//! Short calls: blocking calls of node-local ranks through slots of shared memory. A rank posts its bytes with a flag in its own slot
//! (gather), and reads those of the other ranks that it needs (release). No plan and no message. Nothing is allocated, but for blocks that
//! follow by plan. The one rank of a communicator has no slots: it copies what it sends to where it receives, however long that is.
//!
//! Whether a call goes this way depends on what all ranks know alike: operation, bytes, communicator, options, settings.
//! Where each rank knows its own counts only, a post says how long its blocks are, and whether they follow by plan (`told.rs`).
//! What is folded is folded in the order of ranks, and where the operator is inexact in the tree that `reproducible` asks for.
//!
//! Each post says which call it is of, with a hash of its arguments and one of all short calls of this communicator before.
//! So ranks that disagree find out when one reads the other's post: in this call, or in the next in which it does.
//!
//! | file | |
//! |---|---|
//! | `data.rs`, `fold.rs`, `scan.rs`, `told.rs` | the calls: what moves blocks, what folds, scans, what only posts tell the lengths of |
//! | `pieces.rs`, `halves.rs` | long calls of two ranks: piece by piece; the allreduce of such |
//! | `cross_memory.rs`, `by_address.rs` | whether two ranks' long posts are copied by the kernel; calls that find out |
//! | `parts.rs` | reductions of which each rank folds a part |
//! | `run.rs`, `reading.rs` | what they are made of: posting and waiting; reading |
//! | `halving.rs`, `levels.rs` | folds of few bytes; contributions and partial results of a fold |
//! | `blocks.rs` | where blocks stand |
//! | `state.rs`, `setup.rs` | slots and what was done in them; which communicators and operations have short calls |

mod blocks;
mod by_address;
mod cross_memory;
mod data;
mod exchange;
mod fold;
mod halves;
mod halving;
mod levels;
mod parts;
mod pieces;
mod reading;
mod run;
mod scan;
mod setup;
mod state;
mod told;

pub(super) use setup::MAX_MEMBERS;
pub(super) use state::{ShortCalls, ShortHandle};
