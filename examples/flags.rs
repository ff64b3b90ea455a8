//! Flags of all ranks, combined: whether each has converged. Run it with
//! `circulant run -n 4 target/debug/examples/flags`.

use circulant::{World, bytemuck, ops};

fn main() -> circulant::Result<()> {
    let world = World::init()?;
    let comm = world.comm();

    // One flag: a value that is passed, and one that comes back.
    let done = comm.rank() < 100;
    let all_done = comm.allreduce_one(done, ops::Land)?;
    assert!(all_done || comm.size() > 100);

    // Many flags: bytes of which any are values. A bool may be read as a byte; a byte is made a bool by comparing it.
    let flags: Vec<bool> = (0..comm.size()).map(|r| r == comm.rank()).collect();
    let mut any = vec![0u8; flags.len()];
    comm.allreduce(bytemuck::cast_slice::<bool, u8>(&flags), &mut any, ops::Lor)?;
    let any: Vec<bool> = any.iter().map(|byte| *byte != 0).collect();
    assert!(any.iter().all(|flag| *flag));
    world.finalize()
}
