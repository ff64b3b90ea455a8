//! The checks after which a connection may be broken: wrong keys, memory that was given back, peers that are gone. Each has endpoints of
//! its own.

use super::end::End;
use super::finding::{Check, Finding, Findings};
use super::note::Note;
use super::puts::{GUARD_BYTES, LONGEST_TRIED_BYTES, Put, UNTOUCHED, word};
use super::seen::bytes;
use crate::buffer::{Grant, Loan, lend};
use crate::error::Result;
use crate::launch::Launch;
use crate::transport::{Borrow, Copier};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Bytes of a put that must be refused: more than hardware sends inline, and than shared memory carries in its rings.
const PUT_BYTES: usize = 5000;
/// Memory for the put of one peer, in bytes: [`PUT_BYTES`] and guards, in whole pages.
const SLOT_BYTES: usize = 8192;
/// How long a refusal is awaited. Chosen: a wire that has not refused by then is said not to tell.
const REFUSAL: Duration = Duration::from_secs(2);
/// How long the end of a peer is awaited of hardware, which asks it again for seconds: 7 times 1.07 s as
/// `transport/verbs/objects.rs` sets `retry_cnt` and `timeout` of a queue pair, and as much again.
const HARDWARE_TELLS: Duration = Duration::from_secs(15);
/// How long of others, whose kernel tells at once or never. Chosen.
const OTHERS_TELL: Duration = Duration::from_secs(2);
/// A bit of keys that is changed for a wrong one: of 32 and of 64 bits.
const WRONG_BIT: u64 = 0x0001_0000;
/// The most puts to a peer that goes. Chosen: some are under way when it goes, whatever the wire's queue.
const MAX_LAST_PUTS: usize = 16;
/// How long a rank moves nothing on before it goes, so that puts to it are under way. Chosen.
const STILL: Duration = Duration::from_millis(300);

/// The put that the rank `from` makes, which must not arrive.
fn forbidden(from: u32, slot: usize) -> Put {
    Put { word: word(from + 1), at: 0, len: PUT_BYTES, pieces: 1, from: slot * SLOT_BYTES }
}

/// The neighbours below us and those above: of each pair the lower rank puts.
fn split(end: &End, neighbours: &[u32]) -> (Vec<u32>, Vec<u32>) {
    neighbours.iter().partition(|peer| **peer < end.rank)
}

/// Tells the `below` where they may put, `apart` bytes from each other, and hears so from those `above`; both have it when it ends.
fn exchange(end: &mut End, below: &[u32], above: &[u32], mine: Grant, apart: usize) -> HashMap<u32, Grant> {
    for (slot, peer) in below.iter().enumerate() {
        let address = mine.address + (slot * apart) as u64;
        end.send(*peer, &Note::Mine(Grant { address, ..mine }));
    }
    let (mut told, mut theirs) = (0, HashMap::new());
    let give_up = Instant::now() + end.timeout;
    end.until(give_up, |end| {
        while let Some((from, note)) = end.inbox.pop_front() {
            match note {
                Note::Mine(there) => {
                    theirs.insert(from, there);
                    end.send(from, &Note::Got);
                }
                Note::Got => told += 1,
                _ => {}
            }
        }
        told >= below.len() && above.iter().all(|peer| theirs.contains_key(peer))
    });
    theirs
}

/// Puts to each of those above what must be refused, and waits until that shows here. Whether anything was written the others find.
fn try_all(end: &mut End, above: &[u32], theirs: &HashMap<u32, Grant>, check: Check, found: &mut Findings) {
    let begun = Instant::now();
    // What is seen here of each, and when.
    let mut seen: HashMap<u32, (String, Duration)> = HashMap::new();
    for (slot, peer) in above.iter().enumerate() {
        let Some(there) = theirs.get(peer) else { continue };
        if let Err(why) = end.put(*peer, *there, forbidden(end.rank, slot)) {
            seen.insert(*peer, (why, begun.elapsed()));
        }
    }
    end.until(begun + REFUSAL.min(end.timeout), |end| note_lost(end, above, begun, &mut seen));
    for peer in above {
        let outcome = match theirs.get(peer) {
            Some(_) => Ok(Vec::new()),
            None => Err("it did not say where its memory is".to_owned()),
        };
        found
            .findings
            .push(told(Finding::new(check, (end.rank, *peer), outcome, begun.elapsed()), seen.get(peer)));
    }
}

/// Notes which of the peers are lost by now, since `begun`; says whether all are.
fn note_lost(end: &End, peers: &[u32], begun: Instant, seen: &mut HashMap<u32, (String, Duration)>) -> bool {
    for peer in peers {
        if let Err(why) = end.alive(*peer) {
            seen.entry(*peer).or_insert_with(|| (why, begun.elapsed()));
        }
    }
    peers.iter().all(|peer| seen.contains_key(peer))
}

/// A finding with what the sender is told, and when.
fn told(finding: Finding, seen: Option<&(String, Duration)>) -> Finding {
    match seen {
        None => Finding { remark: "the sender is not told".to_owned(), ..finding },
        Some((why, time)) => {
            let figures = vec![("told after ms", time.as_secs_f64() * 1e3)];
            Finding { remark: why.clone(), figures, time: *time, ..finding }
        }
    }
}

