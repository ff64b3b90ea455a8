//! Which wire a job takes: what the setting `provider` means for ranks on these nodes.

use crate::config::Provider;
use std::collections::HashSet;

/// Which wire a job takes; the same at all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// Shared memory of our own; where it cannot be had and the settings leave the choice (not `only`), libfabric.
    Shm {
        /// Nothing else will do.
        only: bool,
    },
    /// Shared memory of our own on each node, and this provider of libfabric between them.
    Both(&'a str),
    /// This provider of libfabric.
    Fabric(&'a str),
}

impl<'a> Route<'a> {
    /// What `provider` means for ranks on these nodes, given as a number for each rank. Of no ranks: as on one node.
    pub fn of(provider: &'a Provider, nodes: &[u32]) -> Self {
        let one_node = nodes.iter().all(|n| *n == nodes[0]);
        let mut seen = HashSet::new();
        let shared = !nodes.iter().all(|n| seen.insert(n));
        match provider {
            Provider::Auto if one_node => Self::Shm { only: false },
            Provider::Auto if shared => Self::Both(provider.fabric()),
            Provider::Shm => Self::Shm { only: true },
            Provider::Both(far) => Self::Both(far),
            Provider::Auto | Provider::Fabric(_) => Self::Fabric(provider.fabric()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_follows_from_provider_and_nodes() {
        let (one, two, apart) = (&[3, 3, 3][..], &[0, 0, 1][..], &[0, 1, 2][..]);
        let [auto, shm, tcp, both] = ["auto", "shm", "tcp", "tcp+shm"].map(Provider::from);
        assert_eq!(Route::of(&auto, one), Route::Shm { only: false });
        assert_eq!(Route::of(&auto, two), Route::Both("auto"));
        assert_eq!(Route::of(&auto, apart), Route::Fabric("auto"));
        assert_eq!(Route::of(&shm, two), Route::Shm { only: true });
        assert_eq!([one, two, apart].map(|n| Route::of(&tcp, n)), [Route::Fabric("tcp"); 3]);
        assert_eq!([one, two, apart].map(|n| Route::of(&both, n)), [Route::Both("tcp"); 3]);
    }
}
