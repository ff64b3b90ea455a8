//! libibverbs' ABI, as much of it as reliable connected queue pairs with a shared receive queue need.
//!
//! As for libfabric: structures and constants of rdma-core 44, generated and committed; the header's inline functions, which
//! call through the table of operations in a device's context; and the exported functions, looked up at run time in the
//! symbol version whose structures these are ([`Verbs`]). Names, meaning and rules are those of the manual pages.
//!
//! Two functions of the header are not what they are here: `ibv_query_port` and `ibv_reg_mr` are macros there, which pass
//! newer arguments where a provider knows them. What is exported under these names does all that is needed.

/// The generated part; names and meaning as in the manual pages ibv_create_qp(3), ibv_post_send(3), … of rdma-core 44.
#[allow(missing_docs, missing_debug_implementations, unreachable_pub)]
#[allow(non_camel_case_types, non_upper_case_globals, dead_code, clippy::all)]
mod bindings {
    #[cfg(not(feature = "bindgen"))]
    include!("bindings.rs");
    #[cfg(feature = "bindgen")]
    include!(concat!(env!("OUT_DIR"), "/verbs.rs"));
}

pub use bindings::*;

use crate::preserve::Preserved;
use libc::{c_char, c_int, c_uint, c_void};
use std::ffi::CStr;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// The library's name for the dynamic loader.
const NAME: &CStr = c"libibverbs.so.1";

/// Why libibverbs cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The loader's words, or which function is not there.
    pub why: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot load libibverbs.so.1 ({}); install it (Debian, Ubuntu: apt install libibverbs1 ibverbs-providers; \
             Fedora, RHEL: dnf install libibverbs)",
            self.why
        )
    }
}

impl std::error::Error for Missing {}

macro_rules! exported {
    ($($version:literal $name:ident($($arg:ident: $of:ty),*) $(-> $ret:ty)?;)*) => {
        // The headers' own prototypes must be what the look-ups are cast to. Never linked: only typed.
        $(const _: unsafe extern "C" fn($($of),*) $(-> $ret)? = $name;)*

        /// The functions that libibverbs exports, once loaded. It is never unloaded: so are the drivers that it loads.
        #[derive(Debug)]
        pub struct Verbs {
            $($name: unsafe extern "C" fn($($of),*) $(-> $ret)?,)*
            /// `None` where the library is older than rdma-core 34.
            reg_dmabuf_mr: Option<RegDmaBuf>,
        }

        impl Verbs {
            fn look_up(handle: *mut c_void) -> Result<Self, Missing> {
                // SAFETY: each address is the exported function of this name, in the symbol version whose prototype and
                // structures the bindings describe; the types are checked against them above.
                Ok(unsafe { Self { $($name: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn($($of),*) $(-> $ret)?,
                >(find(handle, concat!(stringify!($name), "\0"), concat!($version, "\0"))?),)* reg_dmabuf_mr: reg_dmabuf_mr(handle) } })
            }

            $(
                #[doc = concat!("See ", stringify!($name), "(3).")]
                ///
                /// # Safety
                /// Objects are open and were made by this library; pointers are valid for what the manual page says the
                /// call does with them, and for as long as it says.
                pub unsafe fn $name(&self, $($arg: $of),*) $(-> $ret)? {
                    // SAFETY: passed on.
                    unsafe { (self.$name)($($arg),*) }
                }
            )*
        }
    };
}

exported! {
    "IBVERBS_1.1" ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device;
    "IBVERBS_1.1" ibv_free_device_list(list: *mut *mut ibv_device);
    "IBVERBS_1.1" ibv_get_device_name(device: *mut ibv_device) -> *const c_char;
    "IBVERBS_1.1" ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
    "IBVERBS_1.1" ibv_close_device(context: *mut ibv_context) -> c_int;
    "IBVERBS_1.1" ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int;
    "IBVERBS_1.1" ibv_query_port(context: *mut ibv_context, port: u8, attr: *mut _compat_ibv_port_attr) -> c_int;
    "IBVERBS_1.1" ibv_query_gid(context: *mut ibv_context, port: u8, index: c_int, gid: *mut ibv_gid) -> c_int;
    "IBVERBS_1.1" ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    "IBVERBS_1.1" ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int;
    "IBVERBS_1.1" ibv_reg_mr(pd: *mut ibv_pd, start: *mut c_void, len: usize, access: c_int) -> *mut ibv_mr;
    "IBVERBS_1.1" ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
    "IBVERBS_1.0" ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
    "IBVERBS_1.0" ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int;
    "IBVERBS_1.1" ibv_create_cq(context: *mut ibv_context, entries: c_int, cq_context: *mut c_void, channel: *mut ibv_comp_channel, vector: c_int) -> *mut ibv_cq;
    "IBVERBS_1.1" ibv_destroy_cq(cq: *mut ibv_cq) -> c_int;
    "IBVERBS_1.1" ibv_get_cq_event(channel: *mut ibv_comp_channel, cq: *mut *mut ibv_cq, cq_context: *mut *mut c_void) -> c_int;
    "IBVERBS_1.1" ibv_ack_cq_events(cq: *mut ibv_cq, count: c_uint);
    "IBVERBS_1.1" ibv_create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq;
    "IBVERBS_1.1" ibv_destroy_srq(srq: *mut ibv_srq) -> c_int;
    "IBVERBS_1.1" ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    "IBVERBS_1.1" ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int;
    "IBVERBS_1.1" ibv_destroy_qp(qp: *mut ibv_qp) -> c_int;
    "IBVERBS_1.1" ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah;
    "IBVERBS_1.1" ibv_destroy_ah(ah: *mut ibv_ah) -> c_int;
    "IBVERBS_1.1" ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int;
    "IBVERBS_1.1" ibv_ack_async_event(event: *mut ibv_async_event);
    "IBVERBS_1.1" ibv_wc_status_str(status: ibv_wc_status) -> *const c_char;
    "IBVERBS_1.1" ibv_event_type_str(event: ibv_event_type) -> *const c_char;
}

