//! What enters the dependency tree, judged by `cargo metadata` and the lists of deny.toml: licences, sources,
//! bans, duplicates. cargo-deny (`ci/deny`) judges the same with more care; this needs no installation.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The quoted words of the array `key = [ … ]` in deny.toml; of inline tables the value of `crate`.
/// (One reader for two lists is not worth a TOML library.)
fn list(toml: &str, key: &str) -> Vec<String> {
    let start = format!("\n{key} = [\n");
    let from = toml.find(&start).unwrap_or_else(|| panic!("deny.toml has no {key}")) + start.len();
    let text = &toml[from..from + toml[from..].find("\n]").unwrap()];
    text.lines()
        .filter(|l| !l.trim().starts_with('#'))
        .filter_map(|l| l.split('"').nth(1))
        .map(str::to_owned)
        .collect()
}

/// Whether an SPDX expression can be met with licences that `allowed` says yes to. The older `A/B` means OR.
fn licence_is_met(expression: &str, allowed: &impl Fn(&str) -> bool) -> bool {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = text.split_whitespace().peekable();
    let met = any_of(&mut words, allowed);
    met == Some(true) && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(words: &mut Words<'_>, allowed: &impl Fn(&str) -> bool) -> Option<bool> {
    let mut met = all_of(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        met |= all_of(words, allowed)?;
    }
    Some(met)
}

fn all_of(words: &mut Words<'_>, allowed: &impl Fn(&str) -> bool) -> Option<bool> {
    let mut met = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed)?;
    }
    Some(met)
}

fn one(words: &mut Words<'_>, allowed: &impl Fn(&str) -> bool) -> Option<bool> {
    match words.next()? {
        "(" => {
            let met = any_of(words, allowed)?;
            (words.next()? == ")").then_some(met)
        }
        name if words.next_if_eq(&"WITH").is_some() => {
            Some(allowed(&format!("{name} WITH {}", words.next()?)))
        }
        name => Some(allowed(name)),
    }
}

/// The packages that are reached from the workspace's members without development dependencies.
fn built_for_users(metadata: &Value) -> BTreeSet<&str> {
    let mut open: Vec<&str> =
        metadata["workspace_members"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let mut seen = BTreeSet::new();
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| (n["id"].as_str().unwrap(), &n["deps"]))
        .collect();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        for dependency in nodes[id].as_array().unwrap() {
            let kinds = dependency["dep_kinds"].as_array().unwrap();
            if kinds.iter().any(|k| k["kind"].as_str() != Some("dev")) {
                open.push(dependency["pkg"].as_str().unwrap());
            }
        }
    }
    seen
}

/// What is wrong with the packages of `metadata`, by the lists of `toml`.
fn judge(metadata: &Value, toml: &str) -> Vec<String> {
    let (licences, banned) = (list(toml, "allow"), list(toml, "deny"));
    let skipped = list(toml, "skip");
    let built = built_for_users(metadata);
    let mut wrong = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let (name, version) = (text("name"), text("version"));
        if built.contains(text("id")) {
            versions.entry(name).or_default().push(version);
        }
        let source = text("source");
        let ours = package["source"].is_null();
        let from_index = source.starts_with("registry+") && source.ends_with("/crates.io-index");
        if !ours && !from_index {
            wrong.push(format!("{name} {version} comes from {source}, not from crates.io"));
        }
        if !licence_is_met(text("license"), &|l| licences.iter().any(|a| a == l)) {
            wrong.push(format!("{name} {version}: licence {:?} is not allowed", text("license")));
        }
        if banned.iter().any(|b| b == name) {
            wrong.push(format!("{name} is banned by deny.toml"));
        }
    }
    for (name, versions) in versions {
        let excused = |v: &&&str| {
            skipped.iter().any(|s| s == &format!("{name}@{}", v.split('.').next().unwrap_or_default()))
        };
        if versions.len() - versions.iter().filter(excused).count() > 1 {
            wrong.push(format!("{name} is there in {} versions: {}", versions.len(), versions.join(", ")));
        }
    }
    wrong
}

