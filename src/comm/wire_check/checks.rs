//! The checks that one rank makes of the wire to another, which serves them.

use super::end::End;
use super::finding::{Check, Finding};
use super::note::Note;
use super::puts::{ANSWER_AT, ASK_FROM, Put, ROUND_TRIPS, message_lengths, pattern, puts, round_trip};
use crate::buffer::Grant;
use crate::transport::MESSAGE_MAX;
use std::time::{Duration, Instant};

/// Puts are lost if none comes for so long. Chosen: longer than any wire here sends a packet again (1.07 s on verbs).
const PATIENCE: Duration = Duration::from_secs(5);

/// How soon a receiver is asked again. Chosen: well below [`PATIENCE`].
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// What a check came to: figures by their names, or what is wrong.
type Outcome = Result<Vec<(&'static str, f64)>, String>;

/// All checks that leave the wire as it is, from us to `peer`.
pub(super) fn all(end: &mut End, peer: u32) -> Vec<Finding> {
    let timeout = end.timeout;
    let mut found = Vec::new();
    let asked = end.only;
    let wanted = |check: &Check| check.keeps_the_wire() && asked.is_none_or(|only| only == *check);
    for check in Check::ALL.into_iter().filter(wanted) {
        let failed = found.iter().any(|f: &Finding| f.broken.is_some());
        if failed && (check == Check::Times || end.alive(peer).is_err()) {
            break;
        }
        let begun = Instant::now();
        let outcome = one(end, peer, check, timeout);
        found.push(Finding::new(check, (end.rank, peer), outcome, begun.elapsed()));
    }
    found
}

fn one(end: &mut End, peer: u32, check: Check, timeout: Duration) -> Outcome {
    end.alive(peer)?;
    let own = end.grant(ANSWER_AT);
    end.send(peer, &Note::Prepare(check, own));
    let ready = |note: &Note| if let Note::Ready(there) = note { Some(*there) } else { None };
    let Some(there) = end.hear(peer, timeout, ready) else {
        return Err(silent(end, peer, "a message, or its answer, did not arrive"));
    };
    match check {
        Check::Messages => messages(end, peer, timeout),
        Check::Times => times(end, peer, there, timeout),
        _ => posted(end, peer, check, there, timeout),
    }
}

fn silent(end: &End, peer: u32, what: &str) -> String {
    end.alive(peer).err().unwrap_or_else(|| what.to_owned())
}

/// Makes the puts of a check and waits for what the peer says of them, and until all are done.
fn posted(end: &mut End, peer: u32, check: Check, there: Grant, timeout: Duration) -> Outcome {
    let (begun, refused) = (Instant::now(), end.refused);
    let mut first_refusal = None;
    let all = puts(check, &end.limits);
    for (number, made) in all.iter().enumerate() {
        end.put(peer, there, *made)?;
        if first_refusal.is_none() && end.refused > refused {
            first_refusal = Some(number as f64);
        }
    }
    let took = begun.elapsed();
    let overtaken = verdict(end, peer, check, timeout, all.len())?;
    let arrived = begun.elapsed();
    if !end.until(Instant::now() + timeout, |end| end.seen.under_way.is_empty() || end.alive(peer).is_err()) {
        return Err(format!("{} puts arrived and are not said to be done", end.seen.under_way.len()));
    }
    end.alive(peer)?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(match check {
        Check::Words => vec![("overtaken", overtaken as f64)],
        Check::Gather => vec![("pieces", all.last().map_or(0.0, |p| p.pieces as f64))],
        Check::Longest => vec![("bytes", all[0].len as f64), ("ms", ms(arrived))],
        Check::Queue => match first_refusal {
            Some(number) => vec![("refused at first after", number)],
            None => vec![("never refused of", all.len() as f64), ("ms to post", ms(took))],
        },
        _ => Vec::new(),
    })
}

/// How many were overtaken of the puts, or messages, of a check that the peer has seen; waits as long as more come.
fn verdict(end: &mut End, peer: u32, check: Check, timeout: Duration, all: usize) -> Result<u64, String> {
    let said = move |note: &Note| match note {
        Note::Verdict { check: of, overtaken, missing, wrong } if *of == check => {
            Some((*overtaken, *missing, wrong.clone()))
        }
        _ => None,
    };
    // The fewest that were missing, and since when.
    let mut fewest = (u64::MAX, Instant::now());
    let mut heard = end.hear(peer, PATIENCE.min(timeout), said);
    loop {
        end.alive(peer)?;
        match heard {
            Some((.., wrong)) if !wrong.is_empty() => return Err(wrong),
            Some((overtaken, 0, _)) => return Ok(overtaken),
            Some((_, missing, _)) if missing < fewest.0 => fewest = (missing, Instant::now()),
            Some((_, missing, _)) if fewest.1.elapsed() > PATIENCE.min(timeout) => {
                return Err(format!("{missing} of {all} did not arrive"));
            }
            _ => {}
        }
        end.until(Instant::now() + ASK_AGAIN, |_| false);
        end.send(peer, &Note::Ask);
        heard = end.hear(peer, timeout, said);
        if heard.is_none() {
            return Err(silent(end, peer, "the peer does not say what came"));
        }
    }
}

fn messages(end: &mut End, peer: u32, timeout: Duration) -> Outcome {
    let lengths = message_lengths(&end.limits);
    for len in &lengths {
        end.send(peer, &Note::Filling(pattern(0, *len)));
    }
    end.send(peer, &Note::Ask);
    verdict(end, peer, Check::Messages, timeout, lengths.len())?;
    Ok(vec![("bytes", MESSAGE_MAX as f64)])
}

/// Round trips of a put of 8 bytes.
fn times(end: &mut End, peer: u32, there: Grant, timeout: Duration) -> Outcome {
    let mut best = Duration::MAX;
    for number in 0..ROUND_TRIPS {
        let word = round_trip(number);
        let begun = Instant::now();
        end.put(peer, there, Put { word, at: 0, len: 8, pieces: 1, from: ASK_FROM })?;
        let came = end.until(begun + timeout, |end| {
            let at = end.seen.others.iter().position(|w| *w == !word);
            at.is_some_and(|at| end.seen.others.remove(at).is_some()) || end.alive(peer).is_err()
        });
        end.alive(peer)?;
        if !came {
            return Err("a put, or its answer, did not arrive".to_owned());
        }
        best = best.min(begun.elapsed() / 2);
    }
    Ok(vec![("us", best.as_secs_f64() * 1e6)])
}
