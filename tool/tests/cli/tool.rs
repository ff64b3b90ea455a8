//! `circulant bench`, `cast`, `collect` and `info`, run as users run them: alone and as several processes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The tool under a time limit; the words may hold spaces only as separators.
fn tool(dir: &Path, words: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "120", env!("CARGO_BIN_EXE_circulant")]).args(words.split_whitespace());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CIRCULANT_") {
            command.env_remove(name);
        }
    }
    command.current_dir(dir).stdin(Stdio::null()).output().unwrap()
}

fn ranks(n: usize, words: &str) -> String {
    format!("run -n {n} --provider tcp --deadline 60 {words}")
}

fn good(dir: &Path, words: &str) -> String {
    let out = tool(dir, words);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{words}: {}: {said}", out.status);
    String::from_utf8(out.stdout).unwrap()
}

/// What was said on standard error; every line must be an error of ours.
fn bad(dir: &Path, words: &str, code: i32) -> String {
    let out = tool(dir, words);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(code), "{words}: {said}");
    assert!(!said.is_empty() && said.lines().all(|l| l.starts_with("circulant")), "{words}: {said}");
    said
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Bytes that differ everywhere, from a seed.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_le_bytes()[7]
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn bench_alone_prints_the_rivals_csv() {
    let dir = tempfile::tempdir().unwrap();
    let words = "bench bcast,allgatherv,allgather,barrier --bytes 0,7,1Ki --check --time 0.01 --format csv --label me";
    let text = good(dir.path(), words);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("op,dist,p,bytes,min_us,median_us,span_us,reps,label"));
    let rows: Vec<Vec<&str>> = lines.map(|l| l.split(',').collect()).collect();
    assert_eq!(rows.len(), 3 + 7 * 3 + 3 + 1);
    for row in &rows {
        assert_eq!((row.len(), row[2], row[8]), (9, "1", "me"), "{row:?}");
        let (min, median) = (row[4].parse::<f64>().unwrap(), row[5].parse::<f64>().unwrap());
        assert!(0.0 <= min && min <= median, "{row:?}");
    }
    assert_eq!(rows[3][..2], ["allgatherv", "regular"]);
    assert_eq!(rows.last().unwrap()[..4], ["barrier", "-", "1", "0"]);
}

#[test]
fn bench_checks_every_operation_between_processes() {
    let dir = tempfile::tempdir().unwrap();
    let words = "bench bcast,allgatherv,allgather,barrier,put --bytes 0,1,4099,100K --root 1 --check --stats \
                 --time 0.01 --reps 3 --format json --plot plot.svg";
    let text = good(dir.path(), &ranks(3, words));
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4 + 7 * 4 + 4 + 1 + 4);
    assert_eq!((&report["setting"]["p"], &report["setting"]["nodes"]), (&3.into(), &1.into()));
    for row in rows {
        // null: on a busy machine β may not be seen.
        assert!(row["reference_us"].as_f64().is_none_or(|c| c > 0.0), "{row}");
        // Every byte reaches each of the two others once.
        if row["op"] == "bcast" {
            let bytes = row["bytes"].as_u64().unwrap();
            assert_eq!(row["stats"]["wire_bytes"]["sum"], 2 * bytes, "{row}");
        }
    }
    let plot = fs::read_to_string(dir.path().join("plot.svg")).unwrap();
    for name in ["bcast", "allgatherv irr3", "put", "C, the reference", "100 KB"] {
        assert!(plot.contains(name), "{name}");
    }
}

