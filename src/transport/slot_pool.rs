//! The areas of a rank's shared memory from which [call slots](super::call_slots) are made, and the tickets by which the members
//! of a new communicator tell each other which of their areas to use.

use super::call_slots::{AREA_BYTES, CallSlots, MemberArea, WIDE_BYTES};
use super::node_memory::unmappable;
use super::pauses::Pauses;
use crate::error::Result;
use crate::memory::words::{Area, Ordering};
use crate::memory::{Mapping, memfd};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Areas of one rank: communicators with slots that it can be a member of at a time. Chosen: 8 MiB of address space at
/// most; memory is taken when an area is first used. Further communicators run plans.
pub(super) const MAX_CALL_SLOTS: usize = 32;
/// Bytes of all areas of a rank, without wide memory.
const AREAS_BYTES: usize = MAX_CALL_SLOTS * AREA_BYTES;
/// The first area of a rank, which is that of the world, has wide memory where a node has no more ranks than this. Chosen: as many as a
/// communicator with short calls may have, at 64 MiB of a node in all.
const MAX_WIDE_RANKS: usize = 64;

/// Bytes of all areas of one of so many ranks of a node.
pub(super) fn areas_bytes(ranks: usize) -> usize {
    AREAS_BYTES + if ranks <= MAX_WIDE_RANKS { WIDE_BYTES } else { 0 }
}

/// The offsets and lengths, in bytes, of what has memory from the start where a node has few ranks: the first area and its wide memory.
pub(super) fn first_areas(ranks: usize) -> impl Iterator<Item = (usize, usize)> {
    let wide = (ranks <= MAX_WIDE_RANKS).then_some((AREAS_BYTES, WIDE_BYTES));
    std::iter::once((0, AREA_BYTES)).chain(wide)
}

/// A rank's [areas](areas_bytes).
#[derive(Clone, Debug)]
pub(super) enum Areas {
    /// From this byte of a mapping on.
    Mapped(Arc<Mapping>, usize),
    /// To be [mapped](SlotPool::map): from byte `first` of the file that process `pid` has open as `fd` on, of the endpoint `owner`.
    Of { pid: u32, fd: u32, owner: u64, first: usize },
}

/// The areas of this rank and of the other ranks of its node, from which `CallSlots` are made.
#[derive(Debug)]
pub struct SlotPool {
    /// The node-local ranks, and the areas of those that are known here.
    locals: Vec<(u32, Option<Areas>)>,
    mine: usize,
    /// The file of our own, whose areas get their memory when they are used.
    file: Arc<File>,
    /// Our areas that are free, as bits.
    free: Arc<AtomicU32>,
    /// Our areas that have memory, as bits: each gets it when it is first used.
    present: u32,
    /// By area: the ticket for which no slots were opened yet, or 0.
    given: [u64; MAX_CALL_SLOTS],
    generation: u64,
    pauses: Pauses,
}

/// The parts of a ticket: the area in the low byte, its generation above.
fn split(ticket: u64) -> (usize, u64) {
    (usize::from(ticket.to_le_bytes()[0]), ticket >> 8)
}

impl SlotPool {
    /// Of the `mine`-th of the node-local ranks, whose memory this is, of `file`.
    pub(super) fn new(locals: &[u32], mine: usize, memory: Areas, file: Arc<File>, pauses: Pauses) -> Self {
        let locals = locals.iter().map(|rank| (*rank, None)).collect();
        let free = Arc::new(AtomicU32::new(u32::MAX));
        let mut this =
            Self { locals, mine, file, free, present: 0, given: [0; MAX_CALL_SLOTS], generation: 0, pauses };
        this.add(mine, memory);
        this
    }

    /// The slots opened from now on wait so.
    pub(super) fn pause_by(&mut self, pauses: Pauses) {
        self.pauses = pauses;
    }

    /// The areas of the `index`-th of the node-local ranks are known.
    pub(super) fn add(&mut self, index: usize, memory: Areas) {
        self.locals[index].1 = Some(memory);
    }

