//! One algorithm through the simulator: counted first, so that nothing is begun that cannot be ended.

use super::case::Case;
use crate::info::machine::Limits;
use crate::outcome::Failure;
use circulant::ErrorKind;
use circulant::plan::lower::{WireLimits, light_bytes};
use circulant::plan::price::{Clock, Tape, Transfer};
use circulant::plan::registry::{Algorithm, Arguments};
use circulant::plan::{Kind, Plan};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Local segments per put, as most providers allow.
const GATHER: usize = 4;
/// Ranks whose steps are counted for an estimate.
const SAMPLES: u32 = 64;
/// Events between two looks at the progress bar.
const STRIDE: u64 = 200_000;

/// What came out of one algorithm.
#[derive(Debug)]
pub(crate) enum Outcome {
    Ran(Box<Ran>),
    /// It cannot do this: why.
    Unfit(String),
    /// Too many steps.
    OutOfReach(Reach),
}

/// What an algorithm would take that is not run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// About how many steps.
    pub(crate) steps: f64,
    /// The memory that is free, in bytes, where that is too little.
    pub(crate) free: Option<u64>,
}

/// What a step takes: docs/simulator.md, "Many ranks".
const STEP_BYTES: f64 = 50.0;
const STEP_NS: f64 = 1200.0;

impl Reach {
    /// Whether `steps` are within the budget and the memory that is free; else what is not.
    fn check(steps: f64, budget: u64, free: Option<u64>) -> Option<Self> {
        if steps > budget as f64 {
            return Some(Self { steps, free: None });
        }
        let free = free.filter(|free| steps * STEP_BYTES > *free as f64);
        free.map(|free| Self { steps, free: Some(free) })
    }

    pub(crate) fn bytes(&self) -> f64 {
        self.steps * STEP_BYTES
    }

    pub(crate) fn ns(&self) -> f64 {
        self.steps * STEP_NS
    }
}

/// A simulation that ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) ns: u64,
    pub(crate) rounds: u32,
    pub(crate) puts: u64,
    pub(crate) bytes: u64,
    /// Of these, from node to node.
    pub(crate) crossing: u64,
    /// Of these, from group to group.
    pub(crate) global: u64,
    /// The copies of a message were made one: [`Plan::outline`].
    pub(crate) outlined: bool,
    /// All puts in the order of their arrival, if they were to be remembered.
    pub(crate) transfers: Vec<Transfer>,
}

/// Runs `algorithm` for the case, unless it would take more than `budget` steps.
pub(crate) fn run(
    case: &Case,
    arguments: &Arguments,
    algorithm: &Algorithm,
    budget: u64,
    remember: bool,
) -> Result<Outcome, Failure> {
    if let Err(e) = (algorithm.fits)(arguments) {
        return Ok(Outcome::Unfit(e.to_string()));
    }
    let blocks = algorithm.blocks_on(arguments, &case.machine);
    let mut plan = match (algorithm.build)(&Arguments { blocks, ..arguments.clone() }, &case.machine.wire) {
        Ok(plan) => plan,
        Err(e) if e.kind() == ErrorKind::Argument => return Ok(Outcome::Unfit(e.to_string())),
        Err(e) => return Err(e.into()),
    };
    let free = Limits::read().memory_available;
    let reach = |plan: &dyn Plan| Reach::check(estimate(plan, case.root, budget), budget, free);
    let mut outlined = false;
    if let Some(reached) = reach(&*plan) {
        match plan.outline().filter(|outline| reach(&**outline).is_none()) {
            Some(outline) => (plan, outlined) = (outline, true),
            None => return Ok(Outcome::OutOfReach(reached)),
        }
    }
    let bar = Bar::new(algorithm.name);
    let model = &case.machine.wire;
    let limits = WireLimits::new(u64::MAX, GATHER, light_bytes(model), model);
    let recorded = Tape::record(&*plan, &limits, |rank, tape| {
        bar.recorded(rank, plan.size());
        // The estimate is from samples; this is the truth.
        match tape.ops() > budget.saturating_mul(2) {
            true => Err(circulant::Error::new(ErrorKind::System, "over the budget")),
            false => Ok(()),
        }
    });
    let tape = match recorded {
        Ok(tape) => tape,
        Err(e) if e.kind() == ErrorKind::System => {
            return Ok(Outcome::OutOfReach(Reach { steps: budget as f64 * 2.0, free: None }));
        }
        Err(e) => return Err(e.into()),
    };
    let (puts, bytes) = (tape.puts(), tape.bytes());
    let mut clock = Clock::new(tape, case.machine);
    if remember {
        clock.remember();
    }
    while clock.run(STRIDE) {
        bar.ran(clock.done(), clock.tape().ops());
    }
    if !clock.finished() {
        let said = format!("{}: the plan stops half-way; this is a fault of circulant's", algorithm.name);
        return Err(Failure::new(1, said));
    }
    let (ns, crossing, global) = (clock.time_ns(), clock.crossing(), clock.global());
    let transfers = clock.into_transfers();
    let rounds = plan.rounds();
    Ok(Outcome::Ran(Box::new(Ran { ns, rounds, puts, bytes, crossing, global, outlined, transfers })))
}

