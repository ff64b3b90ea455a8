//! Types and operators by name: their handles in each ABI, and what they are.

use circulant::ops::{Op as By, Type as Pair};
use std::ffi::CStr;

/// What the elements of a named type are. Their size is asked of the MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// C's `char`, signed or not as the compiler has it.
    Char,
    Signed,
    Unsigned,
    Float,
    Complex,
    /// A byte that is 0 or not.
    Bool,
    /// Fortran's LOGICAL, whose true is 1 or -1.
    Logical,
    /// `MPI_BYTE`.
    Bits,
    /// A value and an index, for MINLOC and MAXLOC: a struct of C, and which one of ours it is, if any combines alike. Of floats none
    /// does: −0 is less than +0 there, while MPI takes the lower index of the two.
    Pair(Option<Pair>),
    /// Nothing reduces it.
    Opaque,
}

/// A named type. All handles are of the C interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    /// Without `MPI_`.
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    pub(crate) mpich: u32,
    pub(crate) standard: u16,
    /// The symbol whose address it is.
    pub(crate) open_mpi: &'static CStr,
}

/// A predefined operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    /// Without `MPI_`.
    pub(crate) name: &'static str,
    /// Ours; `None`: it is for one-sided calls only.
    pub(crate) by: Option<By>,
    pub(crate) mpich: u32,
    pub(crate) standard: u16,
    pub(crate) open_mpi: &'static CStr,
}

const fn named(
    name: &'static str,
    class: Class,
    mpich: u32,
    standard: u16,
    open_mpi: &'static CStr,
) -> Named {
    Named { name, class, mpich, standard, open_mpi }
}

const fn op(name: &'static str, by: Option<By>, mpich: u32, standard: u16, open_mpi: &'static CStr) -> Op {
    Op { name, by, mpich, standard, open_mpi }
}

