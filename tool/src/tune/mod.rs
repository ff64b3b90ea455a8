//! `circulant tune`: measures the wires and memory for the prices, and says how far the prices were from the truth.

mod args;
mod memory;
mod verify;

pub(crate) use args::TuneArgs;

use crate::agree::{agree, host};
use crate::files::{Staged, vacant};
use crate::outcome::{Failure, Out, leave};
use crate::units;
use circulant::World;
use circulant::machine::LogGp;
use circulant::measure::{self, Wire};
use circulant::select::{BETWEEN, Tuning, WITHIN};
use indicatif::{ProgressBar, ProgressStyle};

/// Runs the subcommand.
pub(crate) fn run(args: &TuneArgs) -> Result<(), Failure> {
    let mut world = World::init()?;
    let done = all(args, &mut world);
    leave(world, done)
}

fn all(args: &TuneArgs, world: &mut World) -> Result<(), Failure> {
    let comm = world.comm();
    if cfg!(debug_assertions) && !args.keep && world.rank() == 0 {
        tracing::warn!("this program was built without optimisation: o, and all of memory, will look slow");
    }
    let free = match &args.output {
        Some(path) if world.rank() == 0 => vacant(path, args.force),
        _ => Ok(()),
    };
    agree(&comm, free)?;
    let mut out = Out::new();
    let written = if args.keep {
        alike(world)?;
        if world.rank() == 0 {
            out.text(&in_force(world));
        }
        Ok(())
    } else {
        let tuning = measure(world)?;
        world.tune(&tuning)?;
        if world.rank() == 0 { write(args, &tuning, &mut out) } else { Ok(()) }
    };
    agree(&comm, written)?;
    if args.verify {
        verify::run(args, world, &mut out)?;
    }
    // A reader that had enough is no failure of the job.
    agree(&comm, out.finish())
}

/// Ranks that choose by other figures would wait for each other for ever: it would be our fault.
fn alike(world: &World) -> Result<(), Failure> {
    let (machine, _) = measure::machine(&world.comm())?;
    let figures = |l: &LogGp| [l.latency_ns, l.overhead_ns, l.byte_ps, l.reduce_ps, machine.reduce_cached_ps];
    let mine = [figures(&machine.wire), figures(&machine.near)];
    let mut all = vec![[[0u64; 5]; 2]; world.size()];
    world.comm().allgather(&[mine], &mut all)?;
    match all.iter().position(|other| *other != all[0]) {
        Some(rank) => {
            let said = format!("ranks 0 and {rank} have other figures: {:?}, {:?}", all[0], all[rank]);
            Err(Failure::new(1, said).everywhere())
        }
        None => Ok(()),
    }
}

/// The figures of the prices, and where they come from.
fn in_force(world: &World) -> String {
    let Ok((machine, source)) = measure::machine(&world.comm()) else { return String::new() };
    let line = |what: &str, wire: LogGp| {
        format!("{what}: {}, {}\n", units::wire_text(&wire.into()), units::gamma_text(&machine))
    };
    let mut text = format!("provider {}; figures from {source}\n", world.provider());
    let nodes = world.nodes();
    if nodes.iter().any(|node| *node != nodes[0]) {
        text += &line("between nodes", machine.wire);
    }
    text + &line("within a node", machine.near)
}

