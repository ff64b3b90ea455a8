//! Settings by their names.

use crate::status::{given, string};
use circulant::Result;
use std::ffi::c_char;

/// What C calls `circulant_setting_t`.
#[repr(C)]
pub(crate) struct Setting {
    name: *const c_char,
    value: *const c_char,
}

impl Setting {
    /// Names and values.
    ///
    /// # Safety
    /// `settings` is null, or leads to `n` of them, whose texts live for `'a`.
    pub(crate) unsafe fn pairs<'a>(settings: *const Self, n: usize) -> Result<Vec<(&'a str, &'a str)>> {
        if n == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: our caller's.
        let all = unsafe { std::slice::from_raw_parts(given("settings", settings)?, n) };
        // SAFETY: as above.
        all.iter().map(|s| unsafe { Ok((string("a name", s.name)?, string("a value", s.value)?)) }).collect()
    }
}
