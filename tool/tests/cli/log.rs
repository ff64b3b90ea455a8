//! What programs say on standard error: misspelt settings, and what CIRCULANT_LOG=info tells. The example `hello`, which
//! installs no subscriber of its own, is the program.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const TOOL: &str = env!("CARGO_BIN_EXE_circulant");

/// Built by `cargo test` beside the tests, unless single tests are named.
fn hello() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples/hello");
    assert!(path.exists(), "{} is not built: cargo build --profile test --examples", path.display());
    path
}

/// Runs it on so many ranks with these settings and no others.
fn run(ranks: usize, settings: &[(&str, &str)]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "240"]);
    if ranks > 1 {
        command.args([TOOL, "run", "-n", &ranks.to_string()]);
    }
    command.arg(hello());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CIRCULANT_") {
            command.env_remove(name);
        }
    }
    command.envs(settings.iter().copied()).stdin(Stdio::null()).output().unwrap()
}

/// What it said on standard error; it must end well.
fn said(ranks: usize, settings: &[(&str, &str)]) -> String {
    let out = run(ranks, settings);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success(), "{settings:?}: {}: {said}", out.status);
    said
}

#[test]
fn a_misspelt_setting_is_told_with_the_nearest() {
    let typo = ("CIRCULANT_DEADLIEN", "5");
    let warning = "CIRCULANT_DEADLIEN is set, and no setting has that name; did you mean CIRCULANT_DEADLINE?";
    let alone = said(1, &[typo]);
    assert_eq!(alone.matches(warning).count(), 1, "{alone}");
    // By the launcher, and by rank 0; not by the other ranks.
    let all = said(3, &[typo]);
    assert_eq!(all.matches(warning).count(), 2, "{all}");
    assert!(!said(1, &[typo, ("CIRCULANT_LOG", "error")]).contains("CIRCULANT_DEADLIEN"));
    assert_eq!(said(3, &[]), "", "nothing is misspelt");
}

#[test]
fn an_unknown_provider_is_refused_by_one_rank_too() {
    for ranks in [1, 2] {
        let out = run(ranks, &[("CIRCULANT_PROVIDER", "carrier-pigeon")]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && said.contains("carrier-pigeon"), "{ranks}: {said}");
    }
    // There may be no such device here: one rank needs none.
    for known in ["verbs", "tcp+shm", "shm", "psm3", "auto"] {
        said(1, &[("CIRCULANT_PROVIDER", known)]);
    }
}

#[test]
fn info_tells_what_a_program_runs_on() {
    let settings = [("PROVIDER", "tcp"), ("BLOCKS", "3"), ("ALGORITHM", "bcast=circulant"), ("LOG", "info")];
    let settings = settings.map(|(name, value)| (format!("CIRCULANT_{name}"), value));
    let text = said(3, &settings.each_ref().map(|(name, value)| (name.as_str(), *value)));
    for words in [
        "3 ranks on 1 node, provider ",
        "launcher pmi1",
        "ranks by node: 0: 0-2",
        "connected to rank 1 at ",
        "127.0.0.1",
        "defaults: CIRCULANT_PROVIDER=tcp CIRCULANT_BLOCKS=3 CIRCULANT_ALGORITHM=bcast=circulant CIRCULANT_LOG=info",
        "choices by L = ",
        "bcast: circulant, 3 blocks, 4 rounds (by plan; 8000 bytes, 3 ranks)",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(text.lines().all(|line| line.starts_with("circulant: info: rank 0: ")), "{text}");
    let all = said(3, &[("CIRCULANT_LOG", "info,all")]);
    for rank in 0..3 {
        let calls = all.lines().filter(|l| l.starts_with(&format!("circulant: info: rank {rank}: bcast: ")));
        assert_eq!(calls.count(), 1, "{all}");
    }
    assert!(all.contains("bcast: the board of the node"), "{all}");
    let out = run(1, &[("CIRCULANT_LOG", "loud")]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("CIRCULANT_LOG: \"loud\" is not error"));
}