/// nccl-tests' definitions (doc/PERFORMANCE.md there), for those of its operations that we have.
#[test]
fn bench_shows_algorithm_and_bus_bandwidth() {
    let dir = tempfile::tempdir().unwrap();
    let words = "bench bcast,reduce,allreduce,allgather,reduce_scatter_block,alltoall,gather,scatter,barrier --bytes 12000";
    let n = 3.0;
    for row in rows(dir.path(), &ranks(3, words)) {
        let factor = match row["op"].as_str().unwrap() {
            "bcast" | "reduce" => 1.0,
            "allreduce" => 2.0 * (n - 1.0) / n,
            "barrier" => {
                assert!(row["algbw_gbs"].is_null() && row["busbw_gbs"].is_null(), "{row}");
                continue;
            }
            _ => (n - 1.0) / n,
        };
        let [bytes, median, algbw, busbw] =
            ["bytes", "median_us", "algbw_gbs", "busbw_gbs"].map(|name| row[name].as_f64().unwrap());
        assert!((algbw - bytes / median / 1e3).abs() <= 1e-9 * algbw, "{row}");
        assert!((busbw - factor * algbw).abs() <= 1e-9 * busbw, "{row}");
    }
    let table = good(dir.path(), &ranks(2, "bench bcast,barrier --bytes 1K --time 0.01"));
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert!(
        head.contains(&"algbw") && head.contains(&"busbw") && table.contains("busbw = V/median"),
        "{table}"
    );
}

/// By the protocol of osu_mbw_mr: all pairs of ranks i and i + P/2 at once; of an odd number of ranks one is in no pair.
#[test]
fn bench_tells_the_message_rate_of_all_pairs() {
    let dir = tempfile::tempdir().unwrap();
    for (provider, n) in [("shm", 4), ("tcp", 3), ("tcp", 4)] {
        let words = format!("run -n {n} --provider {provider} --deadline 60 bench rate,put");
        let list = rows(dir.path(), &format!("{words} --bytes 0,8,100K"));
        assert_eq!(list.len(), 6);
        for row in list {
            let rate = row["messages_per_s"].as_f64();
            assert_eq!(rate.is_some(), row["op"] == "rate", "{row}");
            let Some(rate) = rate else { continue };
            let (bytes, median) = (row["bytes"].as_f64().unwrap(), row["median_us"].as_f64().unwrap());
            let messages = f64::from(n / 2) * 64.0;
            assert!((rate - messages / median * 1e6).abs() <= 1e-9 * rate, "{row}");
            let bandwidth = row["algbw_gbs"].as_f64().unwrap_or_default();
            assert!((bandwidth - rate * bytes / 1e9).abs() <= 1e-9 * bandwidth, "{row}");
        }
        let table = good(dir.path(), &format!("{words} --bytes 8 --reps 3 --time 0.01"));
        let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(head.last(), Some(&"messages/s"), "{table}");
        assert!(
            table.contains("messages/s: puts of all pairs") && table.contains("windows of 64"),
            "{table}"
        );
    }
}

#[test]
fn bench_tells_how_much_of_a_call_passes_beside_computing() {
    let dir = tempfile::tempdir().unwrap();
    for mode in ["request", "persistent"] {
        let words = format!("bench allreduce,barrier,put --bytes 100K --mode {mode} --overlap");
        let list = rows(dir.path(), &ranks(2, &words));
        assert_eq!(list.len(), 3);
        for row in list {
            let percent = row["overlap_percent"].as_f64();
            assert_eq!(percent.is_none(), row["op"] == "put", "{row}");
            assert!(percent.is_none_or(|percent| (0.0..=100.0).contains(&percent)), "{row}");
        }
    }
    let table =
        good(dir.path(), &ranks(2, "bench bcast --bytes 1K --mode request --overlap --stats --time 0.01"));
    let lines: Vec<Vec<&str>> = table.lines().take(2).map(|l| l.split_whitespace().collect()).collect();
    assert!(lines[0].contains(&"overlap") && lines[1].contains(&"%"), "{table}");
    let said = bad(dir.path(), "bench bcast --overlap", 2);
    assert!(said.contains("--mode request"), "{said}");
}

#[test]
fn a_persistent_start_allocates_nothing_and_copies_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let words = "bench bcast --bytes 1M --persistent --stats --check --reps 3 --format json";
    let report: serde_json::Value = serde_json::from_str(&good(dir.path(), &ranks(3, words))).unwrap();
    let stats = &report["rows"][0]["stats"];
    assert_eq!(
        (&stats["allocations"]["sum"], &stats["copied_bytes"]["sum"]),
        (&0.into(), &0.into()),
        "{stats}"
    );
    assert_eq!(stats["wire_bytes"]["sum"], 2_000_000);
}

