//! Ranks that are gone while the others go on: what ends with them, what is remembered, and agreements of those that are left.
//! See "Survivors" in docs/design.md.
//!
//! Only where the setting says so (`Engine::go_on_without_the_gone`): then what is lent is copied through memory of the library, so that the memory of an
//! operation that ends half way is set aside, and no put that comes late reaches what its owner uses again.

use super::agreement::{Agreed, Agreement, Step, Steps};
use super::core::{Core, Queued};
use super::driver::Engine;
use super::gone::{AgreementId, Survivors};
use super::message::{MAX_GONE_RANKS, Message, SLOTS};
use super::time::Since;
use super::waiting::Waiting;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::MAX_COUNTERS;
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// A connection that has ended has so long to be explained by a rank that is gone. Chosen: longer than it takes to notice one, which are the
/// 5 s between two messages to a rank that is waited for and the 0.6 s of a suspicion (`time.rs`, `failure.rs`).
const EXPLAINED_AFTER: Duration = Duration::from_secs(10);

/// That a communicator has ended is known so long after the program has dropped it. Chosen: longer than a rank is stopped that goes on all
/// the same. What one sends later, as it has not heard, takes a credit of its for good.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// How often that is looked at. Chosen: a small part of it.
const SWEPT_EVERY: Duration = Duration::from_secs(10);
/// Where operations ended half way have used up more of the numbers of counters than this, a slot is not used again: half of all, so that
/// the others do for an operation of as many blocks.
const LAST_BASE: u32 = MAX_COUNTERS / 2;

impl Core {
    pub(super) fn survives(&self) -> bool {
        self.survivors.enabled
    }

    /// Whether `rank` is known to be gone.
    pub(super) fn is_gone(&self, rank: u32) -> bool {
        self.survivors.gone.contains(&rank)
    }

    /// How many ranks are gone.
    pub(super) fn gone_count(&self) -> usize {
        self.survivors.gone.len()
    }

    /// Whether the world goes on after this error.
    pub(super) fn goes_on_after(&self, error: &Error) -> bool {
        self.survives() && self.failure.is_none() && error.is_survived()
    }

    /// Whether calls can be made on this communicator.
    ///
    /// # Errors
    /// When it has been revoked, or a member is gone.
    #[inline]
    pub(super) fn usable(&self, comm: u64) -> Result<()> {
        if self.survivors.ended.is_empty() {
            return Ok(());
        }
        self.survivors.ended.get(&comm).map_or(Ok(()), |e| Err(e.clone()))
    }

    /// Whether a word with this counter is for an operation that has ended half way in this slot, where none is now.
    pub(super) fn is_late(&self, slot: u8, counter: u32) -> bool {
        let base = self.survivors.bases.get(usize::from(slot));
        self.survivors.retired.contains_key(&slot) || base.is_some_and(|base| counter < *base)
    }

    /// Why the operation in this slot has ended half way, if it has. Its call has ended: the next one takes the slot.
    #[inline]
    pub(super) fn leave_half_way(&mut self, slot: u8) -> Option<Error> {
        // Nothing is looked for in a map where none has: that would hash the slot.
        if self.survivors.retired.is_empty() { None } else { self.leave_retired(slot) }
    }

    fn leave_retired(&mut self, slot: u8) -> Option<Error> {
        let (error, counters) = self.survivors.retired.remove(&slot)?;
        let bases = &mut self.survivors.bases;
        bases.resize(SLOTS, 0);
        let base = &mut bases[usize::from(slot)];
        // One more where it has none: tokens of its puts have the base, too.
        let next = *base as usize + counters.max(1);
        // Without room for another as long it is not used again.
        *base = u32::try_from(next).unwrap_or(MAX_COUNTERS).min(MAX_COUNTERS);
        if *base <= LAST_BASE {
            self.active.give_back(slot);
        }
        Some(error)
    }

    fn error_of(&self, rank: u32) -> Error {
        let how = self.survivors.how.get(&rank).map_or("", String::as_str);
        Error::new(ErrorKind::PeerLost, format!("rank {rank} is gone ({how})"))
            .with_peer(rank as usize)
            .at_rank(self.setup.rank as usize)
            .help("go on with the communicator that shrink() makes of the ranks that are left")
            .survived()
    }

