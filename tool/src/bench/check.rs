//! `--check`: every byte of every point against a sequential reference, outside the timing. What is received into
//! is first filled with the complement of what must come, so that no byte is right by chance, and blocking calls
//! run on arena memory and on plain slices, fenced by guard elements that nothing may touch.

use super::job::Start;
use super::order::{MemoryKind, Mode, Order};
use super::sample::{PERIOD, Sampler, Use, repeat};
use super::shapes::{Outcome, Shape};
use crate::agree::agree;
use crate::outcome::Failure;
use circulant::Result as Called;
use circulant::ops::{Op, Reducer, Side, Type, reducer};

/// Guard elements before and behind; odd, so that plain slices of bytes begin at odd addresses.
const GUARD: usize = 67;
const GUARD_BYTE: u8 = 0xa5;

/// Runs the operation once on each kind of memory and compares; wrong data is exit code 3. Collective.
pub(crate) fn check(start: Start, order: &Order<'_>, what: Use, text: &str) -> Result<(), Failure> {
    let (memories, guard) = match order.mode {
        Mode::Blocking => (&[MemoryKind::Arena, MemoryKind::Plain][..], GUARD),
        _ => (&[MemoryKind::Arena][..], 0),
    };
    for &memory in memories {
        let mut job = start(&Order { memory, guard, ..*order })?;
        let sample = Sample { write: job.sampler(), element: job.element(), what };
        let mut trial = Trial::new(sample, order.shape, order.reducer, order.comm.rank())?;
        let guard = guard * job.element();
        let sent: &[u8] = if order.shape.send.is_some() { &trial.given } else { &[] };
        fence(job.send()?, sent, guard);
        fence(job.recv()?, &std::mem::take(&mut trial.before), guard);
        job.run()?;
        let came = trial.judge(job.recv()?, guard);
        let verdict = came.and(intact(job.send()?, sent, guard));
        let wrong = |fault: String| {
            Failure::new(3, format!("wrong data: {text} on {} memory: {fault}", memory.name()))
        };
        agree(order.comm, verdict.map_err(wrong))?;
    }
    Ok(())
}

/// Contributions of all ranks.
#[derive(Clone, Copy)]
struct Sample {
    write: Sampler,
    element: usize,
    what: Use,
}

impl Sample {
    fn bytes(&self, owner: usize, from: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len * self.element];
        (self.write)(self.what, owner, from, &mut bytes);
        bytes
    }
}

/// What is sent and what must come, in bytes.
struct Trial {
    /// Our contribution.
    given: Vec<u8>,
    /// What stands in the receive buffer before the call; gone when it stands there.
    before: Vec<u8>,
    /// What must stand at its beginning after it.
    after: Vec<u8>,
    /// Which rank sent what: where it ends, and the rank.
    owners: Vec<(usize, usize)>,
}

impl Trial {
    fn new(sample: Sample, shape: &Shape, reducer: &Reducer, rank: usize) -> Called<Self> {
        let e = sample.element;
        let (mut after, mut owners, mut kept) = (Vec::new(), Vec::new(), None);
        match &shape.result {
            Outcome::Pieces(pieces) => {
                // Of a thousand ranks on a machine each has its own: no more room than it takes.
                after.reserve_exact(pieces.iter().map(|piece| piece.len * e).sum());
                for piece in pieces {
                    after.extend(sample.bytes(piece.owner, piece.from, piece.len));
                    owners.push((after.len(), piece.owner));
                }
            }
            Outcome::Fold { len, ranks, .. } if ranks.is_empty() => kept = Some(len * e),
            Outcome::Fold { from, len, ranks } => {
                let once = (*len).min(PERIOD);
                after = sample.bytes(ranks.start, *from, once);
                for owner in ranks.start + 1..ranks.end {
                    reducer.reduce(&mut after, &sample.bytes(owner, *from, once), Side::SourceRight)?;
                }
                after.resize(len * e, 0);
                repeat(&mut after, e);
            }
        }
        let mut before = vec![!GUARD_BYTE; (shape.recv.unwrap_or(0) * e).max(after.len())];
        complement(&after, &mut before)?;
        let given = sample.bytes(rank, 0, shape.given);
        if let Some(own) = shape.own {
            before[own * e..own * e + given.len()].copy_from_slice(&given);
        }
        if let Some(len) = kept {
            after = before[..len].to_vec();
        }
        Ok(Self { given, before, after, owners })
    }

