//! What the processes of one job know and no other does, what proves it (HMAC-SHA256), and what hides what they say to each other
//! (ChaCha20-Poly1305).
//!
//! A secret never travels where others may listen. What travels are proofs, each bound by a label to what it is for and to the
//! numbers of its exchange, so that none can be used again for another.
//!
//! Both are crates of one family (RustCrypto), whose hash functions are needed anyway. Noise, by the crate `snow`, would do the same and exchange keys besides, but
//! takes the generation of that family before (snow 0.10), so each of a dozen crates would be there twice.

use crate::error::{Error, ErrorKind, Result};
use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::Aead;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes of a secret, of a nonce and of a proof: what SHA-256 gives.
pub const SECRET_BYTES: usize = 32;

/// A secret of a job.
#[derive(Clone)]
pub struct Secret([u8; SECRET_BYTES]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// That which a word stands for. It is as hard to guess as the word.
    pub fn of_word(word: &str) -> Self {
        Self([0; SECRET_BYTES]).derive("job word", &[word.as_bytes()])
    }

    /// Another secret, which tells nothing of this one.
    #[must_use]
    pub fn derive(&self, label: &str, parts: &[&[u8]]) -> Self {
        Self(self.prove(label, parts))
    }

    /// What shows that we know the secret: an HMAC of `label`, which says what for, and of `parts`.
    pub fn prove(&self, label: &str, parts: &[&[u8]]) -> [u8; SECRET_BYTES] {
        self.mac(label, parts).finalize().into_bytes().into()
    }

    /// Whether `proof` is what [`Secret::prove`] gives; takes as long whatever is wrong with it.
    pub fn is_proved(&self, label: &str, parts: &[&[u8]], proof: &[u8]) -> bool {
        self.mac(label, parts).verify_slice(proof).is_ok()
    }

    fn mac(&self, label: &str, parts: &[&[u8]]) -> Hmac<Sha256> {
        // A key of the length of a block is taken as it is.
        let mut key = [0; 64];
        key[..SECRET_BYTES].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new(&key.into());
        // Each behind its length, so that no two lists are the same bytes.
        for part in std::iter::once(label.as_bytes()).chain(parts.iter().copied()) {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

/// One direction of a connection, at either end: messages that are hidden, and that arrive unchanged, each once and in order.
pub struct Sealing {
    cipher: ChaCha20Poly1305,
    /// How many messages there were.
    count: u64,
}

impl std::fmt::Debug for Sealing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealing(…)")
    }
}

impl Sealing {
    /// By a secret that nothing else is used for: the key must be another one for each connection and direction, as messages are
    /// numbered from 0.
    pub fn new(secret: &Secret) -> Self {
        Self { cipher: chacha20poly1305::KeyInit::new(&secret.0.into()), count: 0 }
    }

    /// The next message, hidden. Longer than `message` by 16 bytes.
    pub fn seal(&mut self, message: &[u8]) -> Vec<u8> {
        // It refuses messages of 256 GB and more, and those are refused at the other end.
        let number = self.number();
        self.cipher.encrypt(&number, message).unwrap_or_default()
    }

    /// What the other end has sealed as its next message; `None`: this is something else.
    pub fn open(&mut self, sealed: &[u8]) -> Option<Vec<u8>> {
        let number = self.number();
        self.cipher.decrypt(&number, sealed).ok()
    }

    fn number(&mut self) -> chacha20poly1305::Nonce {
        let mut number = [0; 12];
        number[..8].copy_from_slice(&self.count.to_le_bytes());
        self.count += 1;
        number.into()
    }
}

/// A number of the system's randomness, as no other exchange has it.
///
/// # Errors
/// When the system gives none.
pub fn nonce() -> Result<[u8; SECRET_BYTES]> {
    let mut bytes = [0; SECRET_BYTES];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(len) => filled += len,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => {
                return Err(Error::new(ErrorKind::System, format!("no random numbers: {e}"))
                    .help("the system call getrandom must be allowed"));
            }
        }
    }
    Ok(bytes)
}

/// Bytes in hexadecimal digits, as they go into lines of text.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]])
        .map(char::from)
        .collect()
}

/// The opposite of [`to_hex`], of [`SECRET_BYTES`] bytes; `None` for anything else.
pub fn from_hex(text: &str) -> Option<[u8; SECRET_BYTES]> {
    let digit = |c: u8| char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let text: &[u8; 2 * SECRET_BYTES] = text.as_bytes().try_into().ok()?;
    let mut bytes = [0; SECRET_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2, which shows that the key and the hash are used as they should be.
    #[test]
    fn it_is_hmac_sha256() {
        let mut mac = Hmac::<Sha256>::new_from_slice(b"Jefe").unwrap();
        mac.update(b"what do ya want for nothing?");
        let proof: [u8; 32] = mac.finalize().into_bytes().into();
        assert_eq!(to_hex(&proof), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn a_proof_is_of_one_thing_only() {
        let (ours, other) = (Secret::of_word("a-word"), Secret::of_word("b-word"));
        let proof = ours.prove("x", &[b"ab", b"c"]);
        assert!(ours.is_proved("x", &[b"ab", b"c"], &proof));
        assert!(!ours.is_proved("x", &[b"a", b"bc"], &proof), "parts are kept apart");
        assert!(
            !ours.is_proved("y", &[b"ab", b"c"], &proof) && !other.is_proved("x", &[b"ab", b"c"], &proof)
        );
        assert!(
            !ours.is_proved("x", &[b"ab", b"c"], &proof[..31]) && !ours.is_proved("x", &[b"ab", b"c"], b"")
        );
        assert_ne!(ours.derive("x", &[]).prove("x", &[]), ours.prove("x", &[]));
        assert_eq!(format!("{ours:?}"), "Secret(…)");
    }

    #[test]
    fn sealed_messages_are_opened_in_order_and_once() {
        let secret = Secret::of_word("a-word");
        let (mut ours, mut theirs) = (Sealing::new(&secret), Sealing::new(&secret));
        let sealed: Vec<_> = [&b"first"[..], b"", b"first"].map(|m| ours.seal(m)).into();
        assert_eq!((sealed[0].len(), sealed[1].len()), (21, 16));
        assert_ne!(sealed[0], sealed[2], "the same message looks like another one");
        assert_eq!(theirs.open(&sealed[0]).unwrap(), b"first");
        assert_eq!(theirs.open(&sealed[0]), None, "replayed");
        let mut theirs = Sealing::new(&secret);
        assert_eq!(theirs.open(&sealed[1]), None, "one is left out");
        for at in 0..sealed[0].len() {
            let mut changed = sealed[0].clone();
            changed[at] ^= 1;
            assert_eq!(Sealing::new(&secret).open(&changed), None, "byte {at} is changed");
        }
        assert_eq!(Sealing::new(&secret).open(&sealed[0][..20]), None);
        assert_eq!(Sealing::new(&Secret::of_word("b-word")).open(&sealed[0]), None);
        assert_eq!(format!("{ours:?}"), "Sealing(…)");
    }

    #[test]
    fn numbers_differ_and_come_back_from_text() {
        let (a, b) = (nonce().unwrap(), nonce().unwrap());
        assert_ne!(a, b);
        assert_eq!(from_hex(&to_hex(&a)), Some(a));
        for bad in ["", "0", &"g".repeat(64), &"0".repeat(63), &"0".repeat(65), &"é".repeat(32)] {
            assert_eq!(from_hex(bad), None, "{bad}");
        }
    }
}