    /// `rank` is gone: ends what needs it, and tells the others.
    pub(super) fn peer_gone(&mut self, rank: u32, how: &str) {
        self.survivors.suspects.remove(&rank);
        if !self.survives() {
            let e = Error::new(ErrorKind::PeerLost, format!("rank {rank} is gone ({how})"));
            self.broken.get_or_insert(e.with_peer(rank as usize));
            return;
        }
        if rank == self.setup.rank {
            self.survivors.cut_off = true;
            let what = format!("the other ranks take this one for gone ({how})");
            self.broken.get_or_insert(Error::new(ErrorKind::PeerLost, what));
            return;
        }
        if rank >= self.setup.size || !self.survivors.gone.insert(rank) {
            return;
        }
        tracing::warn!(rank, how, "a rank is gone");
        self.survivors.how.insert(rank, how.to_owned());
        self.survivors.last = Some(Since::default());
        self.survivors.to_cut.push(rank);
        let (lost, kept): (VecDeque<Queued>, _) =
            std::mem::take(&mut self.outbox).into_iter().partition(|queued| queued.to == rank);
        self.outbox = kept;
        lost.into_iter().for_each(|queued| self.left(queued.slot));
        self.statuses.remove(&rank);
        self.unconnected.remove(&rank);
        let news = Message::Gone { rank, text: how.to_owned() };
        self.propagate(&news, rank);
        let ended: Vec<u64> =
            self.groups.iter().filter(|(_, g)| has_member(g, rank)).map(|(id, _)| *id).collect();
        for comm in ended {
            self.end_communicator(comm, self.error_of(rank));
        }
        self.agreements_go_on(|agreement, gone| agreement.go_on(gone));
    }

    /// No call can be made on `comm` any more: those in flight end with `error`.
    fn end_communicator(&mut self, comm: u64, error: Error) {
        let error = self.survivors.ended.entry(comm).or_insert(error).clone();
        let of_comm = |slot: &u8| self.task_ref(*slot).is_some_and(|task| task.meta.call.comm == comm);
        let slots: Vec<u8> = self.active.slots().filter(of_comm).collect();
        for slot in slots {
            self.retire(slot, &error);
        }
        while let Some((from, message)) = self.unexpected.take_of(comm) {
            self.never_needed(from, message);
        }
    }

    /// Ends the operation in `slot` half way. Its memory is set aside by its owner.
    fn retire(&mut self, slot: u8, error: &Error) {
        let Some(task) = self.take_task(slot) else { return };
        let call = task.meta.call;
        self.active.retire(slot);
        self.outbox.retain_mut(|queued| match queued.message {
            Message::Credit { .. } if queued.slot == Some(slot) => {
                queued.slot = None;
                true
            }
            _ => queued.slot != Some(slot),
        });
        let error = error.clone().in_operation(self.name_of(task.meta.code), u64::from(call.sequence));
        self.survivors.retired.insert(slot, (error, task.counters.len()));
        // They may wait for us, and know nothing.
        for peer in &task.peers {
            self.explain(peer.world_rank, call.comm);
        }
    }

    /// Tells `to` why calls on `comm` end.
    pub(super) fn explain(&mut self, to: u32, comm: u64) {
        if self.is_gone(to) {
            return;
        }
        let Some(error) = self.survivors.ended.get(&comm) else { return };
        let by = error.peer().and_then(|rank| u32::try_from(rank).ok()).unwrap_or(self.setup.rank);
        let message = match error.kind() {
            ErrorKind::Revoked => Message::Revoke { comm, by },
            _ => Message::Gone { rank: by, text: self.survivors.how.get(&by).cloned().unwrap_or_default() },
        };
        self.queue(to, message);
    }

    /// Forgets communicators that have ended, a while after the program has dropped them.
    pub(super) fn forget_ended(&mut self, now: Instant) {
        let Survivors { ended, revoked, dropped, swept, .. } = &mut self.survivors;
        if ended.is_empty() || swept.lasts(now) < SWEPT_EVERY {
            return;
        }
        *swept = Since::default();
        let lives = |comm: &u64| self.groups.get(comm).is_some_and(|group| group.strong_count() > 0);
        for comm in ended.keys().filter(|comm| !lives(comm)) {
            dropped.entry(*comm).or_default();
        }
        dropped.retain(|comm, since| {
            let keeps = since.lasts(now) < FORGOTTEN_AFTER;
            if !keeps {
                ended.remove(comm);
                revoked.remove(comm);
            }
            keeps
        });
    }

