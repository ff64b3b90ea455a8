//! Copies where the system's own is slow: those too long for any cache, and those that a processor does in slow microcode.

use bytemuck::Pod;

/// The most of the last cache that is counted on, in bytes. Processors with more have it in parts, or share it with other virtual
/// machines. Measured where a virtual machine saw 480 MB: copies of 64 MB went at 6 GB/s through it and at 8 round it.
const MAX_CACHE_BYTES: usize = 48 << 20;
/// The last cache where the system does not say, in bytes. Chosen.
const DEFAULT_CACHE_BYTES: usize = 32 << 20;
/// No shorter copy goes round the cache, in bytes. Chosen: a core's own cache may hold that much.
const MIN_LONG_BYTES: usize = 2 << 20;

/// From this many bytes on a copy goes round the cache: where each of `ranks` ranks of a node receives as many, none finds them
/// there afterwards, and to fetch what is about to be overwritten costs memory a third more.
pub(crate) fn long_copy_bytes(ranks: usize) -> usize {
    // SAFETY: asks for a number only; Miri does not know it.
    let cache = if cfg!(miri) { 0 } else { unsafe { libc::sysconf(libc::_SC_LEVEL3_CACHE_SIZE) } };
    let cache = usize::try_from(cache).ok().filter(|n| *n > 0).unwrap_or(DEFAULT_CACHE_BYTES);
    (cache.min(MAX_CACHE_BYTES) / ranks.max(1)).max(MIN_LONG_BYTES)
}

/// As [`std::ptr::copy_nonoverlapping`], and never through the microcode of Zen 3 and 4 where that is slow: a target that
/// begins less than 32 bytes behind its source, counted within a page, takes `rep movsb` twenty times as long there (2.4
/// GB/s instead of 50 for 64 KB), which C libraries before glibc 2.40 do not avoid. A `Vec` that begins 16 bytes behind a
/// page, as those of whole pages do, is such a target for all that begins at one.
///
/// # Safety
/// As there.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if len >= MIN_MICROCODED_BYTES && (1..32).contains(&(to.addr().wrapping_sub(from.addr()) % 4096)) {
        // SAFETY: passed on.
        return unsafe { by_vectors(from, to, len) };
    }
    // SAFETY: passed on.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

/// [`copy`] for slices, whose lengths are the same.
pub(crate) fn copy_slice<T: Pod>(from: &[T], to: &mut [T]) {
    let (from, to): (&[u8], &mut [u8]) = (bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to));
    debug_assert_eq!(from.len(), to.len());
    let n = from.len().min(to.len());
    // SAFETY: both have this many bytes, and one that may be written does not overlap another.
    unsafe { copy(from.as_ptr(), to.as_mut_ptr(), n) };
}

/// Prefetches the cache line at `at`, where there is an instruction for it. Any address is allowed.
#[inline]
pub(crate) fn prefetch(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction reads nothing that the program sees, and never faults. It is a part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = at;
}

/// Shorter copies never use `rep movsb`, in bytes: glibc's default `rep_movsb_threshold` is this or more.
#[cfg(target_arch = "x86_64")]
const MIN_MICROCODED_BYTES: usize = 2048;

/// The 64 bytes at `from`.
///
/// # Safety
/// They can be read.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn load(from: *const u8) -> [std::arch::x86_64::__m128i; 4] {
    use std::arch::x86_64::_mm_loadu_si128;
    let s = from.cast();
    // SAFETY: 64 bytes can be read (the caller's promise), aligned or not.
    unsafe {
        [_mm_loadu_si128(s), _mm_loadu_si128(s.add(1)), _mm_loadu_si128(s.add(2)), _mm_loadu_si128(s.add(3))]
    }
}

