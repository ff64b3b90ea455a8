//! RDMA hardware without libfabric, where the setting leaves the choice: all ranks take it, or none.

use super::exchange::Exchange;
use crate::error::Result;
use crate::transport::remote::NATIVE;

/// The key under which each rank says why it cannot, and rank 0 which rank cannot; nothing: all can.
const KEY: &str = "native";

/// Opens an endpoint by `open`, and keeps it if every rank could; a rank that is not `ready` does not count, as its error ends the
/// job anyway. Passes two fences, or three where ranks are many.
pub(super) fn agree<T>(
    exchange: &mut Exchange<'_>,
    nodes: &[u32],
    ready: bool,
    open: impl FnOnce() -> Result<T>,
) -> Result<Option<T>> {
    let opened = if ready { open().map(Some) } else { Ok(None) };
    let refusal = opened.as_ref().err().map(ToString::to_string).unwrap_or_default();
    exchange.put_for_all(KEY, refusal.as_bytes(), Some(nodes))?;
    exchange.fence()?;
    let refusals = exchange.of_all(KEY, Some(nodes))?;
    if exchange.rank == 0 {
        let first = first_refusal(&refusals);
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
fn first_refusal(refusals: &[Vec<u8>]) -> String {
    let first = refusals.iter().enumerate().find(|(_, why)| !why.is_empty());
    first.map_or_else(String::new, |(rank, why)| {
        let why = String::from_utf8_lossy(why);
        format!("all ranks take libfabric, as rank {rank} cannot take {NATIVE}: {why}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};
    use crate::launch::{Launch, threads};
    use std::time::Duration;

    /// What ranks that can (`Some(true)`), cannot, or are not ready come to.
    fn agreed(nodes: &[u32], can: &[Option<bool>]) -> Vec<Option<u32>> {
        let one = |mut launch: Box<dyn Launch>| {
            let rank = launch.rank();
            let mut exchange = Exchange::new(launch.as_mut(), Duration::from_secs(60), None).unwrap();
            let open = || match can[rank] {
                Some(true) => Ok(number(rank)),
                _ => Err(Error::new(ErrorKind::Transport, "no luck")),
            };
            let kept = agree(&mut exchange, nodes, can[rank].is_some(), open).unwrap();
            (kept, String::from_utf8(exchange.get(KEY).unwrap()).unwrap())
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let started: Vec<_> = threads::group_on(nodes.to_vec())
                .into_iter()
                .map(|launch| scope.spawn(|| one(launch)))
                .collect();
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
        // Of the second the first ranks of nodes read for rank 0.
        for nodes in [&[0, 1, 2][..], &[0, 0, 1, 1, 0, 1]] {
            let ranks = nodes.len();
            let all: Vec<_> = (0..ranks).map(|rank| Some(number(rank))).collect();
            assert_eq!(agreed(nodes, &vec![yes; ranks]), all);
            for refuses in 0..ranks {
                let mut can = vec![yes; ranks];
                can[refuses] = no;
                assert_eq!(agreed(nodes, &can), vec![None; ranks]);
                can[ranks - 1] = no;
                assert_eq!(agreed(nodes, &can), vec![None; ranks]);
            }
            let (mut can, mut kept) = (vec![yes; ranks], all);
            (can[1], kept[1]) = (None, None);
            assert_eq!(agreed(nodes, &can), kept, "what failed before does not count");
        }
    }
}
