//! Operators on datatypes.
//!
//! Predefined operators on the types that [`circulant::ops`] has are its own. All others, and the program's, are the MPI's: by
//! `PMPI_Reduce_local`, which knows how to call a function of C or of Fortran.

use crate::abi::{Abi, Class, PREDEFINED_OPS};
use crate::buffers::{pack, source, unpack};
use crate::on::On;
use crate::outside::Outside;
use crate::real::Real;
use crate::report::Reason;
use crate::stop::Stop;
use crate::types::{Type, true_extent};
use circulant::ops::{OnBytes, Op, Reducer, Type as Element, reducer};
use std::alloc::Layout;
use std::borrow::Cow;
use std::ffi::{c_char, c_int, c_void};

/// The predefined operators of the MPI, and the reducers that stand for them.
#[derive(Debug)]
pub(crate) struct Reducers {
    /// By handle; `None`: for one-sided calls only.
    predefined: Vec<(usize, Option<Op>)>,
    null: usize,
}

/// What a reduction combines, and how.
#[derive(Debug)]
pub(crate) struct Reduction {
    reducer: By,
    pub(crate) ty: Type,
    /// Bytes of one element as the operator gets it.
    pub(crate) element: usize,
    /// Elements are used where they lie; else their data is laid out at this distance from the beginning of an element of ours.
    laid_out: Option<isize>,
}

/// What combines: a built-in reducer, or one for the call.
#[derive(Debug)]
enum By {
    BuiltIn(Reducer),
    Call(Reducer, #[allow(dead_code, reason = "it is held")] Outside),
}

/// Whose operator combines.
enum Whose {
    Ours(Element, Op),
    Mpis,
}

impl Reducers {
    pub(crate) fn new(abi: &Abi) -> Self {
        let known = |op: &crate::abi::Op| Some((abi.predefined_op(op)?, op.by));
        let mut predefined: Vec<_> = PREDEFINED_OPS.iter().filter_map(known).collect();
        predefined.sort_by_key(|(handle, _)| *handle);
        Self { predefined, null: abi.op_null }
    }

    /// Whether the handle is an operator of MPI, or none.
    pub(crate) fn is_predefined(&self, op: usize) -> bool {
        op == self.null || self.predefined.binary_search_by_key(&op, |(handle, _)| *handle).is_ok()
    }

