//! The engine's state, apart from the transport: what arrivals and messages do to it.

use super::bank::Bank;
use super::bootstrap::Places;
use super::dispute::{Dispute, Question};
use super::eager::{CREDITS, Credits, Head};
use super::history::History;
use super::message::{
    CallId, HELP, IN_FLIGHT, Mark, Message, NONE, SLOTS, Status, WORD_RAW, WORD_TEST, kind_of, split,
};
use super::small::Smalls;
use super::task::Task;
use super::time::Since;
use super::{Counts, FINALIZE, Group, Setup};
use crate::buffer::Grant;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::{Sink, Taking};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Weak;

/// A barrier is the operation with the most messages from one rank to another: one per round, and ranks are numbered by 32 bits.
const ROUNDS: u32 = 64;
/// Messages that one rank may have sent for calls that we have not entered: what it may send on credit, and of each operation that
/// it has in flight the open word or the request for ours, and its notifies. More of them is no correct rank's doing.
const AHEAD: u32 = CREDITS + IN_FLIGHT * (ROUNDS + 2);

/// Everything but the transport.
pub(crate) struct Core {
    pub(crate) setup: Setup,
    tasks: Vec<Option<Box<Task>>>,
    /// Slots in use, in order of entering.
    pub(super) active: Vec<u8>,
    next_slot: u8,
    pub(super) bank: Bank,
    /// Memory for eager data that comes early.
    pub(super) spare: Vec<Vec<u8>>,
    pub(super) credits: Credits,
    pub(super) history: History,
    pub(super) smalls: Smalls,
    pub(super) outbox: VecDeque<Queued>,
    pub(super) status: Status,
    /// What the others said to be doing, and in answer to which round of questions.
    pub(super) statuses: HashMap<u32, (u32, Status)>,
    /// The newest round of questions, since when it runs, and the one whose answers we want.
    pub(super) query_round: u32,
    pub(super) queried: Option<Since>,
    pub(super) asked_round: u32,
    /// The error that ended the world, and the abort to relay.
    pub(super) failure: Option<Error>,
    pub(super) relay: Option<Message>,
    /// Trouble found while delivering, to be raised by `progress`.
    pub(super) broken: Option<Error>,
    pub(super) suspect: Option<Suspect>,
    pub(super) hellos: HashMap<u32, Hello>,
    pub(super) places: Places,
    pub(super) tested: HashSet<u32>,
    pub(super) tests_sent: usize,
    pub(super) raw_grant: Option<Grant>,
    pub(super) raw_arrivals: u64,
    pub(super) raw_done: u64,
    pub(super) raw_posted: u64,
    /// Puts of ours that left, since somebody last looked.
    pub(super) puts_left: usize,
    /// The transport refused a put: it has to be asked again.
    pub(super) refused: bool,
    pub(super) byes: HashSet<u32>,
    /// A call that is not like another rank's; and what that rank asks of a short one.
    pub(super) dispute: Option<Dispute>,
    pub(super) question: Option<Question>,
    /// Communicators by number, as long as they live.
    pub(super) groups: HashMap<u64, Weak<dyn Group>>,
    /// So many of them lived when the others were last forgotten.
    living: usize,
    /// No call begins any more.
    pub(super) finalizing: bool,
    pub(crate) counts: Counts,
}

/// A message that the transport has yet to take.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) to: u32,
    /// The operation that does not end before.
    pub(super) slot: Option<u8>,
    pub(super) message: Message,
}

/// A peer that seems lost.
#[derive(Clone, Debug)]
pub(super) struct Suspect {
    /// [`NONE`] when the transport does not know.
    pub(super) rank: u32,
    pub(super) since: Since,
    pub(super) why: String,
    /// Its process ended, as others than the transport say.
    pub(super) ended: bool,
}

/// What a neighbour said at start-up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hello {
    pub(crate) test: Grant,
    pub(crate) pid: u32,
    pub(crate) host: u64,
    pub(crate) agreed: u64,
}

