//! The examples run and end well, alone and as several processes. They check their results themselves.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Built by `cargo test` beside the tests, unless single tests are named.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is not built: cargo build --profile test --examples", path.display());
    path
}

fn run(words: &[&str], name: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60"]).args(words).arg(example(name));
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("CIRCULANT_") {
            command.env_remove(variable);
        }
    }
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn examples_end_well() {
    for (name, ranks, line) in [
        ("dot", "3", "x·y = 8997000, the largest is x[2999]"),
        ("halo", "3", "after 50 steps on 3 ranks: 1000.000000 in all"),
        ("table", "3", "3 tables of 8192 squares"),
        ("offsets", "4", "rank 3: bytes 33 to 43"),
        ("rows_columns", "4", "row 1 of 2 × 2 ranks"),
        ("overlap", "2", "20 sums, the last is Some(38)"),
        ("allgatherv", "3", ""),
        ("persistent", "2", "1000 starts"),
        ("hello", "2", ""),
        ("ends", "4", "ok: 3 of 4 by pmi1"),
        ("readme", "2", "[1]"),
        ("survivor", "4", "solved by 4 of 4 ranks"),
        ("startup", "3", "3 ranks by pmi1"),
    ] {
        let circulant = env!("CARGO_BIN_EXE_circulant");
        for words in [&[][..], &[circulant, "run", "-n", ranks, "--deadline", "30"][..]] {
            let out = run(words, name);
            let (said, printed) =
                (String::from_utf8_lossy(&out.stderr), String::from_utf8_lossy(&out.stdout));
            assert!(out.status.success(), "{name} {words:?}: {}: {said}", out.status);
            assert!(words.is_empty() || printed.contains(line), "{name}: {printed}");
        }
    }
}
