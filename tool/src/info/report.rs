//! Everything that is shown.

use super::machine::{Interface, Limits};
use super::problem::Problem;
use super::provider::{Library, Provider};
use super::wires::Wire;
use serde::Serialize;

/// Everything that is shown.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(super) version: &'static str,
    pub(crate) host: String,
    /// What would be taken, and why.
    pub(super) wires: Vec<Wire>,
    pub(crate) libfabric: Option<Library>,
    pub(crate) providers: Vec<Provider>,
    pub(super) interfaces: Vec<Interface>,
    pub(crate) limits: Limits,
    pub(super) settings: Vec<Value>,
    pub(crate) problems: Vec<Problem>,
}

/// A setting's value and where it came from.
#[derive(Debug, Serialize)]
pub(crate) struct Value {
    pub(super) name: &'static str,
    pub(super) variable: &'static str,
    pub(super) value: String,
    pub(super) from: &'static str,
    pub(super) default: &'static str,
    pub(super) text: &'static str,
}

impl Report {
    /// The library, the endpoints that are offered for the setting `provider`, and the settings that were changed: a line each.
    pub(crate) fn about(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(library) = &self.libfabric {
            lines.push(format!("libfabric {} from {}", library.version, library.path));
            lines.extend(library.environment.iter().cloned());
        }
        lines.extend(self.providers.iter().filter(|p| p.is_there()).map(Provider::attributes));
        // One endpoint comes with several addresses.
        lines.dedup();
        let changed = self.settings.iter().filter(|s| s.value != s.default);
        lines.extend(changed.map(|s| format!("{}={}", s.variable, s.value)));
        lines
    }
}