/// Rows of a report.
fn rows(dir: &Path, words: &str) -> Vec<serde_json::Value> {
    let text = good(dir, &format!("{words} --format json --reps 2 --time 0.01"));
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    report["rows"].as_array().unwrap().clone()
}

#[test]
fn bench_checks_every_operation_in_every_mode() {
    let dir = tempfile::tempdir().unwrap();
    let all = "bench all --dist linear,s1,s8 --bytes 0,1,4099 --root 1 --check";
    for (mode, kind) in [("blocking", "i64"), ("request", "f32"), ("persistent", "bf16")] {
        let rows = rows(dir.path(), &ranks(3, &format!("{all} --mode {mode} --type {kind} --op max")));
        // Of 21 collectives two are barriers.
        assert_eq!(rows.len(), 19 * 3 + 2, "{mode}");
        assert!(rows.iter().all(|r| r["reference_us"].as_f64().is_none_or(|c| c > 0.0)), "{mode}");
        for op in [
            "alltoallw",
            "exscan",
            "inter_allgather",
            "inter_allgatherv",
            "inter_bcast",
            "reduce_scatter_block",
        ] {
            assert!(rows.iter().any(|r| r["op"] == op), "{op}");
        }
    }
}

/// More than 64 ranks on one core sleep where they wait: on arena memory, and on plain slices, which are sent in parts.
#[test]
fn bench_checks_many_ranks_on_one_core() {
    let crowd = "exec taskset -c $(taskset -cp $$ | sed 's/.*: //; s/[-,].*//') \"$0\" run -n 72 \"$0\" bench \
                 barrier,bcast,allreduce,allgatherv,alltoall,scan --dist irr3 --check --time 0.01 --memory";
    for (memory, bytes) in [("arena", "8,5K"), ("plain", "100K")] {
        let line = format!("{crowd} {memory} --bytes {bytes}");
        let out = Command::new("bash").args(["-c", &line, env!("CARGO_BIN_EXE_circulant")]).output().unwrap();
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

/// Each repetition has all its calls, and so have the two that come ahead.
#[test]
fn bench_makes_calls_in_a_row() {
    let dir = tempfile::tempdir().unwrap();
    let bench = "bench scan --bytes 8 --calls 50 --reps 3 --check";
    let out = tool(
        dir.path(),
        &format!("run -n 1 env CIRCULANT_STATS=1 {} {bench}", env!("CARGO_BIN_EXE_circulant")),
    );
    let (text, said) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("blocking calls, 50 in each repetition"), "{text}");
    let table = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let scans: u32 = table
        .filter(|words| words.first() == Some(&"scan"))
        .map(|words| words[2].parse::<u32>().unwrap())
        .sum();
    // And the few calls of the check.
    assert!((5 * 50..6 * 50).contains(&scans), "{said}");
}

#[test]
fn bench_checks_what_works_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let ops = "allgather,allgatherv,gather,gatherv,scatter,scatterv,reduce,allreduce,reduce_scatter,\
               reduce_scatter_block,scan,exscan";
    let words = "--dist half --bytes 1,4099 --root 2 --in-place --check --type complex-f64 --op prod";
    for (more, mode) in [(",alltoall,alltoallv,alltoallw", "blocking"), ("", "persistent"), ("", "request")] {
        let rows = rows(dir.path(), &ranks(4, &format!("bench {ops}{more} {words} --mode {mode}")));
        assert!(rows.len() >= 24, "{mode}");
    }
    let text = bad(dir.path(), &ranks(2, "bench bcast,allreduce --in-place"), 2);
    assert!(text.contains("there is no blocking bcast in place"), "{text}");
}

#[test]
fn bench_runs_all_algorithms_that_can() {
    let dir = tempfile::tempdir().unwrap();
    let words = "bench bcast,allreduce,inter_allgather,reduce-scatter --dist s1,spike --bytes 4099 --algorithm all --check";
    let rows = rows(dir.path(), &ranks(3, words));
    for (op, algorithm, there) in [
        ("bcast", "circulant", true),
        ("bcast", "chain", true),
        ("bcast", "hypercube", false),
        ("inter_allgather", "root_gathering", true),
    ] {
        let found = rows.iter().any(|r| r["op"] == op && r["algorithm"] == algorithm);
        assert_eq!(found, there, "{op} {algorithm} in {rows:#?}");
    }
    let csv =
        good(dir.path(), "bench bcast --bytes 8 --algorithm chain,auto --time 0.01 --format csv --label me");
    let labels: Vec<_> = csv.lines().skip(1).map(|l| l.rsplit(',').next().unwrap()).collect();
    assert_eq!(labels, ["me/chain", "me"]);
}

