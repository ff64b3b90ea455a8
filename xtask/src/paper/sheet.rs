//! What the check of a paper prints.

use crate::tool::grid::{Column, grid};

/// What came out of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As the paper says.
    Same,
    /// Not as the paper says, and it is known why.
    Known(&'static str),
    /// A time of the paper's machine beside one of this.
    Measured,
    /// Not as the paper says.
    Differs,
}

impl Verdict {
    pub(super) fn of(same: bool) -> Self {
        if same { Self::Same } else { Self::Differs }
    }

    /// Equal but for `tolerance` (0.01: one in a hundred).
    pub(super) fn near(ours: f64, theirs: f64, tolerance: f64) -> Self {
        Self::of((ours - theirs).abs() <= tolerance * theirs.abs())
    }
}

/// Counts the verdicts of one paper and prints.
pub(super) struct Sheet<'a> {
    out: &'a mut String,
    same: u32,
    known: u32,
    measured: u32,
    differ: u32,
}

impl<'a> Sheet<'a> {
    pub(super) fn new(out: &'a mut String, name: &str, title: &str) -> Self {
        *out += &format!("{name}: {title}\n\n");
        Self { out, same: 0, known: 0, measured: 0, differ: 0 }
    }

    fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// A heading or a remark.
    pub(super) fn say(&mut self, text: &str) {
        self.line(text);
    }

    /// The word for a verdict, which is counted.
    pub(super) fn judge(&mut self, verdict: &Verdict) -> String {
        match verdict {
            Verdict::Same => {
                self.same += 1;
                "same".to_owned()
            }
            Verdict::Known(why) => {
                self.known += 1;
                format!("the paper errs: {why}")
            }
            Verdict::Measured => {
                self.measured += 1;
                "measured here".to_owned()
            }
            Verdict::Differs => {
                self.differ += 1;
                "DIFFERS".to_owned()
            }
        }
    }

    /// A table under a heading; the verdict is put behind each row.
    pub(super) fn table(&mut self, heading: &str, columns: &[Column<'_>], rows: Vec<(Vec<String>, Verdict)>) {
        self.line(heading);
        let mut columns = columns.to_vec();
        columns.push(("", true));
        let mut lines = Vec::new();
        for (mut cells, verdict) in rows {
            cells.push(self.judge(&verdict));
            lines.push(cells);
        }
        self.line(&grid(&columns, &lines));
    }

    /// The last line; the number of values that differ without a known reason.
    pub(super) fn sum_up(mut self) -> u32 {
        let mut parts = vec![format!("{} same", self.same)];
        if self.known > 0 {
            parts.push(format!("{} where the paper errs", self.known));
        }
        if self.measured > 0 {
            parts.push(format!("{} measured here", self.measured));
        }
        parts.push(format!("{} differ", self.differ));
        self.line(&format!("{}\n", parts.join(", ")));
        self.differ
    }
}
