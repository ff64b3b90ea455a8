//! What a caller passes to a blocking call, and what was passed to one before.

use super::collective::Collective;
use super::options::Options;
use crate::error::Result;
use crate::ops::{Element, Reducer};
use crate::plan::Region;
use crate::plan::registry::Operation;
use crate::select::Way;
use bytemuck::Pod;

/// A call as its caller makes it: all that its [`Spec`](super::call::Spec) follows from, beside the lengths of its buffers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calling<'a> {
    pub(super) call: Collective,
    /// `None`: more than this tells it from others, so that it is planned each time.
    pub(super) passed: Option<Passed<'a>>,
}

/// What is passed beside buffers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed<'a> {
    element: Element,
    root: usize,
    /// Counts, and displacements where there are any.
    parts: (&'a [usize], Option<&'a [usize]>),
    /// What is known of an operator before it folds: its elements, and whether it commutes and is exact.
    by: Option<(Element, bool, bool)>,
}

impl<C: Into<Collective>> From<C> for Calling<'_> {
    /// A call that is planned each time.
    fn from(call: C) -> Self {
        Self { call: call.into(), passed: None }
    }
}

impl<'a> Calling<'a> {
    /// A call on elements of type `T`, with nothing else than its buffers.
    pub(super) fn of<T: Pod>(call: Operation) -> Self {
        let passed = Passed { element: Element::of::<T>(), root: 0, parts: (&[], None), by: None };
        // Lengths are compared in bytes.
        Self { call: call.into(), passed: (size_of::<T>() > 0).then_some(passed) }
    }

    /// The same with this root.
    pub(super) fn at(self, root: usize) -> Self {
        self.with(|passed| Passed { root, ..passed })
    }

    /// The same with these counts and displacements.
    pub(super) fn of_parts(self, counts: &'a [usize], displs: Option<&'a [usize]>) -> Self {
        self.with(|passed| Passed { parts: (counts, displs), ..passed })
    }

    /// The same with this operator. One that is refused is refused each time.
    pub(super) fn by(self, by: &Result<Reducer>) -> Self {
        let Ok(by) = by else { return Self { passed: None, ..self } };
        let by = Some((by.element_type(), by.commutative(), by.exact()));
        self.with(|passed| Passed { by, ..passed })
    }

    fn with(self, change: impl FnOnce(Passed<'a>) -> Passed<'a>) -> Self {
        Self { passed: self.passed.map(change), ..self }
    }
}

/// What a lowered program was called with last, and how that call went.
#[derive(Debug)]
pub(super) struct Called {
    element: Element,
    root: usize,
    /// Counts, and behind them displacements where there are any.
    parts: Vec<usize>,
    counts: usize,
    has_displs: bool,
    by: Option<(Element, bool, bool)>,
    /// Of input and output, in bytes.
    lengths: [Option<usize>; 2],
    options: Options,
    /// See [`Spec`](super::call::Spec).
    pub(super) unused: Option<Region>,
    pub(super) fill: bool,
    pub(super) way: Way,
    /// The place of its class among the communicator's trials, if it is tried.
    pub(super) class: Option<usize>,
}

impl Called {
    /// A call with buffers of these lengths, if one can be like it: what of its [`Spec`](super::call::Spec) is not in its program, and how it goes.
    pub(super) fn of(
        calling: &Calling<'_>,
        lengths: [Option<usize>; 2],
        options: &Options,
        (unused, fill): (Option<Region>, bool),
        (way, class): (Way, Option<usize>),
    ) -> Option<Self> {
        let Passed { element, root, parts: (counts, displs), by } = calling.passed?;
        Some(Self {
            element,
            root,
            parts: counts.iter().chain(displs.unwrap_or_default()).copied().collect(),
            counts: counts.len(),
            has_displs: displs.is_some(),
            by,
            lengths,
            options: options.clone(),
            unused,
            fill,
            way,
            class,
        })
    }

    /// Whether a call is the same but for its number, its deadline and the contents of its buffers.
    pub(super) fn is(&self, passed: &Passed<'_>, lengths: [Option<usize>; 2], options: &Options) -> bool {
        let Passed { element, root, parts: (counts, displs), by } = *passed;
        let Options { deadline: _, blocks, algorithm, reproducible } = options;
        (self.element, self.root, self.by, self.lengths) == (element, root, by, lengths)
            && (&self.options.blocks, &self.options.reproducible) == (blocks, reproducible)
            && self.options.algorithm == *algorithm
            && self.has_displs == displs.is_some()
            && self.has(counts, displs.unwrap_or_default())
    }

    /// Whether it had these lists.
    fn has(&self, counts: &[usize], displs: &[usize]) -> bool {
        self.counts == counts.len()
            && self.parts.len() == counts.len() + displs.len()
            && alike(&self.parts[..counts.len()], counts)
            && alike(&self.parts[counts.len()..], displs)
    }
}

/// Whether lists are equal. Those of nothing are not compared byte by byte: see `Arguments::eq`.
fn alike(before: &[usize], now: &[usize]) -> bool {
    before.len() == now.len() && (now.is_empty() || before == now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::registry::algorithm;

    /// Also of lists that are the same numbers in a row.
    #[test]
    fn a_call_is_as_before_only_with_the_same_lists() {
        let lists: [(&[usize], Option<&[usize]>); 8] = [
            (&[], None),
            (&[], Some(&[])),
            (&[], Some(&[1, 2])),
            (&[1], None),
            (&[1], Some(&[2])),
            (&[1, 2], None),
            (&[1, 2], Some(&[])),
            (&[2], Some(&[1])),
        ];
        let options = Options::new();
        let way = Way { algorithm: algorithm(Operation::Gatherv, "direct").unwrap(), blocks: None };
        let calls =
            lists.map(|(counts, displs)| Calling::of::<u8>(Operation::Gatherv).of_parts(counts, displs));
        for (i, before) in calls.iter().enumerate() {
            let called = Called::of(before, [None; 2], &options, (None, false), (way, None)).unwrap();
            for (j, now) in calls.iter().enumerate() {
                assert_eq!(
                    called.is(&now.passed.unwrap(), [None; 2], &options),
                    i == j,
                    "{before:?}, {now:?}"
                );
            }
        }
    }
}
