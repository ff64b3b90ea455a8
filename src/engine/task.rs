//! One operation in flight: a program, its counters and its queues. Everything is allocated when the task
//! is made; running it, and running it again, allocates nothing.

use crate::buffer::{Binding, Grant};
use crate::ops::Reducer;
use crate::plan::lower::{Expected, OpKind, Program};
use crate::plan::{NO_COUNTER, Region};
use crate::record::EventKind;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::description::Describe;
use super::message::{CallId, Message, pair_hash, word};
use super::pace::Pace;
use super::ready_ops::ReadyOps;
use super::recorder::{At, Label, Recorder};
use super::setup::Setup;
use super::time::Since;
use crate::transport::Clock;

/// What is known of one peer during one run.
#[derive(Clone, Debug)]
pub(crate) struct PeerState {
    pub world_rank: u32,
    /// Where its bytes go, from the beginning of our output and of our landing memory; and how many it sends and gets (or
    /// any number that stands for that at both). All 0 where the plan has them.
    pub landing: [u64; 2],
    pub received: u64,
    pub sent: u64,
    /// Its ready message: the word of counter 0, output and landing memory. None: no put by rendezvous yet.
    pub ready: Option<(u32, Grant, Grant)>,
    /// Of a persistent operation: output and landing memory, from when it was bound.
    pub known: Option<(Grant, Grant)>,
    /// Bytes of ours that it has not acknowledged; below 0 when a receiver credited puts before they came.
    pub outstanding: i64,
    /// Bytes of its that we have not acknowledged.
    pub owed: u64,
    /// We have asked for its ready message.
    pub requested: bool,
    /// The op that may go with the last put to it, as it was ready then and is of the same round: the rest of a message.
    pub rest: Option<u32>,
    /// The transport refused the last put to it.
    pub stalled: bool,
    /// The longest put, in bytes, that goes eagerly between this peer and us while its target is not ready. A target sends no ready message if all puts to it from the
    /// other are together no longer.
    pub eager_limit: u64,
    /// Ops that may go as soon as the peer and the window allow; lowest first.
    pub(super) postable: ReadyOps,
}

/// Which call this is and what it is called.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meta {
    pub name: &'static str,
    pub code: u8,
    pub call: CallId,
    pub hash: u64,
    pub rounds: u32,
    /// Of the message or vector, or of all blocks, where all ranks know that alike; else 0.
    pub bytes: u64,
}

/// What the arrival of a put meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    /// None was awaited.
    Astray,
    Counted,
    /// So many bytes are to be acknowledged to this world rank.
    Due(u32, u64),
}

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// A peer in this call.
    Call,
    /// A peer that is ready to receive.
    Entry,
    /// That a peer has taken what was sent.
    Acknowledgement,
    /// Bytes of a round.
    Bytes { len: u64, round: u32 },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call => f.write_str("it has not come to this call"),
            Self::Entry => f.write_str("it has not entered the operation"),
            Self::Acknowledgement => f.write_str("it does not acknowledge what was sent"),
            Self::Bytes { len, round } => write!(f, "{len} bytes of round {round} did not come"),
        }
    }
}

/// A program with the state of one run.
#[derive(Debug)]
pub(crate) struct Task {
    pub program: Arc<Program>,
    pub meta: Meta,
    /// What the recorder's events say of it.
    pub(super) label: Label,
    pub binding: Binding,
    /// The arguments as text, for ranks that called with others.
    pub arguments: Option<Arc<dyn Describe>>,
    /// The operator; none in operations that do not reduce.
    pub reducer: Option<Reducer>,
    pub counters: Vec<u32>,
    pub waits_left: Vec<u32>,
    /// By op, in operations that reduce: its source is combined on arrival, piece by piece.
    pub combined: Vec<bool>,
    pub peers: Vec<PeerState>,
    /// They are in the order of their world ranks, as they mostly are.
    sorted: bool,
    /// Copies and notifies that may go.
    pub(super) local: ReadyOps,
    pub arrivals_left: u64,
    pub ops_left: usize,
    /// Messages of this operation that the transport has yet to take.
    pub unsent: usize,
    /// Bytes of ours that are not acknowledged yet (the sum over the peers), and how many these may be.
    pub outstanding: i64,
    pub(super) window: u64,
    /// A peer's bytes are acknowledged in portions of this size.
    pub(super) portion: u64,
    /// The number of its counter 0 in words: those below are of operations that ended half way in the same slot.
    pub(super) base: u32,
    /// When the call began, in ticks, where calls are timed; 0: this one is not.
    pub(super) begun: u64,
    /// Bytes that it has put to nodes of other groups.
    pub(super) global_bytes: u64,
    /// Peers know where to put from an earlier binding.
    pub persistent: bool,
    /// Ready messages carry what only the two ranks of a pair know (alltoallv).
    pub pairwise: bool,
    /// All puts, and their bytes.
    pub puts: u64,
    pub volume: u64,
    pub(super) pace: Pace,
    /// Since when puts wait for those before them; `None`: they do not.
    pub(super) ordered: Option<Since>,
}

