//! Floats whose results have the same bits on every rank: one canonical NaN (hardware picks payload and sign by
//! the order of the operands, and each architecture its own), minimum and maximum of IEEE 754-2019.

/// Canonical NaN, minimum, maximum of a float with hardware arithmetic. All branchless, for the vectoriser.
macro_rules! hardware {
    ($t:ident, $nan:literal, $integer:ident) => {
        pub(super) mod $t {
            use num_complex::Complex;

            const BLOCK: usize = 512;

            /// Positive, quiet, no payload.
            pub(in crate::ops) const NAN: $t = $t::from_bits($nan);

            #[inline(always)]
            pub(in crate::ops) fn canonical(x: $t) -> $t {
                if x.is_nan() { NAN } else { x }
            }

            #[inline(always)]
            pub(in crate::ops) fn canonical_parts(x: Complex<$t>) -> Complex<$t> {
                Complex::new(canonical(x.re), canonical(x.im))
            }

            pub(in crate::ops) fn add(target: &mut [$t], source: &[$t]) {
                blocks(target, source, |a, b| a + b);
            }

            pub(in crate::ops) fn multiply(target: &mut [$t], source: &[$t]) {
                blocks(target, source, |a, b| a * b);
            }

            /// Only looks for a NaN on the way, which costs less than a selection, and repairs where it saw one.
            #[inline(always)]
            fn blocks(target: &mut [$t], source: &[$t], f: impl Fn($t, $t) -> $t) {
                for (target, source) in target.chunks_mut(BLOCK).zip(source.chunks(BLOCK)) {
                    let mut seen = false;
                    for (t, s) in target.iter_mut().zip(source) {
                        *t = f(*t, *s);
                        seen |= t.is_nan();
                    }
                    if seen {
                        target.iter_mut().for_each(|t| *t = canonical(*t));
                    }
                }
            }

            /// `equal`: what to return of operands that compare equal, which are the same or two zeros.
            #[inline(always)]
            fn choose(a: $t, b: $t, less: bool, equal: $t) -> $t {
                let ordered = if less { a } else { b };
                let number = if a == b { equal } else { ordered };
                if a.is_nan() | b.is_nan() { NAN } else { number }
            }

            #[inline(always)]
            pub(in crate::ops) fn minimum(a: $t, b: $t) -> $t {
                choose(a, b, a < b, $t::from_bits(a.to_bits() | b.to_bits()))
            }

            #[inline(always)]
            pub(in crate::ops) fn maximum(a: $t, b: $t) -> $t {
                choose(a, b, a > b, $t::from_bits(a.to_bits() & b.to_bits()))
            }

            /// Ordered as the numbers are, −0 before +0; `nan` for a NaN. No number has an extreme key.
            #[inline(always)]
            pub(in crate::ops) fn key(x: $t, nan: $integer) -> $integer {
                let bits = x.to_bits().cast_signed();
                if x.is_nan() { nan } else { bits ^ ((bits >> ($integer::BITS - 1)) & $integer::MAX) }
            }
        }
    };
}

hardware!(f32, 0x7fc0_0000, i32);
hardware!(f64, 0x7ff8_0000_0000_0000, i64);

/// The same for a 16-bit float: compared as integers, computed in `f32`. A block at a time, as the conversions
/// have instructions for vectors only.
macro_rules! short {
    ($t:ident, $nan:literal, $infinity:literal) => {
        pub(super) mod $t {
            use half::slice::HalfFloatSliceExt;
            use half::$t;

            const BLOCK: usize = 128;

            /// Positive, quiet, no payload.
            pub(in crate::ops) const NAN: $t = $t::from_bits($nan);

            #[inline(always)]
            fn is_nan(x: $t) -> bool {
                x.to_bits() & 0x7fff > $infinity
            }

            #[inline(always)]
            pub(in crate::ops) fn canonical(x: $t) -> $t {
                if is_nan(x) { NAN } else { x }
            }

            /// Ordered as the numbers are, −0 before +0.
            #[inline(always)]
            fn key(x: $t) -> i16 {
                let bits = x.to_bits().cast_signed();
                bits ^ ((bits >> 15) & 0x7fff)
            }

            #[inline(always)]
            pub(in crate::ops) fn minimum(a: $t, b: $t) -> $t {
                let number = if key(a) < key(b) { a } else { b };
                if is_nan(a) | is_nan(b) { NAN } else { number }
            }

            #[inline(always)]
            pub(in crate::ops) fn maximum(a: $t, b: $t) -> $t {
                let number = if key(a) > key(b) { a } else { b };
                if is_nan(a) | is_nan(b) { NAN } else { number }
            }

            pub(in crate::ops) fn add(target: &mut [$t], source: &[$t]) {
                blocks(target, source, |a, b| a + b);
            }

            pub(in crate::ops) fn multiply(target: &mut [$t], source: &[$t]) {
                blocks(target, source, |a, b| a * b);
            }

            #[inline(always)]
            fn blocks(target: &mut [$t], source: &[$t], f: impl Fn(f32, f32) -> f32) {
                let (mut a, mut b) = ([0.0_f32; BLOCK], [0.0_f32; BLOCK]);
                for (target, source) in target.chunks_mut(BLOCK).zip(source.chunks(BLOCK)) {
                    let (a, b) = (&mut a[..target.len()], &mut b[..source.len()]);
                    target.convert_to_f32_slice(a);
                    source.convert_to_f32_slice(b);
                    a.iter_mut().zip(&*b).for_each(|(a, b)| *a = f(*a, *b));
                    target.convert_from_f32_slice(a);
                    target.iter_mut().for_each(|x| *x = canonical(*x));
                }
            }
        }
    };
}

short!(f16, 0x7e00, 0x7c00);
short!(bf16, 0x7fc0, 0x7f80);
