//! Operators: predefined ones by number, and those of the program.

use crate::status::{Status, given, guard, place, string};
use crate::types::{Datatype, TypeNumber};
use circulant::Result;
use circulant::error::argument;
use circulant::ops::{self, Op, Reducer};
use std::alloc::Layout;
use std::ffi::{c_char, c_int, c_void};

/// The predefined ones, in the order of their numbers, from 1 on. The numbers never change.
const OPS: [Op; 12] = [
    Op::Sum,
    Op::Prod,
    Op::Min,
    Op::Max,
    Op::Land,
    Op::Lor,
    Op::Lxor,
    Op::Band,
    Op::Bor,
    Op::Bxor,
    Op::Minloc,
    Op::Maxloc,
];

/// An operator of the program: what `circulant_op_t` leads to if it is no number.
pub(crate) struct Operator {
    reducer: Reducer,
    on: TypeNumber,
}

/// What C calls `circulant_op_fn`.
type Function = unsafe extern "C" fn(*const c_void, *mut c_void, usize, *mut c_void);

/// The function of an operator, with what it is given.
struct Call {
    function: Function,
    context: *mut c_void,
}

// SAFETY: the header says that the function may be called by any thread that is in a call, and by one of the library.
unsafe impl Send for Call {}
// SAFETY: and by several at a time.
unsafe impl Sync for Call {}

impl Call {
    fn run(&self, left: &[u8], right: &mut [u8], size: usize) {
        // SAFETY: the function is what the header says; both slices have as many whole elements, and do not overlap.
        unsafe {
            (self.function)(
                left.as_ptr().cast(),
                right.as_mut_ptr().cast(),
                right.len() / size,
                self.context,
            );
        }
    }
}

/// The operator `op` on elements of type `kind`.
///
/// # Safety
/// `op` is as the header says: a number, or what `circulant_op_create` gave.
///
/// # Errors
/// When there is none, or not for that type.
pub(crate) unsafe fn reducer(op: *const Operator, number: TypeNumber) -> Result<Reducer> {
    let kind = Datatype::of(number)?;
    if let Some(at) = op.addr().checked_sub(1).filter(|at| *at < OPS.len()) {
        let Some(built_in) = kind.built_in else {
            let what = format!("{} is not defined on elements of {} bytes", OPS[at], kind.size);
            return Err(argument(what).help("make an operator for them by circulant_op_create"));
        };
        return ops::reducer(built_in, OPS[at]);
    }
    // SAFETY: our caller's.
    let operator = unsafe { given("op", op)? };
    match operator.on == number {
        true => Ok(operator.reducer.clone()),
        false => Err(argument(format!("the operator {} is for another type", operator.reducer.name()))),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_op_create(
    name: *const c_char,
    kind: TypeNumber,
    commutative: c_int,
    function: Option<Function>,
    context: *mut c_void,
    op: *mut *const Operator,
) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let (name, place) = (string("name", name)?, place("op", op)?);
            let function = function.ok_or_else(|| argument("function is NULL"))?;
            let datatype = Datatype::of(kind)?;
            let layout = Layout::from_size_align(datatype.size, datatype.alignment());
            let layout = layout.map_err(|_| argument(format!("elements of {} bytes", datatype.size)))?;
            let call = Call { function, context };
            let run = move |left: &[u8], right: &mut [u8]| call.run(left, right, datatype.size);
            let reducer = Reducer::raw(name, layout, commutative != 0, run)?;
            *place = Box::into_raw(Box::new(Operator { reducer, on: kind }));
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_op_free(op: *mut *const Operator) -> Status {
    guard(|| {
        // SAFETY: the pointer is as the header says; one that is no number was made by `circulant_op_create`, and is given back once.
        unsafe {
            let place = place("op", op)?;
            if place.addr() > OPS.len() {
                drop(Box::from_raw(place.cast_mut()));
            }
            *place = std::ptr::null();
            Ok(())
        }
    })
}
