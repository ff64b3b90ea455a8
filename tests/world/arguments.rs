//! The table of wrong arguments in docs/errors.md: each call of the library by each kind of wrong argument that one rank can see by
//! itself, in each of its forms, and what the error says. A change of a text is seen there.

mod alone;
mod collective;
mod communicators;
mod local;
mod moved;
mod reduced;

use crate::ranks;
use circulant::transport::sim;
use circulant::{Communicator, Error, ErrorKind, Result};
use std::fmt::Write;
use std::path::Path;

/// Ranks of the tables' worlds.
pub(crate) const P: usize = 3;

/// How a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Blocking,
    Request,
    Persistent,
    Scoped,
    Unscoped,
    UnscopedPersistent,
}

const FORMS: [Form; 6] =
    [Form::Blocking, Form::Request, Form::Persistent, Form::Scoped, Form::Unscoped, Form::UnscopedPersistent];

/// A call of an operation that rank 1 makes with a wrong argument.
struct Wrong {
    call: &'static str,
    what: &'static str,
    forms: &'static [Form],
    /// Wrong where the last argument is 1, right where it is 0.
    make: fn(&Communicator, Form, usize) -> Result<()>,
}

/// An operation in all its forms: what it is called on, the names of its forms, the elements' type, how many are sent and received,
/// and the arguments; where the wrong ones differ in more than a number, those.
macro_rules! forms {
    ($make:expr; $call:ident $begin:ident $init:ident, $what:literal, |$c:ident, $wrong:ident, $s:ident, $r:ident| $t:ty: $n:expr, $m:expr
     => ($($arg:expr),*)) => {
        forms!($make; $call $begin $init, $what, |$c, $wrong, $s, $r| $t: $n, $m => ($($arg),*) wrong ($($arg),*))
    };
    ($make:expr; $call:ident $begin:ident $init:ident, $what:literal, |$c:ident, $wrong:ident, $s:ident, $r:ident| $t:ty: $n:expr, $m:expr
     => ($($arg:expr),*) wrong ($($other:expr),*)) => {
        $crate::arguments::Wrong {
            call: stringify!($call),
            what: $what,
            forms: &$crate::arguments::FORMS,
            make: |$c, form, $wrong| {
                let on = ($make)($c)?;
                match $wrong {
                    0 => forms!(@ on, $c, form, $call $begin $init, |$s, $r| $t: $n, $m => ($($arg),*)),
                    _ => forms!(@ on, $c, form, $call $begin $init, |$s, $r| $t: $n, $m => ($($other),*)),
                }
            },
        }
    };
    (@ $on:ident, $comm:ident, $form:ident, $call:ident $begin:ident $init:ident, |$s:ident, $r:ident| $t:ty: $n:expr, $m:expr
     => ($($arg:expr),*)) => {{
        let (sent, mut received) = ($crate::arguments::zeros::<$t>($n), $crate::arguments::zeros::<$t>($m));
        #[allow(unused_variables, reason = "in place, or of an operation with one buffer")]
        match $form {
            Form::Request => {
                let ($s, $r) = ($comm.alloc::<$t>($n)?, $comm.alloc::<$t>($m)?);
                $on.$begin($($arg),*)?.wait().map(drop)
            }
            Form::Persistent => {
                let ($s, $r) = ($comm.alloc::<$t>($n)?, $comm.alloc::<$t>($m)?);
                $on.$init($($arg),*).map(drop)
            }
            Form::Blocking => {
                let ($s, $r) = (&sent[..], &mut received[..]);
                $on.$call($($arg),*)
            }
            Form::Scoped => $on.scope(|scope| {
                let ($s, $r) = (&sent[..], &mut received[..]);
                scope.$begin($($arg),*)?.wait().map(drop)
            }),
            Form::Unscoped => {
                let (on, $s, $r) = ($on.unscoped(), &sent[..], &mut received[..]);
                // SAFETY: both vectors live, untouched, until `wait` has returned.
                unsafe { on.$begin($($arg),*) }?.wait()
            }
            Form::UnscopedPersistent => {
                let (on, $s, $r) = ($on.unscoped(), &sent[..], &mut received[..]);
                // SAFETY: what is planned is dropped at once, before the vectors.
                unsafe { on.$init($($arg),*) }.map(drop)
            }
        }
    }};
}
pub(crate) use forms;

