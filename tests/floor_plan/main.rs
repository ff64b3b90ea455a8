//! The house's floor plan, enforced: which room may import which, where `unsafe` may stand, how long a file
//! may grow. The table below is the law; docs/design.md explains it.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod circles;
mod constants;
mod providers;
mod scan;
mod words;

use scan::{Named, Scan, scan};
use std::path::{Path, PathBuf};

/// Where `unsafe` stands in a room.
#[derive(Clone, Copy, PartialEq)]
enum Unsafe {
    /// The room's root file says `#![forbid(unsafe_code)]`.
    Forbidden,
    /// None is written.
    None,
    /// Only in files of these names.
    OnlyIn(&'static [&'static str]),
    /// Here it belongs.
    Allowed,
}

struct Room {
    name: &'static str,
    /// Other rooms that it may import.
    uses: &'static [&'static str],
    /// Paths of `std` and of other crates that it may not touch, as prefixes.
    never: &'static [&'static str],
    unsafety: Unsafe,
}

/// No input or output, no clock, no threads, no foreign code.
const PURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::io",
    "std::process",
    "std::thread",
    "std::time",
    "std::env",
    "std::os",
    // What is shared and never changes (Arc) is a value like others.
    "std::sync::atomic",
    "std::sync::mpsc",
    "std::sync::Barrier",
    "std::sync::Condvar",
    "std::sync::Mutex",
    "std::sync::RwLock",
    "libc",
    "memmap2",
    "libfabric_sys",
    "tracing",
];
/// The crates, and what stands before the names of their files in the rooms below: crates without rooms are one.
const CRATES: &[(&str, &str)] = &[
    ("src", ""),
    ("core/src", ""),
    ("launcher/src", "launcher/"),
    ("mpi/src", "mpi/"),
    ("tool/src", "tool/"),
    ("xtask/src", "xtask/"),
    ("python/src", "python/"),
    ("capi/src", "capi/"),
    ("sys/src", "sys/"),
];
const NO_WIRE: &[&str] = &["libfabric_sys", "memmap2"];

#[rustfmt::skip]
const ROOMS: &[Room] = &[
    Room { name: "schedule", uses: &[], never: PURE, unsafety: Unsafe::Forbidden },
    Room { name: "plan", uses: &["schedule", "error", "machine", "ops"], never: PURE, unsafety: Unsafe::Forbidden },
    Room { name: "machine", uses: &[], never: PURE, unsafety: Unsafe::Forbidden },
    Room { name: "select", uses: &["plan", "error", "bytes", "machine"], never: PURE, unsafety: Unsafe::Forbidden },
    Room { name: "transport", uses: &["memory", "error", "config", "trace", "ops", "secret", "record", "hash"], never: &["clap"], unsafety: Unsafe::Allowed },
    Room { name: "engine", uses: &["buffer", "transport", "plan", "error", "config", "trace", "ops", "record", "hash"],
           never: &["libfabric_sys", "memmap2", "libc", "std::fs", "std::net", "std::process::Command"], unsafety: Unsafe::None },
    Room { name: "launch", uses: &["error", "config", "trace", "secret"], never: NO_WIRE, unsafety: Unsafe::OnlyIn(&["exit.rs", "fd.rs", "foreign.rs", "libmunge.rs"]) },
    Room { name: "buffer", uses: &["transport", "memory", "plan", "error", "config", "trace", "ops"], never: &["libfabric_sys"], unsafety: Unsafe::Allowed },
    Room { name: "comm", uses: &["engine", "select", "machine", "launch", "buffer", "transport", "memory", "plan", "schedule", "error", "config", "trace", "ops", "secret", "record", "hash"],
           never: &["libfabric_sys", "memmap2", "libc", "std::net", "std::process::Command"], unsafety: Unsafe::OnlyIn(&["device.rs", "unscoped.rs"]) },
    Room { name: "capi", uses: &[], never: NO_WIRE, unsafety: Unsafe::Allowed },
    Room { name: "launcher", uses: &[], never: NO_WIRE, unsafety: Unsafe::OnlyIn(&["tie.rs"]) },
    Room { name: "mpi", uses: &[], never: NO_WIRE, unsafety: Unsafe::Allowed },
    Room { name: "tool", uses: &[], never: NO_WIRE, unsafety: Unsafe::None },
    Room { name: "xtask", uses: &[], never: NO_WIRE, unsafety: Unsafe::None },
    Room { name: "python", uses: &[], never: NO_WIRE, unsafety: Unsafe::OnlyIn(&["buffer.rs", "call.rs", "request.rs"]) },
    Room { name: "sys", uses: &[], never: &["std::net", "std::process"], unsafety: Unsafe::Allowed },
    // leaves
    Room { name: "error", uses: &[], never: NO_WIRE, unsafety: Unsafe::None },
    Room { name: "memory", uses: &[], never: &["libfabric_sys", "std::net", "tracing"], unsafety: Unsafe::Allowed },
    Room { name: "bytes", uses: &[], never: PURE, unsafety: Unsafe::None },
    Room { name: "config", uses: &["error", "select", "hash"], never: NO_WIRE, unsafety: Unsafe::OnlyIn(&["library.rs"]) },
    Room { name: "secret", uses: &["error"], never: NO_WIRE, unsafety: Unsafe::None },
    Room { name: "trace", uses: &["error", "config"], never: NO_WIRE, unsafety: Unsafe::None },
    Room { name: "ops", uses: &["error"], never: NO_WIRE, unsafety: Unsafe::Forbidden },
    Room { name: "record", uses: &[], never: PURE, unsafety: Unsafe::None },
    Room { name: "hash", uses: &[], never: PURE, unsafety: Unsafe::Forbidden },
];

