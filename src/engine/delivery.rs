//! What arrivals and messages do to the engine's state.

use super::core::{Core, Hello, Suspect, TOKEN_RAW, TOKEN_TEST};
use super::credits::CREDITS;
use super::message::{
    CallId, EagerHeader, HELP, IN_FLIGHT, Message, NONE, SLOTS, Status, WORD_RAW, WORD_TEST, kind_of,
    notify_hash, of_token, pair_hash, split,
};
use super::recorder::At;
use super::task::Delivered;
use super::time::{Since, Watched};
use crate::error::{Error, ErrorKind};
use crate::record::{EventKind, NONE as NOTHING};
use crate::transport::{Delivery, Sink};

/// Messages from one rank to another in an operation, beside eager data, at most: a barrier has one per round, and ranks are
/// numbered by 32 bits.
const MAX_NOTIFIES_PER_OPERATION: u32 = 64;
/// Messages that one rank may have sent for calls that we have not entered: what it may send on credit, and of each operation that
/// it has in flight the ready message or the request for ours, and its notifies. No correct rank sends more.
const MAX_UNEXPECTED_MESSAGES: u32 = CREDITS + IN_FLIGHT * (MAX_NOTIFIES_PER_OPERATION + 2);

impl Core {
    /// A message for a call that we are in, have left, or have not entered yet.
    pub(super) fn for_call(&mut self, from: u32, message: Message) {
        let (Message::Ready { call, code, hash, .. }
        | Message::ReadyAgain { call, code, hash, .. }
        | Message::Notify { call, code, hash, .. }
        | Message::ReadyRequest { call, code, hash }
        | Message::Eager { head: EagerHeader { call, code, hash, .. }, .. }) = message
        else {
            return;
        };
        if self.has_ended(call.comm) {
            return self.comes_too_late(from, call.comm, Some(message));
        }
        let slot = self.slot_of(call);
        if let (Some(_), Message::Eager { head, data }) = (slot, &message) {
            self.deliver_eager(from, *head, data);
            if let Message::Eager { data, .. } = message {
                self.spare_buffers.push(data);
            }
            return;
        }
        let Some(slot) = slot else { return self.for_no_task(from, call, (code, hash), message) };
        let Some(task) = self.tasks[usize::from(slot)].as_mut() else { return };
        let index = task.peer_index(from);
        let ready_at = At { peer: from, round: NOTHING, block: NOTHING };
        let mut expected = task.meta.hash;
        if let (Some(i), Message::Ready { .. } | Message::ReadyAgain { .. }) = (index, &message) {
            // A rank that is ready for our puts gets bytes from us.
            expected = pair_hash(expected, task.peers[i].sent);
        }
        if let (Some(i), Message::Notify { .. }) = (index, &message) {
            expected = notify_hash(expected, task.peers[i].received, task.peers[i].sent);
        }
        if (task.meta.code, expected) != (code, hash) {
            let mine = task.meta.code;
            self.mismatched(from, call, code, mine);
            return;
        }
        match (index, message) {
            (Some(i), Message::Ready { word, output, land, .. }) => {
                self.recorder.add(EventKind::Ready, &task.label, ready_at);
                task.peers[i].ready = Some((word, output, land));
            }
            (Some(i), Message::ReadyAgain { word, .. }) if task.peers[i].known.is_some() => {
                self.recorder.add(EventKind::Ready, &task.label, ready_at);
                task.peers[i].ready = task.peers[i].known.map(|(output, land)| (word, output, land));
            }
            (Some(i), Message::Notify { counter, .. }) if task.awaits(counter) == Some(i) => {
                self.counts.arrivals += 1;
                let at = task.notified(counter);
                self.recorder.add(EventKind::Arrive, &task.label, at);
            }
            (Some(i), Message::ReadyRequest { .. }) => self.send_ready(from, slot, i),
            _ => self.inconsistent(from),
        }
    }

    /// A message for a call that we are not in: one that we have left, or have not entered yet.
    fn for_no_task(&mut self, from: u32, call: CallId, theirs: (u8, u64), message: Message) {
        if let Some(ours) = self.known(call) {
            if let Message::Ready { .. } | Message::ReadyAgain { .. } = message {
                self.history.ready_came(call);
            }
            if ours != theirs {
                self.mismatched(from, call, theirs.0, ours.0);
            }
        } else if self.unexpected.kept_from(from) < MAX_UNEXPECTED_MESSAGES {
            self.unexpected.keep(from, call, message);
        } else {
            self.break_with(
                ErrorKind::Mismatch,
                from,
                format!("rank {from} is {MAX_UNEXPECTED_MESSAGES} messages ahead"),
            );
        }
    }

