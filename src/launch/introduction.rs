//! How a rank and rank 0's port show each other that they are of one job, before anything else is said. Three lines:
//!
//! | | |
//! |---|---|
//! | port | `cmd=challenge nonce=<N>`, when the connection is there |
//! | rank | `cmd=initack pmiid=<rank>/<size> nonce=<M> proof=<…>` |
//! | port | `cmd=initack rc=0 proof=<…>`, and what a launcher says then |
//!
//! N and M are drawn anew for each connection, so what was heard on one is of no use on another. Each proof is an HMAC by the job's
//! secret of both, of rank and size, and of who it is: a port's proof is none of a rank.

use super::wire::Line;
use crate::error::Result;
use crate::secret::{SECRET_BYTES, Secret, from_hex, nonce, to_hex};

/// The longest introduction, in bytes: numbers of 20 digits, a nonce and a proof.
pub(super) const INTRODUCTION_MAX_BYTES: usize = 256;

type Nonce = [u8; SECRET_BYTES];

/// A rank, its job, and the job's secret.
#[derive(Clone, Debug)]
pub(super) struct Introduction {
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) secret: Secret,
}

/// What both have said.
struct Exchange {
    port: Nonce,
    rank: Nonce,
    /// `<rank>/<size>`.
    id: String,
}

impl Exchange {
    fn parts(&self) -> [&[u8]; 3] {
        [&self.port, &self.rank, self.id.as_bytes()]
    }
}

const OF_RANK: &str = "a rank at rank 0's port";
const OF_PORT: &str = "rank 0's port";

/// A rank's side, which waits for the port's proof.
pub(super) struct Introduced {
    secret: Secret,
    exchange: Exchange,
    /// What to send.
    pub(super) line: String,
}

impl Introduction {
    /// What to answer to the port's challenge; `None` if that is none.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub(super) fn answer(&self, challenge: &[u8]) -> Result<Option<Introduced>> {
        let said = Line::parse(challenge).and_then(|l| l.text("nonce")).and_then(from_hex);
        let Some(port) = said else { return Ok(None) };
        let exchange = Exchange { port, rank: nonce()?, id: format!("{}/{}", self.rank, self.size) };
        let proof = self.secret.prove(OF_RANK, &exchange.parts());
        let (ours, proof) = (to_hex(&exchange.rank), to_hex(&proof));
        let line = format!("cmd=initack pmiid={} nonce={ours} proof={proof}\n", exchange.id);
        Ok(Some(Introduced { secret: self.secret.clone(), exchange, line }))
    }
}

impl Introduced {
    /// Whether the port knows the secret, too, as its answer shows.
    pub(super) fn is_answered(&self, answer: &[u8]) -> bool {
        let proof = Line::parse(answer).and_then(|l| l.text("proof")).and_then(from_hex);
        proof.is_some_and(|proof| self.secret.is_proved(OF_PORT, &self.exchange.parts(), &proof))
    }
}

/// The port's first line.
pub(super) fn challenge(nonce: &Nonce) -> String {
    format!("cmd=challenge nonce={}", to_hex(nonce))
}

/// A rank that has shown that it knows the secret.
pub(super) struct Known {
    pub(super) rank: usize,
    pub(super) size: usize,
    /// What shows it that we know it, too.
    pub(super) proof: String,
}

/// The rank that answers the challenge `port` by this line; `None`: it does not know the secret.
pub(super) fn known(secret: &Secret, port: Nonce, line: &Line<'_>) -> Option<Known> {
    let (id, rank) = (line.text("pmiid")?, from_hex(line.text("nonce")?)?);
    let exchange = Exchange { port, rank, id: id.to_owned() };
    if !secret.is_proved(OF_RANK, &exchange.parts(), &from_hex(line.text("proof")?)?) {
        return None;
    }
    let (rank, size) = id.split_once('/')?;
    let proof = to_hex(&secret.prove(OF_PORT, &exchange.parts()));
    Some(Known { rank: rank.parse().ok()?, size: size.parse().ok()?, proof })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: &str) -> Introduction {
        Introduction { rank: 3, size: usize::MAX, secret: Secret::of_word(word) }
    }

    #[test]
    fn both_show_that_they_know_the_secret() {
        let ours = of("mine");
        let port = nonce().unwrap();
        let rank = ours.answer(challenge(&port).as_bytes()).unwrap().unwrap();
        assert!(rank.line.len() <= INTRODUCTION_MAX_BYTES);
        let line = Line::parse(rank.line.as_bytes()).unwrap();
        let there = known(&ours.secret, port, &line).unwrap();
        assert_eq!((there.rank, there.size), (3, usize::MAX));
        let said = format!("cmd=initack rc=0 proof={}", there.proof);
        assert!(rank.is_answered(said.as_bytes()));
        // Another secret, another connection, a proof of the other side's, none at all.
        assert!(known(&of("other").secret, port, &line).is_none());
        assert!(known(&ours.secret, nonce().unwrap(), &line).is_none(), "replayed");
        assert!(!rank.is_answered(rank.line.as_bytes()), "its own proof");
        assert!(!rank.is_answered(b"cmd=initack rc=0") && !rank.is_answered(b"cmd=initack rc=0 proof=00"));
        let other = rank.line.replace("pmiid=3/", "pmiid=2/");
        assert!(
            known(&ours.secret, port, &Line::parse(other.as_bytes()).unwrap()).is_none(),
            "of another rank"
        );
        assert!(ours.answer(b"cmd=challenge nonce=1").unwrap().is_none());
    }
}