/// What `src/lib.rs` re-exports at the crate's root, and where it lives.
const AT_THE_ROOT: &[(&str, &str)] = &[("Error", "error"), ("ErrorKind", "error"), ("Result", "error")];

/// Longest file, in lines, unless a generator wrote it.
const LONGEST: usize = 600;

/// The room of a file below `src`, by its path relative to it; `None` for `lib.rs`.
fn room_of(file: &str) -> Option<&str> {
    let first = file.split('/').next().unwrap_or(file);
    (first != "lib.rs").then(|| first.strip_suffix(".rs").unwrap_or(first))
}

/// What is wrong with `source`, the content of the file `file` (relative to `src`).
fn judge(file: &str, source: &str) -> Vec<String> {
    let Some(name) = room_of(file) else { return Vec::new() };
    let Some(room) = ROOMS.iter().find(|r| r.name == name) else {
        return vec![format!("{file}: room {name:?} is not on the floor plan: add it to the table")];
    };
    let found = match scan(file, source) {
        Ok(found) => found,
        Err(e) => return vec![format!("{file}: cannot be read as Rust: {e}")],
    };
    let mut wrong = imports(room, file, &found);
    let is_root = file == format!("{name}.rs") || file == format!("{name}/mod.rs");
    match room.unsafety {
        Unsafe::Forbidden if is_root && !found.forbids_unsafe => {
            wrong.push(format!("{file}: the pure room {name} must begin with #![forbid(unsafe_code)]"));
        }
        Unsafe::None | Unsafe::Forbidden => refuse_unsafe(file, &found, &mut wrong),
        Unsafe::OnlyIn(only) if !only.iter().any(|name| file.ends_with(&format!("/{name}"))) => {
            refuse_unsafe(file, &found, &mut wrong)
        }
        _ => {}
    }
    wrong
}

fn refuse_unsafe(file: &str, found: &Scan, wrong: &mut Vec<String>) {
    wrong.extend(found.unsafe_lines.iter().map(|l| format!("{file}:{l}: no unsafe code in this room")));
}

fn imports(room: &Room, file: &str, found: &Scan) -> Vec<String> {
    let mut wrong = Vec::new();
    for Named { path, line, .. } in &found.own {
        let Some(first) = path.first() else { continue };
        let target = AT_THE_ROOT.iter().find(|(n, _)| n == first).map_or(first.as_str(), |(_, room)| room);
        // `crate` is another crate there
        if ["launcher", "mpi", "tool", "xtask", "python", "capi", "sys"].contains(&room.name)
            || target == room.name
        {
            if let Some(why) = sibling(file, path) {
                wrong.push(format!("{file}:{line}: {why}"));
            }
        } else if target == "*" {
            wrong.push(format!("{file}:{line}: a glob on the crate's root hides what is used"));
        } else if !ROOMS.iter().any(|r| r.name == target) {
            wrong.push(format!("{file}:{line}: crate::{first} is no room: import it from its own"));
        } else if !room.uses.contains(&target) {
            wrong.push(format!("{file}:{line}: {} may not use {target}", room.name));
        }
    }
    for Named { path, line, .. } in &found.foreign {
        let path = path.join("::");
        if let Some(never) = room.never.iter().find(|n| path == **n || path.starts_with(&format!("{n}::"))) {
            wrong.push(format!("{file}:{line}: {} may not use {never}", room.name));
        }
    }
    wrong.dedup();
    wrong
}

