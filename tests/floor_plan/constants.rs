//! Numbers that the code stands on: each says what it is, and where it comes from.

use crate::{nothing, root, rust_files, shown, test_only};
use std::collections::BTreeMap;

/// Where each number must say so: they decide what is chosen, sent, waited for and kept.
const FOLDERS: &[&str] = &[
    "core/src/machine.rs",
    "core/src/plan",
    "core/src/select",
    "src/buffer",
    "src/comm",
    "src/engine",
    "src/memory",
    "src/transport",
];

/// Types of numbers.
const NUMBERS: &[&str] =
    &["u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "f32", "f64", "Duration", "c_int"];

/// Name, type and value of a line `const NAME: TYPE = VALUE`, if that is a number.
fn number(line: &str) -> Option<[&str; 3]> {
    let mut rest = line.trim_start();
    if let Some(public) = rest.strip_prefix("pub") {
        rest = public.split_once(") ").filter(|_| public.starts_with('(')).map_or(public, |(_, rest)| rest);
    }
    let (name, rest) = rest.trim_start().strip_prefix("const ")?.split_once(": ")?;
    let (ty, value) = rest.split_once(" =")?;
    // Of several: of an array or a tuple.
    let several = ty.starts_with(['[', '(']) && !ty.contains('&') && NUMBERS.iter().any(|n| ty.contains(n));
    (several || NUMBERS.contains(&ty)).then_some([name, ty, value])
}

/// Whether a number is a quantity that was chosen or measured, not a place or a code: a time, a factor, a limit.
fn is_quantity(name: &str, ty: &str) -> bool {
    ["Duration", "f64"].contains(&ty) || ["MAX_", "MIN_"].iter().any(|p| name.starts_with(p))
}

/// Whether it is said where a number comes from: by its comment, which has a figure, code, a command or a link, or says that it was
/// chosen; or by its value, which is made of other constants.
fn names_a_source(doc: &str, value: &str) -> bool {
    let words = || value.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_constant =
        |w: &str| w.len() > 2 && w.starts_with(|c: char| c.is_ascii_uppercase()) && w == w.to_uppercase();
    words().any(is_constant)
        || doc.contains(|c: char| c.is_ascii_digit())
        || ["`", "Chosen", "Fitted"].iter().any(|s| doc.contains(s))
}

/// What the numbers of a file lack. Tests at its end may have any.
fn lacking(name: &str, source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or(source);
    let mut doc = String::new();
    let mut wrong = Vec::new();
    for (i, line) in code.lines().enumerate() {
        let text = line.trim_start();
        if let Some(more) = text.strip_prefix("///") {
            doc += more;
        } else if !text.starts_with("#[") {
            let at = |constant: &str, what: &str| format!("{name}:{}: {constant} {what}", i + 1);
            match number(line) {
                Some([constant, ..]) if doc.is_empty() => {
                    wrong.push(at(constant, "has no comment of its own"))
                }
                Some([constant, ty, value]) if is_quantity(constant, ty) && !names_a_source(&doc, value) => {
                    wrong.push(at(
                        constant,
                        "says no source: a paper, a command with its figure, or \"Chosen\" and why",
                    ));
                }
                _ => {}
            }
            doc.clear();
        }
    }
    wrong
}

#[test]
fn each_number_says_what_it_is_and_where_it_comes_from() {
    let mut files = BTreeMap::new();
    for folder in FOLDERS {
        let crate_folder =
            folder.split_once("src").map_or("src".to_owned(), |(before, _)| format!("{before}src"));
        let paths = match folder.ends_with(".rs") {
            true => vec![root().join(folder)],
            false => rust_files(folder),
        };
        assert!(!paths.is_empty(), "no files in {folder}");
        for path in paths {
            let name = shown(&path)[crate_folder.len() + 1..].to_owned();
            files.insert((crate_folder.clone(), name), std::fs::read_to_string(&path).unwrap());
        }
    }
    let sources: Vec<_> = files.iter().map(|((_, name), source)| (name.clone(), source.clone())).collect();
    let tests = test_only(&sources);
    let is_test =
        |name: &str| tests.iter().any(|t| name == format!("{t}.rs") || name.starts_with(&format!("{t}/")));
    let kept = files.iter().filter(|((_, name), _)| !is_test(name));
    let (mut numbers, mut wrong) = (0, Vec::new());
    for ((folder, name), source) in kept {
        numbers += source.lines().filter_map(number).count();
        wrong.extend(lacking(&format!("{folder}/{name}"), source));
    }
    assert!(numbers > 150, "found only {numbers} numbers");
    nothing(&wrong);
}

#[test]
fn numbers_without_a_comment_or_a_source_are_found() {
    let finds = |source: &str, what: &str| {
        let wrong = lacking("a.rs", source);
        assert!(wrong.len() == 1 && wrong[0].contains(what), "{source}: {wrong:?}");
    };
    finds("const LEN: usize = 8;", "a.rs:1: LEN has no comment");
    finds("/// Two.\nconst A: u8 = 1;\npub(super) const B: u8 = 2;", "a.rs:3: B has no comment");
    finds("    const FEW_AND_MANY: [u32; 2] = [16, 144];", "FEW_AND_MANY has no comment");
    finds("/// How long it waits.\nconst REST: Duration = Duration::from_secs(1);", "REST says no source");
    finds("/// The most.\n#[allow(x)]\npub const MAX_RAILS: usize = 8;", "MAX_RAILS says no source");
    for source in [
        "/// How long it waits. Chosen: nothing depends on it.\nconst REST: Duration = Duration::from_secs(1);",
        "/// The most, as `ci/cost` shows.\nconst MAX_RAILS: usize = 8;",
        "/// The most.\nconst MAX_TEXT: usize = MESSAGE_MAX / 3;",
        "/// Offset of the flag.\nconst FLAG: usize = 0;",
        "const NAME: &str = \"x\";",
        "const LINES: &[Line] = &[];",
        "const COMPARISONS: [(&str, Compare); 5] = [];",
        "const _: () = assert!(true);",
        "#[cfg(test)]\nmod tests {\n    const P: u32 = 5;\n}",
    ] {
        nothing(&lacking("a.rs", source));
    }
}
