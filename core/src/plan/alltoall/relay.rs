//! Alltoall by collecting and forwarding: what [`circulant`](super::circulant), [`bruck`](super::bruck),
//! `hypercube`, `mesh` and [`ring`](super::ring) share.
//!
//! All ranks do the same relative to their own place. So a block is known by its *label*, the way from its
//! source to its destination as an element of a `Group`; in each round every rank puts the blocks of a
//! fixed list of labels one hop further, all in one message. An algorithm is its group and these lists.
//!
//! A message lands in a range of `Land` of its own (nothing is written twice), in the order of its list,
//! and bumps the counter of its round. What is not contiguous at its sender is packed in `Work` first, by
//! copies that bump counter R + round, of R rounds; lowering leaves them out where a put gathers. At the receiver what has
//! reached its destination is copied out. A message of one block goes right to its place.

use super::matrix::check_size;
use crate::error::{Result, argument};
use crate::plan::registry::Arguments;
use crate::plan::registry::cost::{Path, float};
use crate::plan::{MAX_COUNTERS, NO_COUNTER, Place, Plan, Region, Sizes, Step, Wait};
use std::collections::BTreeMap;

/// Rounds in lock-step, of this many blocks; packing and unpacking.
pub(super) fn cost(a: &Arguments, rounds: impl Iterator<Item = (u32, f64)>, path: &mut Path<'_>) {
    let bytes = float(a.bytes);
    for (distance, blocks) in rounds {
        path.hop(distance, 1.0, blocks * bytes);
    }
    if a.size > 2 {
        path.copy(f64::from(a.size) * bytes);
    }
}

/// Messages of more runs than this are one copy for each round that they came in, in an outline. Chosen, above what any wire gathers
/// (16): copies that a put saves are as they are.
const MAX_EXACT_RUNS: usize = 16;

/// How ranks and labels add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Mod p.
    Cyclic,
    /// Bit by bit; p is a power of two.
    Xor,
    /// Rows and columns of a torus with this many columns, each mod their number.
    Torus(u32),
}

impl Group {
    /// The rank one step `by` away from `rank`, of `size`.
    fn add(self, size: u32, rank: u32, by: u32) -> u32 {
        let cyclic = |a: u32, b: u32, n: u32| if a < n - b { a + b } else { a - (n - b) };
        match self {
            Self::Cyclic => cyclic(rank, by, size),
            Self::Xor => rank ^ by,
            Self::Torus(columns) => {
                let column = cyclic(rank % columns, by % columns, columns);
                cyclic(rank / columns, by / columns, size / columns) * columns + column
            }
        }
    }

    /// The rank from which `by` leads to `rank`.
    fn sub(self, size: u32, rank: u32, by: u32) -> u32 {
        let cyclic = |a: u32, b: u32, n: u32| if a >= b { a - b } else { a + (n - b) };
        match self {
            Self::Cyclic => cyclic(rank, by, size),
            Self::Xor => rank ^ by,
            Self::Torus(columns) => {
                let column = cyclic(rank % columns, by % columns, columns);
                cyclic(rank / columns, by / columns, size / columns) * columns + column
            }
        }
    }
}

/// Where a rank has a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// In its input: it is its own, with this label.
    Input(u32),
    /// It came in this round, at this block of the message.
    Land(u32, u64),
}

/// One round, the same for all ranks.
#[derive(Clone, Debug)]
struct Round {
    /// The hop.
    by: u32,
    /// The message: where its blocks are taken from, and how many neighbours with it.
    runs: Vec<(Held, u64)>,
    /// Blocks of the message.
    blocks: u64,
    /// Where it lands and where it is packed, in blocks.
    land: u64,
    work: u64,
    /// What has arrived for good: (block of the message, label).
    last: Vec<(u64, u32)>,
    /// In an outline, of a message of many runs: the arrivals that they wait for, and for each of these how many blocks do.
    outline: Vec<(Wait, u64)>,
}