    /// A message that does not fit our part of the operation.
    pub(super) fn inconsistent(&mut self, from: u32) {
        let what = format!("rank {from} takes part in this operation in another way than we do");
        self.break_with(ErrorKind::Mismatch, from, what);
    }

    /// Compares the call that `origin` reports with our own call of the same number. Ready messages do that at once,
    /// but no rank sends one to a rank that only puts: two ranks that both act as the root hear nothing.
    fn compare(&mut self, origin: u32, theirs: Status) {
        let (call, code) = (theirs.entered.call, theirs.entered.code);
        let Some((mine, hash)) = self.known(call) else { return };
        if theirs.hash != 0 && (mine, hash) != (code, theirs.hash) {
            self.mismatched(origin, call, code, mine);
        }
    }

    fn break_with(&mut self, kind: ErrorKind, peer: u32, what: String) {
        if self.broken.is_none() {
            let e = Error::new(kind, what);
            self.broken = Some(if peer == NONE { e } else { e.with_peer(peer as usize) });
        }
    }

    /// Data arrived for no operation that is under way.
    #[inline(never)]
    fn arrived_for_no_task(&mut self, word: u32) {
        let (slot, counter) = split(word);
        match word & 0xFF00_0000 {
            WORD_TEST if self.is_neighbour(counter) => {
                self.tested.insert(counter);
            }
            WORD_RAW => self.raw_arrivals += 1,
            _ if usize::from(slot) >= SLOTS => self.stray_word(word, "for no operation of any rank"),
            // To memory that is set aside.
            _ if self.is_late(slot, counter) => {}
            _ => self.stray_word(word, "for no operation"),
        }
    }

    #[cold]
    #[inline(never)]
    fn stray_word(&mut self, word: u32, what: &str) {
        self.break_with(ErrorKind::Transport, NONE, format!("data arrived {what} (word {word:#x})"));
    }

    fn acknowledged(&mut self, from: u32, call: CallId, bytes: u64) {
        // An operation may finish here before its last acknowledgements come: nothing to do then.
        let Some(slot) = self.slot_of(call) else { return };
        let Some(task) = self.tasks[usize::from(slot)].as_mut() else { return };
        if let Some(i) = task.peer_index(from) {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            task.peers[i].outstanding = task.peers[i].outstanding.saturating_sub(bytes);
            task.outstanding = task.outstanding.saturating_sub(bytes);
        }
    }

    fn aborted(&mut self, message: Message) {
        let Message::Abort { origin, culprit, kind, mark, round, ref text, .. } = message else { return };
        if self.failure.is_some() {
            return;
        }
        let (text, help) = text.split_once(HELP).unwrap_or((text, ""));
        let mut e = Error::new(kind_of(kind), text).at_rank(self.setup.rank as usize);
        if mark.code != 0 {
            e = e.in_operation(self.name_of(mark.code), u64::from(mark.call.sequence));
        }
        if culprit != NONE {
            e = e.with_peer(culprit as usize);
        }
        if round != NONE {
            e = e.in_round(round);
        }
        let e = e.reported_by(origin as usize);
        self.failure = Some(if help.is_empty() { e } else { e.help(help) });
        self.relay = Some(message);
    }

    /// Status queries and answers: each is propagated once, and each rank answers to all.
    pub(super) fn propagate_status(&mut self, from: u32, message: &Message) {
        match *message {
            Message::Query { round, .. } if round > self.query_round => {
                self.query_round = round;
                self.queried = Some(Since::default());
                self.propagate(message, from);
                let mine = Message::Status { origin: self.setup.rank, round, status: self.status };
                self.propagate(&mine, NONE);
            }
            Message::Status { origin, round, status }
                if origin < self.setup.size
                    && origin != self.setup.rank
                    && self.statuses.get(&origin).is_none_or(|(known, _)| *known < round) =>
            {
                self.statuses.insert(origin, (round, status));
                self.propagate(message, from);
                self.compare(origin, status);
            }
            _ => {}
        }
    }
}

