//! The engine's state, apart from the transport.

use super::active::Active;
use super::counts::Counts;
use super::credits::Credits;
use super::gone::Survivors;
use super::history::History;
use super::latencies::Latencies;
use super::locations::Locations;
use super::message::{AGREE, CallId, FINALIZE, Mark, Message, SLOTS, Status};
use super::recorder::{At, Recorder};
use super::setup::{Group, Setup};
use super::short_log::ShortLog;
use super::task::Task;
use super::time::{Since, Watched};
use super::unexpected::Unexpected;
use crate::buffer::Grant;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::MAX_COUNTERS;
use crate::record::EventKind;
use crate::transport::Ticks;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Weak;

/// Everything but the transport.
pub(crate) struct Core {
    pub(crate) setup: Setup,
    pub(super) tasks: Vec<Option<Box<Task>>>,
    /// Slots in use, in order of entering, each with its call: what comes for one finds its slot here, without a look into tasks.
    pub(super) active: Active,
    pub(super) unexpected: Unexpected,
    /// Buffers for unexpected eager messages.
    pub(super) spare_buffers: Vec<Vec<u8>>,
    pub(super) credits: Credits,
    pub(super) history: History,
    pub(super) short_log: ShortLog,
    pub(super) outbox: VecDeque<Queued>,
    pub(super) status: Status,
    /// The status that each other rank reported, and in answer to which round of queries.
    pub(super) statuses: HashMap<u32, (u32, Status)>,
    /// The newest round of status queries, since when it runs, and the round whose answers this rank waits for.
    pub(super) query_round: u32,
    pub(super) queried: Option<Since>,
    pub(super) asked_round: u32,
    /// The error that ended the world, and the abort to relay.
    pub(super) failure: Option<Error>,
    pub(super) relay: Option<Message>,
    /// An error found while delivering, to be raised by `progress`.
    pub(super) broken: Option<Error>,
    pub(super) suspect: Option<Suspect>,
    pub(super) unconnected: BTreeMap<u32, Unconnected>,
    pub(super) hellos: HashMap<u32, Hello>,
    pub(super) locations: Locations,
    pub(super) tested: HashSet<u32>,
    pub(super) tests_sent: usize,
    pub(super) raw_grant: Option<Grant>,
    pub(super) raw_arrivals: u64,
    pub(super) raw_done: u64,
    pub(super) raw_posted: u64,
    /// Puts of ours that left, since `progress` last looked.
    pub(super) puts_left: usize,
    /// The transport refused a put, which is to be posted again.
    pub(super) refused: bool,
    pub(super) byes: HashSet<u32>,
    /// A call whose arguments differ from another rank's; and what that rank asks of a short one.
    pub(super) mismatch: Option<Mismatch>,
    pub(super) arguments_request: Option<ArgumentsRequest>,
    /// Communicators by number, as long as they live.
    pub(super) groups: HashMap<u64, Weak<dyn Group>>,
    /// So many of them lived when the others were last forgotten.
    living: usize,
    /// Ranks that are gone, where the world goes on.
    pub(super) survivors: Survivors,
    /// No call begins any more.
    pub(super) finalizing: bool,
    pub(crate) counts: Counts,
    pub(super) recorder: Recorder,
    /// Where calls are timed.
    pub(super) latencies: Option<Latencies>,
}

/// A message that the transport has yet to take.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) to: u32,
    /// The operation that does not end before it is sent.
    pub(super) slot: Option<u8>,
    pub(super) message: Message,
}

/// A peer that may be lost.
#[derive(Clone, Debug)]
pub(super) struct Suspect {
    /// `NONE` when the transport does not know.
    pub(super) rank: u32,
    pub(super) since: Watched,
    pub(super) why: String,
    /// Its process ended, by the launcher or the process watch.
    pub(super) ended: bool,
}

/// Messages that were put off as there is no connection to their target yet.
#[derive(Debug, Default)]
pub(super) struct Unconnected {
    pub(super) lasts: Watched,
    /// The query whose answer shows that the peer makes progress.
    pub(super) asked: Option<u32>,
}

/// What a neighbour said at start-up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hello {
    pub(crate) test: Grant,
    pub(crate) pid: u32,
    pub(crate) host: u64,
    pub(crate) agreed: u64,
}

/// A call of ours and of another rank that do not match, until it is known in which argument.
#[derive(Debug)]
pub(super) struct Mismatch {
    pub(super) since: Since,
    pub(super) error: Error,
}

/// What another rank asks of a short call that we are in: only the call itself knows its arguments.
#[derive(Debug)]
pub(super) struct ArgumentsRequest {
    pub(super) from: u32,
    pub(super) call: CallId,
    pub(super) code: u8,
    /// What the other rank called; `None`: we noticed, and are to tell it.
    pub(super) theirs: Option<String>,
}

