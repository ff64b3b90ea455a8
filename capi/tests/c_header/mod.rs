//! Reads `circulant.h`.

use std::path::Path;

pub(crate) fn read(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// The header without its comments.
pub(crate) fn header() -> String {
    let mut rest = read("include/circulant.h");
    while let Some(start) = rest.find("/*") {
        let end = start + rest[start..].find("*/").unwrap() + 2;
        rest.replace_range(start..end, " ");
    }
    rest
}

/// The text between the parenthesis at `open` and the one that closes it.
pub(crate) fn inside(text: &str, open: usize) -> &str {
    let mut depth = 0;
    for (i, c) in text[open..].char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[open + 1..open + i];
        }
    }
    panic!("no end of {}", &text[open..]);
}

/// A function of the header: its name, and the texts of its result and of its arguments (type and name).
pub(crate) struct Prototype {
    pub(crate) name: String,
    pub(crate) result: String,
    pub(crate) arguments: Vec<String>,
}

/// The functions that the header declares, in its order.
pub(crate) fn prototypes() -> Vec<Prototype> {
    let text: String =
        header().lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    let mut found: Vec<Prototype> = Vec::new();
    for statement in text.split(';') {
        let statement = statement.rsplit(['{', '}']).next().unwrap();
        let Some(open) = statement.find('(') else { continue };
        let before: Vec<&str> = statement[..open].split_whitespace().collect();
        let Some(name) = before.last().map(|name| name.trim_start_matches('*')) else { continue };
        if !name.starts_with("circulant_") || before.contains(&"typedef") {
            continue;
        }
        let result = statement[..open].trim().strip_suffix(name).unwrap().rsplit('\n').next().unwrap();
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let arguments = inside(statement, open).split(',').map(words).filter(|text| text != "void").collect();
        assert!(found.iter().all(|one| one.name != name), "{name} is declared twice");
        found.push(Prototype { name: name.to_owned(), result: words(result), arguments });
    }
    found
}