// name, class, MPICH's ABI, standard ABI, Open MPI's symbol
#[rustfmt::skip]
pub(crate) const NAMED: &[Named] = &[
    named("CHAR", Class::Char, 0x4c00_0101, 0x243, c"ompi_mpi_char"),
    named("SIGNED_CHAR", Class::Signed, 0x4c00_0118, 0x244, c"ompi_mpi_signed_char"),
    named("UNSIGNED_CHAR", Class::Unsigned, 0x4c00_0102, 0x245, c"ompi_mpi_unsigned_char"),
    named("BYTE", Class::Bits, 0x4c00_010d, 0x247, c"ompi_mpi_byte"),
    named("WCHAR", Class::Opaque, 0x4c00_040e, 0x23c, c"ompi_mpi_wchar"),
    named("SHORT", Class::Signed, 0x4c00_0203, 0x208, c"ompi_mpi_short"),
    named("UNSIGNED_SHORT", Class::Unsigned, 0x4c00_0204, 0x20c, c"ompi_mpi_unsigned_short"),
    named("INT", Class::Signed, 0x4c00_0405, 0x209, c"ompi_mpi_int"),
    named("UNSIGNED", Class::Unsigned, 0x4c00_0406, 0x20d, c"ompi_mpi_unsigned"),
    named("LONG", Class::Signed, 0x4c00_0807, 0x20a, c"ompi_mpi_long"),
    named("UNSIGNED_LONG", Class::Unsigned, 0x4c00_0808, 0x20e, c"ompi_mpi_unsigned_long"),
    named("LONG_LONG", Class::Signed, 0x4c00_0809, 0x20b, c"ompi_mpi_long_long_int"),
    named("UNSIGNED_LONG_LONG", Class::Unsigned, 0x4c00_0819, 0x20f, c"ompi_mpi_unsigned_long_long"),
    named("FLOAT", Class::Float, 0x4c00_040a, 0x210, c"ompi_mpi_float"),
    named("DOUBLE", Class::Float, 0x4c00_080b, 0x214, c"ompi_mpi_double"),
    named("LONG_DOUBLE", Class::Float, 0x4c00_100c, 0x220, c"ompi_mpi_long_double"),
    named("PACKED", Class::Opaque, 0x4c00_010f, 0x207, c"ompi_mpi_packed"),
    named("INT8_T", Class::Signed, 0x4c00_0137, 0x240, c"ompi_mpi_int8_t"),
    named("INT16_T", Class::Signed, 0x4c00_0238, 0x248, c"ompi_mpi_int16_t"),
    named("INT32_T", Class::Signed, 0x4c00_0439, 0x250, c"ompi_mpi_int32_t"),
    named("INT64_T", Class::Signed, 0x4c00_083a, 0x258, c"ompi_mpi_int64_t"),
    named("UINT8_T", Class::Unsigned, 0x4c00_013b, 0x241, c"ompi_mpi_uint8_t"),
    named("UINT16_T", Class::Unsigned, 0x4c00_023c, 0x249, c"ompi_mpi_uint16_t"),
    named("UINT32_T", Class::Unsigned, 0x4c00_043d, 0x251, c"ompi_mpi_uint32_t"),
    named("UINT64_T", Class::Unsigned, 0x4c00_083e, 0x259, c"ompi_mpi_uint64_t"),
    named("AINT", Class::Signed, 0x4c00_0843, 0x201, c"ompi_mpi_aint"),
    named("OFFSET", Class::Signed, 0x4c00_0844, 0x203, c"ompi_mpi_offset"),
    named("COUNT", Class::Signed, 0x4c00_0845, 0x202, c"ompi_mpi_count"),
    named("C_BOOL", Class::Bool, 0x4c00_013f, 0x238, c"ompi_mpi_c_bool"),
    named("C_FLOAT_COMPLEX", Class::Complex, 0x4c00_0840, 0x212, c"ompi_mpi_c_float_complex"),
    named("C_DOUBLE_COMPLEX", Class::Complex, 0x4c00_1041, 0x216, c"ompi_mpi_c_double_complex"),
    named("C_LONG_DOUBLE_COMPLEX", Class::Complex, 0x4c00_2042, 0x224, c"ompi_mpi_c_long_double_complex"),
    named("CXX_BOOL", Class::Bool, 0x4c00_0133, 0x239, c"ompi_mpi_cxx_bool"),
    named("CXX_FLOAT_COMPLEX", Class::Complex, 0x4c00_0834, 0x213, c"ompi_mpi_cxx_cplex"),
    named("CXX_DOUBLE_COMPLEX", Class::Complex, 0x4c00_1035, 0x217, c"ompi_mpi_cxx_dblcplex"),
    named("CXX_LONG_DOUBLE_COMPLEX", Class::Complex, 0x4c00_2036, 0x225, c"ompi_mpi_cxx_ldblcplex"),
    named("FLOAT_INT", Class::Pair(None), 0x8c00_0000, 0x228, c"ompi_mpi_float_int"),
    named("DOUBLE_INT", Class::Pair(None), 0x8c00_0001, 0x229, c"ompi_mpi_double_int"),
    named("LONG_INT", Class::Pair(Some(Pair::LongInt)), 0x8c00_0002, 0x22a, c"ompi_mpi_long_int"),
    named("SHORT_INT", Class::Pair(Some(Pair::ShortInt)), 0x8c00_0003, 0x22c, c"ompi_mpi_short_int"),
    named("2INT", Class::Pair(Some(Pair::TwoInt)), 0x4c00_0816, 0x22b, c"ompi_mpi_2int"),
    named("LONG_DOUBLE_INT", Class::Pair(None), 0x8c00_0004, 0x22d, c"ompi_mpi_longdbl_int"),
    named("CHARACTER", Class::Opaque, 0x4c00_011a, 0x21e, c"ompi_mpi_character"),
    named("LOGICAL", Class::Logical, 0x4c00_041d, 0x218, c"ompi_mpi_logical"),
    named("INTEGER", Class::Signed, 0x4c00_041b, 0x219, c"ompi_mpi_integer"),
    named("REAL", Class::Float, 0x4c00_041c, 0x21a, c"ompi_mpi_real"),
    named("DOUBLE_PRECISION", Class::Float, 0x4c00_081f, 0x21c, c"ompi_mpi_dblprec"),
    named("COMPLEX", Class::Complex, 0x4c00_081e, 0x21b, c"ompi_mpi_cplex"),
    named("DOUBLE_COMPLEX", Class::Complex, 0x4c00_1022, 0x21d, c"ompi_mpi_dblcplex"),
    named("2INTEGER", Class::Pair(Some(Pair::TwoInt)), 0x4c00_0820, 0x232, c"ompi_mpi_2integer"),
    named("2REAL", Class::Pair(None), 0x4c00_0821, 0x230, c"ompi_mpi_2real"),
    named("2DOUBLE_PRECISION", Class::Pair(None), 0x4c00_1023, 0x231, c"ompi_mpi_2dblprec"),
    named("INTEGER1", Class::Signed, 0x4c00_012d, 0x2c1, c"ompi_mpi_integer1"),
    named("INTEGER2", Class::Signed, 0x4c00_022f, 0x2c9, c"ompi_mpi_integer2"),
    named("INTEGER4", Class::Signed, 0x4c00_0430, 0x2d1, c"ompi_mpi_integer4"),
    named("INTEGER8", Class::Signed, 0x4c00_0831, 0x2d9, c"ompi_mpi_integer8"),
    named("REAL4", Class::Float, 0x4c00_0427, 0x2d2, c"ompi_mpi_real4"),
    named("REAL8", Class::Float, 0x4c00_0829, 0x2da, c"ompi_mpi_real8"),
    named("REAL16", Class::Float, 0x4c00_102b, 0x2e2, c"ompi_mpi_real16"),
    named("COMPLEX8", Class::Complex, 0x4c00_0828, 0x2db, c"ompi_mpi_complex8"),
    named("COMPLEX16", Class::Complex, 0x4c00_102a, 0x2e3, c"ompi_mpi_complex16"),
    named("COMPLEX32", Class::Complex, 0x4c00_202c, 0x2eb, c"ompi_mpi_complex32"),
];

