//! Groups of nodes, as rank 0 finds them for all: from what the setting `groups` says, and what each rank has published of its node.

use crate::comm::members::to_u32;
use crate::config::{Config, Grouping};
use crate::error::{Error, ErrorKind, Result};
use crate::launch::hostlist;
use std::collections::HashMap;
use std::hash::Hash;

/// What a rank tells of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// The node's name, for people and files.
    pub(super) name: String,
    /// Its group, where the launcher says so; else nothing.
    pub(super) group: String,
}

/// The longest text of [`Told`], in bytes: its length fits into one, and Linux has names of at most 64. A longer name of a switch ends there.
const MAX_TEXT_BYTES: usize = u8::MAX as usize;

impl Told {
    /// To publish, in front of other bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for text in [&self.name, &self.group] {
            let bytes = &text.as_bytes()[..text.len().min(MAX_TEXT_BYTES)];
            out.push(u8::try_from(bytes.len()).unwrap_or(0));
            out.extend(bytes);
        }
        out
    }

    /// What [`Told::encode`] has made, and the bytes behind it; `None` for anything else.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let text = |bytes: &'_ [u8]| -> Option<(String, usize)> {
            let (len, rest) = bytes.split_first()?;
            let text = rest.get(..usize::from(*len))?;
            Some((String::from_utf8_lossy(text).into_owned(), 1 + text.len()))
        };
        let (name, first) = text(bytes)?;
        let (group, second) = text(&bytes[first..])?;
        Some((Self { name, group }, &bytes[first + second..]))
    }
}

/// The group of each rank's node, numbered in order of first appearance; nothing: the network is not divided, as all nodes are in one
/// group, or each is alone in its own.
///
/// # Errors
/// When the file of groups makes no sense, or does not name a node.
pub(super) fn groups(config: &Config, nodes: &[u32], told: &[Told]) -> Result<Vec<u32>> {
    let mut firsts = HashMap::new();
    for (rank, node) in nodes.iter().enumerate() {
        let next = to_u32(firsts.len())?;
        firsts.entry(*node).or_insert((next, rank));
    }
    let place = |rank: usize| nodes.get(rank).and_then(|node| firsts.get(node)).copied().unwrap_or_default();
    // What the first rank of the node has told, so that a node is in one group.
    let of_node = |rank: usize| told.get(place(rank).1);
    let ranks = 0..nodes.len();
    let found = match &config.groups {
        Grouping::Undivided => Vec::new(),
        Grouping::Nodes(each) => numbered(ranks.map(|rank| Some(place(rank).0 / each)))?,
        Grouping::Told => {
            let group = |rank| of_node(rank).map(|told| &told.group).filter(|group| !group.is_empty());
            numbered(ranks.map(group))?
        }
        Grouping::File(path) => {
            let file = file(config.groups_text()).map_err(|what| wrong(path, &what))?;
            let missing = |rank: usize| {
                let name = of_node(rank).map_or("", |told| &told.name);
                wrong(path, &format!("there is no line for the node {name:?} of rank {rank}"))
            };
            let group =
                |rank| of_node(rank).and_then(|told| in_file(&file, &told.name)).ok_or_else(|| missing(rank));
            numbered(ranks.map(group).collect::<Result<Vec<_>>>()?.into_iter().map(Some))?
        }
    };
    Ok(if says_something(&found, firsts.len()) { found } else { Vec::new() })
}

/// Whether there are several groups, of several nodes in some.
fn says_something(groups: &[u32], nodes: usize) -> bool {
    let count = groups.iter().max().map_or(0, |most| *most as usize + 1);
    1 < count && count < nodes
}

/// Numbers in order of first appearance; none where something is not known.
fn numbered<K: Eq + Hash>(keys: impl Iterator<Item = Option<K>>) -> Result<Vec<u32>> {
    let mut seen = HashMap::new();
    let mut numbers = Vec::new();
    for key in keys {
        let Some(key) = key else { return Ok(Vec::new()) };
        let next = to_u32(seen.len())?;
        numbers.push(*seen.entry(key).or_insert(next));
    }
    Ok(numbers)
}

/// Lines of nodes and their group, of which `#` begins a comment: each node's group by its name.
fn file(text: &str) -> Result<HashMap<String, &str>, String> {
    let mut groups = HashMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        let (nodes, group) = match words[..] {
            [] => continue,
            [nodes, group] => (nodes, group),
            _ => return Err(format!("line {number}: it is not NODES GROUP")),
        };
        let names =
            hostlist::names(nodes).ok_or_else(|| format!("line {number}: {nodes:?} is no list of nodes"))?;
        for name in names {
            if groups.len() >= hostlist::MAX_NAMES {
                return Err(format!("line {number}: more than {} nodes", hostlist::MAX_NAMES));
            }
            if let Some(other) = groups.insert(name.clone(), group).filter(|other| *other != group) {
                return Err(format!("line {number}: the node {name:?} is in {other:?} and in {group:?}"));
            }
        }
    }
    Ok(groups)
}

