//! Flight records of real worlds: what they hold of calls that wait, and of those that have ended.

use crate::ranks;

use circulant::record::{EventKind, Missing, Record};
use circulant::{ErrorKind, Options, ops};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Ranks of these worlds.
const P: usize = 5;
/// Only stops what hangs.
const LONG: Duration = Duration::from_secs(20);

fn read(record: &Record) -> Record {
    Record::read(record.to_string().as_bytes()).unwrap()
}

/// The last rank enters no call before all others have made their records.
#[test]
fn a_record_names_the_call_and_the_rank_that_it_waits_for() {
    let wires: &[&str] = if cfg!(miri) { &["sim"] } else { &["sim", "shm"] };
    for wire in wires {
        let recorded = AtomicBool::new(false);
        let results = ranks::run_over(wire, P, &[], |world, comm| {
            let (mut record, begin) = (None, Instant::now());
            let last = comm.rank() == P - 1;
            let here = || recorded.load(Ordering::Acquire) || begin.elapsed() > LONG;
            while last && !here() {
                std::thread::yield_now();
            }
            let (mine, all) = (comm.alloc_from(&[comm.rank() as u64])?, comm.alloc(P)?);
            let mut request = comm.with(Options::new().algorithm("direct")).iallgather(mine, all)?;
            while !last && !here() {
                let over = request.test()?;
                assert!(!over || here(), "{wire}: it needs the last rank");
                let made = read(&world.record()?);
                if comm.rank() == 0 && made.waits.iter().any(|w| w.peer as usize == P - 1) {
                    record = Some(made);
                    recorded.store(true, Ordering::Release);
                }
            }
            request.wait()?;
            Ok((record, read(&world.record()?)))
        });
        let records: Vec<_> = results.into_iter().map(|r| r.unwrap()).collect();
        let of_0 = records[0].0.as_ref().unwrap();
        let wait = &of_0.waits[..];
        let [wait] = wait else { panic!("{wire}: {wait:?}") };
        assert_eq!((&*wait.call.operation, wait.peer as usize), ("allgather", P - 1), "{wire}");
        assert!(matches!(wait.what, Missing::Bytes | Missing::Entry), "{wire}: {wait:?}");
        for (rank, (_, end)) in records.iter().enumerate() {
            assert!(end.waits.is_empty() && end.rank as usize == rank && end.size as usize == P);
            assert_eq!(end.completed.as_ref(), Some(&wait.call), "{wire}");
        }
    }
}

/// Each arrival of a call has its put, eager message or notify at the rank that it came from.
#[test]
fn what_arrives_was_sent() {
    let results = ranks::run_over("sim", P, &[("record-events", "100000")], |world, comm| {
        let mut data = vec![comm.rank() as u32; 50_000];
        comm.with(Options::new().algorithm("circulant").blocks(7)).bcast(&mut data, 3)?;
        comm.barrier()?;
        let mut all = vec![0; P];
        comm.allgather(&[comm.rank() as u64], &mut all)?;
        world.record().map(|r| read(&r))
    });
    let records: Vec<Record> = results.into_iter().map(|r| r.unwrap()).collect();
    let mut sent = HashMap::new();
    let mut arrived = HashMap::new();
    for record in &records {
        assert_eq!(record.lost, 0);
        for event in &record.events {
            let key = |from, to| (event.call.clone(), from, to, event.round, event.block);
            match event.kind {
                EventKind::Put | EventKind::Eager | EventKind::Notify => {
                    *sent.entry(key(record.rank, event.peer)).or_insert(0) += 1;
                }
                EventKind::Arrive => *arrived.entry(key(event.peer, record.rank)).or_insert(0) += 1,
                _ => {}
            }
        }
        let count = |kind| record.events.iter().filter(|e| e.kind == kind).count();
        assert_eq!(count(EventKind::Enter), count(EventKind::Leave));
    }
    assert_eq!(sent, arrived);
    assert!(sent.len() > 7 * (P - 1), "{} messages", sent.len());
}

/// A rank that is told of an error keeps it in its record, with the call in which it was.
#[test]
fn an_error_is_in_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().to_str().unwrap();
    let results = ranks::run_over("sim", 3, &[("record", name)], |_, comm| {
        let length = 1 + usize::from(comm.rank() == 1);
        let options = Options::new().algorithm("circulant");
        comm.with(options).allreduce(&vec![1.0; length][..], &mut vec![0.0; length][..], ops::Sum)
    });
    assert!(results.iter().any(|r| r.as_ref().is_err_and(|e| e.kind() == ErrorKind::Mismatch)));
    for rank in 0..3 {
        let bytes = std::fs::read(folder.path().join(format!("rank-{rank}.record"))).unwrap();
        let record = Record::read(&bytes).unwrap();
        let error = record.error.unwrap();
        assert!(error.contains("allreduce #"), "{error}");
        assert_eq!(&*record.entered.unwrap().operation, "allreduce");
    }
}

/// Calls are counted by operation and size, also those that are short or go by requests; what is off counts nothing.
#[test]
fn calls_are_timed_by_operation_and_size() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stats-%r.prom");
    let name = file.to_str().unwrap();
    for (wire, settings) in
        [("sim", &[("stats-file", name)][..]), ("shm", &[("stats-file", name)]), ("sim", &[])]
    {
        if cfg!(miri) && wire != "sim" {
            continue;
        }
        let results = ranks::run_over(wire, 3, settings, |world, comm| {
            for _ in 0..5 {
                comm.bcast(&mut [1u8; 100], 0)?;
                comm.ibcast(comm.alloc_from(&[7u8; 100_000])?, 1)?.wait()?;
                comm.barrier()?;
            }
            world.latencies()
        });
        for latencies in results {
            let latencies = latencies.unwrap();
            let found: Vec<_> =
                latencies.iter().map(|l| (l.operation, l.up_to_bytes, l.calls, l.bytes)).collect();
            let large = ("bcast", Some(1 << 18), 5, 500_000);
            let mut all = vec![("barrier", Some(64), 5, 0), ("bcast", Some(256), 5, 500), large];
            all.retain(|_| !settings.is_empty());
            let mut sorted = found.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, all, "{wire}");
            assert!(
                latencies.iter().all(|l| l.least <= l.median && l.median <= l.most && l.most <= l.total * 2)
            );
        }
    }
    for rank in 0..3 {
        let text = std::fs::read_to_string(folder.path().join(format!("stats-{rank}.prom"))).unwrap();
        let count = format!(
            "circulant_call_seconds_count{{rank=\"{rank}\",operation=\"bcast\",bytes_up_to=\"256\"}} 5\n"
        );
        assert!(text.contains(&count), "{text}");
    }
}

#[test]
fn a_recorder_that_is_off_records_nothing() {
    let results = ranks::run_over("sim", 2, &[("record-events", "0")], |world, comm| {
        comm.barrier()?;
        world.record()
    });
    for record in results {
        let record = record.unwrap();
        assert!(record.events.is_empty() && record.lost == 0 && record.completed.is_some());
    }
}
