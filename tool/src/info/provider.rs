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
    /// What memory it registers, beside that of hosts: `devices` by FI_HMEM, where that is asked for; of ibverbs the kinds; `on demand` and
    /// `dma-buf`, where the device can.
    pub(super) memory: Vec<String>,
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