#[test]
fn the_table_says_what_it_shows() {
    let dir = tempfile::tempdir().unwrap();
    let text = good(dir.path(), &ranks(2, "bench bcast,put,allreduce --bytes 64Ki --reps 3 --time 0.01"));
    for word in [
        "min/C",
        "64 KiB",
        "2 ranks on 1 node",
        "provider",
        "launcher",
        "β =",
        "q = 1",
        "γ =",
        "sum of i32",
        "blocking calls",
        // Why there are no more than those.
        "as many as take 0.01 s together (--time), but at least 3 and at most 3 (--reps)",
    ] {
        assert!(text.contains(word), "{word} in {text}");
    }
}

#[test]
fn wrong_arguments_are_refused_everywhere_with_code_2() {
    let dir = tempfile::tempdir().unwrap();
    for (words, said) in [
        ("bench bcst", "there is no operation \"bcst\"; there are bcast"),
        ("bench bcast --dist flat", "there is no distribution \"flat\"; there are regular"),
        ("bench bcast --bytes 12Q", "such as"),
        ("bench bcast --root 1", "root 1 is out of range: there are ranks 0 to 0"),
        ("bench bcast --algorithm magic", "bcast has no algorithm \"magic\"; one of auto, circulant"),
        ("bench put", "two ranks"),
        ("bench inter_allgather", "two ranks"),
        (
            "bench iallgather",
            "\"iallgather\" is allgather by --mode request; between two groups it is inter_allgather",
        ),
        ("bench reduce --type f33", "there is no type \"f33\"; there are i8"),
        ("bench reduce --type f32 --op band", "band is not defined on f32"),
        ("bench bcast --nonsense", "--nonsense"),
        ("cast onlyone", "DEST"),
        ("cast a b%q", "after %"),
        ("cast a b --chunk 1", "4Ki"),
        ("nonsense", "nonsense"),
        ("", "--help"),
    ] {
        let text = bad(dir.path(), words, 2);
        assert!(text.contains(said), "{words}: {text}");
        assert_eq!(text.lines().count(), 1, "{words}: {text}");
    }
    let text = bad(dir.path(), &ranks(3, "bench bcast --root 3"), 2);
    let all = text.lines().filter(|l| l.contains("root 3 is out of range: there are ranks 0 to 2"));
    assert_eq!(all.count(), 3, "{text}");
}

#[test]
fn a_reader_that_leaves_is_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    for words in ["bench bcast --bytes 4,8,40,80 --time 0.01", "info", "--help", "bench --help"] {
        let line =
            format!("timeout 60 {} {words} | true; echo ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_circulant"));
        let out = Command::new("bash").args(["-c", &line]).current_dir(dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.stdout.as_slice(), said.as_ref()), (&b"0\n"[..], ""), "{words}");
    }
    let line = format!("timeout 60 {} info > /dev/full", env!("CARGO_BIN_EXE_circulant"));
    let out = Command::new("bash").args(["-c", &line]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("No space left"));
}

/// What developers run is no subcommand: `cargo run -p xtask`.
#[test]
fn the_papers_are_no_subcommand() {
    let dir = tempfile::tempdir().unwrap();
    let help = good(dir.path(), "--help");
    assert!(help.contains("  cast ") && !help.contains("paper"), "{help}");
    bad(dir.path(), "paper all", 2);
}