    /// Maps the areas of these members, as far as they are known and were not mapped.
    ///
    /// # Errors
    /// When those of one cannot be mapped: [`PeerLost`](crate::error::ErrorKind::PeerLost) if its process has ended.
    pub(crate) fn map(&mut self, members: &[(u32, u64)]) -> Result<()> {
        let ranks = self.locals.len();
        for (rank, _) in members {
            let local = self.locals.binary_search_by_key(rank, |(r, _)| *r).ok();
            let areas = local.and_then(|i| self.locals[i].1.as_mut());
            let Some(areas) = areas else { continue };
            let Areas::Of { pid, fd, owner, first } = *areas else { continue };
            let mapped = memfd::file(pid, fd, owner, true)
                .and_then(|file| Mapping::part(file.as_fd(), first, areas_bytes(ranks), true));
            let mapped = mapped.map_err(|e| unmappable(*rank, pid, &e))?;
            *areas = Areas::Mapped(Arc::new(mapped), 0);
        }
        Ok(())
    }

    /// The ranks of these members whose areas are not known yet; none if not all are on our node.
    pub(crate) fn unmapped(&self, members: &[(u32, u64)]) -> Vec<u32> {
        let local = |rank: &u32| self.locals.binary_search_by_key(rank, |(r, _)| *r).ok();
        let all: Option<Vec<usize>> = members.iter().map(|(rank, _)| local(rank)).collect();
        let all = all.unwrap_or_default().into_iter().map(|i| &self.locals[i]);
        all.filter(|(_, areas)| areas.is_none()).map(|(rank, _)| *rank).collect()
    }

    /// Reserves and clears an area of ours for a new communicator: the number to tell its other members, never 0. The first
    /// is the same at all ranks. None when all areas are in use, or there is no memory for one more (never for the first of a node with few ranks).
    pub(crate) fn ticket(&mut self) -> Option<u64> {
        let index = self.free.load(Ordering::Acquire).trailing_zeros();
        let generation = self.generation + 1;
        let fresh = self.present.checked_shr(index)? & 1 == 0;
        if fresh {
            self.allocate(index as usize)?;
        }
        let area = self.area(self.mine, index as usize, generation)?;
        if fresh {
            area.populate();
        }
        area.clear();
        self.free.fetch_and(!(1 << index), Ordering::Relaxed);
        self.generation = generation;
        let ticket = generation << 8 | u64::from(index);
        self.given[index as usize] = ticket;
        Some(ticket)
    }

    /// Gets the memory of an area of ours.
    fn allocate(&mut self, index: usize) -> Option<()> {
        let Areas::Mapped(_, first) = *self.locals[self.mine].1.as_ref()? else { return None };
        if let Err(e) = memfd::allocate(&self.file, first + index * AREA_BYTES, AREA_BYTES) {
            tracing::debug!("no memory for the slots of one more communicator: {e}");
            return None;
        }
        self.present |= 1 << index;
        Some(())
    }

    /// Frees the area of a ticket for which no slots were opened.
    pub(crate) fn take_back(&mut self, ticket: u64) {
        // 0 is no ticket.
        let (index, _) = split(ticket);
        if ticket != 0 && self.given.get(index) == Some(&ticket) {
            self.given[index] = 0;
            self.free.fetch_or(1 << index, Ordering::Relaxed);
        }
    }

    /// The slots of these members, by rank and ticket, of which we are one, when they are [mapped](Self::map). None if not all are on our
    /// node, which each of them finds alike; and none if our ticket was used before, as an area has one writer.
    pub(crate) fn open(&mut self, members: &[(u32, u64)]) -> Option<CallSlots> {
        let (ours, _) = self.locals[self.mine];
        let mine = members.iter().position(|(rank, _)| *rank == ours)?;
        let (index, ticket) = (split(members[mine].1).0, members[mine].1);
        if ticket == 0 || self.given.get(index) != Some(&ticket) {
            return None;
        }
        let area = |(rank, ticket): &(u32, u64)| {
            let (index, generation) = split(*ticket);
            self.area(self.locals.binary_search_by_key(rank, |(r, _)| *r).ok()?, index, generation)
        };
        let areas: Vec<MemberArea> = members.iter().map(area).collect::<Option<_>>()?;
        self.given[index] = 0;
        let free = Arc::clone(&self.free);
        Some(CallSlots::new(areas, mine, index, free, self.pauses))
    }

