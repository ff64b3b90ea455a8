//! The headers' inline functions: each calls through a table that the provider filled in. Same names and
//! arguments as in C. An entry the provider left empty answers -FI_ENOSYS.

use crate::bindings::*;
use libc::{c_int, c_void, ssize_t};

const NOT_THERE: c_int = -FI_ENOSYS;

macro_rules! inline {
    ($($man:literal $name:ident($($arg:ident: $of:ty),*) -> $ret:ty = $table:expr, $entry:ident($($pass:expr),*);)*) => {$(
        #[doc = concat!("See ", $man, ".")]
        ///
        /// # Safety
        /// The object is open and was made by the loaded library; pointers are valid for what the manual
        /// page says the call does with them, and for as long as it says.
        #[allow(clippy::too_many_arguments)] // as many as in C
        pub unsafe fn $name($($arg: $of),*) -> $ret {
            // SAFETY: an open object has a table (libfabric's contract), whose entries are empty or
            // functions of the type the headers give; the arguments are the caller's promise.
            unsafe {
                match (*$table).$entry {
                    Some(call) => call($($pass),*),
                    None => NOT_THERE as $ret,
                }
            }
        }
    )*};
}

inline! {
    "fi_control(3), fi_close" fi_close(fid: *mut fid) -> c_int = (*fid).ops, close(fid);
    "fi_domain(3)" fi_domain(fabric: *mut fid_fabric, info: *mut fi_info, domain: *mut *mut fid_domain) -> c_int
        = (*fabric).ops, domain(fabric, info, domain, std::ptr::null_mut());
    "fi_endpoint(3)" fi_endpoint(domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep) -> c_int
        = (*domain).ops, endpoint(domain, info, ep, std::ptr::null_mut());
    "fi_endpoint(3)" fi_ep_bind(ep: *mut fid_ep, object: *mut fid, flags: u64) -> c_int
        = (*ep).fid.ops, bind(&raw mut (*ep).fid, object, flags);
    "fi_endpoint(3)" fi_enable(ep: *mut fid_ep) -> c_int
        = (*ep).fid.ops, control(&raw mut (*ep).fid, ENABLE, std::ptr::null_mut());
    "fi_cm(3)" fi_getname(ep: *mut fid_ep, address: *mut c_void, len: *mut usize) -> c_int
        = (*ep).cm, getname(&raw mut (*ep).fid, address, len);
    "fi_cq(3)" fi_cq_open(domain: *mut fid_domain, attr: *mut fi_cq_attr, cq: *mut *mut fid_cq) -> c_int
        = (*domain).ops, cq_open(domain, attr, cq, std::ptr::null_mut());
    "fi_cq(3)" fi_cq_read(cq: *mut fid_cq, entries: *mut c_void, count: usize) -> ssize_t
        = (*cq).ops, read(cq, entries, count);
    "fi_cq(3)" fi_cq_sread(cq: *mut fid_cq, entries: *mut c_void, count: usize, condition: *const c_void, milliseconds: c_int) -> ssize_t
        = (*cq).ops, sread(cq, entries, count, condition, milliseconds);
    "fi_cq(3)" fi_cq_readerr(cq: *mut fid_cq, entry: *mut fi_cq_err_entry, flags: u64) -> ssize_t
        = (*cq).ops, readerr(cq, entry, flags);
    "fi_av(3)" fi_av_open(domain: *mut fid_domain, attr: *mut fi_av_attr, av: *mut *mut fid_av) -> c_int
        = (*domain).ops, av_open(domain, attr, av, std::ptr::null_mut());
    "fi_av(3)" fi_av_insert(av: *mut fid_av, address: *const c_void, count: usize, to: *mut fi_addr_t, flags: u64) -> c_int
        = (*av).ops, insert(av, address, count, to, flags, std::ptr::null_mut());
    "fi_mr(3)" fi_mr_reg(domain: *mut fid_domain, start: *const c_void, len: usize, access: u64, key: u64, mr: *mut *mut fid_mr) -> c_int
        = (*domain).mr, reg(&raw mut (*domain).fid, start, len, access, 0, key, 0, mr, std::ptr::null_mut());
    "fi_mr(3)" fi_mr_regattr(domain: *mut fid_domain, attr: *const fi_mr_attr, flags: u64, mr: *mut *mut fid_mr) -> c_int
        = (*domain).mr, regattr(&raw mut (*domain).fid, attr, flags, mr);
    "fi_mr(3)" fi_mr_bind(mr: *mut fid_mr, object: *mut fid, flags: u64) -> c_int
        = (*mr).fid.ops, bind(&raw mut (*mr).fid, object, flags);
    "fi_mr(3)" fi_mr_enable(mr: *mut fid_mr) -> c_int
        = (*mr).fid.ops, control(&raw mut (*mr).fid, ENABLE, std::ptr::null_mut());
    "fi_msg(3)" fi_recv(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, from: fi_addr_t, context: *mut c_void) -> ssize_t
        = (*ep).msg, recv(ep, buf, len, desc, from, context);
    "fi_msg(3)" fi_send(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, to: fi_addr_t, context: *mut c_void) -> ssize_t
        = (*ep).msg, send(ep, buf, len, desc, to, context);
    "fi_msg(3)" fi_inject(ep: *mut fid_ep, buf: *const c_void, len: usize, to: fi_addr_t) -> ssize_t
        = (*ep).msg, inject(ep, buf, len, to);
    "fi_rma(3)" fi_writedata(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64, to: fi_addr_t, address: u64, key: u64, context: *mut c_void) -> ssize_t
        = (*ep).rma, writedata(ep, buf, len, desc, data, to, address, key, context);
    "fi_rma(3)" fi_inject_writedata(ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64, to: fi_addr_t, address: u64, key: u64) -> ssize_t
        = (*ep).rma, injectdata(ep, buf, len, data, to, address, key);
    "fi_rma(3)" fi_writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> ssize_t
        = (*ep).rma, writemsg(ep, msg, flags);
}

const ENABLE: c_int = FI_ENABLE as c_int;

/// fi_cq(3): the provider's words for an error, or the empty string.
///
/// # Safety
/// The queue is open; `error` was just filled by [`fi_cq_readerr`] on it.
pub unsafe fn fi_cq_strerror(cq: *mut fid_cq, error: &fi_cq_err_entry) -> String {
    let mut buf = [0 as libc::c_char; 256];
    // SAFETY: an open queue has a table; the buffer and its length match, and the answer is null, the
    // buffer or a string of the library's, NUL-terminated and copied before anything can change it.
    unsafe {
        let Some(call) = (*(*cq).ops).strerror else { return String::new() };
        let words = call(cq, error.prov_errno, error.err_data, buf.as_mut_ptr(), buf.len());
        if words.is_null() {
            return String::new();
        }
        std::ffi::CStr::from_ptr(words).to_string_lossy().into_owned()
    }
}

/// fi_mr(3): the descriptor that local use of the range needs where the provider asks for FI_MR_LOCAL.
///
/// # Safety
/// The registration is open.
pub unsafe fn fi_mr_desc(mr: *mut fid_mr) -> *mut c_void {
    // SAFETY: the caller's promise; the field is plain data.
    unsafe { (*mr).mem_desc }
}

/// fi_mr(3): the key peers use.
///
/// # Safety
/// The registration is open and enabled.
pub unsafe fn fi_mr_key(mr: *mut fid_mr) -> u64 {
    // SAFETY: the caller's promise; the field is plain data.
    unsafe { (*mr).key }
}