impl Round {
    /// The arrivals that the runs of its message wait for, and for each of these how many blocks do.
    fn outline(&self) -> Vec<(Wait, u64)> {
        let mut blocks = BTreeMap::new();
        for (held, run) in &self.runs {
            let came = if let Held::Land(round, _) = held { Some(*round) } else { None };
            *blocks.entry(came).or_insert(0) += run;
        }
        blocks.into_iter().map(|(came, blocks)| (came.map_or(Wait::NONE, Wait::once), blocks)).collect()
    }
}

/// An alltoall by collecting and forwarding.
#[derive(Clone, Debug)]
pub struct Relay {
    name: &'static str,
    size: u32,
    count: u64,
    group: Group,
    rounds: Vec<Round>,
    /// Blocks of `Land` and `Work`.
    land: u64,
    work: u64,
    /// It is an outline.
    outlined: bool,
}

/// Makes a [`Relay`], round by round.
pub(super) struct Builder {
    relay: Relay,
    /// By label: where a rank has the block with that label.
    held: Vec<Held>,
    /// Where messages of neighbours in the input are packed at the rank where they are not contiguous, and how many blocks have room
    /// there. Two of them have no label in common, so at a rank at most one goes round the end of the input.
    wrapped: Option<(u64, u64)>,
}

impl Builder {
    pub(super) fn new(name: &'static str, size: u32, count: u64, group: Group) -> Result<Self> {
        check_size(size)?;
        let relay = Relay { name, size, count, group, rounds: Vec::new(), land: 0, work: 0, outlined: false };
        Ok(Self { relay, held: (0..size).map(Held::Input).collect(), wrapped: None })
    }

    /// A round: the blocks of `labels` move by `by`; those for which `last` holds are then where they belong.
    pub(super) fn round(&mut self, by: u32, labels: impl Iterator<Item = u32>, last: impl Fn(u32) -> bool) {
        let relay = &mut self.relay;
        let number = u32::try_from(relay.rounds.len()).unwrap_or(u32::MAX);
        let mut round = Round {
            by,
            runs: Vec::new(),
            blocks: 0,
            land: relay.land,
            work: relay.work,
            last: Vec::new(),
            outline: Vec::new(),
        };
        for label in labels {
            let held = &mut self.held[label as usize];
            let follows = |(first, blocks): (Held, u64)| match (first, *held) {
                (Held::Input(a), Held::Input(b)) => u64::from(a) + blocks == u64::from(b),
                (Held::Land(i, a), Held::Land(j, b)) => i == j && a + blocks == b,
                _ => false,
            };
            match round.runs.last_mut() {
                Some(run) if follows(*run) => run.1 += 1,
                _ => round.runs.push((*held, 1)),
            }
            if last(label) {
                round.last.push((round.blocks, label));
            }
            *held = Held::Land(number, round.blocks);
            round.blocks += 1;
        }
        relay.land += round.blocks;
        // Input may be contiguous at one rank and not at another.
        let may_wrap = matches!(round.runs[..], [(Held::Input(_), 2..)]);
        match self.wrapped {
            Some((work, room)) if may_wrap && round.blocks <= room => round.work = work,
            _ if may_wrap || round.runs.len() > 1 => relay.work += round.blocks,
            _ => {}
        }
        if may_wrap && relay.group == Group::Cyclic {
            self.wrapped = self.wrapped.max(Some((round.work, round.blocks)));
        }
        relay.rounds.push(round);
    }

    pub(super) fn build(self) -> Result<Relay> {
        let relay = self.relay;
        if relay.rounds.len() * 2 > MAX_COUNTERS as usize {
            return Err(argument(format!("the {} alltoall among {} ranks", relay.name, relay.size))
                .help("direct takes more"));
        }
        let most = relay.land.max(relay.size.into());
        if relay.count.checked_mul(most).is_none() {
            return Err(argument(format!("{most} blocks of {} bytes are beyond 2^64 bytes", relay.count)));
        }
        Ok(relay)
    }
}

