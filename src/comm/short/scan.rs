//! Scans of short vectors. Where ranks share cores a rank that has its result shares it, if the operator is exact and the slot has room, so that ranks behind it need not read what all
//! before it have posted: of calls in a row, the rank before ours mostly has its result when we have a core. A rank does not wait for another rank's result. (With a core for each, all fold
//! at the same time, and to share a result would take longer.) What an inexact operator gives must not depend on which rank is first: it is folded from all posts, in one tree.

use super::data::keep;
use super::fold::{Few, MAX_FEW_BYTES, Order, folding};
use super::levels::{At, Fold};
use super::run::Run;
use crate::comm::Communicator;
use crate::error::Result;
use crate::ops::{Reducer, Side};
use crate::plan::registry::Operation;
use crate::plan::scan::prefix::exscan_round;
use crate::schedule::Circulant;

impl Communicator {
    /// As [`Communicator::short_barrier`], a scan of slices of `T`, or an exscan.
    pub(in crate::comm) fn short_scan<T>(
        &self,
        operation: Operation,
        send: Option<&[u8]>,
        recv: &mut [u8],
        by: &Reducer,
    ) -> Option<Result<()>> {
        let len = recv.len();
        if send.is_some_and(|send| send.len() != len) {
            return None;
        }
        self.short(
            folding::<T>(operation, len, by)?,
            |h| {
                h.word(len as u64);
                h.word(by.hash());
            },
            |run| {
                if run.size() <= 2 {
                    return run.scan_two(operation, send, recv, by);
                }
                run.post(send.unwrap_or(recv))?;
                if self.shares_cores() && by.exact() && run.slots()?.has_part(len, len) {
                    return run.scan_exact(operation, send, recv, by);
                }
                match (operation, run.rank()) {
                    (Operation::Scan, _) => run.fold(Order::UpTo, (None, At::same(0)), recv, by),
                    (_, 0) => Ok(()),
                    _ => run.fold(Order::Before, (None, At::same(0)), recv, by),
                }
            },
        )
    }
}

impl Run<'_, '_> {
    /// A scan of two ranks or of one, or an exscan: rank 1 reads what rank 0 contributes.
    fn scan_two(
        &mut self,
        operation: Operation,
        send: Option<&[u8]>,
        recv: &mut [u8],
        by: &Reducer,
    ) -> Result<()> {
        if self.rank() == 0 {
            self.post(send.unwrap_or(recv))?;
            if operation == Operation::Scan {
                keep(self, send, recv);
            }
            return Ok(());
        }
        self.post_nothing()?;
        match operation {
            Operation::Scan => self.fold_other(At::same(0), send, recv, by)?,
            _ => self.receive(0, At::same(0), recv)?,
        }
        self.met();
        Ok(())
    }

    /// A scan of more ranks by an exact operator, or an exscan. We have posted what we contribute.
    fn scan_exact(
        &mut self,
        operation: Operation,
        send: Option<&[u8]>,
        recv: &mut [u8],
        by: &Reducer,
    ) -> Result<()> {
        let includes_ours = operation == Operation::Scan;
        if includes_ours {
            keep(self, send, recv);
        }
        let len = recv.len();
        if len <= MAX_FEW_BYTES {
            let mut few = Few::new();
            return self.fold_down(includes_ours, recv, few.first(len), by);
        }
        let mut partials = self.take_partials();
        let done = self.fold_down(includes_ours, recv, &mut partials[..len], by);
        self.held.short_calls.partials = partials;
        done
    }

    /// Folds to `recv` what the ranks before ours contribute, from the next one down to the first that shares the result of all up to it. Then shares that of all up to ours.
    fn fold_down(
        &mut self,
        includes_ours: bool,
        recv: &mut [u8],
        came: &mut [u8],
        by: &Reducer,
    ) -> Result<()> {
        let (mine, len) = (self.rank(), recv.len());
        let mut has_some = includes_ours;
        for member in (0..mine).rev() {
            let to = if has_some { &mut *came } else { &mut *recv };
            let is_last = self.take_part(member, len, to)?;
            if !is_last {
                self.receive(member, At::same(0), to)?;
            }
            if has_some {
                self.counts().reduced_bytes += len as u64;
                // In the order of ranks, though the library has no exact operator that does not commute.
                by.reduce(recv, came, Side::SourceLeft)?;
            }
            has_some = true;
            if is_last {
                break;
            }
        }
        if mine == 0 || mine + 1 == self.size() {
            return Ok(());
        }
        if includes_ours {
            return self.share(len, recv);
        }
        self.read(mine, 0, came)?;
        self.counts().reduced_bytes += len as u64;
        by.reduce(came, recv, Side::SourceLeft)?;
        self.share(len, came)
    }
}

impl Fold<'_> {
    /// The contributions of the ranks up to ours.
    pub(super) fn up_to(&mut self, run: &mut Run<'_, '_>) -> Result<()> {
        let rank = run.rank();
        self.prefix(run, (true, &|round| (1 << round, false)), rounds(run), rank).map(|_| ())
    }

    /// The contributions of the ranks before ours.
    pub(super) fn before(&mut self, run: &mut Run<'_, '_>) -> Result<()> {
        let (rank, graph) = (run.rank(), Circulant::new(run.context.size));
        let round = |round| {
            let (distance, with) = exscan_round(&graph, round);
            (distance as usize, with)
        };
        self.prefix(run, (false, &round), rounds(run), rank).map(|_| ())
    }

    /// The partial result that rank `rank` of a scan has before round `round`: of the ranks up to it (`own`) or before it. That of the round
    /// before is folded from the left to what the rank had. False if it has nothing yet.
    fn prefix(
        &mut self,
        run: &mut Run<'_, '_>,
        (own, rounds): (bool, &dyn Fn(u32) -> (usize, bool)),
        round: u32,
        rank: usize,
    ) -> Result<bool> {
        let Some(before) = round.checked_sub(1) else {
            if own {
                self.push(run, rank)?;
            }
            return Ok(own);
        };
        let (distance, with) = rounds(before);
        let mut came = false;
        if let Some(sender) = rank.checked_sub(distance) {
            came = self.prefix(run, (own, rounds), before, sender)?;
            if with {
                self.push(run, sender)?;
                if came {
                    self.join(run)?;
                }
                came = true;
            }
        }
        let had = self.prefix(run, (own, rounds), before, rank)?;
        if came && had {
            self.join(run)?;
        }
        Ok(came || had)
    }
}

/// ⌈log2 p⌉.
fn rounds(run: &Run<'_, '_>) -> u32 {
    u32::BITS - (run.context.size - 1).leading_zeros()
}