/// About how many steps the ranks have together to do: the root's, those of rank 0, by way of which others may go, and those of some others times how
/// many they stand for. Counting stops where it is clear.
fn estimate(plan: &dyn Plan, root: u32, budget: u64) -> f64 {
    let most = usize::try_from(budget).unwrap_or(usize::MAX).saturating_add(1);
    let count = |rank: u32| {
        let own = plan.steps(rank).filter(|step| !matches!(step.kind, Kind::Expect | Kind::ExpectNotify));
        own.take(most).count() as f64
    };
    let (p, samples) = (plan.size(), SAMPLES.min(plan.size() - 1));
    let mut total = count(root) + if root > 0 { count(0) } else { 0.0 };
    let own = total;
    let others = f64::from(p - 1 - u32::from(root > 0));
    let mut sum = 0.0;
    for i in 0..samples {
        // Spread, and odd and even ranks alike: in trees half of the ranks are leaves.
        let at = (u64::from(i) * u64::from(p - 1) / u64::from(samples)) | u64::from(i % 2);
        let rank = (u64::from(root) + 1 + at) % u64::from(p);
        sum += count(u32::try_from(rank).unwrap_or(0).max(1));
        total = own + sum / f64::from(i + 1) * others;
        if i > 2 && total > 4.0 * budget as f64 {
            break;
        }
    }
    total
}

/// On standard error while it takes long: a bar where that is a terminal, else a line now and then.
struct Bar {
    name: &'static str,
    bar: ProgressBar,
}

