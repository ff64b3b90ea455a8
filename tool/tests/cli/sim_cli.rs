//! `circulant sim`, run as a user runs it.

use circulant::machine::LogGp;
use circulant::plan::lower::WireLimits;
use circulant::plan::price::price;
use circulant::plan::registry::{Arguments, Operation, algorithm, algorithms};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn tool(dir: &Path, words: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "240", env!("CARGO_BIN_EXE_circulant")]).args(words.split_whitespace());
    command.current_dir(dir).stdin(Stdio::null()).output().unwrap()
}

fn good(dir: &Path, words: &str) -> String {
    let out = tool(dir, words);
    assert!(out.status.success(), "{words}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn rows(words: &str) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    serde_json::from_str(&good(dir.path(), &format!("{words} --format json"))).unwrap()
}

/// Every algorithm of every operation is a row, and those that fit ran.
#[test]
fn every_algorithm_of_every_operation_runs() {
    let mut ran = 0;
    for operation in Operation::ALL {
        for nodes in ["", " --ppn 4"] {
            let rows = rows(&format!("sim {operation} -p 16 --bytes 64000{nodes}"));
            let names: Vec<_> = rows.iter().map(|row| row["algorithm"].as_str().unwrap()).collect();
            assert_eq!(names, algorithms(operation).map(|a| a.name).collect::<Vec<_>>());
            for row in &rows {
                // Most fit 16 ranks: a power of two, and 4 by 4.
                if row["note"].as_str().unwrap().starts_with("cannot: ") {
                    let a = algorithm(operation, row["algorithm"].as_str().unwrap()).unwrap();
                    assert!(!a.restrictions.starts_with("any p"), "{row}");
                    continue;
                }
                assert!(row["ns"].as_u64().unwrap() > 0, "{row}");
                ran += 1;
                let (all, crossing) =
                    (row["put_bytes"].as_u64().unwrap(), row["crossing_bytes"].as_u64().unwrap());
                assert!(if nodes.is_empty() { crossing == all } else { crossing <= all }, "{row}");
            }
        }
    }
    assert!(ran > 100, "{ran}");
}

/// The tool's times are those of the library's pricing.
#[test]
fn times_are_the_library_s() {
    let model = LogGp { latency_ns: 8000, overhead_ns: 2000, byte_ps: 350, reduce_ps: 100 };
    let limits = WireLimits { max_put: u64::MAX, gather: 4, light: 2000, ..WireLimits::PLAIN };
    let wire = "--latency 8us --overhead 2000 --byte-time 0.35";
    for name in ["circulant", "binomial", "chain", "round_robin"] {
        let words = format!("sim bcast -p 36 --bytes 100K --root 5 --blocks 35 --algorithm {name} {wire}");
        let rows = rows(&words);
        let arguments =
            Arguments { size: 36, root: 5, bytes: 100_000, blocks: Some(35), ..Arguments::default() };
        let plan = (algorithm(Operation::Bcast, name).unwrap().build)(&arguments, &model).unwrap();
        assert_eq!(rows[0]["ns"], price(&*plan, &limits, &model).unwrap(), "{name}");
        assert_eq!((rows.len(), &rows[0]["rounds"]), (1, &Value::from(plan.rounds())));
    }
}

/// A power of two is asked for, and too many puts: both are said, and the others run all the same.
#[test]
fn what_cannot_run_is_listed() {
    let rows = rows("sim bcast -p 1000 --bytes 1M --budget 100K");
    let of = |name: &str| rows.iter().find(|row| row["algorithm"] == name).unwrap();
    assert!(of("hypercube")["note"].as_str().unwrap().contains("power of two"));
    assert!(of("chain")["note"].as_str().unwrap().starts_with("not run: about "));
    assert!(of("chain")["ns"].is_null() && of("circulant")["ns"].is_u64());
    let dir = tempfile::tempdir().unwrap();
    let table = good(dir.path(), "sim bcast -p 1000 --bytes 1M --budget 100K");
    assert!(table.contains("beyond the budget of 0.1 million steps"), "{table}");
    let alone = tool(dir.path(), "sim bcast -p 1000 --bytes 1M --algorithm hypercube");
    assert_eq!(alone.status.code(), Some(2));
}

/// As many ranks as there will ever be, in seconds.
#[test]
fn a_hundred_thousand_ranks() {
    let rows = rows("sim bcast -p 100000 --bytes 64K --blocks 4 --algorithm circulant");
    assert_eq!((&rows[0]["puts"], &rows[0]["rounds"]), (&Value::from(4 * 99_999), &Value::from(20)));
    assert_eq!(rows[0]["put_bytes"], 64_000u64 * 99_999);
}

/// A user that pipes the output sees on standard error that it goes on.
#[test]
fn a_long_simulation_says_how_far_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "300", env!("CARGO_BIN_EXE_circulant")]);
    command.args("sim bcast -p 100000 --bytes 1M".split(' ')).current_dir(dir.path());
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    // It goes on for a minute; that is enough. TERM, so that `timeout` passes it on.
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
    assert!(line.starts_with("circulant: ") && line.contains(" % ("), "{line:?}");
}

