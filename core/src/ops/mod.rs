//! Types, operators and the loops that reduce.
//!
//! An [`Operator`] combines two elements. The built-in ones ([`Sum`], [`Prod`], [`Min`], [`Max`], [`Land`], [`Lor`],
//! [`Lxor`], [`Band`], [`Bor`], [`Bxor`], [`Minloc`], [`Maxloc`]) are defined for the types where they make sense,
//! others do not compile; [`user`] makes one of a closure, for any type without padding (`bytemuck::Pod`). A
//! [`Reducer`] is an operator on a type for slices of bytes; [`Reducer::raw`] makes one of a closure for elements whose size is
//! known at run time only, and [`Reducer::on_bytes`] makes any of them what calls take whose buffers are bytes. [`Type`], [`Op`],
//! [`reducer()`] and [`pairs`] are the built-in ones by name.
//!
//! | types | sum prod | min max | land lor lxor band bor bxor | minloc maxloc |
//! |---|---|---|---|---|
//! | `i8` … `i128`, `isize`, `u8` … `u128`, `usize` | yes | yes | yes | |
//! | [`struct@f16`], [`bf16`], `f32`, `f64` | yes | yes | | |
//! | [`Complex`] of `f32`, `f64` | yes | | | |
//! | [`I32Index`], [`U32Index`], [`F32Index`], [`I64Index`], [`U64Index`], [`F64Index`]: with an unsigned index as wide as the value | | | | yes |
//! | MPI's pairs, with a signed index: [`ShortInt`], [`TwoInt`], [`LongInt`], [`FloatInt`], [`DoubleInt`], [`TwoReal`], [`TwoDouble`] | | | | yes |
//!
//! ```compile_fail,E0277
//! circulant_core::ops::Reducer::new::<f64, _>(circulant_core::ops::Band); // no bits of a float
//! ```
//!
//! # What ranks may rely on
//! Built-in operators give the same bits on every rank and architecture, whichever side an operand stands on:
//! a ⊕ b = b ⊕ a to the bit, also with NaN (there is one canonical NaN: positive, quiet, without payload) and
//! signed zeros. No fused multiply-add, no flushing of subnormal numbers, round to nearest even.
//!
//! Associative to the bit, so that the order of the reduction never shows: everything on integers, `min`, `max`,
//! `minloc`, `maxloc`. Only up to rounding: `sum` and `prod` of floats and complex numbers. There the result is a
//! function of the tree of operands: the same bits for the same algorithm, counts, number of ranks and block size.
//!
//! A NaN is made canonical when it passes through an operator; the contribution of a single rank (p = 1) passes
//! through none.
//!
//! # Speed
//! Loops that the compiler vectorises, for aligned slices; others go through small aligned copies. Sums of integers and
//! of `f32` and `f64` run at the speed of a plain read-add-write loop or nearly so, `min` and `max` of floats at half of
//! it in the first cache and at about 0.8 of it from memory; 16-bit floats are bound by their conversions. The table is in
//! `docs/design.md`, and `cargo bench --bench ops -- table` prints it.
//!
//! # Overflow
//! Integers wrap, in debug builds too. Floats go to infinity; `f16` does so above 65504: prefer `bf16` or `f32` for
//! long sums.
#![forbid(unsafe_code)]

mod builtin;
mod facts;
mod float;
mod located;
mod operator;
mod raw;
mod reducer;
mod table;
mod types;

pub use builtin::{Band, Bor, Bxor, Land, Lor, Lxor, Max, Maxloc, Min, Minloc, Prod, Sum};
pub use facts::OperatorName;
pub use half::{bf16, f16};
pub use located::{DoubleInt, F32Index, F64Index, FloatInt, I32Index, I64Index, LongInt, ShortInt};
pub use located::{TwoDouble, TwoInt, TwoReal, U32Index, U64Index};
pub use num_complex::Complex;
pub use operator::{Operator, Side, User, user};
pub use reducer::{IntoReducer, OnBytes, Reducer};
pub use table::{pairs, reducer};
pub use types::{Element, Op, Type};
