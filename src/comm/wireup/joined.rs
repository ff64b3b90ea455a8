//! Values of several ranks as one: what the first rank of a node publishes of what its ranks have published.

/// The values of ranks one after the other; equal ones that follow each other stand there once: how many they are, the length, the bytes.
pub(super) fn joined(values: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
    let mut out = Vec::new();
    for run in values.chunk_by(|(_, a), (_, b)| a == b) {
        let (_, value) = &run[0];
        out.extend(number(run.len()));
        out.extend(number(value.len()));
        out.extend(value);
    }
    out
}

/// The `count` values that [`joined`] has joined; `None` if `all` does not hold exactly `count` values.
pub(super) fn parted(mut all: &[u8], count: usize) -> Option<Vec<Vec<u8>>> {
    let mut values = Vec::new();
    while let Some((times, rest)) = all.split_first_chunk::<4>() {
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let [times, len] = [times, len].map(|number| u32::from_le_bytes(*number) as usize);
        let (value, rest) = rest.split_at_checked(len)?;
        if times > count - values.len() {
            return None;
        }
        values.extend(std::iter::repeat_n(value.to_vec(), times));
        all = rest;
    }
    (all.is_empty() && values.len() == count).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(values: &[&[u8]]) -> Vec<u8> {
        joined(&(0u32..).zip(values).map(|(rank, value)| (rank, value.to_vec())).collect::<Vec<_>>())
    }

    #[test]
    fn values_are_parted_where_they_were_joined() {
        for values in [&[][..], &[&b"abc"[..], b"", b"d"], &[b""], &[b"x", b"x", b"y", b"x"]] {
            let all = join(values);
            assert_eq!(parted(&all, values.len()).unwrap(), values);
            assert!(parted(&all, values.len() + 1).is_none(), "{values:?}");
            assert!((0..all.len()).all(|cut| parted(&all[..cut], values.len()).is_none()), "{values:?}");
        }
        assert!(parted(&join(&[&b"x"[..]; 3]), 2).is_none());
        assert!(parted(&[0xFF; 9], 7).is_none());
    }

    #[test]
    fn equal_values_take_the_room_of_one() {
        assert_eq!(join(&[&b"here"[..]; 100]).len(), join(&[b"here"]).len());
    }
}