/// Transports do not know each other.
fn sibling(file: &str, path: &[String]) -> Option<String> {
    let own = file.strip_prefix("transport/")?.split('/').next()?.trim_end_matches(".rs");
    let other = path.get(1)?;
    let is_transport = |name: &str| ["sim", "shm", "fabric", "verbs"].contains(&name);
    (is_transport(own) && is_transport(other) && own != other)
        .then(|| format!("transport {own} may not use {other}"))
}

// --- the whole tree ---------------------------------------------------------------------------------------

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `folder` (relative to the project), sorted, without what is built or hidden.
fn files(folder: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_symlink() || name == "target" || (name.starts_with('.') && name != ".ci") {
                continue;
            }
            if path.is_dir() { open.push(path) } else { all.push(path) }
        }
    }
    all.sort();
    all
}

fn rust_files(folder: &str) -> Vec<PathBuf> {
    files(folder).into_iter().filter(|f| f.extension().is_some_and(|e| e == "rs")).collect()
}

fn shown(file: &Path) -> String {
    file.strip_prefix(root()).unwrap().to_string_lossy().into_owned()
}

#[track_caller]
fn nothing(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// Modules that are compiled for tests only, declared `#[cfg(test)] mod x;`: they may import what they like.
fn test_only(sources: &[(String, String)]) -> Vec<String> {
    let mut modules = Vec::new();
    for (file, source) in sources {
        if let Ok(found) = scan(file, source) {
            modules.extend(found.test_modules);
        }
    }
    modules
}

#[test]
fn every_crate_of_the_workspace_is_on_the_plan() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = manifest.lines().find_map(|l| l.strip_prefix("members = [")).unwrap();
    let members: Vec<_> = members.split('"').skip(1).step_by(2).map(|m| format!("{m}/src")).collect();
    assert!(members.len() > 5, "{members:?}");
    let without_a_plan = |m: &&String| root().join(m).is_dir() && !CRATES.iter().any(|(src, _)| src == m);
    nothing(&members.iter().filter(without_a_plan).cloned().collect::<Vec<_>>());
}

#[test]
fn every_room_imports_only_what_the_plan_allows() {
    let sources: Vec<_> = CRATES
        .iter()
        .flat_map(|(folder, before)| {
            let named = |f: &PathBuf| format!("{before}{}", &shown(f)[folder.len() + 1..]);
            let read = |f: &PathBuf| (named(f), std::fs::read_to_string(f).unwrap());
            rust_files(folder).iter().map(read).collect::<Vec<_>>()
        })
        .collect();
    assert!(sources.len() > 10, "found only {} source files", sources.len());
    let tests = test_only(&sources);
    let is_test =
        |file: &str| tests.iter().any(|t| file == format!("{t}.rs") || file.starts_with(&format!("{t}/")));
    let wrong: Vec<_> = sources
        .iter()
        .filter(|(file, _)| !is_test(file))
        .flat_map(|(file, source)| judge(file, source))
        .collect();
    nothing(&wrong);
}

fn too_long(name: &str, source: &str) -> Option<String> {
    let generated = source.lines().take(3).any(|l| l.contains("automatically generated"));
    let lines = source.lines().count();
    (lines > LONGEST && !generated).then(|| format!("{name}: {lines} lines, at most {LONGEST}: split it"))
}

#[test]
fn no_file_is_too_long() {
    let wrong: Vec<_> = [
        "src", "core", "launcher", "mpi", "tool", "xtask", "python", "capi", "sys", "tests", "benches",
        "examples",
    ]
    .iter()
    .flat_map(|folder| rust_files(folder))
    .filter_map(|f| too_long(&shown(&f), &std::fs::read_to_string(&f).unwrap()))
    .collect();
    nothing(&wrong);
}

/// Paths that only exist on the machine of their author. Spelt so that this file has none.
fn machine_paths(name: &str, text: &str) -> Vec<String> {
    let places = ["root", "home", "work", "tmp/w"].map(|p| format!("/{p}/"));
    let starts =
        |line: &str, at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}$)".contains(c));
    text.lines()
        .enumerate()
        .filter(|(_, line)| {
            places.iter().any(|p| line.match_indices(p.as_str()).any(|(at, _)| starts(line, at)))
        })
        .map(|(i, line)| format!("{name}:{}: a path of one machine: {}", i + 1, line.trim()))
        .collect()
}

