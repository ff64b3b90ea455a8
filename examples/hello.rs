//! The smallest program: every rank gets rank 0's numbers. Run it with
//! `circulant run -n 4 target/debug/examples/hello`.

use circulant::World;

fn main() -> circulant::Result<()> {
    let world = World::init()?;
    let comm = world.comm();
    let mut data = comm.alloc::<f64>(1000)?;
    if comm.rank() == 0 {
        data.iter_mut().enumerate().for_each(|(i, x)| *x = i as f64);
    }
    comm.bcast(&mut data, 0)?;
    println!(
        "rank {} of {} over {}: sum {}",
        world.rank(),
        world.size(),
        world.provider(),
        data.iter().sum::<f64>()
    );
    world.finalize()
}
