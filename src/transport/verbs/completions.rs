//! What completed: puts and messages of ours, puts and messages of peers, datagrams; and what failed.

use super::endpoint::Verbs;
use super::handshake::Kind;
use super::library::{check, error, low, made};
use super::requests::{DATAGRAM_RECEIVED, DATAGRAM_SENT, SENT, What};
use super::wire::Hello;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::{MESSAGE_MAX, Sink};
use libfabric_sys::verbs as ib;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Completions that one call of `ibv_poll_cq` reads. Chosen: 768 bytes on the stack.
const MAX_COMPLETIONS: i32 = 16;
/// Such calls per poll. Chosen, as libfabric's (`fabric/endpoint.rs`).
const MAX_READS: usize = 8;
/// Polls that find nothing after which the device is asked for events, which is a system call. Chosen, so that the call
/// is a small part of polling.
const POLLS_PER_EVENT: u32 = 4096;
/// While handshakes are under way a wait sleeps no longer, so that what was lost is sent again: as `FIRST_WAIT`
/// (`handshake.rs`).
const HANDSHAKE_SLEEP: Duration = Duration::from_millis(20);

impl Verbs {
    /// Posts what is listed, delivers what completed, and goes on with handshakes.
    pub(super) fn progress(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        self.post_lists();
        let mut happened = self.copied.len();
        while let Some(token) = self.copied.pop_front() {
            sink.done(token);
        }
        if let Some(woken) = self.woken.take() {
            happened += 1;
            self.completed(&woken, sink)?;
        }
        happened += self.read(sink)?;
        // SAFETY: the queue is there and has room for all; buffers live until it is destroyed.
        unsafe { self.receives.post(self.objects.srq, false)? };
        if self.connecting > 0 {
            self.handshakes(Instant::now());
        }
        if !self.to_say.is_empty() {
            happened += self.say_lost(sink);
        }
        match happened {
            0 => {
                self.quiet = self.quiet.wrapping_add(1);
                if self.quiet.is_multiple_of(POLLS_PER_EVENT) {
                    self.events(sink)?;
                }
            }
            _ => self.quiet = 0,
        }
        self.idle_policy.polled(happened);
        Ok(happened)
    }

    /// Reads and delivers completions.
    fn read(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        let mut happened = 0;
        let mut entries = [const { MaybeUninit::<ib::ibv_wc>::uninit() }; MAX_COMPLETIONS as usize];
        for _ in 0..MAX_READS {
            // SAFETY: the queue is there, and there is room for MAX_COMPLETIONS entries.
            let n = unsafe { ib::ibv_poll_cq(self.objects.cq, MAX_COMPLETIONS, entries.as_mut_ptr().cast()) };
            let Ok(n) = usize::try_from(n) else {
                return Err(error("reading completions", n));
            };
            for entry in entries.iter().take(n) {
                // SAFETY: ibv_poll_cq filled the first n.
                self.completed(unsafe { entry.assume_init_ref() }, sink)?;
            }
            happened += n;
            if n < entries.len() {
                break;
            }
        }
        Ok(happened)
    }

    fn completed(&mut self, wc: &ib::ibv_wc, sink: &mut dyn Sink) -> Result<()> {
        let number = low(wc.wr_id);
        if wc.wr_id & SENT != 0 {
            let at = ((wc.wr_id & !SENT) >> 32) as usize;
            self.sent(at, number, wc, sink);
            return Ok(());
        }
        if wc.wr_id & DATAGRAM_SENT != 0 {
            self.datagrams.sent(number);
            return Ok(());
        }
        if wc.wr_id & DATAGRAM_RECEIVED != 0 {
            return self.datagram(wc, number);
        }
        if wc.status == ib::IBV_WC_SUCCESS {
            if self.connecting > 0 {
                self.heard(wc.qp_num);
            }
            if wc.opcode == ib::IBV_WC_RECV_RDMA_WITH_IMM {
                // SAFETY: both fields of the union are numbers of 32 bits.
                sink.arrival(u32::from_be(unsafe { wc.__bindgen_anon_1.imm_data }));
            } else {
                let len = (wc.byte_len as usize).min(MESSAGE_MAX);
                // SAFETY: this receive is complete, so its first `len` bytes are written, and the device writes there only
                // when it is posted again, below.
                sink.message(unsafe { std::slice::from_raw_parts(self.receive_buffer(number), len) });
            }
        } else if let Some(at) = self.peers.of_queue_pair(wc.qp_num) {
            self.lose(at, self.failure(wc, "receiving from it"));
        } else {
            let why = self.failure(wc, "receiving");
            sink.lost(None, &why);
        }
        self.receives.again(number);
        Ok(())
    }

    /// The request `number` to the peer at `at` is complete, and those before it.
    fn sent(&mut self, at: usize, number: u32, wc: &ib::ibv_wc, sink: &mut dyn Sink) {
        let failed = wc.status != ib::IBV_WC_SUCCESS;
        let Self { peers, free_messages, .. } = self;
        let Some(peer) = peers.all.get_mut(at) else { return };
        let lost = peer.lost.is_some();
        let Some(link) = &mut peer.link else { return };
        self.under_way -= link.queue.complete(number, |request, what| match what {
            What::Nothing | What::End => {}
            What::Message(slot) => free_messages.push(slot),
            // What failed is not done, and neither is what follows it.
            What::Put(_) if lost || (failed && request == number) => {}
            What::Put(token) => sink.done(token),
        });
        if failed && !lost {
            self.lose(at, self.failure(wc, "a put or a message to it"));
        }
    }

