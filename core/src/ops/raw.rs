//! Operators on elements whose size is known at run time only.

use super::facts::{Facts, OperatorName};
use super::operator::Side;
use super::reducer::{Held, Kernel, Reducer, fnv1a};
use super::types::Element;
use crate::error::{Result, argument};
use std::alloc::Layout;
use std::sync::Arc;

/// Bytes of each operand that are copied to aligned memory at a time: both stay in a first cache of 32 KiB.
const STAGE_BYTES: usize = 8 << 10;
/// The largest alignment of an element: a page of x86-64.
const MAX_ALIGNMENT_BYTES: usize = 4096;

impl Reducer {
    /// An operator on elements of which size and alignment are known at run time only: what MPI's user functions are, and those
    /// of other languages.
    ///
    /// `f(left, right)` combines element by element, `right` becoming left ⊕ right, where `left` comes from lower ranks than
    /// `right`. The slices are equally long, whole elements, and begin at multiples of the alignment: the reducer copies
    /// operands that do not, and swaps sides where needed. `f` may be called for any part of a call's elements. It must be
    /// associative, and the same at all ranks, which compare its `name`, layout and flag; it is taken for
    /// [inexact](Reducer::exact). A panic of it becomes an error of the collective, as of [`user`](super::user).
    ///
    /// Calls take [`on_bytes()`](Reducer::on_bytes) of it, and slices of bytes.
    ///
    /// # Errors
    /// When the element has no bytes or an alignment above 4096, or its size is no multiple of its alignment
    /// ([`Layout::pad_to_align`] makes it one), so that elements behind the first would not be aligned.
    ///
    /// # Examples
    /// ```
    /// use circulant_core::ops::{Reducer, Side};
    /// use std::alloc::Layout;
    ///
    /// // Products of square matrices modulo 256, of an order that is known at run time.
    /// let n = std::hint::black_box(2);
    /// let product = move |left: &[u8], right: &mut [u8]| {
    ///     for (a, b) in left.chunks_exact(n * n).zip(right.chunks_exact_mut(n * n)) {
    ///         let term = |at: usize, k: usize| a[at / n * n + k].wrapping_mul(b[k * n + at % n]);
    ///         let at = |at| (0..n).fold(0, |sum: u8, k| sum.wrapping_add(term(at, k)));
    ///         let c: Vec<u8> = (0..n * n).map(at).collect();
    ///         b.copy_from_slice(&c);
    ///     }
    /// };
    /// let product = Reducer::raw("matrix product", Layout::array::<u8>(n * n).unwrap(), false, product)?;
    /// let mut target = [1, 2, 3, 4];
    /// product.reduce(&mut target, &[0, 1, 1, 0], Side::SourceRight)?;
    /// assert_eq!(target, [2, 1, 4, 3]);
    /// # Ok::<(), circulant_core::Error>(())
    /// ```
    pub fn raw(
        name: impl Into<String>,
        element: Layout,
        commutative: bool,
        f: impl Fn(&[u8], &mut [u8]) + Send + Sync + 'static,
    ) -> Result<Self> {
        let (name, size, align) = (name.into(), element.size(), element.align());
        if size == 0 || align > MAX_ALIGNMENT_BYTES || !size.is_multiple_of(align) {
            return Err(argument(format!(
                "{name}: an element of {size} bytes that is aligned to {align}: the size must be a multiple of the alignment, \
                 and that at most {MAX_ALIGNMENT_BYTES}"
            )));
        }
        let order = if commutative { "commutative" } else { "ordered" };
        let hash = fnv1a(format!("raw/{size}/{align}/{order}/{name}").as_bytes());
        let facts = Facts {
            of: None,
            element: Element::of_size(size),
            kind: "raw elements",
            name: OperatorName::new(&name),
            commutative,
            exact: false,
            is_raw: true,
            is_built_in: false,
            hash,
        };
        Ok(Self(Held::Made(Arc::new(Raw { name, element, facts, function: f }))))
    }
}

/// See [`Reducer::raw`].
struct Raw<F> {
    name: String,
    element: Layout,
    facts: Facts,
    function: F,
}

impl<F> Raw<F> {
    fn is_aligned(&self, bytes: &[u8]) -> bool {
        bytes.as_ptr().addr().is_multiple_of(self.element.align())
    }
}

impl<F: Fn(&[u8], &mut [u8])> Raw<F> {
    /// By way of aligned memory, where the result is made: some elements at a time.
    #[inline(never)]
    fn staged(&self, target: &mut [u8], source: &[u8], side: Side) {
        let (size, align) = (self.element.size(), self.element.align());
        let piece = target.len().min((STAGE_BYTES / size).max(1) * size);
        let mut memory = vec![0; 2 * (piece + align)];
        let (first, second) = memory.split_at_mut(piece + align);
        let (copy, result) = (from_aligned(first, align), from_aligned(second, align));
        for (target, source) in target.chunks_mut(piece).zip(source.chunks(piece)) {
            let (left, right): (&[u8], &[u8]) = match side {
                Side::SourceLeft => (source, target),
                Side::SourceRight => (target, source),
            };
            let (copy, result) = (&mut copy[..left.len()], &mut result[..left.len()]);
            result.copy_from_slice(right);
            let left = if self.is_aligned(left) {
                left
            } else {
                copy.copy_from_slice(left);
                copy
            };
            (self.function)(left, result);
            target.copy_from_slice(result);
        }
    }
}

/// The memory from its first multiple of `align`, a power of two, on.
fn from_aligned(memory: &mut [u8], align: usize) -> &mut [u8] {
    let skipped = memory.as_ptr().addr().wrapping_neg() & (align - 1);
    &mut memory[skipped..]
}

impl<F: Fn(&[u8], &mut [u8]) + Send + Sync> Kernel for Raw<F> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn reduce(&self, target: &mut [u8], source: &[u8], side: Side) {
        if side == Side::SourceLeft && self.is_aligned(target) && self.is_aligned(source) {
            return (self.function)(source, target);
        }
        self.staged(target, source, side);
    }
}
