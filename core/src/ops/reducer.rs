//! An operator on a type, with both erased: what the engine runs on bytes.

use super::facts::{Facts, OperatorName};
use super::operator::{Operator, Side, User};
use super::types::Element;
use super::{builtin, types};
use crate::error::{Error, Result, argument};
use bytemuck::{Pod, cast_slice_mut, try_cast_slice, try_cast_slice_mut};
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Elements that are copied to aligned memory at a time.
const STAGE: usize = 128;
/// The largest element, in bytes, for which a stage that large stands on the stack.
const SMALL: usize = 32;

/// An operator on a type, for slices of bytes. Cheap to clone.
///
/// ```
/// use circulant_core::ops::{Reducer, Side, Sum};
///
/// let sum = Reducer::new::<f64, _>(Sum);
/// let mut target = [1.0, 2.0];
/// sum.reduce(bytemuck::cast_slice_mut(&mut target), bytemuck::cast_slice(&[10.0, 20.0]), Side::SourceLeft)?;
/// assert_eq!(target, [11.0, 22.0]);
/// # Ok::<(), circulant_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Reducer(pub(super) Held);

/// What a reducer does: made once for the process, so that clones change no reference count, or by a caller.
#[derive(Clone)]
pub(super) enum Held {
    Kept(&'static dyn Kernel),
    Made(Arc<dyn Kernel>),
}

/// A pair of element type and operator without state, and its kernel.
type Kept = (TypeId, &'static dyn Kernel);

thread_local! {
    /// The entry that this thread used last.
    static LAST: Cell<Option<Kept>> = const { Cell::new(None) };
}

/// The kernel of `operator` on `T`, whose key this is: one for all threads, made at the first use.
#[inline(never)]
fn kernel_of<T: Pod, O: Operator<T> + 'static>(operator: O, key: TypeId) -> &'static dyn Kernel {
    static ALL: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
    thread_local! {
        /// The entries that this thread has used.
        static KNOWN: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
    }
    let find = |kept: &[Kept]| kept.iter().find(|(k, _)| *k == key).map(|(_, kernel)| *kernel);
    if let Some(kernel) = KNOWN.with_borrow(|known| find(known)) {
        LAST.set(Some((key, kernel)));
        return kernel;
    }
    // Made ahead of the lock, and dropped behind it: both may run the caller's code.
    let typed = Box::new(Typed::<T, O>::new(operator));
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let kernel = match find(&all) {
        Some(kernel) => kernel,
        None => {
            let kernel: &'static dyn Kernel = Box::leak(typed);
            all.push((key, kernel));
            kernel
        }
    };
    drop(all);
    KNOWN.with_borrow_mut(|known| known.push((key, kernel)));
    LAST.set(Some((key, kernel)));
    kernel
}

impl Reducer {
    /// `operator` on elements of type `T`.
    pub fn new<T: Pod, O: Operator<T> + 'static>(operator: O) -> Self {
        Self(Held::Made(Arc::new(Typed::<T, O>::new(operator))))
    }

    /// As [`Reducer::new`], which allocates. An operator without state is made once, and kept until the process ends.
    #[inline]
    pub fn kept<T: Pod, O: Operator<T> + 'static>(operator: O) -> Self {
        if size_of::<O>() > 0 {
            return Self::new::<T, O>(operator);
        }
        let key = TypeId::of::<(T, O)>();
        match LAST.get() {
            Some((last, kernel)) if last == key => Self(Held::Kept(kernel)),
            _ => Self(Held::Kept(kernel_of::<T, O>(operator, key))),
        }
    }

    #[inline]
    fn kernel(&self) -> &dyn Kernel {
        match &self.0 {
            Held::Kept(kernel) => *kernel,
            Held::Made(kernel) => &**kernel,
        }
    }

    #[inline]
    fn facts(&self) -> &Facts {
        self.kernel().facts()
    }

    /// The type of the elements.
    #[inline]
    pub fn element_type(&self) -> Element {
        self.facts().element
    }

    /// Bytes of one element.
    #[inline]
    pub fn element(&self) -> usize {
        self.facts().element.size()
    }

    /// Whether the order of the operands is free.
    pub fn commutative(&self) -> bool {
        self.facts().commutative
    }

    /// Whether any order of operations gives the same bits: of built-in operators all but sums and products of
    /// floats and complex numbers. User operators are taken for inexact.
    pub fn exact(&self) -> bool {
        self.facts().exact
    }