impl Sink for Core {
    fn arrival(&mut self, word: u32) {
        let (slot, counter) = split(word);
        let task = self.tasks.get_mut(usize::from(slot)).and_then(Option::as_deref_mut);
        let Some(task) = task else { return self.arrived_for_no_task(word) };
        // Of an operation before it in this slot, which ended half way: to memory that is set aside.
        let Some(counter) = counter.checked_sub(task.base) else { return };
        match task.delivered(counter, &mut self.recorder) {
            Delivered::Counted => self.counts.arrivals += 1,
            Delivered::Due(to, bytes) => {
                self.counts.arrivals += 1;
                self.acknowledge(slot, to, bytes);
            }
            Delivered::Astray => self.stray_word(word, "where none was awaited"),
        }
    }

    fn delivery(&mut self, word: u32, len: u64) -> Delivery {
        let (slot, counter) = split(word);
        let task = self.tasks.get_mut(usize::from(slot)).and_then(|t| t.as_mut());
        task.map_or(Delivery::Land, |task| match counter.checked_sub(task.base) {
            Some(counter) => task.delivery(counter, len),
            None => Delivery::Land,
        })
    }

    fn consume(&mut self, word: u32, offset: u64, bytes: &[u8]) {
        let (slot, counter) = split(word);
        let Some(task) = self.tasks.get_mut(usize::from(slot)).and_then(|t| t.as_mut()) else { return };
        let Some(counter) = counter.checked_sub(task.base) else { return };
        match task.consume(counter, offset, bytes) {
            Ok(()) => self.counts.reduced_bytes += bytes.len() as u64,
            Err(e) => self.broken = self.broken.take().or(Some(e)),
        }
    }

    fn done(&mut self, token: u64) {
        self.puts_left += 1;
        match token {
            TOKEN_TEST => self.tests_sent += 1,
            TOKEN_RAW => self.raw_done += 1,
            _ => {
                let (slot, base) = of_token(token);
                let task = self.tasks.get_mut(usize::from(slot)).and_then(|t| t.as_mut());
                if let Some(task) = task.filter(|task| task.base == base) {
                    task.ops_left = task.ops_left.saturating_sub(1);
                }
            }
        }
    }

    fn message(&mut self, bytes: &[u8]) {
        if let Some((from, head, data)) = EagerHeader::read(bytes) {
            if self.is_gone(from) {
                return;
            }
            return self.eager_arrived(from, head, data);
        }
        let Some((from, message)) = Message::decode(bytes) else {
            return self.break_with(
                ErrorKind::Transport,
                NONE,
                format!("a message of {} bytes makes no sense", bytes.len()),
            );
        };
        if self.is_gone(from) {
            return;
        }
        match message {
            Message::Ready { .. }
            | Message::ReadyAgain { .. }
            | Message::Notify { .. }
            | Message::ReadyRequest { .. } => self.for_call(from, message),
            Message::Credit { messages } => self.credits.returned(from, messages),
            Message::Awaited { call, code, hash } => self.awaited_in(from, call, code, hash),
            Message::Mismatch { call, code, text } => self.compare_arguments(from, call, code, text),
            Message::Ack { call, bytes } => self.acknowledged(from, call, bytes),
            Message::Abort { .. } => self.aborted(message),
            Message::Query { .. } | Message::Status { .. } => self.propagate_status(from, &message),
            Message::Hello { test, pid, host, agreed } if self.is_neighbour(from) => {
                self.hellos.insert(from, Hello { test, pid, host, agreed });
            }
            Message::Gone { rank, text } => self.peer_gone(rank, &text),
            Message::Revoke { comm, by } => self.revoked(comm, by),
            Message::Agree { comm, number, step } => self.agreement_step(from, (comm, number), step),
            Message::Raw { grant } => self.raw_grant = Some(grant),
            Message::Bye if self.is_neighbour(from) => {
                self.byes.insert(from);
            }
            Message::Hello { .. } | Message::Bye | Message::Eager { .. } => self.break_with(
                ErrorKind::Transport,
                from,
                format!("rank {from} is no neighbour and speaks as one"),
            ),
        }
    }

    fn lost(&mut self, peer: Option<u32>, why: &str) {
        let rank = peer.unwrap_or(NONE);
        if self.survives() {
            return match peer {
                Some(rank) => self.suspect(rank, why),
                None => self.connection_ended(why),
            };
        }
        match &mut self.suspect {
            None => {
                let since = Watched::default();
                self.suspect = Some(Suspect { rank, since, why: why.to_owned(), ended: false });
            }
            Some(s) if s.rank == NONE && rank != NONE => {
                s.rank = rank;
                why.clone_into(&mut s.why);
            }
            Some(_) => {}
        }
    }
}
