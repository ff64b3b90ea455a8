//! Whether the MPI that runs is the one that the tables say: asked once, before anything relies on them.

use super::{Abi, NAMED, PREDEFINED_OPS};
use crate::real::Real;
use circulant::{Error, ErrorKind, Result};

/// Types that every MPI has, with their sizes in C on the machines that this library is built for.
const SIZES: [(&str, i64); 12] = [
    ("CHAR", 1),
    ("BYTE", 1),
    ("SHORT", 2),
    ("INT", 4),
    ("UNSIGNED", 4),
    ("LONG", 8),
    ("UNSIGNED_LONG", 8),
    ("LONG_LONG", 8),
    ("FLOAT", 4),
    ("DOUBLE", 8),
    ("INT64_T", 8),
    ("2INT", 8),
];

/// Asks the MPI for the sizes of these types, and lets it combine two ints by each arithmetic operator.
///
/// # Errors
/// When an answer is another one: the ABI is not what it was taken for.
pub(crate) fn check(real: &Real, abi: &Abi) -> Result<()> {
    for (name, size) in SIZES {
        let handle = NAMED.iter().find(|n| n.name == name).and_then(|n| abi.named_type(n));
        let mut told = 0;
        // SAFETY: a type that every MPI has, and room for its size.
        let code = handle.map_or(-1, |handle| unsafe { real.Type_size_x(handle, &raw mut told) });
        if (code, told) != (0, size) {
            return Err(other(format!("MPI_{name} has {told} bytes there, code {code}, and {size} here")));
        }
    }
    for (name, result) in [("MAX", 5), ("MIN", 3), ("SUM", 8), ("PROD", 15)] {
        let op = PREDEFINED_OPS.iter().find(|o| o.name == name).and_then(|o| abi.predefined_op(o));
        let (left, mut right) = (3i32, 5i32);
        let (from, to) = ((&raw const left).cast(), (&raw mut right).cast());
        // SAFETY: two ints, which these operators are defined for.
        let code = op.map_or(-1, |op| unsafe { real.Reduce_local(from, to, 1, abi.int, op) });
        if (code, right) != (0, result) {
            return Err(other(format!("MPI_{name} of 3 and 5 is {right} there, code {code}")));
        }
    }
    Ok(())
}

fn other(what: String) -> Error {
    Error::new(ErrorKind::Library, format!("the MPI has another ABI than it seems to: {what}"))
        .help("CIRCULANT_MPI=0 leaves everything to the MPI")
}