    /// The operator's name.
    pub fn name(&self) -> &str {
        self.kernel().name()
    }

    /// The beginning of its name, which is quickly copied.
    #[doc(hidden)]
    #[inline]
    pub fn brief_name(&self) -> OperatorName {
        self.facts().name
    }

    /// The type's name: as the tool knows it, or for other types as Rust does; "raw elements" of [`Reducer::raw`].
    pub fn type_name(&self) -> &'static str {
        self.facts().kind
    }

    /// Whether [`Reducer::raw`] made it. Its function is never called for more elements than the collective call has.
    pub fn is_raw(&self) -> bool {
        self.facts().is_raw
    }

    /// A fingerprint of type and operator, the same in every process of a program, by which ranks find out that
    /// they disagree. User operators count by name, size of the element, its type (of raw ones: its alignment) and the
    /// commutative flag.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.facts().hash
    }

    /// For calls whose buffers are bytes, of which each [`element()`](Self::element) are an element of the reducer: what is known of
    /// the type at run time only. A call of bytes agrees with one of slices of the type at other ranks.
    pub fn on_bytes(&self) -> OnBytes {
        OnBytes(self.clone())
    }

    /// Element by element, target = source ⊕ target or target ⊕ source. The slices may be aligned as they like.
    ///
    /// # Errors
    /// The lengths differ or are no multiple of [`element`](Self::element) bytes: `target` is unchanged. The
    /// operator panicked: what `target` holds is unspecified.
    pub fn reduce(&self, target: &mut [u8], source: &[u8], side: Side) -> Result<()> {
        let kernel = self.kernel();
        if target.len() != source.len() || !kernel.facts().has_whole(target.len()) {
            return Err(self.unfit(target.len(), source.len()));
        }
        if target.is_empty() {
            return Ok(());
        }
        if kernel.facts().is_built_in {
            kernel.reduce(target, source, side);
            return Ok(());
        }
        let run = || kernel.reduce(target, source, side);
        catch_unwind(AssertUnwindSafe(run)).map_err(|panic| panicked(kernel.name(), panic))
    }

    /// The error of a call on elements of type `T`, which it is not for.
    #[cold]
    fn not_for<T: Pod>(&self) -> Error {
        let (mine, theirs) = (types::type_name::<T>(), self.type_name());
        let e = argument(format!("the operator {} is for {theirs}, the elements are {mine}", self.name()));
        match mine {
            "u8" => e.help("pass its on_bytes() to reduce slices of bytes"),
            _ if mine == theirs => e.help("these are two types of one name"),
            _ => e,
        }
    }

    /// The error of operands of these lengths, in bytes.
    #[cold]
    fn unfit(&self, target: usize, source: usize) -> Error {
        let name = self.name();
        if target != source {
            return argument(format!(
                "{name}: the operands have {target} and {source} bytes; they must be equally long"
            ));
        }
        let (kind, element) = (self.type_name(), self.element());
        argument(format!("{name}: {target} bytes are no whole number of {kind} ({element} bytes each)"))
    }
}

/// A [`Reducer`] for calls on slices of bytes: see [`Reducer::on_bytes`]. Their counts are in bytes; what is no whole number of
/// elements is an error of the call, before data moves. The slices may be aligned as they like.
#[derive(Clone, Debug)]
pub struct OnBytes(Reducer);

/// What the collectives take for an operator on `T`: a built-in one, one made of a closure by [`user`](super::user),
/// a [`Reducer`] made earlier (of any [`Operator`]), or [`OnBytes`], where `T` is `u8`.
///
/// The built-in ones cost nothing here; one with state is moved to the heap, so for frequent calls make a
/// [`Reducer`] once and pass `&reducer`.
///
/// Sealed: an operator of your own is an [`Operator`], from which [`Reducer::new`] makes one.
pub trait IntoReducer<T: Pod>: sealed::Sealed {
    /// The reducer.
    ///
    /// # Errors
    /// When it is a reducer for another type.
    fn into_reducer(self) -> Result<Reducer>;
}

mod sealed {
    pub trait Sealed {}
    impl<F> Sealed for super::User<F> {}
    impl Sealed for super::Reducer {}
    impl Sealed for &super::Reducer {}
    impl Sealed for super::OnBytes {}
    impl Sealed for &super::OnBytes {}
}

