//! How a rank and rank 0's port show each other that they are of one job, before anything else is said. Three lines:
//!
//! | | |
//! |---|---|
//! | port | `cmd=challenge nonce=<N>`, when the connection is there |
//! | rank | `cmd=initack pmiid=<rank>/<size> nonce=<M> proof=<…>`; where munge is asked, ` munge=<credential>` besides |
//! | port | `cmd=initack rc=0 proof=<…>`, and what a launcher says then |
//!
//! N and M are drawn anew for each connection, so what was heard on one is of no use on another. Each proof is an HMAC of both, of rank
//! and size, and of who it is: a port's proof is none of a rank. Its key is the job's secret, or follows from it and from the one that the
//! credential tells the port, which is of this connection ([`Munge`]).
//!
//! From then on each line is sealed ([`Sealed`]): by keys of this connection, one for each direction, which follow from the same secret.

use super::munge::Munge;
use super::value::{decode, encode};
use super::wire::Line;
use crate::error::Result;
use crate::secret::{SECRET_BYTES, Sealing, Secret, from_hex, nonce, to_hex};

/// The longest introduction, in bytes: numbers of 20 digits, a nonce, a proof and a credential, which takes 310 (munge 0.5.15).
pub(super) const INTRODUCTION_MAX_BYTES: usize = 768;

type Nonce = [u8; SECRET_BYTES];

/// A rank, its job, and what proves that it is of it.
#[derive(Clone, Debug)]
pub(super) struct Introduction {
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) secret: Secret,
    pub(super) munge: Option<Munge>,
}

/// What both have said, and the secret that both know.
struct Exchange {
    secret: Secret,
    port: Nonce,
    rank: Nonce,
    /// `<rank>/<size>`.
    id: String,
}

impl Exchange {
    fn parts(&self) -> [&[u8]; 3] {
        [&self.port, &self.rank, self.id.as_bytes()]
    }

    fn prove(&self, whose: &str) -> String {
        to_hex(&self.secret.prove(whose, &self.parts()))
    }

    fn is_proved(&self, whose: &str, line: &Line<'_>) -> bool {
        let proof = line.text("proof").and_then(from_hex);
        proof.is_some_and(|proof| self.secret.is_proved(whose, &self.parts(), &proof))
    }

    /// What seals the lines of `ours`, and opens those of `theirs`.
    fn sealed(&self, ours: &str, theirs: &str) -> Sealed {
        let by = |whose| Sealing::new(&self.secret.derive("lines", &[]).derive(whose, &self.parts()));
        Sealed { ours: by(ours), theirs: by(theirs) }
    }
}

const OF_RANK: &str = "a rank at rank 0's port";
const OF_PORT: &str = "rank 0's port";

/// The secret of a connection, where a credential tells one.
fn of_connection(job: &Secret, told: &[u8; SECRET_BYTES]) -> Secret {
    job.derive("a connection to rank 0's port", &[told])
}

/// Lines as they go over a connection behind its introduction: sealed, and in base64url.
#[derive(Debug)]
pub(super) struct Sealed {
    ours: Sealing,
    theirs: Sealing,
}

impl Sealed {
    /// Our next line, without the newline at either's end.
    pub(super) fn seal(&mut self, line: &[u8]) -> Vec<u8> {
        encode(&self.ours.seal(line)).into_bytes()
    }

    /// Their next line; `None`: what came is not what they said.
    pub(super) fn open(&mut self, raw: &[u8]) -> Option<Vec<u8>> {
        self.theirs.open(&decode(raw)?)
    }
}

/// A rank's side, which waits for the port's proof.
pub(super) struct Introduced {
    exchange: Exchange,
    /// What to send.
    pub(super) line: String,
}

impl Introduction {
    /// What to answer to the port's challenge; `None` if that is none.
    ///
    /// # Errors
    /// When the system gives no random numbers, or munge no credential.
    pub(super) fn answer(&self, challenge: &[u8]) -> Result<Option<Introduced>> {
        let said = Line::parse(challenge).and_then(|l| l.text("nonce")).and_then(from_hex);
        let Some(port) = said else { return Ok(None) };
        let (secret, credential) = match &self.munge {
            None => (self.secret.clone(), String::new()),
            Some(munge) => {
                let (told, credential) = munge.show(&port)?;
                (of_connection(&self.secret, &told), format!(" munge={credential}"))
            }
        };
        let exchange = Exchange { secret, port, rank: nonce()?, id: format!("{}/{}", self.rank, self.size) };
        let (ours, proof) = (to_hex(&exchange.rank), exchange.prove(OF_RANK));
        let line = format!("cmd=initack pmiid={} nonce={ours} proof={proof}{credential}\n", exchange.id);
        Ok(Some(Introduced { exchange, line }))
    }