    /// Whether no call can be made on this communicator any more.
    #[inline]
    pub(super) fn has_ended(&self, comm: u64) -> bool {
        !self.survivors.ended.is_empty() && self.survivors.ended.contains_key(&comm)
    }

    /// A message for a call on a communicator that has ended here, or a question: its sender hears why.
    pub(super) fn comes_too_late(&mut self, from: u32, comm: u64, message: Option<Message>) {
        if let Some(message) = message {
            self.never_needed(from, message);
        }
        self.explain(from, comm);
    }

    /// A message that no call takes: its credit goes back.
    fn never_needed(&mut self, from: u32, message: Message) {
        if let Message::Eager { data, .. } = message {
            self.spare_buffers.push(data);
            if !self.is_gone(from) {
                self.return_credit_of_none(from);
            }
        }
    }

    /// A communicator is known from now on: calls on it end at once if a member is gone.
    pub(super) fn end_if_member_gone(&mut self, comm: u64) {
        let of = |rank: &&u32| self.groups.get(&comm).is_some_and(|g| has_member(g, **rank));
        if let Some(rank) = self.survivors.gone.iter().find(of).copied() {
            self.end_communicator(comm, self.error_of(rank));
        }
    }

    /// `by` has revoked `comm`.
    pub(super) fn revoked(&mut self, comm: u64, by: u32) {
        if !self.survives() || !self.survivors.revoked.insert(comm) {
            return;
        }
        self.propagate(&Message::Revoke { comm, by }, by);
        let error = Error::new(ErrorKind::Revoked, format!("rank {by} has revoked the communicator"))
            .with_peer(by as usize)
            .at_rank(self.setup.rank as usize)
            .help("go on with the communicator that shrink() makes")
            .survived();
        self.end_communicator(comm, error);
    }

    /// The next living ranks of the world in both directions: with them news of the living reach all of them, whichever are gone.
    pub(super) fn living_beside(&self) -> [Option<u32>; 2] {
        if self.survivors.gone.is_empty() {
            return [None; 2];
        }
        let (me, size) = (u64::from(self.setup.rank), u64::from(self.setup.size));
        let next = |step: u64| {
            let ranks = (1..size).map(|i| (me + i * step) % size).filter_map(|rank| u32::try_from(rank).ok());
            ranks.into_iter().find(|rank| !self.is_gone(*rank))
        };
        [next(1), next(size - 1)]
    }

    /// Messages to `to` may be lost; which ranks are gone shows in a while.
    pub(super) fn suspect(&mut self, rank: u32, why: &str) {
        if !self.is_gone(rank) {
            self.survivors.suspects.entry(rank).or_insert_with(|| (Since::default(), why.to_owned()));
        }
    }

    /// Talking to a rank failed, of which the transport does not say which: one of those that are gone, or will be known for that soon.
    pub(super) fn connection_ended(&mut self, why: &str) {
        self.survivors.unexplained.get_or_insert_with(|| (Since::default(), why.to_owned()));
    }

    /// A step of an agreement came.
    pub(super) fn agreement_step(&mut self, from: u32, id: AgreementId, step: Step) {
        if let Step::Vote { value: Agreed { gone, .. }, .. }
        | Step::Ask { gone }
        | Step::Propose(Agreed { gone, .. })
        | Step::Decide(Agreed { gone, .. }) = &step
        {
            for rank in gone {
                self.peer_gone(*rank, "another rank says so");
            }
        }
        let Survivors { agreements, gone, .. } = &mut self.survivors;
        // Only a vote may come before this rank has begun. What else comes for one that is not known is late.
        let agreement = match step {
            Step::Vote { .. } => agreements.entry(id).or_default(),
            _ => match agreements.get_mut(&id) {
                Some(agreement) => agreement,
                None => return,
            },
        };
        let steps = agreement.receive(from, step, gone);
        self.send_steps(id, steps);
        self.forget_agreement(id);
    }

