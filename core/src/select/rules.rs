//! Rules for choosing algorithms, from a file (the setting `selection`). A line is a rule:
//!
//! ```text
//! # operation  conditions                  -> algorithm
//! bcast        bytes<=64K size<=16         -> binomial
//! allreduce    bytes>=1M commutative=yes   -> ring
//! *            bytes<100                   -> auto
//! bcast        bytes>64K bytes<=96K        -> circulant blocks=24
//! ```
//!
//! The first rule counts whose operation (`*`: any) and conditions fit and whose algorithm exists and can do the
//! call; `auto` leaves it to the prices. Conditions: `bytes` (as in `circulant bench`: of the vector, or of all blocks
//! of a result together), `size` (ranks), `ranks-per-node`, each with <, <=, =, >=, > and a number (K, M, G; Ki, Mi, Gi); and
//! `commutative=yes` or `no`, and `counts=equal` or `unequal` (of operations with a count for each rank; without such they are equal). Behind the algorithm may stand a number of blocks, which counts where neither the call nor a
//! setting says one. Behind `#` stands what people read.

use crate::bytes::parse_bytes;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::registry::{Arguments, Operation, algorithm, algorithms};

/// One line of the file.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// The operation; `None`: any.
    pub(super) operation: Option<Operation>,
    conditions: Vec<Condition>,
    /// The algorithm; `auto` leaves it to the prices.
    pub(super) algorithm: String,
    /// Blocks per message; `None`: by the rule of the algorithm.
    pub(super) blocks: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Bytes,
    Size,
    PerNode,
    Commutative,
    Counts,
}

#[derive(Clone, Copy, Debug)]
struct Condition {
    what: What,
    compare: Compare,
    number: u64,
}

type Compare = fn(&u64, &u64) -> bool;

/// Longest first, so that `<=` is not taken for `<`.
const COMPARISONS: [(&str, Compare); 5] =
    [("<=", u64::le), (">=", u64::ge), ("<", u64::lt), (">", u64::gt), ("=", u64::eq)];

/// Reads a file's text.
pub(super) fn parse(text: &str) -> Result<Vec<Rule>> {
    let mut rules = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.split('#').next().unwrap_or("").trim();
        if !content.is_empty() {
            rules.push(rule(content).map_err(|what| {
                Error::new(ErrorKind::Config, format!("CIRCULANT_SELECTION: line {line}: {what}"))
                    .help("a line is: operation conditions -> algorithm, as in bcast bytes<=64K size<=16 -> binomial")
            })?);
        }
    }
    Ok(rules)
}

fn rule(content: &str) -> std::result::Result<Rule, String> {
    let (left, name) = content.split_once("->").ok_or("there is no ->")?;
    let (mut words, mut right) = (left.split_whitespace(), name.split_whitespace());
    let name = right.next().unwrap_or("");
    let blocks = right.next().map(blocks).transpose()?;
    if let Some(word) = right.next() {
        return Err(format!("behind the blocks stands {word:?}"));
    }
    let operation = match words.next().ok_or("there is no operation")? {
        "*" => None,
        word => Some(word.parse::<Operation>().map_err(|e| e.message().to_owned())?),
    };
    match operation {
        Some(operation) => algorithm(operation, name).map(|_| ()).map_err(|e| e.message().to_owned())?,
        None if name == "auto" || Operation::ALL.iter().any(|op| algorithms(*op).any(|a| a.name == name)) => {
        }
        None => return Err(format!("no operation has an algorithm {name:?}")),
    }
    let conditions = words.map(condition).collect::<std::result::Result<Vec<_>, _>>()?;
    if operation == Some(Operation::Alltoallv) && conditions.iter().any(|c| c.what == What::Bytes) {
        return Err("no rank of an alltoallv knows the bytes of all".to_owned());
    }
    Ok(Rule { operation, conditions, algorithm: name.to_owned(), blocks })
}

/// `blocks=24`
fn blocks(word: &str) -> std::result::Result<u32, String> {
    let number = word.strip_prefix("blocks=").and_then(|n| n.parse().ok()).filter(|n| *n > 0);
    number.ok_or(format!("{word:?} is not blocks= and a number from 1 on"))
}

