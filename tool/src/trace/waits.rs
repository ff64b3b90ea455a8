//! The calls under way: for which rank each waits, and what that rank does.

use super::job::{Job, call_text, ranks_text};
use crate::units::{self, time};
use circulant::record::{Call, EventKind, Missing, NONE, Record, Wait};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What the records are, their errors, and who waits for whom.
pub(crate) fn text(job: &Job) -> String {
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = head(&mut text, job);
    let _ = errors(&mut text, job);
    let _ = waits(&mut text, job);
    text
}

fn head(text: &mut String, job: &Job) -> std::fmt::Result {
    let (found, size) = (job.records.len() as u64, u64::from(job.size));
    let nodes = units::plural(job.clocks.hosts.len() as u64, "node");
    write!(text, "{found} of {} on {nodes}", units::plural(size, "rank"))?;
    let lost: u64 = job.records.values().map(|r| r.lost).sum();
    let events: usize = job.records.values().map(|r| r.events.len()).sum();
    write!(text, ", {}", units::plural(events as u64, "event"))?;
    if lost > 0 {
        write!(text, " ({lost} earlier ones are overwritten)")?;
    }
    writeln!(text)?;
    let absent: Vec<u32> = (0..job.size).filter(|rank| !job.records.contains_key(rank)).collect();
    if !absent.is_empty() {
        writeln!(text, "no record: {}", ranks_text(&absent))?;
    }
    for host in job.clocks.hosts.iter().skip(1) {
        match job.clocks.ahead(host) {
            _ if job.clocks.alone.contains(host) => {
                writeln!(text, "clock of {host}: not compared, as no messages went both ways")?;
            }
            ns => {
                let which = if ns < 0 { "behind" } else { "ahead" };
                writeln!(
                    text,
                    "clock of {host}: {} {which}, which is corrected",
                    time(ns.unsigned_abs() as f64)
                )?;
            }
        }
    }
    Ok(())
}

/// Each error once, with the ranks that have it.
fn errors(text: &mut String, job: &Job) -> std::fmt::Result {
    let mut errors: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (rank, record) in &job.records {
        if let Some(error) = &record.error {
            let own = format!("rank {rank}: ");
            errors.entry(error.strip_prefix(&own).unwrap_or(error)).or_default().push(*rank);
        }
    }
    for (error, ranks) in errors {
        writeln!(text, "error at {}: {error}", ranks_text(&ranks))?;
    }
    Ok(())
}

/// What is awaited: the call, what is missing, and of which rank.
type Awaited<'a> = (&'a Call, u8, u32);

fn waits(text: &mut String, job: &Job) -> std::fmt::Result {
    let mut groups: BTreeMap<Awaited<'_>, Vec<(u32, &Wait)>> = BTreeMap::new();
    for (rank, record) in &job.records {
        for wait in &record.waits {
            groups.entry((&wait.call, wait.what as u8, wait.peer)).or_default().push((*rank, wait));
        }
    }
    if groups.is_empty() {
        return writeln!(text, "no call is under way");
    }
    for ((call, _, peer), list) in &groups {
        let ranks: Vec<u32> = list.iter().map(|(rank, _)| *rank).collect();
        let (verb, one) = if ranks.len() == 1 { ("waits", Some(list[0].1)) } else { ("wait", None) };
        write!(
            text,
            "{} {verb} in {}{}",
            ranks_text(&ranks),
            call_text(call),
            what(list[0].1, one.is_some())
        )?;
        let since = ranks.iter().filter_map(|rank| since(job, &job.records[rank], call)).max();
        if let Some(ns) = since {
            write!(text, ", {}", if ranks.len() == 1 { "for " } else { "for up to " })?;
            write!(text, "{}", time(ns as f64))?;
        }
        writeln!(text, "{}", state(job, call, *peer))?;
    }
    causes(text, job)
}

/// Ranks that others wait for and that wait for none themselves.
fn causes(text: &mut String, job: &Job) -> std::fmt::Result {
    let waits = || job.records.values().flat_map(|r| &r.waits);
    let awaited: BTreeSet<u32> = waits().map(|w| w.peer).filter(|peer| *peer != NONE).collect();
    let stuck = |rank: &u32| job.records.get(rank).is_some_and(|r| r.waits.iter().any(|w| w.peer != NONE));
    let first: Vec<u32> = awaited.into_iter().filter(|rank| !stuck(rank)).collect();
    match first.is_empty() {
        true => Ok(()),
        false => writeln!(text, "all wait for {} in the end", ranks_text(&first)),
    }
}

/// ` round 7 for block 3 of rank 2 (4 KB)`.
fn what(wait: &Wait, alone: bool) -> String {
    let round = match wait.round {
        NONE => String::new(),
        _ if !alone => String::new(),
        round => format!(" round {round}"),
    };
    let peer = if wait.peer == NONE { "others".to_owned() } else { format!("rank {}", wait.peer) };
    match wait.what {
        Missing::Bytes if alone && wait.block != NONE => {
            let bytes =
                if wait.bytes > 0 { format!(" ({})", units::size(wait.bytes)) } else { String::new() };
            format!("{round} for block {} of {peer}{bytes}", wait.block)
        }
        Missing::Bytes => format!("{round} for data of {peer}"),
        Missing::Acknowledgement => format!("{round} for an acknowledgement of {peer}"),
        Missing::Nothing => " for messages of its own to leave".to_owned(),
        _ => format!("{round} for {peer} to enter"),
    }
}

/// How long a rank has been idle in this call, or else in it.
fn since(job: &Job, record: &Record, call: &Call) -> Option<i64> {
    Some(job.end(record) - job.time(record, job.last_in(record, call)?.ticks))
}

/// What the rank that is awaited in `call` does.
fn state(job: &Job, call: &Call, peer: u32) -> String {
    if peer == NONE {
        return String::new();
    }
    let Some(record) = job.records.get(&peer) else { return format!("; rank {peer} left no record") };
    // Numbers wrap around.
    let beyond =
        |other: &Call| other.comm == call.comm && other.sequence.wrapping_sub(call.sequence) < 1 << 31;
    let entered =
        record.events.iter().any(|e| e.call == *call) || record.entered.as_ref().is_some_and(beyond);
    if entered {
        return match record.waits.iter().any(|w| w.call == *call) {
            true => format!("; rank {peer} is in it, too"),
            false => format!("; rank {peer} has left it"),
        };
    }
    let doing = match (record.waits.first(), &record.completed) {
        (Some(wait), _) => format!("it is in {}", call_text(&wait.call)),
        (None, Some(last)) => {
            let left = record.events.iter().rev().find(|e| e.call == *last && e.kind == EventKind::Leave);
            let ago = left.map(|e| time((job.end(record) - job.time(record, e.ticks)) as f64));
            format!(
                "it left {}{}",
                call_text(last),
                ago.map_or_else(String::new, |ago| format!(" {ago} ago"))
            )
        }
        (None, None) => "it has been in no call".to_owned(),
    };
    format!("; rank {peer} never entered {}: {doing}", short(call))
}

fn short(call: &Call) -> String {
    format!("#{}", call.sequence)
}