#[test]
fn no_file_names_a_machine() {
    let wrong: Vec<_> = files(".")
        .iter()
        .filter_map(|f| Some((shown(f), std::fs::read_to_string(f).ok()?)))
        .flat_map(|(name, text)| machine_paths(&name, &text))
        .collect();
    nothing(&wrong);
}

/// The lines of `source`, up to its tests, that read the system's clock or sleep by it.
fn reads_the_time(name: &str, source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or(source);
    let reads =
        |line: &&str| ["Instant::now", ".elapsed()", "thread::sleep"].iter().any(|r| line.contains(r));
    code.lines()
        .filter(reads)
        .map(|line| format!("{name}: use the engine's clock: {}", line.trim()))
        .collect()
}

#[test]
fn the_engine_has_no_time_but_its_clocks() {
    let files = rust_files("src/engine");
    assert!(files.len() > 10, "found only {} source files", files.len());
    nothing(
        &files
            .iter()
            .flat_map(|f| reads_the_time(&shown(f), &std::fs::read_to_string(f).unwrap()))
            .collect::<Vec<_>>(),
    );
    assert_eq!(reads_the_time("x", "let end = Instant::now() + LONG;\nself.clock.now()").len(), 1);
}

/// What users reach of shared memory: its protocols are kept by this crate alone, so nothing of them is public.
const SHM_PUBLIC: &[&str] = &[
    "src/memory/mod.rs: pub use mapping::Mapping;",
    // Under Miri `heap.rs` stands for `mapping.rs`.
    "src/memory/heap.rs: pub struct Mapping {",
    "src/memory/mapping.rs: pub struct Mapping {",
    "src/transport/slot_pool.rs: pub struct SlotPool {",
    // With cfg(fuzzing) only.
    "src/transport/shm/fuzzing.rs: pub fn fuzz_address(bytes: &[u8]) {",
    "src/transport/shm/fuzzing.rs: pub fn fuzz_ring(bytes: &[u8]) {",
    "src/transport/shm/mod.rs: pub use fuzzing::{fuzz_address, fuzz_ring};",
    "src/transport/shm/host.rs: pub fn host() -> u64 {",
    "src/transport/shm/mod.rs: pub fn available() -> Result<()> {",
    "src/transport/shm/mod.rs: pub unsafe fn endpoint(rank: u32, locals: &[u32]) -> Result<Box<dyn Transport>> {",
    "src/transport/shm/mod.rs: pub use endpoint::{available, endpoint};",
    "src/transport/shm/mod.rs: pub use host::host;",
];

/// The lines of `source` that begin a public item, or a public part of one.
fn public(name: &str, source: &str) -> Vec<String> {
    let lines = source.lines().map(str::trim).filter(|l| l.starts_with("pub "));
    lines.map(|l| format!("{name}: {l}")).collect()
}

#[test]
fn users_reach_nothing_of_the_shared_memory_protocols() {
    let mut sources = rust_files("src/transport/shm");
    sources.extend(rust_files("src/memory"));
    sources.extend(rust_files("src/transport/call_slots"));
    sources.push(root().join("src/transport/slot_pool.rs"));
    let all: Vec<_> =
        sources.iter().flat_map(|f| public(&shown(f), &std::fs::read_to_string(f).unwrap())).collect();
    assert!(sources.len() > 10 && all.iter().any(|l| l.contains("SlotPool")), "{} files", sources.len());
    let wrong: Vec<_> = all.into_iter().filter(|l| !SHM_PUBLIC.contains(&l.as_str())).collect();
    nothing(&wrong);
}

// --- the checks can fail ------------------------------------------------------------------------------------

#[track_caller]
fn finds(file: &str, source: &str, want: &str) {
    let wrong = judge(file, source);
    assert!(wrong.len() == 1 && wrong[0].contains(want), "{file}: {source}\nwanted {want:?}, got {wrong:?}");
}

#[test]
fn the_plan_has_no_cycle() {
    // each pass takes away the rooms whose every neighbour is already gone; a cycle stays
    let mut left: Vec<&Room> = ROOMS.iter().collect();
    while !left.is_empty() {
        let names: Vec<&str> = left.iter().map(|r| r.name).collect();
        let before = left.len();
        left.retain(|room| room.uses.iter().any(|u| names.contains(u)));
        assert!(left.len() < before, "rooms use each other in a circle: {names:?}");
    }
}

