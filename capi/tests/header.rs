//! `circulant.h` is what the library exports: the same functions with the same arguments, the same constants.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod c_header;

use c_header::{Prototype, header, inside, prototypes, read};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A function's result and arguments as Rust spells them.
type Signature = Vec<String>;

/// A type of C, with the name of the argument if it has one, as Rust spells it here.
fn rust_type(c: &str) -> String {
    let words: Vec<&str> = c.split_whitespace().collect();
    let text = words.join(" ");
    let stars = text.matches('*').count();
    let constant = text.starts_with("const ");
    let base = text.trim_start_matches("const ").split([' ', '*']).next().unwrap();
    let mut rust = match base {
        "void" => "c_void",
        "char" => "c_char",
        "int" | "circulant_status_t" | "circulant_type_t" | "circulant_memory_t" => "c_int",
        "size_t" => "usize",
        "int64_t" => "i64",
        "uint64_t" => "u64",
        "circulant_world_t" => "Handle",
        "circulant_comm_t" => "Comm",
        "circulant_request_t" => "Request",
        "circulant_neighborhood_t" => "Neighbors",
        "circulant_finalizing_t" => "Finalizing",
        "circulant_layout_t" => "CLayout",
        "circulant_setting_t" => "Setting",
        "circulant_bootstrap_t" => "Bootstrap",
        "circulant_op_t" => "*const Operator",
        "circulant_op_fn" => "Option<Function>",
        "circulant_copy_fn" => "Option<CopyFunction>",
        "circulant_allgather_fn" => "Option<Allgather>",
        "circulant_hook_fn" => "Option<Hook>",
        _ => panic!("what is {c:?} in Rust?"),
    }
    .to_owned();
    for star in 0..stars {
        rust = format!("*{} {rust}", if constant && star == 0 { "const" } else { "mut" });
    }
    rust
}

/// The functions that the header declares.
fn declared() -> BTreeMap<String, Signature> {
    let signature = |one: Prototype| {
        let all = std::iter::once(&one.result).chain(&one.arguments);
        (one.name.clone(), all.map(|text| rust_type(text)).collect())
    };
    prototypes().into_iter().map(signature).collect()
}

fn arguments(list: &str) -> impl Iterator<Item = String> + '_ {
    let all = list.split(',').filter_map(|argument| argument.split_once(':'));
    all.map(|(_, kind)| {
        let kind = kind.split_whitespace().collect::<Vec<_>>().join(" ");
        if ["TypeNumber", "MemoryNumber", "Status"].contains(&&*kind) { "c_int".to_owned() } else { kind }
    })
}

/// The functions that the sources define.
fn defined() -> BTreeMap<String, Signature> {
    let mut found = BTreeMap::new();
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for (at, _) in text.match_indices("extern \"C\" fn circulant_") {
            let name = text[at + "extern \"C\" fn ".len()..].split('(').next().unwrap();
            let open = at + text[at..].find(&format!("{name}(")).unwrap() + name.len();
            let list = inside(&text, open);
            let after = text[open + list.len() + 2..].split('{').next().unwrap();
            let result = after.trim().trim_start_matches("-> ").replace("Status", "c_int");
            let mut all = vec![result];
            all.extend(arguments(list));
            found.insert(name.to_owned(), all);
        }
        let Some((_, entries)) = text.split_once("\ncollectives! {\n    on ") else { continue };
        let (handle, entries) = entries.split_once(";\n\n").unwrap();
        for entry in entries.split("\n\n") {
            let (names, rest) = entry.split_once('=').unwrap();
            let list = inside(rest, rest.find('(').unwrap());
            let mut all = vec!["c_int".to_owned(), format!("*const {handle}")];
            all.extend(arguments(list));
            for (i, name) in names.split_whitespace().enumerate() {
                found.insert(name.to_owned(), all.clone());
                if i == 0 {
                    all.push("*mut *mut Request".to_owned());
                }
            }
        }
    }
    found
}

/// Where cargo leaves what this package builds.
fn built(file: &str) -> PathBuf {
    let path = std::env::current_exe().unwrap().with_file_name(file);
    assert!(path.exists(), "{} is not built", path.display());
    path
}

#[test]
fn header_and_sources_have_the_same_functions() {
    let (declared, defined) = (declared(), defined());
    assert!(declared.len() > 80, "{} functions", declared.len());
    for (name, signature) in &declared {
        assert_eq!(defined.get(name), Some(signature), "{name}");
    }
    let missing: Vec<_> = defined.keys().filter(|name| !declared.contains_key(*name)).collect();
    assert!(missing.is_empty(), "not in the header: {missing:?}");
}

