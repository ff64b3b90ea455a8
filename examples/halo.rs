//! A row of cells, a part of it at each rank, whose new values depend on their neighbours: a halo exchange by a
//! persistent alltoallv with two counts that are not 0. It puts right into the neighbours' memory. Run it with
//! `circulant run -n 4 target/debug/examples/halo`.

use circulant::World;

/// Cells at each rank.
const N: usize = 100;
const STEPS: usize = 50;

fn main() -> circulant::Result<()> {
    let world = World::init()?;
    let comm = world.comm();
    let (rank, size) = (comm.rank(), comm.size());
    let (left, right) = (rank.checked_sub(1), Some(rank + 1).filter(|r| *r < size));

    // What goes to the left neighbour is element 0 of both buffers, to the right element 1.
    let (mut counts, mut places) = (vec![0; size], vec![0; size]);
    for (neighbour, place) in [(left, 0), (right, 1)] {
        if let Some(neighbour) = neighbour {
            (counts[neighbour], places[neighbour]) = (1, place);
        }
    }
    let lists = (&counts[..], &places[..]);
    let mut halo = comm.alltoallv_init(comm.alloc::<f64>(2)?, lists, comm.alloc::<f64>(2)?, lists)?;

    // Heat at the left end spreads; beyond the ends nothing gets lost.
    let mut cells = vec![0.0; N];
    if rank == 0 {
        cells[0] = 1000.0;
    }
    for _ in 0..STEPS {
        halo.input()?.copy_from_slice(&[cells[0], cells[N - 1]]);
        halo.start()?;
        // Here is time for the cells that need no neighbour.
        let old = cells.clone();
        for i in 1..N - 1 {
            cells[i] = (old[i - 1] + 2.0 * old[i] + old[i + 1]) / 4.0;
        }
        halo.wait()?;
        let beyond = halo.output()?;
        let (before, behind) = (left.map_or(old[0], |_| beyond[0]), right.map_or(old[N - 1], |_| beyond[1]));
        cells[0] = (before + 2.0 * old[0] + old[1]) / 4.0;
        cells[N - 1] = (old[N - 2] + 2.0 * old[N - 1] + behind) / 4.0;
    }

    let mut heat = [0.0];
    comm.reduce(&[cells.iter().sum::<f64>()], &mut heat, circulant::ops::Sum, 0)?;
    if rank == 0 {
        assert!((heat[0] - 1000.0).abs() < 1e-9);
        println!("after {STEPS} steps on {size} ranks: {:.6} in all, {:.3} at the end", heat[0], cells[0]);
    }
    drop(halo);
    world.finalize()
}
