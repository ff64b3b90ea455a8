//! Which wire ranks would take, by where they are, and why.

use super::provider::{Judgement, Provider};
use circulant::config::Provider as Asked;
use circulant::transport::route::Route;
use circulant::transport::shm;
use serde::Serialize;

/// What would be taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Wire {
    /// Where the ranks are.
    pub(super) ranks: &'static str,
    /// As `World::provider` calls it; none: nothing will do.
    pub(super) wire: Option<String>,
    pub(super) why: String,
}

pub(super) const HERE: &str = "all on this node";

/// Where ranks can be, as a node of each.
const PLACES: [(&str, &[u32]); 3] = [
    (HERE, &[0, 0]),
    ("on several nodes, some on the same", &[0, 0, 1]),
    ("on several nodes, one on each", &[0, 1]),
];

/// Whether our own shared memory can be had: nothing, or why not. That other processes can map it shows only when
/// there are some.
pub(super) fn shared_memory() -> Result<(), String> {
    shm::available().map_err(|e| e.to_string())
}

/// The wire for each place, of libfabric's providers as they were judged, and our own shared memory.
pub(super) fn wires(provider: &Asked, providers: &[Provider], shared: &Result<(), String>) -> Vec<Wire> {
    let best = |place: fn(&Provider) -> Option<&Judgement>| {
        providers.iter().find(|p| Provider::chosen(place(p))).map(|p| p.provider.clone())
    };
    let (on_one, between) = (best(|p| p.one_node.as_ref()), best(|p| p.several_nodes.as_ref()));
    let asked = match provider {
        Asked::Auto => "auto".to_owned(),
        _ => format!("CIRCULANT_PROVIDER is {provider}"),
    };
    let wire = |(ranks, nodes): (&'static str, &[u32])| {
        let one_node = nodes.iter().all(|n| *n == nodes[0]);
        let far = || if one_node { on_one.clone() } else { between.clone() };
        let (wire, why) = match (Route::of(provider, nodes), shared) {
            (Route::Shm { only: true }, _) if !one_node => {
                (None, format!("{asked}: it carries ranks of one node only"))
            }
            (Route::Shm { .. }, Ok(())) => {
                (Some("shm".to_owned()), format!("{asked}: our own shared memory"))
            }
            (Route::Shm { only: true }, Err(e)) => (None, format!("{asked}, but {e}")),
            (Route::Shm { only: false }, Err(e)) => (far(), format!("{asked}: the best provider, as {e}")),
            (Route::Both(_), Ok(())) => (
                between.as_ref().map(|far| format!("{far}+shm")),
                format!("{asked}: the best provider between nodes, our own shared memory within"),
            ),
            (Route::Both(_), Err(e)) => (None, format!("{asked}, but {e}")),
            (Route::Fabric(_), _) => (far(), format!("{asked}: the best of the table below")),
        };
        Wire { ranks, wire, why }
    };
    PLACES.into_iter().map(wire).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(provider: &str, shared: &Result<(), String>) -> [Option<String>; 3] {
        let chosen = Judgement { score: 1, chosen: true, rejected: None };
        let one = |provider: &str| Provider { provider: provider.to_owned(), ..Provider::default() };
        let providers = [
            Provider { one_node: Some(chosen.clone()), ..one("fi_shm") },
            Provider { several_nodes: Some(chosen), ..one("tcp") },
        ];
        let found = wires(&Asked::from(provider), &providers, shared);
        assert!(found.iter().all(|w| !w.why.is_empty()));
        found.into_iter().map(|w| w.wire).collect::<Vec<_>>().try_into().unwrap()
    }

    #[test]
    fn each_place_has_the_wire_that_a_job_would_take() {
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(names("auto", &Ok(())), [some("shm"), some("tcp+shm"), some("tcp")]);
        assert_eq!(names("shm", &Ok(())), [some("shm"), None, None]);
        assert_eq!(names("tcp+shm", &Ok(()))[0], some("tcp+shm"));
        assert_eq!(names("tcp", &Ok(())), [some("fi_shm"), some("tcp"), some("tcp")]);
        let none = Err("there is no memfd".to_owned());
        assert_eq!(names("auto", &none), [some("fi_shm"), None, some("tcp")]);
        assert_eq!(names("shm", &none)[0], None);
    }

    #[test]
    fn this_machine_has_shared_memory() {
        assert_eq!(shared_memory(), Ok(()));
    }
}