    /// Keeps nothing of an agreement that is over.
    fn forget_agreement(&mut self, id: AgreementId) {
        if self.survivors.agreements.get(&id).is_some_and(Agreement::is_over) {
            self.survivors.agreements.remove(&id);
        }
    }

    fn agreements_go_on(&mut self, next: impl Fn(&mut Agreement, &BTreeSet<u32>) -> Steps) {
        let Survivors { agreements, gone, .. } = &mut self.survivors;
        let all: Vec<_> = agreements.iter_mut().map(|(id, agreement)| (*id, next(agreement, gone))).collect();
        for (id, steps) in all {
            self.send_steps(id, steps);
            self.forget_agreement(id);
        }
    }

    /// Says again what those must answer for which agreements wait: a rank that is gone shows by that.
    pub(super) fn remind(&mut self) {
        self.agreements_go_on(|agreement, gone| agreement.again(gone));
    }

    fn send_steps(&mut self, (comm, number): AgreementId, steps: Steps) {
        if self.survivors.gone.len() > MAX_GONE_RANKS && self.broken.is_none() {
            let what =
                format!("{} ranks are gone: more than an agreement can name", self.survivors.gone.len());
            self.broken = Some(Error::new(ErrorKind::PeerLost, what));
        }
        for (to, step) in steps {
            self.queue(to, Message::Agree { comm, number, step });
        }
    }

    fn agreed(&self, id: AgreementId) -> Option<&Agreed> {
        self.survivors.agreements.get(&id)?.decided()
    }
}

/// Whether the communicator, if it is still there, has this world rank in it.
fn has_member(group: &std::sync::Weak<dyn super::setup::Group>, rank: u32) -> bool {
    group.upgrade().is_some_and(|group| group.has_member(rank))
}

impl Engine {
    /// Whether the world goes on after this error: what a call was lent is not touched then, but memory of the library that stands
    /// for it must not be used again.
    pub(crate) fn goes_on_after(&self, error: &Error) -> bool {
        self.core.goes_on_after(error)
    }

    /// Whether the world goes on when a rank is gone.
    pub(crate) fn survives(&self) -> bool {
        self.core.survives()
    }

    /// From now on the world goes on when a rank is gone. No operation is in flight, and all loans that begin are copies.
    pub(crate) fn go_on_without_the_gone(&mut self) {
        self.core.survivors.enabled = true;
    }

    /// Whether calls can be made on this communicator.
    ///
    /// # Errors
    /// When it has been revoked, or a member is gone; when the world has ended.
    #[inline(always)]
    pub(crate) fn usable(&mut self, comm: u64) -> Result<()> {
        self.healthy()?;
        self.core.usable(comm)
    }

    /// Hears what has come.
    ///
    /// # Errors
    /// When the world has ended.
    pub(crate) fn hear(&mut self) -> Result<()> {
        self.healthy()?;
        let _inside = self.heartbeat.enter();
        self.progress().map(drop).map_err(|e| self.fail(e))
    }

    /// Whether the communicator is known to be revoked.
    pub(crate) fn is_revoked(&self, comm: u64) -> bool {
        self.core.survivors.revoked.contains(&comm)
    }

    /// World ranks that are known to be gone, in order.
    pub(crate) fn gone(&self) -> &BTreeSet<u32> {
        &self.core.survivors.gone
    }

    /// Revokes a communicator at all its members.
    ///
    /// # Errors
    /// When the world has ended.
    pub(crate) fn revoke(&mut self, comm: u64) -> Result<()> {
        self.healthy()?;
        self.core.revoked(comm, self.core.setup.rank);
        self.progress().map(drop).map_err(|e| self.fail(e))
    }

    /// Takes part in an agreement among `members`, world ranks with this one among them, for all flags that all of them have set.
    ///
    /// # Errors
    /// When the world has ended.
    pub(crate) fn begin_agreement(
        &mut self,
        id: AgreementId,
        members: Vec<u32>,
        (flags, number): (u64, u32),
    ) -> Result<()> {
        self.healthy()?;
        let core = &mut self.core;
        let agreement = core.survivors.agreements.entry(id).or_default();
        agreement.begin(core.setup.rank, members, (flags, number));
        let steps = agreement.go_on(&core.survivors.gone);
        core.send_steps(id, steps);
        Ok(())
    }

