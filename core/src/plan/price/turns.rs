//! Puts of one rank to several peers that share its link in turns, as connections share a network adapter.

use super::tape::Tape;
use crate::machine::Machine;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What is on its way, turn by turn.
#[derive(Debug)]
pub(super) struct Turns {
    bytes: u64,
    /// By entry of the tape: bytes that are still to leave, and to come, by [`Stage`].
    to_leave: Vec<u64>,
    to_come: [Vec<u64>; 3],
    /// By rank: its peers in the order of their turns.
    peers: Vec<VecDeque<Peer>>,
}

/// Where bytes of a put come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// A rank's or a node's link in.
    In,
    /// A group's link up.
    Up,
    /// A group's link down.
    Down,
}

/// Puts to one peer that are ready, one after the other.
#[derive(Debug)]
struct Peer {
    rank: u32,
    begun: Option<u32>,
    ready: BinaryHeap<Reverse<u32>>,
}

/// Bytes of a put that leave together.
pub(super) struct Turn {
    pub(super) entry: u32,
    pub(super) bytes: u64,
    pub(super) is_first: bool,
}

impl Turns {
    /// Where links carry puts in turns.
    pub(super) fn new(machine: &Machine, tape: &Tape, groups: bool) -> Option<Self> {
        let bytes = machine.turn_bytes;
        let lengths = || tape.entries.iter().map(|entry| entry.len).collect();
        let in_groups = || if groups { lengths() } else { Vec::new() };
        let peers = || std::iter::repeat_with(VecDeque::new).take(tape.size() as usize).collect();
        (bytes < u64::MAX).then(|| Self {
            bytes: bytes.max(1),
            to_leave: lengths(),
            to_come: [lengths(), in_groups(), in_groups()],
            peers: peers(),
        })
    }

    /// A put of `from` to `to` is ready.
    pub(super) fn is_ready(&mut self, from: u32, to: u32, entry: u32) {
        let peers = &mut self.peers[from as usize];
        match peers.iter_mut().find(|peer| peer.rank == to) {
            Some(peer) => peer.ready.push(Reverse(entry)),
            None => {
                let ready = BinaryHeap::from([Reverse(entry)]);
                peers.push_back(Peer { rank: to, begun: None, ready });
            }
        }
    }

    /// What a rank sends next.
    pub(super) fn next(&mut self, rank: u32) -> Option<Turn> {
        let peers = &mut self.peers[rank as usize];
        let mut peer = peers.pop_front()?;
        let is_first = peer.begun.is_none();
        let entry = peer.begun.take().or_else(|| peer.ready.pop().map(|Reverse(entry)| entry))?;
        let left = &mut self.to_leave[entry as usize];
        let bytes = self.bytes.min(*left);
        *left -= bytes;
        peer.begun = (*left > 0).then_some(entry);
        if peer.begun.is_some() || !peer.ready.is_empty() {
            peers.push_back(peer);
        }
        Some(Turn { entry, bytes, is_first })
    }

    /// The bytes that come next of a put; whether they are its last.
    pub(super) fn come(&mut self, entry: u32, stage: Stage) -> (u64, bool) {
        let left = &mut self.to_come[stage as usize][entry as usize];
        let bytes = self.bytes.min(*left);
        *left -= bytes;
        (bytes, *left == 0)
    }
}
