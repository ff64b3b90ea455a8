//! Which operations are taken, and from which size to which, or whether that is tried: `CIRCULANT_MPI_TAKE`.

use crate::report::Operation;
use circulant::config::parse_bytes;
use circulant::{Error, ErrorKind, Result};
use std::ops::RangeInclusive;

/// The variable.
pub(crate) const VARIABLE: &str = "CIRCULANT_MPI_TAKE";

/// What is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Take {
    /// The sizes, of each operation.
    sizes: [Option<RangeInclusive<u64>>; Operation::ALL.len()],
    /// Of these what is faster here.
    pub(crate) by_trial: bool,
}

/// Of these not all ranks know a size, so none can decide.
const WITHOUT_SIZE: [Operation; 4] =
    [Operation::Gatherv, Operation::Scatterv, Operation::Alltoallv, Operation::Alltoallw];

const ANY: RangeInclusive<u64> = 0..=u64::MAX;

impl Take {
    /// Everything.
    pub(crate) fn all() -> Self {
        Self { sizes: [const { Some(ANY) }; Operation::ALL.len()], by_trial: false }
    }

    /// A list of operations, each with sizes if not all are meant: `allgatherv:8K-,bcast,reduce:-64K`; empty or `all`: everything;
    /// `auto`: what is faster here.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if ["", "all"].contains(&text.trim()) {
            return Ok(Self::all());
        }
        if text.trim() == "auto" {
            return Ok(Self { by_trial: true, ..Self::all() });
        }
        let mut take = Self { sizes: [const { None }; Operation::ALL.len()], by_trial: false };
        for item in text.split(',').map(str::trim) {
            let (name, sizes) = item.split_once(':').map_or((item, None), |(n, s)| (n, Some(s)));
            let operation = Operation::ALL.iter().find(|o| o.name() == name).copied();
            let Some(operation) = operation else {
                let names: Vec<_> = Operation::ALL.iter().map(|o| o.name()).collect();
                return Err(refused(item, format!("there is no operation {name:?}"))
                    .help(format!("all, auto, or some of {}", names.join(", "))));
            };
            let sizes = match sizes {
                None => ANY,
                Some(_) if WITHOUT_SIZE.contains(&operation) => {
                    let why = format!("not all ranks know a size of {name}, so it has none here");
                    return Err(refused(item, why));
                }
                Some(text) => range(text).ok_or_else(|| {
                    refused(item, format!("{text:?} is no range of sizes: 8K-, -64K or 1K-1M"))
                })?,
            };
            take.sizes[operation as usize] = Some(sizes);
        }
        Ok(take)
    }

    /// Whether a call of this size is taken.
    pub(crate) fn takes(&self, operation: Operation, bytes: usize) -> bool {
        self.sizes[operation as usize].as_ref().is_some_and(|sizes| sizes.contains(&(bytes as u64)))
    }
}

/// `A-B`, `A-` or `-B`, in bytes, with units.
fn range(text: &str) -> Option<RangeInclusive<u64>> {
    let (from, to) = text.split_once('-')?;
    let bound = |text: &str, open: u64| if text.is_empty() { Some(open) } else { parse_bytes(text) };
    let (from, to) = (bound(from, 0)?, bound(to, u64::MAX)?);
    (from <= to).then_some(from..=to)
}

fn refused(item: &str, why: String) -> Error {
    Error::new(ErrorKind::Config, format!("{VARIABLE}: {item:?}: {why}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_operations_and_sizes() {
        let take = Take::parse("allgatherv:8Ki-, bcast,reduce:-100,alltoallv").unwrap();
        for (operation, bytes, taken) in [
            (Operation::Allgatherv, 8191, false),
            (Operation::Allgatherv, 8192, true),
            (Operation::Bcast, 0, true),
            (Operation::Reduce, 100, true),
            (Operation::Reduce, 101, false),
            (Operation::Alltoallv, 5, true),
            (Operation::Barrier, 0, false),
        ] {
            assert_eq!(take.takes(operation, bytes), taken, "{operation:?} {bytes}");
        }
        assert_eq!(Take::parse("").unwrap(), Take::all());
        assert!(Take::parse("auto").unwrap().by_trial && !take.by_trial);
        assert!(Take::parse("all").unwrap().takes(Operation::Scan, usize::MAX));
    }

    #[test]
    fn what_it_cannot_be_is_an_error() {
        for (text, words) in [
            ("bcats", "no operation \"bcats\""),
            ("bcast:8", "no range"),
            ("bcast:9-8", "no range"),
            ("bcast:8Q-", "no range"),
            ("gatherv:8-", "not all ranks know"),
            ("bcast,", "no operation \"\""),
        ] {
            let e = Take::parse(text).unwrap_err().to_string();
            assert!(e.contains(words) && e.contains(VARIABLE), "{e}");
        }
    }
}
