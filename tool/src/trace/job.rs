//! The records of one job, on one time.

use super::clocks::{self, Clocks};
use crate::outcome::Failure;
use circulant::record::{Call, Event, Record};
use std::collections::BTreeMap;

/// Records by rank.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) size: u32,
    pub(crate) records: BTreeMap<u32, Record>,
    pub(crate) clocks: Clocks,
}

impl Job {
    pub(crate) fn of(records: Vec<Record>) -> Result<Self, Failure> {
        let wrong = |text: String| Failure::new(1, text);
        let size = records.first().map_or(0, |r| r.size);
        let mut by_rank = BTreeMap::new();
        for record in records {
            if record.size != size {
                let what = format!("records of several jobs: one of {size} ranks, one of {}", record.size);
                return Err(wrong(what));
            }
            let rank = record.rank;
            if by_rank.insert(rank, record).is_some() {
                return Err(wrong(format!("two records are of rank {rank}: name those of one job")));
            }
        }
        let clocks = clocks::compare(&by_rank);
        Ok(Self { size, records: by_rank, clocks })
    }

    /// When an event of `record` was, in nanoseconds since 1970 by the clock that all nodes are brought to.
    pub(crate) fn time(&self, record: &Record, ticks: u64) -> i64 {
        record.unix_ns(ticks).saturating_sub(self.clocks.ahead(&record.host))
    }

    /// When `record` was made.
    pub(crate) fn end(&self, record: &Record) -> i64 {
        self.time(record, record.clock.end.ticks)
    }

    /// The last event of `record` in `call`.
    pub(crate) fn last_in<'a>(&self, record: &'a Record, call: &Call) -> Option<&'a Event> {
        record.events.iter().rev().find(|e| e.call == *call)
    }
}

/// `allgatherv #812`, on another communicator than that of all ranks `allgatherv #3 of communicator 0.1`.
pub(crate) fn call_text(call: &Call) -> String {
    let Call { comm, sequence, operation } = call;
    match comm {
        0 => format!("{operation} #{sequence}"),
        // The library's own: of start-up and of finalize.
        _ if *comm > u64::MAX - 8 => format!("{operation} of the library's own #{sequence}"),
        _ => format!("{operation} #{sequence} of communicator {}.{}", comm >> 32, comm & u64::from(u32::MAX)),
    }
}

/// `rank 3`, `ranks 0-2, 5`.
pub(crate) fn ranks_text(ranks: &[u32]) -> String {
    let runs = ranks.chunk_by(|a, b| a.checked_add(1) == Some(*b)).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        [one] => one.to_string(),
        [] => String::new(),
    });
    let text = runs.collect::<Vec<_>>().join(", ");
    if ranks.len() == 1 { format!("rank {text}") } else { format!("ranks {text}") }
}