/// A hash of the arguments, for a pair of ranks of which one sends `bytes` bytes to the other (0 where all that
/// the ranks agree on is in the hash already).
pub(super) fn salted(hash: u64, bytes: u64) -> u64 {
    hash ^ bytes.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// A hash with what goes to a peer and what comes from it, where only the two know that: what the sender of a notify expects.
pub(super) fn mutual(hash: u64, to: u64, from: u64) -> u64 {
    salted(hash, to) ^ from.wrapping_mul(0xC2B2_AE3D_27D4_EB4F)
}

/// Tokens of puts that belong to no task.
pub(super) const TOKEN_TEST: u64 = u64::MAX;
pub(super) const TOKEN_RAW: u64 = u64::MAX - 1;

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("rank", &self.setup.rank)
            .field("status", &self.status)
            .field("active", &self.active)
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

impl Core {
    pub(super) fn new(setup: Setup) -> Self {
        let credits = Credits::new(setup.size);
        Self {
            setup,
            tasks: (0..SLOTS).map(|_| None).collect(),
            active: Vec::with_capacity(SLOTS),
            next_slot: 0,
            bank: Bank::default(),
            spare: Vec::new(),
            credits,
            history: History::default(),
            smalls: Smalls::default(),
            outbox: VecDeque::with_capacity(256),
            status: Status::default(),
            statuses: HashMap::new(),
            query_round: 0,
            queried: None,
            asked_round: 0,
            failure: None,
            relay: None,
            broken: None,
            suspect: None,
            hellos: HashMap::new(),
            places: Places::default(),
            tested: HashSet::new(),
            tests_sent: 0,
            raw_grant: None,
            raw_arrivals: 0,
            raw_done: 0,
            raw_posted: 0,
            puts_left: 0,
            refused: false,
            byes: HashSet::new(),
            dispute: None,
            question: None,
            groups: HashMap::new(),
            living: 0,
            finalizing: false,
            counts: Counts::default(),
        }
    }

    /// The error that ended the world, if one did.
    pub(super) fn healthy(&self) -> Result<()> {
        match &self.failure {
            None => Ok(()),
            Some(e) if e.message().starts_with("the world ") => {
                Err(e.clone().at_rank(self.setup.rank as usize))
            }
            Some(e) => Err(Error::new(
                ErrorKind::Aborted,
                format!("the world ended with an earlier error: {}", e.message()),
            )
            .at_rank(self.setup.rank as usize)
            .help("finalize or drop it; nothing more can be done in this job")),
        }
    }

    /// Ends the world, by `why` unless it has ended already. Nothing in flight is touched again: what it was
    /// bound to goes back to its owners.
    pub(super) fn end(&mut self, why: impl FnOnce() -> Error) {
        self.failure.get_or_insert_with(why);
        self.active.clear();
        self.tasks.iter_mut().for_each(|t| *t = None);
        self.bank.clear();
        self.outbox.clear();
    }

    /// Knows the communicator `comm` from now on, as long as it lives.
    pub(super) fn register(&mut self, comm: u64, group: Weak<dyn Group>) {
        if self.groups.len() > 2 * self.living + 8 {
            self.groups.retain(|_, group| group.strong_count() > 0);
            self.living = self.groups.len();
        }
        self.groups.insert(comm, group);
    }

    /// The name of the operation with this code.
    pub(super) fn name_of(&self, code: u8) -> &'static str {
        if code == FINALIZE { "finalize" } else { (self.setup.names)(code) }
    }

    pub(super) fn free_slot(&mut self) -> Result<u8> {
        for _ in 0..SLOTS {
            let slot = self.next_slot;
            self.next_slot = if usize::from(slot) + 1 == SLOTS { 0 } else { slot + 1 };
            if self.tasks[usize::from(slot)].is_none() {
                return Ok(slot);
            }
        }
        Err(Error::new(ErrorKind::Argument, format!("{SLOTS} operations are in flight already"))
            .help("wait for some before starting more"))
    }

    pub(super) fn take_task(&mut self, slot: u8) -> Option<Box<Task>> {
        self.tasks.get_mut(usize::from(slot))?.take()
    }

    pub(super) fn put_task(&mut self, slot: u8, task: Box<Task>) {
        self.tasks[usize::from(slot)] = Some(task);
    }

    pub(super) fn task_ref(&self, slot: u8) -> Option<&Task> {
        self.tasks.get(usize::from(slot))?.as_deref()
    }

    /// Whether the operation in `slot` is over (or there is none).
    pub(super) fn finished(&self, slot: u8) -> bool {
        self.tasks[usize::from(slot)].as_ref().is_none_or(|t| t.finished())
    }

    /// Whether nothing is under way.
    pub(super) fn idle(&self) -> bool {
        self.active.iter().all(|slot| self.finished(*slot))
    }

    /// Puts a reset task into its slot and gives it what came before it was entered.
    pub(super) fn enter(&mut self, slot: u8, task: Box<Task>) {
        let call = task.meta.call;
        self.tasks[usize::from(slot)] = Some(task);
        self.active.push(slot);
        while let Some((from, message)) = self.bank.take(call) {
            self.for_call(from, message);
        }
    }

    /// Takes a finished operation out.
    pub(super) fn leave(&mut self, slot: u8) -> Result<Box<Task>> {
        let Some(task) = self.tasks[usize::from(slot)].take() else {
            return Err(Error::new(ErrorKind::Argument, "no operation in this slot"));
        };
        self.active.retain(|s| *s != slot);
        let m = &task.meta;
        self.status.completed = Mark { code: m.code, call: m.call };
        self.counts.rounds += u64::from(m.rounds);
        self.counts.operations += 1;
        self.history.leave(&task);
        Ok(task)
    }

    pub(super) fn slot_of(&self, call: CallId) -> Option<u8> {
        self.active
            .iter()
            .copied()
            .find(|s| self.tasks[usize::from(*s)].as_ref().is_some_and(|t| t.meta.call == call))
    }

    /// An open word or a notify, for a call that we are in, have left, or have not entered yet.
    pub(super) fn for_call(&mut self, from: u32, message: Message) {
        let (Message::Open { call, code, hash, .. }
        | Message::Start { call, code, hash, .. }
        | Message::Notify { call, code, hash, .. }
        | Message::Want { call, code, hash }
        | Message::Data { head: Head { call, code, hash, .. }, .. }) = message
        else {
            return;
        };
        let slot = self.slot_of(call);
        if let (Some(_), Message::Data { head, data }) = (slot, &message) {
            self.place(from, *head, data);
            if let Message::Data { data, .. } = message {
                self.spare.push(data);
            }
            return;
        }
        let Some(slot) = slot else { return self.for_no_task(from, call, (code, hash), message) };
        let Some(task) = self.tasks[usize::from(slot)].as_mut() else { return };
        let index = task.peer_index(from);
        let mut expected = task.meta.hash;
        if let (Some(i), Message::Open { .. } | Message::Start { .. }) = (index, &message) {
            // Who opens to us gets something from us.
            expected = salted(expected, task.peers[i].sent);
        }
        if let (Some(i), Message::Notify { .. }) = (index, &message) {
            expected = mutual(expected, task.peers[i].received, task.peers[i].sent);
        }
        if (task.meta.code, expected) != (code, hash) {
            let mine = task.meta.code;
            self.disagree(from, call, code, mine);
            return;
        }
        match (index, message) {
            (Some(i), Message::Open { slot, output, land, .. }) => {
                task.peers[i].open = Some((slot, output, land));
            }
            (Some(i), Message::Start { slot, .. }) if task.peers[i].known.is_some() => {
                task.peers[i].open = task.peers[i].known.map(|(output, land)| (slot, output, land));
            }
            (Some(i), Message::Notify { counter, .. }) if task.awaits(counter) == Some(i) => {
                self.counts.arrivals += 1;
                task.arrived(counter);
            }
            (Some(i), Message::Want { .. }) => self.open_to(from, slot, i),
            _ => self.strange(from),
        }
    }

    /// A message for a call that we are not in: one that we have left, or have not entered yet.
    fn for_no_task(&mut self, from: u32, call: CallId, theirs: (u8, u64), message: Message) {
        if let Some(ours) = self.known(call) {
            if let Message::Open { .. } | Message::Start { .. } = message {
                self.history.opened(call);
            }
            if ours != theirs {
                self.disagree(from, call, theirs.0, ours.0);
            }
        } else if self.bank.kept_from(from) < AHEAD {
            self.bank.keep(from, call, message);
        } else {
            self.break_with(ErrorKind::Mismatch, from, format!("rank {from} is {AHEAD} messages ahead"));
        }
    }

    /// A message that does not go with our part of the operation.
    pub(super) fn strange(&mut self, from: u32) {
        let what = format!("rank {from} takes part in this operation in another way than we do");
        self.break_with(ErrorKind::Mismatch, from, what);
    }

    /// Holds what `origin` says to be in against our own call of the same number. Open words do that at once,
    /// but nobody opens to a rank that puts: two ranks that both take themselves for the root hear nothing.
    fn compare(&mut self, origin: u32, theirs: Status) {
        let (call, code) = (theirs.entered.call, theirs.entered.code);
        let Some((mine, hash)) = self.known(call) else { return };
        if theirs.hash != 0 && (mine, hash) != (code, theirs.hash) {
            self.disagree(origin, call, code, mine);
        }
    }

    /// Operation and hash of a call that we are in, or have left not long ago.
    pub(super) fn known(&self, call: CallId) -> Option<(u8, u64)> {
        if let Some(task) = self.slot_of(call).and_then(|slot| self.task_ref(slot)) {
            return Some((task.meta.code, task.meta.hash));
        }
        self.history.find(call).or_else(|| self.smalls.find(call))
    }

    fn break_with(&mut self, kind: ErrorKind, peer: u32, what: String) {
        if self.broken.is_none() {
            let e = Error::new(kind, what);
            self.broken = Some(if peer == NONE { e } else { e.with_peer(peer as usize) });
        }
    }

    fn unexpected(&mut self, word: u32, what: &str) {
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
        let Message::Abort { origin, culprit, kind, mark, round, ref text } = message else { return };
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

    /// To all neighbours but one.
    pub(super) fn flood(&mut self, message: &Message, except: u32) {
        for i in 0..self.setup.neighbours.len() {
            let to = self.setup.neighbours[i];
            if to != except {
                self.queue(to, message.clone());
            }
        }
    }

    /// Sends `message` to `to` as soon as the transport takes it.
    pub(super) fn queue(&mut self, to: u32, message: Message) {
        self.outbox.push_back(Queued { to, slot: None, message });
    }

    /// The same, for the operation in `slot`: it does not end before the message has left.
    pub(super) fn queue_for(&mut self, slot: u8, to: u32, message: Message) {
        let task = self.tasks.get_mut(usize::from(slot)).and_then(Option::as_mut);
        let slot = task.map(|task| {
            task.unsent += 1;
            slot
        });
        self.outbox.push_back(Queued { to, slot, message });
    }

    /// A message that the operation in `slot` waited for has left, or nothing can take it any more.
    pub(super) fn left(&mut self, slot: Option<u8>) {
        let task = slot.and_then(|slot| self.tasks.get_mut(usize::from(slot))?.as_mut());
        if let Some(task) = task {
            task.unsent = task.unsent.saturating_sub(1);
        }
    }

    /// Questions and answers: each is passed on once, and everybody answers to all.
    pub(super) fn gossip(&mut self, from: u32, message: &Message) {
        match *message {
            Message::Query { round, .. } if round > self.query_round => {
                self.query_round = round;
                self.queried = Some(Since::default());
                self.flood(message, from);
                let mine = Message::Status { origin: self.setup.rank, round, status: self.status };
                self.flood(&mine, NONE);
            }
            Message::Status { origin, round, status }
                if origin < self.setup.size
                    && origin != self.setup.rank
                    && self.statuses.get(&origin).is_none_or(|(known, _)| *known < round) =>
            {
                self.statuses.insert(origin, (round, status));
                self.flood(message, from);
                self.compare(origin, status);
            }
            _ => {}
        }
    }

    pub(super) fn is_neighbour(&self, rank: u32) -> bool {
        self.setup.neighbours.binary_search(&rank).is_ok()
    }
}

impl Sink for Core {
    fn arrival(&mut self, word: u32) {
        let (slot, counter) = split(word);
        if usize::from(slot) >= SLOTS {
            match word & 0xFF00_0000 {
                WORD_TEST if self.is_neighbour(counter) => {
                    self.tested.insert(counter);
                }
                WORD_RAW => self.raw_arrivals += 1,
                _ => self.unexpected(word, "for nobody"),
            }
            return;
        }
        self.counts.arrivals += 1;
        let Some(task) = self.tasks[usize::from(slot)].as_mut() else {
            return self.unexpected(word, "for no operation");
        };
        let Some(peer) = task.awaits(counter) else {
            return self.unexpected(word, "where none was awaited");
        };
        if let Some(bytes) = task.came(counter, peer, self.setup.acknowledge_at(task)) {
            let (to, ack) = (task.peers[peer].world_rank, Message::Ack { call: task.meta.call, bytes });
            self.queue_for(slot, to, ack);
        }
    }

    fn taking(&mut self, word: u32, len: u64) -> Taking {
        let (slot, counter) = split(word);
        let task = self.tasks.get_mut(usize::from(slot)).and_then(|t| t.as_mut());
        task.map_or(Taking::Land, |task| task.taking(counter, len))
    }

    fn take(&mut self, word: u32, offset: u64, bytes: &[u8]) {
        let (slot, counter) = split(word);
        let Some(task) = self.tasks.get_mut(usize::from(slot)).and_then(|t| t.as_mut()) else { return };
        match task.take(counter, offset, bytes) {
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
                let slot = usize::try_from(token >> 32).unwrap_or(SLOTS);
                if let Some(task) = self.tasks.get_mut(slot).and_then(|t| t.as_mut()) {
                    task.ops_left = task.ops_left.saturating_sub(1);
                }
            }
        }
    }

    fn message(&mut self, bytes: &[u8]) {
        if let Some((from, head, data)) = Head::read(bytes) {
            return self.eager(from, head, data);
        }
        let Some((from, message)) = Message::decode(bytes) else {
            return self.break_with(
                ErrorKind::Transport,
                NONE,
                format!("a message of {} bytes makes no sense", bytes.len()),
            );
        };
        match message {
            Message::Open { .. } | Message::Start { .. } | Message::Notify { .. } | Message::Want { .. } => {
                self.for_call(from, message)
            }
            Message::Credit { messages } => self.credits.back(from, messages),
            Message::Late { call, code, hash } => self.late(from, call, code, hash),
            Message::Differ { call, code, text } => self.differ(from, call, code, text),
            Message::Ack { call, bytes } => self.acknowledged(from, call, bytes),
            Message::Abort { .. } => self.aborted(message),
            Message::Query { .. } | Message::Status { .. } => self.gossip(from, &message),
            Message::Hello { test, pid, host, agreed } if self.is_neighbour(from) => {
                self.hellos.insert(from, Hello { test, pid, host, agreed });
            }
            Message::Raw { grant } => self.raw_grant = Some(grant),
            Message::Bye if self.is_neighbour(from) => {
                self.byes.insert(from);
            }
            Message::Hello { .. } | Message::Bye | Message::Data { .. } => self.break_with(
                ErrorKind::Transport,
                from,
                format!("rank {from} is no neighbour and speaks as one"),
            ),
        }
    }

    fn lost(&mut self, peer: Option<u32>, why: &str) {
        let rank = peer.unwrap_or(NONE);
        match &mut self.suspect {
            None => {
                let since = Since::default();
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
