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
    /// Adjacent steps, contiguous on both sides.
    Run(Range<usize>),
    /// Light runs that share one put to a landing slot.
    Slot(Vec<Range<usize>>),
}

pub(super) fn length(steps: &[Step]) -> u64 {
    steps.iter().map(|s| s.len).sum()
}

/// How a message travels; the same from its puts and from its expects.
pub(super) fn parcels(message: &[Step], limits: &WireLimits) -> Vec<Parcel> {
    let most = limits.max_put.min(limits.coalesce);
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut len = 0;
    for (i, step) in message.iter().enumerate() {
        let follows = i > 0 && {
            let last = &message[i - 1];
            last.source.region == step.source.region
                && last.target.region == step.target.region
                && last.source.offset + last.len == step.source.offset
                && last.target.offset + last.len == step.target.offset
        };
        match runs.last_mut() {
            Some(run) if follows && step.len <= most && len + step.len <= most => {
                run.end = i + 1;
                len += step.len;
            }
            _ => {
                runs.push(i..i + 1);
                len = step.len;
            }
        }
    }
    let is_light = |run: &Range<usize>| length(&message[run.clone()]) < limits.light.min(limits.max_put);
    if runs.iter().filter(|run| is_light(run)).count() < limits.few.max(2) {
        return runs.into_iter().map(Parcel::Run).collect();
    }
    let segments = if limits.gather == 1 { usize::MAX } else { limits.gather };
    let (mut out, mut slot, mut filled) = (Vec::new(), Vec::new(), 0);
    for run in runs {
        let len = length(&message[run.clone()]);
        if !is_light(&run) {
            out.push(Parcel::Run(run));
            continue;
        }
        if slot.len() == segments || filled + len > limits.max_put {
            out.push(Parcel::share(std::mem::take(&mut slot)));
            filled = 0;
        }
        filled += len;
        slot.push(run);
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
