//! `circulant trace`, on records of real jobs and on files that are none.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn tool(dir: &Path, words: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "240", env!("CARGO_BIN_EXE_circulant")]).args(words.split_whitespace());
    command.env_remove("CIRCULANT_RECORD").current_dir(dir).stdin(Stdio::null()).output().unwrap()
}

fn good(dir: &Path, words: &str) -> String {
    let out = tool(dir, words);
    assert!(out.status.success(), "{words}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// Records of a job of three ranks.
fn job(dir: &Path) {
    good(dir, "run -n 3 --provider tcp --record r bench bcast,allreduce --bytes 8,100K --reps 3 --check");
}

/// Begin, end, name.
type Slice<'a> = (f64, f64, &'a str);

fn number(event: &Value, name: &str) -> f64 {
    event[name].as_f64().unwrap_or_else(|| panic!("no {name}: {event}"))
}

/// The tables name all operations; the JSON parses, its slices nest, and no message arrives before it was sent.
#[test]
fn a_job_is_told_and_drawn() {
    let dir = tempfile::tempdir().unwrap();
    job(dir.path());
    let text = good(dir.path(), "trace r --perfetto t.json --svg t.svg");
    for words in
        ["3 of 3 ranks on 1 node, ", "no call is under way", "\nbcast ", "\nallreduce ", "rank 0 ", "rank 2 "]
    {
        assert!(text.contains(words), "no {words:?}: {text}");
    }
    let json: Value = serde_json::from_slice(&std::fs::read(dir.path().join("t.json")).unwrap()).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let mut threads: BTreeMap<(u64, u64), Vec<Slice<'_>>> = BTreeMap::new();
    let mut flows: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
    for event in events {
        match event["ph"].as_str().unwrap() {
            "X" => {
                let thread = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
                let start = number(event, "ts");
                let slice = (start, start + number(event, "dur"), event["name"].as_str().unwrap());
                threads.entry(thread).or_default().push(slice);
            }
            end @ ("s" | "f") => {
                let flow = flows.entry(event["id"].as_u64().unwrap()).or_insert([f64::NAN; 2]);
                flow[usize::from(end == "f")] = number(event, "ts");
            }
            _ => {}
        }
    }
    assert_eq!(threads.keys().map(|(rank, _)| *rank).collect::<std::collections::BTreeSet<_>>().len(), 3);
    let mut idle = 0;
    for slices in threads.values_mut() {
        slices.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut open: Vec<Slice<'_>> = Vec::new();
        for slice in slices.iter() {
            // Rounding to microseconds may move an end by a part of a nanosecond.
            open.retain(|outer| outer.1 > slice.0 + 1e-4);
            if let Some(outer) = open.last() {
                assert!(slice.1 <= outer.1 + 1e-4, "{slice:?} is not inside {outer:?}");
            }
            idle += usize::from(slice.2 == "idle" && !open.is_empty());
            open.push(*slice);
        }
    }
    assert!(idle > 0, "no rank ever waited");
    let early: Vec<_> = flows.values().filter(|[sent, arrived]| sent > arrived).take(5).collect();
    assert!(
        flows.len() > 4 && early.is_empty(),
        "of {} messages some came too early: {early:?}",
        flows.len()
    );
    let svg = std::fs::read_to_string(dir.path().join("t.svg")).unwrap();
    assert!(
        svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.matches("<rect").count() > 10,
        "{svg}"
    );
    assert!(svg.contains("<title>waits in bcast #") || svg.contains("<title>waits in allreduce #"));
}

/// Each is one line that names the file, and where in it.
#[test]
fn what_is_no_record_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    job(dir.path());
    let (folder, at) = (dir.path(), |name: &str| dir.path().join(name));
    let whole = std::fs::read_to_string(at("r/rank-1.record")).unwrap();
    let (cut, lines) = (whole.len() / 2, whole.lines().count());
    std::fs::write(at("cut"), &whole[..cut]).unwrap();
    std::fs::write(at("without-end"), whole.strip_suffix("end\n").unwrap()).unwrap();
    std::fs::write(at("other"), "hello\n").unwrap();
    std::fs::write(at("word"), whole.replacen("clock ", "clock x", 1)).unwrap();
    std::fs::write(at("size"), whole.replacen("rank 1 of 3", "rank 1 of 4", 1)).unwrap();
    std::fs::write(at("empty"), "").unwrap();
    std::fs::create_dir(at("nothing")).unwrap();
    for (words, said) in [
        ("cut", "cut: line "),
        ("without-end", &*format!("without-end: byte {}: the record has no end", whole.len() - 4)),
        ("other", "other: line 1 (byte 0): this is no flight record"),
        ("word", "word: line 5 (byte "),
        ("empty", "empty: byte 0: the record has no end"),
        ("absent", "absent: No such file"),
        ("nothing", "nothing: no records are there (*.record)"),
        ("r size", "records of several jobs"),
        ("r r/rank-1.record", "two records are of rank 1"),
    ] {
        let out = tool(folder, &format!("trace {words}"));
        let err = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), err.lines().count()), (Some(1), 1), "{words}: {err}");
        assert!(err.contains(said), "{words}: no {said:?} in {err}");
    }
    assert!(lines > 10);
    assert_eq!(tool(folder, "trace").status.code(), Some(2));
}
