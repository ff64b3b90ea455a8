//! `circulant algorithms`, `select` and `completions`, as users run them; and the document made of the first.

use circulant::plan::registry::{self, Operation};
use serde_json::Value;
use std::process::{Command, Output, Stdio};

/// The tool under a time limit, with these variables and none of ours besides.
fn tool(words: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60", env!("CARGO_BIN_EXE_circulant")]).args(words.split_whitespace());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CIRCULANT_") {
            command.env_remove(name);
        }
    }
    command.envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap()
}

fn good(words: &str, variables: &[(&str, &str)]) -> String {
    let out = tool(words, variables);
    assert!(out.status.success(), "{words}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn bad(words: &str, variables: &[(&str, &str)]) -> String {
    let out = tool(words, variables);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{words}: {said}");
    said
}

fn json(words: &str, variables: &[(&str, &str)]) -> Value {
    serde_json::from_str(&good(&format!("{words} --format json"), variables)).unwrap()
}

#[test]
fn the_document_is_what_the_tool_prints() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/algorithms.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (_, table) = document.split_once("<!-- circulant algorithms --format markdown -->\n").unwrap();
    let printed = good("algorithms --format markdown", &[]);
    assert!(
        table.trim() == printed.trim(),
        "docs/algorithms.md: put what `circulant algorithms --format markdown` prints below the mark"
    );
}

#[test]
fn every_line_of_the_registry_is_listed() {
    let all = json("algorithms", &[]);
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), registry::all().count());
    let text = good("algorithms", &[]);
    for line in registry::all() {
        let op = line.operation.name();
        let listed = all.iter().find(|l| l["operation"] == op && l["name"] == line.name).unwrap();
        assert_eq!(listed["rounds"], line.rounds);
        assert_eq!(listed["order"].is_object(), line.operation.reduces());
        let (_, table) = text.split_once(&format!("{op}\n")).unwrap();
        assert!(table.lines().any(|l| l.split_whitespace().next() == Some(line.name)), "{op} {}", line.name);
    }
    for op in Operation::ALL {
        let some = json(&format!("algorithms {op}"), &[]);
        assert!(some.as_array().unwrap().iter().all(|l| l["operation"] == op.name()));
    }
    assert!(bad("algorithms bcats", &[]).contains("possible values: bcast"));
}

#[test]
fn select_shows_every_candidate_and_why_one_is_none() {
    let points = json("select bcast -p 17 --bytes 1M", &[]);
    let point = &points[0];
    let rows = point["candidates"].as_array().unwrap();
    let times: Vec<f64> = rows.iter().filter_map(|r| r["time_ns"].as_f64()).collect();
    assert!(times.is_sorted() && times.len() == 9, "{times:?}");
    let cube = rows.iter().find(|r| r["name"] == "hypercube").unwrap();
    assert!(cube["excluded"].as_str().unwrap().contains("power of two"));
    let chosen = rows.iter().find(|r| r["name"] == point["chosen"]).unwrap();
    assert!(chosen["time_ns"].as_f64().unwrap() <= 1.03 * times[0]);
    let text = good("select bcast -p 17 --bytes 1M", &[]);
    assert_eq!(text.lines().filter(|l| l.starts_with('*')).count(), 1, "{text}");
    let winner = point["chosen"].as_str().unwrap();
    assert!(text.contains(&format!("\n{winner} is chosen, by price\n")), "{text}");
    assert!(text.starts_with("bcast of 1 MB, 17 ranks; L = 1.5 µs, o = 300 ns"), "{text}");
}

