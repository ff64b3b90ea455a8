//! RDMA hardware without libfabric, where the setting leaves the choice: all ranks take it, or none.

use super::exchange::Exchange;
use crate::error::Result;
use crate::transport::remote::NATIVE;

/// The key under which each rank says why it cannot, and rank 0 which rank cannot; nothing: all can.
const KEY: &str = "native";

/// Opens an endpoint by `open`, and keeps it if every rank could; a rank that is not `ready` does not count, as its error ends the
/// job anyway. Passes two fences.
pub(super) fn agree<T>(
    exchange: &mut Exchange<'_>,
    ready: bool,
    open: impl FnOnce() -> Result<T>,
) -> Result<Option<T>> {
    let opened = if ready { open().map(Some) } else { Ok(None) };
    let refusal = opened.as_ref().err().map(ToString::to_string).unwrap_or_default();
    exchange.put_own(KEY, refusal.as_bytes())?;
    exchange.fence()?;
    if exchange.rank == 0 {
        let first = first_refusal(exchange)?;
        exchange.put(KEY, first.as_bytes())?;
        if !first.is_empty() {
            tracing::warn!("{first}");
        }
    }
    exchange.fence()?;
    let agreed = exchange.get(KEY)?.is_empty();
    Ok(opened.ok().flatten().filter(|_| agreed))
}

/// The lowest rank that cannot, in words; empty: there is none.
fn first_refusal(exchange: &mut Exchange<'_>) -> Result<String> {
    for rank in 0..exchange.size {
        let why = exchange.get_of(KEY, rank)?;
        if !why.is_empty() {
            let why = String::from_utf8_lossy(&why).into_owned();
            return Ok(format!("all ranks take libfabric, as rank {rank} cannot take {NATIVE}: {why}"));
        }
    }
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};
    use crate::launch::{Launch, threads};
    use std::time::Duration;

    /// What ranks that can (`Some(true)`), cannot, or are not ready come to.
    fn agreed(can: &[Option<bool>]) -> Vec<Option<u32>> {
        let one = |mut launch: Box<dyn Launch>| {
            let rank = launch.rank();
            let mut exchange = Exchange::new(launch.as_mut(), Duration::from_secs(60), None).unwrap();
            let open = || match can[rank] {
                Some(true) => Ok(number(rank)),
                _ => Err(Error::new(ErrorKind::Transport, "no luck")),
            };
            let kept = agree(&mut exchange, can[rank].is_some(), open).unwrap();
            (kept, String::from_utf8(exchange.get(KEY).unwrap()).unwrap())
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let started: Vec<_> =
                threads::group(can.len()).into_iter().map(|launch| scope.spawn(|| one(launch))).collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let refused = can.iter().position(|c| *c == Some(false));
        for (_, said) in &results {
            let right = refused.map(|r| format!("rank {r} cannot take ibverbs: no luck"));
            assert!(right.is_none_or(|r| said.contains(&r)), "{said}");
        }
        results.into_iter().map(|(kept, _)| kept).collect()
    }

    fn number(rank: usize) -> u32 {
        u32::try_from(rank).unwrap()
    }

    #[test]
    fn all_ranks_take_it_or_none() {
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(agreed(&[yes; 3]), [Some(0), Some(1), Some(2)]);
        for refuses in 0..3 {
            let mut can = [yes; 3];
            can[refuses] = no;
            assert_eq!(agreed(&can), [None; 3]);
        }
        assert_eq!(agreed(&[yes, no, no]), [None; 3]);
        assert_eq!(agreed(&[yes, None, yes]), [Some(0), None, Some(2)], "what failed before does not count");
    }
}