/// Token of the self-test puts at start-up, which belong to no task.
pub(super) const TOKEN_TEST: u64 = u64::MAX;
/// Token of the puts that measure the wire, which belong to no task.
pub(super) const TOKEN_RAW: u64 = u64::MAX - 1;
/// How many of the latest queued messages are searched for an acknowledgement to the same rank of the same call, to which bytes are added.
/// Chosen: about as many messages as a rank queues in one turn of progress.
const ACK_SEARCH_MESSAGES: usize = 16;

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("rank", &self.setup.rank)
            .field("status", &self.status)
            .field("active", &self.active.slots().collect::<Vec<_>>())
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

impl Core {
    pub(super) fn new(setup: Setup, ticks: Ticks) -> Self {
        let credits = Credits::new(setup.size);
        let recorder = Recorder::new(setup.record_events, setup.size, ticks);
        Self {
            setup,
            tasks: (0..SLOTS).map(|_| None).collect(),
            active: Active::new(),
            unexpected: Unexpected::default(),
            spare_buffers: Vec::new(),
            credits,
            history: History::default(),
            short_log: ShortLog::default(),
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
            unconnected: BTreeMap::new(),
            hellos: HashMap::new(),
            locations: Locations::default(),
            tested: HashSet::new(),
            tests_sent: 0,
            raw_grant: None,
            raw_arrivals: 0,
            raw_done: 0,
            raw_posted: 0,
            puts_left: 0,
            refused: false,
            byes: HashSet::new(),
            mismatch: None,
            arguments_request: None,
            groups: HashMap::new(),
            living: 0,
            survivors: Survivors::default(),
            finalizing: false,
            counts: Counts::default(),
            recorder,
            latencies: None,
        }
    }

    /// The error that ended the world, if one did.
    #[inline]
    pub(super) fn healthy(&self) -> Result<()> {
        self.failure.as_ref().map_or(Ok(()), |e| Err(self.ended_by(e)))
    }

    /// Why nothing can be done any more.
    #[cold]
    fn ended_by(&self, e: &Error) -> Error {
        let me = self.setup.rank as usize;
        if e.message().starts_with("the world ") {
            return e.clone().at_rank(me);
        }
        let what = format!("the world ended with an earlier error: {}", e.message());
        let help = "finalize or drop it; nothing more can be done in this job";
        Error::new(ErrorKind::Aborted, what).at_rank(me).help(help)
    }

    /// Ends the world, by `why` unless it has ended already. Nothing in flight is touched again: what it was
    /// bound to goes back to its owners.
    pub(super) fn end(&mut self, why: impl FnOnce() -> Error) {
        self.failure.get_or_insert_with(why);
        self.active = Active::new();
        self.tasks.iter_mut().for_each(|t| *t = None);
        self.unexpected.clear();
        self.outbox.clear();
    }

    /// Bytes that go to `peer`, if its node is in another group than ours; else none.
    #[inline]
    pub(super) fn crossing(&self, peer: u32, bytes: u64) -> u64 {
        let groups = &self.setup.node_groups;
        let group = |rank: u32| groups.get(rank as usize);
        if group(peer) == group(self.setup.rank) { 0 } else { bytes }
    }

    /// Knows the communicator `comm` from now on, as long as it lives.
    pub(super) fn register(&mut self, comm: u64, group: Weak<dyn Group>) {
        if self.groups.len() > 2 * self.living + 8 {
            self.groups.retain(|_, group| group.strong_count() > 0);
            self.living = self.groups.len();
        }
        self.groups.insert(comm, group);
        self.end_if_member_gone(comm);
    }