impl Relay {
    /// Blocks that a rank puts, and gets: the volume.
    pub fn blocks(&self) -> u64 {
        self.land
    }

    fn place(&self, region: Region, block: u64) -> Place {
        Place::new(region, block * self.count)
    }

    fn counter(round: usize) -> u32 {
        u32::try_from(round).unwrap_or(NO_COUNTER)
    }

    /// Where `rank` takes the message of a round from: contiguous places, in order.
    fn parts(&self, rank: u32, round: &Round) -> Vec<(Place, u64, Wait)> {
        let mut out: Vec<(Place, u64, Wait)> = Vec::with_capacity(round.runs.len() + 1);
        for &(held, blocks) in &round.runs {
            match held {
                Held::Land(i, at) => {
                    let at = self.rounds[i as usize].land + at;
                    out.push((self.place(Region::Land, at), blocks * self.count, Wait::once(i)));
                }
                Held::Input(label) if self.group == Group::Cyclic => {
                    let first = self.group.add(self.size, rank, label);
                    let head = blocks.min(u64::from(self.size - first));
                    for (to, blocks) in
                        [(first, head), (0, blocks - head)].into_iter().filter(|run| run.1 > 0)
                    {
                        let place = self.place(Region::Input, to.into());
                        out.push((place, blocks * self.count, Wait::NONE));
                    }
                }
                Held::Input(label) => {
                    let begin = out.len();
                    for label in (label..).take(usize::try_from(blocks).unwrap_or(usize::MAX)) {
                        let to = self.group.add(self.size, rank, label);
                        let place = self.place(Region::Input, to.into());
                        match out[begin..].last_mut() {
                            Some((at, len, _)) if at.offset + *len == place.offset => *len += self.count,
                            _ => out.push((place, self.count, Wait::NONE)),
                        }
                    }
                }
            }
        }
        out
    }

    /// Where the message of a round leaves from and goes to; both sides ask this.
    fn message(&self, parts: &[(Place, u64, Wait)], to: u32, round: &Round) -> (Place, Place) {
        let source = match parts {
            [(place, ..)] => *place,
            _ => self.place(Region::Work, round.work),
        };
        (source, self.target(to, round))
    }

    /// Where the message of a round lands at `to`.
    fn target(&self, to: u32, round: &Round) -> Place {
        match (round.blocks, &round.last[..]) {
            (1, &[(_, label)]) => self.place(Region::Output, self.group.sub(self.size, to, label).into()),
            _ => self.place(Region::Land, round.land),
        }
    }

    /// As [`Relay::round`], of a message that is outlined: as many bytes are packed after the same rounds.
    fn outlined(&self, rank: u32, i: usize) -> impl Iterator<Item = Step> {
        let (round, now) = (&self.rounds[i], Self::counter(i));
        let (to, from) =
            (self.group.add(self.size, rank, round.by), self.group.sub(self.size, rank, round.by));
        let (len, packed) = (round.blocks * self.count, Self::counter(self.rounds.len() + i));
        let work = self.place(Region::Work, round.work);
        // From the output, where nothing is that a put gathers.
        let copies = round.outline.iter().map(move |&(wait, blocks)| {
            let (from, waits) = (self.place(Region::Output, 0), [wait, Wait::NONE]);
            Step::copy(now, from, work, blocks * self.count, waits, packed)
        });
        let at_least = u32::try_from(round.outline.len()).unwrap_or(u32::MAX);
        let put =
            Step::put(now, to, work, self.target(to, round), len, Wait { counter: packed, at_least }, now);
        copies.chain([put, Step::expect(now, from, work, self.target(rank, round), len, now)])
    }

