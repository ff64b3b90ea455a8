//! One rank's end of the wire that is checked: an endpoint, memory of its own, and what both have seen.

use super::finding::Check;
use super::note::Note;
use super::puts::{ANSWER_FROM, AREA_BYTES, Put, UNTOUCHED, asks, message_lengths, pattern, puts};
use super::seen::{Awaited, Seen};
use crate::buffer::{Arena, Binding, Block, Bound, Destination, Grant, Wire, put, write};
use crate::comm::wireup::Wired;
use crate::error::{Error, ErrorKind, Result};
use crate::launch::Launch;
use crate::plan::lower::Segment;
use crate::plan::{Place, Region};
use crate::transport::{Borrow, Limits, Posted, Transport};
use std::collections::VecDeque;
use std::io::Write;
use std::time::{Duration, Instant};

/// The longest rest between two polls. Chosen, to leave the core to other ranks.
const REST: Duration = Duration::from_millis(1);

/// See the [module](self).
pub(super) struct End {
    pub(super) rank: u32,
    pub(super) limits: Limits,
    transport: Option<Box<dyn Transport>>,
    arena: Arena,
    _memory: Block,
    /// Where peers put, and its name.
    area: Bound,
    pub(super) seen: Seen,
    outbox: VecDeque<(u32, Vec<u8>)>,
    /// What peers have said that is not an answer of ours.
    pub(super) inbox: VecDeque<(u32, Note)>,
    /// Where a peer wants its puts back.
    echo: Option<(u32, Grant)>,
    /// Puts and messages that were refused for now.
    pub(super) refused: u64,
    next_token: u64,
    pub(super) timeout: Duration,
    /// Of those that leave the wire as it is this check alone is made.
    pub(super) only: Option<Check>,
}

impl End {
    /// Connects to the neighbours; also says which these are.
    pub(super) fn open(rank: u32, wired: Wired, timeout: Duration) -> Result<(Self, Vec<u32>)> {
        let (endpoint, neighbours, addresses) = wired.parts()?;
        let mut transport =
            endpoint.ok_or_else(|| Error::new(ErrorKind::Argument, "one rank has no wire"))?;
        for (peer, address) in neighbours.iter().zip(&addresses) {
            transport.connect(*peer, address)?;
        }
        let arena = Arena::default();
        let memory = arena.alloc(2 * AREA_BYTES, Some(transport.as_mut()))?;
        let whole = memory.bound(2 * AREA_BYTES);
        let (area, sources) = whole.halves();
        let of = Binding::of_output;
        let end = Self {
            rank,
            limits: transport.limits().clone(),
            transport: Some(transport),
            arena,
            _memory: memory,
            area,
            seen: Seen::new(of(area), of(sources)),
            outbox: VecDeque::new(),
            inbox: VecDeque::new(),
            echo: None,
            refused: 0,
            next_token: 0,
            timeout,
            only: None,
        };
        Ok((end, neighbours))
    }

    /// Our memory from byte `at`, as peers name it.
    pub(super) fn grant(&self, at: usize) -> Grant {
        Grant { address: self.area.grant().address + at as u64, ..self.area.grant() }
    }

    /// Fills the area with bytes that no put has put there.
    pub(super) fn clear(&mut self) {
        // As long as the area.
        let _ = write(&self.seen.area, Place::new(Region::Output, 0), &vec![UNTOUCHED; AREA_BYTES]);
    }

    /// Sends a message as soon as that is taken.
    pub(super) fn send(&mut self, to: u32, note: &Note) {
        self.outbox.push_back((to, note.encode(self.rank)));
    }

    /// Fails if the peer is lost, or the endpoint.
    pub(super) fn alive(&self, peer: u32) -> Result<(), String> {
        match (self.seen.lost.get(&peer), &self.seen.failed) {
            (Some(why), _) | (None, Some(why)) => Err(why.clone()),
            (None, None) => Ok(()),
        }
    }

