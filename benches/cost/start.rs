//! Persistent broadcasts from rank 1, of which rank 0 starts CALLS before any can end, and nothing else: the work of which
//! `ci/instructions` counts the instructions of [`started`].
//!
//! `circulant run -n 2 start_cost CALLS`

use circulant::comm::Persistent;
use circulant::{Options, World};

/// Too many for a message: each start tells the root that it is ready.
const BYTES: usize = 10_000;

#[inline(never)]
fn started(calls: &mut [Persistent<u8>]) -> circulant::Result<()> {
    calls.iter_mut().try_for_each(Persistent::start)
}

fn main() -> circulant::Result<()> {
    let Some(Ok(count)) = std::env::args().nth(1).map(|word| word.parse::<u32>()) else {
        eprintln!("usage: start_cost CALLS");
        std::process::exit(2);
    };
    let world = World::init()?;
    let comm = world.comm().with(Options::new().algorithm("circulant").blocks(1));
    let mut calls =
        (0..count).map(|_| comm.bcast_init(comm.alloc(BYTES)?, 1)).collect::<circulant::Result<Vec<_>>>()?;
    // The first start of each has what later ones have not.
    for _ in 0..2 {
        if comm.rank() == 0 {
            started(&mut calls)?;
        } else {
            calls.iter_mut().try_for_each(Persistent::start)?;
        }
        calls.iter_mut().try_for_each(Persistent::wait)?;
    }
    drop(calls);
    world.finalize()
}