#[test]
fn the_library_exports_what_the_header_declares() {
    let out =
        Command::new("nm").args(["-D", "--defined-only"]).arg(built("libcirculant_c.so")).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let exported: BTreeSet<_> = text.lines().filter_map(|line| line.split(" T ").nth(1)).collect();
    let declared = declared();
    assert_eq!(exported, declared.keys().map(String::as_str).collect(), "{:?}", out.status);
    let out = Command::new("readelf").arg("-d").arg(built("libcirculant_c.so")).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("[libcirculant.so.0]"), "{text}");
}

/// Of each constant of the header its number, as `NAME = 3` or `#define NAME ((T) 3)` says it.
fn constants() -> BTreeMap<String, i64> {
    let mut found = BTreeMap::new();
    for line in header().lines() {
        let line = line.trim();
        let pair = match line.strip_prefix("#define ") {
            Some(rest) => {
                rest.split_once(" ((circulant_op_t) ").map(|(name, n)| (name, n.trim_end_matches(')')))
            }
            None => line.split_once(" = ").map(|(name, n)| (name, n.split([',', ' ']).next().unwrap())),
        };
        let Some((name, number)) = pair.filter(|(name, _)| name.starts_with("CIRCULANT_")) else { continue };
        let number = number.parse().unwrap_or_else(|_| found[number]);
        found.insert(name.to_owned(), number);
    }
    found
}

/// The Fortran module has the same numbers.
#[test]
fn the_fortran_module_has_the_constants() {
    let module: String =
        read("fortran/circulant.f90").lines().filter(|l| !l.trim().starts_with('!')).collect();
    let found = constants();
    assert!(found.len() > 30, "{found:?}");
    for (name, number) in &found {
        let says = format!("{name} = {number}");
        let there = module
            .match_indices(&says)
            .any(|(at, _)| !module[at + says.len()..].starts_with(|c: char| c.is_ascii_digit()));
        assert!(there, "circulant.f90 lacks {says}");
    }
}

/// Types, operators and statuses have the numbers that the sources give them.
#[test]
fn constants_are_those_of_the_sources() {
    let found = constants();
    let (types, ops, statuses) = (read("src/types.rs"), read("src/ops.rs"), read("src/status.rs"));
    let mut looked_at = 0;
    let mut is = |name: String, number: &str| {
        assert_eq!(found.get(&name).map(i64::to_string).as_deref(), Some(number), "{name}");
        looked_at += 1;
    };
    for line in types.lines().filter_map(|line| line.trim().strip_prefix('(')?.strip_suffix("),")) {
        let Some((number, name)) = line.split_once(", Type::") else { continue };
        let name = match name {
            "F16" => "FLOAT16".to_owned(),
            "Bf16" => "BFLOAT16".to_owned(),
            "TwoInt" => "INT_INT".to_owned(),
            "LongInt" => "INT64_INT".to_owned(),
            "ShortInt" => "INT16_INT".to_owned(),
            _ if name.ends_with("Int") => name.replace("Int", "_INT").to_uppercase(),
            _ => name.replace("Complex", "COMPLEX_").replace("F32", "FLOAT").replace("F64", "DOUBLE"),
        };
        let name = match name.chars().next().unwrap() {
            _ if name.contains("INT") => name,
            'I' => name.replacen('I', "INT", 1),
            'U' => name.replacen('U', "UINT", 1),
            _ => name,
        };
        is(format!("CIRCULANT_{name}"), number);
    }
    let list = ops.split("const OPS: ").nth(1).unwrap().split("];").next().unwrap();
    for (i, name) in list.split("Op::").skip(1).map(|rest| rest.split(',').next().unwrap()).enumerate() {
        is(format!("CIRCULANT_{}", name.to_uppercase()), &(i + 1).to_string());
    }
    for line in statuses.lines().filter_map(|line| line.trim().strip_prefix("(Some(ErrorKind::")) {
        let (name, rest) = line.split_once("), ").unwrap();
        let words = name.replace("PeerLost", "Peer_Lost").to_uppercase();
        is(format!("CIRCULANT_ERR_{words}"), rest.split(',').next().unwrap());
    }
    assert_eq!(looked_at, 19 + 12 + 11);
}

#[test]
fn the_header_is_c99_and_cpp11() {
    for arguments in
        [["-std=c99", "-xc"], ["-std=c11", "-xc"], ["-std=c++11", "-xc++"], ["-std=c++20", "-xc++"]]
    {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("one");
        // Twice, to see its guard.
        std::fs::write(&file, "#include \"circulant.h\"\n#include \"circulant.h\"\n").unwrap();
        let out = Command::new("cc")
            .args(arguments)
            .args(["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
            .arg(file)
            .output()
            .unwrap();
        assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
}