/// By vectors of 32 bytes, of which a core's own cache gives one at a time, where the processor has AVX; those that have not are not slow at
/// the system's copy.
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`].
#[cfg(target_arch = "x86_64")]
unsafe fn by_vectors(from: *const u8, to: *mut u8, len: usize) {
    if is_x86_feature_detected!("avx") {
        // SAFETY: passed on; the processor has AVX.
        return unsafe { by_avx(from, to, len) };
    }
    // SAFETY: passed on.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

/// # Safety
/// As [`std::ptr::copy_nonoverlapping`], on a processor with AVX.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn by_avx(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_storeu_si256};
    /// Bytes of a step: two vectors.
    const STEP: usize = 64;
    let tail = len - len % STEP;
    // SAFETY: all offsets are at most `len`, for which both pointers are good (the caller's promise), aligned or not.
    unsafe {
        for at in (0..tail).step_by(STEP) {
            let (s, d) = (from.add(at).cast::<__m256i>(), to.add(at).cast::<__m256i>());
            let (low, high) = (_mm256_loadu_si256(s), _mm256_loadu_si256(s.add(1)));
            _mm256_storeu_si256(d, low);
            _mm256_storeu_si256(d.add(1), high);
        }
        std::ptr::copy_nonoverlapping(from.add(tail), to.add(tail), len - tail);
    }
}

/// As [`copy`], always by vectors where there are some: what `rep movsb` has written takes up to three times as long where another core
/// has read the target before (Zen 4; docs/design.md, "Lines that another core has read").
///
/// # Safety
/// As there.
pub(crate) unsafe fn copy_by_vectors(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: passed on.
    unsafe {
        by_vectors(from, to, len);
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    // SAFETY: passed on.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, len);
    }
}

/// As [`std::ptr::copy_nonoverlapping`], without a place in the cache for what is written, where the processor can.
///
/// # Safety
/// As there.
pub(crate) unsafe fn copy_around_cache(from: *const u8, to: *mut u8, len: usize) {
    // Miri knows no streaming stores.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: passed on.
    unsafe {
        stream(from, to, len);
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    // SAFETY: passed on.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, len);
    }
}

/// # Safety
/// As [`std::ptr::copy_nonoverlapping`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn stream(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_sfence, _mm_stream_si128};
    /// Bytes of a cache line.
    const LINE: usize = 64;
    let head = to.align_offset(LINE).min(len);
    let lines = (len - head) / LINE;
    let tail = head + lines * LINE;
    // SAFETY: all offsets are at most `len`, for which both pointers are good (the caller's promise); the streaming stores go to
    // multiples of 16. SSE2 is a part of x86-64. The fence orders these stores before all later ones, as ordinary
    // stores are anyhow and others rely on.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        for i in 0..lines {
            let at = head + i * LINE;
            let line = load(from.add(at));
            let d = to.add(at).cast::<__m128i>();
            _mm_stream_si128(d, line[0]);
            _mm_stream_si128(d.add(1), line[1]);
            _mm_stream_si128(d.add(2), line[2]);
            _mm_stream_si128(d.add(3), line[3]);
        }
        std::ptr::copy_nonoverlapping(from.add(tail), to.add(tail), len - tail);
        _mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_copies_all_and_nothing_else() {
        let from: Vec<u8> = (0..1000u32).map(|i| i.to_le_bytes()[0] ^ 0x5A).collect();
        for start in (0..70).step_by(if cfg!(miri) { 23 } else { 1 }) {
            for len in [0, 1, 15, 63, 64, 65, 127, 128, 300, 777] {
                let mut to = vec![7u8; 1000];
                // SAFETY: both vectors are long enough.
                unsafe { copy_around_cache(from.as_ptr().add(start / 2), to.as_mut_ptr().add(start), len) };
                assert!(to[start..start + len] == from[start / 2..start / 2 + len], "{start} {len}");
                assert!(to[..start].iter().chain(&to[start + len..]).all(|b| *b == 7), "{start} {len}");
            }
        }
        assert!(long_copy_bytes(1) >= long_copy_bytes(8) && long_copy_bytes(usize::MAX) >= 1 << 20);
    }

    /// At every distance within a page, on both sides of those that are avoided.
    #[test]
    #[cfg_attr(miri, ignore = "many bytes, and no more than the other test shows")]
    fn it_copies_all_at_any_distance() {
        let from: Vec<u8> = (0..20_000u32).map(|i| (i % 251).to_le_bytes()[0]).collect();
        let mut to = vec![7u8; 30_000];
        let zero = (from.as_ptr().addr().wrapping_sub(to.as_ptr().addr())) % 4096;
        for distance in (0..130).chain([2048, 4032, 4095]) {
            for len in [2047, 2048, 2049, 4096, 8191, 19_999] {
                let start = (zero + distance) % 4096;
                to.fill(7);
                copy_slice(&from[1..=len], &mut to[start + 1..=start + len]);
                assert!(to[start + 1..=start + len] == from[1..=len], "{distance} {len}");
                let rest = to[..=start].iter().chain(&to[start + len + 1..]);
                assert!(rest.copied().all(|b| b == 7), "{distance} {len}");
            }
        }
    }
}
