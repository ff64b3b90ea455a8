//! What programs say on standard error: misspelt settings, which end them, and what CIRCULANT_LOG=info tells. The example `hello`, which
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

/// What it said on standard error; it must fail.
fn refused(ranks: usize, settings: &[(&str, &str)]) -> (Option<i32>, String) {
    let out = run(ranks, settings);
    assert!(!out.status.success(), "{settings:?}: {out:?}");
    (out.status.code(), String::from_utf8(out.stderr).unwrap())
}

#[test]
fn a_misspelt_setting_is_an_error_that_names_the_nearest() {
    let typo = ("CIRCULANT_DEADLIEN", "5");
    let what = "CIRCULANT_DEADLIEN is set, and no setting has that name; did you mean CIRCULANT_DEADLINE?";
    let (_, alone) = refused(1, &[typo]);
    assert!(alone.contains("no setting has that name") && alone.contains("CIRCULANT_DEADLINE?"), "{alone}");
    // By the launcher, before it starts a rank.
    let (code, all) = refused(3, &[typo]);
    assert_eq!((code, all.lines().collect::<Vec<_>>()), (Some(2), vec![&*format!("circulant run: {what}")]));
    let (code, all) = refused(3, &[("CIRCULANT_WAIT", "blokc")]);
    assert!(code == Some(2) && all.contains("did you mean \"block\"?"), "{all}");
    said(3, &[("CIRCULANT_DEADLIEN", ""), ("CIRCULANT_WAIT", "block")]);
}

/// The launcher looks at variables that it sets for ranks, too.
#[test]
fn a_misspelt_setting_of_some_ranks_is_refused() {
    let mut command = Command::new("timeout");
    let words = ["run", "-n", "1", "true", ":", "-n", "1", "-x", "CIRCULANT_DEADLIEN=5", "true"];
    let out = command.args(["--kill-after=5", "240", TOOL]).args(words).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.code() == Some(2) && said.contains("did you mean CIRCULANT_DEADLINE?"), "{said}");
}

/// What one rank alone cannot understand ends the start of all.
#[test]
fn a_misspelt_setting_of_one_rank_is_told_to_all() {
    for (odd, what) in [
        ("0", "CIRCULANT_DEADLIEN=5"),
        ("1", "CIRCULANT_DEADLIEN=5"),
        ("2", "CIRCULANT_WAIT=blokc"),
        ("0", "CIRCULANT_BLOCKS=0"),
    ] {
        let script = format!("test $PMI_RANK = {odd} && export {what}; exec \"$0\"");
        let mut command = Command::new("timeout");
        command.args([
            "--kill-after=5",
            "240",
            TOOL,
            "run",
            "-n",
            "4",
            "--all-errors",
            "--label",
            "sh",
            "-c",
            &script,
        ]);
        let out = command.arg(hello()).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        let (variable, _) = what.split_once('=').unwrap();
        assert!(out.status.code().is_some_and(|code| code != 0 && code != 124), "{said}");
        for rank in 0..4 {
            let of_rank = format!("[{rank}] ");
            let told = said.lines().any(|line| line.starts_with(&of_rank) && line.contains(variable));
            assert!(told, "rank {rank} was not told of {what} at rank {odd}: {said}");
        }
    }
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
    assert!(all.contains("bcast: a short call"), "{all}");
    let out = run(1, &[("CIRCULANT_LOG", "loud")]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("CIRCULANT_LOG: \"loud\" is not error"));
}
