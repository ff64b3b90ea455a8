//! Files that import each other in a circle.
//!
//! A file imports another when it names a path into it, in `use` or in code. `mod x;` is no import, and `pub use x::Y` in
//! a parent is none either, unless the parent's own code says `Y`: `use parent::Y` elsewhere imports file `x`. What
//! a parent itself defines, or imports without `pub`, is the parent's: a child that takes it by `super::` imports the
//! parent, and the parent that calls this child closes the circle.

use crate::scan::{Named, Position, Scan, module_of, scan};
use crate::{CRATES, nothing, rust_files, shown, test_only};
use std::collections::{BTreeMap, VecDeque};

/// A file of a crate.
struct File {
    /// Relative to the crate's `src`.
    name: String,
    module: Vec<String>,
    scan: Scan,
}

/// Each file's imports: file and line.
type Graph = BTreeMap<usize, BTreeMap<usize, usize>>;

/// The files that `sources` (names relative to `src`, and contents) are, without those for tests.
fn read(sources: &[(String, String)]) -> Vec<File> {
    let tests = test_only(sources);
    let is_test =
        |name: &str| tests.iter().any(|t| name == format!("{t}.rs") || name.starts_with(&format!("{t}/")));
    let kept = sources.iter().filter(|(name, _)| !is_test(name));
    kept.map(|(name, source)| File {
        name: name.clone(),
        module: module_of(name),
        scan: scan(name, source).unwrap(),
    })
    .collect()
}

/// The file that holds most of `path`, and how many of its words name that file.
fn holder(files: &[File], path: &[String]) -> Option<(usize, usize)> {
    (0..=path.len()).rev().find_map(|n| Some((files.iter().position(|f| f.module == path[..n])?, n)))
}

/// What a file says, as a path from the crate's root; `None` for names of other crates and its own.
fn absolute(files: &[File], file: &File, named: &Named) -> Option<Vec<String>> {
    let child: Vec<String> = file.module.iter().chain(named.path.first()).cloned().collect();
    let is_child = named.path.len() > 1 && files.iter().any(|f| f.module == child);
    is_child.then(|| file.module.iter().chain(&named.path).cloned().collect())
}

/// Every path into the crate that a file names.
fn named(files: &[File], file: &File) -> Vec<Named> {
    let below =
        file.scan.foreign.iter().filter_map(|n| Some(Named { path: absolute(files, file, n)?, ..n.clone() }));
    file.scan.own.iter().cloned().chain(below).collect()
}

/// The file that defines what stands at `path`: re-exports are followed.
fn defined(files: &[File], path: &[String], hops: usize) -> Option<usize> {
    let (at, words) = holder(files, path)?;
    let Some(name) = path.get(words).filter(|_| hops > 0) else { return Some(at) };
    let all = named(files, &files[at]);
    let source = all.iter().find(|n| n.place == Position::Reexport && n.path.last() == Some(name));
    match source {
        Some(source) if source.path != path => defined(files, &source.path, hops - 1),
        _ => Some(at),
    }
}

/// Whether the code of a file says a name that it re-exports.
fn says(file: &File, name: Option<&String>) -> bool {
    file.scan.foreign.iter().any(|n| n.place == Position::Code && n.path.first() == name)
}

/// Longer chains of re-exports than this are not followed.
const HOPS: usize = 8;

fn graph(files: &[File]) -> Graph {
    let mut graph = Graph::new();
    for (from, file) in files.iter().enumerate() {
        for Named { path, line, place } in named(files, file) {
            if place == Position::Reexport && !says(file, path.last()) {
                continue;
            }
            if let Some(to) = defined(files, &path, HOPS).filter(|&to| to != from) {
                graph.entry(from).or_default().entry(to).or_insert(line);
            }
        }
    }
    graph
}

/// A shortest circle through `start`: its files in order.
fn circle(graph: &Graph, start: usize) -> Option<Vec<usize>> {
    let mut before = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(at) = open.pop_front() {
        for &to in graph.get(&at).into_iter().flat_map(BTreeMap::keys) {
            if before.contains_key(&to) {
                continue;
            }
            before.insert(to, at);
            if to == start {
                let back = std::iter::successors(Some(at), |at| (*at != start).then(|| before[at]));
                let mut files: Vec<usize> = back.collect();
                files.reverse();
                return Some(files);
            }
            open.push_back(to);
        }
    }
    None
}