impl Task {
    /// A task for `program`; `world_rank` translates the program's ranks.
    pub(crate) fn new(program: Arc<Program>, world_rank: impl Fn(u32) -> u32) -> Box<Self> {
        let mut per_peer = vec![0usize; program.peers.len()];
        let (mut local, mut puts, mut volume) = (0, 0, 0u64);
        for op in &program.ops {
            match op.kind {
                OpKind::Put => {
                    per_peer[op.peer as usize] += 1;
                    puts += 1;
                    volume = volume.saturating_add(op.len);
                }
                OpKind::Notify | OpKind::Copy | OpKind::Reduce(_) => local += 1,
            }
        }
        let peers: Vec<_> = program
            .peers
            .iter()
            .zip(&per_peer)
            .map(|(p, n)| PeerState {
                world_rank: world_rank(p.rank),
                landing: [0; 2],
                received: 0,
                sent: 0,
                ready: None,
                known: None,
                outstanding: 0,
                owed: 0,
                requested: false,
                rest: None,
                stalled: false,
                eager_limit: 0,
                postable: ReadyOps::with_capacity(*n),
            })
            .collect();
        Box::new(Self {
            sorted: peers.is_sorted_by_key(|p| p.world_rank),
            peers,
            meta: Meta::default(),
            label: Label::default(),
            binding: Binding::NONE,
            arguments: None,
            reducer: None,
            counters: vec![0; program.counters()],
            waits_left: vec![0; program.ops.len()],
            combined: vec![false; if program.folds.is_empty() { 0 } else { program.ops.len() }],
            local: ReadyOps::with_capacity(local),
            arrivals_left: 0,
            ops_left: 0,
            unsent: 0,
            outstanding: 0,
            window: 0,
            portion: 0,
            base: 0,
            begun: 0,
            global_bytes: 0,
            persistent: false,
            pairwise: false,
            puts,
            volume,
            pace: Pace::new(&program),
            ordered: None,
            program,
        })
    }

    /// What no other rank knows: for each peer, by its rank in the program, where its bytes go from the
    /// beginning of our output and of our landing memory, how many these are, and how many it gets of us.
    pub(crate) fn pairwise(&mut self, of: impl Fn(u32) -> ([u64; 2], u64, u64)) {
        self.pairwise = true;
        for (state, peer) in self.peers.iter_mut().zip(&self.program.peers) {
            (state.landing, state.received, state.sent) = of(peer.rank);
        }
    }

    /// A new call.
    pub(crate) fn call(&mut self, meta: Meta) {
        self.meta = meta;
        self.label = Label::new(meta.code, &meta.call);
    }

    /// New memory and a new call, with no op ready.
    pub(crate) fn clear(&mut self, meta: Meta, binding: Binding) {
        self.call(meta);
        self.binding = binding;
        self.counters.fill(0);
        self.combined.fill(false);
        self.arrivals_left = 0;
        self.ops_left = 0;
        self.unsent = 0;
        self.outstanding = 0;
        self.global_bytes = 0;
        self.local.clear();
        for p in &mut self.peers {
            p.ready = None;
            p.requested = false;
            p.rest = None;
            p.outstanding = 0;
            p.owed = 0;
            p.postable.clear();
        }
    }

