//! A timeline in the JSON that ui.perfetto.dev and chrome://tracing read: a process per rank, a thread for each of the calls that are
//! under way at one time, idle times inside them, and arrows for messages.

use super::clocks;
use super::job::{Job, call_text};
use super::spans::{Span, Spans};
use circulant::record::{EventKind, NONE, Record};
use serde_json::{Value, json};

/// The text of the file.
pub(crate) fn json(job: &Job, spans: &Spans) -> String {
    let us = |ns: i64| (ns - spans.from) as f64 / 1000.0;
    let mut events = Vec::new();
    for (rank, calls) in &spans.ranks {
        let record = &job.records[rank];
        let name = format!("rank {rank} on {}", record.host);
        events.push(json!({"ph": "M", "name": "process_name", "pid": rank, "args": {"name": name}}));
        for span in calls {
            call(&mut events, *rank, span, us);
        }
        moments(&mut events, job, record, calls, spans.from, us);
    }
    for (id, [(from, sent), (to, arrived)]) in clocks::messages(&job.records).into_iter().enumerate() {
        let ends = [("s", from, sent), ("f", to, arrived)];
        let ends = ends.map(|(ph, rank, ticks)| (ph, rank, job.time(&job.records[&rank], ticks)));
        if ends.iter().any(|(_, _, at)| *at < spans.from) {
            continue;
        }
        for (ph, rank, at) in ends {
            let mut flow = json!({
                "ph": ph, "id": id, "name": "message", "cat": "message", "pid": rank, "tid": 0, "ts": us(at)
            });
            if ph == "f" {
                flow["bp"] = "e".into();
            }
            events.push(flow);
        }
    }
    json!({"displayTimeUnit": "ns", "traceEvents": events}).to_string()
}

fn call(events: &mut Vec<Value>, rank: u32, span: &Span, us: impl Fn(i64) -> f64) {
    let slice = |name: &str, cat: &str, (start, end): (i64, i64)| {
        json!({
            "ph": "X", "name": name, "cat": cat, "pid": rank, "tid": span.lane, "ts": us(start),
            "dur": (end - start) as f64 / 1000.0
        })
    };
    let mut whole = slice(&call_text(&span.call), "call", (span.start, span.end));
    whole["args"] =
        json!({"operation": &*span.call.operation, "number": span.call.sequence, "ended": !span.open});
    events.push(whole);
    events.extend(span.idle.iter().map(|idle| slice("idle", "idle", *idle)));
}

/// Puts, messages and arrivals.
fn moments(
    events: &mut Vec<Value>,
    job: &Job,
    record: &Record,
    calls: &[Span],
    from: i64,
    us: impl Fn(i64) -> f64,
) {
    for event in &record.events {
        let at = job.time(record, event.ticks);
        if at < from || matches!(event.kind, EventKind::Enter | EventKind::Leave | EventKind::Idle) {
            continue;
        }
        let lane =
            calls.iter().find(|s| s.call == event.call && s.start <= at && at <= s.end).map_or(0, |s| s.lane);
        let known = |n: u32| if n == NONE { Value::Null } else { n.into() };
        events.push(json!({
            "ph": "i", "s": "t", "name": event.kind.word(), "cat": "event", "pid": record.rank, "tid": lane, "ts": us(at),
            "args": {"peer": known(event.peer), "round": known(event.round), "block": known(event.block)}
        }));
    }
}
