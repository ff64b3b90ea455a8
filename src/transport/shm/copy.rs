//! Copies that are too long for any cache.

/// More of the last cache nobody can count on: processors with more have it in parts, or share it with others of whom
/// a virtual machine does not know.
const CACHE_MAX: usize = 48 << 20;

/// Copies of at least this many bytes go round the cache: where all ranks of a node receive as many, none would find
/// them there anyhow, and to fetch what is about to be overwritten costs memory a third more.
pub(super) fn threshold(ranks: usize) -> usize {
    // SAFETY: asks for a number only.
    let cache = unsafe { libc::sysconf(libc::_SC_LEVEL3_CACHE_SIZE) };
    let cache = usize::try_from(cache).ok().filter(|n| *n > 0).unwrap_or(32 << 20).min(CACHE_MAX);
    (cache / ranks.max(1)).max(2 << 20)
}

/// As [`std::ptr::copy_nonoverlapping`], without a place in the cache for what is written, where the processor can.
///
/// # Safety
/// As there.
pub(super) unsafe fn around_the_cache(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: passed on.
    unsafe {
        stream(from, to, len);
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: passed on.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, len);
    }
}

/// # Safety
/// As [`std::ptr::copy_nonoverlapping`].
#[cfg(target_arch = "x86_64")]
unsafe fn stream(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
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
            let s = from.add(at).cast::<__m128i>();
            let d = to.add(at).cast::<__m128i>();
            let line = [
                _mm_loadu_si128(s),
                _mm_loadu_si128(s.add(1)),
                _mm_loadu_si128(s.add(2)),
                _mm_loadu_si128(s.add(3)),
            ];
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
        for start in 0..70 {
            for len in [0, 1, 15, 63, 64, 65, 127, 128, 300, 777] {
                let mut to = vec![7u8; 1000];
                // SAFETY: both vectors are long enough.
                unsafe { around_the_cache(from.as_ptr().add(start / 2), to.as_mut_ptr().add(start), len) };
                assert!(to[start..start + len] == from[start / 2..start / 2 + len], "{start} {len}");
                assert!(to[..start].iter().chain(&to[start + len..]).all(|b| *b == 7), "{start} {len}");
            }
        }
        assert!(threshold(1) >= threshold(8) && threshold(usize::MAX) >= 1 << 20);
    }
}