    /// New memory and a new call, ready to run.
    pub(crate) fn reset(&mut self, meta: Meta, binding: Binding, setup: &Setup) {
        self.clear(meta, binding);
        let (flow, folds) = (&setup.flow, self.reducer.is_some());
        self.window = setup.window(folds);
        self.portion = setup.acknowledge_at(folds, self.program.fan_out, self.meta.bytes);
        self.ordered = (self.volume > flow.window / 4).then(Since::default);
        self.arrivals_left = self.program.arrivals;
        self.pace.reset(flow, folds, (self.puts, self.volume));
        self.ops_left = self.program.ops.len();
        // Lowering numbers ops by u32.
        for (op, i) in (0u32..).zip(0..self.program.ops.len()) {
            self.waits_left[i] = self.program.ops[i].waits;
            if self.waits_left[i] == 0 {
                self.enqueue(op);
            }
        }
    }

    fn enqueue(&mut self, op: u32) {
        let o = &self.program.ops[op as usize];
        match o.kind {
            OpKind::Put => self.peers[o.peer as usize].postable.push(op),
            OpKind::Notify | OpKind::Copy | OpKind::Reduce(_) => self.local.push(op),
        }
    }

    /// The index of the peer that has yet to increment `counter`, if one has.
    #[inline]
    pub(crate) fn awaits(&self, counter: u32) -> Option<usize> {
        let expected = self.program.expected.get(counter as usize)?;
        let more = self.counters[counter as usize] < expected.arrivals && self.arrivals_left > 0;
        (expected.peer != NO_COUNTER && more).then_some(expected.peer as usize)
    }

    /// A put arrived with `counter`. The puts of one counter may be of different lengths: the first credits them all, because credit
    /// that lags behind what arrived could hold the sender back for good.
    #[inline(always)]
    pub(super) fn delivered(&mut self, counter: u32, recorder: &mut Recorder) -> Delivered {
        let c = counter as usize;
        let Some(expected) = self.program.expected.get(c) else { return Delivered::Astray };
        let Some(count) = self.counters.get_mut(c) else { return Delivered::Astray };
        if *count >= expected.arrivals || self.arrivals_left == 0 {
            return Delivered::Astray;
        }
        // A counter that no peer increments is of no peer.
        let Some(peer) = self.peers.get_mut(expected.peer as usize) else { return Delivered::Astray };
        let (from, round) = (peer.world_rank, expected.round);
        recorder.add(EventKind::Arrive, &self.label, At { peer: from, round, block: counter });
        let bytes = if *count == 0 { expected.len } else { 0 };
        *count += 1;
        self.arrivals_left -= 1;
        self.pace.came(round);
        let owed = peer.owed.saturating_add(bytes);
        let due = owed >= self.portion;
        peer.owed = if due { 0 } else { owed };
        let count = *count;
        self.reached(c, count);
        if due { Delivered::Due(from, owed) } else { Delivered::Counted }
    }

    /// A notify arrived with `counter`, as [`Task::awaits`] has said.
    pub(super) fn notified(&mut self, counter: u32) -> At {
        let Expected { peer, round, .. } = self.program.expected[counter as usize];
        self.arrivals_left = self.arrivals_left.saturating_sub(1);
        self.pace.came(round);
        self.bump(counter);
        At { peer: self.peers[peer as usize].world_rank, round, block: counter }
    }

    /// A put of `len` bytes in `round` to peer `peer`, the first that was ready, is posted.
    #[inline(always)]
    pub(crate) fn posted(&mut self, peer: usize, round: u32, len: u64) {
        // Bytes of memory, which are far fewer than 2^63 all together.
        let len = len.cast_signed();
        let peer = &mut self.peers[peer];
        peer.postable.first_is_gone();
        let is_rest = |op: &u32| self.program.ops[*op as usize].round == round;
        peer.rest = peer.postable.first().filter(is_rest);
        peer.outstanding = peer.outstanding.wrapping_add(len);
        self.outstanding = self.outstanding.wrapping_add(len);
    }

    /// Counter `counter` grows by one: ops that waited for that become ready.
    pub(crate) fn bump(&mut self, counter: u32) {
        if counter == NO_COUNTER {
            return;
        }
        let c = counter as usize;
        self.counters[c] += 1;
        self.reached(c, self.counters[c]);
    }

