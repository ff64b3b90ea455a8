//! What a rank sees of the wire: every arrival is judged when it is announced, in the provider's own call.

use super::finding::Check;
use super::puts::{GUARD_BYTES, OVERWRITTEN, Put, UNTOUCHED, pattern};
use crate::buffer::{Binding, read, write};
use crate::plan::{Place, Region};
use crate::transport::Sink;
use std::collections::{HashMap, VecDeque};

/// The most complaints of one check. Chosen, so that they can be read.
const MAX_COMPLAINTS: usize = 4;

/// The puts of a peer that are awaited.
#[derive(Debug)]
pub(super) struct Awaited {
    pub(super) from: u32,
    pub(super) check: Check,
    puts: Vec<Put>,
    by_word: HashMap<u32, usize>,
    came: Vec<u32>,
    /// Puts, or messages, that came.
    pub(super) count: usize,
    pub(super) overtaken: u64,
    latest: usize,
    wrong: Vec<String>,
    pub(super) told: bool,
}

impl Awaited {
    pub(super) fn new(from: u32, check: Check, puts: Vec<Put>) -> Self {
        let by_word = puts.iter().enumerate().map(|(i, put)| (put.word, i)).collect();
        let came = vec![0; puts.len()];
        Self {
            from,
            check,
            puts,
            by_word,
            came,
            count: 0,
            overtaken: 0,
            latest: 0,
            wrong: Vec::new(),
            told: false,
        }
    }

    pub(super) fn complain(&mut self, what: String) {
        if self.wrong.len() < MAX_COMPLAINTS {
            self.wrong.push(what);
        }
    }

    /// Whether all puts have come.
    pub(super) fn is_complete(&self) -> bool {
        !self.puts.is_empty() && self.missing() == 0
    }

    /// How many puts have not come.
    pub(super) fn missing(&self) -> usize {
        self.came.iter().filter(|n| **n == 0).count()
    }

    /// What is wrong; nothing: all is well. Looks at what lies between the puts.
    pub(super) fn judge(&mut self, area: &Binding) -> String {
        for put in self.puts.clone() {
            for at in [put.at - GUARD_BYTES, put.at + put.len] {
                if bytes(area, at, GUARD_BYTES).iter().any(|b| *b != UNTOUCHED) {
                    self.complain(format!("bytes beside a put of {} were changed", put.len));
                }
            }
        }
        self.wrong.join("; ")
    }

    fn arrival(&mut self, index: usize, area: &Binding) {
        let put = self.puts[index];
        self.count += 1;
        self.came[index] += 1;
        if self.came[index] > 1 {
            return self.complain(format!("the word {:#x} arrived {} times", put.word, self.came[index]));
        }
        self.overtaken += u64::from(index < self.latest);
        self.latest = self.latest.max(index);
        let (found, wanted) = (bytes(area, put.at, put.len), pattern(put.word, put.len));
        if let Some(at) = (0..put.len).find(|i| found[*i] != wanted[*i]) {
            let why = match found[at] {
                UNTOUCHED => "is not there yet",
                OVERWRITTEN => "was read after the put was said to be done",
                _ => "is another one",
            };
            self.complain(format!("byte {at} of a put of {} {why} when it is announced", put.len));
        }
    }
}

/// `len` bytes of an area, from `at`.
pub(super) fn bytes(area: &Binding, at: usize, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    match read(area, Place::new(Region::Output, at as u64), &mut out) {
        Ok(()) => out,
        // Outside of it, where no put of ours is: nothing that was put.
        Err(_) => vec![!UNTOUCHED; len],
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Seen {
    /// Where peers put.
    pub(super) area: Binding,
    /// Where our puts are made from.
    pub(super) sources: Binding,
    pub(super) awaited: Option<Awaited>,
    /// Words that no put which is awaited has.
    pub(super) others: VecDeque<u32>,
    /// Our puts that are not done, by their tokens.
    pub(super) under_way: HashMap<u64, Put>,
    pub(super) messages: VecDeque<Vec<u8>>,
    pub(super) lost: HashMap<u32, String>,
    /// What failed, not known at which peer.
    pub(super) failed: Option<String>,
}

impl Seen {
    pub(super) fn new(area: Binding, sources: Binding) -> Self {
        Self {
            area,
            sources,
            awaited: None,
            others: VecDeque::new(),
            under_way: HashMap::new(),
            messages: VecDeque::new(),
            lost: HashMap::new(),
            failed: None,
        }
    }
}

impl Sink for Seen {
    fn arrival(&mut self, word: u32) {
        let awaited = self.awaited.as_mut();
        match awaited.and_then(|a| a.by_word.get(&word).copied().map(|index| (a, index))) {
            Some((awaited, index)) => awaited.arrival(index, &self.area),
            None => self.others.push_back(word),
        }
    }

    fn done(&mut self, token: u64) {
        let Some(put) = self.under_way.remove(&token) else { return };
        for (at, len) in put.pieces() {
            // Within the area, as the put was.
            let _ = write(&self.sources, Place::new(Region::Output, at as u64), &vec![OVERWRITTEN; len]);
        }
    }

    fn message(&mut self, bytes: &[u8]) {
        self.messages.push_back(bytes.to_vec());
    }

    fn lost(&mut self, peer: Option<u32>, why: &str) {
        match peer {
            Some(peer) => drop(self.lost.entry(peer).or_insert_with(|| why.to_owned())),
            None => drop(self.failed.get_or_insert_with(|| why.to_owned())),
        }
    }
}