/// The group of a node of this name, or of this name without its domain.
fn in_file<'a>(file: &HashMap<String, &'a str>, name: &str) -> Option<&'a str> {
    let short = name.split('.').next().unwrap_or(name);
    file.get(name).or_else(|| file.get(short)).copied()
}

#[cold]
fn wrong(path: &str, what: &str) -> Error {
    Error::new(ErrorKind::Config, format!("CIRCULANT_GROUPS: {path}: {what}"))
        .help("lines such as n[1-16] group1, with the nodes' names as hostname prints them")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pairs: &[(&str, &str)]) -> Vec<Told> {
        pairs
            .iter()
            .map(|(name, group)| Told { name: (*name).to_owned(), group: (*group).to_owned() })
            .collect()
    }

    fn found(setting: &str, nodes: &[u32], told: &[Told]) -> Vec<u32> {
        let mut config = Config::defaults();
        config.set("groups", setting).unwrap();
        groups(&config, nodes, told).unwrap()
    }

    #[test]
    fn nodes_come_to_the_same_groups() {
        let switches = told(&[("a", "s1"), ("b", "s0"), ("a", "s1"), ("c", "s1"), ("d", "s0")]);
        let nodes = [7, 3, 7, 0, 9];
        // As nodes follow by their first ranks: 7, 3, 0, 9.
        assert_eq!(found("2", &nodes, &switches), [0, 0, 0, 1, 1]);
        assert_eq!(found("3", &nodes, &switches), [0, 0, 0, 0, 1]);
        assert_eq!(found("auto", &nodes, &switches), [0, 1, 0, 0, 1]);
        assert_eq!(found("none", &nodes, &switches), []);
        // A node is in the group that its first rank tells.
        let torn = told(&[("a", "s1"), ("b", "s0"), ("a", "s0"), ("c", "s1"), ("d", "s0")]);
        assert_eq!(found("auto", &nodes, &torn), [0, 1, 0, 0, 1]);
    }

    #[test]
    fn what_says_nothing_is_no_group() {
        let nodes = [0, 0, 1, 2];
        let all = |groups: [&str; 4]| told(&groups.map(|group| ("n", group)));
        // One group for all, as where a launcher passes on the variables of one node; one for each; not known of all.
        for groups in [["s0", "s0", "s0", "s0"], ["s0", "s0", "s1", "s2"], ["s0", "s0", "s1", ""]] {
            assert_eq!(found("auto", &nodes, &all(groups)), [], "{groups:?}");
        }
        for each in ["1", "3", "4", "4294967295"] {
            assert_eq!(found(each, &nodes, &all([""; 4])), [], "{each}");
        }
        assert_eq!(found("2", &[0, 0], &all([""; 4])[..2]), []);
    }

    #[test]
    fn a_file_names_nodes_in_short() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("groups");
        let by = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let mut config = Config::defaults();
            config.set("groups", path.to_str().unwrap()).unwrap();
            config.load().unwrap();
            groups(
                &config,
                &[0, 1, 1, 2],
                &told(&[("n01", ""), ("n02.site", ""), ("n02.site", ""), ("x", "")]),
            )
        };
        let good = "# all\nn[00-01] west # two\n\nn02,x east\n";
        assert_eq!(by(good).unwrap(), [0, 1, 1, 1]);
        assert_eq!(by("n02.site,n01 a\nx,n02 b").unwrap(), [0, 0, 0, 1]);
        for (text, said) in [
            ("n01", "line 1: it is not NODES GROUP"),
            ("\nn[2-1] a", "line 2: \"n[2-1]\" is no list of nodes"),
            ("n01 a\nn[01-02],x b", "line 2: the node \"n01\" is in \"a\" and in \"b\""),
            ("n[01-02] a", "there is no line for the node \"x\" of rank 3"),
        ] {
            let e = by(text).unwrap_err().to_string();
            assert!(e.contains("CIRCULANT_GROUPS") && e.contains(said), "{e}");
        }
    }

    #[test]
    fn what_is_told_comes_back() {
        let long = "s".repeat(400);
        for (name, group) in [("", ""), ("n1", "s0.s1"), ("n1", &long)] {
            let one = told(&[(name, group)]).remove(0);
            let bytes = [one.encode(), vec![1, 2, 3]].concat();
            let (read, rest) = Told::decode(&bytes).unwrap();
            assert_eq!((read.name.as_str(), rest), (name, &[1, 2, 3][..]));
            assert_eq!(read.group, group[..group.len().min(255)]);
        }
        assert!(
            Told::decode(&[]).is_none()
                && Told::decode(&[3, 1, 2]).is_none()
                && Told::decode(&[1, 65]).is_none()
        );
    }
}