#[test]
fn a_forbidden_import_is_found_however_it_is_written() {
    for source in [
        "use crate::launch::Launch;",
        "use crate::{error::Error, launch::{Launch, Gone}};",
        "use super::super::launch;",
        "fn f() { crate::launch::start(); }",
        "fn f() { let _ = format!(\"{:?}\", crate::launch::X); }",
        "mod inner { use super::super::super::launch::Launch; }",
        "pub use crate :: launch as l;",
        "macro_rules! m { () => { $crate::launch::X } }",
    ] {
        let wrong = judge("engine/window.rs", source);
        assert!(
            !wrong.is_empty() && wrong.iter().all(|w| w.contains("engine may not use launch")),
            "{source}: {wrong:?}"
        );
    }
    finds("engine/mod.rs", "\n\nuse super::comm::World;", "engine/mod.rs:3: engine may not use comm");
    finds("engine/mod.rs", "use crate::World;", "crate::World is no room");
    finds("engine/mod.rs", "use crate::*;", "glob");
    finds("schedule/skips.rs", "use crate::Result;", "schedule may not use error");
    finds("transport/shm.rs", "use crate::transport::fabric::Endpoint;", "transport shm may not use fabric");
    finds("transport/shm.rs", "use super::fabric::Endpoint;", "transport shm may not use fabric");
    finds("attic/mod.rs", "", "not on the floor plan");
}

#[test]
fn forbidden_crates_and_parts_of_std_are_found() {
    finds("schedule/skips.rs", "use std::time::Instant;", "schedule may not use std::time");
    finds("plan/split.rs", "fn f() { std::fs::read(\"x\"); }", "plan may not use std::fs");
    finds("plan/split.rs", "use std::{fmt, io::Read};", "plan may not use std::io");
    finds("comm/mod.rs", "use libfabric_sys as fi;", "comm may not use libfabric_sys");
    finds("tool/main.rs", "fn f() { memmap2::MmapMut::map_anon(1); }", "tool may not use memmap2");
}

#[test]
fn misplaced_unsafe_is_found() {
    finds("plan/mod.rs", "//! Plans.\nuse crate::schedule;", "must begin with #![forbid(unsafe_code)]");
    finds("plan/lower.rs", "fn f() { unsafe { g() } }", "lower.rs:1: no unsafe code");
    finds("comm/mod.rs", "unsafe impl Send for X {}", "no unsafe code");
    finds("launch/pmi.rs", "fn f() {\n    unsafe { g() }\n}", "pmi.rs:2: no unsafe code");
    finds("launch/pmix.rs", "fn f() { unsafe { g() } }", "pmix.rs:1: no unsafe code");
}

#[test]
fn what_is_allowed_passes() {
    for (file, source) in [
        ("lib.rs", "pub use error::Error; pub mod anything;"),
        (
            "plan/mod.rs",
            "#![forbid(unsafe_code)]\nuse crate::schedule::Skips; use crate::Result; use super::error;",
        ),
        ("engine/mod.rs", "use crate::{plan::{self, Step}, transport::Transport};"),
        (
            "engine/mod.rs",
            "// use crate::comm;\n/* unsafe */ const A: &str = \"crate::comm::World\"; /// crate::comm\nfn f() {}",
        ),
        ("engine/mod.rs", "#[cfg(test)]\nmod tests { use crate::comm::World; }"),
        (
            "engine/mod.rs",
            "#[cfg(test)] use crate::launch::threads;\n#[cfg(all(test, unix))] fn f() { crate::comm::x() }",
        ),
        (
            "engine/window.rs",
            "use super::Engine; use self::inner::X; fn f(x: self::Y) { super::super::plan::g() }",
        ),
        ("transport/fabric/mod.rs", "use libfabric_sys as fi; use super::Remote; use super::fabric::x;"),
        ("launch/fd.rs", "fn f() { unsafe { g() } }"),
        ("tool/main.rs", "use circulant::comm::World; use crate::run; use super::bench;"),
    ] {
        nothing(&judge(file, source));
    }
}

#[test]
fn the_other_checks_can_fail() {
    assert!(too_long("a.rs", &"x\n".repeat(LONGEST)).is_none());
    assert!(too_long("a.rs", &"x\n".repeat(LONGEST + 1)).is_some());
    assert!(too_long("a.rs", &format!("/* automatically generated */\n{}", "x\n".repeat(LONGEST))).is_none());
    let home = ["", "home", "me", "x"].join("/");
    assert_eq!(machine_paths("a", &format!("\nlet x = \"{home}\";")).len(), 1);
    assert_eq!(public("a", "pub(crate) fn f() {}\n    pub fn g() {\n// pub fn h()"), ["a: pub fn g() {"]);
    assert!(machine_paths("a", "see docs/work/notes and ${x}/work/y").is_empty());
}
