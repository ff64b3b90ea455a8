//! Tags: what shows that a message is of our job. Libfabric takes messages from any process that connects, so each message ends in a number that
//! takes the job's secret and its receiver's address to compute. The secret is another one in each world, and each address has
//! a key in it that was drawn at random, so a tag is of one endpoint.
//!
//! A tag is compared and not computed for each message: a process that reads one on the network can send others. See `SECURITY.md`.

use crate::secret::Secret;
use crate::trace::Rarely;

/// Bytes of a tag: as many as a key of memory has, and as hard to guess.
pub(super) const TAG_BYTES: usize = 8;

pub(super) type Tag = [u8; TAG_BYTES];

/// The tags of an endpoint.
#[derive(Debug)]
pub(super) struct Tags {
    secret: Secret,
    /// What ends in it is for us.
    own: Tag,
    strangers: Rarely,
    /// Messages that were dropped.
    pub(super) dropped: u64,
}

impl Tags {
    /// Of an endpoint that has no address yet.
    pub(super) fn new(secret: Secret, strangers: Rarely) -> Self {
        Self { secret, own: [0; TAG_BYTES], strangers, dropped: 0 }
    }

    /// Our own is that of this address.
    pub(super) fn publish(&mut self, address: &[u8]) {
        self.own = self.of(address);
    }

    /// That of messages to the endpoint that has published `address`.
    pub(super) fn of(&self, address: &[u8]) -> Tag {
        let proof = self.secret.prove("messages to an endpoint", &[address]);
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&proof[..TAG_BYTES]);
        tag
    }

    /// A message that came, without its tag; `None`: it is none of our job's, which is told of.
    pub(super) fn check<'a>(&mut self, message: &'a [u8]) -> Option<&'a [u8]> {
        match message.split_last_chunk::<TAG_BYTES>() {
            // As one number, so that it takes as long whatever differs.
            Some((bytes, tag)) if u64::from_ne_bytes(*tag) == u64::from_ne_bytes(self.own) => Some(bytes),
            _ => {
                self.stranger(message.len(), "it does not show that it is of this job");
                None
            }
        }
    }

    /// Counts and tells of a message that is dropped.
    #[cold]
    pub(super) fn stranger(&mut self, len: usize, why: &str) {
        self.dropped += 1;
        self.strangers.warn(|| format!("a message of {len} bytes from a stranger is dropped: {why}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::level_filters::LevelFilter;

    fn tags(word: &str, address: &[u8]) -> Tags {
        let mut tags = Tags::new(Secret::of_word(word), Rarely::new(LevelFilter::OFF));
        tags.publish(address);
        tags
    }

    #[test]
    fn only_messages_of_the_job_to_this_endpoint_are_taken() {
        let mut ours = tags("a", b"here");
        let with = |tag: Tag| [&b"message"[..], &tag].concat();
        let sender = tags("a", b"there");
        assert_eq!(ours.check(&with(sender.of(b"here"))), Some(&b"message"[..]));
        assert_eq!(ours.check(&sender.of(b"here")), Some(&b""[..]));
        assert_eq!(ours.check(&with(sender.of(b"there"))), None, "for another endpoint");
        assert_eq!(ours.check(&with(tags("b", b"there").of(b"here"))), None, "of another job");
        let right = sender.of(b"here");
        for bit in 0..64 {
            let mut wrong = right;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ours.check(&with(wrong)), None, "bit {bit}");
        }
        assert!((0..TAG_BYTES).all(|len| ours.check(&right[..len]).is_none()), "too short for a tag");
    }
}
