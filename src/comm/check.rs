//! The exchange before a blocking call in which all ranks compare what they call, where the setting `check` says so: an allreduce of two
//! claims, the first of the lowest rank and the second of the lowest one that calls something else.

use super::call::{Begun, Spec};
use super::collective::Collective;
use super::communicator::Communicator;
use super::lock::Held;
use super::options::Options;
use crate::buffer::Wire;
use crate::engine::differences;
use crate::error::{Error, ErrorKind, Result};
use crate::ops::Reducer;
use crate::plan::registry::{Arguments, Operation};
use std::alloc::Layout;

/// Bytes of a call in words. Chosen: they hold the counts of some 100 ranks; longer lists are cut, and still compared by their hash.
const TEXT_BYTES: usize = 498;
/// A rank, a hash, the length of the words, and these.
const CLAIM_BYTES: usize = 4 + 8 + 2 + TEXT_BYTES;
/// Two of them.
const CLAIMS_BYTES: usize = 2 * CLAIM_BYTES;
/// In place of a rank: there is no claim.
const NONE: u32 = u32::MAX;
/// Between the words of a call for people and its description.
const BEHIND_WORDS: char = '\u{1}';

/// What a rank says that it calls.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    rank: u32,
    hash: u64,
    text: String,
}

impl Claim {
    fn write(&self, bytes: &mut [u8]) {
        let mut len = self.text.len().min(TEXT_BYTES);
        while !self.text.is_char_boundary(len) {
            len -= 1;
        }
        bytes[..4].copy_from_slice(&self.rank.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.hash.to_le_bytes());
        bytes[12..14].copy_from_slice(&u16::try_from(len).unwrap_or(0).to_le_bytes());
        bytes[14..14 + len].copy_from_slice(&self.text.as_bytes()[..len]);
    }

    /// The claim in these bytes, of another rank.
    fn read(bytes: &[u8]) -> Option<Self> {
        let rank = rank_of(bytes);
        let len = usize::from(u16::from_le_bytes(bytes[12..14].try_into().ok()?));
        let text = bytes.get(14..14 + len)?;
        let text = String::from_utf8_lossy(text).into_owned();
        (rank != NONE).then(|| Self { rank, hash: hash_of(bytes), text })
    }

    /// The words for people, and the description.
    fn parts(&self) -> (&str, &str) {
        self.text.split_once(BEHIND_WORDS).unwrap_or((&self.text, ""))
    }
}

fn rank_of(claim: &[u8]) -> u32 {
    claim[..4].try_into().map_or(NONE, u32::from_le_bytes)
}

fn hash_of(claim: &[u8]) -> u64 {
    claim[4..12].try_into().map_or(0, u64::from_le_bytes)
}

/// The claims of one rank alone.
fn alone(claim: &Claim) -> Vec<u8> {
    let mut bytes = vec![0; CLAIMS_BYTES];
    claim.write(&mut bytes);
    bytes[CLAIM_BYTES..][..4].copy_from_slice(&NONE.to_le_bytes());
    bytes
}

/// The claims of both: that of the lowest rank, and that of the lowest one with another hash.
fn merge(left: &[u8], right: &mut [u8]) {
    for (left, right) in left.chunks_exact(CLAIMS_BYTES).zip(right.chunks_exact_mut(CLAIMS_BYTES)) {
        let mut merged = [0; CLAIMS_BYTES];
        let all = || left.chunks_exact(CLAIM_BYTES).chain(right.chunks_exact(CLAIM_BYTES));
        let Some(first) = all().min_by_key(|claim| rank_of(claim)) else { continue };
        merged[..CLAIM_BYTES].copy_from_slice(first);
        let differs = |claim: &&[u8]| rank_of(claim) != NONE && hash_of(claim) != hash_of(first);
        match all().filter(differs).min_by_key(|claim| rank_of(claim)) {
            Some(other) => merged[CLAIM_BYTES..].copy_from_slice(other),
            None => merged[CLAIM_BYTES..][..4].copy_from_slice(&NONE.to_le_bytes()),
        }
        right.copy_from_slice(&merged);
    }
}

impl Communicator {
    /// Begins the exchange before a call of `operation`, if there is one. The next call that begins has the number after its own.
    pub(super) fn begin_check(&self, held: &mut Held<'_>, operation: Collective) -> Result<Option<Begun>> {
        let between_groups = operation.operation().is_between_groups() || self.context.first > 0;
        if !held.check || self.size() == 1 || between_groups {
            return Ok(None);
        }
        let element = Layout::array::<u8>(CLAIMS_BYTES).unwrap_or(Layout::new::<u8>());
        let reducer = Reducer::raw("claims", element, true, merge)?;
        let arguments = Arguments {
            bytes: CLAIMS_BYTES as u64,
            element: CLAIMS_BYTES as u64,
            in_place: true,
            commutative: true,
            exact: reducer.exact(),
            ..Arguments::default()
        };
        let spec = Spec {
            arguments,
            element: reducer.element_type(),
            reducer: Some(reducer),
            fill: true,
            ..Spec::default()
        };
        let plain = self.with(Options::new().deadline(self.options.deadline));
        plain.begin(held, Collective::Check, Ok(spec)).map(Some)
    }