    /// The name of the operation with this code.
    pub(super) fn name_of(&self, code: u8) -> &'static str {
        match code {
            FINALIZE => "finalize",
            AGREE => "agree",
            code => (self.setup.names)(code),
        }
    }

    /// The slot of the next operation that enters, and the number of its counter 0 in words, where it has so many counters.
    pub(super) fn free_slot(&mut self, counters: usize) -> Result<(u8, u32)> {
        let bases = &self.survivors.bases;
        let base = |slot: u8| bases.get(usize::from(slot)).copied().unwrap_or(0);
        let will_do = |slot| base(slot) as usize + counters <= MAX_COUNTERS as usize;
        let slot = self.active.free(will_do);
        slot.map(|slot| (slot, base(slot))).ok_or_else(|| {
            Error::new(ErrorKind::Argument, format!("{SLOTS} operations are in flight already"))
                .help("wait for some before starting more")
        })
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
        self.active.slots().all(|slot| self.finished(slot))
    }

    /// Whether all neighbours have said goodbye to us, and we make no more calls: any of them may close now.
    pub(super) fn has_parted(&self) -> bool {
        let came = |rank: &u32| self.byes.contains(rank) || self.is_gone(*rank);
        self.finalizing && self.setup.neighbours.iter().all(came)
    }

    /// Puts a reset task into its slot, which [`Core::free_slot`] has named, and delivers the unexpected messages that are kept for it.
    pub(super) fn enter(&mut self, slot: u8, mut task: Box<Task>) {
        let call = task.meta.call;
        self.enters(&mut task);
        self.tasks[usize::from(slot)] = Some(task);
        self.active.enter(call);
        while let Some((from, message)) = self.unexpected.take(call) {
            self.for_call(from, message);
        }
    }

    /// An operation that has nothing to do here begins and ends, without a slot.
    pub(super) fn pass(&mut self, task: &mut Task) {
        self.enters(task);
        self.ends(task);
    }

    /// An operation begins.
    fn enters(&mut self, task: &mut Task) {
        task.begun = self.begin();
        self.recorder.add(EventKind::Enter, &task.label, At::NOWHERE);
    }

    /// When a call begins, in ticks, where calls are timed; else 0.
    #[inline]
    pub(super) fn begin(&self) -> u64 {
        self.latencies.as_ref().map_or(0, Latencies::begin)
    }

    /// Takes a finished operation out.
    pub(super) fn leave(&mut self, slot: u8) -> Result<Box<Task>> {
        let Some(task) = self.tasks[usize::from(slot)].take() else {
            return Err(Error::new(ErrorKind::Argument, "no operation in this slot"));
        };
        self.active.leave(slot);
        self.ends(&task);
        Ok(task)
    }

    /// An operation has ended.
    fn ends(&mut self, task: &Task) {
        let m = &task.meta;
        self.recorder.add(EventKind::Leave, &task.label, At::NOWHERE);
        if let Some(latencies) = self.latencies.as_mut().filter(|_| task.begun != 0) {
            latencies.end(m.code, [m.bytes, task.global_bytes], task.begun);
        }
        self.counts.global_bytes += task.global_bytes;
        self.status.completed = Mark { code: m.code, call: m.call };
        self.counts.rounds += u64::from(m.rounds);
        self.counts.operations += 1;
        self.history.leave(task);
    }

    pub(super) fn slot_of(&self, call: CallId) -> Option<u8> {
        self.active.slot_of(call)
    }

    /// Operation and hash of a call that we are in, or have left not long ago.
    pub(super) fn known(&self, call: CallId) -> Option<(u8, u64)> {
        if let Some(task) = self.slot_of(call).and_then(|slot| self.task_ref(slot)) {
            return Some((task.meta.code, task.meta.hash));
        }
        self.history.find(call).or_else(|| self.short_log.find(call))
    }

    /// To all neighbours but one that live, and to those beside us where some do not.
    pub(super) fn propagate(&mut self, message: &Message, except: u32) {
        for i in 0..self.setup.neighbours.len() {
            let to = self.setup.neighbours[i];
            if to != except && !self.is_gone(to) {
                self.queue(to, message.clone());
            }
        }
        for to in self.living_beside().into_iter().flatten() {
            if to != except && !self.is_neighbour(to) {
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

    /// Acknowledges bytes of `to` in the operation in `slot`: in an acknowledgement that is queued and not sent yet, or else in a new one. (Out of
    /// line: few arrivals fill a portion.)
    #[inline(never)]
    pub(super) fn acknowledge(&mut self, slot: u8, to: u32, bytes: u64) {
        let Some(call) = self.task_ref(slot).map(|task| task.meta.call) else { return };
        let unsent = self.outbox.iter_mut().rev().take(ACK_SEARCH_MESSAGES).find_map(|queued| {
            match &mut queued.message {
                Message::Ack { call: of, bytes } if (queued.to, *of) == (to, call) => Some(bytes),
                _ => None,
            }
        });
        match unsent {
            Some(before) => *before = before.saturating_add(bytes),
            None => self.queue_for(slot, to, Message::Ack { call, bytes }),
        }
    }

    /// A message that the operation in `slot` waited for has left, or nothing can take it any more.
    pub(super) fn left(&mut self, slot: Option<u8>) {
        let task = slot.and_then(|slot| self.tasks.get_mut(usize::from(slot))?.as_mut());
        if let Some(task) = task {
            task.unsent = task.unsent.saturating_sub(1);
        }
    }

    pub(super) fn is_neighbour(&self, rank: u32) -> bool {
        self.setup.neighbours.binary_search(&rank).is_ok()
    }
}
