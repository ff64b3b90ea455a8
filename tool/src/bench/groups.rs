//! Collectives between two groups: shapes and calls.

use super::calls::{Calls, Here, Maybe, Wide, calls};
use super::order::Order;
use super::shapes::{Lists, Outcome, Piece, RankCall, Shape};
use crate::settings::SETTINGS;
use crate::units::rounds;
use circulant::comm::{Buf, Intercommunicator, Persistent, Request, Root};
use circulant::ops::Reducer;
use circulant::{Error, ErrorKind, Result};

/// What each rank contributes, in bytes; the ranks of A; and whether we are one.
fn sides(call: &RankCall) -> (Vec<usize>, usize, bool) {
    let setting = call.setting.unwrap_or(&SETTINGS[0]);
    let p = u32::try_from(call.p).unwrap_or(u32::MAX);
    let first = setting.first(p);
    let counts = setting.counts(call.bytes, first, p);
    let counts = counts.into_iter().map(|n| usize::try_from(n).unwrap_or(usize::MAX)).collect();
    (counts, first as usize, call.rank < first as usize)
}

/// Rounds in which a rank can have heard from all of the larger group.
fn least(call: &RankCall, first: usize) -> u32 {
    rounds(first.max(call.p - first) + 1)
}

pub(crate) fn allgather(call: &RankCall) -> Shape {
    let shape = allgatherv(call);
    let of = |group: &Lists| group.counts.first().copied().unwrap_or(0);
    let (ours, theirs) = (of(&shape.sent), of(&shape.received));
    let counts = match call.rank < shape.first {
        _ if ours == theirs => Vec::new(),
        true => vec![ours, theirs],
        false => vec![theirs, ours],
    };
    Shape { block: ours, counts, ..shape }
}

pub(crate) fn allgatherv(call: &RankCall) -> Shape {
    let (counts, first, is_first) = sides(call);
    let (a, sum_a) = Lists::new(counts[..first].to_vec());
    let (b, sum_b) = Lists::new(counts[first..].to_vec());
    let (sent, received, total, other) = if is_first { (a, b, sum_b, first) } else { (b, a, sum_a, 0) };
    let pieces = received.counts.iter().zip(&received.displs).enumerate();
    let pieces = pieces.map(|(r, (&len, &start))| Piece { start, len, owner: other + r, from: 0 });
    Shape {
        first,
        send: Some(counts[call.rank]),
        recv: Some(total),
        given: counts[call.rank],
        result: Outcome::Pieces(pieces.collect()),
        volume: sum_a.max(sum_b) as u64,
        rounds: least(call, first),
        counts,
        sent,
        received,
        ..Shape::default()
    }
}

pub(crate) fn bcast(call: &RankCall) -> Shape {
    let (_, first, is_first) = sides(call);
    let there = (call.root < first) != is_first;
    let shape = Shape { first, at_home: !there, rounds: least(call, first), ..super::shapes::bcast(call) };
    // The root's group only takes note.
    match there || call.rank == call.root {
        true => shape,
        false => Shape { result: Outcome::default(), ..shape },
    }
}

pub(crate) fn barrier(call: &RankCall) -> Shape {
    let first = sides(call).1;
    Shape { first, rounds: least(call, first), ..super::shapes::barrier(call) }
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
        (send.here(c)?, x.sent.parts(), recv.here(c)?, x.received.parts()),
}
