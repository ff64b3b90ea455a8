//! Settings: rank 0 publishes those that all ranks must agree on, the others adopt them.

use super::exchange::Exchange;
use crate::config::{Config, Provider};
use crate::error::{Error, ErrorKind, Result};
use crate::secret::{self, SECRET_BYTES, Secret, from_hex, to_hex};

/// The name under which rank 0 publishes how many ranks its launcher told it of.
const SIZE: &str = "size";

/// Those under which it publishes the number that makes the secret of each world another one, and a part of the proof that it knows the
/// same word as we do.
const NONCE: &str = "nonce";
const WORD: &str = "word";
/// Digits of that part. It need not be hard to forge: it tells words apart that are not the same by mistake.
const WORD_DIGITS: usize = 16;

/// What ranks have agreed on.
pub(super) struct Agreed {
    /// Rank 0's provider, whatever became of our own settings: all must take the same route.
    pub(super) provider: Provider,
    /// What no process outside of this world knows, as far as the launcher's values are its own or a word was given.
    pub(super) secret: Secret,
    /// Whether our settings could be read.
    pub(super) ready: Result<()>,
}

/// Agrees on the settings; passes a fence.
///
/// # Errors
/// When the launcher fails; when it told us another size of the job than rank 0. Then all else would be wrong, too: which
/// ranks are our neighbours, and which keys there are.
pub(super) fn agree(exchange: &mut Exchange<'_>, config: &mut Config) -> Result<Agreed> {
    let mut ready = Ok(());
    if exchange.rank == 0 {
        ready = config.load();
        // The others read it also when this rank has failed.
        let nonce = secret::nonce().unwrap_or_else(|e| {
            ready = Err(e);
            [0; SECRET_BYTES]
        });
        let (word, nonce) = (proof_of_word(&exchange.secret(), &nonce), to_hex(&nonce));
        let settings =
            format!("{SIZE}={}\n{NONCE}={nonce}\n{WORD}={word}\n{}", exchange.size, config.agreed());
        exchange.put("settings", settings.as_bytes())?;
    }
    exchange.fence()?;
    let settings = String::from_utf8_lossy(&exchange.get("settings")?).into_owned();
    if exchange.rank > 0 {
        same_size(&settings, exchange.size)?;
        ready = config.adopt(&settings);
    }
    let nonce = said(&settings, NONCE).and_then(from_hex).unwrap_or([0; SECRET_BYTES]);
    let word = exchange.secret();
    if said(&settings, WORD) != Some(&*proof_of_word(&word, &nonce)) {
        ready = ready.and(Err(another_word()));
    }
    let secret = word.derive("the wires of a world", &[&nonce]);
    let provider = settings.lines().find_map(|l| l.strip_prefix("provider="));
    let provider = provider.map_or(Provider::Auto, Provider::from);
    Ok(Agreed { provider, secret, ready })
}

/// What rank 0 has published under `name`.
fn said<'a>(settings: &'a str, name: &str) -> Option<&'a str> {
    settings.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='))
}

fn proof_of_word(word: &Secret, nonce: &[u8; SECRET_BYTES]) -> String {
    let mut digits = to_hex(&word.prove("the word of rank 0", &[nonce]));
    digits.truncate(WORD_DIGITS);
    digits
}

#[cold]
fn another_word() -> Error {
    Error::new(ErrorKind::Mismatch, "rank 0 was given another word of the job (CIRCULANT_JOB) than we were")
        .with_peer(0)
        .help("give all ranks the same CIRCULANT_JOB_FILE or CIRCULANT_JOB, or none")
}

/// Whether rank 0 was told the same size of the job.
fn same_size(settings: &str, size: u32) -> Result<()> {
    match said(settings, SIZE) {
        Some(said) if said != size.to_string() => {
            let what = format!("the launcher says that the job has {said} ranks to rank 0, and {size} to us");
            Err(Error::new(ErrorKind::Mismatch, what).with_peer(0).help(
                "start all ranks by one launcher, in one command, and do not change the variables that it sets",
            ))
        }
        _ => Ok(()),
    }
}
