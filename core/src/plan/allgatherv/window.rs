//! Allgathers in which a round's message is a window of consecutive owners' whole contributions.
//!
//! An algorithm of this kind is a [`Pattern`]. Every contribution is a put of its own into the final memory
//! and waits for itself alone; an owner's number is its counter. (Lowering joins small neighbours.)

use super::Contributions;
use crate::error::Result;
use crate::machine::LogGp;
use crate::plan::registry::Arguments;
use crate::plan::{Plan, Sizes, Step, Wait};

/// What a line of an allgather builds: `bytes` bytes of each rank.
pub(in crate::plan) fn regular<P: Pattern + 'static>(a: &Arguments, _: &LogGp) -> Result<Box<dyn Plan>> {
    Ok(Box::new(Windows::<P>::new(Contributions::equal(a.size, a.bytes, a.in_place)?)?))
}

/// What a line of an allgatherv builds.
pub(in crate::plan) fn irregular<P: Pattern + 'static>(a: &Arguments, _: &LogGp) -> Result<Box<dyn Plan>> {
    Ok(Box::new(Windows::<P>::new(Contributions::new(&a.counts, &a.displs, a.in_place)?)?))
}

/// Who sends whose contributions to whom, in which round.
pub trait Pattern: Send + Sync + std::fmt::Debug + Sized {
    /// The registry's name.
    const NAME: &'static str;
    /// The pattern among `size` ranks.
    ///
    /// # Errors
    /// If there is none among so many.
    fn new(size: u32) -> Result<Self>;
    /// The number of rounds.
    fn rounds(&self) -> u32;
    /// What `sender` sends in `round`.
    fn message(&self, sender: u32, round: u32) -> Message;
    /// Who sends to `receiver` in `round`.
    fn from(&self, receiver: u32, round: u32) -> u32;
}

/// The contributions of owners `first .. first+owners` mod p, for rank `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The receiver.
    pub to: u32,
    /// The first owner.
    pub first: u32,
    /// How many owners.
    pub owners: u32,
}

/// An allgather by a pattern.
#[derive(Clone, Debug)]
pub struct Windows<P> {
    pattern: P,
    data: Contributions,
}

impl<P: Pattern> Windows<P> {
    /// Gathers all contributions at every rank.
    ///
    /// # Errors
    /// If the pattern does not exist for so many ranks.
    pub fn new(data: Contributions) -> Result<Self> {
        Ok(Self { pattern: P::new(data.size())?, data })
    }

    fn owners(&self, message: Message) -> impl Iterator<Item = u32> + use<P> {
        let p = self.data.size();
        let head = message.owners.min(p - message.first);
        (message.first..message.first + head).chain(0..message.owners - head)
    }

    fn round(&self, rank: u32, round: u32) -> impl Iterator<Item = Step> + '_ {
        let out = self.pattern.message(rank, round);
        let puts = self.owners(out).filter_map(move |j| {
            let (source, target, len) = self.data.piece(rank, j, 0..u64::MAX)?;
            let wait = if j == rank { Wait::NONE } else { Wait::once(j) };
            Some(Step::put(round, out.to, source, target, len, wait, j))
        });
        let from = self.pattern.from(rank, round);
        let expects = self.owners(self.pattern.message(from, round)).filter_map(move |j| {
            let (source, target, len) = self.data.piece(from, j, 0..u64::MAX)?;
            Some(Step::expect(round, from, source, target, len, j))
        });
        puts.chain(expects)
    }
}

impl<P: Pattern> Plan for Windows<P> {
    fn algorithm(&self) -> &'static str {
        P::NAME
    }

    fn size(&self) -> u32 {
        self.data.size()
    }

    fn rounds(&self) -> u32 {
        self.pattern.rounds()
    }

    fn counters(&self, _rank: u32) -> u32 {
        self.size()
    }

    fn sizes(&self, rank: u32) -> Sizes {
        self.data.sizes(rank)
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let rounds = (0..self.rounds()).flat_map(move |round| self.round(rank, round));
        Box::new(rounds.chain(self.data.own(rank, self.rounds())))
    }
}
