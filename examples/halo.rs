//! A row of cells, a part of it at each rank, whose new values depend on their neighbours: a halo exchange along a line of ranks.
//! The cells at the borders are put right into the neighbours' rows. Run it with `circulant run -n 4 target/debug/examples/halo`.

use circulant::comm::Cartesian;
use circulant::{InPlace, World, ops};

/// Cells at each rank; on either side one more, for the neighbour's.
const N: usize = 100;
const STEPS: usize = 50;

fn main() -> circulant::Result<()> {
    let world = World::init()?;
    let comm = world.comm();

    // Cell 1 goes to the left, cell N to the right; cells 0 and N+1 come from there.
    let line = comm.cartesian(&Cartesian::new(&[comm.size()], &[false])?)?;
    let (sent, received) = ((&[1, 1][..], &[1, N][..]), (&[1, 1][..], &[0, N + 1][..]));
    let mut halo = line.neighbor_alltoallv_init(InPlace, sent, comm.alloc::<f64>(N + 2)?, received)?;

    // Heat at the left end spreads; beyond the ends nothing gets lost.
    let mut new = vec![0.0; N + 2];
    if comm.rank() == 0 {
        halo.output()?[1] = 1000.0;
    }
    for _ in 0..STEPS {
        halo.start()?;
        // Here is time for what needs no neighbour.
        halo.wait()?;
        let cells = halo.output()?;
        if line.sources()[0].is_none() {
            cells[0] = cells[1];
        }
        if line.sources()[1].is_none() {
            cells[N + 1] = cells[N];
        }
        for i in 1..=N {
            new[i] = (cells[i - 1] + 2.0 * cells[i] + cells[i + 1]) / 4.0;
        }
        cells[1..=N].copy_from_slice(&new[1..=N]);
    }

    let heat = comm.reduce_one(halo.output()?[1..=N].iter().sum::<f64>(), ops::Sum, 0)?;
    if let Some(heat) = heat {
        assert!((heat - 1000.0).abs() < 1e-9);
        println!(
            "after {STEPS} steps on {} ranks: {heat:.6} in all, {:.3} at the end",
            comm.size(),
            halo.output()?[1]
        );
    }
    drop(halo);
    world.finalize()
}
