//! libfabric and its providers, as they were judged.

use serde::Serialize;

/// The libfabric library that was loaded.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Library {
    pub(crate) version: String,
    pub(super) path: String,
    /// Its variables that matter, with what set them.
    pub(super) environment: Vec<String>,
}

/// An endpoint that libfabric offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Provider {
    pub(crate) provider: String,
    pub(super) domain: String,
    pub(super) address: String,
    /// None: not offered there.
    pub(crate) several_nodes: Option<Judgement>,
    pub(super) one_node: Option<Judgement>,
    pub(super) notify_bytes: usize,
    pub(super) max_put: u64,
    pub(super) gather: usize,
    pub(super) inject: usize,
    pub(super) memory: Registered,
}

/// What memory an endpoint registers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Registered {
    /// That of devices beside that of hosts: of ibverbs the kinds; of libfabric `FI_HMEM`, the capability that the provider offers where
    /// CIRCULANT_DEVICE_MEMORY asks for it, also on a machine without a device.
    pub(super) devices: Vec<String>,
    /// Page by page, when it is touched (on-demand paging).
    pub(super) on_demand: bool,
    /// By the file that a device's driver gives for it.
    pub(super) dmabuf: bool,
}

impl Registered {
    /// In words.
    pub(super) fn text(&self) -> String {
        let abilities = [(self.on_demand, "on demand"), (self.dmabuf, "dma-buf")];
        let abilities = abilities.into_iter().filter(|(can, _)| *can).map(|(_, name)| name);
        let all: Vec<&str> =
            std::iter::once("host").chain(self.devices.iter().map(String::as_str)).chain(abilities).collect();
        all.join(", ")
    }
}

impl Provider {
    /// Listed only to say that there is no such thing here.
    pub(crate) fn is_there(&self) -> bool {
        !(self.domain.is_empty() && self.address.is_empty())
    }

    /// What it says that it can do.
    pub(super) fn attributes(&self) -> String {
        let Self { provider, domain, notify_bytes, max_put, gather, inject, .. } = self;
        format!(
            "{provider} on {domain}: word {notify_bytes} B, longest put {max_put} B, gather {gather}, inject {inject} B"
        )
    }

    pub(super) fn chosen(place: Option<&Judgement>) -> bool {
        place.is_some_and(|j| j.chosen)
    }
}

/// How an endpoint fares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Judgement {
    pub(crate) score: i32,
    pub(super) chosen: bool,
    pub(crate) rejected: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_in_words_and_in_fields() {
        assert_eq!(Registered::default().text(), "host");
        let all = Registered { devices: vec!["CUDA".to_owned()], on_demand: true, dmabuf: true };
        assert_eq!(all.text(), "host, CUDA, on demand, dma-buf");
        let json = serde_json::to_string(&all).unwrap();
        assert_eq!(json, r#"{"devices":["CUDA"],"on_demand":true,"dmabuf":true}"#);
    }
}
