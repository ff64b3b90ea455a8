//! The boards of a world's communicators, and what was done on each: numbers of calls, hashes, the last calls.

use super::call::Fnv;
use super::context::Members;
use super::world::Shared;
use crate::buffer::Wire;
use crate::plan::registry::Operation;
use crate::transport::shm::{Board, LONGEST, Look, Post, SLOTS};
use std::sync::{Arc, Weak};

/// The most members: each reads all others' flags.
const MEMBERS: usize = 64;
/// The boards of a world's communicators.
#[derive(Debug, Default)]
pub(super) struct Desks {
    list: Vec<Option<Desk>>,
    /// For folds: a partial result for each bit of a number of ranks, and one more.
    pub(super) partials: Vec<u8>,
}

/// One communicator's board, and what was done there.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) board: Board,
    /// The operations that nobody has named an algorithm for, by code.
    free: u32,
    /// Hash of all calls so far.
    past: u64,
    /// The last ones: number, operation, hash.
    log: [(u64, u8, u64); SLOTS],
    /// Number of the next call, with more bits than a call's own.
    next: u64,
    /// Calls that threads of ours are in.
    inside: Vec<u64>,
    owner: Weak<()>,
}

/// How a communicator knows its desk.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) index: usize,
    _owner: Arc<()>,
}

impl Desks {
    /// Those that nobody needs any more go.
    fn tidy(&mut self) {
        for desk in &mut self.list {
            if desk.as_ref().is_some_and(|d| d.owner.strong_count() == 0 && d.board.is_quiet()) {
                *desk = None;
            }
        }
    }

    fn add(&mut self, board: Board, free: u32) -> Seat {
        let most = LONGEST * (board.size().ilog2() as usize + 2);
        if self.partials.len() < most {
            self.partials.resize(most, 0);
        }
        let owner = Arc::new(());
        let inside = Vec::with_capacity(SLOTS);
        let log = [(u64::MAX, 0, 0); SLOTS];
        let desk = Desk { board, free, past: 0, log, next: 0, inside, owner: Arc::downgrade(&owner) };
        let index = match self.list.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.list.push(None);
                self.list.len() - 1
            }
        };
        self.list[index] = Some(desk);
        Seat { index, _owner: owner }
    }

    pub(super) fn get(&mut self, index: usize) -> Option<&mut Desk> {
        self.list.get_mut(index)?.as_mut()
    }
}

impl Desk {
    /// Whether calls of this operation may come here.
    pub(super) fn takes(&self, operation: Operation) -> bool {
        self.free >> operation.code() & 1 != 0
    }

    /// A call begins; gives it a number that never comes again. All ranks see the same calls, so they give the same.
    pub(super) fn enter(&mut self, sequence: u32) -> u64 {
        let ahead =
            sequence.wrapping_sub(self.next.to_le_bytes()[..4].try_into().map_or(0, u32::from_le_bytes));
        let number = match self.inside.is_empty() || ahead < u32::MAX / 2 {
            true => self.next + u64::from(ahead),
            // Another thread was quicker with a later one.
            false => self.next - u64::from(ahead.wrapping_neg()),
        };
        self.next = self.next.max(number + 1);
        self.inside.push(number);
        number
    }

    pub(super) fn post(&mut self, number: u64, code: u8, hash: u64, bytes: Option<&[u8]>) -> Post {
        let post = Post { code, hash, past: self.past };
        self.board.post(number, post, bytes);
        self.log[usize::from(number.to_le_bytes()[0]) % SLOTS] = (number, code, hash);
        let mut h = Fnv(self.past);
        h.word(number);
        h.word(hash);
        self.past = h.0;
        post
    }

    pub(super) fn leave(&mut self, number: u64) {
        self.inside.retain(|n| *n != number);
        let next = self.inside.iter().min().copied().unwrap_or(self.next);
        self.board.pass(next);
    }

    /// The first call known in which `member`, whose post in call `number` is not like ours, did something else: by how
    /// much it was before `number`, our operation there, and its own where that is known.
    pub(super) fn differs(
        &self,
        member: usize,
        number: u64,
        ours: Post,
        theirs: Post,
    ) -> (u64, u8, Option<u8>) {
        if theirs.past != ours.past {
            let mut calls: Vec<_> = self.log.iter().filter(|(n, _, _)| *n < number).collect();
            calls.sort_unstable();
            for (n, code, hash) in calls {
                match self.board.look(member, *n) {
                    Look::Posted(p) if (p.code, p.hash) == (*code, *hash) => {}
                    Look::Posted(p) => return (number - n, *code, Some(p.code)),
                    // Nothing at all: it did not come here with it.
                    Look::Nothing => return (number - n, *code, None),
                    Look::Later => {}
                }
            }
        }
        (0, ours.code, Some(theirs.code))
    }
}

impl Shared {
    /// A place for a board to come, which the other members must be told of; 0: there is none.
    pub(super) fn ticket(&mut self) -> u64 {
        self.desks.tidy();
        self.engine.transport().and_then(|t| t.boards()?.ticket()).unwrap_or(0)
    }

    /// The board for these members, by world rank and ticket; ours is given back if there is to be none. The same at all
    /// of them.
    pub(super) fn seat(&mut self, mine: u64, members: &[(u32, u64)]) -> Option<Seat> {
        let fits = (2..=MEMBERS).contains(&members.len()) && members.iter().all(|(_, ticket)| *ticket != 0);
        let boards = self.engine.transport().and_then(|t| t.boards());
        let board = boards.and_then(|boards| {
            let board = if fits { boards.board(members) } else { None };
            if board.is_none() {
                boards.take_back(mine);
            }
            board
        })?;
        let free = match self.blocks {
            Some(_) => 0,
            None => BY_BOARD
                .iter()
                .filter(|op| !self.selection.names(**op))
                .fold(0, |bits, op| bits | 1 << op.code()),
        };
        Some(self.desks.add(board, free))
    }

    /// The board of the world.
    pub(super) fn world_seat(&mut self, members: &Members) -> Option<Seat> {
        let ticket = self.ticket();
        let members: Vec<_> = (0..members.size()).map(|r| (members.world_rank(r), ticket)).collect();
        self.seat(ticket, &members)
    }
}

/// The operations that boards know.
const BY_BOARD: [Operation; 6] = [
    Operation::Barrier,
    Operation::Bcast,
    Operation::Allgather,
    Operation::Allgatherv,
    Operation::Reduce,
    Operation::Allreduce,
];
