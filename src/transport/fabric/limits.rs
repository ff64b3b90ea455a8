//! What an endpoint can do, as libfabric says it and we believe it.

use super::library::{Info, Library};
use super::quirks::{Class, our_name, quirk};
use super::tags::TAG_BYTES;
use super::{LONG_MESSAGE_MAX, Limits, MESSAGE_MAX};
use crate::error::{Error, argument};
use crate::transport::{Borrow, COPIED_BELOW_BYTES, Copier, MemoryKind};
use libfabric_sys as fi;

/// The longest gather list that is used, whatever a provider offers. Chosen: lists of that many `iovec` are on the
/// stack (256 bytes).
pub(super) const MAX_GATHER: usize = 16;

/// The limits of the provider that `info` describes (but for [`Limits::wakes`]), its modes of registration, and the bytes of a
/// key.
pub(super) fn limits(lib: &Library, info: &Info) -> (Limits, u64, usize) {
    let i = info.get();
    // SAFETY: fi_getinfo's entries have all their attributes; the provider's name is a C string.
    let (name, max_put, gather, inject, mode, key) = unsafe {
        (
            std::ffi::CStr::from_ptr((*i.fabric_attr).prov_name).to_string_lossy().into_owned(),
            (*i.ep_attr).max_msg_size as u64,
            (*i.tx_attr).iov_limit,
            (*i.tx_attr).inject_size,
            u64::from((*i.domain_attr).mr_mode.cast_unsigned()),
            (*i.domain_attr).mr_key_size,
        )
    };
    let quirk = quirk(&name);
    let borrow = if quirk.caches && !lib.uncached() { Borrow::Staged } else { quirk.borrow };
    let gather = gather.clamp(1, MAX_GATHER.min(quirk.gather));
    let hardware = quirk.class == Class::Rdma;
    let longest = if hardware || max_put < (LONG_MESSAGE_MAX + TAG_BYTES) as u64 {
        MESSAGE_MAX
    } else {
        LONG_MESSAGE_MAX
    };
    let limits = Limits {
        max_put,
        gather,
        inject,
        message: (quirk.message - TAG_BYTES).min(longest),
        borrow,
        copied_below: if hardware { COPIED_BELOW_BYTES } else { 0 },
        copier: if hardware { Copier::Hardware } else { Copier::Sender },
        offsets: mode & fi::FI_MR_VIRT_ADDR == 0,
        chooses_keys: mode & fi::FI_MR_PROV_KEY != 0,
        memory: kinds(i),
        may_hang: quirk.may_hang,
        survives: quirk.survives,
        ..Limits::new(our_name(&name))
    };
    (limits, mode, key)
}

/// The kinds of memory that an endpoint as `info` describes it registers. Which of the devices' interfaces this libfabric has shows when
/// memory is registered.
pub(super) fn kinds(info: &fi::fi_info) -> &'static [MemoryKind] {
    if info.caps & fi::FI_HMEM != 0 { MemoryKind::ALL } else { &[MemoryKind::Host] }
}

#[cold]
pub(super) fn too_many(segments: usize, limit: usize) -> Error {
    argument(format!("a put of {segments} segments exceeds this provider's {limit}"))
}

#[cold]
pub(super) fn too_long(bytes: u64, limit: u64) -> Error {
    argument(format!("a put of {bytes} bytes exceeds this provider's {limit}"))
}
