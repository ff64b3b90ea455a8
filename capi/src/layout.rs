//! Layouts of C: where the bytes lie that go to a rank, or come from it.

use crate::status::given;
use circulant::Result;
use circulant::comm::Layout;
use circulant::error::argument;

/// What C calls `circulant_piece_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Piece {
    offset: usize,
    bytes: usize,
    count: usize,
    stride: usize,
}

/// What C calls `circulant_layout_t`.
#[repr(C)]
pub(crate) struct CLayout {
    pieces: *const Piece,
    n: usize,
}

/// The layouts of one buffer.
#[derive(Default)]
pub(crate) struct Layouts {
    pub(crate) all: Vec<Layout>,
    /// Bytes from the buffer's beginning to the end of the last piece.
    pub(crate) extent: usize,
}

impl Piece {
    /// Appends what it stands for as (offset, length).
    fn add_to(self, pieces: &mut Vec<(usize, usize)>) -> Result<()> {
        let Self { offset, bytes, count, stride } = self;
        let far =
            || argument(format!("{count} pieces of {bytes} bytes, {stride} apart, are more than memory"));
        if bytes == 0 || count == 0 {
            return Ok(());
        }
        if stride == bytes {
            pieces.push((offset, bytes.checked_mul(count).ok_or_else(far)?));
            return Ok(());
        }
        // So that each sum below fits, too.
        stride.checked_mul(count - 1).and_then(|last| last.checked_add(offset)).ok_or_else(far)?;
        pieces.try_reserve(count).map_err(|_| far())?;
        pieces.extend((0..count).map(|i| (offset + i * stride, bytes)));
        Ok(())
    }
}

/// The layouts of `ranks` ranks.
///
/// # Safety
/// `layouts` is null, or leads to as many, each of which has a pointer that is null, or leads to as many pieces as it says.
///
/// # Errors
/// When a pointer is null, or they reach beyond memory.
pub(crate) unsafe fn layouts(name: &str, layouts: *const CLayout, ranks: usize) -> Result<Layouts> {
    let mut found = Layouts::default();
    // SAFETY: our caller's.
    for layout in unsafe { std::slice::from_raw_parts(given(name, layouts)?, ranks) } {
        let mut pieces = Vec::new();
        if layout.n > 0 {
            // SAFETY: our caller's.
            let all = unsafe { std::slice::from_raw_parts(given("pieces", layout.pieces)?, layout.n) };
            all.iter().try_for_each(|piece| piece.add_to(&mut pieces))?;
        }
        let layout = Layout::new(pieces)?;
        let ends = layout.pieces().iter().map(|(at, len)| at + len);
        found.extent = ends.fold(found.extent, usize::max);
        found.all.push(layout);
    }
    match isize::try_from(found.extent) {
        Ok(_) => Ok(found),
        Err(_) => Err(argument(format!("{name} reaches beyond memory"))),
    }
}
