//! The documents hold: the README's program is the example that is built, every link leads somewhere, and
//! every error that docs/troubleshooting.md lists is one that the sources can say; the README's limits are the
//! registry's, and its table of operations is that of the library's documentation; numbers are those of the code.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod numbers;

use circulant::plan::registry::{Operation, algorithms};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: impl AsRef<Path>) -> String {
    let path = root().join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn files(folder: &str, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            files(&name, ending, found);
        } else if name.ends_with(ending) {
            found.push(name.into());
        }
    }
}

/// All string literals in `tokens` but doc comments, what is filled in at run time replaced by `…`.
fn literals(tokens: TokenStream, found: &mut BTreeSet<String>) {
    let mut first = true;
    for tree in tokens {
        let doc = first && matches!(&tree, TokenTree::Ident(name) if name == "doc");
        first = false;
        match tree {
            _ if doc => return,
            TokenTree::Group(group) => literals(group.stream(), found),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if let Some(text) = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
                    found.insert(as_printed(text));
                }
            }
            _ => {}
        }
    }
}

/// A literal as it is printed: escapes resolved, placeholders replaced by `…`.
fn as_printed(source: &str) -> String {
    let (mut out, mut chars) = (String::new(), source.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'\n') => while chars.next_if(|c| c.is_whitespace()).is_some() {},
            '\\' => out.extend(chars.next()),
            '{' if chars.next_if_eq(&'{').is_some() => out.push('{'),
            '}' if chars.next_if_eq(&'}').is_some() => out.push('}'),
            '{' => {
                while chars.next().is_some_and(|c| c != '}') {}
                out.push('…');
            }
            c => out.push(c),
        }
    }
    out
}

#[test]
fn placeholders_become_dots() {
    assert_eq!(as_printed(r#"rank {rank}: {:?} \"x\" {{y}}"#), "rank …: … \"x\" {y}");
    assert_eq!(as_printed("one \\\n      two"), "one two");
}

#[test]
fn every_heading_of_troubleshooting_is_said_by_the_sources() {
    let mut sources = Vec::new();
    for folder in ["src", "core/src", "launcher/src", "tool/src"] {
        files(folder, ".rs", &mut sources);
    }
    files("sys/src", ".rs", &mut sources);
    let mut said = BTreeSet::new();
    for file in &sources {
        let text = read(file);
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let tokens = text.parse().unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        literals(tokens, &mut said);
    }
    let text = read("docs/troubleshooting.md");
    let headings: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("### ")).collect();
    assert!(headings.len() > 30, "{} headings only", headings.len());
    let unsaid: Vec<&str> = headings.into_iter().filter(|h| !is_said(h, &said)).collect();
    assert!(unsaid.is_empty(), "docs/troubleshooting.md: no source says {unsaid:#?} (any more)");
}

/// Whether `heading` is a quotation of something in `said`, and of more than placeholders.
fn is_said(heading: &str, said: &BTreeSet<String>) -> bool {
    let quoted = heading.strip_prefix('`').and_then(|h| h.strip_suffix('`'));
    quoted.is_some_and(|q| q.contains(char::is_alphabetic) && said.iter().any(|s| s.contains(q)))
}

#[test]
fn the_program_in_the_readme_is_the_example() {
    let readme = read("README.md");
    let (_, rest) = readme.split_once("```rust\n").unwrap();
    let (program, _) = rest.split_once("```").unwrap();
    let example = read("examples/readme.rs");
    assert!(example.ends_with(program), "README.md and examples/readme.rs differ");
    assert!(program.contains("fn main()"));
}

#[test]
fn the_readme_lists_all_examples() {
    let mut sources = Vec::new();
    files("examples", ".rs", &mut sources);
    let readme = read("README.md");
    let listed = |name: &str| {
        readme.contains(&format!("| `{name}` | ")) || readme.contains(&format!("(examples/{name}.rs)"))
    };
    let names: Vec<&str> = sources.iter().filter_map(|file| file.file_stem()?.to_str()).collect();
    assert!(names.len() > 5, "{names:?}");
    let missing: Vec<&&str> = names.iter().filter(|name| !listed(name)).collect();
    assert!(missing.is_empty(), "README.md does not list {missing:?}");
}

/// The README's figures are those of the race.
#[test]
fn the_race_in_the_readme_is_that_of_the_document() {
    let (readme, document) = (read("README.md"), read("docs/performance.md"));
    let (_, rest) = readme.split_once("\n| figure | operation").unwrap();
    let (table, _) = rest.split_once("\n\n").unwrap();
    let rows: Vec<&str> = table.lines().skip(2).collect();
    assert!(rows.len() > 5, "{rows:?}");
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [figure, operation, size, ours, by_c, best, ratio] = cells[..] else { panic!("{row}") };
        let (_, section) = document.split_once(&format!("\n### {figure}:")).unwrap();
        let begin = format!("| {operation} | {size} | ");
        let line = section.split("\n### ").next().unwrap().lines().find(|line| line.starts_with(&begin));
        let line: Vec<&str> =
            line.unwrap_or_else(|| panic!("{figure} has no {begin}")).split(" | ").collect();
        let said = [line[3], line[4], line[8], line[9].split(" (").next().unwrap()];
        assert_eq!([ours, by_c, best, ratio], said, "README.md: {row}");
    }
}