    /// Compares the result and its guards.
    fn judge(&self, recv: &[u8], guard: usize) -> Result<(), String> {
        // Where a rank has no such buffer there are no guards either.
        let result = recv.get(guard..recv.len().saturating_sub(guard)).unwrap_or_default();
        if let Some(at) = difference(result, &self.after) {
            let from = self.owners.iter().find(|(end, _)| *end > at);
            let from = from.map_or(String::new(), |(_, owner)| format!(" (of rank {owner})"));
            let what = match (result[at], self.after[at]) {
                (is, after) if is == !after => "never arrived".to_owned(),
                (is, after) => format!("is {is:#04x} instead of {after:#04x}"),
            };
            return Err(format!("byte {at} of {}{from} {what}", self.after.len()));
        }
        guarded(recv, guard, "result")
    }
}

/// Writes the complement of `bytes` to the beginning of `out`. By the library's operator, as there are megabytes of
/// them and the tests' build of this tool is not optimised.
fn complement(bytes: &[u8], out: &mut [u8]) -> Called<()> {
    let out = &mut out[..bytes.len()];
    out.fill(0xff);
    reducer(Type::U8, Op::Bxor)?.reduce(out, bytes, Side::SourceRight)
}

fn fence(buffer: &mut [u8], content: &[u8], guard: usize) {
    buffer.fill(GUARD_BYTE);
    // Nothing to fill where a rank has no such buffer.
    if let Some(inside) = buffer.get_mut(guard..guard + content.len()) {
        inside.copy_from_slice(content);
    }
}

fn intact(send: &[u8], content: &[u8], guard: usize) -> Result<(), String> {
    match send.get(guard..).and_then(|send| difference(send, content)) {
        Some(i) => Err(format!("byte {i} of the send buffer was changed")),
        None => guarded(send, guard, "send buffer"),
    }
}

fn guarded(bytes: &[u8], guard: usize, name: &str) -> Result<(), String> {
    let (head, tail) = (bytes.len().min(guard), bytes.len().saturating_sub(guard));
    let before = bytes[..head].iter().rposition(|b| *b != GUARD_BYTE);
    let behind = bytes[tail..].iter().position(|b| *b != GUARD_BYTE);
    match (before, behind) {
        (Some(i), _) => Err(format!("{} bytes before the {name} were written to", head - i)),
        (_, Some(i)) => Err(format!("{} bytes behind the {name} were written to", i + 1)),
        _ => Ok(()),
    }
}

