//! `--plot`: time against size, both logarithmic, one line per operation and distribution, and the reference
//! dashed in the same colour.

use super::points::Row;
use super::table::Setting;
use crate::outcome::Failure;
use crate::units;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::RangeInclusive;
use std::path::Path;

const SIZE: (u32, u32) = (960, 600);
/// Where the axes are: left, top, right, bottom.
const FRAME: (i32, i32, i32, i32) = (88, 78, 716, 536);
const LEGEND: (i32, i32) = (740, 96);
const FONT: &str = "Helvetica, Arial, sans-serif";
const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
const PALE: RGBColor = RGBColor(0x6a, 0x72, 0x7c);
const GRID: RGBColor = RGBColor(0xdf, 0xe3, 0xe8);
const FINE: RGBColor = RGBColor(0xf1, 0xf3, 0xf5);
/// Okabe and Ito's colours, told apart by colour-blind readers too, and a grey and a dark red.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x55, 0x55, 0x55),
    RGBColor(0x8c, 0x1c, 0x13),
];

/// What stands at a value of an axis.
type Label = fn(f64) -> String;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// One line of the plot: (bytes, µs), by size.
#[derive(Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) times: Vec<(f64, f64)>,
    pub(crate) reference: Vec<(f64, f64)>,
}

/// What the axes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Axes {
    /// µs against bytes.
    #[default]
    Times,
    /// How much there is against a number of calls.
    Amounts,
}

/// What stands around the lines.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub(crate) axes: Axes,
    pub(crate) title: String,
    pub(crate) under: String,
    pub(crate) times: &'static str,
    /// A reference for all lines: (bytes, µs), by size.
    pub(crate) reference: Vec<(f64, f64)>,
}

/// Draws `rows` into the SVG file `path`.
pub(crate) fn draw(path: &Path, setting: &Setting, rows: &[Row]) -> Result<(), Failure> {
    chart(path, &frame(setting), &series(rows))
}

/// Draws `list` into the SVG file `path`.
pub(crate) fn chart(path: &Path, frame: &Frame, list: &[Series]) -> Result<(), Failure> {
    let mut text = String::new();
    paint(&mut text, frame, list).map_err(|e| Failure::new(1, format!("{}: {e}", path.display())))?;
    std::fs::write(path, text).map_err(|e| Failure::about(path.display(), &e))
}

fn frame(s: &Setting) -> Frame {
    let wire =
        circulant::measure::Wire { latency_ns: s.latency_ns, overhead_ns: s.overhead_ns, byte_ns: s.byte_ns };
    let ranks = units::plural(s.p as u64, "rank");
    let nodes = units::plural(u64::from(s.nodes), "node");
    let mut under = format!("{ranks} on {nodes}, provider {}, {} memory", s.provider, s.memory);
    if s.p > 1 {
        under += &format!("; {}", units::wire_text(&wire));
    }
    let times = "time of the slowest rank, smallest repetition";
    Frame { axes: Axes::Times, title: s.label.clone(), under, times, reference: Vec::new() }
}

/// Rows of one operation and distribution make a line. What cannot be on a logarithmic axis is left out.
fn series(rows: &[Row]) -> Vec<Series> {
    let mut list: Vec<Series> = Vec::new();
    for row in rows.iter().filter(|r| r.bytes > 0 && r.min_us > 0.0) {
        let words = [row.op, row.dist, row.algorithm].into_iter().filter(|w| !["-", "auto"].contains(w));
        let name = words.collect::<Vec<_>>().join(" ");
        let i = list.iter().position(|s| s.name == name).unwrap_or_else(|| {
            list.push(Series { name, times: Vec::new(), reference: Vec::new() });
            list.len() - 1
        });
        list[i].times.push((row.bytes as f64, row.min_us));
        if row.reference_us > 0.0 {
            list[i].reference.push((row.bytes as f64, row.reference_us));
        }
    }
    for s in &mut list {
        s.times.sort_by(|a, b| a.0.total_cmp(&b.0));
        s.reference.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    list
}

/// A logarithmic axis: from one power of ten to another, over some pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    low: i32,
    high: i32,
    from: i32,
    to: i32,
}

impl Axis {
    /// Whole decades around the values, at least one.
    #[allow(clippy::cast_possible_truncation)] // decades of f64 are at most 3 digits
    fn new(values: impl Iterator<Item = f64> + Clone, from: i32, to: i32) -> Self {
        let low = values.clone().fold(f64::MAX, f64::min).log10().floor() as i32;
        let high = values.fold(f64::MIN_POSITIVE, f64::max).log10().ceil() as i32;
        Self { low, high: high.max(low + 1), from, to }
    }

    #[allow(clippy::cast_possible_truncation)] // pixels
    fn at(&self, value: f64) -> i32 {
        let part = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + (part * f64::from(self.to - self.from)).round() as i32
    }

    fn decades(&self) -> RangeInclusive<i32> {
        self.low..=self.high
    }
}

