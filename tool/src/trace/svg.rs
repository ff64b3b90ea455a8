//! A timeline as a drawing: a row per rank, dark where it is busy in a call, light where it waits in one, a thin line between calls.

use super::job::{Job, call_text};
use super::spans::{Span, Spans};
use crate::outcome::Failure;
use crate::units::{self, time};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

const TOP: usize = 84;
const LEFT: usize = 64;
const WIDTH: usize = 1040;
const ROW: usize = 18;
const BAR: usize = 12;
/// More bars than this make a file that no viewer opens.
const MAX_BARS: usize = 40_000;
/// Divisions of the axis.
const MARKS: i64 = 8;

/// A colour for each operation, by its name.
type Colours = BTreeMap<Arc<str>, usize>;

/// The drawing.
pub(crate) fn drawn(job: &Job, spans: &Spans) -> Result<String, Failure> {
    let calls = || spans.ranks.iter().flat_map(|(_, calls)| calls);
    let bars: usize = calls().map(|span| 1 + span.idle.len()).sum();
    if bars > MAX_BARS {
        let said =
            format!("{bars} bars are too many for a drawing; --last SECONDS shows fewer, --perfetto all");
        return Err(Failure::usage(said));
    }
    let mut colours = Colours::new();
    for span in calls() {
        let next = colours.len();
        colours.entry(Arc::clone(&span.call.operation)).or_insert(next);
    }
    let mut svg = String::new();
    // Writing into a string does not fail.
    let _ = paint(&mut svg, job, spans, &colours);
    Ok(svg)
}

/// Neighbouring operations in colours far apart; what is idle in the light one.
fn colour(operation: usize, idle: bool) -> String {
    format!("hsl({},55%,{}%)", (210 + operation * 137) % 360, if idle { 86 } else { 42 })
}

/// From nanoseconds to where on the sheet.
fn x(spans: &Spans, ns: i64) -> f64 {
    let span = (spans.to - spans.from).max(1);
    LEFT as f64 + (ns - spans.from) as f64 / span as f64 * WIDTH as f64
}

fn paint(svg: &mut String, job: &Job, spans: &Spans, colours: &Colours) -> std::fmt::Result {
    let bottom = TOP + spans.ranks.len() * ROW;
    let (width, height) = (LEFT + WIDTH + 40, bottom + 56);
    let ranks = units::plural(u64::from(job.size), "rank");
    let what = format!("{ranks}, {}", time((spans.to - spans.from) as f64));
    writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\">\n\
         <title>{what}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"30\" font-size=\"20\" fill=\"#22262b\">{what}: dark is busy in a call, light waits</text>"
    )?;
    legend(svg, colours)?;
    axis(svg, spans, bottom)?;
    for (row, (rank, calls)) in spans.ranks.iter().enumerate() {
        let y = TOP + row * ROW;
        writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{m}\" x2=\"{}\" y2=\"{m}\" stroke=\"#c9ced6\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#22262b\">{rank}</text>",
            LEFT + WIDTH,
            LEFT - 8,
            y + BAR - 1,
            m = y + BAR / 2,
        )?;
        calls.iter().try_for_each(|span| bars(svg, spans, span, y, colours))?;
    }
    writeln!(svg, "</svg>")
}

fn legend(svg: &mut String, colours: &Colours) -> std::fmt::Result {
    let mut at = LEFT;
    for (operation, n) in colours {
        writeln!(
            svg,
            "<rect x=\"{at}\" y=\"44\" width=\"12\" height=\"12\" fill=\"{}\"/><rect x=\"{}\" y=\"44\" width=\"12\" \
             height=\"12\" fill=\"{}\"/><text x=\"{}\" y=\"54\" fill=\"#22262b\">{}</text>",
            colour(*n, false),
            at + 12,
            colour(*n, true),
            at + 30,
            escaped(operation)
        )?;
        at += 50 + 7 * operation.len();
    }
    Ok(())
}

fn axis(svg: &mut String, spans: &Spans, bottom: usize) -> std::fmt::Result {
    for mark in 0..=MARKS {
        let since = (spans.to - spans.from) / MARKS * mark;
        let x = x(spans, spans.from + since);
        writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#f1f3f5\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#6a727c\">{}</text>",
            bottom + 18,
            time(since as f64)
        )?;
    }
    Ok(())
}

fn bars(svg: &mut String, spans: &Spans, span: &Span, y: usize, colours: &Colours) -> std::fmt::Result {
    let n = colours.get(&span.call.operation).copied().unwrap_or(0);
    let call = escaped(&call_text(&span.call));
    let whole = [((span.start, span.end), false)];
    let parts = whole.into_iter().chain(span.idle.iter().map(|idle| (*idle, true)));
    for ((start, end), idle) in parts {
        let does = match (idle, span.open) {
            (true, _) => "waits in",
            (false, true) => "has not ended",
            (false, false) => "in",
        };
        writeln!(
            svg,
            "<rect x=\"{:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"{BAR}\" fill=\"{}\"><title>{does} {call}: {} from {}</title></rect>",
            x(spans, start),
            (x(spans, end) - x(spans, start)).max(0.2),
            colour(n, idle),
            time((end - start) as f64),
            time((start - spans.from) as f64),
        )?;
    }
    Ok(())
}

/// A file may name an operation as it likes.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
