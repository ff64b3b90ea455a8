//! The last table of docs/errors.md: what each subcommand says of wrong arguments. Those of the library are in `tests/world/arguments.rs`.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const LINES: &[&str] = &[
    "",
    "frob",
    "--frob",
    "run",
    "run -n",
    "run -n 0 true",
    "run -n x true",
    "run -n 2 ./missing",
    "run --hostfile missing true",
    "run -n 2 --deadline never true",
    "run -n 2 --on-failure maybe true",
    "mpi",
    "mpi ./missing",
    "schedule",
    "schedule -p 0",
    "schedule -p x",
    "schedule -p 4 -r 4",
    "schedule -p 99999999999999999999",
    "bench",
    "bench frob",
    "bench bcast --bytes x",
    "bench bcast --root 9",
    "bench allgatherv --dist odd",
    "bench bcast --reps 0",
    "bench bcast --one-clock",
    "bench bcast --calls 0",
    "bench bcast --mode request --overlap --calls 2",
    "plot",
    "plot missing.csv --out x.svg",
    "cast",
    "cast missing /tmp/x",
    "collect",
    "collect missing /tmp/x",
    "info extra",
    "doctor extra",
    "sim",
    "sim frob -p 4",
    "sim bcast -p 0",
    "sim bcast -p 4",
    "sim bcast -p 4 --bytes x",
    "algorithms frob",
    "select",
    "select frob -p 4",
    "select bcast -p 0",
    "tune -o /missing/x",
    "trace",
    "trace missing",
    "completions",
    "completions frob",
];

/// The tool, with none of our variables: its exit code and what it says.
fn said(words: &str) -> (i32, String) {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60", env!("CARGO_BIN_EXE_circulant")]).args(words.split_whitespace());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CIRCULANT_") {
            command.env_remove(name);
        }
    }
    let empty = tempfile::tempdir().unwrap();
    let out = command.current_dir(&empty).stdin(Stdio::null()).output().unwrap();
    (out.status.code().unwrap(), String::from_utf8(out.stderr).unwrap())
}

#[test]
fn docs_errors_has_what_each_subcommand_says() {
    let mut made = "## Commands\n\n| `circulant` … | exit code | error |\n|---|---|---|\n".to_owned();
    for words in LINES {
        let (code, text) = said(words);
        // A build for tests may be one without optimisation.
        let lines: Vec<_> =
            text.lines().filter(|line| !line.contains("built without optimisation")).collect();
        assert!((1..=127).contains(&code) && lines.len() == 1, "{words}: {code}: {text}");
        writeln!(made, "| `{words}` | {code} | {} |", lines[0].replace('|', "\\|")).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors.md");
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let at = written.find("## Commands\n").unwrap_or(written.len());
    let (head, known) = written.split_at(at);
    if known == made {
        return;
    }
    let differs = known.lines().zip(made.lines()).find(|(known, made)| known != made);
    let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("errors.md");
    std::fs::write(&new, format!("{head}{made}")).unwrap();
    panic!("docs/errors.md is not what the tool says; {} is. First difference: {differs:#?}", new.display());
}

/// No subcommand is left out.
#[test]
fn each_subcommand_has_lines() {
    let help = Command::new(env!("CARGO_BIN_EXE_circulant")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let (commands, _) = commands.split_once("\n\n").unwrap();
    // A name stands two columns in; what follows it in further lines, more.
    let names = commands
        .lines()
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    let names: Vec<_> = names.filter(|name| *name != "help").collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        assert!(LINES.iter().any(|line| line.split(' ').next() == Some(name)), "{name} has no line");
    }
}
