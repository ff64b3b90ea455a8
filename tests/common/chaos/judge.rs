//! Whether a program came to a right end.

use super::program::{CHECK, Item, Program};
use super::walk::{End, SILENCE, Told};
use std::time::Duration;

/// What ranks may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The deadline that they have set.
    pub deadline: Duration,
    /// And beyond it, for each rank that is gone.
    pub slack: Duration,
}

#[derive(Clone, Debug)]
pub struct Wrong {
    /// What kind of failure it is: shrinking keeps that.
    pub class: &'static str,
    pub text: String,
}

#[derive(Debug, Default)]
pub struct Verdict {
    pub wrong: Option<Wrong>,
    /// What is counted of it.
    pub notes: Vec<String>,
    /// How long after the last fault and the deadline the last rank ended.
    pub late: Duration,
}

/// Ranks whose fault it may be.
fn culprits(program: &Program, limits: Limits) -> Vec<usize> {
    let faults = program.faults().filter(|fault| !is_harmless(fault, limits));
    faults.filter_map(|fault| fault.culprits(&program.nodes)).flatten().collect()
}

/// What ends long before a deadline disturbs nothing: after a link was cut tcp sends again once more than twice that time is over.
fn is_harmless(item: &Item, limits: Limits) -> bool {
    let (Item::Stop { milliseconds, .. } | Item::Link { milliseconds: Some(milliseconds), .. }) = item else {
        return false;
    };
    u128::from(*milliseconds) * 2 < limits.deadline.as_millis()
}

/// What an error says that knows of no rank.
const UNKNOWN: &str = "the launcher does not say which";

/// Whether `error` says that one of `culprits` is to blame, or that it is not known which rank is.
fn names(error: &Told, culprits: &[usize]) -> bool {
    let text = &error.text;
    if text.contains(UNKNOWN) {
        return true;
    }
    let named = |rank: &usize| {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let rank = rank.to_string();
        let after = |at: usize| words[at + 1..].iter().take_while(|w| w.parse::<usize>().is_ok());
        words.iter().enumerate().any(|(i, w)| {
            matches!(*w, "rank" | "ranks" | "peer") && after(i).clone().any(|word| **word == *rank)
        })
    };
    error.peer.is_some_and(|peer| culprits.contains(&peer)) || culprits.iter().any(named)
}

/// Judges what the program came to.
pub fn judge(program: &Program, ends: &[End], limits: Limits) -> Verdict {
    let mut verdict = Verdict::default();
    let faults: Vec<&Item> = program.faults().collect();
    let kinds: Vec<String> = faults.iter().map(|f| kind(f, limits)).collect();
    let kinds = if kinds.is_empty() { "no fault".to_owned() } else { kinds.join(" and ") };
    let mode = if program.survives { "continue" } else { "end" };
    let failed = ends.iter().filter(|e| e.result.is_err()).count();
    let outcome = match failed {
        0 => "all ranks end well",
        n if n == ends.len() => "all ranks get an error",
        _ => "some ranks get an error",
    };
    verdict.notes.push(format!("{mode}: {kinds}: {outcome}"));
    let unnoticed = ends.iter().find_map(|end| end.unnoticed.as_ref());
    if let Some((odd, _)) = unnoticed.filter(|_| failed == 0) {
        verdict.notes.push(format!("not noticed without CIRCULANT_CHECK: another {odd:?}"));
    }
    let last = ends.iter().filter_map(|end| end.fault_at).max();
    if let Some(last) = last {
        let at = |end: &End| end.at.saturating_sub(last + limits.deadline);
        verdict.late = ends.iter().map(at).max().unwrap_or_default();
    }
    verdict.wrong = wrong(program, ends, &verdict, limits);
    verdict
}

fn kind(fault: &Item, limits: Limits) -> String {
    let text = format!("{fault:?}");
    let name = text.split([' ', '(']).next().unwrap_or_default().to_owned();
    match fault {
        Item::Odd { how, .. } => format!("another {how:?}"),
        Item::Link { how, milliseconds, .. } => {
            let length = if milliseconds.is_some() { "a while" } else { "good" };
            format!("Link {how:?} for {length}")
        }
        stop if is_harmless(stop, limits) => format!("short {name}"),
        _ => name,
    }
}

fn wrong(program: &Program, ends: &[End], verdict: &Verdict, limits: Limits) -> Option<Wrong> {
    let wrong = |class, text: String| Some(Wrong { class, text });
    for (rank, end) in ends.iter().enumerate() {
        if let Some(panic) = &end.panic {
            return wrong("wrong bytes or a panic", format!("rank {rank}: {panic}"));
        }
    }
    // Ranks end with their launcher, and say nothing.
    if program.items.contains(&Item::Launcher) {
        return None;
    }
    let checked = program.items.contains(&CHECK);
    if let Some((how, case)) = ends.iter().find_map(|end| end.unnoticed.as_ref()).filter(|_| checked) {
        return wrong("a check that is passed", format!("another {how:?} in {case}"));
    }
    let culprits = culprits(program, limits);
    let harmless = program.faults().all(|fault| is_harmless(fault, limits));
    let ends_itself =
        |item: &Item| matches!(item, Item::Link { .. } | Item::Odd { .. } | Item::Finalize { .. });
    let tells = program.faults().all(ends_itself);
    for (rank, end) in ends.iter().enumerate() {
        let Err(e) = &end.result else { continue };
        if harmless {
            return wrong("an error without a fault", format!("rank {rank}: {}", e.text));
        }
        if e.kind == SILENCE && tells {
            return wrong("a rank that says nothing", format!("rank {rank}: {}", e.text));
        }
        // What a rank says that is at fault, or dead, is its own.
        if culprits.contains(&rank) {
            continue;
        }
        if program.survives {
            return wrong("a survivor does not go on", format!("rank {rank}: {}", e.text));
        }
        if !names(e, &culprits) {
            return wrong("not the culprit", format!("rank {rank}: {} ({culprits:?} are)", e.text));
        }
        if e.kind == "Transport" {
            return wrong("a wrong class", format!("rank {rank}: {}", e.text));
        }
    }
    let kills = program.faults().filter(|f| matches!(f, Item::Kill { .. })).count();
    let waits = if program.survives { kills as u32 } else { 1 };
    if verdict.late > limits.slack * waits.max(1) {
        let late = verdict.late.as_secs_f64();
        return wrong("late", format!("{late:.1} s after the deadline"));
    }
    if program.survives {
        let left = ends.len() - kills;
        if let Some(end) = ends.iter().find(|end| end.result.is_ok() && end.size < left) {
            return wrong("too few are left", format!("{} of {left}", end.size));
        }
    }
    None
}
