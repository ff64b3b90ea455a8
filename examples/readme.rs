//! The README's program, word for word. Run it with
//! `circulant run -n 4 target/release/examples/readme`.

use circulant::World;

fn main() -> circulant::Result<()> {
    let world = World::init()?; // finds the launcher, connects, tests the wire
    let comm = world.comm();

    // Registered memory: moved without a copy. Plain slices work as well.
    let mut data = comm.alloc::<f64>(1_000_000)?;
    if comm.rank() == 0 {
        data.fill(0.5);
    }
    comm.bcast(&mut data, 0)?;

    // Rank r contributes r numbers; every rank gets all of them.
    let counts: Vec<usize> = (0..comm.size()).collect();
    let mine = vec![comm.rank() as u64; comm.rank()];
    let mut all = vec![0u64; counts.iter().sum()];
    comm.allgatherv(&mine, &mut all, &counts)?; // one behind the other

    println!("rank {} over {}: {}, {:?}", comm.rank(), world.provider(), data[0], all);
    world.finalize()
}