#[rustfmt::skip]
pub(crate) const PREDEFINED_OPS: &[Op] = &[
    op("MAX", Some(By::Max), 0x5800_0001, 0x23, c"ompi_mpi_op_max"),
    op("MIN", Some(By::Min), 0x5800_0002, 0x22, c"ompi_mpi_op_min"),
    op("SUM", Some(By::Sum), 0x5800_0003, 0x21, c"ompi_mpi_op_sum"),
    op("PROD", Some(By::Prod), 0x5800_0004, 0x24, c"ompi_mpi_op_prod"),
    op("LAND", Some(By::Land), 0x5800_0005, 0x30, c"ompi_mpi_op_land"),
    op("BAND", Some(By::Band), 0x5800_0006, 0x28, c"ompi_mpi_op_band"),
    op("LOR", Some(By::Lor), 0x5800_0007, 0x31, c"ompi_mpi_op_lor"),
    op("BOR", Some(By::Bor), 0x5800_0008, 0x29, c"ompi_mpi_op_bor"),
    op("LXOR", Some(By::Lxor), 0x5800_0009, 0x32, c"ompi_mpi_op_lxor"),
    op("BXOR", Some(By::Bxor), 0x5800_000a, 0x2a, c"ompi_mpi_op_bxor"),
    op("MINLOC", Some(By::Minloc), 0x5800_000b, 0x38, c"ompi_mpi_op_minloc"),
    op("MAXLOC", Some(By::Maxloc), 0x5800_000c, 0x39, c"ompi_mpi_op_maxloc"),
    op("REPLACE", None, 0x5800_000d, 0x3c, c"ompi_mpi_op_replace"),
    op("NO_OP", None, 0x5800_000e, 0x3d, c"ompi_mpi_op_no_op"),
];