/// The first byte of `want` that is another in `is`, which is as long or longer.
fn difference(is: &[u8], want: &[u8]) -> Option<usize> {
    // Whole chunks first: equal ones are compared at memory speed.
    const CHUNK: usize = 4096;
    let chunks = is.chunks(CHUNK).zip(want.chunks(CHUNK)).enumerate();
    for (i, (is, want)) in chunks {
        if is[..want.len()] != *want {
            return is.iter().zip(want).position(|(a, b)| a != b).map(|at| i * CHUNK + at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::dist::Dist;
    use super::super::operations::{OPERATIONS, Operation};
    use super::super::sample::write;
    use super::super::shapes::RankCall;
    use super::*;
    use proptest::prelude::*;

    fn trial(op: &Operation, p: usize, rank: usize, bytes: u64, in_place: bool) -> Trial {
        let dist = Dist::find("linear");
        let (root, element, setting) = (1, 4, None);
        let call = op.rank_call(RankCall { p, rank, root, bytes, dist, setting, in_place, element });
        let what = Use { op: op.reduces().then_some(Op::Sum), p };
        let sample = match op.reduces() {
            true => Sample { write: write::<f32>, element: 4, what },
            false => Sample { write: write::<u8>, element: 1, what },
        };
        let sum = reducer(Type::F32, Op::Sum).unwrap();
        Trial::new(sample, &(op.shape)(&call), &sum, rank).unwrap()
    }

    fn good(trial: &Trial) -> Vec<u8> {
        let mut recv = vec![0; trial.before.len() + 2 * GUARD];
        fence(&mut recv, &trial.before, GUARD);
        recv[GUARD..GUARD + trial.after.len()].copy_from_slice(&trial.after);
        recv
    }

    proptest! {
        /// No single changed byte escapes, be it in the result or beside it.
        #[test]
        fn every_wrong_byte_is_seen(
            op in prop::sample::select(&OPERATIONS[..]), p in 2usize..9, r in 0usize..9, bytes in 1u64..3000,
            in_place: bool, at in 0usize..4000, flip in 1u8..=255,
        ) {
            prop_assume!(op.sized && op.registered().is_some());
            let trial = trial(&op, p, r % p, bytes, in_place);
            let mut recv = good(&trial);
            prop_assert_eq!(trial.judge(&recv, GUARD), Ok(()));
            let at = at % recv.len();
            // What is behind the result of a reduce-scatter in place is lost.
            let lost = GUARD + trial.after.len()..GUARD + trial.before.len();
            prop_assume!(!lost.contains(&at));
            recv[at] ^= flip;
            let fault = trial.judge(&recv, GUARD).unwrap_err();
            if (GUARD..GUARD + trial.after.len()).contains(&at) {
                let name = format!("byte {} of", at - GUARD);
                prop_assert!(fault.starts_with(&name), "{}", fault);
            } else {
                prop_assert!(fault.contains("the result"), "{}", fault);
            }
        }

        /// Nothing that was not delivered is right by chance, and all of the result is compared.
        #[test]
        fn what_never_came_is_wrong(
            op in prop::sample::select(&OPERATIONS[..]), p in 2usize..9, r in 0usize..9, bytes in 1u64..3000,
        ) {
            prop_assume!(op.sized && op.registered().is_some());
            let rank = r % p;
            let trial = trial(&op, p, rank, bytes, false);
            // A rank that has it already, or has nothing to get.
            prop_assume!(!trial.after.is_empty() && trial.after != trial.before);
            prop_assert_eq!(trial.after.len(), trial.before.len());
            let mut recv = good(&trial);
            fence(&mut recv, &trial.before, GUARD);
            let fault = trial.judge(&recv, GUARD).unwrap_err();
            prop_assert!(fault.ends_with("never arrived"), "{}", fault);
            for (i, (a, b)) in trial.after.iter().zip(&trial.before).enumerate() {
                prop_assert!(a != b, "byte {}", i);
            }
        }
    }

    /// What is computed of one period stands for all: as long a result is the sum of what each rank gives, element by element.
    #[test]
    fn a_long_result_repeats_as_contributions_do() {
        let scan = Operation::find("scan").unwrap();
        let trial = |rank| trial(scan, 3, rank, 40_004, false);
        let floats =
            |bytes: &[u8]| bytes.chunks(4).map(bytemuck::pod_read_unaligned::<f32>).collect::<Vec<_>>();
        let given: Vec<_> = (0..3).map(|rank| floats(&trial(rank).given)).collect();
        let sums: Vec<f32> = (0..given[0].len()).map(|i| given.iter().map(|one| one[i]).sum()).collect();
        assert_eq!((sums.len(), floats(&trial(2).after)), (10_001, sums));
        assert_eq!(given[1][..100], given[1][PERIOD..PERIOD + 100]);
        assert_ne!(given[1][..100], given[1][4096..4196], "what lands a block further on is seen");
    }

    /// By hand: sums of what each rank gives.
    #[test]
    fn reductions_are_computed_one_by_one() {
        let scan = Operation::find("scan").unwrap();
        let floats =
            |bytes: &[u8]| bytes.chunks(4).map(bytemuck::pod_read_unaligned::<f32>).collect::<Vec<_>>();
        let at = |rank| floats(&trial(scan, 3, rank, 40, false).after);
        let given = |rank| floats(&trial(scan, 3, rank, 40, false).given);
        let plus = |a: Vec<f32>, b: Vec<f32>| a.iter().zip(b).map(|(a, b)| a + b).collect::<Vec<_>>();
        assert_eq!(at(0), given(0));
        assert_eq!(at(2), plus(plus(given(0), given(1)), given(2)));
        let exscan = Operation::find("exscan").unwrap();
        let first = trial(exscan, 3, 0, 40, false);
        assert_eq!(first.after, first.before, "rank 0's buffer stays as it is");
    }
}