/// The type of `ibv_reg_dmabuf_mr`.
type RegDmaBuf = unsafe extern "C" fn(*mut ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ibv_mr;
const _: RegDmaBuf = ibv_reg_dmabuf_mr;

fn reg_dmabuf_mr(handle: *mut c_void) -> Option<RegDmaBuf> {
    let found = find(handle, "ibv_reg_dmabuf_mr\0", "IBVERBS_1.12\0").ok()?;
    // SAFETY: the exported function of this name, whose type was checked above.
    Some(unsafe { std::mem::transmute::<*mut c_void, RegDmaBuf>(found) })
}

impl Verbs {
    /// See ibv_reg_dmabuf_mr(3). A library without it answers null, and EOPNOTSUPP as a device does whose driver lacks it.
    ///
    /// # Safety
    /// The domain is open and was made by this library; the range is valid in the file until it is deregistered.
    pub unsafe fn ibv_reg_dmabuf_mr(
        &self,
        pd: *mut ibv_pd,
        (fd, offset): (c_int, u64),
        (iova, len): (u64, usize),
        access: c_int,
    ) -> *mut ibv_mr {
        match self.reg_dmabuf_mr {
            // SAFETY: passed on.
            Some(call) => unsafe { call(pd, offset, len, iova, fd, access) },
            None => {
                // SAFETY: this thread's own number.
                unsafe { *libc::__errno_location() = libc::EOPNOTSUPP };
                std::ptr::null_mut()
            }
        }
    }
}

static LOADED: Mutex<Option<&'static Verbs>> = Mutex::new(None);

impl Verbs {
    /// Loads libibverbs, once per process. Signal handlers and this thread's CPU affinity survive.
    ///
    /// # Errors
    /// When the dynamic loader does not find it, or a function in it.
    pub fn load() -> Result<&'static Verbs, Missing> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(verbs) = *loaded {
            return Ok(verbs);
        }
        let _preserved = Preserved::take();
        // SAFETY: a C string. Loading runs the constructors of the system's libibverbs, which libfabric loads, too; the name
        // is not the environment's or a caller's to choose. RTLD_LOCAL keeps its symbols from satisfying others'.
        let handle = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(Missing { why: loader_error() });
        }
        let verbs: &'static Verbs = Box::leak(Box::new(Self::look_up(handle)?));
        *loaded = Some(verbs);
        Ok(verbs)
    }

    /// The words for a completion's status.
    pub fn status(&self, status: ibv_wc_status) -> String {
        // SAFETY: any number is allowed; the answer is null or a string constant.
        unsafe { text(self.ibv_wc_status_str(status)) }.unwrap_or_else(|| format!("status {status}"))
    }

    /// The words for an event of the device.
    pub fn event(&self, event: ibv_event_type) -> String {
        // SAFETY: any number is allowed; the answer is null or a string constant.
        unsafe { text(self.ibv_event_type_str(event)) }.unwrap_or_else(|| format!("event {event}"))
    }
}

/// A copy of the C string at `p`; none for null.
///
/// # Safety
/// `p` is null or a C string.
pub unsafe fn text(p: *const c_char) -> Option<String> {
    if p.is_null() {
        return None;
    }
    // SAFETY: not null, so a C string.
    Some(unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned())
}

fn loader_error() -> String {
    // SAFETY: dlerror's string is valid until this thread's next call of the family; it is copied.
    unsafe { text(libc::dlerror()) }.unwrap_or_else(|| "no reason given".into())
}

/// `symbol` and `version` end in a NUL.
fn find(handle: *mut c_void, symbol: &str, version: &str) -> Result<*mut c_void, Missing> {
    // SAFETY: the handle is open and is never closed; both are C strings.
    let found = unsafe { libc::dlvsym(handle, symbol.as_ptr().cast(), version.as_ptr().cast()) };
    match found.is_null() {
        true => Err(Missing { why: format!("it has no {}", symbol.trim_end_matches('\0')) }),
        false => Ok(found),
    }
}

macro_rules! inline {
    ($($name:ident($object:ident: $of:ty, $($arg:ident: $arg_of:ty),*) = $entry:ident;)*) => {$(
        #[doc = concat!("See ", stringify!($name), "(3): through the table of operations of the device's context.")]
        ///
        /// # Safety
        /// The object is open and was made by the loaded library; pointers are valid for what the manual page says the call
        /// does with them, and for as long as it says.
        pub unsafe fn $name($object: $of, $($arg: $arg_of),*) -> c_int {
            // SAFETY: an open object knows its context, whose table holds functions of the headers' types; the arguments are
            // the caller's promise.
            unsafe {
                match (*(*$object).context).ops.$entry {
                    Some(call) => call($object, $($arg),*),
                    None => libc::ENOSYS,
                }
            }
        }
    )*};
}

inline! {
    ibv_poll_cq(cq: *mut ibv_cq, room: c_int, completions: *mut ibv_wc) = poll_cq;
    ibv_req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) = req_notify_cq;
    ibv_post_send(qp: *mut ibv_qp, list: *mut ibv_send_wr, bad: *mut *mut ibv_send_wr) = post_send;
    ibv_post_recv(qp: *mut ibv_qp, list: *mut ibv_recv_wr, bad: *mut *mut ibv_recv_wr) = post_recv;
    ibv_post_srq_recv(srq: *mut ibv_srq, list: *mut ibv_recv_wr, bad: *mut *mut ibv_recv_wr) = post_srq_recv;
}
