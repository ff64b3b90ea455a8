//! How the tool ends: one line per error, an exit code, and no panic when the output is not read.

use crate::units::align;
use circulant::{Error, ErrorKind, World};
use std::io::{self, Write};
use std::process::ExitCode;

/// Why the tool stops, and the exit code that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) text: String,
    /// All ranks know of it and stop at the same place, so they can say goodbye in order.
    pub(crate) everywhere: bool,
}

impl Failure {
    pub(crate) fn new(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), everywhere: false }
    }

    /// The same at all ranks.
    pub(crate) fn everywhere(self) -> Self {
        Self { everywhere: true, ..self }
    }

    /// Wrong arguments.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(2, text)
    }

    /// Trouble with something that has a name, mostly a path.
    pub(crate) fn about(what: impl std::fmt::Display, e: &io::Error) -> Self {
        // "No such file or directory (os error 2)" has a number that is of no use.
        let text = e.to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        Self::new(1, format!("{what}: {text}"))
    }

    /// Prints it, in one line.
    pub(crate) fn report(self) -> ExitCode {
        if !self.text.is_empty() {
            let line: Vec<&str> = self.text.lines().map(str::trim).collect();
            // Nothing can be done when standard error is gone.
            let _ = writeln!(io::stderr(), "circulant: {}", line.join(" "));
        }
        ExitCode::from(self.code)
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        let code = match e.kind() {
            ErrorKind::Argument | ErrorKind::Config => 2,
            _ => 1,
        };
        Self::new(code, e.to_string())
    }
}

/// Leaves the world: in order when all ranks do so, at once (which the others see as an error) when only this
/// one has failed.
pub(crate) fn leave<T>(world: World, done: Result<T, Failure>) -> Result<T, Failure> {
    match done {
        Ok(value) => Ok(world.finalize().map(|()| value)?),
        Err(failure) => {
            if failure.everywhere
                && let Err(e) = world.finalize()
            {
                tracing::info!("{e}");
            }
            Err(failure)
        }
    }
}

/// Standard output that a reader may close early (`| head`): then the rest is dropped.
#[derive(Debug)]
pub(crate) struct Out {
    to: io::BufWriter<io::Stdout>,
    ended: Option<io::Error>,
}

impl Out {
    pub(crate) fn new() -> Self {
        Self { to: io::BufWriter::new(io::stdout()), ended: None }
    }

    pub(crate) fn text(&mut self, text: &str) {
        if self.ended.is_none() {
            self.ended = self.to.write_all(text.as_bytes()).and_then(|()| self.to.flush()).err();
        }
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.text(&format!("{line}\n"));
    }

    /// Rows whose cells stand below each other; `left`: the columns that are aligned to the left.
    pub(crate) fn table<const N: usize>(&mut self, rows: &[[String; N]], left: &[bool; N]) {
        let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..N).map(width).collect();
        for row in rows {
            self.line(&align(row, &widths, left));
        }
    }

    /// The output is not read any more: no use in going on.
    pub(crate) fn closed(&self) -> bool {
        self.ended.is_some()
    }

    /// An error when something could not be written, unless the reader had enough.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self.ended {
            Some(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Failure::about("standard output", &e)),
            _ => Ok(()),
        }
    }
}