    /// Makes a put: writes its bytes and posts it, as soon as it is taken. A poll is made only where it is not.
    pub(super) fn put(&mut self, to: u32, there: Grant, made: Put) -> Result<(), String> {
        let bytes = pattern(made.word, made.len);
        let (mut segments, mut taken) = (Vec::with_capacity(made.pieces), 0);
        for (at, len) in made.pieces() {
            let place = Place::new(Region::Output, at as u64);
            write(&self.seen.sources, place, &bytes[taken..taken + len]).map_err(|e| e.to_string())?;
            segments.push(Segment { place, len: len as u64 });
            taken += len;
        }
        self.next_token += 1;
        let token = self.next_token;
        let address = there.address + made.at as u64;
        let to_there = Destination { peer: to, address, key: there.key, word: made.word };
        let give_up = Instant::now() + self.timeout;
        loop {
            let Some(transport) = self.transport.as_deref_mut() else {
                return Err("it is closed".to_owned());
            };
            // Before it is posted: a put may be done in the call.
            self.seen.under_way.insert(token, made);
            let posted = put(transport, &self.seen.sources, &segments, to_there, token);
            if !matches!(posted, Ok(Posted::Yes)) {
                self.seen.under_way.remove(&token);
            }
            match posted {
                Ok(Posted::Yes) => return Ok(()),
                Ok(Posted::Again) => self.refused += 1,
                Err(e) => return Err(format!("a put is refused for good: {e}")),
            }
            self.alive(to)?;
            if Instant::now() > give_up {
                return Err(format!("a put is not taken within {} s", self.timeout.as_secs_f64()));
            }
            self.turn();
        }
    }

    /// Moves all on: polls, serves peers, sends what is to be sent.
    pub(super) fn turn(&mut self) {
        let Some(transport) = self.transport.as_deref_mut() else { return std::thread::sleep(REST) };
        transport.flush();
        let came = match transport.poll(&mut self.seen) {
            Ok(came) => came,
            Err(e) => {
                self.seen.failed.get_or_insert_with(|| e.to_string());
                0
            }
        };
        while let Some((to, bytes)) = self.outbox.front() {
            match transport.message(*to, bytes) {
                Ok(Posted::Again) => break,
                Ok(Posted::Yes) => {}
                Err(e) => drop(self.seen.lost.entry(*to).or_insert_with(|| e.to_string())),
            }
            self.outbox.pop_front();
        }
        if came == 0 && self.outbox.is_empty() {
            transport.idle(REST);
        }
        self.serve();
    }

    /// Answers what peers ask.
    fn serve(&mut self) {
        while let Some(bytes) = self.seen.messages.pop_front() {
            match Note::decode(&bytes) {
                Some((from, Note::Prepare(check, theirs))) => self.prepare(from, check, theirs),
                Some((from, Note::Ask)) => self.tell(from),
                Some((from, Note::Filling(bytes))) => self.filled(from, &bytes),
                Some(other) => self.inbox.push_back(other),
                None => drop(self.seen.failed.get_or_insert_with(|| "a message was damaged".to_owned())),
            }
        }
        if let Some(awaited) = self.seen.awaited.as_ref().filter(|a| !a.told && a.is_complete()) {
            self.tell(awaited.from);
        }
        let asked = self.seen.others.iter().position(|word| asks(*word));
        if let (Some((to, there)), Some(at)) = (self.echo, asked)
            && let Some(word) = self.seen.others.remove(at)
        {
            // What goes wrong shows at the rank that waits for it.
            let _ = self.put(to, there, Put { word: !word, at: 0, len: 8, pieces: 1, from: ANSWER_FROM });
        }
    }

    fn prepare(&mut self, from: u32, check: Check, theirs: Grant) {
        self.clear();
        self.echo = (check == Check::Times).then_some((from, theirs));
        self.seen.awaited = Some(Awaited::new(from, check, puts(check, &self.limits)));
        self.send(from, &Note::Ready(self.grant(0)));
    }

    fn filled(&mut self, from: u32, bytes: &[u8]) {
        let Some(awaited) = self.seen.awaited.as_mut().filter(|a| a.from == from) else { return };
        awaited.count += 1;
        if bytes != pattern(0, bytes.len()) {
            awaited.complain(format!("a message of {} bytes was damaged", bytes.len()));
        }
    }

