//! What each rank did when: its calls, and the idle times in them.

use super::job::Job;
use circulant::record::{Call, Event, EventKind, Record};

/// One call at one rank, in nanoseconds since 1970.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) call: Call,
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// It has not ended.
    pub(crate) open: bool,
    /// Times at which nothing moved.
    pub(crate) idle: Vec<(i64, i64)>,
    /// Calls that are under way at one time have different numbers.
    pub(crate) lane: usize,
}

/// Calls by rank, in order of their beginnings.
#[derive(Debug)]
pub(crate) struct Spans {
    pub(crate) ranks: Vec<(u32, Vec<Span>)>,
    /// The first moment that is shown, and the last.
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// All calls, or those of the last seconds.
pub(crate) fn of(job: &Job, last: Option<f64>) -> Spans {
    let starts = job.records.values().filter_map(|r| Some(job.time(r, r.events.first()?.ticks)));
    let to = job.records.values().map(|r| job.end(r)).max().unwrap_or(0);
    let mut from = starts.min().unwrap_or(to);
    if let Some(seconds) = last {
        let ns = std::time::Duration::from_secs_f64(seconds).as_nanos();
        from = from.max(to.saturating_sub(i64::try_from(ns).unwrap_or(i64::MAX)));
    }
    let ranks = job.records.iter().map(|(rank, record)| (*rank, calls(job, record, from))).collect();
    Spans { ranks, from, to }
}

fn calls(job: &Job, record: &Record, from: i64) -> Vec<Span> {
    let (mut open, mut done): (Vec<Span>, Vec<Span>) = (Vec::new(), Vec::new());
    let mut idle: Option<(Call, i64)> = None;
    let mut before = i64::MIN;
    for event in &record.events {
        let at = job.time(record, event.ticks).max(before);
        before = at;
        end_idle(&mut open, &mut idle, at);
        take(&mut open, &mut done, &mut idle, event, at);
    }
    let end = job.end(record).max(before);
    end_idle(&mut open, &mut idle, end);
    done.extend(open.into_iter().map(|span| Span { end, open: true, ..span }));
    done.retain(|span| span.end >= from);
    for span in &mut done {
        span.start = span.start.max(from);
        span.idle.retain_mut(|(start, end)| {
            *start = (*start).max(from);
            start < end
        });
    }
    done.sort_by_key(|span| (span.start, span.end));
    done
}

/// Whatever happens, nothing is idle any more.
fn end_idle(open: &mut [Span], idle: &mut Option<(Call, i64)>, at: i64) {
    if let Some((call, since)) = idle.take()
        && let Some(span) = open.iter_mut().find(|s| s.call == call)
    {
        span.idle.push((since, at));
    }
}

fn take(open: &mut Vec<Span>, done: &mut Vec<Span>, idle: &mut Option<(Call, i64)>, event: &Event, at: i64) {
    let known = open.iter().position(|span| span.call == event.call);
    match (event.kind, known) {
        (EventKind::Leave, Some(i)) => {
            let span = open.remove(i);
            done.push(Span { end: at, ..span });
        }
        // Its beginning is overwritten, or it is no call: the last steps of finalize.
        (EventKind::Leave | EventKind::Idle, None) => return,
        (_, None) => {
            let lane = (0..).find(|lane| open.iter().all(|span| span.lane != *lane)).unwrap_or(0);
            let call = event.call.clone();
            open.push(Span { call, start: at, end: at, open: false, idle: Vec::new(), lane });
        }
        (_, Some(_)) => {}
    }
    if event.kind == EventKind::Idle {
        *idle = Some((event.call.clone(), at));
    }
}