    /// Makes the exchange before `call`.
    ///
    /// # Errors
    /// When a rank calls something else: who calls what. As those of a call.
    pub(super) fn check(
        &self,
        held: &mut Held<'_>,
        exchange: Begun,
        operation: Collective,
        call: &Begun,
    ) -> Result<()> {
        let world_rank = |rank: u32| self.context.members.world_rank(rank);
        let description = call.prepared.describe(call.reducer.as_ref());
        let words = in_words(operation, &description);
        let text = format!("{words}{BEHIND_WORDS}{description}");
        let claim = Claim { rank: self.context.rank, hash: call.meta.hash, text };
        let mut claims = alone(&claim);
        self.run_begun(held, Collective::Check, exchange, None, Some(&mut claims))?;
        let (first, other) = claims.split_at(CLAIM_BYTES);
        let (Some(first), Some(other)) = (Claim::read(first), Claim::read(other)) else { return Ok(()) };
        let culprit = if first.rank == self.context.rank { other.rank } else { first.rank };
        let e = Error::new(ErrorKind::Mismatch, disagreement(&first, &other, world_rank))
            .with_peer(world_rank(culprit) as usize)
            .in_operation(operation.name(), u64::from(call.meta.call.sequence))
            .help("all ranks must call the same operations in the same order with the same root, counts, type and operator");
        Err(Wire::fail(held, e))
    }
}

/// "rank 3 calls bcast of 8 f64, root 0; rank 5 allreduce of 8 f64, operator sum".
fn disagreement(first: &Claim, other: &Claim, world_rank: impl Fn(u32) -> u32) -> String {
    let (rank, other_rank) = (world_rank(first.rank), world_rank(other.rank));
    let ((words, all), (other_words, other_all)) = (first.parts(), other.parts());
    let mut text = format!("rank {rank} calls {words}; rank {other_rank} {other_words}");
    if words == other_words {
        let how = differences(all, other_all);
        let how = if how.is_empty() { "other arguments".to_owned() } else { how };
        text.push_str(&format!(" ({how})"));
    }
    text
}

/// A call in words, of its description: "bcast of 8 f64, root 0".
fn in_words(operation: Collective, description: &str) -> String {
    let lines = || description.lines().filter_map(|line| line.split_once('='));
    let value = |name: &str| lines().find(|(n, _)| *n == name).map(|(_, value)| value);
    let mut words = operation.name().to_owned();
    if operation.operation() == Operation::Barrier {
        return words;
    }
    match (value("length"), value("type")) {
        (Some(length), Some(kind)) => words.push_str(&format!(" of {length} {kind}")),
        (None, Some(kind)) => words.push_str(&format!(" of {kind}")),
        _ => {}
    }
    let unsaid = ["length", "type", "blocks", "algorithm", "displacement", "in place"];
    for (name, value) in lines().filter(|(name, _)| !unsaid.contains(name)) {
        match name {
            "operator" => words.push_str(&format!(", {value}")),
            "count" => words.push_str(&format!(", counts {value}")),
            _ => words.push_str(&format!(", {name} {value}")),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(rank: u32, hash: u64) -> Claim {
        Claim { rank, hash, text: format!("call {hash}") }
    }

    /// In any order, and with any ranks twice, the two claims are those of the lowest rank and of the lowest one that differs.
    #[test]
    fn claims_merge_in_any_order() {
        for hashes in [[7, 7, 7, 7], [7, 7, 9, 7], [9, 7, 7, 8], [7, 8, 9, 10]] {
            for start in 0..4u32 {
                for step in [1, 3] {
                    let mut all = alone(&claim(start, hashes[start as usize]));
                    for i in [1, 2, 3, 1] {
                        let rank = (start + i * step) % 4;
                        merge(&alone(&claim(rank, hashes[rank as usize])), &mut all);
                    }
                    let (first, other) = all.split_at(CLAIM_BYTES);
                    assert_eq!(Claim::read(first), Some(claim(0, hashes[0])));
                    let lowest = (0..4).find(|r| hashes[*r as usize] != hashes[0]);
                    assert_eq!(Claim::read(other), lowest.map(|r| claim(r, hashes[r as usize])));
                }
            }
        }
    }

    #[test]
    fn calls_are_said_in_words() {
        let bcast = Collective::from(Operation::Bcast);
        let text = "type=f64\nroot=0\nlength=8\nblocks=auto\nalgorithm=binomial\n";
        assert_eq!(in_words(bcast, text), "bcast of 8 f64, root 0");
        let text = "type=f64\ncount=1 2 3\ndisplacement=0 1 3\noperator=sum\n";
        assert_eq!(
            in_words(Operation::ReduceScatter.into(), text),
            "reduce_scatter of f64, counts 1 2 3, sum"
        );
        assert_eq!(in_words(Operation::Barrier.into(), "type=u8\nlength=0\n"), "barrier");
        let long = Claim { rank: 1, hash: 2, text: "é".repeat(TEXT_BYTES) };
        let mut bytes = vec![0; CLAIM_BYTES];
        long.write(&mut bytes);
        let read = Claim::read(&bytes).unwrap();
        assert!(read.text.len() <= TEXT_BYTES && long.text.starts_with(&read.text));
    }
}