    fn round(&self, rank: u32, i: usize) -> impl Iterator<Item = Step> {
        let (round, now) = (&self.rounds[i], Self::counter(i));
        let (to, from) =
            (self.group.add(self.size, rank, round.by), self.group.sub(self.size, rank, round.by));
        let (len, parts) = (round.blocks * self.count, self.parts(rank, round));
        let (source, target) = self.message(&parts, to, round);
        let packed = Self::counter(self.rounds.len() + i);
        let wait = match parts[..] {
            [(.., wait)] => wait,
            _ => Wait { counter: packed, at_least: u32::try_from(parts.len()).unwrap_or(u32::MAX) },
        };
        let put = Step::put(now, to, source, target, len, wait, now);
        let packs = if parts.len() > 1 { parts } else { Vec::new() };
        let packs = packs.into_iter().scan(source, move |at, (place, len, wait)| {
            let copy = Step::copy(now, place, *at, len, [wait, Wait::NONE], packed);
            at.offset += len;
            Some(copy)
        });
        let (source, target) = self.message(&self.parts(from, round), rank, round);
        packs.chain([put, Step::expect(now, from, source, target, len, now)])
    }

    /// The copies of what came in a round for good.
    fn unpack(&self, rank: u32, i: usize) -> impl Iterator<Item = Step> {
        let round = &self.rounds[i];
        let last = if round.blocks > 1 { &round.last[..] } else { &[] };
        let (copies, blocks) = match last.len() as u64 {
            all if self.outlined && last.len() > MAX_EXACT_RUNS => (1, all),
            all => (all, 1),
        };
        let copies = last.iter().take(usize::try_from(copies).unwrap_or(usize::MAX));
        copies.map(move |&(at, label)| {
            let from = self.group.sub(self.size, rank, label);
            let source = self.place(Region::Land, round.land + at);
            let target = self.place(Region::Output, from.into());
            let waits = [Wait::once(Self::counter(i)), Wait::NONE];
            Step::copy(self.rounds(), source, target, blocks * self.count, waits, NO_COUNTER)
        })
    }
}

impl Plan for Relay {
    fn algorithm(&self) -> &'static str {
        self.name
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn rounds(&self) -> u32 {
        Self::counter(self.rounds.len())
    }

    fn counters(&self, _rank: u32) -> u32 {
        2 * self.rounds()
    }

    fn sizes(&self, _rank: u32) -> Sizes {
        let all = u64::from(self.size) * self.count;
        Sizes { input: all, output: all, work: self.work * self.count, land: self.land * self.count }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        if self.count == 0 {
            return Box::new(std::iter::empty());
        }
        let (from, to) = (self.place(Region::Input, rank.into()), self.place(Region::Output, rank.into()));
        let last = self.rounds().saturating_sub(1);
        let own = Step::copy(last, from, to, self.count, [Wait::NONE; 2], NO_COUNTER);
        let exact = move |i: usize| self.rounds[i].outline.is_empty().then(|| self.round(rank, i));
        let outlined = move |i: usize| (!self.rounds[i].outline.is_empty()).then(|| self.outlined(rank, i));
        let rounds = (0..self.rounds.len())
            .flat_map(move |i| exact(i).into_iter().flatten().chain(outlined(i).into_iter().flatten()));
        let unpacks = (0..self.rounds.len()).flat_map(move |i| self.unpack(rank, i));
        Box::new(rounds.chain([own]).chain(unpacks))
    }

    fn outline(&self) -> Option<Box<dyn Plan>> {
        let many = |round: &Round| round.runs.len() > MAX_EXACT_RUNS;
        if !self.rounds.iter().any(|round| many(round) || round.last.len() > MAX_EXACT_RUNS) {
            return None;
        }
        let rounds = self.rounds.iter().map(|round| match many(round) {
            true => Round { outline: round.outline(), runs: Vec::new(), ..round.clone() },
            false => round.clone(),
        });
        Some(Box::new(Self { rounds: rounds.collect(), outlined: true, ..self.clone() }))
    }
}