/// So many elements.
fn zeros<T: Copy + Default>(len: usize) -> Vec<T> {
    vec![T::default(); len]
}

/// What each rank gets where rank 1 is wrong; then comes a barrier, as a call may end before bad news come.
fn errors(make: fn(&Communicator, Form, usize) -> Result<()>, form: Form) -> Vec<Error> {
    let results = ranks::run(P, &sim::Faults::default(), &[("deadline", "20")], |_, comm| {
        make(comm, form, usize::from(comm.rank() == 1))?;
        comm.barrier()
    });
    results.into_iter().map(|result| result.expect_err("an error at each rank")).collect()
}

/// The error at rank 1, which is the same in all forms; the others have one that names rank 1.
fn text(row: &Wrong) -> String {
    let Wrong { call, what, forms, make } = row;
    let mut texts = Vec::new();
    let right = |_: &_, comm: &_| forms.iter().try_for_each(|form| make(comm, *form, 0));
    for result in ranks::run(P, &sim::Faults::default(), &[("deadline", "20")], right) {
        result.unwrap_or_else(|e| panic!("{call}, {what}, with right arguments: {e}"));
    }
    for form in forms.iter().copied() {
        let errors = errors(*make, form);
        for (rank, e) in errors.iter().enumerate() {
            // An error before any message is the rank's alone: the others see that it ends.
            assert!(
                forms.len() == 1 || e.kind() == ErrorKind::Argument,
                "{call}, {what}, {form:?}, rank {rank}: {e}"
            );
            let named = rank == 1 && forms.len() == 1 || e.to_string().contains("rank 1");
            assert!(named, "{call}, {what}, {form:?}, rank {rank}: {e}");
        }
        texts.push(errors[1].to_string());
    }
    let first = &texts[0];
    for (form, text) in forms.iter().zip(&texts) {
        assert_eq!(text, first, "{call}, {what}: as {form:?}, and as {:?}", forms[0]);
    }
    first.clone()
}

/// The rows' texts, of several rows at a time: most of the time ranks wait.
fn texts(rows: &[&Wrong]) -> Vec<String> {
    const AT_A_TIME: usize = 32;
    let of = |rows: &[&Wrong]| rows.iter().map(|row| text(row)).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let chunks = rows.chunks(rows.len().div_ceil(AT_A_TIME));
        let threads: Vec<_> = chunks.map(|rows| scope.spawn(move || of(rows))).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect()
    })
}

/// A row of the table; what would end a cell does not.
fn line(table: &mut String, call: &str, what: &str, error: &str) {
    let error = error.replace('|', "\\|").replace('\n', " ");
    writeln!(table, "| `{call}` | {what} | {error} |").expect("a string");
}

fn table() -> String {
    let mut made = String::new();
    let tables = [
        ("Operations", moved::ROWS),
        ("Reductions", reduced::ROWS),
        ("Neighbours", collective::NEIGHBORS),
        ("Between two groups", collective::GROUPS),
        ("Communicators", communicators::ROWS),
    ];
    for (title, rows) in tables {
        let rows: Vec<_> = rows.iter().collect();
        write!(made, "\n## {title}\n\n| call | wrong | error |\n|---|---|---|\n").expect("a string");
        for (row, text) in rows.iter().zip(texts(&rows)) {
            line(&mut made, row.call, row.what, &text);
        }
    }
    made.push_str(&local::tables());
    made
}

#[test]
fn docs_errors_has_what_each_wrong_argument_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors.md");
    let written = std::fs::read_to_string(&path).expect("the document");
    let start = written.find("\n## Operations\n").unwrap_or(written.len());
    // What C and the tool say is compared by tests of their own (`capi/tests/arguments.rs`, `tool/tests/cli/arguments.rs`).
    let end = written.find("\n## In C\n").unwrap_or(written.len());
    let (known, made) = (&written[start..end], table());
    if known == made {
        return;
    }
    let differs = known.lines().zip(made.lines()).find(|(known, made)| known != made);
    let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("errors.md");
    std::fs::write(&new, [&written[..start], &made, &written[end..]].concat()).expect("the table");
    panic!("docs/errors.md is not what calls say; {} is. First difference: {differs:#?}", new.display());
}
