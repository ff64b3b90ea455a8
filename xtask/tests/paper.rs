//! `xtask`, run as a developer runs it.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[path = "../src/paper/ledger.rs"]
#[allow(dead_code, reason = "its own tests alone run here")]
mod ledger;

use std::process::{Command, Output};

fn xtask(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(words).output().unwrap()
}

#[track_caller]
fn good(words: &[&str]) -> String {
    let out = xtask(words);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// What the papers print is what is computed, but where they are known to err.
#[test]
fn the_papers_agree() {
    let list = good(&["paper"]);
    let names: Vec<&str> = list.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["traff-2022", "traff-2010", "grama", "kang-2019", "axida"]);
    let text = good(&["paper", "all"]);
    assert!(!text.contains("DIFFERS") && text.matches(" 0 differ").count() == names.len(), "{text}");
    assert!(text.contains("the paper errs") && text.contains("measured here"));
}

#[test]
fn the_figure_in_the_documents_is_what_is_drawn() {
    let figure = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/schedule-p9.svg");
    assert_eq!(good(&["draw-schedule"]), std::fs::read_to_string(figure).unwrap());
    assert!(good(&["draw-schedule", "5", "2"]).contains("Broadcast of 2 blocks to 5 ranks in 4 rounds"));
}

#[test]
fn wrong_words_are_refused() {
    for words in
        [&["paper", "knuth"][..], &[], &["papers"], &["draw-schedule", "1"], &["draw-schedule", "9", "x"]]
    {
        let out = xtask(words);
        assert_eq!(out.status.code(), Some(2), "{words:?}");
        assert!(out.stdout.is_empty() && !out.stderr.is_empty(), "{words:?}");
    }
}

/// A table of another tree is judged by the same simulator.
#[test]
fn choices_are_compared_with_those_of_another_tree() {
    let ours = good(&["choices", "barrier", "--csv"]);
    let line =
        ours.lines().find(|line| line.starts_with("barrier,-,100,16,0,8,tcp,node_dissemination,")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("choices.csv");
    std::fs::write(&file, ours.replace(line, &line.replacen("node_", "", 1))).unwrap();
    let both = good(&["choices", "barrier", "--against", file.to_str().unwrap()]);
    assert!(both.contains("1 choices changed: 1 a tenth faster, 0 slower"), "{both}");
    std::fs::write(&file, "operation").unwrap();
    let bad = xtask(&["choices", "--against", file.to_str().unwrap()]);
    assert!(!bad.status.success() && String::from_utf8_lossy(&bad.stderr).contains("the first line"));
    assert!(!xtask(&["choices", "bcasts"]).status.success());
}
