//! What trials have found, as a table: by lines of a file for the setting `selection`, with what was measured behind them.

use crate::outcome::Out;

/// Prints what these lines say, if there are any.
pub(crate) fn print<'a>(lines: impl Iterator<Item = &'a str>, out: &mut Out) {
    let rows: Vec<_> = lines.filter_map(row).collect();
    if rows.is_empty() {
        return;
    }
    let head = ["calls", "kept", "tried: lower quartile of its calls at the slowest rank"].map(str::to_owned);
    out.line("\nlearned by trial");
    out.table(&[&[head], rows.as_slice()].concat(), &[true; 3]);
}

/// `calls -> way # what was tried`
fn row(line: &str) -> Option<[String; 3]> {
    let (calls, way) = line.split_once("->")?;
    let (way, tried) = way.split_once('#').unwrap_or((way, ""));
    Some([calls, way, tried].map(|cell| cell.trim().to_owned()))
}