#[test]
fn select_obeys_the_settings_as_a_call_does() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules");
    std::fs::write(&path, "allreduce bytes<=64Ki -> ordered\n").unwrap();
    let file = ("CIRCULANT_SELECTION", path.to_str().unwrap());
    let chosen = |words: &str, variables: &[(&str, &str)]| json(words, variables)[0]["chosen"].clone();
    assert_eq!(chosen("select allreduce -p 9", &[file]), "ordered");
    assert_ne!(chosen("select allreduce -p 9 --bytes 1M", &[file]), "ordered");
    let name = ("CIRCULANT_ALGORITHM", "allreduce=ring,bcast=chain");
    assert_eq!(chosen("select allreduce -p 9", &[file, name]), "ring");
    assert!(good("select bcast -p 9", &[name]).contains("chain is chosen, by the settings"));
    assert_eq!(chosen("select reduce -p 9 --bytes 1M", &[("CIRCULANT_REPRODUCIBLE", "yes")]), "ordered");
    assert_eq!(chosen("select reduce -p 9 --bytes 1M --reproducible", &[]), "ordered");
    assert_eq!(chosen("select reduce -p 9 --bytes 1M --commutative no", &[]), "ordered");
    let rows = json("select reduce -p 9 --commutative no", &[]);
    let why = |name: &str| {
        let all = rows[0]["candidates"].as_array().unwrap();
        all.iter().find(|c| c["name"] == name).unwrap()["excluded"].clone()
    };
    assert!(why("binomial").as_str().unwrap().contains("does not commute"), "{rows}");
    assert!(why("one-hop").is_null(), "{rows}");
    std::fs::write(&path, "bcast -> chain\nallreduce bytes<=64Ki > ordered\n").unwrap();
    assert!(bad("select allreduce -p 9", &[file]).contains("CIRCULANT_SELECTION: line 2: there is no ->"));
    for (words, variables, said) in [
        ("select allreduce -p 9", &[("CIRCULANT_ALGORITHM", "magic")][..], "no operation has an algorithm"),
        (
            "select allreduce -p 9 --commutative no",
            &[("CIRCULANT_ALGORITHM", "ring")],
            "doubling, multiplying, ordered",
        ),
        ("select bcast -p 9", &[("CIRCULANT_ALGORITHM", "hypercube")], "auto would do, and circulant"),
        ("select bcast -p 9 --root 9", &[], "there are ranks 0 to 8"),
        ("select bcast -p 9 --counts 1,2", &[], "has no counts"),
        ("select gatherv -p 9 --counts 1,2", &[], "2 counts for 9 ranks"),
        ("select bcast -p 0", &[], "0 is not in 1..=2147483647"),
        ("select bcast -p 2 --dist flat", &[], "there are regular, broadcast"),
        ("select bcast", &[], "-p <P>"),
    ] {
        let text = bad(words, variables);
        assert!(text.contains(said), "{words}: {text}");
    }
}

/// The same words mean the same wire to both, and where nothing is said they have the same one.
#[test]
fn select_and_sim_read_one_wire() {
    for (flags, variables, wire) in [
        ("", &[][..], "L = 1.5 µs, o = 300 ns, β = 0.080 ns/B"),
        ("--latency 1ms --overhead 20us --byte-time 80", &[], "L = 1 ms, o = 20 µs, β = 80.000 ns/B"),
        ("--latency 2500", &[("CIRCULANT_OVERHEAD", "70")], "L = 2.5 µs, o = 70 ns, β = 0.080 ns/B"),
        ("--provider tcp", &[], "L = 8 µs, o = 2.5 µs, β = 0.350 ns/B"),
    ] {
        for tool in ["select", "sim"] {
            let text = good(&format!("{tool} bcast -p 5 --bytes 1000 {flags}"), variables);
            assert!(text.contains(wire), "{tool} {flags}: {text}");
        }
    }
    assert!(bad("select bcast -p 5 --latency soon", &[]).contains("1.5us"));
}

#[test]
fn select_knows_nodes_counts_and_sweeps() {
    let time = |words: &str, name: &str| {
        let points = json(words, &[]);
        let rows = points[0]["candidates"].as_array().unwrap().clone();
        rows.iter().find(|r| r["name"] == name).unwrap()["time_ns"].as_f64().unwrap()
    };
    // Ranks of a node share its link; a ring leaves the node once, doubling everywhere.
    let (flat, shared) = ("select allreduce -p 64 --bytes 1M", "select allreduce -p 64 --ppn 8 --bytes 1M");
    assert!(time(shared, "doubling") > 2.0 * time(flat, "doubling"));
    assert!(time(shared, "ring") < 1.01 * time(flat, "ring"));
    assert!(time("select allreduce -p 64 --ppn 64", "ring") < 1.01 * time("select allreduce -p 64", "ring"));
    let counts = json("select allgatherv -p 3 --counts 0,1Ki,5", &[]);
    assert_eq!(counts[0]["bytes"], 1029);
    for op in Operation::ALL {
        let text = good(&format!("select {op} -p 36 --sweep"), &[]);
        assert_eq!(text.lines().count(), 2 + 1 + 24, "{text}");
        if !op.is_between_groups() {
            good(&format!("select {op} -p 1"), &[]);
        }
        good(&format!("select {op} -p 2 --bytes 0"), &[]);
    }
    // The price of a million ranks takes no plan.
    let huge = json("select allreduce -p 1000000 --ppn 100", &[]);
    let all = registry::algorithms(Operation::Allreduce).count();
    assert_eq!(huge[0]["candidates"].as_array().unwrap().len(), all);
}

#[test]
fn completions_know_the_registry() {
    for shell in ["bash", "zsh", "fish"] {
        let script = good(&format!("completions {shell}"), &[]);
        for line in registry::all() {
            assert!(script.contains(line.name), "{shell}: {}", line.name);
        }
        for op in Operation::ALL {
            assert!(script.contains(op.name()), "{shell}: {op}");
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("script");
    std::fs::write(&path, good("completions bash", &[])).unwrap();
    assert!(Command::new("bash").arg("-n").arg(&path).status().unwrap().success());
}
