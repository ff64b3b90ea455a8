//! Tables whose rows are all known before the first is printed.

use crate::units::align;

/// A column: its head, and whether it is aligned to the left.
pub(crate) type Column<'a> = (&'a str, bool);

/// The heads and the rows under each other, each column as wide as its widest cell.
pub(crate) fn grid(columns: &[Column<'_>], rows: &[Vec<String>]) -> String {
    let width = |i: usize| {
        let cells = rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count());
        cells.chain([columns[i].0.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let left: Vec<bool> = columns.iter().map(|(_, left)| *left).collect();
    let heads: Vec<String> = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
    let lines = std::iter::once(&heads).chain(rows);
    lines.map(|row| align(row, &widths, &left) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = [vec!["a".to_owned(), "1000".to_owned()], vec!["long".to_owned(), "1".to_owned()]];
        assert_eq!(grid(&[("x", true), ("β", false)], &rows), "x        β\na     1000\nlong     1\n");
    }
}
