//! `--timeline`: a row per rank, above its middle what it puts and below what it gets, both coloured by round;
//! a line from the first byte's leaving to its arrival where there are few enough. Each bar says in its title
//! what it is.

use super::case::Case;
use super::race::Ran;
use crate::outcome::Failure;
use crate::units::{self, size, time};
use circulant::plan::price::Transfer;
use circulant::plan::registry::Algorithm;
use std::fmt::Write;
use std::path::Path;

const TOP: u64 = 84;
const LEFT: u64 = 64;
const WIDTH: u64 = 1040;
const ROW: u64 = 22;
const BAR: u64 = 8;
/// More lines than this hide what they should show.
const MAX_TRANSFER_LINES: usize = 400;
/// More bars than this make a file that no viewer opens.
const MAX_BARS: usize = 40_000;

/// Draws the transfers of `ran` into the SVG file `path`.
pub(crate) fn draw(path: &Path, case: &Case, algorithm: &Algorithm, ran: &Ran) -> Result<(), Failure> {
    if ran.transfers.len() > MAX_BARS {
        let said = format!(
            "{} puts are too many for a drawing; fewer --blocks or ranks make less",
            ran.transfers.len()
        );
        return Err(Failure::usage(said));
    }
    let mut svg = String::new();
    // Writing into a string does not fail.
    let _ = paint(&mut svg, case, algorithm, ran);
    std::fs::write(path, svg).map_err(|e| Failure::about(path.display(), &e))
}

/// From picoseconds to where on the sheet.
#[derive(Clone, Copy)]
struct Scale {
    end: u64,
}

impl Scale {
    fn x(self, ps: u64) -> f64 {
        LEFT as f64 + ps as f64 / self.end.max(1) as f64 * WIDTH as f64
    }

    fn y(rank: u32) -> u64 {
        TOP + u64::from(rank) * ROW
    }
}

/// Neighbouring rounds in colours far apart.
fn colour(round: u32) -> String {
    format!("hsl({},65%,{}%)", round * 137 % 360, 42 + round % 3 * 8)
}

fn paint(svg: &mut String, case: &Case, algorithm: &Algorithm, ran: &Ran) -> std::fmt::Result {
    let scale = Scale { end: ran.ns * 1000 };
    let (width, height) = (LEFT + WIDTH + 40, Scale::y(case.p) + 56);
    let ranks = units::plural(u64::from(case.p), "rank");
    let what = format!("{} {} of {} among {ranks}", case.operation, algorithm.name, size(case.bytes));
    writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\">\n\
         <title>{what}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"30\" font-size=\"20\" fill=\"#22262b\">{what}: {}, {} rounds, {} puts</text>\n\
         <text x=\"{LEFT}\" y=\"54\" font-size=\"13\" fill=\"#6a727c\">above the line what a rank puts, below what \
         it gets; a colour per round</text>",
        time(ran.ns as f64),
        ran.rounds,
        ran.puts
    )?;
    axis(svg, case, scale)?;
    let lines = if ran.transfers.len() <= MAX_TRANSFER_LINES { ran.transfers.as_slice() } else { &[] };
    for t in lines {
        writeln!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{}\" x2=\"{:.1}\" y2=\"{}\" stroke=\"{}\" stroke-opacity=\"0.45\"/>",
            scale.x(t.leaves.0),
            Scale::y(t.from) + ROW / 2 - BAR / 2,
            scale.x(t.arrives.0),
            Scale::y(t.to) + ROW / 2 + BAR / 2,
            colour(t.round)
        )?;
    }
    for t in &ran.transfers {
        bar(svg, scale, t, t.leaves, Scale::y(t.from) + ROW / 2 - BAR - 1)?;
        bar(svg, scale, t, t.arrives, Scale::y(t.to) + ROW / 2 + 1)?;
    }
    writeln!(svg, "</svg>")
}

fn axis(svg: &mut String, case: &Case, scale: Scale) -> std::fmt::Result {
    for rank in 0..case.p {
        let y = Scale::y(rank) + ROW / 2;
        writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"#dfe3e8\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#22262b\">{rank}</text>",
            LEFT + WIDTH,
            LEFT - 8,
            y + 4
        )?;
    }
    let bottom = Scale::y(case.p) + 8;
    for i in 0..=8 {
        let ps = scale.end / 8 * i;
        let x = scale.x(ps);
        writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#f1f3f5\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#6a727c\">{}</text>",
            bottom + 18,
            time(ps as f64 / 1000.0)
        )?;
    }
    Ok(())
}

fn bar(svg: &mut String, scale: Scale, t: &Transfer, span: (u64, u64), y: u64) -> std::fmt::Result {
    let (x, to) = (scale.x(span.0), scale.x(span.1));
    let ns = |ps: u64| time(ps as f64 / 1000.0);
    writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{}\"><title>{} to {}, round {}, {}: leaves \
         {} to {}, arrives {} to {}</title></rect>",
        (to - x).max(1.0),
        colour(t.round),
        t.from,
        t.to,
        t.round,
        size(t.len),
        ns(t.leaves.0),
        ns(t.leaves.1),
        ns(t.arrives.0),
        ns(t.arrives.1)
    )
}
