//! Values on PMI-1: any bytes, in base64url, cut into pieces that every launcher carries. Real launchers
//! cut or choke on values beyond about 1000 characters whatever limit they announce; spaces, `;` and `\`
//! do not survive everywhere.

use super::wire::quote;

/// The most characters of one piece, its count included.
pub(super) const PIECE_MAX: usize = 512;

/// The most pieces that a reader believes in (some 100 MB).
const PIECES_MAX: usize = 1 << 18;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The pieces of `value`, at least one; the first begins with their number and a dot.
pub(super) fn pieces(value: &[u8]) -> Vec<String> {
    // 8 characters are kept free for the count in every piece: simpler than treating the first apart.
    const BYTES: usize = (PIECE_MAX - 8) / 4 * 3;
    let count = value.len().div_ceil(BYTES).max(1);
    let mut parts = value.chunks(BYTES);
    let first = format!("{count}.{}", encode(parts.next().unwrap_or(&[])));
    std::iter::once(first).chain(parts.map(encode)).collect()
}

/// How many pieces there are, and the content of the first. `None` when it is not a first piece.
pub(super) fn first(piece: &[u8]) -> Option<(usize, Vec<u8>)> {
    let dot = piece.iter().position(|&b| b == b'.')?;
    let count: usize = std::str::from_utf8(&piece[..dot]).ok()?.parse().ok()?;
    (1..=PIECES_MAX).contains(&count).then_some(())?;
    Some((count, decode(&piece[dot + 1..])?))
}

/// A whole value out of its pieces, which `piece` fetches by their index. The inner error: it is not one of ours.
///
/// # Errors
/// What `piece` says.
pub(super) fn join<E>(
    mut piece: impl FnMut(usize) -> Result<Vec<u8>, E>,
) -> Result<Result<Vec<u8>, String>, E> {
    let raw = piece(0)?;
    let Some((count, mut all)) = first(&raw) else { return Ok(Err(format!("is not ours: {}", quote(&raw)))) };
    for i in 1..count {
        let raw = piece(i)?;
        match decode(&raw) {
            Some(bytes) => all.extend(bytes),
            None => return Ok(Err(format!("is damaged in piece {i} of {count}: {}", quote(&raw)))),
        }
    }
    Ok(Ok(all))
}

/// The key of a piece. A dot never occurs in our keys, so pieces of different keys cannot meet.
pub(super) fn key(key: &str, piece: usize) -> String {
    match piece {
        0 => format!("circulant-{key}"),
        i => format!("circulant-{key}.{i}"),
    }
}

/// In base64url, without padding.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |i: usize| group.get(i).map_or(0, |&b| u32::from(b));
        let word = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..=group.len() {
            out.push(char::from(DIGITS[(word >> (18 - 6 * i)) as usize & 63]));
        }
    }
    out
}

/// The bytes of a piece; `None` when it is not base64url as [`encode`] writes it.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |c: u8| (0u32..).zip(DIGITS).find(|&(_, &d)| d == c).map(|(i, _)| i);
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        let mut word = 0;
        for i in 0..4 {
            word = word << 6 | group.get(i).map_or(Some(0), |&c| digit(c))?;
        }
        if group.len() == 1 {
            return None;
        }
        out.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn joined(pieces: &[String]) -> Result<Vec<u8>, String> {
        join(|i| pieces.get(i).map(|p| p.as_bytes().to_vec()).ok_or("too few")).unwrap()
    }

    #[test]
    fn all_sizes_come_back() {
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i * 7 + i / 256).to_le_bytes()[0]).collect();
        for len in (0..2000).chain([4096, 65_537, 100_000]) {
            let pieces = pieces(&bytes[..len]);
            assert!(pieces.iter().all(|p| p.len() <= PIECE_MAX && p.bytes().all(|b| (33..127).contains(&b))));
            assert_eq!(first(pieces[0].as_bytes()).unwrap().0, pieces.len());
            assert_eq!(joined(&pieces).unwrap(), &bytes[..len], "{len} bytes");
        }
        let long = key(&"k".repeat(32), PIECES_MAX);
        assert!(long.len() <= 63, "{long}");
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in ["", "x", "0.AA", "1", "-1.AA", "1.A", "1.A=", "99999999999.AA", "1.AA AA"] {
            assert!(first(bad.as_bytes()).is_none(), "{bad}");
            let why = joined(&[bad.to_owned()]).unwrap_err();
            assert!(why.starts_with("is not ours: "), "{why}");
        }
        let mut pieces = pieces(&[7; 1000]);
        pieces[2] = "a b".to_owned();
        assert_eq!(joined(&pieces).unwrap_err(), "is damaged in piece 2 of 3: \"a b\"");
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = (first(&bytes), decode(&bytes));
            prop_assert_eq!(decode(encode(&bytes).as_bytes()), Some(bytes));
        }
    }
}