macro_rules! built_in {
    ($($operator:ident)*) => {$(
        impl sealed::Sealed for builtin::$operator {}

        impl<T: Pod> IntoReducer<T> for builtin::$operator
        where
            Self: Operator<T>,
        {
            fn into_reducer(self) -> Result<Reducer> {
                Ok(Reducer::kept::<T, Self>(self))
            }
        }
    )*};
}

built_in!(Sum Prod Min Max Land Lor Lxor Band Bor Bxor Minloc Maxloc);

impl<T: Pod, F: Fn(T, T) -> T + Send + Sync + 'static> IntoReducer<T> for User<F> {
    fn into_reducer(self) -> Result<Reducer> {
        Ok(Reducer::new::<T, Self>(self))
    }
}

impl<T: Pod> IntoReducer<T> for Reducer {
    fn into_reducer(self) -> Result<Reducer> {
        if self.facts().of == Some(TypeId::of::<T>()) { Ok(self) } else { Err(self.not_for::<T>()) }
    }
}

impl<T: Pod> IntoReducer<T> for &Reducer {
    fn into_reducer(self) -> Result<Reducer> {
        IntoReducer::<T>::into_reducer(self.clone())
    }
}

impl IntoReducer<u8> for OnBytes {
    fn into_reducer(self) -> Result<Reducer> {
        Ok(self.0)
    }
}

impl IntoReducer<u8> for &OnBytes {
    fn into_reducer(self) -> Result<Reducer> {
        Ok(self.0.clone())
    }
}

impl fmt::Debug for Reducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reducer({} on {})", self.name(), self.type_name())
    }
}

fn panicked(name: &str, panic: Box<dyn Any + Send>) -> Error {
    let text = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => format!(": {text}"),
        (_, Some(text)) => format!(": {text}"),
        // an unknown payload may panic again when dropped
        _ => {
            std::mem::forget(panic);
            String::new()
        }
    };
    argument(format!("the operator {name} panicked{text}")).help("correct the operator; its result is lost")
}

/// What a reducer does, without its types.
pub(super) trait Kernel: Send + Sync {
    fn facts(&self) -> &Facts;
    /// The operator's name, whole.
    fn name(&self) -> &str;
    /// The lengths are equal and multiples of the element.
    fn reduce(&self, target: &mut [u8], source: &[u8], side: Side);
}

struct Typed<T, O> {
    operator: O,
    facts: Facts,
    types: PhantomData<fn(T)>,
}

impl<T: Pod, O: Operator<T> + 'static> Typed<T, O> {
    fn new(operator: O) -> Self {
        let kind = types::type_name::<T>();
        let origin = if types::is_built_in::<O>() { "built in" } else { "user" };
        let (name, commutative) = (operator.name(), operator.commutative());
        let text = format!(
            "{kind}/{}/{origin}/{}/{name}",
            size_of::<T>(),
            if commutative { "commutative" } else { "ordered" },
        );
        let rounds = ["sum", "prod"].contains(&name)
            && ["f16", "bf16", "f32", "f64", "complex-f32", "complex-f64"].contains(&kind);
        let element = Element::of::<T>();
        // A program may define the library's operators on types of its own.
        let is_built_in = types::is_built_in::<O>() && element.is_in_table();
        let facts = Facts {
            of: Some(TypeId::of::<T>()),
            element,
            kind,
            name: OperatorName::new(name),
            commutative,
            exact: is_built_in && !rounds,
            is_raw: false,
            is_built_in,
            hash: fnv1a(text.as_bytes()),
        };
        Self { operator, facts, types: PhantomData }
    }
}

impl<T: Pod, O: Operator<T>> Kernel for Typed<T, O>
where
    Self: Send + Sync,
{
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn name(&self) -> &str {
        self.operator.name()
    }

    fn reduce(&self, target: &mut [u8], source: &[u8], side: Side) {
        if let Ok(source) = try_cast_slice(source)
            && let Ok(target) = try_cast_slice_mut(target)
        {
            wide(
                size_of_val::<[T]>(source),
                #[inline(always)]
                || self.operator.fold(target, source, side),
            );
        } else if size_of::<T>() <= SMALL {
            staged::<T, O, STAGE>(&self.operator, target, source, side);
        } else {
            staged::<T, O, 1>(&self.operator, target, source, side);
        }
    }
}