    /// The reduction by `op` on elements of type `ty`. All ranks pass the same two, so all get the same answer. `blocks`: the call ends before it
    /// returns; `may_reduce`: the MPI's operators may be called wherever an operation moves on.
    ///
    /// # Safety
    /// `op` is an operator of this MPI.
    pub(crate) unsafe fn of(
        &'static self,
        on: &On,
        (blocks, may_reduce): (bool, bool),
        op: usize,
        ty: Type,
    ) -> Result<Reduction, Stop> {
        let op = on.abi.handle(op);
        if op == self.null {
            return Err(Stop::Pass(Reason::Arguments));
        }
        let predefined = self.predefined.binary_search_by_key(&op, |(handle, _)| *handle);
        let by = match predefined {
            Ok(i) => combined_by(&ty, self.predefined[i].1).ok_or(Stop::Pass(Reason::Operator))?,
            Err(_) => Whose::Mpis,
        };
        if let Whose::Ours(element, op) = by {
            let reducer = reducer(element, op)?;
            // That of a pair has padding.
            return Ok(Reduction {
                element: reducer.element(),
                reducer: By::BuiltIn(reducer),
                ty,
                laid_out: None,
            });
        }
        if !blocks && !may_reduce {
            return Err(Stop::Pass(Reason::Within));
        }
        let Ok(extent) = usize::try_from(ty.extent) else { return Err(Stop::Pass(Reason::Operator)) };
        // A pair is a struct of C, and its padding the program's.
        let here = ty.dense || matches!(ty.class, Some(Class::Pair(_)));
        let mut from = 0;
        if !here {
            // SAFETY: a type of this MPI.
            let (lb, data) =
                unsafe { true_extent(on.real, ty.handle) }.ok_or(Stop::Pass(Reason::Operator))?;
            if data > ty.extent {
                // Elements that lie into each other.
                return Err(Stop::Pass(Reason::Operator));
            }
            from = lb;
        }
        // SAFETY: the caller's.
        let reducer = unsafe { mpis(on.real, op, &ty, extent, from)? };
        let reducer = By::Call(reducer, Outside::new(may_reduce));
        Ok(Reduction { reducer, ty, element: extent, laid_out: (!here).then_some(from) })
    }
}

/// What applies the predefined operator to elements of this type; nothing: no MPI does, or none but as an extension.
fn combined_by(ty: &Type, op: Option<Op>) -> Option<Whose> {
    use Op::{Band, Bor, Bxor, Land, Lor, Lxor, Max, Maxloc, Min, Minloc, Prod, Sum};
    let (op, class) = (op?, ty.class?);
    let arithmetic = matches!(op, Sum | Prod | Min | Max);
    let logical = matches!(op, Land | Lor | Lxor);
    let bits = matches!(op, Band | Bor | Bxor);
    let element = match (class, ty.size) {
        (Class::Char, 1) if c_char::MIN == 0 => Some(Element::U8),
        (Class::Char | Class::Signed, 1) => Some(Element::I8),
        (Class::Signed, 2) => Some(Element::I16),
        (Class::Signed, 4) => Some(Element::I32),
        (Class::Signed, 8) => Some(Element::I64),
        (Class::Unsigned | Class::Bool | Class::Bits, 1) => Some(Element::U8),
        (Class::Unsigned, 2) => Some(Element::U16),
        (Class::Unsigned, 4) => Some(Element::U32),
        (Class::Unsigned, 8) => Some(Element::U64),
        (Class::Float, 4) => Some(Element::F32),
        (Class::Float, 8) => Some(Element::F64),
        (Class::Complex, 8) => Some(Element::ComplexF32),
        (Class::Complex, 16) => Some(Element::ComplexF64),
        // Fortran's integers may be longer than C's.
        (Class::Pair(pair), _) => pair.filter(|pair| isize::try_from(pair.size()) == Ok(ty.extent)),
        _ => None,
    };
    let defined = match class {
        Class::Char | Class::Signed | Class::Unsigned => arithmetic || logical || bits,
        Class::Float => arithmetic,
        Class::Complex => matches!(op, Sum | Prod),
        Class::Bool | Class::Logical => logical,
        Class::Bits => bits,
        Class::Pair(_) => matches!(op, Minloc | Maxloc),
        Class::Opaque => false,
    };
    defined.then(|| element.map_or(Whose::Mpis, |element| Whose::Ours(element, op)))
}

/// The largest alignment that a type of C needs: that of `long double` and `_Complex long double`, in bytes.
const MAX_ALIGNMENT_BYTES: usize = 16;

/// An operator as the MPI applies it, to elements of `extent` bytes whose data begins `lb` bytes from where the MPI is told.
///
/// # Safety
/// `op` is an operator of this MPI, and stays one for the time of the call.
unsafe fn mpis(real: &'static Real, op: usize, ty: &Type, extent: usize, lb: isize) -> Result<Reducer, Stop> {
    let datatype = ty.handle;
    if extent == 0 {
        return Err(Stop::Pass(Reason::Operator));
    }
    let mut commutes = 0;
    // SAFETY: the caller's; there is room for an int.
    let code = unsafe { real.Op_commutative(op, &raw mut commutes) };
    if code != 0 {
        return Err(Stop::Code(code));
    }
    let align = (1 << extent.trailing_zeros().min(MAX_ALIGNMENT_BYTES.trailing_zeros())).min(extent);
    let layout = Layout::from_size_align(extent, align).map_err(|_| Stop::Pass(Reason::Operator))?;
    let combine = move |left: &[u8], right: &mut [u8]| {
        let most = c_int::MAX.cast_unsigned() as usize * extent;
        for (left, right) in left.chunks(most).zip(right.chunks_mut(most)) {
            let n = c_int::try_from(left.len() / extent).unwrap_or(0);
            let from = left.as_ptr().wrapping_offset(lb.wrapping_neg()).cast();
            let to = right.as_mut_ptr().wrapping_offset(lb.wrapping_neg()).cast();
            // SAFETY: n elements each, whose data lies within `extent` bytes; op and type belong to a call that is under way.
            let code = unsafe { real.Reduce_local(from, to, n, datatype, op) };
            if code != 0 {
                // What the reducer catches, and makes an error of the collective.
                std::panic::panic_any(format!("MPI_Reduce_local returned {code}"));
            }
        }
    };
    Ok(Reducer::raw("an operator of the MPI", layout, commutes != 0, combine)?)
}

impl Reduction {
    /// The operator, for calls on bytes.
    pub(crate) fn op(&self) -> OnBytes {
        match &self.reducer {
            By::BuiltIn(reducer) => reducer.on_bytes(),
            By::Call(reducer, _) => reducer.on_bytes(),
        }
    }

    /// Whether elements are combined where the program has them.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.laid_out.is_none()
    }