#[test]
fn links_lead_somewhere() {
    let mut documents = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(PathBuf::from).to_vec();
    files("docs", ".md", &mut documents);
    let mut links = 0;
    for file in &documents {
        let folder = file.parent().unwrap();
        for part in read(file).split("](").skip(1) {
            let link = part.split(')').next().unwrap();
            if link.contains("://") {
                continue;
            }
            let path = root().join(folder).join(link.split('#').next().unwrap());
            assert!(path.exists(), "{}: {link} does not exist", file.display());
            links += 1;
        }
    }
    assert!(links > 5, "{links} links found");
}

/// The README names the operations that have no algorithm which knows nodes.
#[test]
fn the_limits_of_the_readme_are_the_registry_s() {
    let readme = read("README.md");
    let (_, rest) = readme.split_once("- **Several ranks per node").unwrap();
    let (limit, _) = rest.split_once("\n- ").unwrap();
    let named: BTreeSet<&str> = limit.split('`').skip(1).step_by(2).collect();
    let knows = |op: &Operation| algorithms(*op).any(|a| a.name.starts_with("node_") || a.name == "lanes");
    let lacking: BTreeSet<&str> = Operation::ALL.iter().filter(|op| !knows(op)).map(|op| op.name()).collect();
    assert_eq!(named, lacking, "README.md: operations that do not know nodes");
}

/// Of each operation in a table, what its last column says.
fn last_column(table: &str) -> Vec<(String, String)> {
    let rows = table.lines().filter(|line| line.starts_with("| ") && !line.contains("in place"));
    rows.flat_map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let last = cells.last().unwrap().to_string();
        // Names alone, without links.
        let names = cells[0].replace(['[', ']', '`'], "");
        let plain = |name: &str| name.split('(').next().unwrap().trim().to_owned();
        names.split(", ").map(|name| (plain(name), last.clone())).collect::<Vec<_>>()
    })
    .collect()
}

#[test]
fn what_works_in_place_is_said_alike() {
    let readme = read("README.md");
    let (_, rest) = readme.split_once("\n| operation | blocking").unwrap();
    let (table, _) = rest.split_once("\n\n").unwrap();
    let (table, _) = table.split_once("| between two groups").unwrap();
    let source = read("src/lib.rs").replace("\n//! ", "\n");
    let (_, rest) = source.split_once("| operation | in place").unwrap();
    let (library, _) = rest.split_once("\n//!\n").unwrap();
    let mut said = [last_column(table), last_column(library)];
    said.iter_mut().for_each(|list| list.sort());
    assert!(said[0].len() > 15, "{said:?}");
    assert_eq!(said[0], said[1], "README.md and src/lib.rs");
}

/// The names in backticks of a document: identifiers, of paths the last.
fn quoted(document: &str) -> BTreeSet<&str> {
    let spans = document.split('`').skip(1).step_by(2);
    spans.flat_map(|span| span.split(|c: char| !c.is_alphanumeric() && c != '_')).collect()
}

#[test]
fn errors_has_each_public_call_that_can_fail() {
    let document = read("docs/errors.md");
    let (named, mut sources) = (quoted(&document), Vec::new());
    files("src/comm", ".rs", &mut sources);
    files("src/buffer", ".rs", &mut sources);
    let mut calls = 0;
    for file in &sources {
        let text = read(file);
        let text = text.split("#[cfg(test)]").next().unwrap();
        for start in ["\n    pub fn ", "\n    pub unsafe fn "] {
            for signature in text.split(start).skip(1) {
                let signature = signature.split('{').next().unwrap();
                let name = signature.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
                // A row holds for all forms of a call.
                let blocking = name.strip_suffix("_init").or_else(|| name.strip_prefix('i'));
                let found = named.contains(name) || blocking.is_some_and(|call| named.contains(call));
                assert!(
                    found || !signature.contains("Result<"),
                    "{}: {name} is not in docs/errors.md",
                    file.display()
                );
                calls += usize::from(signature.contains("Result<"));
            }
        }
    }
    assert!(calls > 60, "{calls}");
}
