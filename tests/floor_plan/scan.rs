//! Reads a Rust file as tokens (so comments and strings do not count, and macro calls do) and lists the paths
//! it names and the `unsafe` it writes, leaving out what is compiled for tests only.

use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};
use std::iter::Peekable;
use std::vec::IntoIter;

/// Where a path stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// `use …`.
    Import,
    /// `pub use …`, `pub(crate) use …`.
    Reexport,
    /// In code.
    Code,
}

/// A path that a file names.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
    pub(crate) place: Position,
}

/// What a file holds.
#[derive(Default)]
pub(crate) struct Scan {
    /// Paths into this crate, from its root.
    pub(crate) own: Vec<Named>,
    /// Every other path, as written.
    pub(crate) foreign: Vec<Named>,
    /// Lines with the word `unsafe`.
    pub(crate) unsafe_lines: Vec<usize>,
    /// `#![forbid(unsafe_code)]` stands in the file.
    pub(crate) forbids_unsafe: bool,
    /// Modules in other files that are compiled for tests only, as paths without suffix, relative to `src`.
    pub(crate) test_modules: Vec<String>,
}

/// The module that the file `file` (relative to `src`) holds; the crate's root has no name.
pub(crate) fn module_of(file: &str) -> Vec<String> {
    let mut module: Vec<String> = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

/// Scans `source`, the content of the file `file` (relative to `src`).
pub(crate) fn scan(file: &str, source: &str) -> Result<Scan, LexError> {
    let mut module = module_of(file);
    let mut found = Scan::default();
    walk(source.parse()?, &mut module, &mut found);
    Ok(found)
}

type Tokens = Peekable<IntoIter<TokenTree>>;

fn tokens(stream: TokenStream) -> Tokens {
    stream.into_iter().collect::<Vec<_>>().into_iter().peekable()
}

fn walk(stream: TokenStream, module: &mut Vec<String>, found: &mut Scan) {
    let mut rest = tokens(stream);
    let mut place = Position::Code;
    let mut public = false;
    while let Some(token) = rest.next() {
        match token {
            TokenTree::Punct(p) if p.as_char() == ';' => place = Position::Code,
            TokenTree::Ident(word) if word == "pub" => public = true,
            TokenTree::Ident(word) if word == "use" => {
                place = if public { Position::Reexport } else { Position::Import };
                public = false;
            }
            TokenTree::Punct(p) if p.as_char() == '#' => {
                let for_tests_only = attribute(&mut rest, found);
                if for_tests_only {
                    skip_item(&mut rest, module, found);
                }
            }
            TokenTree::Group(group) => walk(group.stream(), module, found),
            TokenTree::Ident(word) if word == "unsafe" => found.unsafe_lines.push(word.span().start().line),
            TokenTree::Ident(word) if word == "mod" => {
                let Some(TokenTree::Ident(name)) = rest.next() else { continue };
                if let Some(TokenTree::Group(body)) = rest.peek() {
                    let body = body.stream();
                    module.push(name.to_string());
                    walk(body, module, found);
                    module.pop();
                    rest.next();
                }
            }
            TokenTree::Ident(word) => {
                public = false;
                let line = word.span().start().line;
                let mut paths = Vec::new();
                path(vec![word.to_string()], &mut rest, &mut paths);
                for path in paths {
                    sort(Named { path, line, place }, module, found);
                }
            }
            _ => {}
        }
    }
}

/// After a `#`: takes the attribute; true when what follows it is compiled for tests only.
fn attribute(rest: &mut Tokens, found: &mut Scan) -> bool {
    let inner = rest.next_if(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == '!')).is_some();
    let Some(TokenTree::Group(group)) = rest.next_if(|t| matches!(t, TokenTree::Group(_))) else {
        return false;
    };
    let text: String = group.stream().to_string().split_whitespace().collect();
    found.forbids_unsafe |= inner && text.starts_with("forbid(") && text.contains("unsafe_code");
    !inner && (text == "cfg(test)" || text.starts_with("cfg(all(test,"))
}

/// Takes one item: to its body's end or its semicolon.
fn skip_item(rest: &mut Tokens, module: &[String], found: &mut Scan) {
    let mut declares = None;
    while let Some(token) = rest.next() {
        match token {
            TokenTree::Group(g) if g.delimiter() == Delimiter::Brace => {
                // `use a::{b, c};` goes on after its braces
                rest.next_if(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == ';'));
                return;
            }
            TokenTree::Punct(p) if p.as_char() == ';' => {
                if let Some(name) = declares {
                    found
                        .test_modules
                        .push(module.iter().cloned().chain([name]).collect::<Vec<_>>().join("/"));
                }
                return;
            }
            TokenTree::Ident(word) if word == "mod" => declares = rest.peek().map(ToString::to_string),
            _ => {}
        }
    }
}

fn colons(rest: &mut Tokens) -> bool {
    let colon = |t: &TokenTree| matches!(t, TokenTree::Punct(p) if p.as_char() == ':');
    let mut ahead = rest.clone();
    if ahead.next_if(colon).is_some() && ahead.next_if(colon).is_some() {
        *rest = ahead;
        return true;
    }
    false
}

/// Goes on with a path that began with `so_far`; a `{…}` in it makes several.
fn path(mut so_far: Vec<String>, rest: &mut Tokens, paths: &mut Vec<Vec<String>>) {
    while colons(rest) {
        match rest.peek() {
            Some(TokenTree::Ident(word)) => so_far.push(word.to_string()),
            Some(TokenTree::Punct(p)) if p.as_char() == '*' => so_far.push("*".to_owned()),
            Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Brace => {
                let mut inner = tokens(g.stream());
                rest.next();
                while let Some(token) = inner.next() {
                    match token {
                        TokenTree::Ident(word) if word == "as" => drop(inner.next()),
                        TokenTree::Ident(word) if word == "self" => paths.push(so_far.clone()),
                        TokenTree::Ident(word) => {
                            let longer = so_far.iter().cloned().chain([word.to_string()]).collect();
                            path(longer, &mut inner, paths);
                        }
                        TokenTree::Punct(p) if p.as_char() == '*' => {
                            paths.push(so_far.iter().cloned().chain(["*".to_owned()]).collect());
                        }
                        _ => {}
                    }
                }
                return;
            }
            _ => break,
        }
        rest.next();
    }
    paths.push(so_far);
}

/// Sorts a path into the crate's own (made absolute) and the others.
fn sort(named: Named, module: &[String], found: &mut Scan) {
    let mut base = module.to_vec();
    let mut rest = named.path.as_slice();
    match rest[0].as_str() {
        "crate" => {
            base.clear();
            rest = &rest[1..];
        }
        "self" | "super" if rest.len() > 1 => {
            while let Some((first, tail)) = rest.split_first() {
                match first.as_str() {
                    "self" => {}
                    "super" => drop(base.pop()),
                    _ => break,
                }
                rest = tail;
            }
        }
        _ => {
            found.foreign.push(named);
            return;
        }
    }
    if !rest.is_empty() {
        base.extend_from_slice(rest);
        found.own.push(Named { path: base, ..named });
    }
}