    /// What a failed completion means.
    #[cold]
    fn failure(&self, wc: &ib::ibv_wc, what: &str) -> String {
        let status = self.objects.device.lib.status(wc.status);
        let means = match wc.status {
            ib::IBV_WC_RETRY_EXC_ERR => ": it did not acknowledge; it, or the way to it, is gone",
            ib::IBV_WC_REM_ACCESS_ERR => ": it does not know the key, or the range is outside its memory",
            ib::IBV_WC_REM_INV_REQ_ERR | ib::IBV_WC_REM_OP_ERR => ": it cannot do what was asked for",
            ib::IBV_WC_LOC_PROT_ERR => ": memory of this rank is not registered any more",
            ib::IBV_WC_LOC_QP_OP_ERR => {
                ": the device of this rank cannot send; it, or the network interface under it, is down or gone"
            }
            ib::IBV_WC_WR_FLUSH_ERR => ": the connection has ended",
            _ => "",
        };
        match wc.vendor_err {
            0 => format!("{what} failed: {status}{means}"),
            vendor => format!("{what} failed: {status} (vendor error {vendor:#x}){means}"),
        }
    }

    /// The peer at `at` cannot be reached any more; the next poll says so.
    pub(super) fn lose(&mut self, at: usize, why: String) {
        if self.give_up(at, why) {
            self.to_say.push(at);
        }
    }

    /// Nothing more is posted to the peer at `at`, and nothing to it is said to be done. Returns false if it was so before.
    pub(super) fn give_up(&mut self, at: usize, why: String) -> bool {
        let peer = &mut self.peers.all[at];
        if peer.lost.is_some() {
            return false;
        }
        if peer.link.as_ref().is_some_and(|l| !l.handshake.ready()) {
            self.connecting -= 1;
        }
        peer.lost = Some(why);
        true
    }

    fn say_lost(&mut self, sink: &mut dyn Sink) -> usize {
        let mut said = 0;
        while let Some(at) = self.to_say.pop() {
            let peer = &self.peers.all[at];
            sink.lost(Some(peer.rank), peer.lost.as_deref().unwrap_or_default());
            said += 1;
        }
        said
    }

    /// Something came over the queue pair of this number: its other end is ready.
    fn heard(&mut self, queue_pair: u32) {
        let Some(at) = self.peers.of_queue_pair(queue_pair) else { return };
        let peer = &mut self.peers.all[at];
        if let (Some(link), None) = (&mut peer.link, &peer.lost)
            && !link.handshake.ready()
        {
            link.handshake.heard();
            self.connecting -= 1;
        }
    }

    /// A message of the handshake.
    fn datagram(&mut self, wc: &ib::ibv_wc, number: u32) -> Result<()> {
        let came = match wc.status {
            ib::IBV_WC_SUCCESS => self.datagrams.received(number, wc.byte_len),
            _ => None,
        };
        self.datagrams.receive(number)?;
        // What is none, or for another endpoint, is not looked at.
        let Some(hello) = came.and_then(|bytes| Hello::decode(&bytes)) else { return Ok(()) };
        if hello.nonce != self.card.nonce || hello.rank as usize >= self.size {
            return Ok(());
        }
        let at = match self.peers.place(hello.rank) {
            Some(at) => at,
            None => self.peers.add(hello.rank, hello.card),
        };
        if self.peers.all[at].card == hello.card && self.peers.all[at].lost.is_none() {
            self.hello(at, &hello);
        }
        Ok(())
    }

    fn hello(&mut self, at: usize, hello: &Hello) {
        if self.peers.all[at].link.is_none()
            && let Err(e) = self.make_link(at, Instant::now())
        {
            self.lose(at, e.message().to_owned());
        }
        let peer = &mut self.peers.all[at];
        let Some(link) = &mut peer.link else { return };
        let before = link.handshake.ready();
        let then = link.handshake.received(hello.kind, hello.end);
        if link.handshake.ready() && !before {
            self.connecting -= 1;
        }
        if let Some(theirs) = then.connect {
            let ends = (link.handshake.ours, theirs);
            // SAFETY: the queue pair was made for this peer; the handshake connects once.
            if let Err(e) = unsafe { self.objects.connect(link.qp, &peer.card, ends, self.card.mtu) } {
                return self.lose(at, e.message().to_owned());
            }
        }
        if let Some(kind) = then.answer {
            self.say(at, kind);
        }
    }

    /// Sends a message of the handshake to the peer at `at`.
    fn say(&mut self, at: usize, kind: Kind) {
        if let Err(e) = self.try_say(at, kind) {
            self.lose(at, e.message().to_owned());
        }
    }

