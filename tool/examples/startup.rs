//! Where the time of start-up goes, for any launcher and number of ranks: the exchange of keys that a rank needs to find
//! its neighbours, then (with `--world`) a whole world, with what it asked of the launcher.
//!
//! ```text
//! circulant run -n 1024 target/release/examples/startup
//! mpiexec.hydra -n 64 target/release/examples/startup --world
//! ```

use circulant::config::Config;
use circulant::launch::{self, Gone, Launch};
use circulant::schedule::Circulant;
use circulant::{Result, World};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(300);

/// What was asked of the launcher: puts, gets, fences.
#[derive(Debug, Default)]
struct Counts([AtomicU64; 3]);

/// A launcher whose calls are counted.
#[derive(Debug)]
struct Counted {
    inner: Box<dyn Launch>,
    counts: Arc<Counts>,
}

impl Counted {
    fn count(&self, i: usize) {
        self.counts.0[i].fetch_add(1, Ordering::Relaxed);
    }
}

impl Launch for Counted {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn rank(&self) -> usize {
        self.inner.rank()
    }
    fn size(&self) -> usize {
        self.inner.size()
    }
    fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.count(0);
        self.inner.put(key, value)
    }
    fn put_for(&mut self, key: &str, value: &[u8], readers: &[u32]) -> Result<()> {
        self.count(0);
        self.inner.put_for(key, value, readers)
    }
    fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        self.count(1);
        self.inner.get(key)
    }
    fn fence(&mut self, deadline: Duration) -> Result<()> {
        self.count(2);
        self.inner.fence(deadline)
    }
    fn nodes(&self) -> Option<Vec<u32>> {
        self.inner.nodes()
    }
    fn gone(&mut self) -> Option<Gone> {
        self.inner.gone()
    }
    fn abort(&mut self, code: i32, message: &str) {
        self.inner.abort(code, message);
    }
    fn finalize(&mut self) -> Result<()> {
        self.inner.finalize()
    }
}

/// Seconds that `f` takes are added to `times`.
fn timed<T>(times: &mut Vec<f64>, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let begun = Instant::now();
    let done = f()?;
    times.push(begun.elapsed().as_secs_f64());
    Ok(done)
}

const STEPS: [&str; 5] = ["join", "put address", "fence", "get neighbours", "second fence"];

fn exchange(begun: Instant) -> Result<Box<dyn Launch>> {
    let mut times = Vec::new();
    let mut config = Config::from_env();
    config.set("start-deadline", &PATIENCE.as_secs().to_string())?;
    let mut launch = timed(&mut times, || launch::detect(&config))?;
    let (rank, size) = (launch.rank(), launch.size());
    timed(&mut times, || launch.put(&format!("a-{rank}"), &[7; 60]))?;
    timed(&mut times, || launch.fence(PATIENCE))?;
    let p = u32::try_from(size).unwrap_or(1);
    let graph = Circulant::new(p);
    timed(&mut times, || {
        for k in 0..graph.q() {
            let skip = (graph.skip(k) % p) as usize;
            for peer in [(rank + skip) % size, (rank + size - skip) % size] {
                launch.get(&format!("a-{peer}"))?;
            }
        }
        Ok(())
    })?;
    timed(&mut times, || launch.fence(PATIENCE))?;
    let whole = begun.elapsed().as_secs_f64();
    let bytes: Vec<u8> = times.iter().flat_map(|t| t.to_le_bytes()).collect();
    launch.put(&format!("t-{rank}"), &bytes)?;
    launch.fence(PATIENCE)?;
    if rank == 0 {
        let mut all: Vec<Vec<f64>> = vec![Vec::new(); STEPS.len()];
        let reading = Instant::now();
        for r in 0..size {
            let words = launch.get(&format!("t-{r}"))?;
            for (list, word) in all.iter_mut().zip(words.chunks_exact(8)) {
                list.push(word.try_into().map_or(0.0, f64::from_le_bytes));
            }
        }
        let reading = reading.elapsed().as_secs_f64();
        println!("{size} ranks by {}, {} neighbours each at most", launch.name(), 2 * graph.q());
        println!("{:<16} {:>12} {:>12} {:>12}", "step", "least ms", "median ms", "most ms");
        for (name, list) in STEPS.iter().zip(&mut all) {
            list.sort_by(f64::total_cmp);
            let at = |i: usize| list.get(i).copied().unwrap_or(0.0) * 1e3;
            println!("{name:<16} {:>12.3} {:>12.3} {:>12.3}", at(0), at(size / 2), at(size - 1));
        }
        println!("rank 0 from its start to the second fence: {:.3} ms", whole * 1e3);
        println!(
            "one rank reads {size} values: {:.3} ms, {:.1} us each",
            reading * 1e3,
            reading * 1e6 / size as f64
        );
    }
    Ok(launch)
}

fn main() -> Result<()> {
    let begun = Instant::now();
    let mut launch = exchange(begun)?;
    if !std::env::args().any(|a| a == "--world") {
        return launch.finalize();
    }
    let counts = Arc::new(Counts::default());
    let making = Instant::now();
    let counted = Counted { inner: launch, counts: Arc::clone(&counts) };
    let world = World::builder().start_deadline(PATIENCE).launch(Box::new(counted)).init()?;
    let took = making.elapsed().as_secs_f64();
    let mine: Vec<f64> = counts
        .0
        .iter()
        .map(|c| c.load(Ordering::Relaxed) as f64)
        .chain([took, world.stats().messages as f64])
        .collect();
    let mut all = vec![0.0; mine.len() * world.size()];
    world.comm().allgather(&mine, &mut all)?;
    if world.rank() == 0 {
        println!("a world over {}:", world.provider());
        for (i, name) in ["puts", "gets", "fences", "seconds", "messages sent"].iter().enumerate() {
            let list: Vec<f64> = all.iter().skip(i).step_by(mine.len()).copied().collect();
            let most = list.iter().copied().fold(0.0, f64::max);
            println!(
                "  {name:<14} rank 0 {:>9.3}   mean {:>9.3}   most {most:>9.3}",
                list[0],
                list.iter().sum::<f64>() / list.len() as f64
            );
        }
    }
    world.finalize()
}
