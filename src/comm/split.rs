//! New communicators out of old ones.

use super::communicator::Communicator;
use super::context::Context;
use super::group::Group;
use super::members::{Members, to_u32};
use crate::error::{Error, ErrorKind, Result, argument};
use crate::hash::digest;
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

/// What a member of a communicator tells the others that assemble it with us.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
struct Member {
    /// As in a [`Wish`].
    led: u32,
    /// Digest of the list of members: the same at all of them.
    list: u32,
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
        let (led, ticket) = self.candidacy(colour.is_some())?;
        let led = u64::from(led);
        let wish = Wish { some: u64::from(colour.is_some()), colour: colour.unwrap_or(0), key, led, ticket };
        let mut wishes = vec![wish; self.size()];
        if let Err(e) = self.allgather(&[wish], &mut wishes) {
            self.hold()?.withdraw(ticket);
            return Err(e);
        }
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
        let node = self.hold()?.places.nodes.get(ours as usize).copied().unwrap_or(0);
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

    /// A communicator of `ranks`, ranks of this one, in this order: ours and those that call this with the same list. No other rank
    /// takes part, and the members need not be in a call of this communicator: what they must tell each other, 16 bytes each,
    /// goes through `exchange`. It is given ours and returns those of all members, in the order of `ranks`: an allgather among them
    /// by means of the caller's own, such as a launcher, another communication library, or a communicator of just these ranks.
    /// Different lists may be assembled at the same time, by different threads, too.
    ///
    /// # Errors
    /// When a rank of `ranks` is not in this communicator or is listed twice, or ours is not listed: before `exchange` is called. What
    /// `exchange` returns; when its answers are not as many as the ranks, or of ranks that pass another list; when the world has ended.
    /// All of them come before anything is sent, and are this rank's alone: the world goes on. Members that have had all answers
    /// have the communicator then, and wait for us in its first call.
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// // Here by an allgather of a copy; any other way does.
    /// let copy = comm.dup()?;
    /// let backwards: Vec<usize> = (0..comm.size()).rev().collect();
    /// let turned = comm.assemble(&backwards, |ours| {
    ///     let mut all = vec![[0u8; 16]; copy.size()];
    ///     copy.allgather(&[*ours], &mut all)?;
    ///     all.reverse();
    ///     Ok(all)
    /// })?;
    /// assert_eq!(turned.rank(), comm.size() - 1 - comm.rank());
    /// turned.barrier()?;
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn assemble(
        &self,
        ranks: &[usize],
        exchange: impl FnOnce(&[u8; 16]) -> Result<Vec<[u8; 16]>>,
    ) -> Result<Self> {
        self.assemble_with(ranks, true, exchange).map_err(|e| self.own(e))
    }

    /// As [`Communicator::assemble`], for requests and persistent operations: the communicator takes none of the areas of shared memory,
    /// 32 at a rank, by which short blocking calls of ranks of one node run. Such calls of it run as longer ones do.
    ///
    /// # Errors
    /// As there.
    pub fn assemble_for_requests(
        &self,
        ranks: &[usize],
        exchange: impl FnOnce(&[u8; 16]) -> Result<Vec<[u8; 16]>>,
    ) -> Result<Self> {
        self.assemble_with(ranks, false, exchange).map_err(|e| self.own(e))
    }

    /// `has_slots`: with slots for short calls, if all members have some left; the same at all of them.
    fn assemble_with(
        &self,
        ranks: &[usize],
        has_slots: bool,
        exchange: impl FnOnce(&[u8; 16]) -> Result<Vec<[u8; 16]>>,
    ) -> Result<Self> {
        let (ranks, position) = self.listed(ranks)?;
        self.hold()?.engine.healthy()?;
        let (led, ticket) = self.candidacy(has_slots)?;
        let list: Vec<u32> = ranks.iter().map(|r| self.context.members.world_rank(*r)).collect();
        let digest = digest(bytemuck::cast_slice(&list));
        // Half of it is enough to tell lists of one program apart.
        let list = u32::try_from(digest >> 32).unwrap_or(0);
        let ours = Member { led, list, ticket };
        let members = exchange(&bytemuck::cast(ours))
            .and_then(|answers| agreed(&answers, (position, ranks.len()), ours));
        let members = match members {
            Ok(members) => members,
            Err(e) => {
                self.hold()?.withdraw(ticket);
                return Err(e);
            }
        };
        let tickets: Vec<u64> = members.iter().map(|m| m.ticket).collect();
        self.found(&ranks, u64::from(members[0].led), (ticket, &tickets))
    }

    /// A list of ranks of ours, checked, and our position in it.
    fn listed(&self, ranks: &[usize]) -> Result<(Vec<u32>, usize)> {
        let mut seen = vec![false; self.size()];
        let listed = ranks.iter().map(|&rank| match seen.get_mut(rank) {
            Some(seen @ false) => {
                *seen = true;
                to_u32(rank)
            }
            Some(true) => Err(argument(format!("rank {rank} is listed twice"))),
            None => Err(argument(format!("rank {rank} is not in this communicator"))),
        });
        let listed = listed.collect::<Result<_>>()?;
        let ours = ranks.iter().position(|rank| *rank == self.rank());
        let missing = || argument(format!("rank {}, which assembles the list, is not in it", self.rank()));
        Ok((listed, ours.ok_or_else(missing)?))
    }

    /// What we bring along for a communicator to come: a number that we have named in none before, and slots for short calls if
    /// it `has_slots` of ours. Taken at once: another thread may be making another communicator.
    fn candidacy(&self, has_slots: bool) -> Result<(u32, u64)> {
        let mut held = self.hold()?;
        held.led += 1;
        let ticket = if has_slots { held.ticket() } else { 0 };
        Ok((held.led, ticket))
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
        let short_calls = held.add_short_calls(ticket, &tickets)?;
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

/// What the members have told, if all have told it of the list that we have, of so many ranks; we are at `position`.
fn agreed(answers: &[[u8; 16]], (position, count): (usize, usize), ours: Member) -> Result<Vec<Member>> {
    let members: Vec<Member> = answers.iter().map(|bytes| bytemuck::cast(*bytes)).collect();
    let wrong = |what: String| Error::new(ErrorKind::Mismatch, what);
    if members.len() != count {
        let what = format!("the exchange returned {} answers for a list of {count} ranks", members.len());
        return Err(wrong(what).help("return the bytes of all members, in the order of the list"));
    }
    if members.get(position) != Some(&ours) {
        let what =
            format!("the exchange did not return what it was given at position {position}, which is ours");
        return Err(wrong(what).help("return the bytes of all members, in the order of the list"));
    }
    match members.iter().position(|member| member.list != ours.list) {
        Some(other) => Err(wrong(format!("member {other} passed another list of ranks"))
            .help("all members must pass the same ranks in the same order")),
        None => Ok(members),
    }
}
