//! Words that once stood for what the field has names for (the glossary of docs/design.md): they do not come back.

use crate::{files, nothing, root, shown};

/// What no file says: names and prose alike.
const PRIVATE: &[&str] = &[
    "affair",
    "breathe",
    "breathes",
    "desk",
    "mate",
    "mates",
    "pump",
    "pumps",
    "seat",
    "seats",
    "whereabouts",
];

/// Names of constants that do not say what they bound.
const BARE: &[&str] = &["EAGER", "MAX", "MIN", "MOST"];

/// The words of a line, of names also their parts: `FREE_SEATS` and `FreeSeats` say seats.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower = false;
    for c in line.chars() {
        if !c.is_ascii_alphabetic() || c.is_ascii_uppercase() && lower {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_ascii_alphabetic()) {
            word.push(c.to_ascii_lowercase());
        }
        lower = c.is_ascii_lowercase();
    }
    words
}

fn found(name: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let said = words(line).into_iter().find(|word| PRIVATE.contains(&word.as_str()));
        wrong.extend(
            said.map(|word| format!("{name}:{}: {word:?} is not the field's word: {}", i + 1, line.trim())),
        );
        let constant = line
            .split_once("const ")
            .and_then(|(_, rest)| rest.split_once(':'))
            .map(|(constant, _)| constant);
        if let Some(constant) = constant.filter(|c| BARE.contains(c)) {
            wrong.push(format!("{name}:{}: say in its name what {constant} bounds", i + 1));
        }
    }
    wrong
}

#[test]
fn names_and_prose_are_in_the_fields_words() {
    let is_read = |name: &str| {
        [".rs", ".md", ".h", ".hpp", ".f90", ".pyi"].iter().any(|end| name.ends_with(end))
            && !["CHANGELOG.md", "tests/floor_plan/words.rs"].contains(&name)
            && !name.ends_with("bindings.rs")
    };
    let all: Vec<_> = files(".").into_iter().map(|f| shown(&f)).filter(|name| is_read(name)).collect();
    assert!(all.len() > 500, "{} files", all.len());
    let read = |name: &String| std::fs::read_to_string(root().join(name)).unwrap();
    nothing(&all.iter().flat_map(|name| found(name, &read(name))).collect::<Vec<_>>());
}

#[test]
fn private_words_are_found() {
    assert_eq!(words("self.free_seats, FreeSeats"), ["self", "free", "seats", "", "free", "seats"]);
    for line in ["let seats = 1;", "struct FreeSeats;", "/// A rank's mates.", "const MOST: usize = 1;"] {
        assert_eq!(found("a.rs", line).len(), 1, "{line}");
    }
    nothing(&found("a.rs", "/// A seated rank. Most ranks wait.\nconst MAX_RANKS: usize = 1;"));
}