fn deny_toml() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deny.toml")).unwrap()
}

#[test]
fn dependencies_have_allowed_licences_and_come_from_crates_io() {
    let host = Command::new(env!("CARGO")).arg("-vV").output().unwrap();
    let host = String::from_utf8(host.stdout).unwrap();
    let host = host.lines().find_map(|l| l.strip_prefix("host: ")).unwrap();
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", host])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(metadata["packages"].as_array().unwrap().len() > 20);
    let mut wrong = judge(&metadata, &deny_toml());
    wrong.extend(unfit_to_publish(&metadata));
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// What packages of ours that may be published lack: what crates.io and docs.rs show, and the oldest Rust.
fn unfit_to_publish(metadata: &Value) -> Vec<String> {
    let ours = metadata["packages"].as_array().unwrap().iter().filter(|p| p["source"].is_null());
    // `publish = false` is an empty list.
    let published = ours.filter(|p| p["publish"].is_null());
    let lacking = |p: &Value| {
        let empty = |key: &str| p[key].as_str().is_none_or(str::is_empty);
        let none = |key: &str| p[key].as_array().is_none_or(Vec::is_empty);
        let mut lacking = vec![];
        lacking.extend(
            ["description", "documentation", "license", "readme", "rust_version"]
                .into_iter()
                .filter(|k| empty(k)),
        );
        lacking.extend(["keywords", "categories"].into_iter().filter(|k| none(k)));
        lacking.extend(p["metadata"]["docs"]["rs"].is_null().then_some("metadata.docs.rs"));
        lacking.iter().map(|key| format!("{} has no {key}", p["name"])).collect::<Vec<_>>()
    };
    published.flat_map(lacking).collect()
}

#[test]
fn expressions() {
    let allowed = |l: &str| l == "MIT" || l == "A" || l == "A WITH x";
    for yes in [
        "MIT",
        "MIT OR GPL-3.0",
        "GPL-3.0 OR MIT",
        "GPL/MIT",
        "(MIT OR B) AND A",
        "B AND C OR MIT",
        "A WITH x",
    ] {
        assert!(licence_is_met(yes, &allowed), "{yes}");
    }
    for no in
        ["", "GPL-3.0", "MIT AND B", "(MIT OR A) AND B", "B OR C", "MIT WITH y", "(MIT", "MIT A", "MIT OR"]
    {
        assert!(!licence_is_met(no, &allowed), "{no}");
    }
}

#[test]
fn each_rule_can_fail() {
    let registry = "registry+https://github.com/rust-lang/crates.io-index";
    // one member that depends on all of them, or only in its tests
    let package = |name: &str, licence: &str, source: &str| {
        serde_json::json!({ "id": format!("{name}-{licence}-{source}"), "name": name, "version": "1.0.0",
            "license": licence, "source": source })
    };
    let twice = || vec![package("a", "MIT", registry), package("a", "ISC", registry)];
    let judged = |packages: &[Value], kind: Option<&str>| {
        let deps: Vec<_> = packages
            .iter()
            .map(|p| serde_json::json!({ "pkg": p["id"], "dep_kinds": [{ "kind": kind }] }))
            .collect();
        let leaves = packages.iter().map(|p| serde_json::json!({ "id": p["id"], "deps": [] }));
        let nodes: Vec<_> = leaves.chain([serde_json::json!({ "id": "us", "deps": deps })]).collect();
        let metadata = serde_json::json!({ "packages": packages, "workspace_members": ["us"], "resolve": { "nodes": nodes } });
        judge(&metadata, &deny_toml())
    };
    assert!(judged(&twice(), Some("dev")).is_empty());
    for (packages, want) in [
        (vec![package("a", "GPL-3.0-only", registry)], "licence"),
        (vec![package("a", "MIT", "git+https://example.org/a")], "not from crates.io"),
        (vec![package("mpi", "MIT", registry)], "banned"),
        (twice(), "2 versions"),
    ] {
        let wrong = judged(&packages, None);
        assert!(wrong.len() == 1 && wrong[0].contains(want), "{want}: {wrong:?}");
    }
}