/// The circles among the files of a crate, each said once; each file that is part of a circle is in one of them.
fn circles(files: &[File]) -> Vec<String> {
    let graph = graph(files);
    let mut seen = Vec::new();
    let mut said = Vec::new();
    for start in 0..files.len() {
        if seen.contains(&start) {
            continue;
        }
        let Some(round) = circle(&graph, start) else { continue };
        let hop = |(i, from): (usize, &usize)| {
            let to = &round[(i + 1) % round.len()];
            format!("{}:{} imports {}", files[*from].name, graph[from][to], files[*to].name)
        };
        said.push(format!("a circle: {}", round.iter().enumerate().map(hop).collect::<Vec<_>>().join(", ")));
        seen.extend(round);
    }
    said
}

/// The circles in the crate whose sources are in `folder`.
fn circles_in(folder: &str) -> Vec<String> {
    let named = |f: &std::path::PathBuf| shown(f)[folder.len() + 1..].to_owned();
    let sources: Vec<_> =
        rust_files(folder).iter().map(|f| (named(f), std::fs::read_to_string(f).unwrap())).collect();
    assert!(sources.len() > 1, "{} files in {folder}", sources.len());
    circles(&read(&sources)).into_iter().map(|c| format!("{c} (in {folder})")).collect()
}

#[test]
fn files_import_each_other_in_no_circle() {
    nothing(&CRATES.iter().flat_map(|(folder, _)| circles_in(folder)).collect::<Vec<_>>());
}

#[track_caller]
fn finds(sources: &[(&str, &str)], want: &[&str]) {
    let sources: Vec<_> = sources.iter().map(|(n, s)| ((*n).to_owned(), (*s).to_owned())).collect();
    assert_eq!(circles(&read(&sources)), want);
}

#[test]
fn circles_are_found_and_named() {
    let call = ("lib.rs", "mod a; mod b;\nfn f() { a::g() }");
    finds(&[call, ("a.rs", "use super::Z;")], &["a circle: lib.rs:2 imports a.rs, a.rs:1 imports lib.rs"]);
    finds(
        &[call, ("a.rs", "use crate::b::B;"), ("b.rs", "\nfn f() { super::a::g() }")],
        &["a circle: a.rs:1 imports b.rs, b.rs:2 imports a.rs"],
    );
    let three =
        [("a.rs", "use crate::b;"), ("b.rs", "use crate::c::*;"), ("c.rs", "fn f() -> crate::a::A {}")];
    finds(&three, &["a circle: a.rs:1 imports b.rs, b.rs:1 imports c.rs, c.rs:1 imports a.rs"]);
    // the parent's code says what it re-exports
    let parent = ("x/mod.rs", "mod y;\npub(crate) use y::Y;\nstruct Z(Y);");
    finds(
        &[parent, ("x/y.rs", "use super::Z;")],
        &["a circle: x/mod.rs:2 imports x/y.rs, x/y.rs:1 imports x/mod.rs"],
    );
    // a re-export is followed to the file
    let outside =
        [("lib.rs", "mod x; mod w;"), ("x/mod.rs", "mod y; pub use y::Y;"), ("x/y.rs", "use crate::w;")];
    finds(
        &[outside[0], outside[1], outside[2], ("w.rs", "use crate::x::Y;")],
        &["a circle: x/y.rs:1 imports w.rs, w.rs:1 imports x/y.rs"],
    );
}

#[test]
fn what_is_no_circle_passes() {
    finds(&[("x/mod.rs", "mod y; pub use y::Y; pub struct Z;"), ("x/y.rs", "use super::Z;")], &[]);
    finds(
        &[
            ("x/mod.rs", "mod y; mod z; fn f() { y::g(); z::h() }"),
            ("x/y.rs", "use super::z::Z;"),
            ("x/z.rs", ""),
        ],
        &[],
    );
    finds(&[("a.rs", "use crate::b;"), ("b.rs", "#[cfg(test)] mod tests { use crate::a; }")], &[]);
    finds(
        &[
            ("lib.rs", "mod a; #[cfg(test)] mod t; fn f() { a::g() }"),
            ("t.rs", "use crate::f;"),
            ("a.rs", ""),
        ],
        &[],
    );
    let siblings =
        [("x/mod.rs", "mod y; mod z; pub(crate) use z::Z;"), ("x/y.rs", "use super::Z;"), ("x/z.rs", "")];
    finds(&siblings, &[]);
}