    /// Bytes of `count` elements as they are combined.
    pub(crate) fn bytes(&self, count: usize) -> Result<usize, Stop> {
        let bytes = count.checked_mul(self.element).filter(|n| isize::try_from(*n).is_ok());
        bytes.ok_or(Stop::Pass(Reason::Arguments))
    }

    /// The contribution of this rank.
    ///
    /// # Safety
    /// `from` is a send buffer of `count` elements.
    pub(crate) unsafe fn source<'a>(
        &self,
        on: &On,
        from: *const c_void,
        count: usize,
    ) -> Result<Cow<'a, [u8]>, Stop> {
        let bytes = self.bytes(count)?;
        let Some(lb) = self.laid_out else {
            if bytes == 0 {
                return Ok(Cow::Borrowed(&[]));
            }
            if from.is_null() {
                return Err(Stop::Pass(Reason::Arguments));
            }
            // SAFETY: the caller's: the buffer has these bytes, as the elements follow each other without a gap.
            return Ok(Cow::Borrowed(unsafe { std::slice::from_raw_parts(from.cast(), bytes) }));
        };
        let mut elements = vec![0; bytes];
        // SAFETY: the caller's; each element of ours has room for the data from its lower bound on.
        unsafe {
            let packed = source(on, from, count, &self.ty)?;
            let first = elements.as_mut_ptr().wrapping_offset(lb.wrapping_neg());
            unpack(on, &packed, first, count, &self.ty)?;
        }
        Ok(Cow::Owned(elements))
    }

    /// Where `count` elements of the result go.
    ///
    /// # Safety
    /// `to` is a receive buffer of `count` elements, which nothing else uses while the result lives.
    pub(crate) unsafe fn target<'a>(self, to: *mut c_void, count: usize) -> Result<Combined<'a>, Stop> {
        let bytes = self.bytes(count)?;
        let memory = match self.laid_out {
            Some(_) => Memory::Ours(vec![0; bytes]),
            None if bytes == 0 => Memory::There(&mut []),
            None if to.is_null() => return Err(Stop::Pass(Reason::Arguments)),
            // SAFETY: the caller's: the buffer has these bytes, as in `source`.
            None => Memory::There(unsafe { std::slice::from_raw_parts_mut(to.cast(), bytes) }),
        };
        Ok(Combined { memory, to, count, by: self })
    }
}

enum Memory<'a> {
    There(&'a mut [u8]),
    Ours(Vec<u8>),
}

/// Where a result is made.
pub(crate) struct Combined<'a> {
    memory: Memory<'a>,
    to: *mut c_void,
    count: usize,
    by: Reduction,
}

impl Combined<'_> {
    /// What is combined into, and the reduction.
    pub(crate) fn split(&mut self) -> (&mut [u8], &Reduction) {
        let bytes = match &mut self.memory {
            Memory::There(bytes) => &mut **bytes,
            Memory::Ours(bytes) => bytes,
        };
        (bytes, &self.by)
    }

    /// Puts the result where it belongs. Gaps between data there stay as they are.
    pub(crate) fn finish(self, on: &On) -> Result<(), Stop> {
        let (Memory::Ours(elements), Some(lb)) = (self.memory, self.by.laid_out) else { return Ok(()) };
        let ty = &self.by.ty;
        let mut packed = vec![0; ty.bytes(self.count)?];
        let first = elements.as_ptr().wrapping_offset(lb.wrapping_neg());
        // SAFETY: as many elements as were laid out, and the buffer that `target` was given.
        unsafe {
            pack(on, first, self.count, ty, &mut packed)?;
            unpack(on, &packed, self.to.cast(), self.count, ty)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::NAMED;

    #[test]
    fn pairs_of_integers_are_combined_here_where_they_lie_as_in_c() {
        let combined = |name: &str, size, extent, op| {
            let class = NAMED.iter().find(|n| n.name == name).map(|n| n.class);
            combined_by(&Type { handle: 1, size, extent, dense: false, class }, Some(op))
        };
        let here = |by| matches!(by, Some(Whose::Ours(..)));
        assert!(here(combined("SHORT_INT", 6, 8, Op::Minloc)), "padded behind the value");
        assert!(here(combined("LONG_INT", 12, 16, Op::Maxloc)), "padded behind the index");
        assert!(here(combined("2INTEGER", 8, 8, Op::Maxloc)));
        let theirs = |by| matches!(by, Some(Whose::Mpis));
        assert!(theirs(combined("2INTEGER", 16, 16, Op::Maxloc)), "integers of 8 bytes");
        assert!(theirs(combined("DOUBLE_INT", 12, 16, Op::Maxloc)), "−0 and 0 are equal for MPI");
        assert!(combined("2INT", 8, 8, Op::Sum).is_none());
    }
}
