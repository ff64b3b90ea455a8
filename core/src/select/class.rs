//! Classes of calls that share a trial.

use super::choice::Way;
use crate::plan::alltoall::graph::digest;
use crate::plan::registry::{Arguments, Operation};

/// Calls of a communicator that share a trial. All ranks know alike which these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    operation: Operation,
    /// Of the total bytes: see [`Class::limit`].
    size: u32,
    /// Bytes of an element, whether the operator commutes and is exact, whether all are in place.
    how: (u64, bool, bool, bool),
    /// Of unequal counts; 0: there are none, or all are equal.
    counts: u64,
}

impl Class {
    /// The class of a call.
    pub fn of(operation: Operation, arguments: &Arguments) -> Self {
        let in_place = arguments.in_place && operation.is_in_place_everywhere();
        let counts = match operation.has_counts() && !arguments.has_equal_counts() {
            true => digest(arguments.counts.iter().copied()),
            false => 0,
        };
        let how = (arguments.element, arguments.commutative, arguments.exact, in_place);
        Self { operation, size: size_class(arguments.total(operation)), how, counts }
    }

    /// The operation.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The most total bytes of a call in it. Two limits are an octave, so a class goes up to 1.5 times its least bytes.
    pub fn limit(&self) -> u64 {
        limit(self.size)
    }

    /// A line for the file of the setting `selection`, for `size` ranks, at most `per_node` of them on a node, which takes this way; none where
    /// no condition of such a line tells the class from others.
    pub fn rule(&self, size: u32, per_node: u32, way: &Way) -> Option<String> {
        if self.counts != 0 {
            return None;
        }
        let above = self.size.checked_sub(1).map(limit).filter(|above| *above < self.limit());
        let above = above.map_or_else(String::new, |above| format!("bytes>{above} "));
        let commutative = match (self.operation.reduces(), self.how.1) {
            (false, _) => "",
            (true, true) => " commutative=yes",
            (true, false) => " commutative=no",
        };
        let counts = if self.operation.has_counts() { " counts=equal" } else { "" };
        let (operation, limit) = (self.operation, self.limit());
        Some(format!(
            "{operation} {above}bytes<={limit} size={size} ranks-per-node={per_node}{commutative}{counts} -> {way}"
        ))
    }
}

/// The least class whose limit is not below `bytes`.
fn size_class(bytes: u64) -> u32 {
    let octave = u64::BITS - bytes.saturating_sub(1).leading_zeros();
    let below = (2 * octave).saturating_sub(1);
    if bytes <= limit(below) { below } else { 2 * octave }
}

/// 1, 1, 2, 3, 4, 6, 8, 12, …
fn limit(class: u32) -> u64 {
    let octave = |bytes: u64| bytes.checked_shl(class / 2).filter(|shifted| shifted >> (class / 2) == bytes);
    let limit = if class.is_multiple_of(2) { octave(1) } else { octave(3).map(|bytes| bytes / 2) };
    limit.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::{Selection, Settings};
    use super::*;
    use crate::machine::{LogGp, Machine};

    const WIRE: LogGp = LogGp { latency_ns: 1_000_000, overhead_ns: 20_000, byte_ps: 80_000, reduce_ps: 100 };

    #[test]
    fn classes_are_half_octaves_and_lead_to_rules() {
        let limits: Vec<u64> = (1..9).map(limit).collect();
        assert_eq!(limits, [1, 2, 3, 4, 6, 8, 12, 16]);
        for bytes in (0..5000).chain([u64::MAX / 3, u64::MAX / 2 + 1, u64::MAX]) {
            let class = size_class(bytes);
            assert!(bytes <= limit(class), "{bytes}");
            assert!(class < 2 || bytes > limit(class - 1), "{bytes}: {class}");
        }
        let a = Arguments { size: 16, bytes: 100_000, ..Arguments::default() };
        let class = Class::of(Operation::Bcast, &a);
        let chain = crate::plan::registry::algorithm(Operation::Bcast, "chain").unwrap();
        let way = Way { algorithm: chain, blocks: Some(24) };
        let line = class.rule(16, 1, &way).unwrap();
        assert_eq!(line, "bcast bytes>98304 bytes<=131072 size=16 ranks-per-node=1 -> chain blocks=24");
        let settings = Settings { rules: line, ..Settings::default() };
        let machine = Machine { per_node: 1, ..Machine::flat(WIRE) };
        let choice =
            Selection::of(&settings, machine).unwrap().choose(Operation::Bcast, &a, None, false).unwrap();
        assert!(!choice.is_priced && choice.way.blocks == Some(24));
        let counts =
            |counts: [u64; 2]| Arguments { size: 2, counts: counts.to_vec(), ..Arguments::default() };
        let class = |of: [u64; 2]| Class::of(Operation::Allgatherv, &counts(of));
        assert_ne!(class([10, 20]), class([20, 10]));
        let rule = class([10, 10]).rule(2, 1, &way).unwrap();
        assert!(rule.contains(" counts=equal -> "), "it must not hold for unequal counts: {rule}");
        assert_eq!((class([10, 10]) == class([9, 9]), class([10, 20]).rule(2, 1, &way)), (true, None));
    }
}
