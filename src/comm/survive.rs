//! Going on without ranks that are gone, in the manner of ULFM (MPI's proposal for user-level failure mitigation): revoke, agree, shrink.

use super::communicator::Communicator;
use super::context::Context;
use super::lock::Held;
use super::members::Members;
use crate::config::OnFailure;
use crate::engine::{self, AgreementId, Waiting};
use crate::error::{Result, argument};

/// What the ranks of a communicator have agreed on: the same at all that live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Agreed {
    /// The flags that all ranks have set that took part.
    pub flags: u64,
    /// Ranks of the communicator that are gone, in order.
    pub gone: Vec<usize>,
}

impl Communicator {
    /// Ends all calls on this communicator, at all its ranks: those in flight and all to come fail with an error of the kind
    /// [`Revoked`](crate::ErrorKind::Revoked), but for [`Communicator::agree`] and [`Communicator::shrink`]. For a rank
    /// that cannot go on here while others wait for it. Not collective: one rank does, and the others learn of it in their next
    /// call, or in that in which they are. Other communicators go on.
    ///
    /// # Errors
    /// When the world does not go on after failures (the setting `on-failure`): nothing is changed then. When it has ended.
    ///
    /// # Examples
    /// ```
    /// use circulant::{ErrorKind, World, config::OnFailure};
    ///
    /// # let world = World::builder().on_failure(OnFailure::Continue).init()?;
    /// let comm = world.comm().dup()?;
    /// comm.revoke()?;
    /// assert_eq!(comm.barrier().unwrap_err().kind(), ErrorKind::Revoked);
    /// world.comm().barrier()?;
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn revoke(&self) -> Result<()> {
        let mut held = self.hold()?;
        if !held.engine.survives() {
            let e = argument("a communicator can be revoked only where the world goes on after failures");
            let name = OnFailure::Continue.name();
            let help = format!("set CIRCULANT_ON_FAILURE={name} (--on-failure {name}) at all ranks");
            return Err(self.own(e.help(help)));
        }
        held.engine.revoke(self.context.id)
    }

    /// Whether this rank knows that the communicator is revoked. Not collective; it moves on what is under way.
    ///
    /// # Errors
    /// When the world has ended.
    pub fn is_revoked(&self) -> Result<bool> {
        let mut held = self.hold()?;
        held.engine.hear()?;
        Ok(held.engine.is_revoked(self.context.id))
    }

    /// The ranks of this communicator that this rank knows to be gone, in order. Not collective, and others may know of others:
    /// [`Communicator::agree`] gives the same at all. It moves on what is under way.
    ///
    /// # Errors
    /// When the world has ended.
    pub fn gone(&self) -> Result<Vec<usize>> {
        let mut held = self.hold()?;
        held.engine.hear()?;
        Ok(self.own_ranks(held.engine.gone()))
    }

    /// The ranks here of these of the world, as far as they are members, in order.
    fn own_ranks<'a>(&self, world_ranks: impl IntoIterator<Item = &'a u32>) -> Vec<usize> {
        let rank_of = |world_rank: &u32| {
            (0..self.context.size).find(|r| self.context.members.world_rank(*r) == *world_rank)
        };
        let mut ranks: Vec<usize> =
            world_ranks.into_iter().filter_map(rank_of).map(|rank| rank as usize).collect();
        ranks.sort_unstable();
        ranks
    }

    /// Agrees with all other ranks of this communicator that live: on the flags that all of them have set, and on the ranks that are gone.
    /// Collective, in the same order at all ranks among the agreements of this communicator; also on one that is revoked or has lost ranks,
    /// and whichever ranks are lost meanwhile. Those that return have the same answer, and have it only after all living ranks
    /// have called it, so it is a barrier, too.
    ///
    /// At most 2000 ranks of one communicator can be named as gone; make another one before.
    ///
    /// # Errors
    /// When the world has ended. Ranks that are gone are no error where the world goes on without them (the setting `on-failure`).
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let done = true;
    /// let all = comm.agree(u64::from(done))?;
    /// assert!(all.flags == 1 && all.gone.is_empty());
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn agree(&self, flags: u64) -> Result<Agreed> {
        let agreed = self.agree_with_number("agree", flags)?;
        Ok(Agreed { flags: agreed.flags, gone: self.own_ranks(&agreed.gone) })
    }

    /// A communicator of the ranks of this one that live, in their order here. Collective over these, also on a communicator that is
    /// revoked or has lost ranks, and whichever are lost meanwhile: all that return have one with the same ranks. It has nothing of this one's: its
    /// number, plans and call slots are new.
    ///
    /// # Errors
    /// As [`Communicator::agree`].
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let mut left = comm.clone();
    /// if let Err(e) = left.barrier() {
    ///     if !e.is_survived() {
    ///         return Err(e);
    ///     }
    ///     left = left.shrink()?;
    ///     left.barrier()?;
    /// }
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn shrink(&self) -> Result<Self> {
        loop {
            let agreed = self.agree_with_number("shrink", u64::MAX)?;
            // The members have it by what was agreed on; a copy of it also has call slots, which they must tell each other.
            let made = self.of_the_living(&agreed).and_then(|living| living.dup());
            if let Err(e) = &made
                && !self.hold()?.engine.goes_on_after(e)
            {
                return made;
            }
            // Another rank may have failed meanwhile: then some ranks have made the communicator, and others not.
            if self.agree_with_number("shrink", u64::from(made.is_ok()))?.flags == 1 {
                return made;
            }
        }
    }

    /// The members that are not gone, as a communicator.
    fn of_the_living(&self, agreed: &engine::Agreed) -> Result<Self> {
        let all = (0..self.context.size).map(|rank| self.context.members.world_rank(rank));
        let living: Vec<u32> = all.filter(|rank| agreed.gone.binary_search(rank).is_err()).collect();
        let ours = self.context.members.world_rank(self.context.rank);
        let rank = living.iter().position(|rank| *rank == ours).and_then(|rank| u32::try_from(rank).ok());
        let rank = rank.ok_or_else(|| argument("this rank is among those that are gone"))?;
        // As of a split: the proposer has never given this number before.
        let id = u64::from(agreed.proposer) << 32 | u64::from(agreed.number);
        let context = Context::new(id, Members::List(living), rank);
        Self::new(std::sync::Arc::clone(&self.lock), context, self.options.clone())
    }

    fn agree_with_number(&self, name: &'static str, flags: u64) -> Result<engine::Agreed> {
        let mut held = self.hold()?;
        let (id, mut waiting) = self.begin_agreement(&mut held, name, flags)?;
        loop {
            if let Some(agreed) = held.engine.agreement_turn(id, &mut waiting, true)? {
                return Ok(agreed);
            }
            held.yield_lock();
        }
    }

    /// Begins an agreement; the engine's [`agreement_turn`](crate::engine::Engine::agreement_turn) goes on with it.
    pub(super) fn begin_agreement(
        &self,
        held: &mut Held<'_>,
        name: &'static str,
        flags: u64,
    ) -> Result<(AgreementId, Waiting)> {
        held.led += 1;
        let (number, sequence) = (held.led, self.context.next_agreement());
        let id = (self.context.id, sequence);
        held.engine.begin_agreement(id, engine::Group::world_ranks(&*self.context), (flags, number))?;
        let deadline = self.options.deadline.unwrap_or(held.deadline);
        Ok((id, Waiting::for_agreement(name, id, deadline)))
    }
}