/// Judges what the ranks below have written to their parts of `memory`, which must be nothing.
fn judge(
    end: &mut End,
    below: &[u32],
    check: Check,
    memory: &dyn Fn(&End, usize) -> Vec<u8>,
    found: &mut Findings,
) {
    for (slot, peer) in below.iter().enumerate() {
        let arrived = end.seen.others.contains(&forbidden(*peer, slot).word);
        let changed = memory(end, slot * SLOT_BYTES).iter().filter(|b| **b != UNTOUCHED).count();
        let what = match (changed, arrived) {
            (0, false) => None,
            (0, true) => Some("its word arrived".to_owned()),
            (n, _) => Some(format!("{n} bytes were written")),
        };
        let mut finding = Finding::new(check, (*peer, end.rank), Ok(Vec::new()), Duration::ZERO);
        match (what, end.limits.borrow) {
            (Some(what), Borrow::Direct) => finding.broken = Some(what),
            (Some(what), Borrow::Staged) => finding.remark = format!("{what}; slices are staged for it"),
            (None, _) => {
                let heard = end.alive(*peer).err().map(|why| format!("its target is told: {why}"));
                finding.remark = heard.unwrap_or_default();
            }
        }
        found.findings.push(finding);
    }
}

/// A put under a key that no rank has given.
pub(super) fn wrong_key(
    end: &mut End,
    launch: &mut dyn Launch,
    neighbours: &[u32],
    found: &mut Findings,
) -> Result<()> {
    let (below, above) = split(end, neighbours);
    let mut theirs = exchange(end, &below, &above, end.grant(GUARD_BYTES), SLOT_BYTES);
    for there in theirs.values_mut() {
        there.key ^= WRONG_BIT;
    }
    end.fence(launch)?;
    try_all(end, &above, &theirs, Check::WrongKey, found);
    end.fence(launch)?;
    let memory = |end: &End, at| bytes(&end.seen.area, GUARD_BYTES + at, SLOT_BYTES);
    judge(end, &below, Check::WrongKey, &memory, found);
    end.close(false)
}

/// A put to a slice whose loan has ended.
pub(super) fn given_back(
    end: &mut End,
    launch: &mut dyn Launch,
    neighbours: &[u32],
    found: &mut Findings,
) -> Result<()> {
    let (below, above) = split(end, neighbours);
    let mut memory = vec![UNTOUCHED; SLOT_BYTES * below.len().max(1)];
    let (arena, loan) = (end.arena(), Loan::Unique { bytes: &mut memory, fill: true });
    let theirs =
        lend(end, &arena, loan, |end, lent| Ok(exchange(end, &below, &above, lent.grant(), SLOT_BYTES)))?;
    end.fence(launch)?;
    try_all(end, &above, &theirs, Check::GivenBack, found);
    end.fence(launch)?;
    let slot = |_: &End, at: usize| memory[at..at + SLOT_BYTES].to_vec();
    judge(end, &below, Check::GivenBack, &slot, found);
    end.close(false)
}

/// Ranks of odd numbers close their endpoints, as a process that is killed has its own closed; the others have puts to them under way,
/// but where a put may not come back then.
pub(super) fn peer_gone(
    end: &mut End,
    launch: &mut dyn Launch,
    neighbours: &[u32],
    found: &mut Findings,
) -> Result<()> {
    let goes = end.rank % 2 == 1;
    let others: Vec<u32> = neighbours.iter().copied().filter(|peer| peer % 2 != end.rank % 2).collect();
    let (tells, hears) = if goes { (&others[..], &[][..]) } else { (&[][..], &others[..]) };
    let theirs = exchange(end, tells, hears, end.grant(0), 0);
    end.fence(launch)?;
    if goes {
        std::thread::sleep(STILL);
        end.close(false)?;
        return end.fence(launch);
    }
    let begun = Instant::now();
    let mut seen = HashMap::new();
    let tried = !end.limits.may_hang;
    for (peer, there) in theirs.iter().filter(|_| tried) {
        if let Err(why) = last_puts(end, *peer, *there) {
            seen.insert(*peer, (why, begun.elapsed()));
        }
    }
    let patience = if end.limits.copier == Copier::Hardware { HARDWARE_TELLS } else { OTHERS_TELL };
    end.until(begun + patience, |end| note_lost(end, hears, begun, &mut seen));
    let closing = Instant::now();
    let closed = end.close(false).map_err(|e| format!("it does not close: {e}"));
    let ms = closing.elapsed().as_secs_f64() * 1e3;
    for (_, time) in seen.values_mut() {
        *time = time.saturating_sub(STILL);
    }
    for peer in hears {
        let finding = Finding::new(
            Check::PeerGone,
            (end.rank, *peer),
            closed.clone().map(|()| Vec::new()),
            begun.elapsed(),
        );
        let mut finding = told(finding, seen.get(peer));
        if !tried {
            finding.remark =
                "no put is tried: it may not come back; a world has a watchdog for that".to_owned();
        }
        finding.figures.push(("closed in ms", ms));
        found.findings.push(finding);
    }
    end.fence(launch)
}

/// Puts that are under way when their target goes.
fn last_puts(end: &mut End, peer: u32, there: Grant) -> Result<(), String> {
    let len = usize::try_from(end.limits.max_put).unwrap_or(usize::MAX).min(LONGEST_TRIED_BYTES);
    for _ in 0..(LONGEST_TRIED_BYTES / len).clamp(1, MAX_LAST_PUTS) {
        end.put(peer, there, Put { word: word(1), at: 0, len, pieces: 1, from: 0 })?;
    }
    Ok(())
}
