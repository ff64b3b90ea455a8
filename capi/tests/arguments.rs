//! The table of docs/errors.md for C: what each function of `circulant.h` says of wrong arguments, in all of its forms (tests/c/arguments.c).
#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[allow(dead_code, reason = "names and results are what this test reads")]
mod c_header;
mod c_program;

use c_header::prototypes;
use c_program::{built, here, success};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::Command;

const TITLE: &str = "## In C\n";

/// What the section has before its table.
fn split(document: &str) -> (&str, &str, &str, &str) {
    let (before, section) = document.split_once(TITLE).unwrap_or((document, ""));
    let end = section.find("\n## ").map_or(section.len(), |at| at + 1);
    let (section, after) = section.split_at(end);
    let table = section.find("| function").unwrap_or(section.len());
    let (head, table) = section.split_at(table);
    (before, head, table, after)
}

/// Function, what is wrong, status, text.
fn rows() -> Vec<[String; 4]> {
    let (_folder, program) = built("arguments", true);
    let said = success(Command::new(program).output().unwrap());
    let mut rows: Vec<[String; 4]> = Vec::new();
    for line in said.lines() {
        // What ends the world comes once for each form, which all say the same.
        let (ends, line) = line.strip_prefix("ends\t").map_or((false, line), |line| (true, line));
        let words: Vec<String> = line.split('\t').map(|word| word.replace('|', "\\|")).collect();
        let row: [String; 4] = words.try_into().unwrap();
        match rows.iter().find(|known| known[..2] == row[..2]) {
            Some(known) => assert!(ends && *known == row, "{known:?}, and {row:?}"),
            None => rows.push(row),
        }
    }
    rows
}

#[test]
fn docs_errors_has_what_each_function_says() {
    let mut made = "| function | wrong | status | error |\n|---|---|---|---|\n".to_owned();
    for [call, what, status, text] in rows() {
        writeln!(made, "| `{call}` | {what} | {status} | {text} |").unwrap();
    }
    made.push('\n');
    let path = here("../docs/errors.md");
    let written = std::fs::read_to_string(&path).unwrap();
    let (before, head, known, after) = split(&written);
    if known == made {
        return;
    }
    let differs = known.lines().zip(made.lines()).find(|(known, made)| known != made);
    let new = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("errors.md");
    std::fs::write(&new, [before, TITLE, head, &made, after].concat()).unwrap();
    panic!("docs/errors.md is not what functions say; {} is. First difference: {differs:#?}", new.display());
}

/// The tables name each function that can fail.
#[test]
fn docs_errors_has_each_function() {
    let written = std::fs::read_to_string(here("../docs/errors.md")).unwrap();
    let (_, _, table, _) = split(&written);
    let named: BTreeSet<&str> = table.lines().filter_map(|line| line.split('`').nth(1)).collect();
    let mut functions = 0;
    for function in prototypes().iter().filter(|function| function.result == "circulant_status_t") {
        let name = function.name.strip_prefix("circulant_").unwrap();
        // A row holds for all forms of a call.
        let blocking = name.strip_suffix("_init").or_else(|| name.strip_prefix('i'));
        let found = named.contains(name) || blocking.is_some_and(|call| named.contains(call));
        assert!(found, "{name} is not in the table for C of docs/errors.md");
        functions += 1;
    }
    assert!(functions > 90, "{functions}");
}