impl Bar {
    fn new(name: &'static str) -> Self {
        let bar = ProgressBar::new(100);
        if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:30} {percent} % {msg} ({elapsed})") {
            bar.set_style(style);
        }
        bar.set_prefix(name);
        Self { name, bar }
    }

    /// Recording takes about a quarter of the time.
    fn recorded(&self, rank: u32, size: u32) {
        if rank.is_multiple_of(1024) {
            self.show("making the plan", u64::from(rank) * 25 / u64::from(size));
        }
    }

    fn ran(&self, done: u64, of: u64) {
        self.show("running", 25 + done * 75 / of.max(1));
    }

    fn show(&self, doing: &'static str, percent: u64) {
        self.bar.set_message(doing);
        self.bar.set_position(percent);
        if self.bar.is_hidden()
            && let Some(seconds) = PULSE.due(Instant::now())
        {
            // Nothing can be done when standard error is gone.
            let line = format!("circulant: {}: {doing}, {percent} % ({seconds} s in all)\n", self.name);
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Seconds between two lines.
const PERIOD: u64 = 5;

/// Of all algorithms together: many short ones take long, too.
static PULSE: LazyLock<Pulse> = LazyLock::new(|| Pulse::new(Instant::now()));

/// When the next line is due.
struct Pulse {
    begun: Instant,
    /// In seconds since then.
    next: AtomicU64,
}

impl Pulse {
    fn new(begun: Instant) -> Self {
        Self { begun, next: AtomicU64::new(PERIOD) }
    }

    /// Whether a line is due: the seconds that have passed, then.
    fn due(&self, now: Instant) -> Option<u64> {
        let passed = now.saturating_duration_since(self.begun).as_secs();
        if passed < self.next.load(Ordering::Relaxed) {
            return None;
        }
        self.next.store(passed + PERIOD, Ordering::Relaxed);
        Some(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::dist::Dist;
    use circulant::machine::{LogGp, Machine};
    use circulant::plan::registry::{Operation, algorithm, algorithms};

    fn case(operation: Operation, p: u32) -> Case {
        let model = LogGp { latency_ns: 1000, overhead_ns: 100, byte_ps: 500, reduce_ps: 0 };
        let dist = Dist::find("irr3").unwrap();
        let setting = crate::settings::Setting::find("s7").unwrap();
        let machine = Machine::flat(model);
        Case { operation, p, bytes: 100_000, dist, setting, first: None, root: 3, blocks: None, machine }
    }

    #[test]
    fn a_line_is_due_every_few_seconds() {
        let begun = Instant::now();
        let pulse = Pulse::new(begun);
        let due = |seconds| pulse.due(begun + std::time::Duration::from_secs(seconds));
        assert_eq!([1, 5, 6, 9, 17, 18].map(due), [None, Some(5), None, None, Some(17), None]);
    }

    /// Estimates are within a factor of two of the truth.
    #[test]
    fn estimates_are_good() {
        for operation in Operation::ALL {
            for p in [64, 200] {
                let case = case(operation, p);
                let arguments = case.arguments().unwrap();
                for a in algorithms(operation).filter(|a| (a.fits)(&arguments).is_ok()) {
                    let plan = (a.build)(&arguments, &case.machine.wire).unwrap();
                    let steps = (0..p).flat_map(|rank| plan.steps(rank));
                    let own = steps.filter(|s| !matches!(s.kind, Kind::Expect | Kind::ExpectNotify));
                    let ratio = estimate(&*plan, case.root, u64::MAX) / own.count() as f64;
                    assert!((0.5..=2.0).contains(&ratio), "{operation} {} {p}: {ratio}", a.name);
                }
            }
        }
    }

    #[test]
    fn what_is_out_of_reach_is_not_begun() {
        let case = case(Operation::Bcast, 1_000_000);
        let arguments = Arguments { blocks: Some(1000), ..case.arguments().unwrap() };
        let chain = algorithm(Operation::Bcast, "chain").unwrap();
        match run(&case, &arguments, chain, 1_000_000, false).unwrap() {
            Outcome::OutOfReach(reach) => assert!((0.9e9..=1.1e9).contains(&reach.steps), "{reach:?}"),
            other => panic!("{other:?}"),
        }
        let cube = algorithm(Operation::Bcast, "hypercube").unwrap();
        assert!(matches!(run(&case, &arguments, cube, 1000, false).unwrap(), Outcome::Unfit(_)));
    }

    /// What has no room is not begun either, whatever the budget; an alltoall that packs is run in outline.
    #[test]
    fn steps_must_fit_into_memory() {
        assert!(Reach::check(1e6, 1_000_000, Some(50_000_000)).is_none());
        assert!(Reach::check(1e6, 999_999, None).is_some_and(|reach| reach.free.is_none()));
        let reach = Reach::check(1e9, u64::MAX, Some(1 << 30)).unwrap();
        assert_eq!((reach.free, reach.bytes()), (Some(1 << 30), 5e10));
        let case = Case { bytes: 40_000, ..case(Operation::Alltoall, 2000) };
        let arguments = case.arguments().unwrap();
        let ran =
            |name| run(&case, &arguments, algorithm(Operation::Alltoall, name).unwrap(), 1_000_000, false);
        assert!(matches!(ran("direct").unwrap(), Outcome::OutOfReach(_)));
        match ran("circulant").unwrap() {
            Outcome::Ran(ran) => assert!(ran.outlined && ran.puts == 2000 * 11, "{ran:?}"),
            other => panic!("{other:?}"),
        }
    }
}
