//! Collectives between two groups: the settings of Kang et al. that the rivals' benchmark has, shapes and calls.

use super::calls::{Calls, Here, Maybe, Wide, calls};
use super::job::Order;
use super::shapes::{Lists, Outcome, Piece, Place, Shape};
use crate::units::rounds;
use circulant::comm::{Buf, Intercommunicator, Persistent, Request, Root};
use circulant::ops::Reducer;
use circulant::{Error, ErrorKind, Result};

/// How the ranks are divided into groups A and B, and what each contributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Between {
    pub(crate) name: &'static str,
    /// What it looks like, for --help.
    pub(crate) about: &'static str,
    /// Half and half; else 25 : 7.
    even: bool,
    /// Contributions of A and B are SIZE divided by these.
    parts: [u64; 2],
    /// Rank i of k contributes (i+1)/k of that.
    rising: bool,
    /// Of iallgatherv; else of iallgather.
    irregular: bool,
}

/// Half and half, everybody with the same, for iallgather.
const BASE: Between =
    Between { name: "", about: "", even: true, parts: [1, 1], rising: false, irregular: false };

/// All of them, in the order in which they are run.
pub(crate) const SETTINGS: [Between; 8] = [
    Between { name: "s1", about: "P/2 : P/2, the same at each rank", ..BASE },
    Between { name: "s2", about: "25 : 7, the same at each rank", even: false, ..BASE },
    Between { name: "s3", about: "25 : 7, ranks of B have half", even: false, parts: [1, 2], ..BASE },
    Between { name: "s4", about: "25 : 7, ranks of A have half", even: false, parts: [2, 1], ..BASE },
    Between { name: "s5", about: "as s1, for iallgatherv", irregular: true, ..BASE },
    Between {
        name: "s6",
        about: "P/2 : P/2, rank i of k has (i+1)/k",
        rising: true,
        irregular: true,
        ..BASE
    },
    Between { name: "s7", about: "as s2, for iallgatherv", even: false, irregular: true, ..BASE },
    Between {
        name: "s8",
        about: "25 : 7, rank i of k has (i+1)/k",
        even: false,
        rising: true,
        irregular: true,
        ..BASE
    },
];

impl Between {
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|s| s.name == name)
    }

    /// Whether it is one of iallgatherv, or of iallgather.
    pub(crate) fn is_for(&self, irregular: bool) -> bool {
        self.irregular == irregular
    }

    /// Ranks of group A among `p` ≥ 2.
    fn first(&self, p: usize) -> usize {
        let first = if self.even { p / 2 } else { (p * 25 + 16) / 32 };
        first.clamp(1, p - 1)
    }

    /// Bytes of each rank of a group of `k`, in whole ints; `bytes`: what a rank has at most.
    fn counts(&self, group: usize, k: usize, bytes: u64) -> Vec<usize> {
        let ints = match bytes {
            0 => 0,
            bytes => ((bytes / 4).max(1) / self.parts[group]).max(1),
        };
        let one = |i: usize| if self.rising { ints * (i as u64 + 1) / k as u64 } else { ints };
        (0..k).map(|i| usize::try_from(4 * one(i)).unwrap_or(usize::MAX)).collect()
    }
}

/// The setting, the ranks of A, and whether we are one.
fn sides(place: &Place) -> (&'static Between, usize, bool) {
    let setting = place.setting.unwrap_or(&SETTINGS[0]);
    let first = setting.first(place.p);
    (setting, first, place.rank < first)
}

/// Rounds in which a rank can have heard from all of the larger group.
fn least(place: &Place, first: usize) -> u32 {
    rounds(first.max(place.p - first) + 1)
}

pub(crate) fn allgather(place: &Place) -> Shape {
    let shape = allgatherv(place);
    let of = |group: &Lists| group.counts.first().copied().unwrap_or(0);
    let (ours, theirs) = (of(&shape.sent), of(&shape.received));
    let counts = match place.rank < shape.first {
        _ if ours == theirs => Vec::new(),
        true => vec![ours, theirs],
        false => vec![theirs, ours],
    };
    Shape { block: ours, counts, ..shape }
}

pub(crate) fn allgatherv(place: &Place) -> Shape {
    let (setting, first, is_first) = sides(place);
    let (a, sum_a) = Lists::new(setting.counts(0, first, place.bytes));
    let (b, sum_b) = Lists::new(setting.counts(1, place.p - first, place.bytes));
    let counts = [&a.counts[..], &b.counts].concat();
    let (sent, received, total, other) = if is_first { (a, b, sum_b, first) } else { (b, a, sum_a, 0) };
    let pieces = received.counts.iter().zip(&received.displs).enumerate();
    let pieces = pieces.map(|(r, (&len, &start))| Piece { start, len, owner: other + r, from: 0 });
    Shape {
        first,
        send: Some(counts[place.rank]),
        recv: Some(total),
        given: counts[place.rank],
        result: Outcome::Pieces(pieces.collect()),
        volume: sum_a.max(sum_b) as u64,
        rounds: least(place, first),
        counts,
        sent,
        received,
        ..Shape::default()
    }
}

pub(crate) fn bcast(place: &Place) -> Shape {
    let (_, first, is_first) = sides(place);
    let there = (place.root < first) != is_first;
    let shape = Shape { first, at_home: !there, rounds: least(place, first), ..super::shapes::bcast(place) };
    // The root's group only takes note.
    match there || place.rank == place.root {
        true => shape,
        false => Shape { result: Outcome::default(), ..shape },
    }
}

pub(crate) fn barrier(place: &Place) -> Shape {
    let first = sides(place).1;
    Shape { first, rounds: least(place, first), ..super::shapes::barrier(place) }
}

impl Wide for Intercommunicator {
    fn of(order: &Order<'_>) -> Result<Self> {
        let (all, first) = (order.comm.group(), order.shape.first);
        let a = all.include(&(0..first).collect::<Vec<_>>())?;
        let made = order.comm.create_inter(&a, &all.difference(&a))?;
        let made = made.map(|inter| inter.with(order.options.clone()));
        made.ok_or_else(|| Error::new(ErrorKind::Argument, "this rank is in neither group"))
    }

    fn buffer<T: bytemuck::Pod>(&self, len: usize) -> Result<Buf<T>> {
        self.alloc(len)
    }
}

/// The root as this rank calls it.
fn root(shape: &Shape) -> Root {
    let there = if shape.root < shape.first { shape.root } else { shape.root - shape.first };
    if shape.at_home { Root::Here(there) } else { Root::There(there) }
}

calls! { Intercommunicator (c, x, op, send, recv):
    Barrier u8 [barrier, ibarrier, barrier_init] (;),
    Bcast <T> [bcast, ibcast, bcast_init] (recv.here(c)?, root(x)),
    Allgather <T> [allgather, iallgather, allgather_init] (send.here(c)?, recv.here(c)?),
    Allgatherv <T> [allgatherv, iallgatherv, allgatherv_init]
        (send.here(c)?, x.sent.lists(), recv.here(c)?, x.received.lists()),
}