#[test]
fn every_help_has_examples() {
    let dir = tempfile::tempdir().unwrap();
    for words in ["--help", "bench --help", "bench -h", "cast --help", "collect --help", "info --help"] {
        let text = good(dir.path(), words);
        assert!(text.contains("Examples:\n"), "{words}: {text}");
    }
    // Of run, too, the first line says what it is for.
    for words in ["run --help", "run -h"] {
        let text = good(dir.path(), words);
        assert!(text.starts_with("Start a program as several ranks"), "{words}: {text}");
    }
    let text = good(dir.path(), "bench --help");
    for word in
        ["geometric", "all ranks' pieces", "25:7", "complex-f64", "[default: 35]", "Ki, Mi, Gi binary"]
    {
        assert!(text.contains(word), "{word}");
    }
}

/// The settings of two groups are the same to both.
#[test]
fn bench_and_sim_mean_one_thing_by_a_setting() {
    let dir = tempfile::tempdir().unwrap();
    let of = |words: &str| -> Vec<String> {
        let text = good(dir.path(), words);
        let (_, list) = text.split_once("Settings of two groups").unwrap();
        let list = list.lines().skip(1).take(8);
        list.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let (bench, sim) = (of("bench --help"), of("sim --help"));
    assert!(bench[2].starts_with("s3 ") && bench[7].starts_with("s8 "), "{bench:?}");
    assert_eq!(bench, sim);
}

#[test]
fn info_shows_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let report: serde_json::Value = serde_json::from_str(&good(dir.path(), "info --format json")).unwrap();
    assert!(report["limits"]["cores"].as_u64().unwrap() > 0);
    assert!(report["interfaces"].as_array().unwrap().iter().any(|i| i["name"] == "lo"));
    let providers = report["providers"].as_array().unwrap();
    assert!(providers.iter().any(|p| p["one_node"]["chosen"] == true), "{providers:#?}");
    // Which memory each registers.
    assert!(providers.iter().all(|p| p["memory"]["on_demand"].is_boolean()), "{providers:#?}");
    let table = good(dir.path(), "info");
    assert!(table.lines().any(|l| l.contains("longest put") && l.trim_end().ends_with("memory")), "{table}");
    let wires: Vec<_> =
        report["wires"].as_array().unwrap().iter().map(|w| w["wire"].as_str().unwrap()).collect();
    assert_eq!(wires[0], "shm");
    assert_eq!(wires[1], format!("{}+shm", wires[2]));
    let settings = report["settings"].as_array().unwrap();
    assert!(settings.iter().any(|s| s["variable"] == "CIRCULANT_DEADLINE" && s["from"] == "default"));
}

#[test]
fn cast_alone_copies_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    for (name, len) in [("empty", 0), ("odd", 100_003)] {
        fs::write(d.join(name), bytes(5, len)).unwrap();
        fs::set_permissions(d.join(name), fs::Permissions::from_mode(0o751)).unwrap();
        good(d, &format!("cast --chunk 16Ki {name} {name}-%r"));
        let copy = d.join(format!("{name}-0"));
        assert_eq!(fs::read(&copy).unwrap(), bytes(5, len));
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o7777, 0o751);
    }
    fs::create_dir(d.join("folder")).unwrap();
    good(d, "cast odd folder");
    assert_eq!(names(&d.join("folder")), ["odd"]);
}

#[test]
fn cast_to_several_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let data = bytes(7, 3_000_001);
    fs::write(d.join("f"), &data).unwrap();
    let text = good(d, &ranks(5, "cast f c-%r --chunk 256Ki"));
    assert!(text.contains("5 copies") && text.contains("reference C"), "{text}");
    for rank in 0..5 {
        assert_eq!(fs::read(d.join(format!("c-{rank}"))).unwrap(), data, "rank {rank}");
    }
    // One copy per node, and nothing is replaced unless told to.
    let text = good(d, &ranks(3, "cast f once"));
    assert!(text.contains("1 copy"), "{text}");
    fs::write(d.join("c-1"), "precious").unwrap();
    for rank in [0, 2] {
        fs::remove_file(d.join(format!("c-{rank}"))).unwrap();
    }
    let before = names(d);
    let text = bad(d, &ranks(3, "cast f c-%r"), 1);
    assert!(text.contains("rank 1 (") && text.contains("c-1 is there already; --force"), "{text}");
    assert_eq!((names(d), fs::read(d.join("c-1")).unwrap()), (before, b"precious".to_vec()));
    good(d, &ranks(3, "cast --force f c-%r"));
    assert_eq!(fs::read(d.join("c-1")).unwrap(), data);
    assert_eq!(names(d), ["c-0", "c-1", "c-2", "c-3", "c-4", "f", "once"]);
}

