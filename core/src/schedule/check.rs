//! The judge: is a claimed schedule correct? Schedules are not unique, so properties decide, not tables.

use std::fmt;

use super::Circulant;
use super::skips::{last_phase, this_phase};

/// How a claimed schedule is wrong. Ranks are relative to the root, rounds count within a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A row does not have q entries.
    Length {
        /// Whose row.
        r: u32,
        /// The entries it has.
        len: usize,
        /// The entries it should have.
        q: u32,
    },
    /// Condition (i): a rank does not send what its partner expects.
    Edge {
        /// The sender.
        r: u32,
        /// The round.
        k: u32,
        /// The receiver.
        to: u32,
        /// The sender's entry.
        sent: i8,
        /// The receiver's entry.
        expected: i8,
    },
    /// Condition (ii): the round of the home range does not bring the base block.
    Base {
        /// The receiver.
        r: u32,
        /// The round of its home range.
        k: u32,
        /// What it gets there.
        got: i8,
        /// Its base block.
        base: i8,
    },
    /// Condition (ii): a block arrives that the rank has (twice in a phase, its base block of the phase
    /// before), or that does not exist (outside −q..−1).
    Received {
        /// The receiver.
        r: u32,
        /// The round.
        k: u32,
        /// What it gets there.
        got: i8,
    },
    /// Condition (iii): the root does not send block k in round k.
    Root {
        /// The round.
        k: u32,
        /// The root's entry.
        sent: i8,
    },
    /// Condition (iii): a rank sends a block that it does not have yet.
    Unheld {
        /// The sender.
        r: u32,
        /// The round.
        k: u32,
        /// Its entry.
        sent: i8,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Length { r, len, q } => write!(f, "rank {r} has a schedule of {len} rounds instead of {q}"),
            Self::Edge { r, k, to, sent, expected } => {
                write!(f, "rank {r} sends block {sent} in round {k}, but rank {to} expects {expected}")
            }
            Self::Base { r, k, got, base } => {
                write!(f, "rank {r} gets block {got} in round {k} instead of its base block {base}")
            }
            Self::Received { r, k, got } => {
                write!(f, "rank {r} gets block {got} in round {k}, which it has or which does not exist")
            }
            Self::Root { k, sent } => write!(f, "the root sends block {sent} in round {k} instead of {k}"),
            Self::Unheld { r, k, sent } => {
                write!(f, "rank {r} sends block {sent} in round {k} before it has it")
            }
        }
    }
}

impl std::error::Error for Violation {}

/// Judges the schedules of all `p` ranks: `recv(r)` and `send(r)` are the claimed rows of rank r.
///
/// The conditions are the three in the [module's legend](super). Costs q+1 calls of `recv` per rank:
/// give it a table.
///
/// # Errors
/// The first violation, by rank.
///
/// # Panics
/// If `p` is 0 or above [`MAX_P`](super::MAX_P).
pub fn check<R: AsRef<[i8]>, S: AsRef<[i8]>>(
    p: u32,
    recv: impl Fn(u32) -> R,
    send: impl Fn(u32) -> S,
) -> Result<(), Violation> {
    let c = Circulant::new(p);
    (0..p).try_for_each(|r| check_rank(&c, r, &recv, &send))
}

/// Judges the schedule of rank `r` alone; of the others, only the receive rows of those it sends to are
/// asked for. A schedule is correct if this holds for every rank.
///
/// # Errors
/// The first violation.
///
/// # Panics
/// If `r` ≥ p.
pub fn check_rank<R: AsRef<[i8]>, S: AsRef<[i8]>>(
    c: &Circulant,
    r: u32,
    recv: impl Fn(u32) -> R,
    send: impl Fn(u32) -> S,
) -> Result<(), Violation> {
    let (q, recvs, sends) = (c.q(), recv(r), send(r));
    let (recvs, sends) = (row(r, q, recvs.as_ref())?, row(r, q, sends.as_ref())?);
    received_once(c, r, recvs)?;
    held_when_sent(c, r, recvs, sends)?;
    for (k, &sent) in (0..q).zip(sends) {
        let to = c.to(r, k);
        let theirs = recv(to);
        let expected = row(to, q, theirs.as_ref())?[k as usize];
        if sent != expected {
            return Err(Violation::Edge { r, k, to, sent, expected });
        }
    }
    Ok(())
}

fn row(r: u32, q: u32, row: &[i8]) -> Result<&[i8], Violation> {
    if row.len() == q as usize { Ok(row) } else { Err(Violation::Length { r, len: row.len(), q }) }
}

/// Condition (ii).
fn received_once(c: &Circulant, r: u32, recvs: &[i8]) -> Result<(), Violation> {
    let q = c.q();
    let base = this_phase(c.base(r));
    // The root has neither base block nor home range.
    let home = (r > 0).then(|| c.home(r));
    // Bit j: block j − q is there. The base block came in the phase before.
    let mut seen = if r == 0 { 0u32 } else { 1 << base };
    for (k, &got) in (0..q).zip(recvs) {
        if home == Some(k) {
            if got != base {
                return Err(Violation::Base { r, k, got, base });
            }
            continue;
        }
        let index = i32::from(got) + i32::from(this_phase(q));
        if !(0..i32::from(this_phase(q))).contains(&index) || seen & (1 << index) != 0 {
            return Err(Violation::Received { r, k, got });
        }
        seen |= 1 << index;
    }
    Ok(())
}

/// Condition (iii).
fn held_when_sent(c: &Circulant, r: u32, recvs: &[i8], sends: &[i8]) -> Result<(), Violation> {
    let base = last_phase(c.base(r), c.q());
    for (k, &sent) in (0..c.q()).zip(sends) {
        if r == 0 {
            if sent != this_phase(k) {
                return Err(Violation::Root { k, sent });
            }
        } else if sent != base && !recvs[..k as usize].contains(&sent) {
            return Err(Violation::Unheld { r, k, sent });
        }
    }
    Ok(())
}