/// Measures everything; whole at rank 0. Collective.
fn measure(world: &World) -> Result<Tuning, Failure> {
    let comm = world.comm();
    // Hidden by itself unless standard error is a terminal.
    let bar = if world.rank() == 0 { ProgressBar::new(3) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    let mut tuning = Tuning::default();
    about(world, &mut tuning);
    let mut links = Vec::new();
    for (section, pair) in pairs(world.nodes()) {
        bar.set_message(format!("{section}: ranks {} and {}", pair[0], pair[1]));
        let mut link = link(&measure::wire_between(&comm, pair)?, pair)?;
        if links.is_empty() {
            // What schedules use most: o is of a rank among all that are busy, not of two while the others sleep.
            let busy = measure::block_overhead(&comm, link.byte_ps as f64 / 1000.0)?;
            link.overhead_ns = link.overhead_ns.max(memory::whole(busy));
        }
        tuning.set_link(section, link);
        links.push(link);
        bar.inc(1);
    }
    bar.set_message("memory");
    let measured = if world.rank() == 0 { memory::measure(links.first(), &mut tuning) } else { Ok(()) };
    agree(&comm, measured)?;
    bar.finish_and_clear();
    Ok(tuning)
}

/// All ranks have the same figures, so they fail alike.
fn link(wire: &Wire, [one, other]: [usize; 2]) -> Result<LogGp, Failure> {
    if wire.byte_ns.is_nan() {
        let said = format!(
            "the times of puts between ranks {one} and {other} vary by more than their bytes cost: try again while the \
             machine does nothing else, or over another provider"
        );
        return Err(Failure::new(1, said).everywhere());
    }
    Ok(LogGp {
        latency_ns: memory::whole(wire.latency_ns),
        overhead_ns: memory::whole(wire.overhead_ns),
        // A wire that costs nothing would make any number of bytes look alike.
        byte_ps: memory::whole(1e3 * wire.byte_ns).max(1),
        // Measured by itself.
        reduce_ps: 0,
    })
}

/// The pairs to measure: of different nodes, and of one node, as far as there are such. The first ones are for most
/// messages.
fn pairs(nodes: &[u32]) -> Vec<(&'static str, [usize; 2])> {
    let other = nodes.iter().position(|node| *node != nodes[0]);
    let between = other.map(|rank| (BETWEEN, [0, rank]));
    let local_peer = |rank: usize| (rank + 1..nodes.len()).find(|other| nodes[*other] == nodes[rank]);
    let within = (0..nodes.len()).find_map(|rank| Some((WITHIN, [rank, local_peer(rank)?])));
    between.into_iter().chain(within).collect()
}

fn about(world: &World, tuning: &mut Tuning) {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    tuning.set_text("measured.provider", world.provider());
    tuning.set_text("measured.version", env!("CARGO_PKG_VERSION"));
    tuning.set_text("measured.date", &date(seconds.map_or(0, |t| t.as_secs())));
    tuning.set("measured.hosts", world.nodes().iter().max().map_or(1, |n| u64::from(*n) + 1));
    tuning.set("measured.ranks", world.size() as u64);
}

/// `2026-11-21 12:03`, from seconds since 1970, by the calendar of today.
fn date(seconds: u64) -> String {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut days, mut year) = (seconds / 86_400, 1970);
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for len in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < len {
            break;
        }
        days -= len;
        month += 1;
    }
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02}", days + 1)
}

/// To the file in one step, or to standard output.
fn write(args: &TuneArgs, tuning: &Tuning, out: &mut Out) -> Result<(), Failure> {
    let text = tuning.to_string();
    let Some(path) = &args.output else {
        out.text(&text);
        return Ok(());
    };
    let token = format!("{}-{}", host(), std::process::id());
    let mut staged = Staged::create(path.clone(), text.len() as u64, &token, true)?;
    staged.write(text.as_bytes(), 0)?;
    staged.complete(0o644)?;
    staged.publish(args.force, &token)?;
    staged.settle();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00"),
            (951_782_400, "2000-02-29 00:00"),
            (951_868_799, "2000-02-29 23:59"),
            (1_735_689_599, "2024-12-31 23:59"),
            (4_107_542_400, "2100-03-01 00:00"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }

    #[test]
    fn pairs_are_of_both_kinds() {
        assert_eq!(pairs(&[0]), []);
        assert_eq!(pairs(&[0, 0, 0]), [(WITHIN, [0, 1])]);
        assert_eq!(pairs(&[0, 1]), [(BETWEEN, [0, 1])]);
        assert_eq!(pairs(&[0, 1, 1, 0]), [(BETWEEN, [0, 1]), (WITHIN, [0, 3])]);
        assert_eq!(pairs(&[0, 1, 1]), [(BETWEEN, [0, 1]), (WITHIN, [1, 2])]);
    }
}
