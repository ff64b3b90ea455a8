//! Ranks as threads on the simulated wire.

use circulant::launch::threads;
use circulant::transport::sim;
use circulant::{Communicator, Result, World};

/// Runs `body` at every rank of a world of `size` ranks and finalizes it.
pub(crate) fn on_ranks<R: Send>(
    size: usize,
    settings: &[(&str, &str)],
    body: impl Fn(&World, &Communicator) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let wires = sim::group(size, &sim::Faults::default());
    std::thread::scope(|scope| {
        let start = |(wire, launch): (sim::Sim, _)| {
            let body = &body;
            scope.spawn(move || {
                let mut builder =
                    World::builder()?.launch(launch).transport(Box::new(wire)).set("deadline", "20")?;
                for (name, value) in settings {
                    builder = builder.set(name, value)?;
                }
                let world = builder.init()?;
                let result = body(&world, &world.comm())?;
                world.finalize()?;
                Ok(result)
            })
        };
        let handles: Vec<_> = wires.into_iter().zip(threads::group(size)).map(start).collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    })
}
