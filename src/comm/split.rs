//! New communicators out of old ones.

use super::communicator::Communicator;
use super::context::Context;
use super::group::Group;
use super::hash::digest;
use super::members::Members;
use crate::error::{Error, ErrorKind, Result, argument};
use std::sync::Arc;

/// What a rank contributes when a communicator is split.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Wish {
    /// 1: takes part.
    some: u64,
    colour: i64,
    key: i64,
    /// The new communicator's number if this rank will be its rank 0: unlike any that it named before.
    led: u64,
    /// Of its slots for short calls; 0: it has none.
    ticket: u64,
}

impl Communicator {
    /// The group of its ranks.
    pub fn group(&self) -> Group {
        Group::of((0..self.context.size).map(|r| self.context.members.world_rank(r)).collect())
    }

    /// A communicator of the same ranks whose calls never mix with this one's. Collective.
    ///
    /// # Errors
    /// As [`Communicator::bcast`].
    pub fn dup(&self) -> Result<Self> {
        let made = self.split(Some(0), 0)?;
        made.ok_or_else(|| Error::new(ErrorKind::Argument, "a copy without us"))
    }

    /// Communicators of the ranks that name the same colour, each ordered by key (then by their order here). `None`
    /// as colour: in none of them. Collective.
    ///
    /// # Errors
    /// As [`Communicator::bcast`].
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// // Rows of a grid of 4 columns.
    /// let row = comm.split(Some(comm.rank() as i64 / 4), comm.rank() as i64)?.expect("we named a colour");
    /// assert!(row.size() <= 4);
    /// row.barrier()?;
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn split(&self, colour: Option<i64>, key: i64) -> Result<Option<Self>> {
        // Taken at once: another thread may be splitting another communicator.
        let (led, ticket) = {
            let mut held = self.hold()?;
            held.led += 1;
            (u64::from(held.led), if colour.is_some() { held.ticket() } else { 0 })
        };
        let wish = Wish { some: u64::from(colour.is_some()), colour: colour.unwrap_or(0), key, led, ticket };
        let mut wishes = vec![wish; self.size()];
        self.allgather(&[wish], &mut wishes)?;
        if colour.is_none() {
            return Ok(None);
        }
        let mut chosen: Vec<(i64, u32)> = (0..self.context.size)
            .zip(&wishes)
            .filter(|(_, w)| w.some == 1 && w.colour == wish.colour)
            .map(|(rank, w)| (w.key, rank))
            .collect();
        chosen.sort_unstable();
        let ranks: Vec<u32> = chosen.iter().map(|(_, rank)| *rank).collect();
        let tickets: Vec<u64> = ranks.iter().map(|r| wishes[*r as usize].ticket).collect();
        self.found(&ranks, wishes[ranks[0] as usize].led, (ticket, &tickets)).map(Some)
    }

    /// One communicator per node, of the ranks there. Collective.
    ///
    /// # Errors
    /// As [`Communicator::bcast`].
    pub fn split_by_node(&self) -> Result<Self> {
        let ours = self.context.members.world_rank(self.context.rank);
        let node = self.hold()?.nodes.get(ours as usize).copied().unwrap_or(0);
        let made = self.split(Some(i64::from(node)), 0)?;
        made.ok_or_else(|| Error::new(ErrorKind::Argument, "a node without us"))
    }

    /// A communicator of the ranks of `group`, in its order; `None` for those outside. Collective over *this*
    /// communicator; ranks may name different groups if these have no rank in common, and an empty one.
    ///
    /// # Errors
    /// As [`Communicator::bcast`]; when the group has ranks that are not in this communicator, or ranks of a group
    /// name different ones.
    pub fn create(&self, group: &Group) -> Result<Option<Self>> {
        self.create_agreed(group, 0)
    }

    /// As [`Communicator::create`]; all ranks of the group must also agree on `salt`.
    pub(super) fn create_agreed(&self, group: &Group, salt: u64) -> Result<Option<Self>> {
        let (mine, ours) = (self.group(), self.context.members.world_rank(self.context.rank));
        let position = group.members().iter().position(|r| *r == ours);
        if let Some(r) = group.difference(&mine).members().first() {
            let e = argument(format!("rank {r} of the group is not in this communicator"));
            return Err(self.refuse_here(e));
        }
        // The group makes the colour, our position in it the key.
        let agreed = (digest(bytemuck::cast_slice(group.members())) ^ salt) >> 1;
        let colour = position.map(|_| i64::try_from(agreed).unwrap_or(0));
        let key = position.and_then(|p| i64::try_from(p).ok()).unwrap_or(0);
        let made = self.split(colour, key)?;
        if let Some(made) = &made
            && made.size() != group.size()
        {
            let e = Error::new(
                ErrorKind::Mismatch,
                format!("{} of the group's {} ranks named the same group", made.size(), group.size()),
            );
            return Err(self.refuse_here(e.help("all ranks of a group must pass the same group")));
        }
        Ok(made)
    }

    /// Propagates an error that belongs to no operation to all ranks.
    pub(super) fn refuse_here(&self, e: Error) -> Error {
        match self.hold() {
            Ok(mut held) => held.engine.fail(e),
            Err(inside) => inside,
        }
    }

    /// The communicator of these ranks (of ours), of which the first has led `led` others before, with our ticket and
    /// theirs for short calls.
    fn found(&self, ranks: &[u32], led: u64, (ticket, tickets): (u64, &[u64])) -> Result<Self> {
        let list: Vec<u32> = ranks.iter().map(|r| self.context.members.world_rank(*r)).collect();
        let Some(rank) = ranks.iter().position(|r| *r == self.context.rank) else {
            return Err(Error::new(ErrorKind::Argument, "a communicator without us"));
        };
        let id = u64::from(list[0]) << 32 | led;
        // A rank that is not in order costs a list; all in order is the world again.
        let mut held = self.hold()?;
        let size = held.engine.size();
        let tickets: Vec<(u32, u64)> = list.iter().copied().zip(tickets.iter().copied()).collect();
        let short_calls = held.add_short_calls(ticket, &tickets);
        drop(held);
        let members = match list.iter().zip(0..).all(|(r, i)| *r == i) && list.len() == size as usize {
            true => Members::World(size),
            false => Members::List(list),
        };
        let context =
            Context::new(id, members, u32::try_from(rank).unwrap_or(u32::MAX)).with_short_calls(short_calls);
        Self::new(Arc::clone(&self.lock), context, self.options.clone())
    }
}