#[test]
fn trouble_at_one_rank_is_told_to_all_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    fs::write(d.join("f"), bytes(1, 50_000)).unwrap();
    for rank in [0, 2] {
        fs::create_dir(d.join(format!("d{rank}"))).unwrap();
    }
    let text = bad(d, &ranks(3, "cast f d%r/x"), 1);
    let told = text.lines().filter(|l| l.contains("rank 1 (") && l.contains("there is no folder d1"));
    assert_eq!(told.count(), 3, "{text}");
    let text = bad(d, &ranks(3, "cast none x%r"), 1);
    assert_eq!(text.lines().filter(|l| l.contains("none: No such file")).count(), 3, "{text}");
    // Room for it is nowhere; known before data moves.
    let huge = fs::File::create(d.join("huge")).unwrap();
    if huge.set_len(1 << 42).is_ok() {
        let text = bad(d, &ranks(2, "cast huge x%r"), 1);
        assert!(text.contains("needed"), "{text}");
    }
    assert_eq!(names(d), ["d0", "d2", "f", "huge"]);
    assert_eq!((names(&d.join("d0")).len(), names(&d.join("d2")).len()), (0, 0));
}

#[test]
fn collect_gathers_unequal_files() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    fs::create_dir(d.join("src")).unwrap();
    let sizes = [0, 1, 70_001, 1_000_000, 3, 0, 250_000, 12];
    for (i, len) in sizes.iter().enumerate() {
        fs::write(d.join(format!("src/f{i}")), bytes(i as u64, *len)).unwrap();
    }
    let text = good(d, &ranks(3, "collect src all-%r --chunk 64Ki"));
    assert!(text.contains("8 files") && text.contains("checksums equal"), "{text}");
    for rank in 0..3 {
        let folder = d.join(format!("all-{rank}"));
        assert_eq!(names(&folder), names(&d.join("src")));
        for (i, len) in sizes.iter().enumerate() {
            assert_eq!(
                fs::read(folder.join(format!("f{i}"))).unwrap(),
                bytes(i as u64, *len),
                "f{i} at {rank}"
            );
        }
    }
    let text = bad(d, &ranks(3, "collect all-%r one"), 1);
    assert!(text.contains("both have a file f0"), "{text}");
}

#[test]
fn collect_is_all_or_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    for rank in 0..3 {
        fs::write(d.join(format!("part-{rank}")), bytes(rank, 100_000)).unwrap();
    }
    fs::create_dir(d.join("to-1")).unwrap();
    fs::write(d.join("to-1/part-2"), "precious").unwrap();
    let text = bad(d, &ranks(3, "collect part-%r to-%r"), 1);
    assert!(text.contains("rank 1 (") && text.contains("part-2 is there already"), "{text}");
    assert_eq!(names(d), ["part-0", "part-1", "part-2", "to-1"]);
    assert_eq!(names(&d.join("to-1")), ["part-2"]);
    assert_eq!(fs::read(d.join("to-1/part-2")).unwrap(), b"precious");
    good(d, &ranks(3, "collect --force part-%r to-%r"));
    for rank in 0..3 {
        assert_eq!(fs::read(d.join(format!("to-1/part-{rank}"))).unwrap(), bytes(rank, 100_000));
    }
}

#[test]
fn more_files_than_can_be_open() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    fs::create_dir(d.join("many")).unwrap();
    for i in 0..700 {
        fs::write(d.join(format!("many/{i:03}")), bytes(i, 97)).unwrap();
    }
    good(d, &ranks(2, "collect many to-%r --chunk 4Ki"));
    for rank in 0..2 {
        let folder = d.join(format!("to-{rank}"));
        assert_eq!(names(&folder), names(&d.join("many")));
        assert!((0..700).all(|i| fs::read(folder.join(format!("{i:03}"))).unwrap() == bytes(i, 97)));
    }
}
