//! `circulant tune` as users run it, and what becomes of its file in other processes.

use circulant::select::{Tuning, WITHIN};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const FILE: &str = "# by hand\n\n[measured]\nprovider = \"PROVIDER\"\n[within-node]\nlatency-ns = 12000 # L\n\
                    overhead-ns = 345\nbyte-ps = 678\n[memory]\nreduce-ps = 999\n";

/// The tool under a time limit, with these variables and none of ours besides.
fn tool(dir: &Path, words: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "120", env!("CARGO_BIN_EXE_circulant")]).args(words);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CIRCULANT_") {
            command.env_remove(name);
        }
    }
    command.envs(variables.iter().copied()).current_dir(dir).stdin(Stdio::null()).output().unwrap()
}

fn good(dir: &Path, words: &str, variables: &[(&str, &str)]) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    let out = tool(dir, &words, variables);
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn bad(dir: &Path, words: &[&str], variables: &[(&str, &str)], code: i32) -> String {
    let out = tool(dir, words, variables);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(code), "{words:?}: {said}");
    said
}

const KEEP: &str = "run -n 3 --provider tcp --deadline 60 tune --keep";

/// What the provider is called that the setting `tcp` stands for here.
fn provider(dir: &Path) -> String {
    let text = good(dir, KEEP, &[]);
    text.strip_prefix("provider ").unwrap().split_once("; figures from").unwrap().0.to_owned()
}

/// The file by hand, as written for that provider.
fn by_hand(dir: &Path) {
    std::fs::write(dir.join("hand"), FILE.replace("PROVIDER", &provider(dir))).unwrap();
}

#[test]
fn a_file_is_written_whole_and_used() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let measure = "run -n 3 --provider tcp --deadline 60 tune -o file";
    assert_eq!(good(dir, measure, &[]), "");
    let text = std::fs::read_to_string(dir.join("file")).unwrap();
    let tuning = Tuning::parse(&text).unwrap();
    assert_eq!((tuning.number("measured.hosts"), tuning.number("measured.ranks")), (Some(1), Some(3)));
    let link = tuning.link(WITHIN).unwrap();
    assert!(link.byte_ps > 0 && tuning.number("memory.reduce-ps").unwrap() > 0, "{text}");
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 1);
    assert!(good(dir, KEEP, &[("CIRCULANT_TUNING", "file")]).contains("figures from the tuning file"));
    // It is not replaced unasked.
    let words: Vec<&str> = measure.split_whitespace().collect();
    assert!(bad(dir, &words, &[], 1).contains("--force"));
    assert_eq!(std::fs::read_to_string(dir.join("file")).unwrap(), text);
    good(dir, &format!("{measure} --force"), &[]);
    // One process has no wire; what memory does it can tell.
    let alone = Tuning::parse(&good(dir, "tune", &[])).unwrap();
    assert!(alone.link(WITHIN).is_none() && alone.number("memory.copy-cold-ps").is_some());
}

#[test]
fn all_ranks_take_rank_0s_file_and_settings_go_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    by_hand(dir);
    let file = ("CIRCULANT_TUNING", "hand");
    let text = good(dir, KEEP, &[file]);
    assert!(text.contains("L = 12 µs, o = 345 ns, β = 0.678 ns/B") && text.contains("γ = 0.999"), "{text}");
    let text = good(dir, KEEP, &[file, ("CIRCULANT_LATENCY", "77000"), ("CIRCULANT_PROBE", "on")]);
    assert!(text.contains("L = 77 µs, o = 345 ns"), "{text}");
    // Only rank 0 has the file; --keep fails where ranks do not have the same figures.
    let some = |who: &str, what: &str| {
        let script =
            format!("case $PMI_RANK in {who}) export CIRCULANT_TUNING={what};; esac; exec $0 tune --keep");
        let words =
            ["run", "-n", "3", "--provider", "tcp", "sh", "-c", &script, env!("CARGO_BIN_EXE_circulant")];
        tool(dir, &words, &[])
    };
    let out = some("0", "hand");
    assert!(String::from_utf8_lossy(&out.stdout).contains("L = 12 µs"), "{out:?}");
    // A rank that was told another file says so.
    let out = some("1", "hand");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && said.contains("CIRCULANT_TUNING is \"none\" at rank 0"), "{said}");
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("bad"), "[memory]\n# fine\nreduce = 7\n").unwrap();
    let words: Vec<&str> = KEEP.split_whitespace().collect();
    let said = bad(dir, &words, &[("CIRCULANT_TUNING", "bad")], 2);
    assert!(said.contains("CIRCULANT_TUNING: line 3: [memory] has no \"reduce\""), "{said}");
    let said = bad(dir, &words, &[("CIRCULANT_TUNING", "absent")], 2);
    assert!(said.contains("CIRCULANT_TUNING: absent: No such file"), "{said}");
    let said = bad(dir, &words, &[("CIRCULANT_PROBE", "maybe")], 2);
    assert!(said.contains("CIRCULANT_PROBE: \"maybe\" is not on, off or auto"), "{said}");
}

#[test]
fn selection_goes_by_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let between = FILE.replace("within-node", "between-nodes").replace("PROVIDER", "tcp");
    std::fs::write(dir.join("far"), between).unwrap();
    let select = "select allreduce -p 20 --bytes 100K --format json";
    let file = good(dir, select, &[("CIRCULANT_TUNING", "far")]);
    let flags = " --latency 12000 --overhead 345 --byte-time 0.678 --reduce-time 0.999";
    assert_eq!(file, good(dir, &format!("{select}{flags}"), &[]));
    assert_ne!(file, good(dir, select, &[]));
    // Of another provider only what memory does counts.
    let other = good(dir, &format!("{select} --provider verbs"), &[("CIRCULANT_TUNING", "far")]);
    assert_eq!(other, good(dir, &format!("{select} --provider verbs --reduce-time 0.999"), &[]));
}

#[test]
fn the_probe_measures_when_it_is_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let from = |value: &str| {
        let text = good(dir, KEEP, &[("CIRCULANT_PROBE", value)]);
        text.lines().next().unwrap().rsplit_once("figures from ").unwrap().1.to_owned()
    };
    assert_eq!(from("on"), "the probe of start-up");
    assert_eq!(from("off"), "the built-in table");
    // Tcp is another thing everywhere.
    assert_eq!(from("auto"), "the probe of start-up");
}

#[test]
fn prices_are_compared_with_times() {
    let dir = tempfile::tempdir().unwrap();
    let words = "run -n 3 --provider tcp --deadline 60 tune --keep --verify --ops bcast,reduce,barrier \
                 --bytes 8,1000 --candidates 2 --time 0.01";
    let text = good(dir.path(), words, &[]);
    let marked = |mark: &str| text.lines().filter(|l| l.contains(mark)).count();
    // Two operations of two sizes, and one of none.
    assert_eq!(marked("chosen"), 5, "{text}");
    assert!(
        (6..=11).contains(&text.lines().filter(|l| l.contains(" µs") || l.contains(" ms")).count()),
        "{text}"
    );
    assert!(
        text.contains("of 5 points; at worst") && text.contains("Predicted / measured: median"),
        "{text}"
    );
    let alone = bad(dir.path(), &["tune", "--keep", "--verify"], &[], 2);
    assert!(alone.contains("one rank has nothing to verify"), "{alone}");
}