    fn try_say(&mut self, at: usize, kind: Kind) -> Result<()> {
        let (rank, peer) = (self.rank, &mut self.peers.all[at]);
        let Some(link) = &peer.link else { return Ok(()) };
        if peer.ah.is_null() {
            let mut path = self.objects.path(&peer.card);
            // SAFETY: the protection domain is there; the path is copied.
            let ah = unsafe { self.objects.device.lib.ibv_create_ah(self.objects.pd, &mut path) };
            peer.ah = made("finding the way to it", ah)?;
        }
        let hello = Hello { kind, rank, nonce: peer.card.nonce, end: link.handshake.ours, card: self.card };
        // SAFETY: the way was just made, or is kept until the endpoint is closed.
        unsafe { self.datagrams.send(peer.ah, &peer.card, &hello.encode()) }
    }

    /// Sends again what was not answered in time.
    pub(super) fn handshakes(&mut self, now: Instant) {
        for at in 0..self.peers.all.len() {
            let peer = &mut self.peers.all[at];
            if let (Some(link), None) = (&mut peer.link, &peer.lost)
                && let Some(kind) = link.handshake.due(now)
            {
                self.say(at, kind);
            }
        }
    }

    /// Reads the device's events.
    fn events(&mut self, sink: &mut dyn Sink) -> Result<()> {
        let lib = self.objects.device.lib;
        let mut event = MaybeUninit::<ib::ibv_async_event>::uninit();
        // SAFETY: the context is open and its file does not block; the event is read only when there is one, and acknowledged.
        while unsafe { lib.ibv_get_async_event(self.objects.device.context, event.as_mut_ptr()) } == 0 {
            // SAFETY: filled, as the call answered 0.
            let mut event = unsafe { event.assume_init() };
            // SAFETY: events of these types are of a queue pair, which is only compared.
            let qp = unsafe { event.element.qp };
            let words = lib.event(event.event_type);
            // SAFETY: read above, and not acknowledged yet.
            unsafe { lib.ibv_ack_async_event(&mut event) };
            match event.event_type {
                ib::IBV_EVENT_QP_FATAL | ib::IBV_EVENT_QP_REQ_ERR | ib::IBV_EVENT_QP_ACCESS_ERR => {
                    let is = |l: &super::peers::Link| l.qp == qp;
                    if let Some(at) = self.peers.all.iter().position(|p| p.link.as_ref().is_some_and(is)) {
                        self.lose(at, format!("the connection to it failed: {words}"));
                    }
                }
                ib::IBV_EVENT_DEVICE_FATAL | ib::IBV_EVENT_CQ_ERR | ib::IBV_EVENT_SRQ_ERR => {
                    let name = &self.objects.device.name;
                    let what = format!("the device {name} has failed, or was taken away: {words}");
                    return Err(Error::new(ErrorKind::Transport, what).over(super::NAME));
                }
                _ => tracing::debug!("{}: {words}", self.objects.device.name),
            }
        }
        self.say_lost(sink);
        Ok(())
    }

    /// Takes all that the completion channel says, also what it said while nothing slept: else the next sleep would end at once.
    fn take_channel_events(&self) {
        let lib = self.objects.device.lib;
        let (mut cq, mut context, mut taken) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
        // SAFETY: the channel is there and its file does not block; its events are of the one completion queue, where as many are
        // acknowledged as were taken.
        unsafe {
            while lib.ibv_get_cq_event(self.objects.channel, &mut cq, &mut context) == 0 {
                taken += 1;
            }
            if taken > 0 {
                lib.ibv_ack_cq_events(self.objects.cq, taken);
            }
        }
    }

    /// Sleeps until something completes, for `longest` at most.
    pub(super) fn sleep(&mut self, longest: Duration) {
        if self.woken.is_some() || !self.copied.is_empty() || !self.dirty.is_empty() {
            return;
        }
        let longest = if self.connecting > 0 { longest.min(HANDSHAKE_SLEEP) } else { longest };
        // SAFETY: the queue is there.
        if check("arming", unsafe { ib::ibv_req_notify_cq(self.objects.cq, 0) }).is_err() {
            return; // the next poll finds out why
        }
        // What came before it was armed wakes no thread.
        let mut entry = MaybeUninit::<ib::ibv_wc>::uninit();
        // SAFETY: the queue is there, and there is room for one entry.
        if unsafe { ib::ibv_poll_cq(self.objects.cq, 1, entry.as_mut_ptr()) } == 1 {
            // SAFETY: filled, as the call answered 1.
            self.woken = Some(unsafe { entry.assume_init() });
            return;
        }
        // SAFETY: both are open as long as this endpoint.
        let files = unsafe { [(*self.objects.channel).fd, (*self.objects.device.context).async_fd] };
        let mut files = files.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        let milliseconds = i32::try_from(longest.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
        // SAFETY: an array of two.
        let n = unsafe { libc::poll(files.as_mut_ptr(), 2, milliseconds) };
        if n > 0 && files[0].revents & libc::POLLIN != 0 {
            self.take_channel_events();
        }
        if n > 0 && files[1].revents != 0 {
            // The next poll that finds nothing asks for events.
            self.quiet = POLLS_PER_EVENT - 1;
        }
    }
}