fn condition(word: &str) -> std::result::Result<Condition, String> {
    let found = COMPARISONS.iter().find_map(|(sign, f)| Some((word.split_once(sign)?, *sign, *f)));
    let ((what, number), sign, compare) = found.ok_or(format!("{word:?} compares nothing"))?;
    let what = match what {
        "bytes" => What::Bytes,
        "size" => What::Size,
        "ranks-per-node" => What::PerNode,
        "commutative" if sign == "=" => What::Commutative,
        "counts" if sign == "=" => What::Counts,
        _ => {
            return Err(format!(
                "{what:?} in {word:?} is not bytes, size or ranks-per-node, nor is it commutative=yes or no, or counts=equal or unequal"
            ));
        }
    };
    let number = match (what, number) {
        (What::Commutative, "yes") => Some(1),
        (What::Commutative, "no") => Some(0),
        (What::Counts, "equal") => Some(1),
        (What::Counts, "unequal") => Some(0),
        (What::Commutative | What::Counts, _) => None,
        (_, number) => parse_bytes(number),
    };
    let number = number.ok_or(format!("{word:?} ends in no number such as 4 or 64K"))?;
    Ok(Condition { what, compare, number })
}

impl Rule {
    /// Whether it is about this call.
    pub(super) fn fits(&self, operation: Operation, a: &Arguments, per_node: u32) -> bool {
        self.operation.is_none_or(|own| own == operation)
            && self.conditions.iter().all(|c| {
                let value = match c.what {
                    What::Bytes if operation == Operation::Alltoallv => return false,
                    What::Bytes => a.total(operation),
                    What::Size => a.size.into(),
                    What::PerNode => per_node.into(),
                    What::Counts => u64::from(!operation.has_counts() || a.has_equal_counts()),
                    What::Commutative => u64::from(a.commutative || !operation.reduces()),
                };
                (c.compare)(&value, &c.number)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_fit() {
        let text = "# all\n\nbcast bytes<=64K size<=16 -> binomial # light\n* ranks-per-node>1 -> auto\n\
                    allreduce commutative=no bytes>10 -> ordered\nallgatherv bytes=30 -> ring\nbcast -> chain blocks=24\n\
                    allgatherv counts=equal -> circulant\nbcast counts=unequal -> chain";
        let rules = parse(text).unwrap();
        let names: Vec<_> = rules.iter().map(|r| r.algorithm.as_str()).collect();
        assert_eq!(names, ["binomial", "auto", "ordered", "ring", "chain", "circulant", "chain"]);
        assert_eq!((rules[0].blocks, rules[4].blocks), (None, Some(24)));
        let a = |size, bytes| Arguments { size, bytes, ..Arguments::default() };
        assert!(rules[0].fits(Operation::Bcast, &a(16, 64_000), 1));
        assert!(!rules[0].fits(Operation::Bcast, &a(17, 64_000), 1));
        assert!(!rules[0].fits(Operation::Bcast, &a(16, 64_001), 1));
        assert!(!rules[0].fits(Operation::Reduce, &a(16, 1), 1));
        assert!(rules[1].fits(Operation::Scan, &a(4, 1), 2) && !rules[1].fits(Operation::Scan, &a(4, 1), 1));
        assert!(rules[2].fits(Operation::Allreduce, &a(4, 11), 1));
        let commutative = Arguments { commutative: true, ..a(4, 11) };
        assert!(!rules[2].fits(Operation::Allreduce, &commutative, 1));
        let counts = Arguments { counts: vec![10, 20], ..a(2, 0) };
        assert!(rules[3].fits(Operation::Allgatherv, &counts, 1));
        let equal = Arguments { counts: vec![10, 10], ..a(2, 0) };
        assert!(
            rules[5].fits(Operation::Allgatherv, &equal, 1)
                && !rules[5].fits(Operation::Allgatherv, &counts, 1)
        );
        assert!(!rules[6].fits(Operation::Bcast, &a(2, 9), 1));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, said) in [
            ("bcast", "line 1: there is no ->"),
            ("\n-> ring", "line 2: there is no operation"),
            ("#\n\nbcats -> ring", "line 3: there is no operation \"bcats\""),
            ("bcast -> ring", "line 1: bcast has no algorithm \"ring\""),
            ("* -> nothing", "no operation has an algorithm \"nothing\""),
            ("bcast -> chain blocks=0", "\"blocks=0\" is not blocks= and a number from 1 on"),
            ("bcast -> chain 24", "\"24\" is not blocks="),
            ("bcast -> chain blocks=2 4", "behind the blocks stands \"4\""),
            ("bcast bytes~4 -> chain", "\"bytes~4\" compares nothing"),
            ("bcast bites<4 -> chain", "\"bites\" in \"bites<4\" is not bytes"),
            ("bcast bytes<4Q -> chain", "\"bytes<4Q\" ends in no number"),
            ("reduce commutative=maybe -> ordered", "ends in no number"),
            ("reduce commutative<yes -> ordered", "is not bytes"),
            ("allgatherv counts=4 -> ring", "ends in no number"),
            ("alltoallv bytes<4 -> direct", "no rank of an alltoallv"),
        ] {
            let e = parse(text).unwrap_err().to_string();
            assert!(e.contains(said), "{text}: {e}");
        }
    }
}