/// The circulant broadcast, which does not know of nodes, sends 18 times the message into each node of 32.
#[test]
fn full_nodes_are_what_the_flat_graph_is_bad_at() {
    let rows = rows("sim bcast -p 1152 --ppn 32 --bytes 1M --algorithm circulant");
    let each = rows[0]["crossing_bytes"].as_u64().unwrap() as f64 / 1e6 / 36.0;
    assert!((17.0..19.0).contains(&each), "{each}");
}

/// Between groups: `levels` runs, puts what each group needs there and no more, and is ahead where the links between them are few.
#[test]
fn groups_of_nodes() {
    for (ppn, nodes) in [("", 64), (" --ppn 2", 32)] {
        let rows = rows(&format!("sim bcast -p 64{ppn} --bytes 1M --groups 8 --taper 4"));
        let global = |name: &str| {
            let row = rows.iter().find(|row| row["algorithm"] == name).unwrap();
            row["global_bytes"].as_u64().unwrap()
        };
        assert_eq!(global("levels"), (nodes / 8 - 1) * 1_000_000);
        assert!(global("bine") > global("levels") && global("circulant") > global("levels"));
    }
    let dir = tempfile::tempdir().unwrap();
    let table = good(dir.path(), "sim allreduce -p 64 --bytes 1M --groups 8 --taper 4");
    assert!(table.contains("between groups") && table.contains("groups of 8 nodes, 1:4"), "{table}");
    let plain = good(dir.path(), "sim allreduce -p 64 --bytes 1M");
    assert!(!plain.contains("between groups") && plain.contains("cannot: no groups"), "{plain}");
}

#[test]
fn the_race_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let table = good(dir.path(), "sim allreduce -p 10 --sizes 1K..40K --plot race.svg");
    assert!(table.lines().any(|l| l.contains("40 KB") && l.ends_with("direct")), "{table}");
    let svg = std::fs::read_to_string(dir.path().join("race.svg")).unwrap();
    for a in algorithms(Operation::Allreduce).filter(|a| a.restrictions.starts_with("any p")) {
        assert!(svg.contains(a.name), "{} is not drawn", a.name);
    }
    assert!(svg.contains("</svg>") && svg.contains("C, the reference"));
}

#[test]
fn the_timeline_has_two_bars_per_put() {
    let dir = tempfile::tempdir().unwrap();
    good(dir.path(), "sim bcast -p 9 --bytes 1M --algorithm circulant --blocks 4 --timeline lines.svg");
    let svg = std::fs::read_to_string(dir.path().join("lines.svg")).unwrap();
    assert_eq!(svg.matches("</title></rect>").count(), 2 * 8 * 4);
    assert!(svg.contains(">0 to 2, round 0, 250 KB: "), "{svg}");
    assert_eq!(
        tool(dir.path(), "sim bcast -p 9 --bytes 1M --timeline no/such/folder.svg").status.code(),
        Some(1)
    );
}

#[test]
fn help_names_every_operation() {
    let dir = tempfile::tempdir().unwrap();
    let help = good(dir.path(), "sim --help");
    assert!(Operation::ALL.iter().all(|operation| help.contains(operation.name())), "{help}");
}