    /// The rank that answers the challenge `port` by this line; else why it is none of this job.
    pub(super) fn known(&self, port: Nonce, line: &Line<'_>) -> std::result::Result<Known, String> {
        let secret = match (&self.munge, line.text("munge")) {
            (None, None) => self.secret.clone(),
            (Some(munge), Some(credential)) => of_connection(&self.secret, &munge.read(&port, credential)?),
            (Some(_), None) => return Err("it shows no credential of munge (CIRCULANT_MUNGE)".to_owned()),
            (None, Some(_)) => return Err("rank 0 asks no munge (CIRCULANT_MUNGE)".to_owned()),
        };
        let id = line.text("pmiid").map(str::to_owned);
        let told = id.zip(line.text("nonce").and_then(from_hex));
        told.and_then(|(id, rank)| {
            let exchange = Exchange { secret, port, rank, id };
            let (rank, size) = exchange.id.split_once('/')?;
            let (rank, size) = (rank.parse().ok()?, size.parse().ok()?);
            let known = || Known {
                rank,
                size,
                proof: exchange.prove(OF_PORT),
                sealed: exchange.sealed(OF_PORT, OF_RANK),
            };
            exchange.is_proved(OF_RANK, line).then(known)
        })
        .ok_or_else(|| "it keeps the addresses of another job (CIRCULANT_JOB)".to_owned())
    }
}

impl Introduced {
    /// What goes over the connection from now on, if the port knows the secret, too, as its answer shows.
    pub(super) fn is_answered(&self, answer: &[u8]) -> Option<Sealed> {
        let answer = Line::parse(answer)?;
        let sealed = || self.exchange.sealed(OF_RANK, OF_PORT);
        self.exchange.is_proved(OF_PORT, &answer).then(sealed)
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
    /// What goes over its connection behind that.
    pub(super) sealed: Sealed,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: &str) -> Introduction {
        Introduction { rank: 3, size: usize::MAX, secret: Secret::of_word(word), munge: None }
    }

    #[test]
    fn both_show_that_they_know_the_secret() {
        let ours = of("mine");
        let port = nonce().unwrap();
        let rank = ours.answer(challenge(&port).as_bytes()).unwrap().unwrap();
        assert!(rank.line.len() <= INTRODUCTION_MAX_BYTES);
        let line = Line::parse(rank.line.as_bytes()).unwrap();
        let there = ours.known(port, &line).ok().unwrap();
        assert_eq!((there.rank, there.size), (3, usize::MAX));
        let said = format!("cmd=initack rc=0 proof={}", there.proof);
        let (mut here, mut there) = (rank.is_answered(said.as_bytes()).unwrap(), there.sealed);
        let (one, other) = (here.seal(b"cmd=init"), there.seal(b"cmd=init"));
        assert_ne!(one, other, "each direction has a key of its own");
        assert_eq!(here.open(&one), None, "its own line");
        assert_eq!((there.open(&one).unwrap(), there.open(&one)), (b"cmd=init".to_vec(), None));
        // Another secret, another connection, a proof of the other side's, none at all.
        assert!(of("other").known(port, &line).is_err());
        assert!(ours.known(nonce().unwrap(), &line).is_err(), "replayed");
        assert!(rank.is_answered(rank.line.as_bytes()).is_none(), "its own proof");
        for bad in [&b"cmd=initack rc=0"[..], b"cmd=initack rc=0 proof=00", b""] {
            assert!(rank.is_answered(bad).is_none());
        }
        let other = rank.line.replace("pmiid=3/", "pmiid=2/");
        assert!(ours.known(port, &Line::parse(other.as_bytes()).unwrap()).is_err(), "of another rank");
        assert!(ours.answer(b"cmd=challenge nonce=1").unwrap().is_none());
    }
}
