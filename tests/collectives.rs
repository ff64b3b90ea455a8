//! Every collective with every algorithm on the simulated wire.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "tests may panic"
)]

#[path = "common/collective.rs"]
mod collective;

use circulant::launch::threads;
use circulant::plan::registry::algorithms;
use circulant::plan::registry::{Arguments, Operation};
use circulant::transport::sim;
use circulant::{Communicator, Result, World};
use collective::{Case, Mode, check};

fn run<R: Send>(size: usize, body: impl Fn(&World, &Communicator) -> Result<R> + Sync) -> Vec<R> {
    let wires = sim::group(size, &sim::Faults::default());
    std::thread::scope(|scope| {
        let handles: Vec<_> = wires
            .into_iter()
            .zip(threads::group(size))
            .map(|(wire, launch)| {
                let body = &body;
                scope.spawn(move || {
                    let builder =
                        World::builder()?.launch(launch).transport(Box::new(wire)).set("deadline", "20")?;
                    let world = builder.init()?;
                    let result = body(&world, &world.comm())?;
                    world.finalize()?;
                    Ok::<R, circulant::Error>(result)
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().unwrap().unwrap()).collect()
    })
}

#[test]
fn every_algorithm() {
    for p in [1usize, 2, 3, 4, 5, 8, 9] {
        run(p, |_, comm| {
            for operation in Operation::ALL {
                for algorithm in algorithms(operation) {
                    for (i, mode) in
                        [Mode::Slices, Mode::Arena, Mode::Request, Mode::Persistent].into_iter().enumerate()
                    {
                        let case = Case {
                            operation,
                            algorithm: algorithm.name,
                            mode,
                            in_place: i % 2 == 1,
                            commutative: i != 2,
                            root: (i + 1) % p,
                            len: [7, 100, 1, 0][i],
                            blocks: None,
                            seed: i as u64,
                        };
                        let a = Arguments { size: p as u32, commutative: case.commutative, ..Arguments::default() };
                        if (algorithm.fits)(&a).is_ok() {
                            check(comm, &case)?;
                        }
                    }
                }
            }
            Ok(())
        });
    }
}
