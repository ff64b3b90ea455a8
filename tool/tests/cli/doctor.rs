//! `circulant doctor` as users run it: alone, as ranks, with trouble, and with ranks that do not answer. Nodes apart from each
//! other are ci/reach's.

use serde_json::Value;
use std::process::{Command, Output, Stdio};

/// The tool under a time limit, with these variables.
fn tool(words: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "100", env!("CARGO_BIN_EXE_circulant")]).args(words);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["CIRCULANT_", "PMI", "SLURM", "OMPI"].iter().any(|p| name.starts_with(p)) {
            command.env_remove(name);
        }
    }
    command.envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The report of `--json`, whose exit code must be what its problems say.
fn report(words: &[&str], variables: &[(&str, &str)]) -> Value {
    let out = tool(words, variables);
    let said = text(&out.stderr);
    let report: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    let trouble = report["problems"].as_array().unwrap().iter().any(|p| p["serious"] == true);
    assert_eq!(out.status.code(), Some(i32::from(trouble)), "{said} {report:#}");
    report
}

fn problems(report: &Value) -> String {
    let all = report["problems"].as_array().unwrap().iter();
    all.map(|p| format!("{} | {}\n", p["what"].as_str().unwrap(), p["remedy"].as_str().unwrap())).collect()
}

#[test]
fn alone_it_tells_of_this_node() {
    let report = report(&["doctor", "--json"], &[]);
    assert_eq!((&report["launcher"], &report["ranks"]), (&"single".into(), &1.into()));
    let node = &report["nodes"][0];
    assert_eq!((report["nodes"].as_array().unwrap().len(), &node["ranks"]), (1, &serde_json::json!([0])));
    assert!(node["addresses"].as_array().unwrap().iter().any(|a| a["ip"] == "127.0.0.1"), "{node:#}");
    assert!(node["limits"]["cores"].as_u64().unwrap() > 0);
    assert_eq!(report["wire"]["provider"], "self");
    let out = tool(&["doctor"], &[]);
    let said = text(&out.stdout);
    for word in ["1 rank on 1 node", "Nodes\n", "Addresses\n", "127.0.0.1/8", "Wire\n"] {
        assert!(said.contains(word), "{word} in {said}");
    }
}

#[test]
fn the_ranks_of_a_job_make_one_report() {
    let report = report(&["run", "-n", "3", "doctor", "--json"], &[]);
    assert_eq!((&report["ranks"], &report["launcher_nodes"]), (&3.into(), &serde_json::json!([0, 0, 0])));
    assert_eq!(report["nodes"][0]["ranks"], serde_json::json!([0, 1, 2]));
    assert_eq!(report["nodes"][0]["bindings"].as_array().unwrap().len(), 3);
    assert_eq!(report["wire"]["nodes"], serde_json::json!([0, 0, 0]));
    let clocks = report["wire"]["clocks"].as_array().unwrap();
    assert_eq!(clocks.len(), 3);
    // They read the same clock, so what they differ by must be within what the doctor takes for its own error.
    assert!(clocks.iter().all(|c| c[0].as_f64().unwrap().abs() <= c[1].as_f64().unwrap()), "{clocks:?}");
    let without = self::report(&["run", "-n", "2", "doctor", "--json", "--no-wire"], &[]);
    assert_eq!((&without["wire"], &without["ranks"]), (&Value::Null, &2.into()));
}

#[test]
fn trouble_is_told_with_what_to_do() {
    for (words, variables, told, remedy) in [
        (
            &["doctor", "--json"][..],
            &[("PMI_SIZE", "4")][..],
            "several ranks (PMI_SIZE=4)",
            "CIRCULANT_LAUNCHER=single",
        ),
        (&["doctor", "--json"], &[("CIRCULANT_PORTS", "9-3")], "CIRCULANT_PORTS", ""),
        (
            &["doctor", "--json"],
            &[("CIRCULANT_PROVDER", "tcp")],
            "no setting has that name",
            "CIRCULANT_PROVIDER",
        ),
        (
            &["run", "-n", "2", "doctor", "--json"],
            &[("CIRCULANT_PROVIDER", "carrier-pigeon")],
            "no usable provider for \"carrier-pigeon\"",
            "",
        ),
        (
            &["run", "-n", "2", "doctor", "--json"],
            &[("CIRCULANT_LIBFABRIC", "/nowhere/libfabric.so.1"), ("CIRCULANT_PROVIDER", "tcp")],
            "cannot load libfabric",
            "",
        ),
    ] {
        let report = report(words, variables);
        let text = problems(&report);
        assert!(text.contains(told) && text.contains(remedy), "{told}: {text}");
        assert!(
            report["problems"].as_array().unwrap().iter().any(|p| p["serious"] == true),
            "{told}: {text}"
        );
        assert!(!report["nodes"].as_array().unwrap().is_empty(), "{told}");
    }
}

