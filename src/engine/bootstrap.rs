//! Start-up on the wire: connect the neighbours, and test on the way that notified puts work.
//!
//! Connections are lazy and need both sides to progress, so each rank says hello to all its neighbours while
//! it polls. Each hello grants a few bytes; the answer is a put of a known pattern with a notify
//! word: a provider whose words do not arrive, or arrive before their data, is found out here.

use super::core::{Core, Hello, TOKEN_TEST};
use super::driver::Engine;
use super::locations::{Locations, REACH};
use super::message::{Message, WORD_TEST};
use super::waiting::{LONG_REST, SHORT_REST, ranks};
use crate::buffer::{Arena, Binding, Block, Destination, Grant, put};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::lower::Segment;
use crate::plan::{Place, Region};
use crate::transport::{Limits, Posted};
use std::collections::HashMap;
use std::time::Duration;
use tracing::level_filters::LevelFilter;

/// Bytes of one self-test put.
const TEST_PUT_BYTES: usize = 64;

/// What neighbours check of this rank at start-up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    /// Differs between machines (and process-number spaces).
    pub(crate) host: u64,
    /// Digest of all that ranks must agree on.
    pub(crate) agreed: u64,
}

fn pattern(from: u32, to: u32) -> [u8; TEST_PUT_BYTES] {
    let seed = from.wrapping_mul(31) ^ to.wrapping_mul(7);
    std::array::from_fn(|i| seed.to_le_bytes()[i % 4] ^ i.to_le_bytes()[0])
}

impl Engine {
    /// Says where we and our neighbours are, for errors.
    pub(crate) fn locate(&mut self, own: String, others: HashMap<u32, String>) {
        self.core.locations = Locations { own, others };
    }

    /// Connects to the neighbours at `addresses` (in the order of the setup) and tests the wire to each.
    /// Returns the (rank, process) of those on our host.
    ///
    /// # Errors
    /// After `deadline`, naming a rank that did not answer; when a test put does not arrive or arrives damaged; when
    /// a neighbour runs with other settings.
    pub(crate) fn connect(
        &mut self,
        addresses: &[Vec<u8>],
        me: Identity,
        arena: &Arena,
        deadline: Duration,
    ) -> Result<Vec<(u32, u32)>> {
        let neighbours = self.core.setup.neighbours.clone();
        let n = neighbours.len();
        self.core.reserve_eager(&neighbours);
        let Some(transport) = self.transport.as_deref_mut() else { return Ok(Vec::new()) };
        for (peer, address) in neighbours.iter().zip(addresses) {
            transport.connect(*peer, address)?;
            self.connected.insert(*peer);
        }
        // The first half receives, the second half is what we send.
        let block = arena.alloc(2 * n * TEST_PUT_BYTES, Some(transport))?;
        let whole = block.bound(2 * n * TEST_PUT_BYTES);
        self.write_patterns(&block, &neighbours);
        for (i, peer) in neighbours.iter().enumerate() {
            let test = Grant {
                address: whole.grant().address + (i * TEST_PUT_BYTES) as u64,
                key: whole.grant().key,
            };
            let hello = Message::Hello { test, pid: me.pid, host: me.host, agreed: me.agreed };
            self.core.queue(*peer, hello);
        }
        let binding = Binding::of_output(whole);
        self.exchange(&neighbours, &binding, deadline)
            .map_err(|e| self.core.locations.named_in(e, self.core.setup.rank))?;
        let mut seen = vec![0; n * TEST_PUT_BYTES];
        block.read(&mut seen);
        for (peer, got) in neighbours.iter().zip(seen.chunks(TEST_PUT_BYTES)) {
            if got != pattern(*peer, self.core.setup.rank) {
                return Err(
                    self.broken_wire(*peer, "its self-test put was announced before its bytes were there")
                );
            }
        }
        let mut same_host = Vec::new();
        for peer in &neighbours {
            let Some(hello) = self.core.hellos.get(peer) else { continue };
            if hello.agreed != me.agreed {
                return Err(Error::new(
                    ErrorKind::Mismatch,
                    format!("rank {peer} runs with other settings, another version or another provider"),
                )
                .with_peer(*peer as usize)
                .help("start all ranks with the same binary and CIRCULANT_ variables"));
            }
            if hello.host == me.host {
                same_host.push((*peer, hello.pid));
            }
        }
        Ok(same_host)
    }

    /// Ends a world that never began because of `error`: the neighbours that can be reached are told.
    pub(crate) fn tell(&mut self, addresses: &[Vec<u8>], error: Error) -> Error {
        for (peer, address) in self.core.setup.neighbours.iter().zip(addresses) {
            if let Some(t) = &mut self.transport {
                // A neighbour that cannot be reached cannot be told.
                let _ = t.connect(*peer, address);
            }
        }
        self.fail(error)
    }

