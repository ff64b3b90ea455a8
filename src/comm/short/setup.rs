//! Which communicators have short calls, and their slots.

use super::cross_memory::Choices;
use super::state::ShortHandle;
use crate::buffer::Wire;
use crate::comm::list::ENTRIES_IN_PLACE;
use crate::comm::members::Members;
use crate::comm::shared::Shared;
use crate::engine::Engine;
use crate::error::Result;
use crate::plan::registry::Operation;
use crate::select::Adapt;
use crate::transport::SlotPool;
use crate::transport::call_slots::CallSlots;

/// The most ranks of a communicator with short calls: each reads the flags of all others, a cache line of each. Chosen;
/// larger communicators run plans.
pub(in crate::comm) const MAX_MEMBERS: usize = 64;
const _: () = assert!(MAX_MEMBERS <= ENTRIES_IN_PLACE, "lists of a short call allocate nothing");

/// The operations that have a short form. Rooted calls whose counts the root alone knows go as an alltoallv.
const SHORT_OPERATIONS: [Operation; 16] = [
    Operation::Barrier,
    Operation::Bcast,
    Operation::Allgather,
    Operation::Allgatherv,
    Operation::Gather,
    Operation::Gatherv,
    Operation::Scatter,
    Operation::Scatterv,
    Operation::Alltoall,
    Operation::Alltoallv,
    Operation::Reduce,
    Operation::Allreduce,
    Operation::ReduceScatter,
    Operation::ReduceScatterBlock,
    Operation::Scan,
    Operation::Exscan,
];

/// Where slots come from, if ranks of our node share memory.
fn slots(engine: &mut Engine) -> Option<&mut SlotPool> {
    engine.transport()?.slots()
}

impl Shared {
    /// Slots of ours for a communicator to come, as a ticket that the other members must be told; 0: there are none.
    pub(in crate::comm) fn ticket(&mut self) -> u64 {
        self.short_calls.tidy();
        slots(&mut self.engine).and_then(SlotPool::ticket).unwrap_or(0)
    }

    /// Gives slots of ours back, of a communicator that does not come to be.
    pub(in crate::comm) fn withdraw(&mut self, ticket: u64) {
        if let Some(pool) = slots(&mut self.engine) {
            pool.take_back(ticket);
        }
    }

    /// Short calls of these members, by world rank and ticket, the same at all of them. Where there are to be none, our
    /// slots (`mine`) are given back.
    ///
    /// # Errors
    /// When the memory of a member on our node cannot be mapped. The others are told.
    pub(in crate::comm) fn add_short_calls(
        &mut self,
        mine: u64,
        members: &[(u32, u64)],
    ) -> Result<Option<ShortHandle>> {
        let fits =
            (2..=MAX_MEMBERS).contains(&members.len()) && members.iter().all(|(_, ticket)| *ticket != 0);
        if fits && let Some(pool) = slots(&mut self.engine) {
            let unmapped = pool.unmapped(members);
            self.engine.connect_to(&unmapped).map_err(|e| self.engine.fail(e))?;
            let mapped = slots(&mut self.engine).map_or(Ok(()), |pool| pool.map(members));
            mapped.map_err(|e| self.engine.fail(e))?;
        }
        let slots = slots(&mut self.engine).and_then(|pool| {
            let slots = if fits { pool.open(members) } else { None };
            if slots.is_none() {
                pool.take_back(mine);
            }
            slots
        });
        let Some(slots) = slots else { return Ok(None) };
        // Blocks and algorithms that the settings name are those of plans.
        let operations = match self.blocks {
            Some(_) => 0,
            None => SHORT_OPERATIONS
                .iter()
                .filter(|op| !self.selection.names(**op))
                .fold(0, |set, op| set | 1 << op.code()),
        };
        let choices = self.choices(&slots, members);
        Ok(Some(self.short_calls.add(slots, operations, choices)))
    }

    /// What two ranks try by cross-memory attach, if anything is to be tried.
    fn choices(&mut self, slots: &CallSlots, members: &[(u32, u64)]) -> Option<Choices> {
        let [a, b] = *members else { return None };
        let (other, _) = if slots.rank() == 0 { b } else { a };
        let tries = self.adapt != Adapt::Off;
        let is_able =
            tries && self.engine.transport().is_some_and(|transport| transport.reads_memory_of(other));
        Choices::new(slots, is_able)
    }

    /// The same for all ranks, which give the same ticket when they start.
    ///
    /// # Errors
    /// As there.
    pub(in crate::comm) fn add_world_short_calls(
        &mut self,
        members: &Members,
    ) -> Result<Option<ShortHandle>> {
        if members.size() as usize > MAX_MEMBERS {
            return Ok(None);
        }
        let ticket = self.ticket();
        let members: Vec<_> = (0..members.size()).map(|r| (members.world_rank(r), ticket)).collect();
        self.add_short_calls(ticket, &members)
    }
}
