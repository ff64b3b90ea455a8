//! What asks no other rank: groups, layouts, partitions, grids, memory, and settings.

use super::line;
use crate::ranks;
use circulant::comm::{Cartesian, Group, Layout, Partition, Persistent};
use circulant::config::{Config, SETTINGS};
use circulant::ops::Reducer;
use circulant::transport::{Memory, MemoryAttributes, sim};
use circulant::{Buf, Communicator, Result, ops};
use std::fmt::Write;

/// A call on a communicator of one rank, if on any.
type Make = fn(&Communicator) -> Result<()>;

/// A planned call that has been started.
fn planned(comm: &Communicator) -> Result<Persistent<u64>> {
    let mut planned = comm.allreduce_init(comm.alloc::<u64>(1)?, comm.alloc(1)?, ops::Sum)?;
    planned.start()?;
    Ok(planned)
}

const ROWS: &[(&str, &str, Make)] = &[
    ("Group::include", "a position that is not there", |_| Group::world(3).include(&[0, 3]).map(drop)),
    ("Group::include", "a position named twice", |_| Group::world(3).include(&[1, 1]).map(drop)),
    ("Group::exclude", "a position that is not there", |_| Group::world(3).exclude(&[3]).map(drop)),
    ("Group::exclude", "a position named twice", |_| Group::world(3).exclude(&[2, 2]).map(drop)),
    ("Group::translate", "a position that is not there", |_| {
        Group::world(3).translate(7, &Group::world(2)).map(drop)
    }),
    ("Layout::new", "a piece behind the end of memory", |_| Layout::new([(usize::MAX, 2)]).map(drop)),
    ("Layout::new", "more bytes than memory", |_| Layout::new([(0, usize::MAX), (0, 1)]).map(drop)),
    ("Layout::strided", "pieces behind the end of memory", |_| {
        Layout::strided(0, 2, 1, usize::MAX).map(drop)
    }),
    ("Layout::strided", "more pieces than memory", |_| Layout::strided(0, usize::MAX, 1, 0).map(drop)),
    ("Partition::with_displs", "a displacement too few", |_| Partition::with_displs([1, 2], [0]).map(drop)),
    ("Partition::with_displs", "a part behind the end of memory", |_| {
        Partition::with_displs([1, 2], [0, usize::MAX]).map(drop)
    }),
    ("Partition::contiguous", "more elements than memory", |_| {
        Partition::contiguous([usize::MAX, 1, 1]).map(drop)
    }),
    ("Partition::equal", "more elements than memory", |_| Partition::equal(3, usize::MAX).map(drop)),
    ("Cartesian::new", "lists of different lengths", |_| Cartesian::new(&[2, 2], &[true]).map(drop)),
    ("Cartesian::new", "a dimension of 0", |_| Cartesian::new(&[2, 0], &[true; 2]).map(drop)),
    ("Cartesian::new", "more ranks than a number", |_| {
        Cartesian::new(&[usize::MAX, 2], &[true; 2]).map(drop)
    }),
    ("alloc", "more bytes than memory", |c| c.alloc::<u64>(usize::MAX).map(drop)),
    ("alloc", "more bytes than a slice", |c| c.alloc::<u8>(usize::MAX / 2 + 1).map(drop)),
    ("adopt", "more bytes than memory", |c| {
        // SAFETY: it is refused, and touches nothing.
        unsafe { c.adopt(std::ptr::dangling_mut::<u64>(), usize::MAX, &MemoryAttributes::new(Memory::Host)) }
            .map(drop)
    }),
    ("adopt", "memory of a device without a way to copy it", |c| {
        // SAFETY: as above.
        unsafe { c.adopt(std::ptr::dangling_mut::<u64>(), 1, &MemoryAttributes::new(Memory::Cuda(0))) }
            .map(drop)
    }),
    ("Buf::part", "elements behind the end", |c| {
        let mut field = [1u64; 4];
        // SAFETY: the array lives longer than the buffer, and is left alone meanwhile.
        let buf = unsafe { c.adopt(field.as_mut_ptr(), field.len(), &MemoryAttributes::new(Memory::Host)) }?;
        // SAFETY: no operation is given it.
        unsafe { buf.part(2, 3) }.map(drop)
    }),
    ("Buf::part", "of a buffer that was not adopted", |c| {
        // SAFETY: no operation is given it.
        unsafe { Buf::from(c.alloc::<u64>(4)?).part(0, 1) }.map(drop)
    }),
    ("Persistent::start", "a run is under way", |c| {
        let mut planned = c.barrier_init()?;
        planned.start()?;
        planned.start()
    }),
    ("Persistent::input", "a run is under way", |c| planned(c)?.input().map(drop)),
    ("Persistent::output", "a run is under way", |c| planned(c)?.output().map(drop)),
    ("Persistent::buffers", "a run is under way", |c| planned(c)?.buffers().map(drop)),
    ("allreduce_one", "an operator on another type", |c| {
        c.allreduce_one(1u64, Reducer::new::<f64, _>(ops::Sum)).map(drop)
    }),
    ("scan_one", "an operator on another type", |c| {
        c.scan_one(1u64, Reducer::new::<f64, _>(ops::Sum)).map(drop)
    }),
    ("exscan_one", "an operator on another type", |c| {
        c.exscan_one(1u64, Reducer::new::<f64, _>(ops::Sum)).map(drop)
    }),
    ("ops::reducer", "an operator that the type lacks", |_| {
        ops::reducer("f64".parse()?, "band".parse()?).map(drop)
    }),
    ("ops::Type::from_str", "an unknown type", |_| "f65".parse::<ops::Type>().map(drop)),
    ("ops::Op::from_str", "an unknown operator", |_| "mean".parse::<ops::Op>().map(drop)),
];

/// Texts of which each setting that is no free text refuses one.
const ODD: [&str; 2] = ["?!", ""];

fn settings(table: &mut String) {
    let said = Config::defaults().set("deadlin", "5").expect_err("an unknown name").to_string();
    line(table, "deadlin", "an unknown name", &said);
    for setting in SETTINGS {
        let refused =
            ODD.iter().find_map(|text| Config::defaults().set(setting.name, text).err().zip(Some(text)));
        let (e, text) = refused.unwrap_or_else(|| panic!("{} takes anything", setting.variable));
        let what = if text.is_empty() { "nothing" } else { text };
        line(table, setting.variable, what, &e.to_string());
    }
}

pub(super) fn tables() -> String {
    let mut made = "\n## Without other ranks\n\n| call | wrong | error |\n|---|---|---|\n".to_owned();
    for (call, what, make) in ROWS {
        let mut results = ranks::run(1, &sim::Faults::default(), &[], |_, comm| Ok(make(comm)));
        let result = results.remove(0).unwrap_or_else(Err);
        let e = result.expect_err(&format!("{call}: {what}"));
        line(&mut made, call, what, &e.to_string());
    }
    write!(made, "\n## Settings\n\n| setting | value | error |\n|---|---|---|\n").expect("a string");
    settings(&mut made);
    made
}
