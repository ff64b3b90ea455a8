//! The set-up of a call and nothing else: the work that `ci/instructions` counts.
//!
//! `plan_cost NAME PART P REPS`, where PART is `plan` (plan and lowering), `choice` (of an algorithm) or `nothing`: what
//! there is besides. `plan_cost` alone lists the names.

#[path = "../common/calls.rs"]
mod calls;

use std::hint::black_box;

use calls::{LIMITS, MODEL, calls};
use circulant::machine::Machine;
use circulant::plan::lower::lower;
use circulant::plan::registry::algorithm;
use circulant::select::{Selection, Settings};

fn main() -> circulant::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some([name, part]), Some(size), Some(reps)) = (
        words.first_chunk::<2>(),
        words.get(2).and_then(|p| p.parse().ok()),
        words.get(3).and_then(|n| n.parse::<u32>().ok()),
    ) else {
        calls(1152).iter().for_each(|(name, ..)| println!("{name}"));
        return Ok(());
    };
    let found = calls(size).into_iter().find(|(call, ..)| call == name);
    let Some((_, operation, arguments)) = found else {
        eprintln!("there is no call {name:?}");
        std::process::exit(2);
    };
    let line = algorithm(operation, "circulant")?;
    let (choices, machine) = (Settings::default(), Machine::flat(MODEL));
    let selections: Vec<Selection> =
        (0..reps).map(|_| Selection::of(&choices, machine)).collect::<Result<_, _>>()?;
    for rank in 0..reps {
        match part.as_str() {
            "choice" => {
                let selection = &selections[rank as usize];
                black_box(selection.choose(operation, black_box(&arguments), None, false)?);
            }
            "plan" => {
                let plan = (line.build)(black_box(&arguments), &MODEL)?;
                black_box(lower(plan.as_ref(), black_box(rank % size), &LIMITS)?);
            }
            _ => {}
        }
    }
    Ok(())
}
