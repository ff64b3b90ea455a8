//! What is known of an operator on a type before it folds.

use super::types::Element;
use std::any::TypeId;

/// What is known of an operator on a type, found out when its reducer is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// The type that it is for, if that is known when the program is compiled.
    pub(super) of: Option<TypeId>,
    /// Its elements as ranks compare them, with their bytes.
    pub(super) element: Element,
    /// The name of their type.
    pub(super) kind: &'static str,
    pub(super) name: OperatorName,
    pub(super) commutative: bool,
    pub(super) exact: bool,
    pub(super) is_raw: bool,
    /// Operator and type are the library's own, which do not panic.
    pub(super) is_built_in: bool,
    /// A fingerprint of type and operator.
    pub(super) hash: u64,
}

impl Facts {
    /// Whether a slice of this length, in bytes, is a whole number of elements.
    #[inline]
    pub(super) fn has_whole(&self, bytes: usize) -> bool {
        let size = self.element.size();
        // Most sizes are powers of two, for which no division is needed.
        if size.is_power_of_two() { bytes & (size - 1) == 0 } else { bytes.is_multiple_of(size) }
    }
}

/// The beginning of an operator's name, its first byte lowest; without one it is 0. (A number: bytes that are stored one by one
/// and read together right afterwards stall the processor.)
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperatorName(u128);

/// Bytes of a name that are kept. Chosen: those of all operators of the library fit.
const MAX_NAME_BYTES: usize = size_of::<u128>();

impl OperatorName {
    pub(super) fn new(name: &str) -> Self {
        let kept = name.bytes().take(MAX_NAME_BYTES).enumerate();
        Self(kept.fold(0, |all, (at, byte)| all | u128::from(byte) << (8 * at)))
    }

    /// Its text, of 16 bytes at most; of a character that is cut a replacement stands at the end. `None`: there is no name.
    pub fn text(self) -> Option<String> {
        let bytes = self.0.to_le_bytes();
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches('\0');
        (!text.is_empty()).then(|| text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_name_is_told() {
        // The last one is cut within a character.
        for (name, told) in [
            ("", None),
            ("sum", Some("sum")),
            ("of sixteen bytes", Some("of sixteen bytes")),
            ("of sixteen bytes and more", Some("of sixteen bytes")),
            ("fifteen bytes: \u{e4}", Some("fifteen bytes: \u{fffd}")),
        ] {
            assert_eq!(OperatorName::new(name).text().as_deref(), told);
        }
    }

    #[test]
    fn whole_elements_are_counted_of_any_size() {
        for size in [0, 1, 2, 3, 8, 12, 16, 24] {
            let facts = Facts {
                of: None,
                element: Element::of_size(size),
                kind: "",
                name: OperatorName::default(),
                commutative: true,
                exact: true,
                is_raw: true,
                is_built_in: false,
                hash: 0,
            };
            for bytes in 0..100 {
                let whole = if size == 0 { bytes == 0 } else { bytes % size == 0 };
                assert_eq!(facts.has_whole(bytes), whole, "{bytes} bytes, elements of {size}");
            }
        }
    }
}
