//! Settings: rank 0 publishes those that all ranks must agree on, the others adopt them.

use super::exchange::Exchange;
use crate::config::{Config, Provider};
use crate::error::{Error, ErrorKind, Result};

/// The name under which rank 0 publishes how many ranks its launcher told it of.
const SIZE: &str = "size";

/// What ranks have agreed on.
pub(super) struct Agreed {
    /// Rank 0's provider, whatever became of our own settings: all must take the same route.
    pub(super) provider: Provider,
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
        let settings = format!("{SIZE}={}\n{}", exchange.size, config.agreed());
        exchange.put("settings", settings.as_bytes())?;
    }
    exchange.fence()?;
    let settings = String::from_utf8_lossy(&exchange.get("settings")?).into_owned();
    if exchange.rank > 0 {
        same_size(&settings, exchange.size)?;
        ready = config.adopt(&settings);
    }
    let provider = settings.lines().find_map(|l| l.strip_prefix("provider="));
    let provider = provider.map_or(Provider::Auto, Provider::from);
    Ok(Agreed { provider, ready })
}

/// Whether rank 0 was told the same size of the job.
fn same_size(settings: &str, size: u32) -> Result<()> {
    let said = settings.lines().find_map(|l| l.strip_prefix(SIZE)?.strip_prefix('='));
    match said {
        Some(said) if said != size.to_string() => {
            let what = format!("the launcher says that the job has {said} ranks to rank 0, and {size} to us");
            Err(Error::new(ErrorKind::Mismatch, what).with_peer(0).help(
                "start all ranks by one launcher, in one command, and do not change the variables that it sets",
            ))
        }
        _ => Ok(()),
    }
}