fn paint(text: &mut String, frame: &Frame, list: &[Series]) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let all = list.iter().flat_map(|s| s.times.iter().chain(&s.reference)).chain(&frame.reference);
    let x = Axis::new(all.clone().map(|p| p.0), FRAME.0, FRAME.2);
    let y = Axis::new(all.map(|p| p.1), FRAME.3, FRAME.1);
    titles(&area, frame)?;
    grid(&area, &x, &y, frame)?;
    let common: Vec<_> = frame.reference.iter().map(|p| (x.at(p.0), y.at(p.1))).collect();
    dashed(&area, &common, INK)?;
    for (i, s) in list.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let at = |line: &[(f64, f64)]| line.iter().map(|p| (x.at(p.0), y.at(p.1))).collect::<Vec<_>>();
        dashed(&area, &at(&s.reference), colour)?;
        let line = at(&s.times);
        area.draw(&PathElement::new(line.clone(), colour.stroke_width(2)))?;
        for point in line {
            mark(&area, point, i, colour)?;
        }
    }
    legend(&area, list, !common.is_empty())?;
    area.present()?;
    Ok(())
}

fn write(
    area: &Area<'_>,
    text: &str,
    at: (i32, i32),
    size: i32,
    colour: RGBColor,
    pos: Pos,
) -> Result<(), Box<dyn std::error::Error>> {
    let style = TextStyle::from((FONT, size).into_font()).color(&colour).pos(pos);
    area.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}

fn titles(area: &Area<'_>, frame: &Frame) -> Result<(), Box<dyn std::error::Error>> {
    let left = Pos::new(HPos::Left, VPos::Center);
    write(area, &frame.title, (FRAME.0, 28), 20, INK, left)?;
    write(area, &frame.under, (FRAME.0, 52), 13, PALE, left)
}

fn grid(area: &Area<'_>, x: &Axis, y: &Axis, frame: &Frame) -> Result<(), Box<dyn std::error::Error>> {
    let (across, labels): (_, [Label; 2]) = match frame.axes {
        Axes::Times => ("size m", [size_label, |us| units::time(us * 1e3)]),
        Axes::Amounts => ("calls", [amount, amount]),
    };
    let line = |from: (i32, i32), to: (i32, i32), colour: RGBColor| {
        area.draw(&PathElement::new(vec![from, to], colour.stroke_width(1)))
    };
    let fine = |axis: &Axis| -> Vec<i32> {
        let decades = axis.low..axis.high;
        decades.flat_map(|d| (2..10).map(move |i| f64::from(i) * 10f64.powi(d))).map(|v| axis.at(v)).collect()
    };
    for at in fine(x) {
        line((at, FRAME.1), (at, FRAME.3), FINE)?;
    }
    for at in fine(y) {
        line((FRAME.0, at), (FRAME.2, at), FINE)?;
    }
    for d in x.decades() {
        let value = 10f64.powi(d);
        let at = x.at(value);
        line((at, FRAME.1), (at, FRAME.3), GRID)?;
        write(area, &labels[0](value), (at, FRAME.3 + 18), 13, PALE, Pos::new(HPos::Center, VPos::Center))?;
    }
    for d in y.decades() {
        let value = 10f64.powi(d);
        let at = y.at(value);
        line((FRAME.0, at), (FRAME.2, at), GRID)?;
        write(area, &labels[1](value), (FRAME.0 - 10, at), 13, PALE, Pos::new(HPos::Right, VPos::Center))?;
    }
    line((FRAME.0, FRAME.3), (FRAME.2, FRAME.3), PALE)?;
    line((FRAME.0, FRAME.1), (FRAME.0, FRAME.3), PALE)?;
    let middle = (FRAME.0 + FRAME.2) / 2;
    write(area, across, (middle, FRAME.3 + 42), 14, INK, Pos::new(HPos::Center, VPos::Center))?;
    let style = TextStyle::from((FONT, 14).into_font().transform(FontTransform::Rotate270)).color(&INK);
    let style = style.pos(Pos::new(HPos::Center, VPos::Center));
    area.draw(&Text::new(frame.times.to_owned(), (24, (FRAME.1 + FRAME.3) / 2), style))?;
    Ok(())
}

/// A power of ten, by the letters of thousands.
fn amount(value: f64) -> String {
    let letters = ["", " k", " M", " G", " T"];
    let (mut value, mut letter) = (value, 0);
    while value >= 1e3 && letter + 1 < letters.len() {
        (value, letter) = (value / 1e3, letter + 1);
    }
    format!("{value:.0}{}", letters[letter])
}

#[allow(clippy::cast_possible_truncation)] // powers of ten below 2^48
#[allow(clippy::cast_sign_loss)] // of positive sizes
fn size_label(bytes: f64) -> String {
    if bytes >= 1.0 { units::size(bytes.round() as u64) } else { String::new() }
}

