//! Libraries that settings name. Loading one runs its code in this process, so a name comes from the environment in which the
//! program was started, or from an unsafe call.

use super::{Config, Setting, index};
use crate::error::{Error, ErrorKind, Result};

/// The settings that name a library to load.
pub(super) const LIBRARIES: [&str; 3] = ["libfabric", "libpmix", "libpmi"];

/// Why such a setting is not [set](Config::set) like others.
pub(super) fn refused(setting: &Setting) -> Error {
    let what = format!("{}: it names a library to load, which no safe call can do", setting.variable);
    Error::new(ErrorKind::Config, what)
        .help("set the variable where the program is started, or pass the library to Builder::library")
}

/// The path or name of a library to load, such as `libfabric.so.1`: from the environment
/// ([`Config::library`](super::Config::library)), or from [`Library::new`], which is unsafe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library(String);

impl Library {
    /// The library called `name`, for [`Config::set_library`](super::Config::set_library) and
    /// [`Builder::library`](crate::comm::Builder::library).
    ///
    /// # Safety
    /// As to load it by `dlopen` (or `libloading::Library::new`) and to call its functions: what it does when it is
    /// loaded must be sound in this process, and it must be a library of the kind that it is given for, libfabric, PMIx or
    /// PMI, since its functions are called with the prototypes of that.
    pub unsafe fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Its path or name; `auto` where the launcher says.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Config {
    /// Sets `name`, one of `libfabric`, `libpmix` and `libpmi`, to a library to load.
    ///
    /// # Errors
    /// When it is none of these.
    pub fn set_library(&mut self, name: &str, library: Library) -> Result<()> {
        match index(name).filter(|_| LIBRARIES.contains(&name)) {
            Some(i) => {
                self.put(i, library.name().to_owned());
                Ok(())
            }
            None => Err(Error::new(ErrorKind::Config, format!("the setting {name:?} names no library"))
                .help(format!("those that do are {}", LIBRARIES.join(", ")))),
        }
    }

    /// The library that the setting `name` names, one of `libfabric`, `libpmix` and `libpmi`; of others one of no name.
    pub fn library(&self, name: &str) -> Library {
        // Its value comes from the environment or from a `Library`: no other may.
        Library(if LIBRARIES.contains(&name) { self.text(name).to_owned() } else { String::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_set_by_an_unsafe_value() {
        let mut config = Config::defaults();
        assert_eq!(config.library("libfabric").name(), "libfabric.so.1");
        // SAFETY: it is not loaded.
        let library = unsafe { Library::new("/opt/libfabric.so.1") };
        config.set_library("libfabric", library.clone()).unwrap();
        assert_eq!(
            (config.library("libfabric"), config.text("libfabric")),
            (library.clone(), library.name())
        );
        // No way round by another setting.
        assert!(config.set_library("tuning", library).is_err());
        config.set("tuning", "/tmp/anything.so").unwrap();
        assert_eq!(config.library("tuning").name(), "");
    }
}