    /// Tells `from` what has come of its puts.
    fn tell(&mut self, from: u32) {
        let Some(awaited) = self.seen.awaited.as_mut().filter(|a| a.from == from) else { return };
        awaited.told = true;
        let (overtaken, wrong) = (awaited.overtaken, awaited.judge(&self.seen.area));
        let check = awaited.check;
        let missing = match check {
            Check::Messages => message_lengths(&self.limits).len().saturating_sub(awaited.count),
            _ => awaited.missing(),
        };
        self.send(from, &Note::Verdict { check, overtaken, missing: missing as u64, wrong });
    }

    /// Waits until `over`, at most until `give_up`; says whether it was.
    pub(super) fn until(&mut self, give_up: Instant, mut over: impl FnMut(&mut Self) -> bool) -> bool {
        while !over(self) {
            if Instant::now() > give_up {
                return false;
            }
            self.turn();
        }
        true
    }

    /// Waits for what `peer` says, and that `wanted` takes.
    pub(super) fn hear<R>(
        &mut self,
        peer: u32,
        wait: Duration,
        wanted: impl Fn(&Note) -> Option<R>,
    ) -> Option<R> {
        let give_up = Instant::now() + wait;
        let mut found = None;
        self.until(give_up, |end| {
            while found.is_none()
                && let Some((from, note)) = end.inbox.pop_front()
            {
                found = wanted(&note).filter(|_| from == peer);
            }
            found.is_some() || end.alive(peer).is_err()
        });
        found
    }

    /// Waits for all ranks, and moves all on meanwhile.
    pub(super) fn fence(&mut self, launch: &mut dyn Launch) -> Result<()> {
        let give_up = Instant::now() + self.timeout;
        // What was said last must leave.
        self.until(give_up, |end| end.outbox.is_empty());
        if !launch.start_fence()? {
            let timeout = self.timeout;
            return std::thread::scope(|scope| {
                let waits = scope.spawn(move || launch.fence(timeout));
                while !waits.is_finished() {
                    self.turn();
                }
                waits.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Launch, "the fence panicked")))
            });
        }
        while !launch.test_fence()? {
            if Instant::now() > give_up {
                return Err(Error::new(ErrorKind::Timeout, "not all ranks came to a fence of the checks"));
            }
            self.turn();
        }
        Ok(())
    }

    /// Words that came and that no put had which was awaited then.
    pub(super) fn strays(&self) -> Option<String> {
        let first = self.seen.others.front()?;
        let count = self.seen.others.len();
        Some(format!("{count} words arrived that no put had, or a second time; the first is {first:#x}"))
    }

    /// The memory that is registered for as long as the endpoint is open.
    pub(super) fn arena(&self) -> Arena {
        self.arena.clone()
    }

    /// Ends all traffic: in order, or as after a failure.
    pub(super) fn close(&mut self, orderly: bool) -> Result<()> {
        let Some(mut transport) = self.transport.take() else { return Ok(()) };
        let closed = if orderly { transport.close() } else { transport.abort() };
        if closed.is_err() {
            // Peers may still reach it.
            std::mem::forget(self.arena.clone());
            std::mem::forget(transport);
        }
        closed
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // An error of it leaks what peers may reach.
        let _ = self.close(false);
    }
}

impl Wire for End {
    fn transport(&mut self) -> Option<&mut (dyn Transport + 'static)> {
        self.transport.as_deref_mut()
    }

    fn borrow_mode(&self, _len: usize) -> Borrow {
        self.limits.borrow
    }

    fn fail(&mut self, error: Error) -> Error {
        self.shut();
        error
    }

    fn shut(&mut self) {
        if let Err(e) = self.close(false) {
            // Returning would hand memory back that a peer can still reach.
            let rank = self.rank;
            let _ = writeln!(
                std::io::stderr(),
                "circulant: rank {rank}: {e}; aborting to protect borrowed memory"
            );
            std::process::abort();
        }
    }

    fn copied(&mut self, _bytes: usize) {}
}