/// Runs `fold` on vectors of `bytes` bytes: the version compiled for AVX2 where the processor has that and the vectors fill a register, else the
/// one for all processors. Both give the same bits, as the compiler neither contracts nor reorders operations.
#[cfg(target_arch = "x86_64")]
#[inline]
fn wide(bytes: usize, fold: impl FnOnce()) {
    use fearless_simd::{Level, Simd};
    use std::sync::LazyLock;
    /// A register of AVX2.
    const VECTOR_BYTES: usize = 32;
    static LEVEL: LazyLock<Level> = LazyLock::new(Level::new);
    let avx2 = if bytes < VECTOR_BYTES { None } else { LEVEL.as_avx2() };
    match avx2 {
        Some(avx2) => avx2.vectorize(fold),
        None => fold(),
    }
}

/// Elsewhere `fold` is compiled once, for the vectors that all processors of the architecture have.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn wide(_bytes: usize, fold: impl FnOnce()) {
    fold();
}

/// By way of `N` aligned elements at a time.
#[inline(never)]
fn staged<T: Pod, O: Operator<T>, const N: usize>(o: &O, target: &mut [u8], source: &[u8], side: Side) {
    let (mut a, mut b) = ([T::zeroed(); N], [T::zeroed(); N]);
    for (target, source) in target.chunks_mut(N * size_of::<T>()).zip(source.chunks(N * size_of::<T>())) {
        let n = target.len() / size_of::<T>();
        cast_slice_mut(&mut a[..n]).copy_from_slice(target);
        cast_slice_mut(&mut b[..n]).copy_from_slice(source);
        o.fold(&mut a[..n], &b[..n], side);
        target.copy_from_slice(bytemuck::cast_slice(&a[..n]));
    }
}

/// Hashes of `std` may change from release to release and from process to process.
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::user;

    fn kept(reducer: &Reducer) -> Option<*const ()> {
        match reducer.0 {
            Held::Kept(kernel) => Some(std::ptr::from_ref(kernel).cast()),
            Held::Made(_) => None,
        }
    }

    /// Asks for other reducers when its name is asked for, and when it is dropped.
    struct Asking;

    impl Operator<u16> for Asking {
        fn combine(&self, left: u16, right: u16) -> u16 {
            left.max(right)
        }

        fn commutative(&self) -> bool {
            true
        }

        fn name(&self) -> &str {
            Reducer::kept::<u16, _>(builtin::Max);
            "asking"
        }
    }

    impl Drop for Asking {
        fn drop(&mut self) {
            Reducer::kept::<u16, _>(builtin::Min);
        }
    }

    #[test]
    fn operators_without_state_are_made_once_for_all_threads() {
        let here = || {
            let reducers = [
                Reducer::kept::<u16, _>(builtin::Sum),
                Reducer::kept::<u32, _>(builtin::Sum),
                Reducer::kept::<u16, _>(Asking),
            ];
            reducers.map(|reducer| kept(&reducer).map(<*const ()>::addr))
        };
        let first = here();
        assert!(first.iter().all(Option::is_some));
        assert_eq!(here(), first);
        assert_eq!(std::thread::spawn(here).join().unwrap(), first);
        assert_ne!(first[0], first[1], "another type");
        let twice = [0, 1].map(|_| kept(&Reducer::kept::<u16, _>(builtin::Sum)).map(<*const ()>::addr));
        assert_eq!(twice, [first[0]; 2]);
    }

    /// An element that the table does not have.
    type Own = [u8; 3];

    impl Operator<Own> for builtin::Sum {
        fn combine(&self, _left: Own, _right: Own) -> Own {
            panic!("no sum of these")
        }

        fn commutative(&self) -> bool {
            true
        }

        fn name(&self) -> &str {
            "own sum"
        }
    }

    #[test]
    fn the_librarys_operators_on_types_of_others_are_theirs() {
        let sum = Reducer::kept::<Own, _>(builtin::Sum);
        assert!(!sum.exact());
        let error = sum.reduce(&mut [1; 3], &[2; 3], Side::SourceLeft).unwrap_err();
        assert!(error.message().contains("own sum panicked: no sum of these"), "{error}");
    }

    #[test]
    fn operators_with_state_are_made_for_each_caller() {
        let more = 3u16;
        let mut target = [1u16];
        let sum = Reducer::kept::<u16, _>(user("more", true, move |a, b| a + b + more));
        assert_eq!(kept(&sum), None);
        sum.reduce(cast_slice_mut(&mut target), &7u16.to_le_bytes(), Side::SourceLeft).unwrap();
        assert_eq!(target, [11]);
    }
}
