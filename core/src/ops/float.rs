//! Floats whose results have the same bits on every rank: one canonical NaN (hardware picks payload and sign by
//! the order of the operands, and each architecture its own), minimum and maximum of IEEE 754-2019.

/// Canonical NaN, minimum, maximum of a float with hardware arithmetic. All branchless, for the vectoriser.
macro_rules! hardware {
    ($t:ident, $nan:literal, $integer:ident, $bits:ident) => {
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

            #[inline(always)]
            pub(in crate::ops) fn add(target: &mut [$t], source: &[$t]) {
                blocks(target, source, |a, b| a + b);
            }

            #[inline(always)]
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

            #[inline(always)]
            pub(in crate::ops) fn least(target: &mut [$t], source: &[$t]) {
                extremes(target, source, |a, b| {
                    let (first, second) = (if a < b { a } else { b }, if b < a { b } else { a });
                    first.to_bits() | second.to_bits()
                });
            }

            #[inline(always)]
            pub(in crate::ops) fn greatest(target: &mut [$t], source: &[$t]) {
                extremes(target, source, |a, b| {
                    let (first, second) = (if a > b { a } else { b }, if b > a { b } else { a });
                    first.to_bits() & second.to_bits()
                });
            }

            /// The comparison made both ways round is one instruction each, and gives the same number twice
            /// or two zeros, whose bits `f` joins. Where there is a NaN all bits are set, which is one, too, and
            /// is repaired afterwards.
            #[inline(always)]
            fn extremes(target: &mut [$t], source: &[$t], f: impl Fn($t, $t) -> $bits) {
                for (target, source) in target.chunks_mut(BLOCK).zip(source.chunks(BLOCK)) {
                    let mut seen = 0;
                    for (t, s) in target.iter_mut().zip(source) {
                        let nan = if t.is_nan() | s.is_nan() { $bits::MAX } else { 0 };
                        seen |= nan;
                        *t = $t::from_bits(f(*t, *s) | nan);
                    }
                    if seen != 0 {
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

hardware!(f32, 0x7fc0_0000, i32, u32);
hardware!(f64, 0x7ff8_0000_0000_0000, i64, u64);

/// The same for a 16-bit float: compared as integers, computed in `f32` by $blocks.
macro_rules! short {
    ($t:ident, $nan:literal, $infinity:literal, $blocks:path) => {
        pub(super) mod $t {
            use half::$t;

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

            #[inline(always)]
            pub(in crate::ops) fn add(target: &mut [$t], source: &[$t]) {
                $blocks(target, source, |a, b| a + b);
            }

            #[inline(always)]
            pub(in crate::ops) fn multiply(target: &mut [$t], source: &[$t]) {
                $blocks(target, source, |a, b| a * b);
            }
        }
    };
}

short!(f16, 0x7e00, 0x7c00, super::converted);
short!(bf16, 0x7fc0, 0x7f80, super::widened);

/// A block at a time, as the conversions of `f16` have instructions for vectors only.
#[inline(always)]
fn converted(target: &mut [half::f16], source: &[half::f16], f: impl Fn(f32, f32) -> f32) {
    use half::slice::HalfFloatSliceExt;
    const BLOCK: usize = 128;
    let (mut a, mut b) = ([0.0_f32; BLOCK], [0.0_f32; BLOCK]);
    for (target, source) in target.chunks_mut(BLOCK).zip(source.chunks(BLOCK)) {
        let (a, b) = (&mut a[..target.len()], &mut b[..source.len()]);
        target.convert_to_f32_slice(a);
        source.convert_to_f32_slice(b);
        a.iter_mut().zip(&*b).for_each(|(a, b)| *a = f(*a, *b));
        target.convert_from_f32_slice(a);
        target.iter_mut().for_each(|x| *x = self::f16::canonical(*x));
    }
}

/// A `bf16` is the upper half of an `f32`: shifts that every vector unit has.
#[inline(always)]
fn widened(target: &mut [half::bf16], source: &[half::bf16], f: impl Fn(f32, f32) -> f32) {
    let wide = |x: half::bf16| f32::from_bits(u32::from(x.to_bits()) << 16);
    for (t, s) in target.iter_mut().zip(source) {
        let x = f(wide(*t), wide(*s));
        let bits = x.to_bits();
        // To nearest, ties to even: a carry into the exponent is right, up to infinity.
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        #[allow(clippy::cast_possible_truncation, reason = "shifted by 16")]
        let narrow = half::bf16::from_bits(rounded as u16);
        *t = if x.is_nan() { self::bf16::NAN } else { narrow };
    }
}