/// Where problems are listed the exit code says so; what only costs time is listed apart.
#[test]
fn the_exit_code_says_whether_there_are_problems() {
    let heads = |out: &Output| {
        let said = text(&out.stdout);
        ["\nProblems\n", "\nNo problems found\n", "\nSlower than need be\n"].map(|head| said.contains(head))
    };
    // Two ranks on one core are slow.
    let circulant = env!("CARGO_BIN_EXE_circulant");
    let crowd =
        "exec taskset -c $(taskset -cp $$ | sed 's/.*: //; s/[-,].*//') \"$0\" run -n 2 \"$0\" doctor";
    let out = Command::new("bash").args(["-c", crowd, circulant]).output().unwrap();
    assert!(text(&out.stdout).contains("share the cores"), "{}{}", text(&out.stdout), text(&out.stderr));
    let [problems, none, slow] = heads(&out);
    assert_eq!((problems, none, slow), (!none, !problems, true), "{}", text(&out.stdout));
    assert_eq!(out.status.code(), Some(i32::from(problems)), "{}", text(&out.stdout));
    let out = tool(&["doctor"], &[("CIRCULANT_PROVDER", "tcp")]);
    let [problems, none, _] = heads(&out);
    assert_eq!((problems, none, out.status.code()), (true, false, Some(1)), "{}", text(&out.stdout));
}

#[test]
fn a_rank_that_does_not_answer_is_no_hang() {
    let silent = "if [ $PMI_RANK = 1 ]; then kill -STOP $$; fi; exec \"$0\" doctor --timeout 2";
    let words = ["run", "-n", "2", "--grace", "1", "sh", "-c", silent, env!("CARGO_BIN_EXE_circulant")];
    let out = tool(&words, &[]);
    let (said, printed) = (text(&out.stderr), text(&out.stdout));
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(printed.contains("2 ranks on 1 node") && printed.contains("did not answer"), "{printed}{said}");
}

#[test]
fn a_reader_that_leaves_is_no_panic() {
    let line =
        format!("timeout 60 {} doctor | true; echo ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_circulant"));
    let out = Command::new("bash").args(["-c", &line]).output().unwrap();
    assert!(!text(&out.stderr).contains("panicked"), "{}", text(&out.stderr));
}

/// `--wire` over `provider` under these limits: its report's checks.
fn checked(provider: &str, limits: &str) -> Value {
    let words = [
        "run",
        "-n",
        "3",
        "--provider",
        provider,
        "--limits",
        limits,
        "doctor",
        "--wire",
        "--json",
        "--timeout",
        "60",
    ];
    let report = report(&words, &[]);
    let checked = report["checked"].clone();
    assert_eq!(checked["wire"], report["wire"]["provider"], "the world takes the wire that was checked");
    let rows = checked["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["broken"] == 0), "{}", problems(&report));
    // Each pair both ways; once where the connection may break; and those of which one has an odd number.
    let pairs: Vec<_> = rows.iter().map(|row| row["pairs"].as_u64().unwrap()).collect();
    assert_eq!(pairs, [6, 6, 6, 6, 6, 6, 6, 3, 3, 2], "{checked:#}");
    checked
}

/// The most of what was seen, by check and name.
fn figure(checked: &Value, check: &str, name: &str) -> f64 {
    let row = checked["rows"].as_array().unwrap().iter().find(|row| row["check"] == check).unwrap();
    let figure = row["figures"].as_array().unwrap().iter().find(|figure| figure[0] == name);
    figure.unwrap_or_else(|| panic!("{row:#}"))[2].as_f64().unwrap()
}

#[test]
fn each_promise_of_the_wire_is_checked_between_all_neighbours() {
    for provider in ["shm", "tcp"] {
        let checked = checked(provider, "none");
        assert!(figure(&checked, "half round trip", "us") > 0.0);
        assert_eq!(figure(&checked, "longest put", "bytes"), f64::from(8 << 20), "{provider}");
        assert!(figure(&checked, "gather list", "pieces") > 1.0);
    }
}

#[test]
fn forced_limits_show_in_the_checks_of_the_wire() {
    let checked = checked("shm", "gather=1,max_put=64Ki,queue=2,unordered,no-word");
    assert_eq!(figure(&checked, "longest put", "bytes"), 65536.0);
    assert_eq!(figure(&checked, "gather list", "pieces"), 1.0);
    assert_eq!(figure(&checked, "full queue", "refused at first after"), 2.0);
    assert!(figure(&checked, "words", "overtaken") > 0.0);
}

#[test]
fn what_a_site_sends_back_says_wire_limits_and_outcomes() {
    let out = tool(&["run", "-n", "2", "--provider", "tcp", "doctor", "--wire"], &[]);
    let said = text(&out.stdout);
    let block = said.split("----8<----").nth(1).and_then(|rest| rest.split("---->8----").next()).unwrap();
    for words in
        ["2 ranks on 1 node", "longest put", "libfabric", "CIRCULANT_PROVIDER=tcp", "words: kept 2 pairs"]
    {
        assert!(block.contains(words), "{words} in {said}");
    }
    let alone = text(&tool(&["doctor", "--wire"], &[]).stdout);
    assert!(alone.contains("one rank has none"), "{alone}");
}
