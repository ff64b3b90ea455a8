//! Shared memory of the ranks of a node: each tells the others where its memory is, and maps theirs.

use super::exchange::{Exchange, unreadable};
use super::locals::locals;
use crate::config::Wait;
use crate::error::Result;
use crate::transport::Transport;
use crate::transport::shm::{self, Shm};

/// Our endpoint of shared memory.
pub(super) struct Mapped {
    pub(super) shm: Result<Shm>,
    /// Whether it has mapped the memory of all node-local ranks, as far as these have not failed.
    pub(super) reaches_locals: bool,
}

/// Opens an endpoint if we are `ready`, publishes its address as `key` and maps the memory of the node-local ranks. Passes
/// one fence, or two where a node is large.
pub(super) fn map(
    exchange: &mut Exchange<'_>,
    key: &str,
    nodes: &[u32],
    ready: Result<()>,
    wait: Option<Wait>,
) -> Result<Mapped> {
    let (rank, locals) = (exchange.rank, locals(nodes, exchange.rank));
    let mut shm = ready.and_then(|()| Shm::open(&shm::Options { rank, locals: &locals, wait }));
    // A rank that has failed publishes nothing.
    let address = shm.as_ref().map(Transport::address).unwrap_or_default();
    exchange.put_own(key, &address)?;
    exchange.fence()?;
    let addresses = parted(&exchange.of_node(key, nodes, joined)?).ok_or_else(|| unreadable(key))?;
    let mut reaches_locals = true;
    if let Ok(shm) = &mut shm {
        for (local, address) in locals.into_iter().zip(addresses) {
            if local != rank
                && !address.is_empty()
                && let Err(why) = shm.reach(local, &address)
            {
                tracing::debug!(rank, local, "shared memory: {why}");
                reaches_locals = false;
            }
        }
    }
    Ok(Mapped { shm, reaches_locals })
}

/// Values one after the other, each behind its length.
fn joined(values: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let len = |value: &[u8]| u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes();
    values.iter().flat_map(|(_, value)| [&len(value)[..], value].concat()).collect()
}

/// The opposite of [`joined`].
fn parted(mut all: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut values = Vec::new();
    while let Some((len, rest)) = all.split_first_chunk::<4>() {
        let (value, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
        values.push(value.to_vec());
        all = rest;
    }
    all.is_empty().then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parted_where_they_were_joined() {
        let join = |values: &[&[u8]]| joined(&values.iter().map(|v| (0, v.to_vec())).collect::<Vec<_>>());
        for values in [&[][..], &[&b"abc"[..], b"", b"d"], &[b""]] {
            assert_eq!(parted(&join(values)).unwrap(), values);
        }
        let good = join(&[&b"abc"[..], b"de"]);
        // Cut behind the first it is whole.
        assert!((1..good.len()).filter(|cut| *cut != 7).all(|cut| parted(&good[..cut]).is_none()));
        assert!(parted(&[0xFF; 9]).is_none());
    }
}
