//! Persistent broadcasts of 1 MB from rank 0 and nothing else: the work of which `ci/cost` counts the instructions.
//!
//! `circulant run -n 2 put_cost BLOCKS REPS`

use circulant::{Options, World};

const BYTES: usize = 1_000_000;

fn main() -> circulant::Result<()> {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u32>());
    let (Some(Ok(blocks @ 1..)), Some(Ok(reps))) = (words.next(), words.next()) else {
        eprintln!("usage: put_cost BLOCKS REPS");
        std::process::exit(2);
    };
    let world = World::init()?;
    let options = Options::new().algorithm("circulant").blocks(blocks);
    let comm = world.comm().with(options);
    let mut bcast = comm.bcast_init(comm.alloc::<u8>(BYTES)?, 0)?;
    for _ in 0..reps {
        bcast.start()?;
        bcast.wait()?;
    }
    drop(bcast);
    world.finalize()
}