/// Dashes of 7 pixels with gaps of 5, along the whole line.
fn dashed(area: &Area<'_>, line: &[(i32, i32)], colour: RGBColor) -> Result<(), Box<dyn std::error::Error>> {
    if line.is_empty() {
        return Ok(());
    }
    let style = colour.mix(0.75).stroke_width(1);
    area.draw(&DashedPathElement::new(line.to_vec(), 7, 5, style))?;
    Ok(())
}

/// A different mark for each line, so that it also works without colours.
fn mark(
    area: &Area<'_>,
    at: (i32, i32),
    i: usize,
    colour: RGBColor,
) -> Result<(), Box<dyn std::error::Error>> {
    let (x, y) = at;
    match i % 4 {
        0 => area.draw(&Circle::new(at, 4, colour.filled()))?,
        1 => area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], colour.filled()))?,
        2 => area.draw(&TriangleMarker::new(at, 6, colour.filled()))?,
        _ => {
            area.draw(&Polygon::new(vec![(x, y - 5), (x + 5, y), (x, y + 5), (x - 5, y)], colour.filled()))?
        }
    }
    Ok(())
}

fn legend(area: &Area<'_>, list: &[Series], common: bool) -> Result<(), Box<dyn std::error::Error>> {
    let left = Pos::new(HPos::Left, VPos::Center);
    let (x, mut y) = LEGEND;
    for (i, s) in list.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        area.draw(&PathElement::new(vec![(x, y), (x + 32, y)], colour.stroke_width(2)))?;
        mark(area, (x + 16, y), i, colour)?;
        write(area, &s.name, (x + 42, y), 13, INK, left)?;
        y += 24;
    }
    if common {
        y += 8;
        dashed(area, &[(x, y), (x + 32, y)], INK)?;
        write(area, "C, the reference", (x + 42, y), 13, INK, left)?;
    }
    if list.iter().any(|s| !s.reference.is_empty()) {
        y += 8;
        dashed(area, &[(x, y), (x + 32, y)], PALE)?;
        write(area, "C, the reference of", (x + 42, y), 13, INK, left)?;
        write(area, "the same colour's line", (x + 42, y + 17), 13, INK, left)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(op: &'static str, dist: &'static str, bytes: u64, us: f64) -> Row {
        Row {
            op,
            dist,
            algorithm: "auto",
            p: 8,
            bytes,
            min_us: us,
            median_us: us,
            span_us: us,
            reps: 3,
            reference_us: us / 2.0,
            ratio: None,
            algbw_gbs: None,
            busbw_gbs: None,
            messages_per_s: None,
            overlap_percent: None,
            stats: None,
        }
    }

    #[test]
    fn one_line_per_operation_and_distribution() {
        let rows = [
            row("bcast", "-", 1000, 5.0),
            row("bcast", "-", 10, 2.0),
            row("bcast", "-", 0, 1.0),
            row("allgatherv", "half", 10, 3.0),
            row("allgatherv", "irr3", 10, 0.0),
        ];
        let list = series(&rows);
        assert_eq!(list.len(), 2);
        assert_eq!((list[0].name.as_str(), &list[0].times), ("bcast", &vec![(10.0, 2.0), (1000.0, 5.0)]));
        assert_eq!((list[1].name.as_str(), &list[1].reference), ("allgatherv half", &vec![(10.0, 1.5)]));
    }

    #[test]
    fn axes_span_whole_decades() {
        let axis = Axis::new([12.0, 4000.0].into_iter(), 0, 300);
        assert_eq!(
            (axis.low, axis.high, axis.at(10.0), axis.at(100.0), axis.at(10_000.0)),
            (1, 4, 0, 100, 300)
        );
        assert_eq!(Axis::new([10.0].into_iter(), 0, 1).high, 2);
        let down = Axis::new([1.0, 10.0].into_iter(), 500, 100);
        assert_eq!((down.at(1.0), down.at(10.0)), (500, 100));
    }

    #[test]
    fn the_drawing_is_svg_with_every_name() {
        let setting = Setting {
            counting: Default::default(),
            label: "a < b".to_owned(),
            p: 8,
            nodes: 1,
            provider: "tcp".to_owned(),
            launcher: "pmi1".to_owned(),
            memory: "arena",
            cold_bytes: 0,
            fresh: false,
            rest_seconds: 0.0,
            one_clock: false,
            calls: 1,
            mode: "blocking",
            in_place: false,
            kind: "i32",
            op: "sum",
            root: 0,
            latency_ns: 1000.0,
            overhead_ns: 100.0,
            byte_ns: 0.5,
            choices_by: String::new(),
            fold_ns: 0.0,
            reps: 35,
            seconds: 1.0,
        };
        let mut text = String::new();
        paint(
            &mut text,
            &frame(&setting),
            &series(&[row("bcast", "-", 1000, 5.0), row("allgatherv", "irr3", 10, 3.0)]),
        )
        .unwrap();
        for word in ["<svg", "allgatherv irr3", "1 KB", "10 µs", "a &lt; b", "</svg>"] {
            assert!(text.contains(word), "{word} in {text}");
        }
    }
}