    /// Goes on with an agreement: makes progress once; returns what is agreed on, once it is known. `rests`: for a wait.
    ///
    /// # Errors
    /// As [`Engine::turn`].
    pub(crate) fn agreement_turn(
        &mut self,
        id: AgreementId,
        waiting: &mut Waiting,
        rests: bool,
    ) -> Result<Option<Agreed>> {
        let agreement = self.core.survivors.agreements.get(&id);
        let coordinator = agreement.and_then(|a| a.coordinator(&self.core.survivors.gone));
        waiting.peer = coordinator.filter(|rank| *rank != self.core.setup.rank);
        // It takes time to notice that a rank is gone, for each of those that go meanwhile.
        waiting.begin_anew_if(self.core.gone_count() as u64);
        if !self.once(waiting, rests, |core| core.agreed(id).is_some())? {
            return Ok(None);
        }
        // All members have voted here, so all know what was agreed on before.
        let (comm, number) = id;
        self.core
            .survivors
            .agreements
            .retain(|(of, n), _| *of != comm || n.wrapping_sub(number) < u32::MAX / 2);
        let agreed = self.core.agreed(id).cloned();
        if let Some(agreement) = self.core.survivors.agreements.get_mut(&id) {
            agreement.take();
        }
        self.core.forget_agreement(id);
        Ok(agreed)
    }

    /// Looks which ranks are gone, and ends what needs them. An error ends the world.
    pub(super) fn look_for_gone(&mut self, now: Instant, suspicion: Duration) -> Option<Error> {
        while let Some((rank, how)) = self.liveness.as_mut().and_then(|l| l.gone()) {
            if self.core.is_gone(rank) {
                // The system tells it again and again.
                break;
            }
            if how.contains("signal") {
                self.core.peer_gone(rank, &how);
                continue;
            }
            let known = self.core.survivors.suspects.contains_key(&rank);
            self.core.suspect(rank, &how);
            if known {
                break;
            }
        }
        let suspects = &mut self.core.survivors.suspects;
        let mut late = Vec::new();
        for (rank, (since, why)) in suspects {
            if since.lasts(now) >= suspicion {
                late.push((*rank, why.clone()));
            }
        }
        late.iter().for_each(|(rank, why)| self.core.peer_gone(*rank, why));
        self.cut_off();
        self.core.forget_ended(now);
        self.core.broken.take().or_else(|| self.explain_loss(now))
    }

    /// A connection that has ended is that of a rank that is gone. Where none is for long, messages of a living one may be lost.
    fn explain_loss(&mut self, now: Instant) -> Option<Error> {
        let known = &mut self.core.survivors;
        let explained = known.last.as_mut().is_some_and(|since| since.lasts(now) < EXPLAINED_AFTER);
        let (since, why) = known.unexplained.as_mut()?;
        if explained {
            known.unexplained = None;
            return None;
        }
        let lasts = since.lasts(now);
        let what = (lasts >= EXPLAINED_AFTER).then(|| format!("a connection broke: {why}"));
        // Messages to a rank that is gone fail.
        self.query_all(now);
        what.map(|what| Error::new(ErrorKind::PeerLost, what).help("look for what the other ranks printed"))
    }

    /// Cuts off ranks that are gone.
    pub(super) fn cut_off(&mut self) {
        for rank in std::mem::take(&mut self.core.survivors.to_cut) {
            let Some(transport) = &mut self.transport else { continue };
            // One that lives all the same must end, as the others go on without it.
            let text = self.core.survivors.how.get(&rank).cloned().unwrap_or_default();
            let n = Message::Gone { rank, text }.encode(self.core.setup.rank, &mut self.scratch);
            if self.connected.contains(&rank) {
                _ = transport.message(rank, &self.scratch[..n]);
            }
            transport.cut(rank);
        }
    }

    /// Whether ranks are to be cut off.
    pub(super) fn is_to_cut(&self) -> bool {
        !self.core.survivors.to_cut.is_empty()
    }
}