    /// Counter `c` has reached `count`: ops that waited for that become ready.
    #[inline(always)]
    fn reached(&mut self, c: usize, count: u32) {
        let Some(&[from, to]) = self.program.waiter_start.get(c..c + 2) else { return };
        for w in from..to {
            let (at, op) = self.program.waiters[w as usize];
            if at == count {
                self.waits_left[op as usize] -= 1;
                if self.waits_left[op as usize] == 0 {
                    self.enqueue(op);
                }
            }
        }
    }

    /// Everything sent, moved and received.
    pub(crate) fn finished(&self) -> bool {
        self.ops_left == 0 && self.arrivals_left == 0 && self.unsent == 0
    }

    /// Whether puts still wait for those before them, whose targets have not entered.
    pub(super) fn keeps_order(&mut self, timeout: Duration, clock: &Clock) -> bool {
        let Some(mut since) = self.ordered else { return false };
        if self.all_ready() || since.lasts(clock.now()) >= timeout {
            self.ordered = None;
            return false;
        }
        self.ordered = Some(since);
        true
    }

    /// Whether all peers that we put to are ready.
    pub(crate) fn all_ready(&self) -> bool {
        self.peers.iter().zip(&self.program.peers).all(|(p, q)| !q.we_put || p.ready.is_some())
    }

    /// The peer with this world rank.
    pub(crate) fn peer_index(&self, world_rank: u32) -> Option<usize> {
        match self.sorted {
            true => self.peers.binary_search_by_key(&world_rank, |p| p.world_rank).ok(),
            false => self.peers.iter().position(|p| p.world_rank == world_rank),
        }
    }

    /// The counter of the lowest round that peers have yet to increment, and what is expected of it.
    fn late(&self) -> Option<(usize, &Expected)> {
        let late = |(c, e): &(usize, &Expected)| e.peer != NO_COUNTER && self.counters[*c] < e.arrivals;
        self.program.expected.iter().enumerate().filter(late).min_by_key(|(_, e)| e.round)
    }

    /// The counter of what has not come, if it is [`Missing::Bytes`].
    pub(super) fn missing_block(&self) -> Option<u32> {
        self.late().and_then(|(c, _)| u32::try_from(c).ok())
    }

    /// The first thing that is still missing: peer's world rank, round, what. Allocates nothing: a wait asks for the peer, too.
    pub(crate) fn missing(&self) -> Option<(u32, u32, Missing)> {
        let p = &self.program;
        if let Some((_, e)) = self.late() {
            let peer = self.peers[e.peer as usize].world_rank;
            return Some((peer, e.round, Missing::Bytes { len: e.len, round: e.round }));
        }
        for (i, peer) in self.peers.iter().enumerate() {
            if let Some(op) = peer.postable.first() {
                let round = p.ops[op as usize].round;
                let absent = peer.ready.is_none() && p.peers[i].we_put;
                let what = if absent { Missing::Entry } else { Missing::Acknowledgement };
                return Some((peer.world_rank, round, what));
            }
        }
        None
    }

    /// Whether all bytes to (`out`) or from peer `index` go eagerly, so that no ready message is sent.
    pub(super) fn all_eager(&self, index: usize, out: bool) -> bool {
        let peer = &self.program.peers[index];
        (if out { peer.bytes_out } else { peer.bytes_in }) <= self.peers[index].eager_limit
    }

    /// Whether a ready message of peer `index` will come that none of our puts has waited for.
    pub(super) fn ready_comes_late(&self, index: usize) -> bool {
        self.program.peers[index].we_put && self.peers[index].ready.is_none() && !self.all_eager(index, true)
    }

    /// The ready message of the operation in `slot` for peer `index`.
    pub(super) fn ready_message(&self, slot: u8, index: usize) -> Message {
        let (call, code, peer) = (self.meta.call, self.meta.code, &self.peers[index]);
        let hash = pair_hash(self.meta.hash, peer.received);
        let word = word(slot, self.base);
        if self.persistent {
            return Message::ReadyAgain { call, word, code, hash };
        }
        let from = |grant: Grant, at: u64| Grant { address: grant.address.wrapping_add(at), ..grant };
        let [output, land] = peer.landing;
        let output = from(self.binding.region(Region::Output).grant(), output);
        let land = from(self.binding.region(Region::Land).grant(), land);
        Message::Ready { call, word, code, hash, output, land }
    }
}
