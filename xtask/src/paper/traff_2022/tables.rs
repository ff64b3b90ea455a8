//! Tables 1 to 5. Ranks across, rounds down, as printed.

use crate::paper::sheet::{Sheet, Verdict};
use circulant::schedule::{Circulant, check as judge};

/// Table 1: base blocks, receive and send schedule for p = 20.
const TABLE_1: &str = "\
0 0 1 2 0 3 0 1 2 0 4 0 1 2 0 3 0 1 2 0
-5 0 -5 -4 -3 -5 -2 -5 -4 -3 -5 -1 -5 -4 -3 -5 -2 -5 -4 -3
-3 -3 1 -5 -4 -3 -3 -2 -5 -4 -3 -3 -1 -5 -4 -3 -3 -2 -5 -4
-4 -4 -3 2 0 -4 -4 -3 -2 -2 -4 -4 -3 -1 -1 -4 -4 -3 -2 -2
-2 -2 -2 -2 -2 3 0 1 2 0 -2 -2 -2 -2 -2 -1 -1 -1 -1 -1
-1 -1 -1 -1 -1 -1 -1 -1 -1 -1 4 0 1 2 0 3 0 1 2 0
0 -5 -4 -3 -5 -2 -5 -4 -3 -5 -1 -5 -4 -3 -5 -2 -5 -4 -3 -5
1 -5 -4 -3 -3 -2 -5 -4 -3 -3 -1 -5 -4 -3 -3 -2 -5 -4 -3 -3
2 0 -4 -4 -3 -2 -2 -4 -4 -3 -1 -1 -4 -4 -3 -2 -2 -4 -4 -3
3 0 1 2 0 -2 -2 -2 -2 -2 -1 -1 -1 -1 -1 -2 -2 -2 -2 -2
4 0 1 2 0 3 0 1 2 0 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1";

/// Table 5, left and right: p = 9.
const TABLE_5: [&str; 2] = [
    "\
0 0 1 2 0 3 0 1 2
-2 0 -4 -3 -2 -4 -1 -4 -3
-3 -2 1 -4 -3 -2 -2 -1 -4
-1 -3 -2 2 0 -3 -3 -2 -1
-4 -1 -1 -1 -1 3 0 1 2
0 -4 -3 -2 -4 -1 -4 -3 -2
1 -4 -3 -2 -2 -1 -4 -3 -2
2 0 -3 -3 -2 -1 -1 -3 -2
3 0 1 2 -4 -1 -1 -1 -1",
    "\
0 0 1 2 0 3 0 1 2
-2 0 -4 -3 -2 -4 -1 -4 -3
-3 -2 1 -4 -3 -2 -2 -1 -1
-1 -3 -2 2 0 -3 -3 -2 -4
-4 -1 -1 -1 -1 3 0 1 2
0 -4 -3 -2 -4 -1 -4 -3 -2
1 -4 -3 -2 -2 -1 -1 -3 -2
2 0 -3 -3 -2 -4 -1 -3 -2
3 0 1 2 -4 -1 -1 -1 -1",
];

/// Of Tables 2, 3 and 4 the receive columns of the first rank that is wrong as printed.
const DAMAGED: [(u32, u32, u32, &[i8]); 3] = [
    (2, 33, 5, &[-6, -4, -5, 0, -2, -1]),
    (3, 32, 5, &[-3, -3, 0, -2, -1]),
    (4, 31, 11, &[-4, -4, -3, 0, -1]),
];

fn parse(table: &str) -> Vec<Vec<i8>> {
    let row = |line: &str| line.split(' ').filter_map(|word| word.parse().ok()).collect();
    table.lines().map(row).collect()
}

/// The rows of our table in the layout of the paper's.
fn ours(p: u32) -> Vec<Vec<i8>> {
    let c = Circulant::new(p);
    let q = c.q() as usize;
    let base = (0..p).map(|r| i8::try_from(c.base(r)).unwrap_or(0)).collect();
    let recv = (0..q).map(|k| (0..p).map(|r| c.recv(r)[k]).collect());
    let send = (0..q).map(|k| (0..p).map(|r| c.send(r)[k]).collect());
    std::iter::once(base).chain(recv).chain(send).collect()
}

fn line(row: &[i8]) -> String {
    row.iter().map(|entry| format!("{entry:>3}")).collect()
}

fn label(i: usize, q: usize) -> String {
    match i {
        0 => "base".to_owned(),
        i if i <= q => format!("recv {}", i - 1),
        i => format!("send {}", i - 1 - q),
    }
}

pub(super) fn check(sheet: &mut Sheet<'_>) {
    compare(sheet, "Table 1, p = 20", 20, TABLE_1);
    compare(sheet, "Table 5, left, p = 9", 9, TABLE_5[0]);
    right_half(sheet);
    damaged(sheet);
}

/// Row by row.
fn compare(sheet: &mut Sheet<'_>, heading: &str, p: u32, printed: &str) {
    let (printed, ours) = (parse(printed), ours(p));
    let q = Circulant::new(p).q() as usize;
    let mut rows = Vec::new();
    for (i, (theirs, ours)) in printed.iter().zip(&ours).enumerate() {
        let verdict = if theirs == ours {
            Verdict::Same
        } else if i == 0 && theirs[1..] == ours[1..] {
            Verdict::Known("the root's base block is q: with 0 its Algorithm 2 would not end")
        } else {
            Verdict::Differs
        };
        rows.push((vec![label(i, q), format!("{}  |", line(theirs)), line(ours)], verdict));
    }
    sheet.table(heading, &[("", true), ("printed", true), ("ours", true)], rows);
}

/// Another schedule, as correct as ours.
fn right_half(sheet: &mut Sheet<'_>) {
    let (table, q) = (parse(TABLE_5[1]), 4);
    let column = |first: usize, r: u32| (0..q).map(|k| table[first + k][r as usize]).collect::<Vec<i8>>();
    let verdict = Verdict::of(judge(9, |r| column(1, r), |r| column(1 + q, r)).is_ok());
    let differs = table.iter().zip(ours(9)).map(|(a, b)| a.iter().zip(b).filter(|(x, y)| *x != y).count());
    let differs: usize = differs.skip(1).sum();
    let cells = vec!["p = 9".to_owned(), "another correct schedule".to_owned(), differs.to_string()];
    sheet.table(
        "Table 5, right: judged by the conditions of correctness",
        &[("", true), ("printed as", true), ("entries that are not ours", false)],
        vec![(cells, verdict)],
    );
}

/// What the text at hand says cannot be right.
fn damaged(sheet: &mut Sheet<'_>) {
    let mut rows = Vec::new();
    for (table, p, r, column) in DAMAGED {
        let c = Circulant::new(p);
        let mut sorted = column.to_vec();
        sorted.sort_unstable();
        // Without the base block, b − q is the one that must not come.
        let base = i8::try_from(c.base(r)).unwrap_or(0);
        let q = i8::try_from(c.q()).unwrap_or(0);
        let wanted: Vec<i8> = (-q..0).filter(|b| *b != base - q).chain([base]).collect();
        let verdict = match sorted == wanted {
            true => Verdict::Differs,
            false => Verdict::Known("not its base block and each other once; or the copy at hand is damaged"),
        };
        let cells =
            vec![table.to_string(), p.to_string(), r.to_string(), line(column), line(c.recv(r).as_ref())];
        rows.push((cells, verdict));
    }
    sheet.table(
        "Tables 2, 3 and 4: the receive schedule of the first rank that is wrong as printed",
        &[("table", false), ("p", false), ("rank", false), ("printed", true), ("ours", true)],
        rows,
    );
}
