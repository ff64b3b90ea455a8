//! `circulant plot`: time against size out of CSV files, as `bench --plot` draws it.

use crate::bench::plot::{Axes, Frame, Series, chart};
use crate::outcome::Failure;
use clap::Args;
use std::path::{Path, PathBuf};

/// Columns that say what a line of the drawing is, in the order in which they name it.
const NAMES: [&str; 6] = ["line", "program", "setting", "op", "dist", "label"];
/// Values of these columns that say nothing.
const SILENT: [&str; 3] = ["-", "default", ""];

const EXAMPLES: &str = "\
Examples:
  circulant run -n 8 bench bcast --format csv --label tcp > tcp.csv
  circulant plot tcp.csv shm.csv -o bcast.svg --title 'bcast, 8 ranks'
  circulant plot docs/performance/bcast-16.csv -o bcast-16.svg";

/// Draw time against size, both logarithmic, out of CSV files
///
/// Reads what `bench --format csv` prints and what ci/race writes: files with a header and the columns `bytes` and
/// `min_us` (or `us`). Rows that agree in the columns line, program, setting, op, dist and label, as far as they are
/// there, make a line of the drawing. A column `reference_us` is drawn dashed. What cannot be on a logarithmic axis
/// (0 bytes) is left out.
///
/// Files with the columns `calls` and `value` (what ci/soak writes) are drawn as amounts against calls.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlotArgs {
    /// Files to read; their lines come into one drawing
    #[arg(value_name = "FILE.csv", required = true)]
    files: Vec<PathBuf>,
    /// Where to write the drawing
    #[arg(short, long, value_name = "FILE.svg")]
    out: PathBuf,
    /// Above the drawing
    #[arg(long, value_name = "TEXT", default_value = "")]
    title: String,
    /// Below the title: where and how it was measured
    #[arg(long, value_name = "TEXT", default_value = "")]
    under: String,
}

/// A row of a file, as far as it is drawn.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    /// Its values of [`NAMES`].
    names: [String; NAMES.len()],
    bytes: f64,
    us: f64,
    reference: Option<f64>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &PlotArgs) -> Result<(), Failure> {
    let (mut points, mut axes) = (Vec::new(), None);
    for file in &args.files {
        let text = std::fs::read_to_string(file).map_err(|e| Failure::about(file.display(), &e))?;
        let (here, of) = read(file, &text)?;
        if *axes.get_or_insert(of) != of {
            let what = format!("{}: its columns are not those of the files before", file.display());
            return Err(Failure::new(1, what));
        }
        points.extend(here);
    }
    if points.is_empty() {
        return Err(Failure::new(1, "there is nothing to plot: no row with bytes and a time above 0"));
    }
    let (list, reference) = lines(&points);
    let axes = axes.unwrap_or_default();
    let frame = Frame {
        axes,
        title: args.title.clone(),
        under: args.under.clone(),
        times: match axes {
            Axes::Times => "time of the slowest rank, smallest repetition",
            Axes::Amounts => "in use",
        },
        reference,
    };
    chart(&args.out, &frame, &list)
}

/// The rows of one file that can be drawn, and what its columns are.
fn read(file: &Path, text: &str) -> Result<(Vec<Point>, Axes), Failure> {
    let wrong =
        |line: usize, what: String| Failure::new(1, format!("{}: line {line}: {what}", file.display()));
    let mut rows = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let Some((_, head)) = rows.next() else { return Err(wrong(1, "there is no header".to_owned())) };
    let head: Vec<&str> = head.split(',').map(str::trim).collect();
    let column = |name: &str| head.iter().position(|h| *h == name);
    let missing = |names: &str| wrong(1, format!("there is no column {names}"));
    let (axes, bytes, us) = match column("calls") {
        Some(calls) => (Axes::Amounts, calls, column("value").ok_or_else(|| missing("value"))?),
        None => {
            let bytes = column("bytes").ok_or_else(|| missing("bytes"))?;
            let us = column("us").or_else(|| column("min_us"));
            (Axes::Times, bytes, us.ok_or_else(|| missing("us or min_us"))?)
        }
    };
    let reference = column("reference_us");
    let names = NAMES.map(column);
    let mut points = Vec::new();
    for (i, line) in rows {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if cells.len() != head.len() {
            let (found, wanted) = (cells.len(), head.len());
            return Err(wrong(i + 1, format!("{found} columns, {wanted} in the header")));
        }
        let number = |column: usize| {
            let value = cells[column].parse::<f64>().ok().filter(|x| x.is_finite());
            value.ok_or_else(|| wrong(i + 1, format!("{:?} is no number", cells[column])))
        };
        let point = Point {
            names: names.map(|column| column.map_or(String::new(), |c| cells[c].to_owned())),
            bytes: number(bytes)?,
            us: number(us)?,
            reference: reference.map(number).transpose()?.filter(|x| *x > 0.0),
        };
        if point.bytes > 0.0 && point.us > 0.0 {
            points.push(point);
        }
    }
    Ok((points, axes))
}