    fn write_patterns(&self, block: &Block, neighbours: &[u32]) {
        let n = neighbours.len();
        for (i, peer) in neighbours.iter().enumerate() {
            block.write_at((n + i) * TEST_PUT_BYTES, &pattern(self.core.setup.rank, *peer));
        }
    }

    fn exchange(&mut self, neighbours: &[u32], binding: &Binding, deadline: Duration) -> Result<()> {
        let n = neighbours.len();
        let mut put_to = vec![false; n];
        let begun = self.clock.now();
        let give_up = begun + deadline.min(crate::config::FOR_EVER);
        let mut warn_at = begun + self.core.setup.warn_after;
        loop {
            let events = self.progress()?;
            let (mut complete, mut refused) = (true, false);
            for (i, peer) in neighbours.iter().enumerate() {
                if !put_to[i] {
                    if let Some(hello) = self.core.hellos.get(peer).copied() {
                        put_to[i] = self.test_put(*peer, hello, binding, n + i)?;
                        refused |= !put_to[i];
                    }
                    complete &= put_to[i];
                }
                complete &= self.core.tested.contains(peer);
            }
            if complete && self.core.tests_sent >= n && self.core.outbox.is_empty() {
                return Ok(());
            }
            if self.core.failure.is_some() {
                return Err(self.fail_as_reported());
            }
            let now = self.clock.now();
            if now > give_up {
                return Err(self.start_timeout(neighbours, deadline));
            }
            if now > warn_at {
                warn_at = now + self.core.setup.warn_after;
                self.warn_of_start(neighbours, now.duration_since(begun));
            }
            if let Some(e) = self.check_liveness(now) {
                return Err(e);
            }
            if events == 0 {
                let pending = refused || self.core.refused || !self.core.outbox.is_empty();
                self.idle(if pending { SHORT_REST } else { LONG_REST });
            }
        }
    }

    fn test_put(&mut self, peer: u32, hello: Hello, binding: &Binding, index: usize) -> Result<bool> {
        let Some(transport) = self.transport.as_deref_mut() else { return Ok(true) };
        let place = Place::new(Region::Output, (index * TEST_PUT_BYTES) as u64);
        let to = Destination {
            peer,
            address: hello.test.address,
            key: hello.test.key,
            word: WORD_TEST | (self.core.setup.rank & 0x00FF_FFFF),
        };
        let posted =
            put(transport, binding, &[Segment { place, len: TEST_PUT_BYTES as u64 }], to, TOKEN_TEST)?;
        Ok(posted == Posted::Yes)
    }

    /// Says for which ranks start-up waits.
    fn warn_of_start(&self, neighbours: &[u32], since: Duration) {
        let known = |rank: &&u32| self.core.hellos.contains_key(*rank) && self.core.tested.contains(*rank);
        let waits: Vec<u32> = neighbours.iter().filter(|rank| !known(rank)).copied().collect();
        let of = match waits.as_slice() {
            [] => "its own first puts".to_owned(),
            list => format!("the greeting of {}", ranks(list)),
        };
        let (rank, seconds) = (self.core.setup.rank, since.as_secs());
        let text = format!("start-up waits for {of} for {seconds} s (rank {rank} waits)");
        crate::trace::warn(&text, LevelFilter::WARN);
    }

    fn start_timeout(&self, neighbours: &[u32], deadline: Duration) -> Error {
        let core: &Core = &self.core;
        let mute = neighbours.iter().find(|p| !core.hellos.contains_key(p));
        let untested = neighbours.iter().find(|p| !core.tested.contains(p));
        let named = |p: &u32| self.core.locations.name(*p, false);
        let us = self.core.locations.name(core.setup.rank, true);
        let (peer, what) = match (mute, untested) {
            (Some(p), _) => (Some(*p), format!("{} could not be reached from {us}", named(p))),
            (None, Some(p)) => {
                (Some(*p), format!("the self-test put of {} did not arrive at {us}", named(p)))
            }
            (None, None) => (None, "our self-test puts do not complete".to_owned()),
        };
        let what = format!("{what} within {} s of start-up", deadline.as_secs_f64());
        let mut e = Error::new(ErrorKind::Timeout, what).help(REACH);
        if let Some(p) = peer {
            e = e.with_peer(p as usize);
        }
        e
    }

    fn broken_wire(&self, peer: u32, what: &str) -> Error {
        let provider = self.limits.as_ref().map_or(String::new(), Limits::wire);
        Error::new(ErrorKind::Transport, format!("the wire to rank {peer} failed its test: {what}"))
            .with_peer(peer as usize)
            .over(provider)
            .help("choose another provider (CIRCULANT_PROVIDER)")
    }
}
