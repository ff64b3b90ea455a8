//! When one rank fails, all fail, and name it. Local trouble (files, memory) is agreed upon after each phase
//! by two allgathers of the library's own; trouble of the wire is the library's to spread.

use crate::outcome::Failure;
use circulant::Communicator;

/// Longest text that a rank sends about its trouble, in bytes.
const TEXT_MAX: usize = 600;

/// `mine` when all ranks are well; else the failure of the lowest rank that is not, with its rank and host,
/// at all ranks. Collective.
pub(crate) fn agree<T>(comm: &Communicator, mine: Result<T, Failure>) -> Result<T, Failure> {
    let text = match &mine {
        Ok(_) => String::new(),
        Err(failure) if comm.size() == 1 => failure.text.clone(),
        Err(failure) => format!("rank {} ({}): {}", comm.rank(), host(), failure.text),
    };
    let text = clip(&text).as_bytes();
    let code = mine.as_ref().err().map_or(0, |failure| u32::from(failure.code.max(1)));
    let mut all = vec![0u32; 2 * comm.size()];
    comm.allgather(&[code, u32::try_from(text.len()).unwrap_or(0)], &mut all)?;
    if all.chunks_exact(2).all(|s| s[0] == 0) {
        return mine;
    }
    let lengths: Vec<usize> = all.chunks_exact(2).map(|s| (s[1] as usize).min(TEXT_MAX)).collect();
    let (starts, total) = starts(&lengths);
    let mut texts = vec![0u8; total];
    comm.allgatherv(text, &mut texts, (&lengths, &starts))?;
    let codes: Vec<u32> = all.chunks_exact(2).map(|s| s[0]).collect();
    Err(verdict(&codes, &lengths, &texts))
}

/// The one failure that all ranks report: the lowest failing rank's, and how many failed besides.
fn verdict(codes: &[u32], lengths: &[usize], texts: &[u8]) -> Failure {
    let (starts, _) = starts(lengths);
    let mut failed = codes.iter().enumerate().filter(|(_, code)| **code != 0);
    let Some((rank, code)) = failed.next() else { return Failure::new(1, "no rank failed") };
    let text = texts.get(starts[rank]..starts[rank] + lengths[rank]).unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let more = match failed.count() {
        0 => String::new(),
        n => format!(" (and {n} more of {} ranks failed)", codes.len()),
    };
    Failure::new(u8::try_from(*code).unwrap_or(1), format!("{text}{more}")).everywhere()
}

/// The name of this machine.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Where each of the pieces begins when they stand one after the other, and where the last one ends.
pub(crate) fn starts(lengths: &[usize]) -> (Vec<usize>, usize) {
    let mut end = 0;
    let starts = lengths
        .iter()
        .map(|n| {
            end += n;
            end - n
        })
        .collect();
    (starts, end)
}

fn clip(text: &str) -> &str {
    let mut end = text.len().min(TEXT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_failing_rank_speaks_and_the_others_are_counted() {
        let texts = ["rank 1 (n1): no room", "rank 3 (n3): no such folder"];
        let lengths = [0, texts[0].len(), 0, texts[1].len()];
        let f = verdict(&[0, 1, 0, 2], &lengths, texts.concat().as_bytes());
        assert_eq!(f, Failure::new(1, "rank 1 (n1): no room (and 1 more of 4 ranks failed)").everywhere());
        let f = verdict(&[0, 0, 0, 2], &[0, 0, 0, texts[1].len()], texts[1].as_bytes());
        assert_eq!(f, Failure::new(2, texts[1]).everywhere());
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        let long = "ä".repeat(TEXT_MAX);
        assert_eq!(clip(&long).len(), TEXT_MAX);
        assert_eq!(clip(&format!("x{long}")).len(), TEXT_MAX - 1);
        assert_eq!(clip("short"), "short");
    }

    #[test]
    fn nonsense_from_the_wire_is_no_panic() {
        let f = verdict(&[700], &[9], &[0xff; 3]);
        assert_eq!(f.code, 1);
    }
}
