//! What an operator is, and operators made of a user's closure.

use bytemuck::Pod;
use std::fmt;

/// Which operand of a reduction the source is: what matters to operators that do not commute. Ranks combine in
/// rank order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// target = source ⊕ target: the source stands for the lower ranks.
    SourceLeft,
    /// target = target ⊕ source: the source stands for the higher ranks.
    SourceRight,
}

/// An associative function of two elements of type `T`.
///
/// Associative is what every algorithm relies on: (a ⊕ b) ⊕ c and a ⊕ (b ⊕ c) may differ only by rounding.
/// All ranks must use the same function.
pub trait Operator<T: Pod>: Send + Sync {
    /// left ⊕ right, where `left` comes from lower ranks than `right`.
    fn combine(&self, left: T, right: T) -> T;

    /// Whether left ⊕ right = right ⊕ left, so that algorithms may change the order of the operands.
    fn commutative(&self) -> bool;

    /// Its name in messages, and in [`Reducer::hash`](super::Reducer::hash), by which ranks compare.
    fn name(&self) -> &str;

    /// The e for which e ⊕ x = x ⊕ e = x to the bit (but for what the operator normalises: NaN, truth).
    fn identity(&self) -> Option<T> {
        None
    }

    /// Element by element, target = target ⊕ source or source ⊕ target. Worth overriding only where whole
    /// slices go faster than single elements do. The slices are of one length.
    #[inline]
    fn fold(&self, target: &mut [T], source: &[T], side: Side) {
        match side {
            Side::SourceLeft => target.iter_mut().zip(source).for_each(|(t, s)| *t = self.combine(*s, *t)),
            Side::SourceRight => target.iter_mut().zip(source).for_each(|(t, s)| *t = self.combine(*t, *s)),
        }
    }
}

/// A user's operator: see [`user`].
pub struct User<F> {
    name: String,
    commutative: bool,
    function: F,
}

/// An operator made of a closure, which gets the operand of the lower ranks first. `name` is what ranks
/// compare to find out whether they mean the same.
///
/// A panic of the closure becomes an error of the collective (where panics unwind; with `panic = "abort"` the
/// process ends).
///
/// ```
/// use circulant_core::ops::{Operator, user};
///
/// // x ↦ a·x + b, composed: associative, not commutative
/// let compose = user("compose", false, |f: [f64; 2], g: [f64; 2]| [f[0] * g[0], f[1] * g[0] + g[1]]);
/// assert_eq!(compose.combine([2.0, 1.0], [3.0, 4.0]), [6.0, 7.0]);
/// ```
pub fn user<T: Pod, F>(name: impl Into<String>, commutative: bool, function: F) -> User<F>
where
    F: Fn(T, T) -> T + Send + Sync,
{
    User { name: name.into(), commutative, function }
}

impl<T: Pod, F: Fn(T, T) -> T + Send + Sync> Operator<T> for User<F> {
    #[inline]
    fn combine(&self, left: T, right: T) -> T {
        (self.function)(left, right)
    }

    fn commutative(&self) -> bool {
        self.commutative
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl<F> fmt::Debug for User<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("name", &self.name).field("commutative", &self.commutative).finish()
    }
}
