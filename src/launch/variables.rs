//! The environment of this process.

/// The value of a variable that is set to something.
pub(super) fn from_environment(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?;
    (!value.is_empty()).then(|| value.to_string_lossy().into_owned())
}
