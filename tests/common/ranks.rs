//! Ranks as threads on the simulated wire.
#![allow(dead_code, reason = "each test uses a part")]

use circulant::launch::{Launch, threads};
use circulant::transport::sim;
use circulant::{Communicator, Result, World};

/// Runs `body` at every rank of a world of `size` on a wire with `faults`; returns what each returned.
pub fn run<R: Send>(
    size: usize,
    faults: &sim::Faults,
    settings: &[(&str, &str)],
    body: impl Fn(&World, &Communicator) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    run_on(vec![0; size], faults, settings, body)
}

/// The same on our own shared memory.
pub fn run_shared<R: Send>(
    size: usize,
    settings: &[(&str, &str)],
    body: impl Fn(&World, &Communicator) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    run_over("shm", size, settings, body)
}

/// The same over `provider`; `sim` is a good simulated wire.
pub fn run_over<R: Send>(
    provider: &str,
    size: usize,
    settings: &[(&str, &str)],
    body: impl Fn(&World, &Communicator) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    if provider == "sim" {
        return run(size, &sim::Faults::default(), settings, body);
    }
    let start = |launch| {
        let mut builder = World::builder().launch(launch).set("provider", provider);
        for (name, value) in settings {
            builder = builder.set(name, value);
        }
        let world = builder.init()?;
        let result = body(&world, &world.comm())?;
        world.finalize()?;
        Ok(result)
    };
    std::thread::scope(|scope| {
        let ranks = threads::group_on(vec![0; size]).into_iter();
        let handles: Vec<_> = ranks.map(|launch| scope.spawn(|| start(launch))).collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    })
}

/// The same of ranks that are said to be on these nodes.
pub fn run_on<R: Send>(
    nodes: Vec<u32>,
    faults: &sim::Faults,
    settings: &[(&str, &str)],
    body: impl Fn(&World, &Communicator) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    run_wired(nodes, faults, settings, |world, comm, _| body(world, comm))
}

/// The same of nodes that the launcher says to be in these groups, by rank.
pub fn run_in<R: Send>(
    (nodes, groups): (Vec<u32>, Vec<u32>),
    faults: &sim::Faults,
    settings: &[(&str, &str)],
    body: impl Fn(&World, &Communicator) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let launches = threads::group_in(nodes, groups);
    run_launched(launches, faults, settings, |world, comm, _| body(world, comm))
}

/// The same of a body that is given the wire, too. With `virtual_time` it sleeps by the wire's clock, not by the thread's.
pub fn run_wired<R: Send>(
    nodes: Vec<u32>,
    faults: &sim::Faults,
    settings: &[(&str, &str)],
    body: impl Fn(&World, &Communicator, &sim::Net) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    run_launched(threads::group_on(nodes), faults, settings, body)
}

fn run_launched<R: Send>(
    launches: Vec<Box<dyn Launch>>,
    faults: &sim::Faults,
    settings: &[(&str, &str)],
    body: impl Fn(&World, &Communicator, &sim::Net) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let wires = sim::group(launches.len(), faults);
    std::thread::scope(|scope| {
        let ranks = wires.into_iter().zip(launches);
        let handles: Vec<_> = ranks
            .map(|(wire, launch)| {
                let body = &body;
                scope.spawn(move || {
                    let net = wire.net();
                    let mut builder =
                        World::builder().launch(launch).transport(Box::new(wire)).set("deadline", "20");
                    for (name, value) in settings {
                        builder = builder.set(name, value);
                    }
                    let world = builder.init()?;
                    let result = body(&world, &world.comm(), &net)?;
                    world.finalize()?;
                    Ok(result)
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    })
}
