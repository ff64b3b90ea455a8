//! Element types by number.

use crate::status::{Status, guard, place};
use circulant::Result;
use circulant::error::argument;
use circulant::ops::Type;
use std::ffi::c_int;

/// What C calls `circulant_type_t`: a number of the table, or [`BYTES`] with a size.
pub(crate) type TypeNumber = c_int;

/// `CIRCULANT_BYTES(n)` is this and the number of bytes.
const BYTES: TypeNumber = 0x4000_0000;

/// The predefined ones. The numbers never change.
const TYPES: [(TypeNumber, Type); 19] = [
    (1, Type::I8),
    (2, Type::I16),
    (3, Type::I32),
    (4, Type::I64),
    (5, Type::U8),
    (6, Type::U16),
    (7, Type::U32),
    (8, Type::U64),
    (9, Type::F16),
    (10, Type::Bf16),
    (11, Type::F32),
    (12, Type::F64),
    (13, Type::ComplexF32),
    (14, Type::ComplexF64),
    (15, Type::FloatInt),
    (16, Type::DoubleInt),
    (17, Type::TwoInt),
    (18, Type::LongInt),
    (19, Type::ShortInt),
];

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datatype {
    /// Bytes of one element; never 0.
    pub(crate) size: usize,
    /// The type that has predefined operators, if it is one.
    pub(crate) built_in: Option<Type>,
}

impl Datatype {
    /// # Errors
    /// When there is none of this number.
    pub(crate) fn of(number: TypeNumber) -> Result<Self> {
        if let Some((_, built_in)) = TYPES.iter().find(|(n, _)| *n == number) {
            return Ok(Self { size: built_in.size(), built_in: Some(*built_in) });
        }
        match usize::try_from(number ^ BYTES) {
            Ok(size) if number > BYTES => Ok(Self { size, built_in: None }),
            _ => Err(argument(format!("there is no type {number}")).help("use a constant of circulant.h")),
        }
    }

    /// The alignment of its elements in C: a size is a multiple of it.
    pub(crate) fn alignment(self) -> usize {
        /// Bytes: the alignment of `max_align_t`.
        const MAX_ALIGNMENT: usize = 16;
        (1 << self.size.trailing_zeros().min(MAX_ALIGNMENT.trailing_zeros())).min(MAX_ALIGNMENT)
    }

    /// How many bytes `count` elements have.
    ///
    /// # Errors
    /// When they are more than memory.
    pub(crate) fn bytes(self, count: usize) -> Result<usize> {
        let bytes = count.checked_mul(self.size).filter(|bytes| isize::try_from(*bytes).is_ok());
        bytes.ok_or_else(|| argument(format!("{count} elements of {} bytes are more than memory", self.size)))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_type_size(kind: TypeNumber, size: *mut usize) -> Status {
    guard(|| {
        // SAFETY: `size` is as the header says.
        unsafe {
            *place("size", size)? = Datatype::of(kind)?.size;
            Ok(())
        }
    })
}
