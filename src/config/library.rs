//! Libraries that settings name. Loading one runs its code in this process, so a name comes from the environment in which the
//! program was started, or from an unsafe call.

/// The path or name of a library to load, such as `libfabric.so.1`: from the environment, or from [`Library::new`], which
/// is unsafe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Library(String);

impl Library {
    /// The library called `name`, for [`Config::set_libfabric`](super::Config::set_libfabric) and
    /// [`Builder::libfabric`](crate::comm::Builder::libfabric), and those for PMIx and PMI.
    ///
    /// # Safety
    /// As to load it by `dlopen` (or `libloading::Library::new`) and to call its functions: what it does when it is
    /// loaded must be sound in this process, and it must be a library of the kind that it is given for, libfabric, PMIx or
    /// PMI, since its functions are called with the prototypes of that.
    pub unsafe fn new(name: impl Into<String>) -> Self {
        Self::named(name)
    }

    /// The library that the environment names, or a default does.
    pub(super) fn named(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Its path or name; `auto` where the launcher says.
    pub fn name(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn a_library_is_set_by_an_unsafe_value() {
        let mut c = Config::defaults();
        assert_eq!(c.libfabric.name(), "libfabric.so.1");
        for name in ["libfabric", "libpmix", "libpmi"] {
            assert!(
                c.set(name, "/tmp/anything.so")
                    .unwrap_err()
                    .to_string()
                    .contains(&format!("Builder::{name}"))
            );
        }
        // SAFETY: it is not loaded.
        let [a, b, d] = ["/opt/a.so", "/opt/b.so", "/opt/d.so"].map(|name| unsafe { Library::new(name) });
        c.set_libfabric(a.clone());
        c.set_libpmix(b.clone());
        c.set_libpmi(d.clone());
        assert_eq!((&c.libfabric, &c.libpmix, &c.libpmi), (&a, &b, &d));
    }
}