/// The lines of the drawing in the order in which they come, and the reference if all have the same.
fn lines(points: &[Point]) -> (Vec<Series>, Vec<(f64, f64)>) {
    // A column that is the same everywhere tells nothing apart.
    let telling: Vec<usize> =
        (0..NAMES.len()).filter(|&c| points.iter().any(|p| p.names[c] != points[0].names[c])).collect();
    let mut list: Vec<Series> = Vec::new();
    for point in points {
        let said = |columns: &[usize]| -> String {
            let words = columns.iter().map(|&c| point.names[c].as_str()).filter(|w| !SILENT.contains(w));
            words.collect::<Vec<_>>().join(" ")
        };
        let name = if telling.is_empty() { said(&[0, 1, 2, 3, 4, 5]) } else { said(&telling) };
        let i = list.iter().position(|s| s.name == name).unwrap_or_else(|| {
            list.push(Series { name, times: Vec::new(), reference: Vec::new() });
            list.len() - 1
        });
        list[i].times.push((point.bytes, point.us));
        list[i].reference.extend(point.reference.map(|r| (point.bytes, r)));
    }
    for s in &mut list {
        s.times.sort_by(|a, b| a.0.total_cmp(&b.0));
        s.reference.sort_by(|a, b| a.0.total_cmp(&b.0));
        s.reference.dedup();
    }
    let common = common(&list);
    if !common.is_empty() {
        list.iter_mut().for_each(|s| s.reference.clear());
    }
    (list, common)
}

/// The reference of all lines together, by size, when none has another one; else nothing.
fn common(list: &[Series]) -> Vec<(f64, f64)> {
    let mut all: Vec<(f64, f64)> = list.iter().flat_map(|s| s.reference.iter().copied()).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    all.dedup();
    match list.len() > 1 && all.windows(2).all(|pair| pair[0].0 < pair[1].0) {
        true => all,
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(text: &str) -> Result<Vec<Point>, String> {
        read(Path::new("x.csv"), text).map(|(points, _)| points).map_err(|f| f.text)
    }

    #[test]
    fn what_bench_prints_can_be_drawn() {
        let text = format!(
            "{}\nbcast,-,8,1000,12.50,13.00,12.60,35,tcp\nbcast,-,8,0,1.00,1.00,1.00,35,tcp\n\
             bcast,-,8,10,2.50,3.00,2.60,35,tcp\nbcast,-,8,10,1.50,3.00,2.60,35,shm\n",
            crate::bench::CSV_HEAD
        );
        let (list, reference) = lines(&points(&text).unwrap());
        assert_eq!((list.len(), reference.len()), (2, 0));
        assert_eq!((list[0].name.as_str(), &list[0].times), ("tcp", &vec![(10.0, 2.5), (1000.0, 12.5)]));
        assert_eq!((list[1].name.as_str(), &list[1].times), ("shm", &vec![(10.0, 1.5)]));
    }

    #[test]
    fn one_reference_for_all_or_one_for_each() {
        let head = "line,bytes,us,reference_us\n";
        let (list, reference) =
            lines(&points(&format!("{head}a,10,4,2\nb,10,5,2\na,20,8,4\nb,20,9,4\n")).unwrap());
        assert_eq!(reference, [(10.0, 2.0), (20.0, 4.0)]);
        assert!(list.iter().all(|s| s.reference.is_empty()));
        let (list, reference) = lines(&points(&format!("{head}a,10,4,2\nb,10,5,3\n")).unwrap());
        assert!(reference.is_empty());
        assert_eq!((&list[0].reference, &list[1].reference), (&vec![(10.0, 2.0)], &vec![(10.0, 3.0)]));
    }

    #[test]
    fn amounts_are_drawn_against_calls() {
        let text = "line,calls,value\nopen files,100,7\nopen files,200,7\nbuffers,100,0\n";
        let (points, axes) = read(Path::new("x.csv"), text).map_err(|f| f.text).unwrap();
        assert_eq!(axes, Axes::Amounts);
        let (list, _) = lines(&points);
        assert_eq!(list.len(), 1, "what is 0 is on no logarithmic axis");
        assert_eq!(list[0].times, [(100.0, 7.0), (200.0, 7.0)]);
    }

    #[test]
    fn a_single_line_still_has_a_name() {
        let (list, _) = lines(&points("op,dist,bytes,us\nbcast,-,10,4\n").unwrap());
        assert_eq!(list[0].name, "bcast");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, said) in [
            ("", "line 1: there is no header"),
            ("size,us\n", "there is no column bytes"),
            ("bytes,time\n", "there is no column us or min_us"),
            ("bytes,us\n10,1\n10\n", "line 3: 1 columns, 2 in the header"),
            ("bytes,us\n10,soon\n", "line 2: \"soon\" is no number"),
            ("bytes,us\n10,NaN\n", "line 2: \"NaN\" is no number"),
        ] {
            let found = points(text).unwrap_err();
            assert!(found.starts_with("x.csv: ") && found.contains(said), "{found}");
        }
    }
}