    fn area(&self, local: usize, index: usize, generation: u64) -> Option<MemberArea> {
        let Areas::Mapped(map, first) = self.locals.get(local)?.1.as_ref()? else { return None };
        let memory = Area::new(map, first + index * AREA_BYTES, AREA_BYTES)?;
        let has_wide = index == 0 && self.locals.len() <= MAX_WIDE_RANKS;
        let wide = has_wide.then(|| Area::new(map, first + AREAS_BYTES, WIDE_BYTES)).flatten();
        (index < MAX_CALL_SLOTS).then(|| MemberArea::new(memory, wide, generation))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
pub(super) mod tests {
    use super::*;

    /// Two ranks of one node, in one process.
    pub(in super::super) fn two() -> [SlotPool; 2] {
        let memories = [5, 6].map(|owner| {
            let file = memfd::create("test", owner, areas_bytes(2)).unwrap();
            let map = Mapping::new(file.as_fd(), areas_bytes(2), true).unwrap();
            (Areas::Mapped(Arc::new(map), 0), Arc::new(file))
        });
        let mut pools = [0, 1].map(|i| {
            let (memory, file) = memories[i].clone();
            SlotPool::new(&[3, 7], i, memory, file, Pauses::new(true, false))
        });
        pools[0].add(1, memories[1].0.clone());
        pools[1].add(0, memories[0].0.clone());
        pools
    }

    pub(in super::super) fn open(pools: &mut [SlotPool; 2]) -> [CallSlots; 2] {
        let tickets = pools.each_mut().map(|b| b.ticket().unwrap());
        // The second rank first.
        pools.each_mut().map(|b| b.open(&[(7, tickets[1]), (3, tickets[0])]).unwrap())
    }

    /// Ranks are to be mapped only if all members are on the node.
    #[test]
    fn what_is_not_mapped_is_named() {
        let [mut pool, _] = two();
        pool.locals.push((9, None));
        assert_eq!(pool.unmapped(&[(7, 0), (9, 0), (3, 0)]), [9]);
        assert_eq!(pool.unmapped(&[(7, 0), (9, 0), (4, 0)]), []);
    }

    /// A ticket opens slots once: two values would write to the same slots while others read them.
    #[test]
    fn a_ticket_opens_slots_once() {
        let mut pools = two();
        let tickets = pools.each_mut().map(|b| b.ticket().unwrap());
        let members = [(3, tickets[0]), (7, tickets[1])];
        let first = pools[0].open(&members).unwrap();
        assert!(pools[0].open(&members).is_none(), "a second time");
        drop(first);
        assert!(pools[0].open(&members).is_none(), "the ticket of slots that were dropped");
        pools[1].take_back(tickets[1]);
        assert!(pools[1].open(&members).is_none(), "a ticket that was taken back");
        assert!(pools[0].open(&[(3, 1 << 8 | 5), (7, tickets[1])]).is_none(), "a ticket never given");
    }

    /// An area has memory once it was used: no system call is made for it again.
    #[test]
    #[cfg_attr(miri, ignore = "memory of the heap needs none of a file")]
    fn an_area_gets_memory_once() {
        let [mut pool, _] = two();
        let first = pool.ticket().unwrap();
        // A file that gives none.
        pool.file = Arc::new(File::open("/dev/null").unwrap());
        assert!(pool.ticket().is_none(), "another area");
        pool.take_back(first);
        let again = pool.ticket().unwrap();
        assert_eq!((split(again).0, split(again).1), (split(first).0, split(first).1 + 1));
    }

    /// A ticket that is out of use frees no area that other slots have now.
    #[test]
    fn an_old_ticket_frees_nothing() {
        let mut pools = two();
        let old = pools[0].ticket().unwrap();
        pools[0].take_back(old);
        let new = pools[0].ticket().unwrap();
        let free = pools[0].free.load(Ordering::Relaxed);
        pools[0].take_back(old);
        assert_eq!(pools[0].free.load(Ordering::Relaxed), free);
        pools[0].take_back(0);
        assert_eq!(pools[0].free.load(Ordering::Relaxed), free, "no ticket frees nothing");
        let theirs = pools[1].ticket().unwrap();
        let _slots = pools[0].open(&[(3, new), (7, theirs)]).unwrap();
        pools[0].take_back(new);
        assert_eq!(pools[0].free.load(Ordering::Relaxed), free, "its slots are in use");
    }
}
