//! A broadcast that is set up once and started many times. Each start sends one word to every rank that will
//! put to us, and neither exchanges an address nor allocates. Run it with
//! `circulant run -n 4 target/debug/examples/persistent`.

use circulant::World;

const STARTS: u32 = 1000;

fn main() -> circulant::Result<()> {
    let world = World::init()?;
    let comm = world.comm();
    let mut step = comm.bcast_init(comm.alloc::<u32>(100_000)?, 0)?;
    let before = world.stats().puts;
    for i in 0..STARTS {
        if comm.rank() == 0 {
            step.input()?.fill(i);
        }
        step.start()?;
        // Here is time to compute; step.test() moves things on meanwhile.
        step.wait()?;
        assert!(step.output()?.iter().all(|x| *x == i));
    }
    let plan = step.planned();
    println!(
        "rank {}: {STARTS} starts of {} rounds; {} puts of {} bytes planned for each, {} made in all",
        comm.rank(),
        plan.rounds,
        plan.puts,
        plan.put_bytes,
        world.stats().puts - before
    );
    world.finalize()
}
