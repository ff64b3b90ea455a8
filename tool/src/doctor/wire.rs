//! Makes a world, as a program would, and compares clocks over it.

use super::report::{Report, Wire};
use circulant::launch::Launch;
use circulant::{Result, World};
use std::time::{Duration, Instant, SystemTime};

/// How often the clocks are compared; the quickest comparison counts.
const ROUNDS: usize = 10;

/// Makes a world and uses it; tells the report what came of it.
pub(super) fn check(launch: Box<dyn Launch>, timeout: Duration, report: &mut Report) {
    let begun = Instant::now();
    let builder = World::builder().start_deadline(timeout).deadline(timeout);
    let world = match builder.launch(launch).init() {
        Ok(world) => world,
        Err(e) => return report.trouble_of(&e),
    };
    let took = begun.elapsed().as_secs_f64();
    let (provider, nodes) = (world.provider().to_owned(), world.nodes().to_vec());
    let clocks = compare(&world);
    let left = world.finalize();
    match clocks.and_then(|clocks| left.map(|()| clocks)) {
        Ok(clocks) => report.wire = Some(Wire { provider, nodes, start_seconds: took, clocks }),
        Err(e) => report.trouble_of(&e),
    }
}

/// Of each rank how far its clock is ahead of rank 0's, and how wrong that can be, in seconds.
fn compare(world: &World) -> Result<Vec<(f64, f64)>> {
    let comm = world.comm();
    let mut best: Option<(f64, Vec<(f64, f64)>)> = None;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        comm.barrier()?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut all = vec![0f64; world.size()];
        comm.allgather(&[now.as_secs_f64()], &mut all)?;
        // Each rank has read the clock after we entered the barrier and before we had all readings.
        let within = begun.elapsed().as_secs_f64();
        if best.as_ref().is_none_or(|(least, _)| within < *least) {
            best = Some((within, all.iter().map(|t| (t - all[0], within)).collect()));
        }
    }
    Ok(best.map(|(_, clocks)| clocks).unwrap_or_default())
}
