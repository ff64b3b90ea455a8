//! What developers run: `cargo run --release -p xtask -- paper all`.

mod choices;
mod draw;
mod memory;
mod paper;
mod startup;
mod tool;

use circulant::diagnostics::CountingAllocator;
use std::io::Write;
use std::process::ExitCode;
// Where the tool's own files look for it.
use tool::units;

/// `memory` shows what it counts.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const USAGE: &str = "\
Usage: cargo run --release -p xtask -- paper [NAME|all]
       cargo run --release -p xtask -- draw-schedule [P [N]]
       cargo run --release -p xtask -- choices [OPERATION] [--csv | --against FILE]
       cargo run --release -p xtask -- startup [--nodes N] [--ppn M] [--fanout F] [--ssh-ms T] [--byte-ps B]
       cargo run --release -p xtask -- memory

paper: prints a paper's tables beside what is computed here, and whether they agree; without NAME lists the papers. Where
a paper is known to be wrong, both values are shown and why. Exit code: 1 when something differs that should not, 2 for
wrong words.

draw-schedule: a broadcast of N blocks (4) to P ranks (9) as SVG.

choices: what the prices choose beside the best by the simulator, over a grid of operations, ranks, ranks per node, cores, sizes and
wires (a minute, on 2 idle cores). --csv prints every point; with --against what --csv printed of another tree is judged, too.

startup: the start-up of a job on 10000 nodes of 100 ranks, or as many as are said, by a simulation of the launcher's tree and of the servers of nodes.

memory: the bytes that one rank takes to make its program of a call of many steps, and to keep it.
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["paper"] => Ok((paper::list(), 0)),
        ["paper", name] => paper::check(name).map_err(|e| e.to_string()),
        ["draw-schedule", ref words @ ..] => draw::schedule(words).map(|svg| (svg, 0)),
        ["choices", ref words @ ..] => choices::run(words).map(|text| (text, 0)),
        ["startup", ref words @ ..] => startup::table(words).map(|text| (text, 0)),
        ["memory"] => memory::table().map(|text| (text, 0)),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok((text, differing)) => show(&text, differing),
        Err(said) => {
            eprintln!("xtask: {said}");
            ExitCode::from(2)
        }
    }
}

fn show(text: &str, differing: u32) -> ExitCode {
    // A reader that had enough (`| head`) is no failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
    if differing > 0 {
        eprintln!("xtask: {differing} of the values differ from the papers' without a known reason");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
