//! Which pieces of a message travel together: a question that sender and receiver must answer alike.

use super::limits::WireLimits;
use crate::plan::{Plan, Step};
use std::collections::VecDeque;
use std::iter::Peekable;
use std::ops::Range;

/// Landing slots and packed pieces begin at multiples of this many bytes: a cache line of x86-64 and aarch64.
const SLOT_ALIGN_BYTES: u64 = 64;

/// A part of a message that becomes puts of its own.
pub(super) enum Parcel {
    /// Adjacent steps, contiguous at their target: one put, of as many pieces as it gathers.
    Run(Range<usize>),
    /// Light runs that share one put to a landing slot, as their targets are not contiguous.
    Slot(Vec<Range<usize>>),
}

pub(super) fn length(steps: &[Step]) -> u64 {
    steps.iter().map(|s| s.len).sum()
}

/// Whether a step's bytes are behind those of the one before in the sender's memory.
fn source_follows(last: &Step, step: &Step) -> bool {
    last.source.region == step.source.region && last.source.offset + last.len == step.source.offset
}

/// Likewise in the receiver's.
fn target_follows(last: &Step, step: &Step) -> bool {
    last.target.region == step.target.region && last.target.offset + last.len == step.target.offset
}

/// What is contiguous in the sender's memory: each is one piece of a gather list.
pub(super) fn pieces(steps: &[Step]) -> impl Iterator<Item = &[Step]> {
    steps.chunk_by(source_follows)
}

/// Neighbours in the target that leave in one put for nothing: they are neighbours in the source, too, or, where a put
/// gathers, in one region there. What is in several regions mostly is not ready at the same time: a rank's own contribution is
/// from the start, and beside it stands what it forwards.
fn runs(message: &[Step], limits: &WireLimits) -> Vec<Range<usize>> {
    let most = limits.max_put.min(limits.coalesce);
    let mut runs: Vec<Range<usize>> = Vec::new();
    let (mut len, mut gathered) = (0, 0);
    for (i, step) in message.iter().enumerate() {
        let last = i.checked_sub(1).map(|before| &message[before]);
        let more = usize::from(!last.is_some_and(|last| source_follows(last, step)));
        let follows = last
            .is_some_and(|last| target_follows(last, step) && last.source.region == step.source.region)
            && gathered + more <= limits.gather;
        match runs.last_mut() {
            Some(run) if follows && step.len <= most && len + step.len <= most => {
                run.end = i + 1;
                len += step.len;
                gathered += more;
            }
            _ => {
                runs.push(i..i + 1);
                (len, gathered) = (step.len, 1);
            }
        }
    }
    runs
}

/// How a message travels; the same from its puts and from its expects.
pub(super) fn parcels(message: &[Step], limits: &WireLimits) -> Vec<Parcel> {
    let runs = runs(message, limits);
    let is_light = |run: &Range<usize>| length(&message[run.clone()]) < limits.light.min(limits.max_put);
    if runs.iter().filter(|run| is_light(run)).count() < limits.few.max(2) {
        return runs.into_iter().map(Parcel::Run).collect();
    }
    let most = if limits.gather == 1 { usize::MAX } else { limits.gather };
    let (mut out, mut slot, mut filled, mut gathered): (_, Vec<Range<usize>>, _, _) =
        (Vec::new(), Vec::new(), 0, 0);
    for run in runs {
        let (len, more) = (length(&message[run.clone()]), pieces(&message[run.clone()]).count());
        if !is_light(&run) {
            out.push(Parcel::Run(run));
            continue;
        }
        if gathered + more > most || filled + len > limits.max_put {
            out.push(Parcel::share(std::mem::take(&mut slot)));
            (filled, gathered) = (0, 0);
        }
        filled += len;
        gathered += more;
        match slot.last_mut() {
            // Gathered to where they belong, they need no slot.
            Some(last)
                if limits.gather > 1
                    && last.end == run.start
                    && target_follows(&message[last.end - 1], &message[run.start]) =>
            {
                last.end = run.end;
            }
            _ => slot.push(run),
        }
    }
    if !slot.is_empty() {
        out.push(Parcel::share(slot));
    }
    out
}

impl Parcel {
    fn share(mut runs: Vec<Range<usize>>) -> Self {
        match runs.pop() {
            Some(only) if runs.is_empty() => Self::Run(only),
            last => {
                runs.extend(last);
                Self::Slot(runs)
            }
        }
    }
}

/// Of the runs that share a slot the step whose counter the put bumps: that of the highest number, which sender and receiver find alike.
/// Plans number counters lowest that several messages bump and no rank waits for. With such a one a contribution would wait for results of later rounds that
/// came beside it, and these for the contribution (`core/tests/pure/pacing.rs`).
pub(super) fn counting_step<'a>(message: &'a [Step], runs: &[Range<usize>]) -> &'a Step {
    let steps = runs.iter().flat_map(|run| &message[run.clone()]);
    // A slot has two runs or more.
    steps.max_by_key(|step| step.bump).unwrap_or(&message[0])
}

/// Within a round, the steps of a message follow each other.
pub(super) fn same_message(a: &Step, b: &Step) -> bool {
    a.round == b.round && a.peer == b.peer
}

pub(super) fn align(n: u64) -> u64 {
    n.next_multiple_of(SLOT_ALIGN_BYTES)
}

/// Where the slots that a sender puts to lie in a receiver's landing memory, in the order of the puts. Looked for as they
/// are asked for: a sender whose last light message comes early has no use for what others put later.
pub(super) struct Slots<'a> {
    expects: Peekable<Box<dyn Iterator<Item = Step> + 'a>>,
    sender: u32,
    at: u64,
    found: VecDeque<u64>,
    message: Vec<Step>,
}

impl<'a> Slots<'a> {
    pub(super) fn new(plan: &'a dyn Plan, receiver: u32, sender: u32) -> Self {
        let at = align(plan.sizes(receiver).land);
        let expects = plan.expects(receiver).peekable();
        Self { expects, sender, at, found: VecDeque::new(), message: Vec::new() }
    }

    /// The next one; `None` if the receiver expects no more of this sender.
    pub(super) fn next(&mut self, limits: &WireLimits) -> Option<u64> {
        while self.found.is_empty() {
            let first = self.expects.next()?;
            self.message.clear();
            self.message.push(first);
            while let Some(step) = self.expects.next_if(|step| same_message(&first, step)) {
                self.message.push(step);
            }
            for parcel in parcels(&self.message, limits) {
                if let Parcel::Slot(runs) = parcel {
                    if first.peer == self.sender {
                        self.found.push_back(self.at);
                    }
                    let len: u64 = runs.into_iter().map(|run| length(&self.message[run])).sum();
                    self.at += align(len);
                }
            }
        }
        self.found.pop_front()
    }
}
